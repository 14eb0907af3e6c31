"""The algorithms of Fig. 2 and Fig. 4 a, and what each has reached after how many samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.cluster import KMeans

from annealed.baselines import DeterministicAnnealing, StochasticVQ
from annealed.divergences import Array
from annealed.estimators import ODAClustering
from annealed.experiments.configuration import Settings
from annealed.experiments.models import quiet

ALGORITHMS = ("ODA", "DA", "k-means", "sVQ")


@dataclass(frozen=True)
class Point:
    """A codebook on the way: after how many samples and seconds, how large, how good."""

    samples: int
    seconds: float
    codevectors: Array
    distortion: float

    @property
    def K(self) -> int:
        """Number of codevectors."""
        return len(self.codevectors)


def distortion(X: Array, codevectors: Array) -> float:
    """Mean squared distance to the nearest codevector, the same measure for all algorithms."""
    square = (codevectors**2).sum(axis=1) - 2 * X @ codevectors.T
    return float(((X**2).sum(axis=1) + square.min(axis=1)).mean())


class _Clock:
    """A callback that notes when each level is done."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.at: dict[float, float] = {}

    def __call__(self, level: Any) -> None:
        self.at[level.temperature] = time.perf_counter() - self.began


def annealed(model: Any, X: Array) -> tuple[Any, list[Point]]:
    """Fit ODA or DA, and every level as a point."""
    clock = _Clock()
    with quiet():
        model.set_params(callbacks=[clock]).fit(X)
    points = [
        Point(level.samples, clock.at[level.temperature], level.codevectors,
              distortion(X, level.codevectors))
        for level in model.path_
    ]  # fmt: skip
    return model, points


def in_sequence(fit: Callable[[int], tuple[Array, int]], X: Array, Ks: list[int]) -> list[Point]:
    """Run an algorithm that needs to be told K for one K after the other, adding up its cost."""
    points, samples, seconds = [], 0, 0.0
    for K in Ks:
        began = time.perf_counter()
        with quiet():
            codevectors, observed = fit(K)
        seconds += time.perf_counter() - began
        samples += observed
        points.append(Point(samples, seconds, codevectors, distortion(X, codevectors)))
    return points


def batch_da(settings: Settings) -> DeterministicAnnealing:
    """Rose's algorithm, down to K_max codevectors."""
    return DeterministicAnnealing(
        None, K_max=settings["K_max"], gamma=settings["da_gamma"], tol=settings["da_tol"]
    )


def online_da(settings: Settings, seed: int) -> ODAClustering:
    """Ours with its defaults, to more codevectors than DA so that it has every K of DA's."""
    K_max = settings["oda_growth"] * settings["K_max"]
    return ODAClustering(None, K_max=K_max, random_state=seed)


def k_means(X: Array, settings: Settings) -> Callable[[int], tuple[Array, int]]:
    """scikit-learn's, from one start; the choice of the start counts as one pass."""

    def fit(K: int) -> tuple[Array, int]:
        model = KMeans(K, n_init=1, random_state=settings["seed"]).fit(X)
        return model.cluster_centers_, (model.n_iter_ + 1) * len(X)

    return fit


def stochastic_vq(X: Array, settings: Settings) -> Callable[[int], tuple[Array, int]]:
    """Stochastic vector quantization, pass by pass until nothing is gained."""

    def fit(K: int) -> tuple[Array, int]:
        model = StochasticVQ(K, random_state=settings["seed"]).fit(X)
        return model.codevectors_, model.n_iter_ * len(X)

    return fit


def sizes(points: list[Point]) -> list[int]:
    """Every K that DA found, in order."""
    return sorted({point.K for point in points})
