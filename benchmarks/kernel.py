"""The kernel by itself: a level that never ends, to be fed for as long as a timing takes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from annealed.divergences import SquaredEuclidean
from annealed.kernels import CompiledKernel
from benchmarks.data import Rows
from benchmarks.harness import Contender

NEVER = int(np.iinfo(np.int64).max)


def endless_level(mu: Rows, rho: Rows, T: float, *, statistics: bool) -> Any:
    """A level from these codevectors and weights, with or without the statistics of splits."""
    axis = np.random.default_rng(0).normal(size=mu.shape)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    divergence = SquaredEuclidean()
    settings = {
        "T": T,
        "small_step": 0.0,
        "a": 1.0,
        "b": 0.9,
        "alpha_min": 0.0,
        "first_axis": 0 if statistics else NEVER,
        "second_axis": 0 if statistics else NEVER,
        "at_least": NEVER,
        "at_most": NEVER,
        "patience": 5,
        "n": float(len(mu)),
        "by_roles": True,
    }
    low, high = divergence.bounds(mu.mean(axis=0))
    return CompiledKernel(divergence).begin_level(
        mu, rho, axis, np.zeros(len(mu)), settings, low, high
    )


def learner(level: Any, X: Rows) -> Contender:
    """The level learning all rows of X in one call."""
    kernel = CompiledKernel(SquaredEuclidean())
    return Contender(partial(kernel.learn, [level], X, None, None, None, 0, len(X)), len(X))
