"""Clusters as people see them: of any shape and spread, and how many there are.

- 58 labelled sets, mostly in the plane (a folder of CSV files, last column ``cluster``), centred
  and divided by one standard deviation; label -1 counts as a cluster of its own, for everyone.
  Found by itself beside HDBSCAN, with the number given beside k-means, a Gaussian mixture and,
  where it is installed, genieclust. Adjusted Rand index, mean over seeds.
- Textbook sets, five blobs among points that are far away, and data without clusters: how often the
  number is right; data and model are both reseeded.
- Time of a fit that decides, beside one with ``shape="round"``, which is decided by surrogates.
"""

from __future__ import annotations

import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from annealed import ODAClustering
from benchmarks.data import Rows, eight_in_sixteen, fifteen_on_grid
from benchmarks.harness import header, number, one_thread, seconds, table, verdict

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "shapes"
Labels = NDArray[Any]


def sets_in(folder: Path) -> Iterator[tuple[str, Rows, Labels]]:
    """Name, rows and labels of every file."""
    import pandas as pd

    for file in sorted(folder.glob("*.csv.gz")):
        frame = pd.read_csv(file)
        X = frame.iloc[:, :-1].to_numpy(dtype=float)
        X = X - X.mean(axis=0)
        yield file.name.removesuffix(".csv.gz"), X / X.std(), frame.iloc[:, -1].to_numpy()


def genie(K: int, X: Rows) -> Labels | None:
    """What genieclust finds; None where it is not installed."""
    if find_spec("genieclust") is None:
        return None
    labels: Labels = import_module("genieclust").Genie(n_clusters=K).fit_predict(X)
    return labels


def hdbscan(X: Rows) -> Labels:
    """What HDBSCAN finds."""
    labels: Labels = HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X)
    return labels


@dataclass(frozen=True)
class SetResult:
    """What came out on one set, by method."""

    name: str
    K: int
    found: list[int]
    hdbscan_found: int
    auto: dict[str, float]
    given: dict[str, float]
    time: float
    round_time: float


def run_set(name: str, X: Rows, y: Labels, seeds: int) -> SetResult:
    """All methods on one set."""
    K = len(np.unique(y))
    score = partial(adjusted_rand_score, y)
    auto: list[float] = []
    given: dict[str, list[float]] = {"ours": [], "k-means": [], "mixture": []}
    found, times, round_times = [], [], []
    for seed in range(seeds):
        model = ODAClustering(random_state=seed)
        times.append(seconds(partial(model.fit, X)))
        round_times.append(seconds(partial(ODAClustering(shape="round", random_state=seed).fit, X)))
        found.append(model.n_clusters_)
        auto.append(score(model.labels_))
        given["ours"].append(score(ODAClustering(K, random_state=seed).fit(X).labels_))
        given["k-means"].append(score(KMeans(K, n_init=10, random_state=seed).fit(X).labels_))
        given["mixture"].append(score(GaussianMixture(K, random_state=seed).fit(X).predict(X)))
    by_hdbscan, by_genie = hdbscan(X), genie(K, X)
    if by_genie is not None:
        given["genie"] = [score(by_genie)]
    return SetResult(
        name, K, found, len(np.unique(by_hdbscan)),
        {"ours": statistics.mean(auto), "hdbscan": score(by_hdbscan)},
        {method: statistics.mean(values) for method, values in given.items()},
        statistics.mean(times), statistics.mean(round_times),
    )  # fmt: skip


def show_sets(folder: Path, seeds: int) -> None:
    """A row for every set, and the means beside their bars."""
    results = [run_set(name, X, y, seeds) for name, X, y in sets_in(folder)]
    if not results:
        print(f"no sets in {folder}")
        return
    methods = list(results[0].given)
    table(
        f"Adjusted Rand index, mean of {seeds} seeds",
        ["set", "K", "found", "HDBSCAN\nfound", "ours", "HDBSCAN",
         *(f"given K\n{m}" if k == 0 else f"\n{m}" for k, m in enumerate(methods)), "s"],
        [
            [r.name, r.K, ", ".join(map(str, r.found)), r.hdbscan_found,
             f"{r.auto['ours']:.3f}", f"{r.auto['hdbscan']:.3f}",
             *(f"{r.given[m]:.3f}" for m in methods), number(r.time)]
            for r in results
        ],
    )  # fmt: skip
    ours = statistics.mean(r.auto["ours"] for r in results)
    theirs = statistics.mean(r.auto["hdbscan"] for r in results)
    right = statistics.mean(K == r.K for r in results for K in r.found)
    given = {m: statistics.mean(r.given[m] for r in results) for m in methods}
    ratio = sum(r.time for r in results) / sum(r.round_time for r in results)
    others = ", ".join(f"{m} {given[m]:.3f}" for m in methods if m != "ours")
    table(
        "All sets",
        ["", "measured", "bar", "", "beside"],
        [
            ["mean, found by itself", f"{ours:.3f}", ".75", verdict(ours >= 0.75),
             f"HDBSCAN {theirs:.3f}"],
            ["median", f"{statistics.median(r.auto['ours'] for r in results):.3f}", "-", "-",
             f"HDBSCAN {statistics.median(r.auto['hdbscan'] for r in results):.3f}"],
            ["right number", f"{right:.0%}", "60%", verdict(right >= 0.6), ""],
            ["mean, number given", f"{given['ours']:.3f}", ".82", verdict(given["ours"] >= 0.82),
             others],
            ['time over shape="round"', number(ratio), "1.5", verdict(ratio <= 1.5), ""],
        ],
    )  # fmt: skip


# -- how many: what is in every textbook -----------------------------------------------------------


def spreads(seed: int) -> Rows:
    """Three blobs of standard deviation 1, 2.2 and 0.5."""
    centers = [[0, 0], [8, 0], [3, 7]]
    X, _ = make_blobs(600, centers=centers, cluster_std=[1, 2.2, 0.5], random_state=seed)
    return np.asarray(X)


def sizes(seed: int) -> Rows:
    """Three blobs of 500, 100 and 20 rows."""
    X, _ = make_blobs([500, 100, 20], centers=[[0, 0], [8, 0], [4, 7]], random_state=seed)
    return np.asarray(X)


def elongated(seed: int) -> Rows:
    """Three blobs six times as long as wide."""
    rng = np.random.default_rng(seed)
    centres = np.repeat([[0.0, 0.0], [0.0, 6.0], [0.0, 12.0]], 200, axis=0)
    return centres + rng.normal(size=(600, 2)) * [6.0, 1.0]


TEXTBOOK: tuple[tuple[str, Callable[[int], Any], set[int]], ...] = (
    ("iris", lambda seed: load_iris().data, {2, 3}),
    ("blobs of sd 1, 2.2, 0.5", spreads, {3}),
    ("blobs of 500, 100, 20", sizes, {3}),
    ("elongated blobs", elongated, {3}),
    ("moons", lambda seed: make_moons(800, noise=0.05, random_state=seed)[0], {2}),
    ("circles (0.5)", lambda s: make_circles(800, noise=0.05, factor=0.5, random_state=s)[0], {2}),
    ("wine", lambda seed: StandardScaler().fit_transform(load_wine().data), {3}),
    ("8 Gaussians in 16-D", eight_in_sixteen, {8}),
    ("15 on a grid, 8 sd", lambda seed: fifteen_on_grid(seed, 8), {15}),
    ("15 on a grid, 5 sd", lambda seed: fifteen_on_grid(seed, 5), {15}),
    ("15 on a grid, 4 sd", lambda seed: fifteen_on_grid(seed, 4), {15}),
)


def count(make: Callable[[int], Any], wanted: set[int], seeds: int) -> list[object]:
    """How often the number is among those wanted, of any shape and round, and what else it is."""
    row: list[object] = []
    for shape in ("any", "round"):
        found = [
            ODAClustering(shape=shape, random_state=seed).fit(make(seed)).n_clusters_
            for seed in range(seeds)
        ]
        right = sum(K in wanted for K in found)
        others = Counter(K for K in found if K not in wanted)
        row += [f"{right}/{seeds}"]
        if shape == "any":
            row += [verdict(right >= 0.9 * seeds)]
        row += [", ".join(f"{n} x {K}" for K, n in sorted(others.items())) or "-"]
    return row


# -- thin clusters, and ever more rows of them -----------------------------------------------------

MANY = 500, 2000, 8000, 30_000


def bent_line(n: int, seed: int) -> Rows:
    """One cluster, an S."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.5 * np.pi, 1.5 * np.pi, n)
    return np.c_[np.sin(t), np.sign(t) * (np.cos(t) - 1)] + 0.1 * rng.normal(size=(n, 2))


def straight_line(n: int, seed: int) -> Rows:
    """One cluster, a hundred standard deviations long."""
    rng = np.random.default_rng(seed)
    return np.c_[rng.uniform(0, 10, n), 0.1 * rng.normal(size=n)]


def spirals(n: int, seed: int) -> Rows:
    """Two that wind around each other."""
    rng = np.random.default_rng(seed)
    t, arm = 3 * np.pi * np.sqrt(rng.uniform(0.05, 1, n)), rng.integers(2, size=n)
    arms = np.c_[t * np.cos(t + np.pi * arm), t * np.sin(t + np.pi * arm)] / 5
    return np.asarray(arms + 0.08 * rng.normal(size=(n, 2)))


def rings(n: int, seed: int) -> Rows:
    """Three around each other."""
    rng = np.random.default_rng(seed)
    radius, t = rng.integers(3, size=n) + 0.5, rng.uniform(0, 2 * np.pi, n)
    return np.c_[radius * np.cos(t), radius * np.sin(t)] + 0.1 * rng.normal(size=(n, 2))


def of_many(make: Callable[..., Any], n: int, seed: int, **options: float) -> Rows:
    """Some rows of scikit-learn's: all of them lie at even distances along their lines."""
    X, _ = make(20 * n, random_state=seed, **options)
    return np.asarray(X[:n])


THIN: dict[str, tuple[Callable[[int, int], Rows], int]] = {
    "two moons, noise .05": (lambda n, s: of_many(make_moons, n, s, noise=0.05), 2),
    "two moons, noise .1": (lambda n, s: of_many(make_moons, n, s, noise=0.1), 2),
    "two circles": (lambda n, s: of_many(make_circles, n, s, noise=0.05, factor=0.5), 2),
    "three rings": (rings, 3),
    "two spirals": (spirals, 2),
    "one line": (straight_line, 1),
    "one bent line": (bent_line, 1),
}


def thin(seeds: int) -> None:
    """How often the number is right, by the number of rows."""
    lines = []
    for name, (make, K) in THIN.items():
        line: list[object] = [name, K]
        for n in MANY:
            found = [
                ODAClustering(random_state=seed).fit(make(n, seed)).n_clusters_
                for seed in range(seeds)
            ]
            others = Counter(k for k in found if k != K)
            seen = ", ".join(f"{m} x {k}" for k, m in sorted(others.items()))
            line.append(f"{seeds - others.total()}/{seeds}" + (f" ({seen})" if seen else ""))
        lines.append(line)
    table(
        "Thin clusters: right numbers by rows (other answers)",
        ["data", "K", *(f"{n} rows" for n in MANY)],
        lines,
    )


# -- points that are far away ----------------------------------------------------------------------


def blobs_and_far_points(seed: int, share: float, width: float) -> tuple[Rows, Labels]:
    """Five blobs in three dimensions, and points uniform in a box so many times as wide."""
    X, y = make_blobs(1000, centers=5, n_features=3, random_state=seed)
    rng = np.random.default_rng(seed)
    half = (X.max(axis=0) - X.min(axis=0)) / 2
    middle = X.min(axis=0) + half
    far = middle + width * half * rng.uniform(-1, 1, size=(round(share * 1000), 3))
    return np.concatenate([X, far]), y


def far_points(share: float, width: float, seeds: int) -> list[object]:
    """One line: the number found and the agreement on the rows that belong somewhere."""
    auto: dict[str, list[float]] = {"ours": [], "ours, 5 given": [], "k-means": [], "hdbscan": []}
    found = []
    for seed in range(seeds):
        X, y = blobs_and_far_points(seed, share, width)
        model = ODAClustering(random_state=seed).fit(X)
        found.append(model.n_clusters_)
        labels = {
            "ours": model.labels_,
            "ours, 5 given": ODAClustering(5, random_state=seed).fit(X).labels_,
            "k-means": KMeans(5, n_init=10, random_state=seed).fit(X).labels_,
            "hdbscan": hdbscan(X),
        }
        for method, all_labels in labels.items():
            auto[method].append(adjusted_rand_score(y, all_labels[: len(y)]))
    mean = {method: statistics.mean(values) for method, values in auto.items()}
    best = max(mean["k-means"], mean["hdbscan"])
    return [
        f"{share:.0%}", f"{width:g} x", f"{sum(K == 5 for K in found)}/{seeds}",
        *(f"{mean[m]:.3f}" for m in auto),
        verdict(mean["ours"] >= best - 0.03), verdict(mean["ours, 5 given"] >= best - 0.03),
    ]  # fmt: skip


# -- data without clusters -------------------------------------------------------------------------


def _gaussian(n: int, d: int) -> Callable[[np.random.Generator], Rows]:
    return lambda rng: rng.normal(size=(n, d))


WITHOUT: dict[str, Callable[[np.random.Generator], Rows]] = {
    "Gaussian, 1000 x 2": _gaussian(1000, 2),
    "Gaussian, 1000 x 5": _gaussian(1000, 5),
    "Gaussian, 1000 x 16": _gaussian(1000, 16),
    "Gaussian, 1000 x 100": _gaussian(1000, 100),
    "Gaussian, 1000 x 500": _gaussian(1000, 500),
    "square, 1000": lambda rng: rng.uniform(size=(1000, 2)),
    "exponential, 1000 x 2": lambda rng: rng.exponential(size=(1000, 2)),
    "Laplace, 1000 x 2": lambda rng: rng.laplace(size=(1000, 2)),
    "wide noise, 200 x 50": _gaussian(200, 50),
}


def without_clusters(runs: int) -> None:
    """How often more than one cluster is found where there are none."""
    rows, alarms = [], 0
    for name, draw in WITHOUT.items():
        found = [
            ODAClustering(random_state=seed).fit(draw(np.random.default_rng(seed))).n_clusters_
            for seed in range(runs)
        ]
        wrong = [K for K in found if K > 1]
        alarms += len(wrong)
        seen = ", ".join(f"{n} x {K}" for K, n in sorted(Counter(wrong).items())) or "-"
        rows.append([name, f"{len(wrong)}/{runs}", verdict(len(wrong) <= 0.1 * runs), seen])
    share = alarms / (runs * len(WITHOUT))
    rows.append(["all", f"{share:.1%}", verdict(share <= 0.05), ""])
    table(
        "No clusters: more than one found (bar: 10% of each, 5% of all)",
        ["data", "wrong", "", "which"],
        rows,
    )


def main(quick: bool = False, folder: Path = FOLDER) -> None:
    """Measure and print."""
    header("shapes: clusters of any shape and spread, and how many there are")
    seeds = 2 if quick else 10
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        show_sets(folder, 1 if quick else 3)
        table(
            "The number of clusters: right answers (bar: 9 of 10)",
            ["data", "K", "right", "", "other answers", 'shape="round"\nright', "other answers"],
            [
                [name, " or ".join(map(str, sorted(wanted))), *count(make, wanted, seeds)]
                for name, make, wanted in TEXTBOOK
            ],
        )
        thin(seeds)
        table(
            "Five blobs in 3-D and far points: agreement on the rest (bar: the best less .03)",
            [
                "far",
                "box",
                "K = 5",
                "ours",
                "5 given",
                "k-means\n(5 given)",
                "HDBSCAN",
                "",
                "given",
            ],
            [
                far_points(share, width, seeds)
                for width in (2.0, 5.0, 20.0)
                for share in ((0.0, 0.01, 0.03, 0.05) if width == 2.0 else (0.01, 0.03, 0.05))
            ],
        )
        without_clusters(5 if quick else 100)


if __name__ == "__main__":
    main()
