"""Clusters of any shape, read off a codebook: codevectors are joined where no border is seen.

Codevectors with their weights are a density, and two sides are two clusters where it falls between
their peaks, by more than the samples that it rests on would let it fall by chance. Nothing but the
codebook is looked at, so a stream and a file can answer as `fit` does. The look itself is
cpp/borders.hpp (docs/notation.md, "Clusters of any shape").
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence, SquaredEuclidean
from annealed.kernels import Places, kernel_for
from annealed.path import Level

Integers = NDArray[np.int64]

# The narrowest kernel, in multiples of the variance of samples around their codevector. A row of
# codevectors sqrt(6 T) apart, as far as they come before they split, ripples by 7 % then.
NARROWEST = 2.0


@dataclass(frozen=True, eq=False)
class Cut:
    """The codevectors in one cluster more than before.

    support : by how many standard errors the new border exceeds what chance would show
    clusters : number of the cluster of each codevector; the heavier side keeps its number
    """

    support: float
    clusters: Integers


def places(points: Array, weights: Array, narrowest: float, samples: float) -> Places:
    """Codevectors as borders are looked for between them.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Codevectors in coordinates where the divergence is squared Euclidean.
    weights : ndarray of shape (n,)
    narrowest : float
        Twice the least variance of a kernel.
    samples : float
        How many samples all codevectors together stand for (also those that are not here).
    """
    # Around their middle and in a unit of their own, in which no square overflows or vanishes.
    centred = points - weights @ points / weights.sum()
    unit = 2.0 ** math.frexp(float(np.abs(centred).max(initial=0.0)))[1]
    centred /= unit
    distances = kernel_for(SquaredEuclidean()).divergences(centred, centred)
    least = max(narrowest / unit / unit, np.finfo(float).tiny)
    return Places(distances, weights, points.shape[1], least, samples)


def cuts(
    points: Array, weights: Array, narrowest: float, samples: float, least: float = 0.0
) -> list[Cut]:
    """Divide codevectors at the clearest border, again and again.

    As long as borders have more support than ``least``; the first that has not is the last. The
    k-th entry has k + 2 clusters.
    """
    found = places(points, weights, narrowest, samples).cuts(least)
    return [Cut(float(support), clusters) for support, clusters in zip(*found, strict=True)]


def _divided(
    clusters: Integers, weights: Array, members: Integers, part: NDArray[np.bool_], new: int
) -> Integers:
    """Clusters with one of them parted in two; the heavier side keeps its number."""
    if weights[members[part]].sum() > weights[members[~part]].sum():
        part = ~part
    clusters = clusters.copy()
    clusters[members[part]] = new
    return clusters


def halved(points: Array, weights: Array, clusters: Integers, K: int) -> Integers:
    """Clusters divided on, where that saves most distortion, until there are K of them.

    For a number of clusters that is given and larger than what borders show.
    """
    if int(clusters.max()) + 1 >= K:
        return clusters
    queue: list[tuple[float, int, Integers, NDArray[np.bool_]]] = []

    def consider(members: Integers) -> None:
        if len(members) > 1:
            part, saved = _halves(points[members], weights[members])
            heapq.heappush(queue, (-saved, int(members[0]), members, part))

    for k in range(int(clusters.max()) + 1):
        consider(np.flatnonzero(clusters == k))
    for new in range(int(clusters.max()) + 1, K):
        if not queue:
            break
        _, _, members, part = heapq.heappop(queue)
        clusters = _divided(clusters, weights, members, part, new)
        for side in (members[~part], members[part]):
            consider(side)
    return clusters


def _halves(points: Array, weights: Array) -> tuple[NDArray[np.bool_], float]:
    """Two round halves (2-means from the principal axis), and the distortion that they save."""
    share = weights / weights.sum()
    centred = points - share @ points
    axis = np.linalg.svd(centred * np.sqrt(share)[:, None], full_matrices=False)[2][0]
    part = centred @ axis > 0
    saved = 0.0
    for _ in range(50):
        mass = share[part].sum()
        if not 0 < mass < 1 or part.all() or not part.any():
            part = np.arange(len(points)) == int((centred**2).sum(axis=1).argmax())
            mass = share[part].sum()
        gap = (share * part) @ centred / mass - (share * ~part) @ centred / (1 - mass)
        middle = ((share * part) @ centred / mass + (share * ~part) @ centred / (1 - mass)) / 2
        saved = float(weights.sum() * mass * (1 - mass) * (gap**2).sum())
        now = (centred - middle) @ gap > 0
        if (now == part).all() or now.all() or not now.any():
            break
        part = now
    return part, saved


def loose(
    points: Array, weights: Array, narrowest: float, samples: float, size: float
) -> NDArray[np.bool_]:
    """Which codevectors of a cluster lie apart from it, in groups of fewer than ``size`` samples.

    They are looked at with kernels that hold so many samples: what is apart then has no place among
    so many, however it was joined.
    """
    return places(points, weights, narrowest, samples).loose(size)


def straightened(divergence: BregmanDivergence, rows: Array, mean: Array) -> Array:
    """Rows where the divergence is squared Euclidean, to second order at the mean."""
    if divergence.matrix is not None:
        return np.asarray(rows @ divergence.matrix)
    return np.asarray(rows * np.sqrt(divergence.hessian_diagonal(mean[None, :])[0] / 2))


def narrowest_for(level: Level, samples: float) -> float:
    """Twice the variance of the narrowest kernel for a level."""
    # Samples scatter around their codevector by T/2 in every direction, or by what was measured:
    # with many features and few rows the ladder may end before a level is as fine as its T. A
    # codevector is the mean of its own samples, so they lie closer to it than others would.
    free = max(1 - level.n_codevectors / samples, 1 / samples)
    measured = 2 * level.distortion / level.codevectors.shape[1] / free
    return float(NARROWEST * max(level.temperature, measured))


def cuts_of(
    level: Level, divergence: BregmanDivergence, mean: Array, samples: float, least: float = 0.0
) -> list[Cut]:
    """Divide the codevectors of a level; ``samples`` is how many it was learnt from."""
    points = straightened(divergence, level.codevectors, mean)
    return cuts(points, level.weights, narrowest_for(level, samples), samples, least)


def support_between(
    level: Level, divergence: BregmanDivergence, mean: Array, samples: float, clusters: Integers
) -> float:
    """The support of all borders between given clusters of a level, taken together.

    At the width where it is largest. Far below zero the density contradicts them.
    """
    points = straightened(divergence, level.codevectors, mean)
    seen = places(points, level.weights, narrowest_for(level, samples), samples)
    return seen.support_between(clusters)
