"""Sets that break classifiers of one kind or another, and how steady answers are.

Part of `quality`: units, tails, wrong labels, rules of single features, many clusters, many
useless features, beside forest, RBF SVM and gradient boosting, nothing scaled; classes that no
feature tells by itself over many seeds; and the spread over orders of rows and seeds on small sets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from annealed import ODAClassifier
from benchmarks import panel
from benchmarks.classifiers import FOREST, MODELS, OURS, Build
from benchmarks.data import Rows
from benchmarks.harness import table, verdict
from benchmarks.honesty import FRESH, ROWS
from benchmarks.honesty import SETS as UNTOLD
from benchmarks.labelled import Labels

TEST = 4000
POINTS = 5.0  # nowhere more below the best
WORST = 2.0  # points of the worst seed below the median
STEADY = 1.25  # spread over the forest's
SMALL = (
    "breast", "dermatology", "ecoli", "glass", "haberman", "hayes-roth", "housevotes", "monk-2",
    "thy", "wine",
)  # fmt: skip
Draw = Callable[[np.random.Generator], tuple[Rows, Labels]]
COMPARED: dict[str, Build] = {
    OURS: MODELS[OURS],
    FOREST: MODELS[FOREST],
    "RBF SVM": MODELS["RBF SVM"],
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}


def _units(rng: np.random.Generator) -> tuple[Rows, Labels]:
    X = rng.normal(size=(2000 + TEST, 6))
    return X * [1, 1, 1, 1, 1, 1e6], (X[:, 0] + X[:, 1] > 0).astype(int)


def _cauchy(rng: np.random.Generator) -> tuple[Rows, Labels]:
    X = rng.standard_cauchy(size=(2000 + TEST, 6))
    return X, ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)


def _noise(rng: np.random.Generator) -> tuple[Rows, Labels]:
    X = rng.normal(size=(2000 + TEST, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    wrong = rng.random(2000) < 0.2
    y[:2000][wrong] = 1 - y[:2000][wrong]
    return X, y


def _rules(rng: np.random.Generator) -> tuple[Rows, Labels]:
    X = rng.uniform(size=(2000 + TEST, 10))
    return X, (((X[:, 0] > 0.5) & (X[:, 1] > 0.3)) | (X[:, 2] > 0.8)).astype(int)


def _clusters(rng: np.random.Generator) -> tuple[Rows, Labels]:
    centres, member = rng.uniform(-3, 3, size=(200, 10)), rng.integers(200, size=20_000 + TEST)
    return centres[member] + 0.7 * rng.normal(size=(len(member), 10)), member % 10


def _wide(rng: np.random.Generator) -> tuple[Rows, Labels]:
    return make_classification(  # type: ignore[no-any-return]
        2000 + TEST, 400, n_informative=20, n_redundant=0, random_state=int(rng.integers(1000))
    )


SETS: dict[str, Draw] = {
    "a useless feature x 1e6": _units,
    "Cauchy features": _cauchy,
    "20 % of labels wrong": _noise,
    "rules of single features": _rules,
    "10 classes of 20 clusters": _clusters,
    "400 features, 20 inform": _wide,
}


def main(seeds: int, quick: bool = False) -> None:
    """Measure and print."""
    broken(seeds)
    untold(5 if quick else 30)
    steady(3 if quick else 10)


def broken(seeds: int) -> None:
    """Accuracy on each set, and how far behind the best."""
    lines = []
    for name, draw in SETS.items():
        print(f"  robustness: {name}", file=sys.stderr, flush=True)
        scores: dict[str, list[float]] = {model: [] for model in COMPARED}
        for seed in range(seeds):
            X, y = draw(np.random.default_rng(seed))
            for model, build in COMPARED.items():
                fitted = build(seed).fit(X[:-TEST], y[:-TEST])
                scores[model].append(100 * fitted.score(X[-TEST:], y[-TEST:]))
        means = [float(np.mean(values)) for values in scores.values()]
        gap = means[0] - max(means[1:])
        lines.append([name, *(f"{v:.1f}" for v in means), f"{gap:+.1f}", verdict(gap >= -POINTS)])
    table(
        f"Where classifiers break: accuracy in percent, {seeds} seeds, features as they are",
        ["set", *COMPARED, "annealed less\nthe best", f"within\n{POINTS:.0f}"],
        lines,
    )


def untold(seeds: int) -> None:
    """The worst of many seeds beside the median."""
    lines = []
    for name, draw in UNTOLD.items():
        print(f"  seeds: {name}", file=sys.stderr, flush=True)
        scores = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            model = ODAClassifier(random_state=seed).fit(*draw(rng, ROWS))
            scores.append(100 * model.score(*draw(rng, FRESH)))
        median, worst = float(np.median(scores)), min(scores)
        lines.append([name, f"{median:.2f}", f"{worst:.2f}", verdict(worst >= median - WORST)])
    table(
        f"Classes no feature tells: accuracy on fresh rows, {seeds} seeds",
        ["set", "median", "worst", f"within\n{WORST:.0f}"],
        lines,
    )


def steady(repeats: int) -> None:
    """Standard deviation of test accuracy when rows are permuted and seeds change."""
    every = panel.names()
    known = [name for name in SMALL if name in every]
    variances: dict[str, list[float]] = {OURS: [], FOREST: []}
    lines = []
    for name in known:
        print(f"  steadiness: {name}", file=sys.stderr, flush=True)
        split = next(panel.folds(name, 0))
        line: list[object] = [name, len(split.rows)]
        for model, of_model in variances.items():
            scores = []
            for seed in range(repeats):
                order = np.random.default_rng(seed).permutation(len(split.rows))
                fitted = MODELS[model](seed).fit(split.rows[order], split.labels[order])
                scores.append(100 * fitted.score(split.unseen, split.truth))
            of_model.append(float(np.var(scores, ddof=1)))
            line.append(f"{of_model[-1] ** 0.5:.2f}")
        lines.append(line)
    if not lines:
        return
    ours, forest = (float(np.mean(of_model)) ** 0.5 for of_model in variances.values())
    lines.append(["pooled", "", f"{ours:.2f}", f"{forest:.2f}"])
    table(
        f"Steady on small data: standard deviation of accuracy in points, {repeats} orders and "
        "seeds",
        ["data", "rows", OURS, FOREST],
        lines,
    )
    ratio = ours / forest
    print(f"Over the forest's: {ratio:.2f}, at most {STEADY}: {verdict(ratio <= STEADY)}")
