"""Credit card fraud: 15,000 transactions at the true prevalence, without Time; part of `quality`.

Five draws of 26 frauds and 14,974 others, five folds each. A fold holds five or six frauds, so one
F1 is coarse: it is averaged over folds, and given once more with the predictions of a draw's folds
together. Draws from the subset of the file overlap, so that their spread is rather too small.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, f1_score

from annealed import ODAClassifier, datasets
from benchmarks.classifiers import MODELS, OURS, RIVALS, Build, Split, paired, run, splits
from benchmarks.harness import number, table, verdict
from benchmarks.labelled import FRAUD, Labels, load, missing

FOR_F1 = "annealed, for F1"


def contenders() -> dict[str, Build]:
    """Ours by default, and set on F1 where the classifier can be; then the others."""
    ours = {OURS: MODELS[OURS]}
    if "scoring" in ODAClassifier().get_params():
        for_f1: dict[str, Any] = {"scoring": "f1"}
        ours[FOR_F1] = lambda seed: ODAClassifier(random_state=seed, **for_f1)
    return {**ours, **RIVALS}


@dataclass(frozen=True)
class Fold:
    """One model on one fold; scores in percent."""

    f1: float
    precision: float  # average precision
    predicted: Labels
    truth: Labels
    fit_seconds: float


def measured(build: Build, seed: int, split: Split) -> Fold:
    """Fit, predict and judge."""
    done = run(build(seed), split.rows, split.labels, split.unseen)
    if hasattr(done.model, "predict_proba"):
        score = done.model.predict_proba(split.unseen)[:, 1]
    else:
        score = done.model.decision_function(split.unseen)
    return Fold(
        100 * float(f1_score(split.truth, done.predicted, zero_division=0)),
        100 * float(average_precision_score(split.truth, score)),
        done.predicted,
        split.truth,
        done.fit_seconds,
    )


def pooled_f1(folds: list[Fold]) -> float:
    """F1 of the predictions of all folds of a draw together."""
    truth, predicted = (
        np.concatenate(parts)
        for parts in ([fold.truth for fold in folds], [fold.predicted for fold in folds])
    )
    return 100 * float(f1_score(truth, predicted, zero_division=0))


def main(seeds: range) -> None:
    """Measure and print."""
    try:
        X, y, name = load(FRAUD)
    except (OSError, ValueError) as error:
        missing(FRAUD, error)
        return
    models = contenders()
    found: dict[str, list[list[Fold]]] = {model: [] for model in models}
    for seed in seeds:
        print(f"  {name}, draw {seed}", file=sys.stderr, flush=True)
        for of_model in found.values():
            of_model.append([])
        for split in splits(*datasets.at_prevalence(X, y, random_state=seed), seed):
            for model, build in models.items():
                found[model][-1].append(measured(build, seed, split))
    best = max(RIVALS, key=lambda model: statistics.fmean(f.f1 for d in found[model] for f in d))
    reference = [[fold.f1 for fold in draw] for draw in found[best]]
    rows = []
    for model, draws in found.items():
        folds = [fold for draw in draws for fold in draw]
        row: list[object] = [model]
        row += [f"{statistics.fmean(fold.f1 for fold in folds):.1f}"]
        row += [f"{statistics.fmean(pooled_f1(draw) for draw in draws):.1f}"]
        row += [f"{statistics.fmean(fold.precision for fold in folds):.1f}"]
        gap = paired([[fold.f1 for fold in draw] for draw in draws], reference)
        row += (
            ["-"] * 3
            if model == best
            else [f"{gap.mean:+.1f}", f"{gap.error:.1f}", number(gap.seed_error, 2)]
        )
        row += [verdict(gap.within(0)) if model in (OURS, FOR_F1) else ""]
        row += [number(statistics.median(fold.fit_seconds for fold in folds))]
        rows.append(row)
    table(
        f"Fraud ({name}, {len(seeds)} draw(s) of 15,000 rows with 26 frauds, without Time), in "
        "percent; F1 less that of the\nbest of the others in points, standard error over pairs of "
        "folds and over the means of the draws",
        ["", "F1", "F1, folds\ntogether", "average\nprecision", f"F1 less\n{best}'s",
         "error\nfolds", "error\ndraws", "within\nits error", "fit\ns"],
        rows,
    )  # fmt: skip
    if FOR_F1 not in models:
        print("Not measured: ODAClassifier has no parameter scoring= to be set on F1.")
