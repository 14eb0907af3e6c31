"""Streams of labelled samples: test-then-train accuracy beside river's classifiers.

Everyone predicts each sample before it learns it, one at a time: river's generators and its bundled
sets, Electricity (where its file is), labels that change places, 40 classes of 100 samples each.
`ODAClassifier()` as it is gets features standardised by running means (`TabularModel`'s, in C++),
river's KNN those of river's StandardScaler; trees and naive Bayes need no scale. "No change" says
the last label again, "majority" the most frequent so far. What river's models reach is kept in
build/drift_peers.json by version, stream, length and seed: the forest takes its time.

The bar: on average above the adaptive random forest, never more than 3 points below it, 20 times as
fast; no later in the first thousand samples than the Hoeffding tree. Streams of clusters follow
(clustering_streams.py).
"""

from __future__ import annotations

import csv
import gzip
import time
import warnings
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed import DriftDetector, ODAClassifier, TablePreprocessor
from benchmarks import clustering_streams
from benchmarks.harness import header, kept, one_thread, table, verdict
from benchmarks.labelled import data_home

SAMPLES, QUICK_SAMPLES = 20_000, 2_000
SEEDS = 3
KEPT = Path("build/drift_peers.json")
Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]


def from_river(samples: Iterable[tuple[dict[Any, Any], Any]], n: int) -> Labelled:
    """Samples as arrays; texts become a column for each value."""
    rows = list(islice(iter(samples), n))
    columns: list[list[float]] = []
    for key in rows[0][0]:
        values = [x[key] for x, _ in rows]
        if isinstance(values[0], str):
            columns += [[float(v == each) for v in values] for each in sorted(set(values))]
        else:
            columns.append([float(v) for v in values])
    labels = np.unique([str(y) for _, y in rows], return_inverse=True)[1]
    return np.array(columns).T, labels


def swapped(n: int, seed: int) -> Labelled:
    """Four Gaussians in ten dimensions whose two labels change places every 5,000 samples."""
    rng = np.random.default_rng(seed)
    centres, group = 1.2 * rng.normal(size=(4, 10)), rng.integers(4, size=n)
    labels = (group + np.arange(n) // 5000) % 2
    return centres[group] + rng.normal(size=(n, 10)), labels


def many_classes(n: int, seed: int) -> Labelled:
    """Forty Gaussians in 21 dimensions, 100 samples of each."""
    rng = np.random.default_rng(seed)
    centres = 0.75 * rng.normal(size=(40, 21))
    labels = rng.permutation(np.repeat(np.arange(40), 100))[:n]
    return centres[labels] + rng.normal(size=(len(labels), 21)), labels


def electricity_file() -> Path:
    """Where it is, if it is there."""
    return (data_home() or Path()) / "streams" / "elec.csv.gz"


def electricity(n: int, seed: int) -> Labelled:
    """Prices that rise or fall, half an hour apart; all 45,312 of them unless in a hurry."""
    with gzip.open(electricity_file(), "rt") as file:
        rows = list(csv.reader(file))[1:]
    rows = rows[:n] if n < SAMPLES else rows
    values = np.array([[float(v) for v in row[:-1]] for row in rows])
    return values, np.unique([row[-1] for row in rows], return_inverse=True)[1]


def streams() -> dict[str, Callable[[int, int], Labelled]]:
    """By name, each a function of length and seed."""
    from river import datasets
    from river.datasets import synth

    def agrawal(function: int, seed: int) -> Any:
        return synth.Agrawal(classification_function=function, seed=seed)

    def gradual(n: int, seed: int) -> Any:
        return synth.ConceptDriftStream(
            stream=agrawal(0, seed), drift_stream=agrawal(4, seed + 1),
            seed=seed, position=n // 2, width=n // 5,
        )  # fmt: skip

    def rbf(speed: float, seed: int) -> Any:
        return synth.RandomRBFDrift(
            seed_model=seed, seed_sample=seed, n_classes=4, n_features=10, n_centroids=20,
            change_speed=speed, n_drift_centroids=10,
        )  # fmt: skip

    def parts(make: Callable[[int], Any], n: int, how_many: int) -> Iterable[Any]:
        return chain(*(make(k).take(-(-n // how_many)) for k in range(how_many)))

    made: dict[str, Callable[[int, int], Iterable[Any]]] = {
        "SEA": lambda n, s: parts(lambda k: synth.SEA(variant=k, seed=10 * s + k, noise=0.1), n, 4),
        "Agrawal, abrupt": lambda n, s: parts(lambda k: agrawal((0, 4)[k], s + k), n, 2),
        "Agrawal, gradual": gradual,
        "Hyperplane": lambda n, s: synth.Hyperplane(
            seed=s, n_features=10, n_drift_features=5, mag_change=0.001
        ),
        "RBF, slow": lambda n, s: rbf(0.0001, s),
        "RBF, fast": lambda n, s: rbf(0.01, s),
        "LED": lambda n, s: synth.LEDDrift(
            seed=s, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4
        ),
        "Sine": lambda n, s: parts(lambda k: synth.Sine(k, seed=s + k), n, 2),
        "Mixed": lambda n, s: parts(lambda k: synth.Mixed(k, seed=s + k), n, 2),
        "STAGGER": lambda n, s: parts(lambda k: synth.STAGGER(k, seed=s + k), n, 3),
        "Waveform": lambda n, s: synth.Waveform(seed=s),
        "RandomTree": lambda n, s: synth.RandomTree(seed_tree=s, seed_sample=s, n_classes=3),
        "Bananas": lambda n, s: datasets.Bananas(),
        "Phishing": lambda n, s: datasets.Phishing(),
        "ImageSegments": lambda n, s: datasets.ImageSegments(),
    }
    found: dict[str, Callable[[int, int], Labelled]] = {
        name: lambda n, s, make=make: from_river(make(n, s), n) for name, make in made.items()
    }
    found |= {"labels swapped": swapped, "40 classes": many_classes}
    if electricity_file().exists():
        found["Electricity"] = electricity
    return found


FIXED = "Bananas", "Phishing", "ImageSegments", "Electricity"  # the same for every seed


def peers() -> dict[str, Callable[[], Any]]:
    """River's, as it makes them."""
    from river import ensemble, forest, naive_bayes, neighbors, preprocessing, tree

    return {
        "forest": lambda: forest.ARFClassifier(n_models=10, seed=1),
        "bagging": lambda: ensemble.LeveragingBaggingClassifier(
            tree.HoeffdingTreeClassifier(), n_models=10, seed=1
        ),
        "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
        "Hoeffding tree": tree.HoeffdingTreeClassifier,
        "KNN": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
        "GaussianNB": naive_bayes.GaussianNB,
    }


Found = tuple[float, float, float]  # accuracy, that of the first thousand, seconds


def theirs(X: NDArray[Any], y: NDArray[Any], model: Any) -> Found:
    """What one of river's models reaches."""
    begin, right = time.process_time(), []
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(row))
        right.append(model.predict_one(x) == label)
        model.learn_one(x, label)
    return float(np.mean(right)), float(np.mean(right[:1000])), time.process_time() - begin


def ours(X: NDArray[Any], y: NDArray[Any]) -> tuple[Found, int]:
    """What the classifier reaches, and how many alarms there were."""
    model = ODAClassifier(random_state=0)
    scaled, right, alarms, since = TablePreprocessor(), [], 0, 0
    begin = time.process_time()
    Z = scaled.learn_transform(X)
    for row, label in zip(Z, y.tolist(), strict=True):
        right.append(model.predict_one(row) == label)
        model.learn_one(row, label)
        now = model._learner.tuner.since
        alarms += now <= since
        since = now
    found = float(np.mean(right)), float(np.mean(right[:1000])), time.process_time() - begin
    return found, alarms


def remembered(key: str, X: NDArray[Any], y: NDArray[Any], make: Callable[[], Any]) -> Found:
    """What one of river's models reached when it was measured before, or reaches now."""
    import river

    key = f"river {river.__version__}, {key}"
    accuracy, early, seconds = kept(KEPT, key, lambda: theirs(X, y, make()))
    return accuracy, early, seconds


def nearest_mean(X: NDArray[Any], y: NDArray[Any]) -> float:
    """Accuracy of the nearest class mean so far."""
    sums, counts, right = np.zeros((y.max() + 1, X.shape[1])), np.zeros(y.max() + 1), 0
    for row, label in zip(X, y, strict=True):
        if counts.any():
            far = ((row - sums / np.maximum(counts, 1)[:, None]) ** 2).sum(axis=1)
            right += int(np.where(counts > 0, far, np.inf).argmin() == label)
        sums[label] += row
        counts[label] += 1
    return right / len(y)


def simple(y: NDArray[Any]) -> tuple[float, float]:
    """Accuracy of the last label and of the most frequent one so far."""
    counts, frequent = np.zeros(y.max() + 1), 0
    for label in y:
        frequent += int(counts.argmax() == label)
        counts[label] += 1
    return float((y[1:] == y[:-1]).mean()), frequent / len(y)


def compare(n: int, seeds: int, names: list[str]) -> None:
    """Accuracy on every stream, and what it comes to."""
    lines, gaps, early_gaps = [], [], []
    rivals = {name: peers()[name] for name in names}
    for name, make in streams().items():
        runs, alarms, trivial = [], [], []
        for seed in range(1, 2 if name in FIXED else seeds + 1):
            X, y = make(n, seed)
            mine, rung = ours(X, y)
            alarms.append(rung)
            trivial.append(simple(y))
            others = [
                remembered(f"{rival}, {name}, {len(X)}, {seed}", X, y, m)
                for rival, m in rivals.items()
            ]
            runs.append([mine, *others])
        mean = np.mean(runs, axis=0)
        gaps.append([mean[0, 0] - mean[1, 0], mean[1, 2] / mean[0, 2]])
        spread = np.std([run[0][1] - run[1 + names.index("Hoeffding tree")][1] for run in runs])
        early = mean[0, 1] - mean[1 + names.index("Hoeffding tree"), 1]
        early_gaps.append(early + spread / np.sqrt(len(runs)))
        lines.append(
            [
                name, *(f"{100 * v:.1f}" for v in np.mean(trivial, axis=0)),
                *(f"{100 * a:.1f} ({100 * b:.1f})" for a, b, _ in mean),
                f"{1e6 * mean[0, 2] / len(X):.0f}", f"{mean[1, 2] / mean[0, 2]:.0f}",
                f"{np.mean(alarms):.1f}", verdict(gaps[-1][0] > -0.03),
            ]
        )  # fmt: skip
        print(*lines[-1], flush=True)
    columns = ["stream", "no\nchange", "majority", "ODA", *rivals, "us", "times\nforest",
               "alarms", ""]  # fmt: skip
    table(
        "Per cent right before learning (in the first thousand); bar: 3 points below the forest",
        columns, lines,
    )  # fmt: skip
    ahead, faster = np.mean(gaps, axis=0)
    print(f"mean above the forest: {100 * ahead:.1f} points {verdict(ahead > 0)}")
    print(f"times as fast, on average: {faster:.0f} {verdict(faster >= 20)}")
    late = sum(gap < 0 for gap in early_gaps)
    print(f"streams behind the Hoeffding tree in the first thousand: {late} {verdict(late == 0)}")


def many(seeds: int) -> None:
    """Forty classes beside the nearest mean."""
    gaps, rates = [], []
    for seed in range(1, seeds + 1):
        X, y = many_classes(4000, seed)
        found, _ = ours(X, y)
        gaps.append(found[0] - nearest_mean(X, y))
        rates.append(len(X) / found[2])
    gap, rate = float(np.mean(gaps)), float(np.mean(rates))
    print(f"40 classes, beside the nearest mean: {100 * gap:+.1f} points {verdict(gap > -0.03)}")
    print(f"40 classes, samples a second: {rate:.0f} {verdict(rate >= 20_000)}")


def false_alarms(n: int, runs: int) -> None:
    """The detector alone: alarms where nothing changes, and how soon it hears of a change."""
    rng = np.random.default_rng(0)
    lines = []

    def alarms(values: NDArray[Any]) -> list[int]:
        detector = DriftDetector()
        return [k for k, value in enumerate(values.tolist()) if detector.update(value)]

    for rate in (0.02, 0.1, 0.3):
        found = len(alarms((rng.random(n) < rate).astype(float)))
        per_million = found * 1e6 / n
        lines.append(
            [f"{100 * rate:.0f} % errors", f"{per_million:.1f}", verdict(per_million <= 1)]
        )
    for memory in (20, 100, 500):
        fade = np.exp(-1 / memory)
        noise, state = np.sqrt(1 - fade**2) * rng.normal(size=n), np.zeros(n)
        for k in range(1, n):
            state[k] = fade * state[k - 1] + noise[k]
        found = len(alarms((rng.random(n) < 1 / (1 + np.exp(2 - state))).astype(float)))
        per_million = found * 1e6 / n
        lines.append(
            [f"errors that remember {memory}", f"{per_million:.1f}", verdict(per_million <= 1)]
        )
    table("Alarms in a million samples without change; bar: one", ["losses", "alarms", ""], lines)
    lines = []
    for before, after in ((0.02, 0.2), (0.1, 0.3), (0.3, 0.5), (0.1, 0.2)):
        delays = []
        for _ in range(runs):
            values = np.append(rng.random(3000) < before, rng.random(3000) < after).astype(float)
            heard = [k for k in alarms(values) if k >= 3000]
            delays.append(heard[0] - 2999 if heard else 3000)
        words = f"{100 * before:.0f} to {100 * after:.0f} %"
        lines.append([words, f"{np.median(delays):.0f}", f"{np.mean(delays):.0f}"])
    table(
        "Samples until an abrupt rise of the errors is heard", ["errors", "median", "mean"], lines
    )


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("drift: test-then-train accuracy on streams")
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = ["forest", "Hoeffding tree"] if quick else list(peers())
        compare(QUICK_SAMPLES if quick else SAMPLES, 1 if quick else SEEDS, names)
        many(1 if quick else SEEDS)
        false_alarms(100_000 if quick else 5_000_000, 50 if quick else 400)
    clustering_streams.main(quick)


if __name__ == "__main__":
    main()
