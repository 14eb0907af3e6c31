"""The kernel that learns levels a block at a time; everything else it hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from annealed.divergences import Array, BregmanDivergence, SquaredEuclidean
from annealed.kernels.array_rows import rows_at, to_host
from annealed.kernels.block.level import LARGEST_BLOCK, BlockLevel
from annealed.kernels.protocol import (
    ClassIndices,
    Integers,
    Kernel,
    LevelRun,
    NearestRun,
    Roles,
    Rows,
    Run,
    RunSettings,
    SampleFormat,
    SoftRun,
    State,
    WinnerRun,
)
from annealed.kernels.sparse_rows import SparseRows
from annealed.threads import with_one_blas_thread


class WarmUp:
    """A warm-up of the kernel that learns one sample at a time, which knows where it ends."""

    def __init__(self, host: Kernel, run: LevelRun, at_least: int) -> None:
        self.host, self.run, self.at_least = host, run, at_least

    @property
    def count(self) -> int:
        return self.run.count

    @property
    def seen(self) -> float:
        return self.run.seen

    @property
    def done(self) -> bool:
        return self.run.done

    @property
    def room(self) -> int:
        """Rows up to its end; it may go on."""
        return max(self.at_least - self.count, 1)

    def take(self, X: Rows, rows: Integers, weights: Array | None, roles: Roles | None) -> None:
        """Learn rows of X."""
        x = rows_at(X, rows)
        if not isinstance(x, SparseRows):
            x = np.ascontiguousarray(to_host(x))
        w = None if weights is None else weights[rows]
        self.host.learn([self.run], x, None, None, w, 0, len(x))

    def state(self) -> State:
        return self.run.state()

    def restore(self, state: State) -> None:
        self.run.restore(state)

    def read(self) -> State:
        return self.run.read()

    def feed(self, x: Any, sample_format: SampleFormat, w: float, /) -> bool:
        return False  # every sample is looked at

    def feed_and_keep(
        self, x: Any, sample_format: SampleFormat, w: float, rows: Array, at: int, /
    ) -> bool:
        return False

    def associations(self, *_: Any) -> None:
        return None


class BlockKernel(Kernel):
    """Levels by blocks of samples, as matrix products.

    Parameters
    ----------
    make : callable
        Makes the kernel of a divergence that does all the rest: it warms up, reads and fine-tunes,
        one sample at a time.
    divergence : BregmanDivergence
    largest : int
        The most rows of a block; with 1 every sample is learnt by itself.
    """

    def __init__(
        self,
        make: Callable[[BregmanDivergence], Kernel],
        divergence: BregmanDivergence,
        largest: int = LARGEST_BLOCK,
    ) -> None:
        self.divergence, self.largest = divergence, largest
        self.host = make(divergence)
        # What measures in the coordinates of levels.
        self.inside = self.host if divergence.matrix is None else make(SquaredEuclidean())

    # -- learning ------------------------------------------------------------------------------

    def begin_warm_up(self, d: int, at_least: int) -> WarmUp:
        return WarmUp(self.host, self.host.begin_warm_up(d, at_least), at_least)

    def begin_level(
        self,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> BlockLevel:
        matrix = self.divergence.matrix
        if matrix is not None:
            mu, axis = mu @ matrix, axis @ matrix
        return BlockLevel(
            self.divergence, self.inside, mu, rho, axis, memory, settings, low, high,
            self.largest,
        )  # fmt: skip

    @with_one_blas_thread
    def learn(
        self,
        runs: Sequence[LevelRun],
        X: Rows,
        order: Integers | None,
        classes: ClassIndices | None,
        weights: Array | None,
        begin: int,
        end: int,
        roles: Roles | None = None,
    ) -> int:
        if not 0 <= begin <= end <= len(X if order is None else order):
            raise IndexError("rows asked for are not in the array")
        rows = np.arange(begin, end) if order is None else order[begin:end]
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(X):
            raise IndexError("the order names rows that are not in the array")
        places = np.arange(len(rows))
        if weights is not None:
            places = np.flatnonzero(weights[rows] > 0)
        return begin + _learn(runs, X, rows, places, classes, weights, roles)

    def read(self, run: Run) -> State:
        if isinstance(run, WarmUp):
            return self.host.read(run.run)
        state = run.read()
        matrix = self.divergence.matrix
        if matrix is not None:
            for name in ("mu", "axis", "turned"):
                state[name] = np.ascontiguousarray(np.linalg.solve(matrix.T, state[name].T).T)
        return state

    def begin_soft_lvq(self, *given: Any) -> SoftRun:
        return self.host.begin_soft_lvq(*given)

    def begin_nearest(self, *given: Any) -> NearestRun:
        return self.host.begin_nearest(*given)

    def begin_winner(self, *given: Any) -> WinnerRun:
        return self.host.begin_winner(*given)

    # -- one sample at a time: each is looked at -------------------------------------------------

    def sample_format(self, keys: tuple[Any, ...] | None) -> None:
        return None

    def begin_stream(self, *parts: Any) -> None:
        return None

    # -- reading -------------------------------------------------------------------------------

    def divergences(self, X: Rows, mu: Array, relevance: Array | None = None) -> Array:
        return self.host.divergences(X, mu, relevance)

    def assign(self, X: Rows, mu: Array, log_weight: Array, T: float) -> Integers:
        return self.host.assign(X, mu, log_weight, T)

    def assign_groups(
        self, X: Rows, mu: Array, log_weight: Array, T: float, group: Integers, groups: int
    ) -> Integers:
        return self.host.assign_groups(X, mu, log_weight, T, group, groups)

    def associate(
        self,
        X: Rows,
        mu: Array,
        log_weight: Array,
        T: float,
        group: Integers,
        groups: int,
        sharpness: Array | None = None,
        relevance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        return self.host.associate(X, mu, log_weight, T, group, groups, sharpness, relevance)

    def losses(
        self,
        X: Rows,
        classes: ClassIndices,
        mu: Array,
        log_weight: Array,
        T: float,
        group: Integers,
        factors: Array,
    ) -> Array:
        return self.host.losses(X, classes, mu, log_weight, T, group, factors)

    def hard_sums(
        self, X: Rows, mu: Array, weights: Array | None
    ) -> tuple[Array, Array, Integers, float]:
        return self.host.hard_sums(X, mu, weights)


def _learn(
    runs: Sequence[LevelRun],
    X: Rows,
    rows: Integers,
    places: Integers,
    classes: ClassIndices | None,
    weights: Array | None,
    roles: Roles | None,
) -> int:
    """Present ``rows[places]``, each to the run of its class, until one is done; how far it came.

    Runs take rows up to where a block of theirs ends, whichever ends first.
    """
    at_of = {0: places}
    if classes is not None:
        own = classes[rows[places]]
        if len(own) and not 0 <= own.min() <= own.max() < len(runs):
            raise IndexError("a row is of a class that does not exist")
        present = np.flatnonzero(np.bincount(own, minlength=len(runs)))
        at_of = {int(c): places[own == c] if len(present) > 1 else places for c in present}
    taking = {c: _own(runs[c]) for c in at_of}
    taken = dict.fromkeys(at_of, 0)

    def take(c: int, end: int) -> None:
        some = at_of[c][taken[c] : end]
        if len(some):
            taking[c].take(X, rows[some], weights, roles)
        taken[c] = end

    while True:
        ends = {
            c: taken[c] + run.room
            for c, run in taking.items()
            if taken[c] + run.room <= len(at_of[c])
        }
        if not ends:
            break
        first = min(ends, key=lambda c: at_of[c][ends[c] - 1])
        take(first, ends[first])
        if taking[first].done:
            stop = int(at_of[first][ends[first] - 1]) + 1
            for c, at in at_of.items():
                if c != first:
                    take(c, int(np.searchsorted(at, stop)))
            return stop
    for c, at in at_of.items():
        take(c, len(at))
    return len(rows)


def _own(run: LevelRun) -> WarmUp | BlockLevel:
    if not isinstance(run, WarmUp | BlockLevel):
        raise TypeError(f"a {type(run).__name__} was begun by another kernel")
    return run
