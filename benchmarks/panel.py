"""Twenty-eight classification sets of many kinds, beside other classifiers; part of `quality`.

The 22 tables of the folder ``panel`` beside the other data, PIMA, WBCD, and scikit-learn's wine,
digits, moons and circles. Raw tables go through one preprocessing for everyone, fitted on the rows
of a fold that are learnt: numbers standardised, texts as indicators, missing cells filled. In
alphabetical order the odd ones decide between defaults, the even ones report: what decided must not
be reported as found. Figures of the others are kept in build/panel_peers.json by version, set, seed
and fold: they take most of the time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import StratifiedKFold

from annealed.tables.preprocessing import TablePreprocessor
from benchmarks.classifiers import FOREST, MODELS, ONE, OURS, Split, paired, run, splits
from benchmarks.harness import kept, number, table, verdict
from benchmarks.labelled import FOLDS, data_home, load, missing

OTHERS = ("pima", "wbcd", "wine", "digits", "moons", "circles")
COMPARED = (OURS, ONE, FOREST, "RBF SVM", "MLP")
KEPT = Path("build/panel_peers.json")
# Accuracy in percent, log loss (nan without probabilities), seconds of the fit.
Figures = tuple[float, float, float]


def names() -> list[str]:
    """The sets that can be had, in alphabetical order."""
    home = data_home()
    tables = [] if home is None else sorted((home / "panel").glob("*.csv.gz"))
    if not tables:
        missing("panel", "No folder 'panel' with tables beside the other data sets.")
        return []
    return sorted([*(path.name.removesuffix(".csv.gz") for path in tables), *OTHERS])


def folds(name: str, seed: int) -> Iterator[Split]:
    """Rows to learn and rows to test."""
    if name in OTHERS:
        generated = name in ("moons", "circles")
        X, y, _ = load(name, seed if generated else 0)
        yield from splits(X, y, seed)
        return
    home = data_home()
    assert home is not None
    rows = pd.read_csv(home / "panel" / f"{name}.csv.gz")
    y = np.unique(rows.pop("target").astype(str), return_inverse=True)[1]
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(rows, y):
        step = TablePreprocessor().fit(rows.iloc[train])
        learn, unseen = (np.asarray(step.transform(rows.iloc[part])) for part in (train, test))
        yield Split(learn, y[train], unseen, y[test])


def measured(model: str, seed: int, split: Split) -> Figures:
    """Fit and judge one model on one fold."""
    done = run(MODELS[model](seed), split.rows, split.labels, split.unseen)
    accuracy = 100 * float((done.predicted == split.truth).mean())
    loss = float("nan")
    if hasattr(done.model, "predict_proba"):
        proba = done.model.predict_proba(split.unseen)
        known = np.isin(split.truth, done.model.classes_)
        place = np.searchsorted(done.model.classes_, split.truth[known])
        own = np.maximum(proba[np.flatnonzero(known), place], np.finfo(float).eps)
        loss = float(-np.log(own).mean())
    return accuracy, loss, done.fit_seconds


def remembered(model: str, name: str, seed: int, fold: int, split: Split) -> Figures:
    """The same, of others as it was measured before."""
    if model in (OURS, ONE):
        return measured(model, seed, split)
    key = f"scikit-learn {sklearn.__version__}, {model}, {name}, {seed}, {fold}"
    accuracy, loss, seconds = kept(KEPT, key, lambda: measured(model, seed, split))
    return accuracy, loss, seconds


def main(seeds: range, at_most: int = FOLDS) -> None:
    """Measure and print; ``at_most`` folds of every seed."""
    found: dict[str, dict[str, list[list[Figures]]]] = {}
    every = names()
    for name in every:
        found[name] = {model: [] for model in COMPARED}
        for seed in seeds:
            print(f"  panel: {name}, seed {seed}", file=sys.stderr, flush=True)
            parts = [split for k, split in enumerate(folds(name, seed)) if k < at_most]
            for model, results in found[name].items():
                results.append(
                    [remembered(model, name, seed, k, split) for k, split in enumerate(parts)]
                )
    for half, title in ((0, "the odd ones, which decide"), (1, "the even ones, which report")):
        report(title, {name: found[name] for k, name in enumerate(every) if k % 2 == half})


def report(title: str, found: dict[str, dict[str, list[list[Figures]]]]) -> None:
    """Every set a row, and the means."""
    if not found:
        return
    lines, accuracies, losses = [], [], []
    for name, result in found.items():
        means = {m: np.nanmean([f for s in r for f in s], axis=0) for m, r in result.items()}
        accuracies.append([means[m][0] for m in COMPARED])
        losses.append([means[m][1] for m in COMPARED])
        lines.append([name, *(f"{v:.2f}" for v in accuracies[-1]), *map(number, losses[-1])])
    mean = np.mean(accuracies, axis=0)
    rank = np.mean([[1 + sum(b > a for b in row) for a in row] for row in accuracies], axis=0)
    lines.append(["mean", *(f"{v:.2f}" for v in mean), *map(number, np.mean(losses, axis=0))])
    lines.append(["mean rank", *(f"{v:.2f}" for v in rank), *[""] * len(COMPARED)])
    table(
        f"Panel, {title}: accuracy in percent, log loss",
        ["data", *COMPARED, *(f"loss\n{model}" for model in COMPARED)],
        lines,
    )
    theirs = {model: value for model, value in zip(COMPARED, mean, strict=True) if model != OURS}
    best = max((m for m in theirs if m != ONE), key=theirs.__getitem__)
    print(f"Mean at or above the best of the others ({best}): {verdict(mean[0] >= theirs[best])}")
    gaps = [
        paired([[f[which] for f in s] for s in r[OURS]], [[f[which] for f in s] for s in r[ONE]])
        for which in (0, 1)
        for r in found.values()
    ]
    for which, words in ((0, "accuracy, points"), (1, "log loss")):
        each = [gap.mean for gap in gaps[which * len(found) : (which + 1) * len(found)]]
        error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else float("nan")
        print(f"The vote less one level, {words}: {statistics.fmean(each):+.3f}, error {error:.3f}")
