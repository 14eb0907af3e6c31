"""The compiled kernel: the formulas of `annealed.kernels.reference`, in C++.

It is built for any x86-64-v2 machine, for those with AVX2 and FMA and for those with AVX-512; the
fastest one that this machine can run is chosen here, once, at import. Whatever learns or reads many
rows releases the GIL; reading shares rows out to threads (cpp/threads.hpp), learning shares out the
codevectors of a large codebook (cpp/team.hpp).

A Mahalanobis divergence (x - mu)' L L' (x - mu) is the squared Euclidean one of x L. Codevectors
cross into those coordinates when a run begins and come back when it is read; rows are transformed
as they are read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import LARGEST, Array, BregmanDivergence
from annealed.kernels import sparse_rows
from annealed.kernels.array_rows import ArrayRows
from annealed.kernels.block import reading
from annealed.kernels.protocol import (
    ClassIndices,
    Integers,
    Kernel,
    LevelRun,
    NearestRun,
    RecordReader,
    Roles,
    Rows,
    Run,
    RunSettings,
    SampleFormat,
    SoftRun,
    State,
    StreamRun,
    WinnerRun,
)
from annealed.kernels.sparse_rows import SparseRows, dense
from annealed.threads import n_threads, threads_for


def _fastest_core() -> ModuleType:
    baseline = importlib.import_module("annealed.kernels._core_baseline")
    if baseline.cpu_has_avx512():
        return importlib.import_module("annealed.kernels._core_avx512")
    if baseline.cpu_has_avx2():
        return importlib.import_module("annealed.kernels._core_avx2")
    return baseline


core = _fastest_core()
_learn: Callable[..., int] = core.learn
_warm_up: Callable[..., LevelRun] = core.WarmUp
_sample_format: Callable[..., SampleFormat] = core.SampleFormat
_stream: Callable[..., StreamRun] = core.Stream
_running_standardise: Callable[..., Array] = core.running_standardise
_measure_level: Callable[..., tuple[Array, Array, Array, Array]] = core.measure_level
_column_ranges: Callable[..., tuple[Array, Array, bool]] = core.column_ranges


@dataclass(frozen=True)
class _Compiled:
    """What the core has for one divergence; the types of what it returns stand here."""

    level: Callable[..., LevelRun]
    soft_lvq: Callable[..., SoftRun]
    nearest: Callable[..., NearestRun]
    winner: Callable[..., WinnerRun]
    divergences: Callable[..., Array]
    assign: Callable[..., Integers]
    associate: Callable[..., tuple[Array, Array, Array]]
    losses: Callable[..., Array]
    hard_sums: Callable[..., tuple[Array, Array, Integers, float]]


def _compiled(class_name: str, suffix: str) -> _Compiled:
    return _Compiled(
        level=getattr(core, f"{class_name}Level"),
        soft_lvq=getattr(core, f"{class_name}SoftLVQ"),
        nearest=getattr(core, f"{class_name}Nearest"),
        winner=getattr(core, f"{class_name}Winner"),
        divergences=getattr(core, f"divergences_{suffix}"),
        assign=getattr(core, f"assign_{suffix}"),
        associate=getattr(core, f"associate_{suffix}"),
        losses=getattr(core, f"losses_{suffix}"),
        hard_sums=getattr(core, f"hard_sums_{suffix}"),
    )


_COMPILED = {
    "squared_euclidean": _compiled("SquaredEuclidean", "squared_euclidean"),
    "i_divergence": _compiled("IDivergence", "i_divergence"),
    "itakura_saito": _compiled("ItakuraSaito", "itakura_saito"),
    "logistic": _compiled("Logistic", "logistic"),
}


class CompiledKernel(Kernel):
    """The C++ kernel of a built-in divergence.

    Parameters
    ----------
    divergence : BregmanDivergence
        One with a ``kernel``.
    """

    def __init__(self, divergence: BregmanDivergence) -> None:
        if divergence.kernel is None:
            raise ValueError(f"{divergence!r} is not compiled: ReferenceKernel runs it")
        self.divergence = divergence
        self._compiled = _COMPILED[divergence.kernel]

    def _embed(self, rows: Array) -> Array:
        matrix = self.divergence.matrix
        inside = rows if matrix is None else rows @ matrix
        return np.ascontiguousarray(inside, dtype=float)

    def _back(self, rows: Array) -> Array:
        matrix = self.divergence.matrix
        if matrix is None:
            return rows
        return np.ascontiguousarray(np.linalg.solve(matrix.T, rows.T).T)

    # -- learning ------------------------------------------------------------------------------

    def begin_warm_up(self, d: int, at_least: int) -> LevelRun:
        return _warm_up(d, at_least, self.divergence.matrix)

    def begin_level(
        self,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> LevelRun:
        return self._compiled.level(
            self._embed(mu),
            np.ascontiguousarray(rho, dtype=float),
            self._embed(axis),
            np.ascontiguousarray(memory, dtype=float),
            settings,
            low,
            high,
            self.divergence.matrix,
        )

    def begin_soft_lvq(
        self,
        mu: Array,
        bias: Array,
        sharpness: Array,
        relevance: Array,
        first_of: Integers,
        unit: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> SoftRun:
        return self._compiled.soft_lvq(
            self._embed(mu), bias, sharpness, relevance, first_of, unit, settings, low, high,
            self.divergence.matrix,
        )  # fmt: skip

    def begin_nearest(
        self,
        start: Array,
        room: int,
        classes: int,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> NearestRun:
        inside = self._embed(start[None, :])[0]
        return self._compiled.nearest(
            inside, room, classes, settings, low, high, self.divergence.matrix
        )

    def begin_winner(
        self, mu: Array, classes: ClassIndices, settings: RunSettings, low: Array, high: Array
    ) -> WinnerRun:
        return self._compiled.winner(
            self._embed(mu),
            np.ascontiguousarray(classes, dtype=np.int32),
            settings,
            self.divergence.simplex,
            np.ascontiguousarray(low, dtype=float),
            np.ascontiguousarray(high, dtype=float),
            self.divergence.matrix,
        )

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
        if isinstance(X, SparseRows):
            return self._learn_sparse(runs, X, order, classes, weights, begin, end, roles)
        return _learn(runs, X, order, classes, weights, begin, end, roles, n_threads())

    def _learn_sparse(
        self,
        runs: Sequence[LevelRun],
        X: SparseRows,
        order: Integers | None,
        classes: ClassIndices | None,
        weights: Array | None,
        begin: int,
        end: int,
        roles: Roles | None,
    ) -> int:
        """The same bits as of dense rows: where they are cut cannot be seen."""
        while begin < end:
            stop = min(end, begin + X.at_a_time)
            rows = np.arange(begin, stop) if order is None else order[begin:stop]
            own = [None if each is None else each[rows] for each in (classes, weights, roles)]
            done = _learn(runs, dense(X[rows]), None, *own[:2], 0, len(rows), own[2], n_threads())
            begin += done
            if done < len(rows) or any(run.done for run in runs):
                break
        return begin

    def read(self, run: Run) -> State:
        state = run.read()
        for name in ("mu", "axis", "turned", "mean", "last"):
            if name in state:
                state[name] = self._back(state[name])
        return state

    # -- one sample at a time ------------------------------------------------------------------

    def sample_format(self, keys: tuple[Any, ...] | None) -> SampleFormat | None:
        if self.divergence.simplex:
            return None
        low, high = max(self.divergence.low, -LARGEST), min(self.divergence.high, LARGEST)
        return _sample_format(keys, low, high)

    def begin_stream(
        self,
        sample_format: SampleFormat,
        levels: Sequence[LevelRun],
        before: Array,
        T: float,
        tested: Sequence[SoftRun | NearestRun],
        shares: Array,
        kept: Sequence[NearestRun],
        factor: Array,
        answers: Sequence[NDArray[np.float32]],
        classes: ClassIndices,
        counted: Array,
    ) -> StreamRun:
        return _stream(
            sample_format, levels, before, T, tested, shares, kept, factor, answers, classes,
            counted,
        )  # fmt: skip

    # -- reading -------------------------------------------------------------------------------

    def divergences(self, X: Rows, mu: Array, relevance: Array | None = None) -> Array:
        if isinstance(X, ArrayRows):
            return reading.divergences(self.divergence, X, mu, relevance)
        if isinstance(X, SparseRows):
            if relevance is None:
                return sparse_rows.divergences(self, X, mu)
            blocks = [self.divergences(dense(rows), mu, relevance) for _, rows in X.blocks()]
            return np.concatenate(blocks)
        return self._compiled.divergences(
            X, self._embed(mu), relevance, self.divergence.matrix, _threads(X, mu)
        )

    def assign(self, X: Rows, mu: Array, log_weight: Array, T: float) -> Integers:
        if isinstance(X, ArrayRows):
            return reading.assign(self.divergence, X, mu, log_weight, T)
        if isinstance(X, SparseRows):
            return sparse_rows.assign(self, X, mu, log_weight, T)
        return self._compiled.assign(
            X, self._embed(mu), log_weight, T, None, 0, self.divergence.matrix, _threads(X, mu)
        )

    def assign_groups(
        self, X: Rows, mu: Array, log_weight: Array, T: float, group: Integers, groups: int
    ) -> Integers:
        if isinstance(X, ArrayRows):
            return reading.assign_groups(self.divergence, X, mu, log_weight, T, group, groups)
        if isinstance(X, SparseRows):
            return sparse_rows.assign_groups(self, X, mu, log_weight, T, group, groups)
        return self._compiled.assign(
            X, self._embed(mu), log_weight, T, group, groups, self.divergence.matrix,
            _threads(X, mu),
        )  # fmt: skip

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
        if isinstance(X, ArrayRows):
            return reading.associate(
                self.divergence, X, mu, log_weight, T, group, groups, sharpness, relevance
            )
        if isinstance(X, SparseRows):
            if T > 0 and relevance is None:
                return sparse_rows.associate(self, X, mu, log_weight, T, group, groups, sharpness)
            parts = [
                self.associate(dense(rows), mu, log_weight, T, group, groups, sharpness, relevance)
                for _, rows in X.blocks()
            ]
            shares, totals, distortions = (
                np.concatenate(each) for each in zip(*parts, strict=True)
            )
            return shares, totals, distortions
        return self._compiled.associate(
            X, self._embed(mu), log_weight, T, group, groups, sharpness, relevance,
            self.divergence.matrix, _threads(X, mu),
        )  # fmt: skip

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
        if isinstance(X, ArrayRows):
            return reading.losses(self.divergence, X, classes, mu, log_weight, T, group, factors)
        if isinstance(X, SparseRows):
            total = np.zeros(len(factors))
            for at, rows in X.blocks():
                total += self.losses(dense(rows), classes[at], mu, log_weight, T, group, factors)
            return total
        return self._compiled.losses(
            X, classes, self._embed(mu), log_weight, T, group, factors, self.divergence.matrix,
            _threads(X, mu),
        )  # fmt: skip

    def hard_sums(
        self, X: Rows, mu: Array, weights: Array | None
    ) -> tuple[Array, Array, Integers, float]:
        if isinstance(X, ArrayRows):
            return reading.hard_sums(self.divergence, X, mu, weights)
        if isinstance(X, SparseRows):
            return sparse_rows.hard_sums(self, X, mu, weights)
        weight, total, labels, distortion = self._compiled.hard_sums(
            X, self._embed(mu), weights, self.divergence.matrix, n_threads()
        )
        return weight, self._back(total), labels, distortion


def _threads(X: Any, mu: Array) -> int:
    """How many threads it is worth to measure rows from codevectors in."""
    return threads_for(len(X) * (mu.size + 8 * len(mu)))


# Reads records of numbers by name, and standardises them as it learns (cpp/bindings/record.cpp).
record_reader: Callable[..., RecordReader] = core.RecordReader


def running_standardise(X: Array, count: Array, mean: Array, m2: Array, fill: Array) -> Array:
    """Learn rows one by one and standardise each by what is then known (cpp/running.hpp).

    IN/OUT: ``count``, ``mean``, ``m2``.
    """
    return _running_standardise(X, count, mean, m2, fill)


def column_ranges(X: Rows) -> tuple[Array, Array, bool]:
    """Lowest and highest value of every column, and whether all values are finite."""
    if isinstance(X, SparseRows | ArrayRows):
        return X.ranges()
    return _column_ranges(X, n_threads())


def measure_level(
    state: State, critical: Array, error: Array, mass: Array, again: float
) -> tuple[Array, Array, Array, Array]:
    """What a level has seen of its codevectors, with what was known before (cpp/level_end.hpp).

    Critical temperatures, their standard errors, the association mass they rest on, and the mean
    divergence of the samples; nan where nothing was seen.

    Parameters
    ----------
    state : dict
        A run as it is read: sums ``p``, ``p2``, ``y``, ``y2``, ``y4``, ``mass``, ``spread``.
    critical, error, mass : ndarray of shape (K,)
        As they were found on the levels before; nan for not at all.
    again : float
        How often all rows have come, where they come again; else 0.
    """
    return _measure_level(state, critical, error, mass, again)
