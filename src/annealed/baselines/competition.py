"""Winner takes all, outside the hot loop: where codevectors start, and rows in the right order.

Vector quantization is the case of one class. Every class starts by itself: from all its rows in
`fit`, in a stream from its first ones, which are kept until there are enough. What happens depends
on the rows in their order alone, never on how calls cut them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence, check_matrix
from annealed.kernels import WORK_PER_CALL, RunOwner, kernel_for
from annealed.kernels.protocol import Kernel, WinnerRun
from annealed.stored import (
    Amount,
    Classes,
    Count,
    Matrix,
    Positive,
    State,
    Stored,
    StoredAs,
    Vector,
    among,
    between,
    one_length,
    one_width,
    require,
)

Integers = NDArray[np.int64]
ClassNumber = Annotated[int, between(0, 2**31)]
# Rounds of hard clustering that init="k-means" makes within a class.
ROUNDS = 10


@dataclass(frozen=True)
class Terms:
    """Every number that decides a competition.

    rule : "vq", "lvq1" or "glvq"
    size : codevectors of each class
    init : "random", "k-means++" or "k-means"
    given : codevectors to start from instead, one array for each class
    alpha, alpha_min : steps 1/(a + b v), v the updates of the codevector itself
    wait : rows of a class that a stream keeps before the class starts
    seed : decides where codevectors start
    """

    rule: Annotated[str, among("vq", "lvq1", "glvq")]
    size: Positive
    init: str
    given: tuple[Matrix, ...] | None
    alpha: tuple[float, float]
    alpha_min: Amount
    wait: Positive
    seed: Count


@dataclass(eq=False, repr=False)
class Competition(RunOwner):
    """Codevectors of one or several classes that compete for every sample.

    Parameters
    ----------
    divergence : BregmanDivergence
    terms : Terms
    """

    divergence: BregmanDivergence
    terms: Terms
    # Rows and weights a class has kept.
    waiting: dict[ClassNumber, tuple[Matrix, Vector]] = field(default_factory=dict)
    # The class of every codevector that competes.
    label: Classes = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    start: Matrix = field(default_factory=lambda: np.empty((0, 0)))  # where the current run began
    weight: Amount = 0.0  # of the rows that starts were made from,
    mean: Vector | None = None  # their mean,
    spread: Amount = 0.0  # and their mean divergence from the nearest start of their class
    kernel: Annotated[Kernel, Stored.NEVER] = field(init=False)
    run: Annotated[WinnerRun | None, StoredAs(State | None)] = None
    _provisional: Annotated[tuple[Matrix, Classes] | None, Stored.NEVER] = None

    def __post_init__(self) -> None:
        self.kernel = kernel_for(self.divergence)

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Codevectors and rows that wait are of one number of features."""
        begun, start, label = state["run"] is not None, state["start"], state["label"]
        require(
            begun == (state["mean"] is not None) == (len(label) > 0),
            "a competition has begun without codevectors",
        )
        for kept in state["waiting"].values():
            one_length("rows that wait", *kept)
        if begun:
            one_length("a competition", start, label)
            one_width("a competition", start.shape[1], state["mean"])
            require((label >= 0).all(), "a codevector has an impossible class")
            check_matrix(state["divergence"], start.shape[1])

    def check_rows(self, d: int | None) -> None:
        """Raise MalformedError unless there are rows, and all are of d features."""
        rows = [kept[0] for kept in self.waiting.values()]
        parts = rows if self.run is None else [self.start, *rows]
        require(parts, "a competition has no rows")
        one_width("a competition", d, *parts)

    @property
    def highest_class(self) -> int:
        """The number of the last class, of those that compete and those that wait."""
        return int(max([*self.label.tolist(), *self.waiting]))

    # -- copies --------------------------------------------------------------------------------

    def copy(self) -> Competition:
        """A twin that can go on by itself."""
        twin = copy.copy(self)
        twin.waiting = dict(self.waiting)
        if self.run is not None:
            twin.run = twin._new_run()
            twin.run.restore(self.run.state())
        return twin

    # -- learning ------------------------------------------------------------------------------

    def train(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32],
        weights: Array | None,
        passes: int,
        rng: np.random.Generator,
    ) -> Iterator[float]:
        """Start all classes from their rows, then present all rows, pass by pass.

        After every pass it gives the mean divergence of the rows from the nearest codevector, each
        before it was learnt; whoever calls decides whether another pass is worth it.
        """
        self._provisional = None
        present = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
        for c in np.unique(classes[present]).tolist():
            rows = present[classes[present] == c]
            w = np.ones(len(rows)) if weights is None else weights[rows]
            self._enter(c, np.asarray(X[rows], dtype=float), w)
        assert self.run is not None
        before, seen = 0.0, 0.0
        for _ in range(passes):
            self._present(X, rng.permutation(present), classes, weights)
            yield (self.run.distortion - before) / (self.run.seen - seen)
            before, seen = self.run.distortion, self.run.seen

    def absorb(self, X: NDArray[Any], classes: NDArray[np.int32], weights: Array | None) -> None:
        """Learn rows in order; those of a class that has not started yet are kept till it does."""
        self._provisional = None
        highest = int(classes.max(initial=0))
        if set(range(highest + 1)) <= set(self.label.tolist()):  # nobody has to be waited for
            self._present(X, None, classes, weights)
            return
        rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
        while len(rows):
            fresh = ~np.isin(classes[rows], self.label)
            end, starts = len(rows), None
            for c in np.unique(classes[rows[fresh]]).tolist():
                places = np.flatnonzero(classes[rows] == c)
                missing = self.terms.wait - (len(self.waiting[c][0]) if c in self.waiting else 0)
                if len(places) >= missing and places[missing - 1] < end:
                    end, starts = int(places[missing - 1]) + 1, c
            self._present(X, rows[:end][~fresh[:end]], classes, weights)
            self._keep(X, rows[:end][fresh[:end]], classes, weights)
            if starts is not None:
                kept, w = self.waiting.pop(starts)
                self._enter(starts, kept, w)
                of_class = np.full(len(kept), starts, dtype=np.int32)
                self._present(kept, np.arange(len(kept)), of_class, w)
            rows = rows[end:]

    def _keep(
        self, X: NDArray[Any], rows: Integers, classes: NDArray[np.int32], weights: Array | None
    ) -> None:
        for c in np.unique(classes[rows]).tolist():
            mine = rows[classes[rows] == c]
            kept = np.array(X[mine], dtype=float)
            w = np.ones(len(mine)) if weights is None else weights[mine]
            if c in self.waiting:
                kept = np.concatenate([self.waiting[c][0], kept])
                w = np.concatenate([self.waiting[c][1], w])
            self.waiting[c] = kept, w

    def _present(
        self,
        X: NDArray[Any],
        order: Integers | None,
        classes: NDArray[np.int32],
        weights: Array | None,
    ) -> None:
        """Hand rows to the kernel: those in ``order``, or all as they lie."""
        rows = len(X) if order is None else len(order)
        if not rows:
            return
        assert self.run is not None
        order = None if order is None else np.ascontiguousarray(order)
        at_once = max(1, WORK_PER_CALL // (X.shape[1] * (len(self.label) + 8)))
        for begin in range(0, rows, at_once):
            end = min(begin + at_once, rows)
            self.run.learn(X, order, classes, weights, begin, end)

    # -- starting ------------------------------------------------------------------------------

    def _enter(self, c: int, rows: Array, w: Array) -> None:
        """A class takes part from now on, with codevectors made from its rows."""
        share = w.sum() / (self.weight + w.sum())
        mean = np.average(rows, axis=0, weights=w)
        self.mean = mean if self.mean is None else self.mean + share * (mean - self.mean)
        low, high = self.divergence.bounds(self.mean)
        mu = np.clip(self._start(c, rows, w), low, high)
        nearest = self.kernel.divergences(rows, mu).min(axis=1)
        self.spread += share * (float(np.average(nearest, weights=w)) - self.spread)
        self.weight += float(w.sum())
        before = None if self.run is None else self.read()
        old = mu[:0] if before is None else np.clip(before["mu"], low, high)
        self.label = np.append(self.label, np.full(len(mu), c, dtype=np.int32))
        self.start = np.concatenate([old, mu])
        self.run = self._new_run()
        if before is not None:  # who was there keeps its place and its count
            state = self.run.state()
            state["updates"][: len(old)] = before["updates"]
            numbers = ("count", "seen", "distortion", "errors")
            self.run.restore(state | {name: before[name] for name in numbers})

    def _new_run(self) -> WinnerRun:
        a, b = self.terms.alpha
        assert self.mean is not None
        settings = {
            "rule": self.terms.rule,
            "a": a,
            "b": b,
            "alpha_min": self.terms.alpha_min,
            "n": 0.0,
            "scale": self.spread,
        }
        low, high = self.divergence.bounds(self.mean)
        return self.kernel.begin_winner(self.start, self.label, settings, low, high)

    def _start(self, c: int, rows: Array, w: Array) -> Array:
        if self.terms.given is not None:
            return self.terms.given[c]
        rng = np.random.default_rng([self.terms.seed, c])
        if self.terms.init == "random":
            return _distinct(rows, w, self.terms.size, rng)
        mu = _spread_out(self.divergence, rows, w, self.terms.size, rng)
        return mu if self.terms.init == "k-means++" else _hard(self.divergence, rows, w, mu)

    # -- reading -------------------------------------------------------------------------------

    def read(self) -> dict[str, Any]:
        """State of the run, in the coordinates of the data."""
        assert self.run is not None
        return self.kernel.read(self.run)

    def codebook(self) -> tuple[Array, NDArray[np.int32]]:
        """Codevectors and their classes; a class that waits stands where it would start now."""
        if self._provisional is None:
            parts = [] if self.run is None else [self.read()["mu"]]
            label = [self.label]
            for c, (rows, w) in sorted(self.waiting.items()):
                low, high = self.divergence.bounds(np.average(rows, axis=0, weights=w))
                parts.append(np.clip(self._start(c, rows, w), low, high))
                label.append(np.full(len(parts[-1]), c, dtype=np.int32))
            self._provisional = np.concatenate(parts), np.concatenate(label)
        return self._provisional

    def updates(self) -> Array:
        """v_i of every codevector (0 for those that wait)."""
        counts = np.zeros(len(self.codebook()[0]))
        if self.run is not None:
            counts[: len(self.label)] = self.run.state()["updates"]
        return counts


def _distinct(rows: Array, w: Array, K: int, rng: np.random.Generator) -> Array:
    """K rows drawn by weight, no two alike; fewer if there are not that many."""
    chosen: dict[bytes, int] = {}
    order = rng.choice(len(rows), len(rows), replace=False, p=w / w.sum(), shuffle=False)
    for i in order.tolist():
        chosen.setdefault((rows[i] + 0.0).tobytes(), i)  # -0.0 and 0.0 are alike
        if len(chosen) == K:
            break
    return np.array(rows[list(chosen.values())])


def _spread_out(
    divergence: BregmanDivergence, rows: Array, w: Array, K: int, rng: np.random.Generator
) -> Array:
    """k-means++ (Arthur and Vassilvitskii 2007) with d(x, nearest) for the squared distance.

    Fewer than K if there are not that many distinct rows. Rows on the boundary of the domain are
    moved inside first, where divergences from them are finite.
    """
    kernel = kernel_for(divergence)
    mean = np.average(rows, axis=0, weights=w)
    variance = np.average((rows - mean) ** 2, axis=0, weights=w)
    unit = divergence.unit(mean, variance)
    divergence.check_spread(unit, rows.min(axis=0), rows.max(axis=0))
    low, high = divergence.bounds(mean)
    inside = np.clip(rows, low, high)
    chosen = [int(rng.choice(len(rows), p=w / w.sum()))]
    nearest = np.full(len(rows), np.inf)
    while True:
        to_last = kernel.divergences(rows, inside[chosen[-1]][None, :])[:, 0]
        nearest = np.minimum(nearest, to_last)
        nearest[(inside == inside[chosen[-1]]).all(axis=1)] = 0.0
        mass = nearest * w
        if len(chosen) == K or not mass.sum() > 0:
            return np.array(rows[chosen])
        chosen.append(int(rng.choice(len(rows), p=mass / mass.sum())))


def _hard(divergence: BregmanDivergence, rows: Array, w: Array, mu: Array) -> Array:
    """A few rounds of hard clustering: codevectors become the means of their cells."""
    kernel, before = kernel_for(divergence), np.inf
    low, high = divergence.bounds(np.average(rows, axis=0, weights=w))
    for _ in range(ROUNDS):
        mu = np.clip(mu, low, high)
        mass, total, _, distortion = kernel.hard_sums(rows, mu, w)
        if not distortion < before:
            break
        before, used = distortion, mass > 0
        mu = np.where(used[:, None], total / np.where(used, mass, 1.0)[:, None], mu)
    return mu
