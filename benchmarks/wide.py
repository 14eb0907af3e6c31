"""Many dimensions: clusters, their number and noise, beside k-means, mixtures and batch annealing.

- Gaussians in 16 to 768 dimensions, 20 and 50 of them, centres of standard deviation .8, .6 or .4
  a coordinate about noise of 1, at least 240 rows each. With K given: adjusted Rand index at least
  that of ``KMeans(K, n_init=3)`` less .01 wherever that has .9, distortion at most 1.005 of its.
  Automatic K: how often right, and where it is not, whether batch annealing shows a plateau.
- The same with unequal weights and unequal noise; digits, and 512 random features of them.
- Noise without clusters: how often more than one is found.
- Time on 60,000 rows of 768 features, and of a million of 16, beside MiniBatchKMeans.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from annealed import DeterministicAnnealing, ODAClustering
from benchmarks.clusters import distortion
from benchmarks.data import Rows
from benchmarks.harness import header, number, one_thread, seconds, table, verdict

Labels = NDArray[np.int64]
# A plateau as long as the least that "auto" takes for one, in log T.
PLATEAU = 0.3


def gaussians(seed: int, d: int, k: int, sd: float, *, uneven: bool = False) -> tuple[Rows, Labels]:
    """k Gaussians about normal centres; uneven: weights 1 to 10 and noise of 1 to 2."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=sd, size=(k, d))
    weights, noise = np.ones(k), np.ones(k)
    if uneven:
        weights, noise = rng.uniform(1, 10, size=k), rng.uniform(1, 2, size=k)
    y = rng.choice(k, size=max(6000, 240 * k), p=weights / weights.sum())
    return centres[y] + noise[y, None] * rng.normal(size=(len(y), d)), y


def agreement(y: Labels, found: Any) -> float:
    """Adjusted Rand index."""
    return float(adjusted_rand_score(y, found))


def peers(X: Rows, y: Labels, k: int, seed: int) -> Iterator[tuple[float, float, Rows]]:
    """Agreement, time and centres of k-means, MiniBatchKMeans and a spherical mixture."""
    for model in (
        KMeans(k, n_init=3, random_state=seed),
        MiniBatchKMeans(k, n_init=3, random_state=seed),
        GaussianMixture(k, covariance_type="spherical", random_state=seed, max_iter=50),
    ):
        spent = seconds(partial(model.fit, X))
        centres = model.means_ if isinstance(model, GaussianMixture) else model.cluster_centers_
        yield agreement(y, model.predict(X)), spent, centres


def given_and_found(
    d: int, k: int, sd: float, seeds: int, *, uneven: bool = False
) -> tuple[list[object], bool]:
    """One line, everyone with K given; and whether automatic K is right on four seeds of five."""
    scores: list[list[float]] = []
    shortfall, ratios, times, found = [], [], [], []
    for seed in range(seeds):
        X, y = gaussians(seed, d, k, sd, uneven=uneven)
        beside = list(peers(X, y, k, seed))
        ours = ODAClustering(k, random_state=seed)
        times.append(seconds(partial(ours.fit, X)) / beside[0][1])
        scores.append([agreement(y, ours.labels_), *(score for score, _, _ in beside)])
        ratios.append(distortion(X, ours.cluster_centers_) / distortion(X, beside[0][2]))
        if beside[0][0] >= 0.9:
            shortfall.append(beside[0][0] - scores[-1][0])
        found.append(ODAClustering(random_state=seed).fit(X).n_clusters_)
    right = sum(K == k for K in found)
    medians = [f"{statistics.median(column):.3f}" for column in zip(*scores, strict=True)]
    met = verdict(max(shortfall) <= 0.01) if shortfall else "-"
    others = ", ".join(map(str, sorted({K for K in found if K != k}))) or "-"
    mean, most = statistics.fmean(ratios), max(ratios)
    return [
        d, k, sd, *medians, met, f"{mean:.4f}", f"{most:.4f}", verdict(most <= 1.005),
        f"{right}/{seeds}", others, number(statistics.median(times)),
    ], right >= 0.8 * seeds  # fmt: skip


def batch_plateau(d: int, k: int, sd: float) -> list[object]:
    """One line: whether batch annealing of the first seed stays at k for a stretch of log T."""
    X, y = gaussians(0, d, k, sd)
    model = DeterministicAnnealing(None, K_max=2 * k, tol=1e-2)
    spent = seconds(partial(model.fit, X))
    plateaus = model.path_.persistence()
    length = plateaus[k - 1] if len(plateaus) >= k else 0.0
    score = agreement(y, model.at(n_codevectors=k).predict(X)) if length > 0 else float("nan")
    found = ODAClustering(random_state=0).fit(X).n_clusters_
    shown = length > PLATEAU
    met = verdict(found == k) if shown else "-"
    return [d, k, sd, number(length, 2), shown, number(score), found, met, number(spent, 2)]


def noise(runs: int) -> list[list[object]]:
    """Lines: of how many Gaussians of each shape more than one cluster is said to be there."""
    shapes = [
        (d, n)
        for d, n in itertools.product((2, 10, 50, 200, 500, 2000), (50, 200, 1000, 5000))
        if d * n <= 1_000_000
    ]
    each = -(-runs // len(shapes))
    lines, wrong, total = [], 0, 0
    for d, n in shapes:
        found, times = [], []
        for seed in range(each):
            X = np.random.default_rng([seed, d, n]).normal(size=(n, d))
            model = ODAClustering(random_state=seed)
            times.append(seconds(partial(model.fit, X)))
            found.append(model.n_clusters_)
        wrong += sum(K > 1 for K in found)
        total += each
        lines.append([d, n, f"{sum(K > 1 for K in found)}/{each}", number(max(times))])
    return [*lines, ["all", "", f"{wrong}/{total}", verdict(wrong <= 0.05 * total)]]


def of_digits(name: str, X: Rows, y: Labels, seeds: int) -> list[list[object]]:
    """Lines: adjusted Rand index and NMI at K = 10, medians over seeds."""
    makers: dict[str, Callable[[int], Any]] = {
        "ODAClustering(10)": lambda seed: ODAClustering(10, random_state=seed),
        "KMeans(10, n_init=3)": lambda seed: KMeans(10, n_init=3, random_state=seed),
        "GaussianMixture": lambda seed: GaussianMixture(
            10, covariance_type="spherical", random_state=seed
        ),
    }
    lines: list[list[object]] = []
    for label, make in makers.items():
        answers = [make(seed).fit_predict(X) for seed in range(seeds)]
        lines.append(
            [
                name,
                label,
                f"{statistics.median(agreement(y, answer) for answer in answers):.3f}",
                f"{statistics.median(normalized_mutual_info_score(y, a) for a in answers):.3f}",
            ]
        )
    return lines


def random_features(X: Rows, d: int, seed: int) -> Rows:
    """Random ReLU features."""
    weights = np.random.default_rng(seed).normal(size=(X.shape[1], d)) / np.sqrt(X.shape[1])
    return np.asarray(np.maximum(X @ weights, 0.0))


# -- time --------------------------------------------------------------------------------------


def embeddings(n: int, d: int) -> NDArray[np.float32]:
    """Rows of length one about a thousand broad centres, spectrum falling as 1/j."""
    rng = np.random.default_rng(0)
    scale = (np.arange(1, d + 1) ** -0.5).astype(np.float32)
    centres = rng.standard_normal((1000, d), dtype=np.float32) * scale
    X = 0.8 * centres[rng.integers(1000, size=n)]
    X += rng.standard_normal((n, d), dtype=np.float32) * scale
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def separate(n: int, d: int, k: int) -> NDArray[np.float32]:
    """k Gaussians that k-means can find."""
    rng = np.random.default_rng(0)
    centres = 0.4 * rng.standard_normal((k, d), dtype=np.float32)
    return centres[rng.integers(k, size=n)] + rng.standard_normal((n, d), dtype=np.float32)


def after_a_pass(X: NDArray[Any], centres: Rows) -> float:
    """Distortion over the variance of the rows after one pass of Lloyd's algorithm."""
    k = len(centres)
    once = KMeans(k, init=np.asarray(centres, dtype=X.dtype), n_init=1, max_iter=1).fit(X)
    return distortion(X, once.cluster_centers_) / float(((X - X.mean(axis=0)) ** 2).sum())


def large(name: str, X: NDArray[np.float32], k: int) -> list[object]:
    """One line: time and distortion beside MiniBatchKMeans."""
    ours = ODAClustering(k, random_state=0)
    theirs = MiniBatchKMeans(k, n_init=3, random_state=0)
    mine, other = seconds(partial(ours.fit, X)), seconds(partial(theirs.fit, X))
    reached = [after_a_pass(X, model.cluster_centers_) for model in (ours, theirs)]
    return [
        name, number(mine), number(other), number(mine / other), verdict(mine <= 3 * other),
        *(f"{value:.4f}" for value in reached), verdict(reached[0] <= reached[1]),
    ]  # fmt: skip


def million(seed: int = 0) -> list[object]:
    """One line: a million rows of 16 features, K found by itself and K given to the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-6, 6, size=(8, 16))[rng.integers(8, size=1_000_000)]
    X += rng.normal(size=X.shape)
    ours, theirs = ODAClustering(random_state=0), MiniBatchKMeans(8, n_init=3, random_state=0)
    mine, other = seconds(partial(ours.fit, X)), seconds(partial(theirs.fit, X))
    return [
        ours.n_clusters_, number(mine), number(other), number(mine / other),
        verdict(mine < other / 3),
    ]  # fmt: skip


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("wide: many dimensions")
    seeds = 1 if quick else 5
    dimensions = (16, 64) if quick else (16, 64, 256, 768)
    problems = list(itertools.product(dimensions, (20, 50), (0.8, 0.6, 0.4)))
    beside = ["d", "K", "sd", "adjusted Rand\nours", "\nk-means", "mini-\nbatch", "mix-\nture"]
    columns = [
        *beside, "bar", "distortion,\nmean", "\nmost", "bar", "auto\nright",
        "other\nanswers", "time over\nk-means",
    ]  # fmt: skip
    digits, y = load_digits(return_X_y=True)
    with one_thread():
        measured = {problem: given_and_found(*problem, seeds) for problem in problems}
        table(
            "Gaussians, K given (medians) and found; bars: index at least k-means' less .01 where "
            "that has .9,\ndistortion at most 1.005 of its",
            columns,
            [line for line, _ in measured.values()],
        )
        table(
            "Unequal weights (1 to 10) and noise (1 to 2), 64 dimensions",
            columns,
            [
                given_and_found(64, k, sd, seeds, uneven=True)[0]
                for k in (20, 50)
                for sd in (0.8, 0.6)
            ],
        )
        table(
            "Noise without clusters: more than one found (bar: 5 of 100)",
            ["d", "rows", "more than\none", "longest\ns"],
            noise(21 if quick else 100),
        )
        table(
            "Digits, K = 10",
            ["data", "model", "adjusted\nRand", "NMI"],
            [
                *of_digits("64 features", digits, y, seeds),
                *of_digits("512 random ReLU", random_features(digits, 512, 0), y, seeds),
                *of_digits("standardised", StandardScaler().fit_transform(digits), y, seeds),
            ],
        )
        n, d, k = (6000, 256, 60) if quick else (60_000, 768, 300)
        table(
            f"{n:,} x {d} float32 into {k}: time (bar: 3 x), distortion after one pass of Lloyd's",
            ["data", "ours\ns", "mini-batch\ns", "ratio", "bar", "distortion\nours",
             "\nmini-batch", "bar"],
            (large(*rest) for rest in (
                ("embeddings", embeddings(n, d), k), ("Gaussians", separate(n, d, k), k))),
        )  # fmt: skip
        if not quick:
            table(
                "A million rows x 16, K found beside MiniBatchKMeans given K (bar: a third)",
                ["K found", "ours\ns", "mini-batch\ns", "ratio", "bar"],
                [million()],
            )
        table(
            "Where automatic K is not right on four seeds of five: does batch annealing show\n"
            f"a plateau at K? (seed 0; shown: more than {PLATEAU} in log T)",
            ["d", "K", "sd", "length", "shown", "adjusted\nRand", "automatic\nK", "bar",
             "batch\ns"],
            [batch_plateau(*problem) for problem, (_, right) in measured.items() if not right],
        )  # fmt: skip


if __name__ == "__main__":
    main()
