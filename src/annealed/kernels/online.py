"""The compiled kernel: the same functions as `annealed.kernels.reference`, in C++.

It is built twice, for any x86-64-v2 machine and for those with AVX2 and FMA; the faster one that
this machine can run is chosen here, once, at import.

A Mahalanobis divergence (x - mu)' L L' (x - mu) is the squared Euclidean one of x L. Codevectors
cross into those coordinates when a level begins and come back when it is read; rows are
transformed as they are read.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import LARGEST, Array, BregmanDivergence


def _fastest_core() -> Any:
    baseline = importlib.import_module("annealed.kernels._core_baseline")
    if not baseline.cpu_has_avx2():
        return baseline
    return importlib.import_module("annealed.kernels._core_avx2")


_core = _fastest_core()

State = dict[str, Any]
_CLASSES = {
    "squared_euclidean": "SquaredEuclidean",
    "i_divergence": "IDivergence",
    "itakura_saito": "ItakuraSaito",
    "logistic": "Logistic",
}


def _compiled(divergence: BregmanDivergence, kind: str) -> Any:
    return getattr(_core, _CLASSES[str(divergence.kernel)] + kind)


def _embed(divergence: BregmanDivergence, rows: Array) -> Array:
    inside = rows if divergence.matrix is None else rows @ divergence.matrix
    return np.ascontiguousarray(inside, dtype=float)


def _restore(divergence: BregmanDivergence, rows: Array) -> Array:
    if divergence.matrix is None:
        return rows
    return np.ascontiguousarray(np.linalg.solve(divergence.matrix.T, rows.T).T)


def warm_up(divergence: BregmanDivergence, d: int, at_least: int) -> Any:
    """Start measuring the mean and the variances of a class."""
    return _core.WarmUp(d, at_least, divergence.matrix)


def begin(
    divergence: BregmanDivergence,
    mu: Array,
    rho: Array,
    axis: Array,
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> Any:
    """Start a level from codevectors, their weights and their split axes."""
    return _compiled(divergence, "Level")(
        _embed(divergence, mu),
        np.ascontiguousarray(rho, dtype=float),
        _embed(divergence, axis),
        settings,
        low,
        high,
        divergence.matrix,
    )


def read(divergence: BregmanDivergence, run: Any) -> State:
    """State of a level or warm-up with all its samples learnt, in the coordinates of the data.

    The squared deviations of a warm-up stay in those of the kernel, where a Mahalanobis
    divergence has no cross terms.
    """
    state: State = run.read()
    for name in ("mu", "axis", "turned", "mean", "last"):
        if name in state:
            state[name] = _restore(divergence, state[name])
    return state


def learn(
    runs: list[Any],
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32] | None,
    weights: Array | None,
    begin: int,
    end: int,
) -> int:
    """Present rows begin..end until one completes its class's level; how far it came.

    IN/OUT: ``runs``, one per class, advance in place. The GIL is released.
    """
    return int(_core.learn(runs, X, order, classes, weights, begin, end))


def sample_format(divergence: BregmanDivergence, keys: tuple[Any, ...] | None) -> Any | None:
    """What a sample must be for a run's ``feed`` to take it as it comes: see cpp/bindings.cpp.

    ``keys`` are those of dicts, in the order of the features. None where every sample has to be
    looked at: those on the simplex.
    """
    if divergence.simplex:
        return None
    return _core.SampleFormat(keys, max(divergence.low, -LARGEST), min(divergence.high, LARGEST))


def begin_soft(
    divergence: BregmanDivergence,
    mu: Array,
    bias: Array,
    sharpness: Array,
    relevance: Array,
    first_of: NDArray[np.int64],
    unit: Array,
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> Any:
    """Start soft LVQ (cpp/soft_lvq.hpp) from codevectors sorted by class.

    ``sharpness`` is log T/T_i, T the unit of temperatures in ``settings``: data twice as large is
    then learnt with the same bits. ``relevance`` is log lambda_j; codevectors of class c
    are those from ``first_of[c]`` to ``first_of[c + 1]``; ``unit`` is the length of a unit step in
    the dual variable, in the kernel's coordinates. A Mahalanobis divergence has no bounds to keep.
    """
    return _compiled(divergence, "SoftLVQ")(
        _embed(divergence, mu), bias, sharpness, relevance, first_of, unit, settings, low, high,
        divergence.matrix,
    )  # fmt: skip


def learn_soft(
    run: Any,
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32],
    weights: Array | None,
    begin: int,
    end: int,
    answer: bool = False,
) -> Array:
    """Present rows begin..end; if asked, p(c|x) of each before it was learnt.

    IN/OUT: ``run`` advances in place. The GIL is released.
    """
    return np.asarray(run.learn(X, order, classes, weights, begin, end, answer))


def read_soft(divergence: BregmanDivergence, run: Any) -> State:
    """Averaged mu, bias, sharpness and relevance, in the coordinates of the data."""
    state: State = run.read()
    state["mu"] = _restore(divergence, state["mu"])
    return state


def running_standardise(X: Array, count: Array, mean: Array, m2: Array, fill: Array) -> Array:
    """Learn rows one by one and standardise each by what is then known (cpp/running.hpp).

    IN/OUT: ``count``, ``mean``, ``m2``.
    """
    return np.asarray(_core.running_standardise(X, count, mean, m2, fill))


def divergences(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, relevance: Array | None = None
) -> Array:
    """d(x, mu) for every row and codevector, features weighed by their relevance."""
    function = getattr(_core, f"divergences_{divergence.kernel}")
    return np.asarray(function(X, _embed(divergence, mu), relevance, divergence.matrix))


def assign(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, log_weight: Array, T: float
) -> NDArray[np.int64]:
    """Index of the codevector with the largest weight exp(-d/T) for every row (T = 0: nearest)."""
    function = getattr(_core, f"assign_{divergence.kernel}")
    return np.asarray(function(X, _embed(divergence, mu), log_weight, T, divergence.matrix))


def associate(
    divergence: BregmanDivergence,
    X: NDArray[Any],
    mu: Array,
    log_weight: Array,
    T: float,
    group: NDArray[np.int64],
    groups: int,
    sharpness: Array | None = None,
    relevance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Per row: posterior of every group, log sum weight exp(-d/T_i), expected divergence.

    T_i is T, or T/sharpness_i where that is given.
    """
    function = getattr(_core, f"associate_{divergence.kernel}")
    result: tuple[Array, Array, Array] = function(
        X, _embed(divergence, mu), log_weight, T, group, groups, sharpness, relevance,
        divergence.matrix,
    )  # fmt: skip
    return result


def losses(
    divergence: BregmanDivergence,
    X: NDArray[Any],
    classes: NDArray[np.int32],
    mu: Array,
    log_weight: Array,
    T: float,
    group: NDArray[np.int64],
    factors: Array,
) -> Array:
    """The sum over rows of -log p(own class|x) at each of the temperatures T/factor."""
    function = getattr(_core, f"losses_{divergence.kernel}")
    embedded = _embed(divergence, mu)
    return np.asarray(
        function(X, classes, embedded, log_weight, T, group, factors, divergence.matrix)
    )


def hard_sums(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, weights: Array | None
) -> tuple[Array, Array, NDArray[np.int64], float]:
    """One pass of hard clustering: weights, sums, labels, total divergence."""
    function = getattr(_core, f"hard_sums_{divergence.kernel}")
    weight, total, labels, distortion = function(
        X, _embed(divergence, mu), weights, divergence.matrix
    )
    return weight, _restore(divergence, total), labels, distortion


# -- winner takes all ------------------------------------------------------------------------------


def begin_winner(
    divergence: BregmanDivergence,
    mu: Array,
    classes: NDArray[np.int32],
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> Any:
    """Start a winner-takes-all run from codevectors and the class index of each.

    ``settings``: "rule" ("vq", "lvq1", "glvq"), "a", "b" and "alpha_min" of the step
    alpha(v) = 1/(a + b v), "n", the updates every codevector is taken to have had (the larger, the
    less it moves), and "scale", a divergence typical of the data (only "glvq" looks at it).
    `read` gives "mu", the "updates" v_i, and over all samples so far "count", "seen" (weight),
    "distortion" (sum of w d(x, nearest)) and "errors" (weight whose nearest has another class),
    both before each sample was learnt.
    """
    return _compiled(divergence, "Winner")(
        _embed(divergence, mu),
        np.ascontiguousarray(classes, dtype=np.int32),
        settings,
        divergence.simplex,
        np.ascontiguousarray(low, dtype=float),
        np.ascontiguousarray(high, dtype=float),
        divergence.matrix,
    )


def compete(
    run: Any,
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32] | None,
    weights: Array | None,
    begin: int,
    end: int,
) -> None:
    """Present rows begin..end to a winner-takes-all run.

    IN/OUT: ``run`` advances in place. The GIL is released.
    """
    _core.compete(run, X, order, classes, weights, begin, end)
