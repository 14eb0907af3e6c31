"""Accuracy of `ODAClassifier` with nothing tuned, beside a forest and nearest neighbours.

Five folds, shuffled and stratified, with seeds 0 to 4 for folds and model; features standardised
within each fold (digits as they are); the coldest level, no fine-tuning.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_circles, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from annealed import ODAClassifier
from benchmarks.data import Rows
from benchmarks.harness import header, number, one_thread, seconds, table, verdict

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """A labelled data set and the accuracy asked for, in percent."""

    name: str
    make: Callable[[int], tuple[Rows, Labels]]
    bar: float
    scaled: bool = True


PROBLEMS = (
    Problem("moons", lambda seed: make_moons(1500, noise=0.1, random_state=seed), 99.5),
    Problem(
        "circles", lambda seed: make_circles(1500, noise=0.05, factor=0.5, random_state=seed), 99.5
    ),
    Problem("WBCD", lambda seed: load_breast_cancer(return_X_y=True), 95.0),
    Problem("wine", lambda seed: load_wine(return_X_y=True), 94.0),
    Problem("digits", lambda seed: load_digits(return_X_y=True), 96.5, scaled=False),
)
MODELS: dict[str, Callable[[int], Any]] = {
    "variance": lambda seed: ODAClassifier(split="variance", fine_tune=None, random_state=seed),
    "perturb": lambda seed: ODAClassifier(split="perturb", fine_tune=None, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "5-NN": lambda seed: KNeighborsClassifier(5),
}
OURS = ("variance", "perturb")
K_MAX = ODAClassifier().K_max


@dataclass(frozen=True)
class Fold:
    """One model on one fold."""

    accuracy: float  # percent
    fit_seconds: float
    codevectors: int | None


def folds(problem: Problem, seed: int) -> dict[str, list[Fold]]:
    """Five folds of every model."""
    X, y = problem.make(seed)
    results: dict[str, list[Fold]] = {name: [] for name in MODELS}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        rows, unseen = X[train], X[test]
        if problem.scaled:
            scaler = StandardScaler().fit(rows)
            rows, unseen = scaler.transform(rows), scaler.transform(unseen)
        for name, build in MODELS.items():
            model, labels = build(seed), y[train]
            spent = seconds(partial(model.fit, rows, labels))
            K = len(model.codevectors_) if name in OURS else None
            results[name].append(Fold(100 * float(model.score(unseen, y[test])), spent, K))
    return results


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("quality: accuracy of ODAClassifier() over five folds, nothing tuned")
    seeds = range(1 if quick else 5)
    accuracies: list[list[object]] = []
    sizes: list[list[object]] = []
    with one_thread():
        for problem in PROBLEMS:
            runs = [folds(problem, seed) for seed in seeds]
            by_seed = {
                name: [statistics.fmean(fold.accuracy for fold in run[name]) for run in runs]
                for name in MODELS
            }
            row: list[object] = [problem.name, problem.bar]
            for name in OURS:
                mean = statistics.fmean(by_seed[name])
                row += [f"{mean:.2f}", f"{min(by_seed[name]):.2f}", verdict(mean >= problem.bar)]
            row += [f"{statistics.fmean(by_seed[name]):.2f}" for name in ("forest", "5-NN")]
            accuracies.append(row)
            every = {name: [fold for run in runs for fold in run[name]] for name in MODELS}
            time = {
                name: statistics.median(fold.fit_seconds for fold in every[name]) for name in MODELS
            }
            row = [problem.name]
            row += [number(time[name] / time["forest"]) for name in OURS]
            for name in OURS:
                K = [fold.codevectors for fold in every[name] if fold.codevectors is not None]
                too_many = " > K_max" if max(K) > K_MAX else ""
                row += [f"{statistics.median(K):.0f}", f"{min(K)}-{max(K)}{too_many}"]
            row += [f"{1000 * time[name]:.1f}" for name in MODELS]
            sizes.append(row)
    table(
        "Accuracy in percent, mean over seeds and folds and of the worst seed;\n"
        "beside it a forest of 100 trees and 5 nearest neighbours",
        ["data", "bar", "variance\nmean", "\nleast", "", "perturb\nmean", "\nleast", "",
         "forest\nmean", "5-NN\nmean"],
        accuracies,
    )  # fmt: skip
    table(
        "Time of a fit over the forest's, codevectors used, time of a fit (medians over folds)",
        ["data", "variance\n/ forest", "perturb\n/ forest", "K\nvariance", "\nrange", "K\nperturb",
         "\nrange", "variance\nms", "perturb\nms", "forest\nms", "5-NN\nms"],
        sizes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
