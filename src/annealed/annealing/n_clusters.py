"""How many clusters: the K that persists, judged against data without structure.

Some K always persists a little longer than its neighbours, also where there are no clusters. So the
path is compared with the paths of surrogates that have the data's covariance and nothing else: a
Gaussian, and a uniform box along the principal axes (whose corners alone make K = 4 persist in the
plane). A K counts only as far as it persists beyond them; if none does, the answer is K = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from annealed.annealing.annealer import Annealer, LevelChooser
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, SquaredEuclidean
from annealed.path import AnnealingPath, Level
from annealed.stored import Count, Positive, State, Vector, one_length
from annealed.threads import in_threads, n_threads

# Surrogate paths of each kind: so many, and only if those leave it open as many as come next. With
# them the standard deviations by which a plateau must exceed their mean: the bound below which one
# draw more lies with a probability of .98, t(.98, m - 1) sqrt(1 + 1/m).
DEVIATIONS = {3: 8.04, 6: 3.63, 12: 2.83}
# And by at least this stretch of log T (a factor 1.35 in temperature): with fewer surrogates than K
# looked at, chance would otherwise come through.
LEAST_EXCESS = 0.3
# Plateaus of structureless data wander from K to K: each K is compared with the longest within
# this factor of it.
WINDOW = 1.3
SURROGATE_SAMPLES = 5000
KINDS = "gaussian", "box"


@dataclass(frozen=True, eq=False)
class Persistence:
    """Plateaus of the path beside those of structureless data, for K = 1, 2, ...

    Attributes
    ----------
    n_clusters : int
        The K that stands out, or 1.
    margin : float
        How far its plateau stands above the bar, in log T; for K = 1 how far the best other K
        stayed below it. The larger, the surer.
    plateau : ndarray of shape (K,)
        Stretch of log T over which the path has K codevectors; entry K - 1 belongs to K.
    expected, required : ndarray of shape (K,)
        What structureless data gives on average, and the bar a plateau has to pass (nan and
        infinite where the surrogates did not go).
    """

    n_clusters: Positive
    margin: float
    plateau: Vector
    expected: Vector
    required: Vector

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Of every plateau it is known what was expected and required."""
        one_length("the plateaus", state["plateau"], state["expected"], state["required"])


# How a surrogate is annealed: rows, schedule, randomness.
Anneal = Callable[[Array, Schedule, np.random.Generator], AnnealingPath]


def anneal_online(X: Array, schedule: Schedule, rng: np.random.Generator) -> AnnealingPath:
    """The path of rows that are annealed online."""
    annealer = Annealer(X.shape[1], SquaredEuclidean(), schedule)
    annealer.add_class()
    annealer.anneal(X, None, None, rng)
    return annealer.path()


def judge_persistence(
    path: AnnealingPath,
    covariance: Array,
    schedule: Schedule,
    samples: int,
    seed: int,
    anneal: Anneal = anneal_online,
) -> Persistence:
    """Compare the plateaus of a path with those of surrogates of the same covariance.

    ``anneal`` is what the path itself was annealed by: plateaus are compared like with like.
    """
    plateau = plateaus(path)
    most = max(samples // 2, 2)  # a cluster is more than one sample
    noticeable = np.flatnonzero(plateau[1:most] >= LEAST_EXCESS) + 2  # no bar is lower
    # A level at most doubles K, so a path that ends before K_max has come beyond half of it.
    K_max = min(max(20, 3 * int(noticeable.max(initial=1))), most)
    # Like with like: on a longer path more of the splits that chance made have been taken back.
    plateau = plateaus(path.until(K_max))
    if not (plateau[1:] > LEAST_EXCESS).any():
        unknown = np.full(len(plateau), np.nan)
        margin = LEAST_EXCESS - float(plateau[1:].max(initial=0.0))
        return Persistence(1, margin, plateau, unknown, np.full(len(plateau), LEAST_EXCESS))
    brief = replace(schedule, T_max=None, T_min=None, K_max=K_max, wanted=None, paper=False)
    expected, required = np.full(len(plateau), np.nan), np.full(len(plateau), -np.inf)

    known: dict[tuple[str, int], Array] = {}
    principal = np.linalg.eigh(covariance)

    def run(which: tuple[str, int]) -> Array:
        # Each has randomness of its own: it does not matter which comes first.
        kind, k = which
        rng = np.random.default_rng([seed, KINDS.index(kind), k])
        return plateaus(anneal(_surrogate(kind, *principal, samples, rng), brief, rng))

    def first_of(kind: str, m: int) -> list[Array]:
        """The first m of a kind; threads that would have nothing to do begin with the next kind."""
        wanted = [(kind, k) for k in range(m)]
        missing = [which for which in wanted if which not in known]
        after = [(other, k) for other in KINDS[KINDS.index(kind) + 1 :] for k in range(m)]
        missing += [which for which in after if which not in known][: -len(missing) % n_threads()]
        known.update(zip(missing, in_threads(run, missing), strict=True))
        return [known[which] for which in wanted]

    for kind in KINDS:
        for m, deviations in DEVIATIONS.items():
            runs = first_of(kind, m)
            mean, longest, bar = _bar(runs, len(plateau), deviations)
            if (plateau > bar).any() or (m > min(DEVIATIONS) and not (plateau > longest).any()):
                break
        expected, required = np.fmax(expected, mean), np.maximum(required, bar)
        if not (plateau > required).any():  # no other kind can let a K through again
            break
    excess = np.where(np.isfinite(required), plateau - required, -np.inf)
    best = int(excess.argmax())
    n_clusters = best + 1 if excess[best] > 0 else 1
    margin = abs(float(excess[best]))
    return Persistence(n_clusters, margin, plateau, expected, required)


def plateaus(path: AnnealingPath) -> Array:
    """`AnnealingPath.persistence`, none beginning long before there is a level with so many.

    Splits that are noticed late count from their critical temperatures on. Of noise in many
    dimensions a few are noticed long after they became possible, and all the others at once: no
    level bears out the stretch between them. A K begins at most a level before the first that has
    as many codevectors.
    """
    if len(path) < 2:
        return path.persistence()
    edges = np.concatenate([[0.0], -np.cumsum(path.persistence())])
    log_T = np.log(path.temperatures)
    reached = np.searchsorted(np.maximum.accumulate(path.n_codevectors), np.arange(1, len(edges)))
    hottest = max([path.temperatures[0], *(T for _, T in path.ordered_splits[:1])])
    begin = log_T[np.maximum(reached - 1, 0)] - np.log(hottest)  # the first edge stands at 0
    begin[0] = 0.0
    return np.asarray(np.maximum(np.minimum(edges[:-1], begin) - edges[1:], 0.0))


def _bar(runs: list[Array], length: int, deviations: float) -> tuple[Array, Array, Array]:
    """Mean and longest plateau of surrogates near every K, and what one there has to exceed."""
    mean, most, bar = (np.full(length, value) for value in (np.nan, np.inf, np.inf))
    reach = min(len(run) for run in runs)
    K = np.arange(2, max(int(reach / WINDOW), 1) + 1)
    if len(K):
        longest = np.array([[_longest_near(run, k) for k in K.tolist()] for run in runs])
        variance = longest.var(axis=0, ddof=1)
        near = (K >= K[:, None] / 2) & (K <= K[:, None] * 2)  # few runs say little of a spread
        spread = np.sqrt((near * variance).sum(axis=1) / near.sum(axis=1))
        here = K[K <= length]
        mean[here - 1] = longest.mean(axis=0)[: len(here)]
        most[here - 1] = longest.max(axis=0)[: len(here)]
        needed = longest.mean(axis=0) + np.maximum(deviations * spread, LEAST_EXCESS)
        bar[here - 1] = needed[: len(here)]
    return mean, most, bar


def _longest_near(plateau: Array, K: int) -> float:
    low, high = max(int(np.ceil(K / WINDOW)), 2), int(np.floor(K * WINDOW))
    return float(plateau[low - 1 : high].max(initial=0.0))


def _surrogate(
    kind: str, variance: Array, axes: Array, samples: int, rng: np.random.Generator
) -> Array:
    """One data set with such variances along its principal axes, and no other structure."""
    shape = (samples, len(variance))
    if kind == "gaussian":
        Z = rng.normal(size=shape)
    else:
        Z = rng.uniform(-np.sqrt(3), np.sqrt(3), size=shape)
    return np.asarray((Z * np.sqrt(np.maximum(variance, 0.0))) @ axes.T)


def covariance_of(annealer: Annealer) -> Array:
    """Covariance of what was annealed, in coordinates where phi is half of Euclid's curvature.

    It comes from the coldest codebook, which knows where samples are, plus the variance within
    cells as far as the warm-up saw it: no sample is looked at again, so it works in a stream.
    Scaled by the square root of H/2 at the mean, any divergence is the squared Euclidean one to
    second order, with the same unit of temperature.
    """
    state = annealer.classes[0]
    level = annealer.path()[-1]
    matrix = annealer.divergence.matrix
    rows, mean = level.codevectors, state.mean
    if matrix is None:
        scale = np.sqrt(annealer.divergence.hessian_diagonal(mean[None, :])[0] / 2)
        variance = state.variance * scale**2
        rows = rows * scale
    else:
        variance = state.variance
        rows = rows @ matrix
    centred = rows - level.weights @ rows
    between = (centred * level.weights[:, None]).T @ centred
    return between + np.diag(np.maximum(variance - np.diag(between), 0.0))


@dataclass(eq=False)
class GivenK(LevelChooser):
    """Choose the model with a given number of codevectors."""

    K: Positive

    def __call__(self, annealer: Annealer) -> Level:
        """Cut the path at K, or as close below as it comes."""
        path = annealer.path()
        return path.codebook(min(self.K, len(path.splits) + 1))


@dataclass(eq=False)
class PersistentK(LevelChooser):
    """Choose the level whose K stands out, cut where it is coldest."""

    samples: Count | None
    seed: Count
    persistence: Persistence | None = None

    def __call__(self, annealer: Annealer) -> Level:
        """Judge the path and cut it at the K that persists."""
        samples = self.samples or annealer.path()[-1].samples
        self.persistence = judge_persistence(
            annealer.path(),
            covariance_of(annealer),
            annealer.schedule,
            max(min(samples, SURROGATE_SAMPLES), 2),
            self.seed,
        )
        return annealer.path().codebook(self.persistence.n_clusters)
