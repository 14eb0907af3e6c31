"""Clusters of any shape, read off a codebook: codevectors are joined where no border is seen.

Codevectors with their weights are a density: f(x) = sum_i rho_i k_i(x), k_i a Gaussian around mu_i.
Two sides are two clusters where f falls between their peaks, by more than the samples that f rests
on would let it fall by chance. Nothing but the codebook is looked at, so a stream and a file can
answer as `fit` does (docs/notation.md, "Clusters of any shape").
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import join_peaks, measure_density
from annealed.path import Level

Integers = NDArray[np.int64]

# The narrowest kernel, in multiples of the variance of samples around their codevector. A row of
# codevectors sqrt(6 T) apart, as far as they come before they split, ripples by 7 % then.
NARROWEST = 2.0
# Kernels are widened by this factor at a time.
WIDENING = 1.5
# A border is where the density falls to this share of the lower peak, as between two equal
# Gaussians three standard deviations apart. Without such a rule any dip becomes significant with
# enough samples, and a bent cluster falls into the parts of its bend.
DEEPEST_SADDLE = 2 / 3
# Among the widths that show a border the narrowest draws it best; those count that support it this
# much of the most that any does.
SUPPORT_TO_DRAW = 0.5
NEIGHBOURS = 7
# Codevectors lie more evenly than points at random would: what their places add to the variance of
# log f is this part of what as many random points would have.
UNEVENNESS = 0.15


@dataclass(frozen=True, eq=False)
class Cut:
    """The codevectors in one cluster more than before.

    support : by how many standard errors the new border exceeds what chance would show
    clusters : number of the cluster of each codevector; the heavier side keeps its number
    """

    support: float
    clusters: Integers


@dataclass(frozen=True, eq=False)
class _Border:
    support: float
    lower: NDArray[np.bool_]  # which of the codevectors lie on the side of the lower peak


class Density:
    """Some codevectors as a density whose width can be chosen.

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

    def __init__(self, points: Array, weights: Array, narrowest: float, samples: float) -> None:
        self.points, self.weights = points, weights
        self.narrowest, self.samples = narrowest, samples
        square = (points**2).sum(axis=1)
        self.distances = np.maximum(square[:, None] + square - 2 * points @ points.T, 0.0)
        self.first, self.second = _neighbours(self.distances)

    @cached_property
    def widest(self) -> float:
        """Twice the variance of all of them in all directions."""
        share = self.weights / self.weights.sum()
        return float(2 * share @ ((self.points - share @ self.points) ** 2).sum(axis=1))

    def clearest_border(self) -> _Border | None:
        """The border with most support, over all widths; None if there is nothing to part."""
        if len(self.points) < 2:
            return None
        seen = self._views()
        most = max(view.support for view in seen)
        if most > 0:
            view = next(view for view in seen if view.support >= SUPPORT_TO_DRAW * most)
        else:
            view = max(seen, key=lambda view: view.support)
        return _Border(most, view.lower_side())

    def widths(self) -> list[float]:
        """Those worth a look."""
        found, width = [], self.narrowest
        while width < self.widest:
            found.append(width)
            width *= WIDENING
        return found

    def _views(self) -> list[_View]:
        """The density at ever larger widths, until wider ones will show nothing new."""
        seen: list[_View] = []
        for width in self.widths() or [self.narrowest]:
            seen.append(_View(self, width))
            if not seen[-1].several:
                break
        return seen

    def measured(self, widths: Array, *, between: bool = True) -> tuple[Array, Array, Array]:
        """log f and log sum_j rho_j k_j^2 at every codevector, log f between neighbours.

        Kernels of all widths hold equal mass; logarithms are those of the narrowest kernel's units.
        """
        logs = -self.points.shape[1] / 2 * np.log(widths / self.narrowest)
        unit = float(logs.max())
        heights = np.exp(logs - unit)
        mass = self.weights * heights
        pairs = (self.first, self.second) if between else (self.first[:0], self.second[:0])
        peaks, squares, middles = measure_density(
            self.distances, *pairs, widths, mass, mass * heights
        )
        return peaks + unit, squares + 2 * unit, middles + unit


class _View:
    """A density at one width: its peaks, how they are joined, and the clearest border."""

    def __init__(self, density: Density, width: float) -> None:
        self.density = density
        n, d = density.points.shape
        share = density.weights / density.weights.sum()
        pilot = density.measured(np.full(n, width), between=False)[0]
        # Every kernel holds about as many samples as any other: f^(-1/d) is the radius of a ball
        # of so much mass. In one dimension the square root is enough (Abramson 1982).
        exponent = 2 * min(0.5, 1 / d)
        widths = np.maximum(width * np.exp(-exponent * (pilot - share @ pilot)), density.narrowest)
        self.peaks, squares, self.middles = density.measured(widths)
        # f rests on N f^2 / sum rho k^2 samples; there are about so many places to look at.
        self.counts = density.samples * np.exp(2 * self.peaks - squares)
        # Where codevectors lie is chance too, but for one that is alone under its kernel:
        # var log f = 1/n + UNEVENNESS (1 - alone)/m, with m = n K/N that n of N samples belong to.
        mass = np.log(np.maximum(density.weights, 1e-300))
        own = mass - d / 2 * np.log(widths / density.narrowest)
        alone = np.exp(np.minimum(own - self.peaks, 0.0))
        each = density.samples * density.weights.sum() / n
        self.ripple = UNEVENNESS * (1 - alone) * each
        places = float(density.weights @ np.exp(squares - 2 * self.peaks))
        self.low, self.high, saddles = self._joins()
        depth = self.depth = np.exp(np.minimum(saddles - self.peaks[self.low], 0.0))
        # Poisson counts n and n depth: the difference of their square roots has variance 1/2. The
        # largest of m such differences is sqrt(2 log m) by chance; here m places, each at widths of
        # which those count that are a factor 4 apart, the others showing much the same.
        places *= np.log(max(density.widest / density.narrowest, 4.0)) / np.log(4)
        self.log_places = float(np.log(max(places, 2.0)))
        self.several = bool((depth < 1).any())  # wider kernels will not part what is one now
        support = self._support(self.low, depth, searched=True)
        self.clearest = int(support.argmax())
        self.support = float(support[self.clearest])

    def _support(self, low: Integers, depth: Array, *, searched: bool) -> Array:
        """How sure borders are: as the lesser of that they are there, and that they are deep.

        Ripples raise and lower what is there: nothing, where a saddle is empty. Along a line any
        place may be the peak, and any the saddle, so that chance has m^2 differences to choose from
        when a border is ``searched`` for; an empty saddle is not the lowest of many.
        """
        root = np.sqrt(2 * self.counts[low] / (1 + self.ripple[low] * depth))
        chance = np.sqrt(2 * (1 + depth if searched else 1) * self.log_places)
        there = root * (1 - np.sqrt(depth)) - chance
        deep = root * (np.sqrt(DEEPEST_SADDLE) - np.sqrt(depth))
        return np.asarray(np.minimum(there, deep))

    def _joins(self) -> tuple[Integers, Integers, Array]:
        """Peaks joined over ever lower saddles: the lower and the higher peak, and the saddle."""
        density = self.density
        ends = np.minimum(self.peaks[density.first], self.peaks[density.second])
        saddles = np.minimum(self.middles, ends)
        order = np.argsort(-saddles, kind="stable")
        low, high, used = join_peaks(self.peaks, density.first, density.second, order)
        return low, high, saddles[used]

    def support_between(self, clusters: Integers) -> float:
        """The support of the borders between given clusters, in standard errors of their sum.

        Clusters are joined over their highest saddles, as peaks are.
        """
        density = self.density
        ends = np.minimum(self.peaks[density.first], self.peaks[density.second])
        saddles = np.minimum(self.middles, ends)
        one, other = clusters[density.first], clusters[density.second]
        across = np.flatnonzero(one != other)
        across = across[np.argsort(-saddles[across], kind="stable")]
        K = int(clusters.max()) + 1
        peak = np.full(K, -np.inf)
        np.maximum.at(peak, clusters, self.peaks)
        own = np.lexsort((self.peaks, clusters))
        highest = np.zeros(K, dtype=np.int64)
        highest[clusters[own]] = own  # the last one stays
        roots, total = _Roots(K), 0.0
        for k in across.tolist():
            a, b = roots.find(int(one[k])), roots.find(int(other[k]))
            if a == b:
                continue
            if peak[a] < peak[b]:
                a, b = b, a
            depth = np.exp(np.minimum(saddles[k] - peak[b], 0.0))
            total += float(self._support(highest[b], depth, searched=False))
            roots.parent[b] = a
        return float(total / np.sqrt(K - 1))

    def lower_side(self) -> NDArray[np.bool_]:
        """Whose climb ends at the lower peak of the clearest border, or at one joined with it."""
        roots = _Roots(len(self.peaks))
        for k, (low, high) in enumerate(zip(self.low.tolist(), self.high.tolist(), strict=True)):
            if k != self.clearest:
                roots.parent[roots.find(low)] = roots.find(high)
        side = roots.find(int(self.low[self.clearest]))
        return np.array([roots.find(peak) == side for peak in self._climb().tolist()])

    def _climb(self) -> Integers:
        """The peak each codevector comes to by the steepest way up.

        Joining by saddles alone hands what lies in a valley to the wrong side.
        """
        density, up = self.density, np.arange(len(self.peaks))
        start = np.concatenate([density.first, density.second])
        end = np.concatenate([density.second, density.first])
        middle = np.concatenate([self.middles, self.middles])
        length = np.sqrt(np.maximum(density.distances[start, end], np.finfo(float).tiny))
        slope = (self.peaks[end] - self.peaks[start]) / length
        rising = np.argsort(slope, kind="stable")
        rising = rising[(slope[rising] > 0) & (middle[rising] >= self.peaks[start[rising]])]
        up[start[rising]] = end[rising]  # the steepest comes last and stays
        while True:
            further = up[up]
            if (further == up).all():
                return up
            up = further


class _Roots:
    """Sets that are joined (union-find)."""

    def __init__(self, n: int) -> None:
        self.parent = list(range(n))

    def find(self, a: int) -> int:
        while self.parent[a] != a:
            self.parent[a] = self.parent[self.parent[a]]
            a = self.parent[a]
        return a


def _neighbours(distances: Array) -> tuple[Integers, Integers]:
    """Pairs of near codevectors, and as many more as it takes to connect all."""
    n = len(distances)
    k = min(NEIGHBOURS, n - 1)
    if not k:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    others = distances + np.diag(np.full(n, np.inf))
    near = np.argpartition(others, k - 1, axis=1)[:, :k]
    first, second = np.repeat(np.arange(n), k), near.ravel()
    joins, _, _ = join_peaks(np.zeros(n), first, second, np.arange(n * k))
    if len(joins) < n - 1:  # not all are connected
        one, other = spanning_tree(distances)
        first, second = np.append(first, one), np.append(second, other)
    pairs = np.unique(np.minimum(first, second) * n + np.maximum(first, second))
    return pairs // n, pairs % n


def spanning_tree(distances: Array) -> tuple[Integers, Integers]:
    """The shortest edges that connect all (Prim); SciPy sorts all n^2 of them first."""
    n = len(distances)
    nearest, parent = distances[0].copy(), np.zeros(n, dtype=np.int64)
    nearest[0] = np.inf
    within = np.zeros(n, dtype=bool)
    within[0] = True
    for _ in range(n - 1):
        new = int(nearest.argmin())
        within[new] = True
        closer = (distances[new] < nearest) & ~within
        nearest[closer], parent[closer] = distances[new, closer], new
        nearest[new] = np.inf
    return np.arange(1, n), parent[1:]


def cuts(
    points: Array, weights: Array, narrowest: float, samples: float, least: float = 0.0
) -> list[Cut]:
    """Divide codevectors at the clearest border, again and again.

    As long as borders have more support than ``least``; the first that has not is the last. The
    k-th entry has k + 2 clusters.
    """
    clusters = np.zeros(len(points), dtype=np.int64)
    queue: list[tuple[float, int, Integers, _Border]] = []
    found: list[Cut] = []

    def consider(members: Integers) -> None:
        density = Density(points[members], weights[members], narrowest, samples)
        border = density.clearest_border()
        if border is not None:
            heapq.heappush(queue, (-border.support, int(members[0]), members, border))

    consider(np.arange(len(points)))
    while queue:
        support, _, members, border = heapq.heappop(queue)
        clusters = _divided(clusters, weights, members, border.lower, len(found) + 1)
        found.append(Cut(-support, clusters))
        if -support <= least:
            break
        for side in (members[~border.lower], members[border.lower]):
            consider(side)
    return found


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
    apart = np.zeros(len(points), dtype=bool)
    if len(points) < 2:
        return apart
    density = Density(points, weights, narrowest, samples)
    width = narrowest
    view = _View(density, width)
    while width < density.widest and view.counts @ weights / weights.sum() < size:
        width *= WIDENING
        view = _View(density, width)
    roots, mass = _Roots(len(points)), (weights * samples).tolist()
    groups = {i: [i] for i in range(len(points))}
    for low, high, depth in zip(view.low, view.high, view.depth, strict=True):
        a, b = roots.find(int(low)), roots.find(int(high))
        small = a if mass[a] < mass[b] else b
        if depth <= DEEPEST_SADDLE and mass[small] < size:
            apart[groups[small]] = True
        roots.parent[a] = b
        mass[b] += mass[a]
        groups[b] += groups.pop(a)
    return apart


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
    density = Density(points, level.weights, narrowest_for(level, samples), samples)
    found = (_View(density, width).support_between(clusters) for width in density.widths())
    return float(max(found, default=-np.inf))
