"""What a codebook says about rows in arrays of other libraries, computed where they lie.

As the reading methods of `annealed.kernels.protocol.Kernel`, with answers in NumPy arrays. Rows are
measured in the precision they have, from a point among the codevectors (`block.sums`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels.array_rows import NUMBERS_AT_A_TIME, ArrayRows, Place, place_of, to_host
from annealed.kernels.block.dual import Dual
from annealed.kernels.protocol import ClassIndices, Integers


def _measured(
    divergence: BregmanDivergence, X: ArrayRows, mu: Array, relevance: Array | None = None
) -> Iterator[tuple[slice, Place, Any]]:
    """d(x, mu) of all rows, some at a time, with their place."""
    dual = Dual(divergence, relevance)
    single = dual.quadratic and X.dtype == np.float32
    place, inside = place_of(X, single), dual.inside(mu)
    c, _ = dual.centre(inside.mean(axis=0), inside, single)
    slope, offset = (place.put(each) for each in dual.slopes(inside, c))
    each = max(NUMBERS_AT_A_TIME // max(len(mu), X.shape[1]), 1)
    for begin in range(0, len(X), each):
        here = slice(begin, min(begin + each, len(X)))
        x = place.take(X.take(here))
        z = dual.rows(place, x, c, 1.0)
        d = dual.own(place, x, z, c, 1.0, 1.0)[:, None] + offset
        d -= z @ slope.T
        yield here, place, place.xp.where(d > 0, d, 0.0)


def _exponents(place: Place, d: Any, log_weight: Array, T: float) -> Any:
    """log_weight - d/T, or at T = 0 log_weight for the nearest and -inf for the rest."""
    xp, weight = place.xp, place.put(log_weight)
    if T > 0:
        return weight - d / T
    possible = xp.where(weight > -np.inf, d, np.inf)
    return xp.where(possible == xp.min(possible, axis=1, keepdims=True), weight, -np.inf)


def divergences(
    divergence: BregmanDivergence, X: ArrayRows, mu: Array, relevance: Array | None
) -> Array:
    """See `Kernel.divergences`."""
    found = np.empty((len(X), len(mu)))
    for here, _, d in _measured(divergence, X, mu, relevance):
        found[here] = to_host(d)
    return found


def assign(
    divergence: BregmanDivergence, X: ArrayRows, mu: Array, log_weight: Array, T: float
) -> Integers:
    """See `Kernel.assign`."""
    labels = np.empty(len(X), dtype=np.int64)
    for here, place, d in _measured(divergence, X, mu):
        labels[here] = to_host(place.xp.argmax(_exponents(place, d, log_weight, T), axis=1))
    return labels


def assign_groups(
    divergence: BregmanDivergence,
    X: ArrayRows,
    mu: Array,
    log_weight: Array,
    T: float,
    group: Integers,
    groups: int,
) -> Integers:
    """See `Kernel.assign_groups`."""
    labels = np.empty(len(X), dtype=np.int64)
    member = (group[:, None] == np.arange(groups)).astype(float)
    for here, place, d in _measured(divergence, X, mu):
        xp, s = place.xp, _exponents(place, d, log_weight, T)
        shares = xp.exp(s - xp.max(s, axis=1, keepdims=True)) @ place.put(member)
        labels[here] = to_host(xp.argmax(shares, axis=1))
    return labels


def associate(
    divergence: BregmanDivergence,
    X: ArrayRows,
    mu: Array,
    log_weight: Array,
    T: float,
    group: Integers,
    groups: int,
    sharpness: Array | None,
    relevance: Array | None,
) -> tuple[Array, Array, Array]:
    """See `Kernel.associate`."""
    shares, log_total, expected = np.empty((len(X), groups)), np.empty(len(X)), np.empty(len(X))
    member = (group[:, None] == np.arange(groups)).astype(float)
    for here, place, d in _measured(divergence, X, mu, relevance):
        xp = place.xp
        sharp = d if sharpness is None else d * place.put(sharpness)
        s = _exponents(place, sharp, log_weight, T)
        highest = xp.max(s, axis=1, keepdims=True)
        e = xp.exp(s - highest)
        total = xp.sum(e, axis=1, keepdims=True)
        p = e / total
        shares[here] = to_host(p @ place.put(member))
        log_total[here] = to_host((highest + xp.log(total))[:, 0])
        expected[here] = to_host(xp.sum(p * d, axis=1))
    return shares, log_total, expected


def losses(
    divergence: BregmanDivergence,
    X: ArrayRows,
    classes: ClassIndices,
    mu: Array,
    log_weight: Array,
    T: float,
    group: Integers,
    factors: Array,
) -> Array:
    """See `Kernel.losses`."""
    lost = np.zeros(len(factors))
    for here, _, d in _measured(divergence, X, mu):
        own = to_host(d)
        mine = classes[here, None] == group
        for k, factor in enumerate(factors.tolist()):
            s = log_weight - own * (factor / T)
            lost[k] += (_log_sum(s) - _log_sum(np.where(mine, s, -np.inf))).sum()
    return lost


def _log_sum(s: Array) -> Array:
    highest = s.max(axis=1, keepdims=True)
    return np.asarray(highest[:, 0] + np.log(np.exp(s - highest).sum(axis=1)))


def hard_sums(
    divergence: BregmanDivergence, X: ArrayRows, mu: Array, weights: Array | None
) -> tuple[Array, Array, Integers, float]:
    """See `Kernel.hard_sums`."""
    K, distortion = len(mu), 0.0
    labels, total = np.empty(len(X), dtype=np.int64), np.zeros(mu.shape)
    mass = np.zeros(K)
    for here, place, d in _measured(divergence, X, mu):
        xp = place.xp
        nearest = xp.argmin(d, axis=1)
        labels[here] = to_host(nearest)
        w = np.ones(here.stop - here.start) if weights is None else weights[here]
        codevectors = xp.arange(K, device=place.device)
        member = xp.asarray(nearest[:, None] == codevectors, dtype=place.dtype)
        member = member * place.put(w)[:, None]
        distortion += float(w @ to_host(xp.min(d, axis=1)).astype(float))
        mass += np.bincount(labels[here], w, K)
        # From the codevectors: sums of rows far from the origin would lose their digits.
        x = place.take(X.take(here)) - place.put(mu[0])
        total += to_host(member.T @ x).astype(float)
    return mass, total + mass[:, None] * mu[0], labels, distortion
