"""How many clusters, and how good: the number found by itself, and the distortion at a given one.

- ``n_clusters="auto"`` on data whose number of clusters is known, 10 seeds each; data and model are
  both reseeded. The margin is how far the answer stood from another one, in log T.
- Distortion (sum of squared distances to the nearest codevector) of polished models, K given or
  found, against ``KMeans(K, n_init=10)``, the best of ten starts by k-means++.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.preprocessing import StandardScaler

from annealed import ODAClustering
from benchmarks.data import (
    Rows,
    eight_in_sixteen,
    fifteen_on_grid,
    one_gaussian,
    uniform_square,
)
from benchmarks.harness import header, number, one_thread, seconds, table, verdict


@dataclass(frozen=True)
class Problem:
    """Data with a known number of clusters, and how many of ten seeds must find it."""

    name: str
    make: Callable[[int], Rows]
    K: int
    bar: int | None = 9


PROBLEMS = (
    Problem("8 Gaussians in [-6, 6]^16", eight_in_sixteen, 8),
    Problem("15 Gaussians, grid 8 sd", lambda seed: fifteen_on_grid(seed, 8), 15),
    Problem("15 Gaussians, grid 5 sd", lambda seed: fifteen_on_grid(seed, 5), 15, None),
    Problem("15 Gaussians, grid 4 sd", lambda seed: fifteen_on_grid(seed, 4), 15, None),
    Problem("1 Gaussian, d = 2", lambda seed: one_gaussian(seed, 2), 1),
    Problem("1 Gaussian, d = 5", lambda seed: one_gaussian(seed, 5), 1),
    Problem("1 Gaussian, d = 16", lambda seed: one_gaussian(seed, 16), 1),
    Problem("uniform square", uniform_square, 1),
)


def automatic(problem: Problem, seeds: int) -> list[object]:
    """One line: how often the number of clusters was right."""
    found, margins, times = [], [], []
    for seed in range(seeds):
        X = problem.make(seed)
        model = ODAClustering(random_state=seed)
        times.append(seconds(partial(model.fit, X)))
        found.append(model.n_clusters_)
        margins.append(model.n_clusters_margin_)
    right = [K == problem.K for K in found]
    of_right = [margin for margin, ok in zip(margins, right, strict=True) if ok]
    of_wrong = [margin for margin, ok in zip(margins, right, strict=True) if not ok]
    others = Counter(K for K, ok in zip(found, right, strict=True) if not ok)
    wrong = ", ".join(f"{count} x {K}" for K, count in sorted(others.items())) or "-"
    met = "-" if problem.bar is None else verdict(sum(right) >= problem.bar * seeds / 10)
    return [
        problem.name, problem.K, f"{sum(right)}/{seeds}", problem.bar or "-", met,
        _number_of(statistics.median, of_right), _number_of(min, of_right),
        _number_of(max, of_wrong), wrong, number(statistics.median(times)),
    ]  # fmt: skip


def _number_of(pick: Callable[[list[float]], float], values: list[float]) -> str:
    return number(pick(values), 2) if values else "-"


def distortion(X: Rows, centres: Rows) -> float:
    """Sum of squared distances to the nearest centre."""
    _, distance = pairwise_distances_argmin_min(X, centres)
    return float((distance**2).sum())


@dataclass(frozen=True)
class Rivalry:
    """Ours over k-means: distortions and times."""

    ratio: float
    time: float


def rivalry(X: Rows, K: int, seed: int, n_clusters: int | str) -> Rivalry:
    """Polished annealing against the best of ten k-means++; no ratio if it found another K."""
    ours = ODAClustering(n_clusters, polish=True, random_state=seed)
    theirs = KMeans(K, n_init=10, random_state=seed)
    mine, other = seconds(partial(ours.fit, X)), seconds(partial(theirs.fit, X))
    if ours.n_clusters_ != K:
        return Rivalry(float("nan"), mine / other)
    return Rivalry(
        distortion(X, ours.cluster_centers_) / distortion(X, theirs.cluster_centers_), mine / other
    )


def _spread(values: Iterable[float]) -> list[str]:
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return ["-"] * 3
    return [f"{value:.4f}" for value in (statistics.median(ordered), ordered[0], ordered[-1])]


def at_true_K(problem: Problem, n_clusters: int | str, seeds: int) -> list[object]:
    """One line: how often the distortion is within 0.1 % of k-means'."""
    runs = [rivalry(problem.make(seed), problem.K, seed, n_clusters) for seed in range(seeds)]
    within = sum(run.ratio <= 1.001 for run in runs)
    ratios, time = [run.ratio for run in runs], statistics.median(run.time for run in runs)
    met = verdict(within >= 0.9 * seeds)
    return [problem.name, n_clusters, f"{within}/{seeds}", met, *_spread(ratios), number(time)]


def at_other_K(name: str, X: Rows, K: int, seeds: int) -> list[object]:
    """One line: distortion on data without a true K."""
    runs = [rivalry(X, K, seed, K) for seed in range(seeds)]
    ratios, time = [run.ratio for run in runs], statistics.median(run.time for run in runs)
    return [name, K, *_spread(ratios), verdict(statistics.median(ratios) < 1.02), number(time)]


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("clusters: the number of clusters, and distortion beside k-means")
    seeds = 2 if quick else 10
    digits: Rows = load_digits().data
    cancer: Rows = StandardScaler().fit_transform(load_breast_cancer().data)
    with one_thread():
        table(
            'n_clusters="auto": right answers, margins in log T (larger is surer), time of fit',
            ["data", "K", "right", "bar", "", "margin if right\nmedian", "\nleast",
             "margin if\nwrong, most", "wrong\nanswers", "median\ns"],
            [automatic(problem, seeds) for problem in PROBLEMS],
        )  # fmt: skip
        ratio = ["ratio\nmedian", "\nleast", "\nmost"]
        table(
            "Distortion at the true K, polished, over KMeans(n_init=10): within 0.1 % (bar: 9/10)",
            ["data", "n_clusters", "within", "", *ratio, "time\nratio"],
            [at_true_K(p, given, seeds) for p in PROBLEMS[:2] for given in (p.K, "auto")],
        )
        table(
            "Distortion at other K, polished, over KMeans(n_init=10) (aim: median below 1.02)",
            ["data", "K", *ratio, "aim", "time\nratio"],
            [
                at_other_K(name, X, K, 2 if quick else 5)
                for name, X in (("digits", digits), ("WBCD, standardised", cancer))
                for K in (5, 10, 15, 20)
            ],
        )


if __name__ == "__main__":
    main()
