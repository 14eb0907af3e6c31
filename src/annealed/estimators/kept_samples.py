"""The newest samples of a stream of clusters: when they are annealed, and when it has changed.

An annealing that takes every sample once needs tens of thousands of them for its ladder. The same
ladder over a few samples that are kept needs a hundred, and less than a second. So a stream keeps
its newest ones and anneals them as `fit` would, first after some of them and again whenever they
have doubled, until no more are kept. In between, and from then on, the codebook that was found
follows the samples, block by block compared with what it was like at first: where the samples lie
farther from it, or its clusters have other shares, the stream has changed. What is kept of before
is then only what the newest samples still come near to, and it is annealed again.

All of it is decided by the samples and their number alone, never by how calls cut them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.stored import Count, Matrix, Positive, State, Stored, Vector, dimensions, require

# Samples that are annealed first, and for each cluster that is asked for.
FIRST = 125
FIRST_PER_CLUSTER = 4
# Samples that are looked at together, and the fewest that can be kept.
BLOCK = 250
LEAST_KEPT = 2 * BLOCK
# The first few blocks after an annealing are compared with the last few.
COMPARED = 4
# What differs by so many standard errors, and by this much at least (shares of all samples;
# distances in units of the square root of T), is no chance.
BEYOND = 5.0
OF_ACCOUNT = 0.01
# How many samples of a stream that has not changed count as near to its newest ones.
NEAR = 0.98

Blocks = Annotated[NDArray[np.float64], dimensions(3)]


@dataclass(eq=False)
class KeptSamples:
    """The newest samples, and how the codebook that follows them did on the blocks so far.

    most : how many are kept
    seed : of every annealing
    rows, weights : room for them; the next one goes ``at``, in place of the oldest
    left : samples until they are looked at
    since : samples since the stream began or changed
    due : as many as there must be of these before they are annealed again; 0 for no more
    first_blocks, last_blocks : means and variances (`_variance`) of what the first blocks since
        the annealing told, and the last
    shares : of the clusters in the samples as they were annealed, and the variance of that
    without : for how many samples nothing has come of each of them
    """

    most: Positive
    seed: Count
    rows: Matrix
    weights: Vector
    left: Count
    since: Count = 0
    due: Count = 0
    first_blocks: Blocks = field(default_factory=lambda: np.zeros((0, 2, 0)))
    last_blocks: Blocks = field(default_factory=lambda: np.zeros((0, 2, 0)))
    shares: Matrix = field(default_factory=lambda: np.zeros((2, 0)))
    without: Vector = field(default_factory=lambda: np.zeros(0))
    at: Annotated[int, Stored.NEVER] = 0
    count: Annotated[int, Stored.NEVER] = 0

    @classmethod
    def new(cls, most: int, first: int, d: int, seed: int, known: int = 0) -> KeptSamples:
        """None yet, to be annealed when there are ``first`` of them.

        ``known``: on how many samples the model rests that is there already.
        """
        kept = cls(most, seed, np.empty((0, d)), np.empty(0), 0)
        kept.since, kept.due = known, kept._next(known) if known else first
        kept.look_again()
        return kept

    @classmethod
    def check_stored(cls, state: State) -> None:
        """No more samples than are kept, all of them finite."""
        rows, weights = state["rows"], state["weights"]
        require(len(rows) == len(weights) <= state["most"], "there are too many samples")
        require(np.isfinite(rows).all() and np.isfinite(weights).all(), "samples are not finite")
        require((weights > 0).all(), "a sample that is kept has no weight")
        require(0 < state["left"] <= BLOCK, "samples are never looked at")
        first, last = state["first_blocks"], state["last_blocks"]
        require(len(first) <= COMPARED and len(last) <= COMPARED, "there are too many blocks")
        require(
            not len(last) or first.shape[1:] == last.shape[1:], "blocks differ in what they tell"
        )

        shape = (2, len(state["without"]))
        require(state["shares"].shape == shape, "clusters differ from their shares")

    def __getstate__(self) -> State:
        rows, weights = self.in_order()
        state = {**self.__dict__, "rows": rows, "weights": weights}
        return {name: value for name, value in state.items() if name not in ("at", "count")}

    def __setstate__(self, state: State) -> None:
        self.__dict__.update(state)
        self._hold(state["rows"], state["weights"])

    def copy(self) -> KeptSamples:
        """A twin that can go on by itself."""
        twin = object.__new__(KeptSamples)
        twin.__dict__.update(self.__dict__)
        twin.rows, twin.weights = np.empty_like(self.rows), np.empty_like(self.weights)
        twin.rows[: self.count] = self.rows[: self.count]
        twin.weights[: self.count] = self.weights[: self.count]
        return twin

    def _hold(self, rows: Array, weights: Array) -> None:
        """Keep these and no others."""
        self.rows, self.weights = rows, weights
        self.count = len(rows)
        self.at = self.count % self.most
        self._make_room()

    def _make_room(self) -> None:
        """For the samples until the next look: no more than what has been seen vouches for."""
        room = min(self.most, self.count + self.left)
        if len(self.rows) < room:
            room = min(self.most, 2 * room)
            rows, weights = np.empty((room, self.rows.shape[1])), np.empty(room)
            rows[: self.count], weights[: self.count] = (
                self.rows[: self.count], self.weights[: self.count],
            )  # fmt: skip
            self.rows, self.weights, self.at = rows, weights, self.count % self.most

    def in_order(self) -> tuple[Array, Array]:
        """The samples and their weights, the oldest first."""
        if self.count < self.most:
            return self.rows[: self.count].copy(), self.weights[: self.count].copy()
        return np.roll(self.rows, -self.at, axis=0), np.roll(self.weights, -self.at)

    def add(self, rows: NDArray[Any], weights: Array | None) -> None:
        """Keep rows, at most as many as are left; those of no weight are none."""
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        place = (self.at + np.arange(len(rows))) % self.most
        self.rows[place] = rows
        self.weights[place] = 1.0 if weights is None else weights
        self.count = min(self.count + len(rows), self.most)
        self.at = (self.at + len(rows)) % self.most
        self.left -= len(rows)
        self.since += len(rows)

    def added_one(self, w: float) -> None:
        """A row was written to where the next one goes."""
        self.weights[self.at] = w
        self.at = (self.at + 1) % self.most
        self.count = min(self.count + 1, self.most)
        self.left -= 1
        self.since += 1

    # -- when they are annealed ------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether they have doubled since they were annealed."""
        return 0 < self.due <= self.since

    def wait(self) -> None:
        """They are all alike: anneal them when there are twice as many."""
        self.due = 2 * self.since

    def begin_again(self, changed: bool) -> None:
        """They are annealed now: what comes next is compared with what comes then.

        ``changed``: the stream has; what is new of it is the last block.
        """
        self.since = BLOCK if changed else self.since
        self.due = self._next(self.since)
        self.first_blocks = self.last_blocks = np.zeros((0, 2, 0))
        self.look_again()

    def look_again(self) -> None:
        """Count the samples until the next look."""
        self.left = min(BLOCK, self.due - self.since) if self.due > self.since else BLOCK
        self._make_room()

    def _next(self, known: int) -> int:
        return 0 if known >= self.most else min(2 * known, self.most)

    # -- whether the stream has changed ----------------------------------------------------------

    def newest(self, n: int) -> Array:
        """The newest samples, the oldest of them first."""
        return self.rows[(self.at - n + np.arange(n)) % self.most]

    def has_changed(self, losses: Array, clusters: NDArray[np.int64], K: int, T: float) -> bool:
        """Whether the newest samples differ from the first since the annealing beyond chance.

        Those of the block that ends here, and those of the last few together, in the share of every
        cluster and in how far its samples lie from the codebook.

        Parameters
        ----------
        losses : ndarray of shape (n,)
            Divergences of the samples of the block to the codebook that follows them.
        clusters : ndarray of shape (n,)
        K : int
            The number of clusters.
        T : float
        """
        member = clusters[:, None] == np.arange(K)
        distance = np.sqrt(losses / T)
        told = np.column_stack([distance, member, member * distance[:, None]])
        block = np.array([[told.mean(axis=0), _variance(told)]])
        if self._misses(block[0, 0, 1 : 1 + K] == 0, len(losses)):
            return True
        if not len(self.first_blocks):
            self.first_blocks, self.last_blocks = block, block[:0]
            return False
        self.last_blocks = np.concatenate([self.last_blocks, block])[-COMPARED:]
        if any(self._differ(newest) for newest in {1, len(self.last_blocks)}):
            return True
        if len(self.first_blocks) < COMPARED:
            self.first_blocks = np.concatenate([self.first_blocks, block])
            self.last_blocks = self.last_blocks[:0]
        return False

    def expect(self, clusters: NDArray[np.int64], K: int) -> None:
        """Samples of these clusters, as they have been annealed, are to come."""
        member = (clusters[:, None] == np.arange(K)).astype(float)
        self.shares = np.array([member.mean(axis=0), _variance(member)])
        self.without = np.zeros(K)

    def _misses(self, none: NDArray[np.bool_], n: int) -> bool:
        """Whether nothing has come of a cluster for so long that it is no chance."""
        if len(none) != len(self.without):
            return False
        self.without = np.where(none, self.without + n, 0.0)
        share, variance = self.shares
        return bool((share * np.sqrt(self.without) > BEYOND * np.sqrt(variance))[none].any())

    def _differ(self, newest: int) -> bool:
        before, now = self.first_blocks, self.last_blocks[-newest:]
        m, n = len(before), len(now)
        within = np.maximum(before[:, 1].mean(axis=0), now[:, 1].mean(axis=0)) / BLOCK
        error = np.sqrt(within * (1 / m + 1 / n))
        change = np.abs(now[:, 0].mean(axis=0) - before[:, 0].mean(axis=0))
        return bool((change > BEYOND * error + OF_ACCOUNT).any())

    def forget_what_is_gone(
        self, divergence: BregmanDivergence, clusters: NDArray[np.int64] | None = None
    ) -> None:
        """If the newest block no longer comes near to older samples, forget those.

        Where the clusters of all samples are given, only in clusters that the block has samples of.
        """
        rows, weights = self.in_order()
        n = BLOCK
        older = np.ones(len(rows), dtype=bool)
        older[-n:] = False
        if clusters is not None:
            older &= np.isin(clusters, clusters[-n:])
        if not older.any():
            return
        recent = np.clip(rows[-n:], *divergence.bounds(rows.mean(axis=0)))
        distance = kernel_for(divergence).divergences(rows, recent)
        distance[np.arange(-n, 0), np.arange(n)] = np.inf  # from itself
        nearest = distance.min(axis=1)
        far = older & (nearest > np.quantile(nearest[-n:], NEAR))
        chance = np.sqrt(NEAR * (1 - NEAR) * (1 / n + 1 / older.sum()))
        if far[older].mean() > 1 - NEAR + BEYOND * chance:
            self._hold(rows[~far], weights[~far])


def _variance(told: Array) -> Array:
    """The variance of each column, as large as makes its mean as uncertain as it is.

    Where a sample is like the one before, as many of them tell less: with a correlation of r
    between neighbours (1 - r)/(1 + r) as much.
    """
    centred = told - told.mean(axis=0)
    variance = (centred**2).mean(axis=0)
    along = (centred[1:] * centred[:-1]).mean(axis=0) / np.where(variance > 0, variance, 1.0)
    alike = np.clip(along, 0.0, 1 - 2 / len(told))
    return np.asarray(variance * (1 + alike) / (1 - alike))
