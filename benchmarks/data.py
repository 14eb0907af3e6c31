"""Data sets of the benchmarks; each depends on nothing but its seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


def gaussians(centres: Rows, samples: int, rng: np.random.Generator) -> Rows:
    """Samples of unit variance around centres that are equally likely."""
    member = rng.integers(len(centres), size=samples)
    return centres[member] + rng.normal(size=(samples, centres.shape[1]))


def eight_in_sixteen(seed: int, samples: int = 4000) -> Rows:
    """8 Gaussians of standard deviation 1, centres uniform in [-6, 6]^16."""
    rng = np.random.default_rng(seed)
    return gaussians(rng.uniform(-6, 6, size=(8, 16)), samples, rng)


def fifteen_on_grid(seed: int, spacing: float, samples: int = 5000) -> Rows:
    """15 Gaussians of standard deviation 1 on a 5 x 3 grid, jittered by 0.15 of its spacing."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(3.0)), axis=-1).reshape(-1, 2)
    jitter = rng.uniform(-0.15, 0.15, size=grid.shape)
    return gaussians(spacing * (grid + jitter), samples, rng)


def one_gaussian(seed: int, features: int, samples: int = 3000) -> Rows:
    """No clusters: a single isotropic Gaussian."""
    return np.random.default_rng(seed).normal(size=(samples, features))


def uniform_square(seed: int, samples: int = 3000) -> Rows:
    """No clusters, but corners: the unit square."""
    return np.random.default_rng(seed).uniform(size=(samples, 2))
