"""How many clusters, of whatever shape: codevectors that no border parts are one cluster.

Borders in the density of the coldest codebook (`borders.py`) find clusters of any shape and spread.
Round groups that touch without a valley between them have no border; they show as a K that
persists (`n_clusters.py`), which is asked where borders are not sure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from annealed.annealing.annealer import Annealer, LevelChooser
from annealed.annealing.borders import (
    Cut,
    cuts_of,
    halved,
    loose,
    narrowest_for,
    straightened,
    support_between,
)
from annealed.annealing.level_length import well_placed
from annealed.annealing.n_clusters import (
    LEAST_EXCESS,
    SURROGATE_SAMPLES,
    GivenK,
    Persistence,
    covariance_of,
    judge_persistence,
    plateaus,
)
from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Level
from annealed.stored import (
    Count,
    Indices,
    Positive,
    State,
    Stored,
    Vector,
    one_length,
    require,
)

# Where the K codevectors of the path put so much of the mass into the same clusters, clusters are
# round: those K say the same as many.
ROUND = 0.98
# An answer of less support than this, in standard errors, is not sure: persistence is asked too.
SURE = 2.0
# Clusters that the density supports alike, to half a standard error: round ones are taken. Whoever
# gives their number gets round ones unless those are supported surely less.
ALIKE = 0.5
# A given number of clusters takes borders that are not sure, down to a standard error below chance,
# and so do clusters that persist, all their borders taken together.
LIKELY = -1.0
# Clusters that persist where no border is seen are none if the support of their borders is below
# this on average: without any dip it is about -2 (what chance shows), of groups that touch -.2.
REFUTED = -1.5
# Of clusters that persist none is lighter than this share of what it would have among equals: far
# points persist too.
LIGHTEST = 0.2
# The most clusters that are looked for by their persistence; and the most features: what it is
# compared with has their covariance.
MOST_ROUND = 100
MOST_FEATURES = 2000
# How many numbers of clusters are told of at most.
MOST_PLAUSIBLE = 10


@dataclass(frozen=True, eq=False)
class PlausibleNumbers:
    """Numbers of clusters, the most plausible first.

    Attributes
    ----------
    n_clusters : ndarray of shape (n,)
    support : ndarray of shape (n,)
        How far each is from being wrong: positive for the answer, negative for the others. In
        standard errors of the weakest of its borders, or of the clearest one that it leaves out;
        for round clusters in log T, by which its plateau exceeds the bar.
    """

    n_clusters: Indices
    support: Vector

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Of every number it is known how well it is supported."""
        one_length("the plausible numbers", state["n_clusters"], state["support"])
        require((state["n_clusters"] >= 1).all(), "a number of clusters is impossible")

    @property
    def best(self) -> int:
        """The most plausible number."""
        return int(self.n_clusters[0])

    @property
    def margin(self) -> float:
        """Its support."""
        return float(self.support[0])

    def supports(self, K: int, at_least: float) -> bool:
        """Whether K has as much support."""
        return bool((self.support[self.n_clusters == K] >= at_least).any())

    def __repr__(self) -> str:
        rows = zip(self.n_clusters.tolist(), self.support.tolist(), strict=True)
        return f"<PlausibleNumbers {', '.join(f'{K}: {support:.2f}' for K, support in rows)}>"

    @classmethod
    def ranked(cls, n_clusters: Indices, support: Array) -> PlausibleNumbers:
        """Best first; of equals the smaller number."""
        order = np.argsort(-support, kind="stable")[:MOST_PLAUSIBLE]
        return cls(np.asarray(n_clusters)[order].astype(np.int64), np.asarray(support)[order])

    def led_by(self, K: int, support: float) -> PlausibleNumbers:
        """The same with another number first."""
        others = self.n_clusters != K
        return PlausibleNumbers(
            np.concatenate([[K], self.n_clusters[others]]),
            np.concatenate([[support], np.minimum(self.support[others], 0.0)]),
        )

    @classmethod
    def by_borders(cls, found: list[Cut]) -> PlausibleNumbers:
        """K is right if its K - 1 borders are there and no other is."""
        support = np.array([cut.support for cut in found])
        weakest = np.concatenate([[np.inf], np.minimum.accumulate(support)])
        left_out = np.concatenate([support, [-np.inf]])
        margin = np.minimum(weakest, -left_out)
        # Of the last cut it is not known what would follow, unless nothing is left to divide.
        tried = len(support) + (len(support) + 1 == len(found[-1].clusters))
        return cls.ranked(np.arange(1, tried + 1), margin[:tried])

    @classmethod
    def by_persistence(cls, found: Persistence) -> PlausibleNumbers:
        """K is right if its plateau exceeds what structureless data shows; 1 if none does."""
        excess = found.plateau - found.required
        excess[~np.isfinite(excess)] = -np.inf
        excess[0] = -excess[1:].max(initial=-np.inf)
        known = np.flatnonzero(np.isfinite(excess))
        if not len(known):
            return cls(np.array([found.n_clusters]), np.array([found.margin]))
        return cls.ranked(known + 1, excess[known])


def learnt_from(path: AnnealingPath, rows: int | None) -> float:
    """How many independent samples the coldest level rests on.

    In a stream those of the level itself. In `fit` rows come again, and what a level sees of them
    is a sample of a sample.
    """
    before = path[-2].samples if len(path) > 1 else 0
    own = max(path[-1].samples - before, 1)
    return float(own) if rows is None else 1 / (1 / own + 1 / max(rows, 1))


def as_far_as_placed(path: AnnealingPath, rows: int | None) -> AnnealingPath:
    """The path as far as its codevectors are known well enough to tell a density."""
    for k in range(1, len(path)):
        level = path[k]
        own = level.samples - path[k - 1].samples
        each = (own if rows is None else rows) / level.n_codevectors
        if not well_placed(level.distortion, each, level.temperature):
            return path.until(max(int(path.n_codevectors[:k].max()), 1))
    return path


@dataclass(frozen=True)
class Reading:
    """The clusters that are read off a path as it stands.

    level : the model; None where no border is seen
    plausible : how well numbers of clusters are supported; None of a single codevector
    path : as far as it was read
    """

    level: Level | None
    plausible: PlausibleNumbers | None
    path: AnnealingPath


def read_clusters(
    path: AnnealingPath,
    divergence: BregmanDivergence,
    mean: Array,
    rows: int | None,
    wanted: int | None,
    size: float,
) -> Reading:
    """Join the codevectors of the coldest level into clusters.

    Parameters
    ----------
    path : AnnealingPath
    divergence : BregmanDivergence
    mean : ndarray of shape (n_features,)
    rows : int or None
        How many there are, if they come again and again.
    wanted : int or None
        The number of clusters, if it is given.
    size : float
        The least share of all samples that makes a cluster.
    """
    path = as_far_as_placed(path, rows)
    level, samples = path[-1], learnt_from(path, rows)
    found = cuts_of(level, divergence, mean, samples, 0.0 if wanted is None else LIKELY)
    plausible = PlausibleNumbers.by_borders(found) if found else None
    seen = next((k for k, cut in enumerate(found) if cut.support <= 0), len(found)) + 1
    likely = next((k for k, cut in enumerate(found) if cut.support <= LIKELY), len(found)) + 1
    K = wanted or seen
    # A number that is given asks for borders that are not sure, if they are not refuted. Where even
    # those make less than half of the clusters, borders are not what they are to be told by.
    parted = K if wanted is None else min(K, max(seen, likely))
    if seen == 1 or 2 * parted < K:
        parted = 1
    if parted == 1 and not size:
        return Reading(None, plausible, path)
    points = straightened(divergence, level.codevectors, mean)
    clusters = np.zeros(level.n_codevectors, dtype=np.int64)
    if parted > 1:
        clusters = halved(points, level.weights, found[parted - 2].clusters, K)
    if size:
        clusters = _without_small(points, level, clusters, samples, size)
        if (clusters == 0).all():
            return Reading(None, plausible, path)
    return Reading(with_clusters(path, divergence, clusters), plausible, path)


def _without_small(
    points: Array, level: Level, clusters: Indices, samples: float, size: float
) -> Indices:
    """Clusters with -1 for what lies in none of that share of all samples."""
    clusters, narrowest = clusters.copy(), narrowest_for(level, samples)
    for k in range(int(clusters.max()) + 1):
        own = np.flatnonzero(clusters == k)
        apart = loose(points[own], level.weights[own], narrowest, samples, size * samples)
        clusters[own[apart]] = -1
        if level.weights[own[~apart]].sum() < size:
            clusters[own] = -1
    kept = np.unique(clusters[clusters >= 0])
    if not len(kept):  # nothing is a cluster: all is one
        return np.zeros_like(clusters)
    numbers = np.full(int(clusters.max()) + 2, -1)
    numbers[kept] = np.arange(len(kept))
    return np.asarray(np.where(clusters < 0, -1, numbers[clusters]))


def with_clusters(path: AnnealingPath, divergence: BregmanDivergence, clusters: Indices) -> Level:
    """The coldest level with its codevectors joined.

    Where as many codevectors as there are clusters say the same as all of them, those answer.
    """
    level, K = path[-1], int(clusters.max()) + 1
    joined = replace(level, clusters=clusters)
    if K > len(path.splits) + 1 or (clusters < 0).any():
        return joined
    few = path.codebook(K)
    shared = np.zeros((K, K))
    np.add.at(shared, (cells(level, few, divergence), clusters), level.weights)
    agreed = shared.argmax(axis=1)
    if len(set(agreed.tolist())) < K or shared.max(axis=1).sum() < ROUND:
        return joined
    return _in_order(few, np.argsort(agreed))


def cells(level: Level, few: Level, divergence: BregmanDivergence) -> Indices:
    """To which of a few codevectors each one of a finer level belongs."""
    return kernel_for(divergence).assign(
        level.codevectors, few.codevectors, few.log_weights, few.temperature
    )


def assigned(level: Level, divergence: BregmanDivergence, rows: NDArray[Any]) -> Indices:
    """Number of the likeliest cluster of every row, -1 for those in none."""
    kernel, mu, weight, T = (
        kernel_for(divergence), level.codevectors, level.log_weights, level.temperature,
    )  # fmt: skip
    if level.clusters is None:
        return kernel.assign(rows, mu, weight, T)
    answer = kernel.assign_groups(rows, mu, weight, T, level.groups, int(level.groups.max()) + 1)
    return np.where(answer == level.n_clusters, -1, answer)


def numbered_as(
    level: Level, before: Level, divergence: BregmanDivergence, rows: NDArray[Any]
) -> Level:
    """The same clusters, those that another level has too by the numbers they have there.

    Which are the same is told by the rows they share. Where there are fewer clusters than before,
    the last ones take the numbers of those that are gone; new ones come last.
    """
    K, K_before = level.n_clusters, before.n_clusters
    now, then = (assigned(one, divergence, rows) for one in (level, before))
    inside = (now >= 0) & (then >= 0)
    shared = np.zeros((K, K_before))
    np.add.at(shared, (now[inside], then[inside]), 1.0)
    own, old = linear_sum_assignment(-shared)
    number = np.full(K, -1)
    alike = (shared[own, old] > 0) & (old < K)
    number[own[alike]] = old[alike]
    free = np.setdiff1d(np.arange(K), number)
    number[number < 0] = free
    if level.clusters is None:
        return _in_order(level, np.argsort(number))
    return replace(level, clusters=np.where(level.clusters < 0, -1, number[level.clusters]))


def _in_order(level: Level, order: Indices) -> Level:
    arrays = ("codevectors", "weights", "classes", "nodes", "parents")
    return replace(level, **{name: getattr(level, name)[order] for name in arrays})


@dataclass(eq=False)
class JoinedClusters(LevelChooser):
    """Choose clusters of any shape: a given number, or as many as are seen.

    wanted : the number of clusters, if it is given
    rows : how many there are in `fit`; None in a stream
    size : the fewest samples that make a cluster; 0 if any do
    """

    wanted: Positive | None
    rows: Count | None
    seed: Count
    size: Count = 0
    plausible: PlausibleNumbers | None = None
    persistence: Persistence | None = None
    # What was read when the ladder was about to end.
    _reading: Annotated[Reading | None, Stored.NEVER] = None

    @property
    def may_be_round(self) -> bool:
        """Whether a given number may be met by as many codevectors."""
        return self.wanted is not None and not self.size

    def prefers_round(self, annealer: Annealer) -> bool:
        """Whether a given number is met better by as many codevectors.

        Where there are too few borders, or the density supports round clusters as well as those.
        """
        if self.wanted is None:
            return False
        self._reading = reading = self.read(annealer)
        if reading.level is None:
            return True
        return self._as_round(annealer, reading) is not None

    def __call__(self, annealer: Annealer) -> Level:
        """Join the codevectors of the coldest level, or cut the path where no border is seen."""
        self.persistence = None
        if self.wanted is not None and annealer.schedule.growth == 1:  # the path ends with so many
            self._reading = self.plausible = None
            return GivenK(self.wanted)(annealer)
        reading = self._reading or self.read(annealer)
        self._reading, self.plausible = None, reading.plausible
        if self.wanted is not None:
            return GivenK(self.wanted)(annealer) if reading.level is None else reading.level
        judged = annealer.d <= MOST_FEATURES
        if reading.level is not None and reading.plausible is not None:
            if reading.plausible.margin >= SURE or not judged:
                return reading.level
            more = self._more(annealer, reading)
            return more or self._as_round(annealer, reading) or reading.level
        K = self._judge(annealer).n_clusters if judged else 1
        if K > 1 and (self._refuted(annealer, reading.path, K) or self._too_small(annealer, K)):
            K = 1
        if K > 1 and self.persistence is not None:
            self.plausible = PlausibleNumbers.by_persistence(self.persistence)
        return annealer.path().codebook(K)

    def _refuted(self, annealer: Annealer, path: AnnealingPath, K: int) -> bool:
        """Whether the density does not fall between K round clusters that persist.

        Along a line, straight or bent, some K persists by chance now and then.
        """
        if K > len(path.splits) + 1:
            return False
        own = cells(path[-1], path.codebook(K), annealer.divergence)
        return bool(self._support(annealer, path, own) < REFUTED * np.sqrt(K - 1))

    def _too_small(self, annealer: Annealer, K: int) -> bool:
        """Whether any of K round clusters is of fewer samples than make one."""
        lightest = float(annealer.path().codebook(K).weights.min())
        return lightest < self.size / max(self.rows or annealer.classes[0].total_weight, 1)

    def _more(self, annealer: Annealer, reading: Reading) -> Level | None:
        """More clusters than there are sure borders, if they persist and are not contradicted."""
        path, plausible = reading.path, reading.plausible
        assert plausible is not None
        plateau = plateaus(path)[:MOST_ROUND]
        lasting = np.flatnonzero(plateau >= LEAST_EXCESS) + 1
        for K in sorted(lasting[lasting > plausible.best], key=lambda K: -plateau[K - 1]):
            few = path.codebook(int(K))
            if not self._borne_out(annealer, path, few):
                continue
            persistence = self._judge(annealer) if self.persistence is None else self.persistence
            if persistence.n_clusters == K:
                self.plausible = plausible.led_by(int(K), persistence.margin)
                return few
        return None

    def _borne_out(self, annealer: Annealer, path: AnnealingPath, few: Level) -> bool:
        """Whether a few round clusters have mass, and the density does not contradict them."""
        own = cells(path[-1], few, annealer.divergence)
        mass = np.bincount(own, path[-1].weights, few.n_codevectors)
        if mass.min() < LIGHTEST / few.n_codevectors:
            return False
        return self._support(annealer, path, own) >= LIKELY

    def _as_round(self, annealer: Annealer, reading: Reading) -> Level | None:
        """As many round clusters, where borders are not sure and the density shows those too.

        Borders that are not sure are drawn as chance has it.
        """
        path, level = reading.path, reading.level
        if self.size or level is None or level.clusters is None:
            return None
        if level.n_clusters > len(path.splits) + 1:
            return None
        support = self._support(annealer, path, level.clusters)
        if support >= SURE:
            return None
        few = path.codebook(level.n_clusters)
        own = cells(path[-1], few, annealer.divergence)
        less = ALIKE if self.wanted is None else SURE
        return few if self._support(annealer, path, own) >= support - less else None

    def still_plausible(self, annealer: Annealer, K: int) -> bool:
        """Whether K may be right, the number by fewer samples of the same stream.

        A larger number than is seen now is given up only for a density that contradicts it, a
        smaller one for borders that are more than chance.
        """
        path, plausible = as_far_as_placed(annealer.path(), self.rows), self.plausible
        if plausible is None or K > len(path.splits) + 1:
            return False
        if K > plausible.best:
            return self._borne_out(annealer, path, path.codebook(K))
        by_plateau = self.persistence is not None and self.persistence.n_clusters == plausible.best
        return not by_plateau and plausible.supports(K, -ALIKE)

    def _support(self, annealer: Annealer, path: AnnealingPath, clusters: Indices) -> float:
        mean, samples = annealer.classes[0].mean, learnt_from(path, self.rows)
        return support_between(path[-1], annealer.divergence, mean, samples, clusters)

    def _judge(self, annealer: Annealer) -> Persistence:
        """How long every K persists."""
        path, schedule = annealer.path(), annealer.schedule
        samples = self.rows or path[-1].samples
        self.persistence = judge_persistence(
            path,
            covariance_of(annealer),
            replace(schedule, K_max=min(schedule.K_max, MOST_ROUND)),
            max(min(samples, SURROGATE_SAMPLES), 2),
            self.seed,
        )
        return self.persistence

    def read(self, annealer: Annealer, wanted: int | None = None) -> Reading:
        """What the path shows as it stands, also on the way down."""
        state = annealer.classes[0]
        size = self.size / max(self.rows or state.total_weight, 1)
        wanted = self.wanted if wanted is None else wanted
        return read_clusters(
            annealer.path(), annealer.divergence, state.mean, self.rows, wanted, size
        )
