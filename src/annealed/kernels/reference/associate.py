"""The twin of cpp/associate.hpp: what a codebook says about rows, from their divergences d."""

from __future__ import annotations

import numpy as np

from annealed.divergences import Array, BregmanDivergence, Separable
from annealed.kernels.protocol import ClassIndices, Integers, Rows


def divergences(
    divergence: BregmanDivergence, X: Rows, mu: Array, relevance: Array | None
) -> Array:
    """d(x, mu), shape (n_samples, n_codevectors)."""
    rows = np.asarray(X, dtype=float)
    if relevance is not None:
        assert isinstance(divergence, Separable)
        columns = [divergence.terms(rows, m) @ relevance for m in mu]
        return np.maximum(np.stack(columns, axis=1), 0.0)
    return np.maximum(divergence.pairwise(rows, mu), 0.0)


def exponent(d: Array, log_weight: Array, T: float) -> Array:
    """log_weight - d/T, or at T = 0 log_weight for the nearest and -inf for the rest."""
    if T > 0:
        return log_weight - d / T
    possible = np.where(log_weight > -np.inf, d, np.inf)
    return np.where(possible == possible.min(axis=1, keepdims=True), log_weight, -np.inf)


def associate(
    d: Array, log_weight: Array, T: float, group: Integers, groups: int, sharpness: Array | None
) -> tuple[Array, Array, Array]:
    """See `Kernel.associate`."""
    s = exponent(d if sharpness is None else d * sharpness, log_weight, T)
    highest = s.max(axis=1, keepdims=True)
    e = np.exp(s - highest)
    total = e.sum(axis=1, keepdims=True)
    p = e / total
    posterior = p @ (group[:, None] == np.arange(groups))
    log_total = (highest + np.log(total))[:, 0] if T > 0 else np.full(len(d), -np.inf)
    return posterior, log_total, (p * d).sum(axis=1)


def losses(
    d: Array, classes: ClassIndices, log_weight: Array, T: float, group: Integers, factors: Array
) -> Array:
    """See `Kernel.losses`."""
    own, total = group == classes[:, None], []
    for factor in factors:
        s = log_weight - factor * d / T
        mine = np.where(own, s, -np.inf)
        total.append((np.logaddexp.reduce(s, 1) - np.logaddexp.reduce(mine, 1)).sum())
    return np.array(total)


def hard_sums(d: Array, X: Rows, weights: Array | None) -> tuple[Array, Array, Integers, float]:
    """See `Kernel.hard_sums`."""
    labels = d.argmin(axis=1)
    w = np.ones(len(d)) if weights is None else weights
    member = (labels[:, None] == np.arange(d.shape[1])) * w[:, None]
    nearest = d[np.arange(len(d)), labels]
    return member.sum(axis=0), member.T @ np.asarray(X, dtype=float), labels, float(w @ nearest)
