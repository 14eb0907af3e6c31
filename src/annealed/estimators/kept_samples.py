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
from annealed.path import Level
from annealed.stored import (
    Count,
    Matrix,
    Positive,
    State,
    Stored,
    Vector,
    between,
    dimensions,
    require,
)

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

AS_OF_LAST_LOOK = ("step", "held", "begin")


@dataclass(eq=False)
class KeptSamples:
    """The newest samples, and how the codebook that follows them did on the blocks so far.

    most : how many are kept
    seed : of every annealing
    rows, weights : room for them
    left : samples until they are looked at; all that changes between two looks
    since : samples since the stream began or changed, as of the last look
    seen : samples of the stream, as of the last look
    due : as many as there must be of these before they are annealed again; 0 for no more
    blocks : how many blocks since the annealing the others are compared with, at most the first few
    first : mean and variance of what these told (`_told`), averaged
    last : those of the last few blocks since then, one by one
    shares : of the clusters in the samples as they were annealed, and the variance of that
    without : for how many samples nothing has come of each of them
    """

    most: Positive
    seed: Count
    rows: Matrix
    weights: Vector
    left: Count
    since: Count = 0
    seen: Count = 0
    due: Count = 0
    blocks: Annotated[int, between(0, COMPARED + 1)] = 0
    first: Matrix = field(default_factory=lambda: np.zeros((2, 0)))
    last: Annotated[NDArray[np.float64], dimensions(3)] = field(
        default_factory=lambda: np.zeros((0, 2, 0))
    )
    shares: Matrix = field(default_factory=lambda: np.zeros((2, 0)))
    without: Vector = field(default_factory=lambda: np.zeros(0))
    # As of the last look: samples until the next one, how many were kept, where the next one goes.
    step: Annotated[int, Stored.NEVER] = 0
    held: Annotated[int, Stored.NEVER] = 0
    begin: Annotated[int, Stored.NEVER] = 0

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
        first, last = state["first"], state["last"]
        require(len(last) <= COMPARED, "there are too many blocks")
        require(first.shape == last.shape[1:], "blocks differ in what they tell")
        shape = (2, len(state["without"]))
        require(state["shares"].shape == shape, "clusters differ from their shares")

    def check_clusters(self, chosen: Level | None) -> None:
        """What blocks told is of the clusters that answer."""
        K = 0 if chosen is None else chosen.n_clusters
        width = 1 + 2 * K if self.blocks else self.first.shape[1]
        require(self.first.shape == (2, width), "blocks tell of other clusters")
        require(len(self.without) in (0, K), "shares are of other clusters")

    def __getstate__(self) -> State:
        rows, weights = self.in_order()
        state = {**self.__dict__, "rows": rows, "weights": weights}
        state |= {"since": self._since_now, "seen": self.seen_now}
        return {name: value for name, value in state.items() if name not in AS_OF_LAST_LOOK}

    def __setstate__(self, state: State) -> None:
        self.__dict__.update(state)
        self.step = self.left
        self._hold(state["rows"], state["weights"])

    def copy(self) -> KeptSamples:
        """A twin that can go on by itself."""
        twin = object.__new__(KeptSamples)
        twin.__dict__.update(self.__dict__)
        twin.rows, twin.weights = np.empty_like(self.rows), np.ones_like(self.weights)
        count = self.count
        twin.rows[:count], twin.weights[:count] = self.rows[:count], self.weights[:count]
        return twin

    @property
    def count(self) -> int:
        """How many are kept."""
        return min(self.held + self.step - self.left, self.most)

    @property
    def at(self) -> int:
        """Where the next one goes, in place of the oldest."""
        return (self.begin + self.step - self.left) % self.most

    @property
    def seen_now(self) -> int:
        """Samples of the stream."""
        return self.seen + self.step - self.left

    @property
    def _since_now(self) -> int:
        return self.since + self.step - self.left

    def _hold(self, rows: Array, weights: Array) -> None:
        """Keep these and no others."""
        self.rows, self.weights, self.held = rows, weights, len(rows)
        self.begin = self.held % self.most
        self._make_room()

    def _make_room(self) -> None:
        """For the samples until the next look: no more than what has been seen vouches for."""
        room = min(self.most, self.held + self.left)
        if len(self.rows) < room:
            room = min(self.most, 2 * room)
            rows, weights = np.empty((room, self.rows.shape[1])), np.ones(room)
            rows[: self.held], weights[: self.held] = (
                self.rows[: self.held], self.weights[: self.held],
            )  # fmt: skip
            self.rows, self.weights = rows, weights

    def in_order(self) -> tuple[Array, Array]:
        """The samples and their weights, the oldest first."""
        count, at = self.count, self.at
        if count < self.most:
            return self.rows[:count].copy(), self.weights[:count].copy()
        return np.roll(self.rows, -at, axis=0), np.roll(self.weights, -at)

    def add(self, rows: NDArray[Any], weights: Array | None) -> None:
        """Keep rows, at most as many as are left; those of no weight are none."""
        if weights is not None:
            rows, weights = rows[weights > 0], weights[weights > 0]
        place = (self.at + np.arange(len(rows))) % self.most
        self.rows[place] = rows
        self.weights[place] = 1.0 if weights is None else weights
        self.left -= len(rows)

    # -- when they are annealed ------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether they have doubled since they were annealed."""
        return 0 < self.due <= self._since_now

    def wait(self) -> None:
        """They are all alike: anneal them when there are twice as many."""
        self.due = 2 * self.since

    def begin_again(self, changed: bool) -> None:
        """They are annealed now: what comes next is compared with what comes then.

        ``changed``: the stream has; what is new of it is the last block.
        """
        self.look_again()
        self.since = BLOCK if changed else self.since
        self.due = self._next(self.since)
        self.blocks = 0
        self.look_again()

    def _count_samples(self) -> None:
        """Of the stream, those since the last look too."""
        self.since, self.seen = self._since_now, self.seen_now
        self.step = self.left

    def look_again(self) -> None:
        """Count the samples until the next look."""
        self.held, self.begin = self.count, self.at
        self._count_samples()
        until_due = self.due - self.since
        self.step = self.left = min(BLOCK, until_due) if until_due > 0 else BLOCK
        self._make_room()
        self.weights[(self.begin + np.arange(self.step)) % self.most] = 1.0

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
        block = _told(np.sqrt(np.maximum(losses, 0.0) / T), clusters, K)
        if self._misses(block[0, 1 : 1 + K] == 0, len(losses)):
            return True
        if not self.blocks:
            self.blocks, self.first, self.last = 1, block, block[None][:0]
            return False
        self.last = np.concatenate([self.last[1 - COMPARED :], block[None]])
        n = len(self.last)
        if self._differ(block, 1) or (n > 1 and self._differ(self.last.sum(axis=0) / n, n)):
            return True
        if self.blocks < COMPARED:
            self.blocks += 1
            self.first = self.first + (block - self.first) / self.blocks
            self.last = self.last[:0]
        return False

    def expect(self, clusters: NDArray[np.int64], K: int) -> None:
        """Samples of these clusters, as they have been annealed, are to come."""
        self.shares = _told(np.zeros(len(clusters)), clusters, K)[:, 1 : 1 + K]
        self.without = np.zeros(K)

    def _misses(self, none: NDArray[np.bool_], n: int) -> bool:
        """Whether nothing has come of a cluster for so long that it is no chance."""
        if len(none) != len(self.without):
            return False
        self.without = np.where(none, self.without + n, 0.0)
        share, variance = self.shares
        return bool((share * np.sqrt(self.without) > BEYOND * np.sqrt(variance))[none].any())

    def _differ(self, told: Array, n: int) -> bool:
        """Whether n blocks, averaged, differ from the first ones."""
        variance = np.maximum(self.first[1], told[1])
        error = np.sqrt(variance * ((1 / self.blocks + 1 / n) / BLOCK))
        change = np.abs(told[0] - self.first[0])
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
            self._count_samples()
            self._hold(rows[~far], weights[~far])


def _told(distance: Array, clusters: NDArray[np.int64], K: int) -> Array:
    """Mean and variance of distances, and for every cluster of what is in it and its distances.

    The variance is as large as makes the mean as uncertain as it is: where a sample is like the one
    before, as many of them tell less, with a correlation of r between neighbours (1 - r)/(1 + r) as
    much.
    """
    n = len(distance)
    own = clusters + 1  # 0: in none
    follows = np.where(own[1:] == own[:-1], own[1:], 0)
    products = distance[1:] * distance[:-1]
    together, pairs = np.bincount(own, minlength=K + 1), np.bincount(follows, minlength=K + 1)
    sums = [np.bincount(own, weights, K + 1) for weights in (distance, distance**2)]
    crossed = np.bincount(follows, products, K + 1)
    first = np.concatenate([[distance.sum()], together[1:], sums[0][1:]]) / n
    second = np.concatenate([[(distance**2).sum()], together[1:], sums[1][1:]]) / n
    along = np.concatenate([[products.sum()], pairs[1:], crossed[1:]]) / (n - 1)
    variance = np.maximum(second - first**2, 0.0)
    alike = np.clip((along - first**2) / np.where(variance > 0, variance, 1.0), 0.0, 1 - 2 / n)
    return np.array([first, variance * (1 + alike) / (1 - alike)])
