"""Accuracy, calibration, size and time of `ODAClassifier` beside other classifiers.

Nothing is tuned: everything stands at its defaults. Five stratified folds with seeds 0 to 4 for
folds and models, features standardised within each fold. After the seven sets come those of a
folder of your own (``--folder``), the two ways of splitting, credit card fraud, a panel of 28 sets
(`panel`), and what breaks classifiers (`robustness`). The best of the others is chosen by the same
folds, which favours it a little.

Expected calibration error: the mean distance between the confidence in the predicted class and how
often it is right, over 15 bins of equal width. Log loss is in nats; a probability of zero counts as
the smallest difference from one, hence the large values of 5-NN.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from annealed import ODAClassifier
from benchmarks import fraud, panel, robustness
from benchmarks.classifiers import (
    FOREST,
    IN_WORDS,
    MODELS,
    ONE,
    OURS,
    PLAIN,
    RIVALS,
    Build,
    Split,
    paired,
    run,
    splits,
)
from benchmarks.harness import header, number, one_thread, table, verdict
from benchmarks.labelled import FOLDS, FRAUD, SETS, TITLES, Labelled, by_name, from_folder

BINS = 15
# What is asked for: accuracy within so many points of the best (or within the standard error), and
# in any case within the second number; times over the forest's.
POINTS, POINTS_AT_MOST = 0.5, 1.0
FIT_TOTAL, FIT_EACH, PLAIN_TOTAL, PREDICT, PREDICT_ONE = 2.0, 5.0, 0.2, 5.0, 10.0


@dataclass(frozen=True)
class Fold:
    """One model on one fold."""

    accuracy: float  # percent
    fit_seconds: float
    predict_seconds: float
    codevectors: int | None
    unconverged: bool
    loss: float | None  # nats
    confidence: np.ndarray | None  # of every row, in the class predicted
    right: np.ndarray


# Per model the folds of every seed.
Results = dict[str, list[list[Fold]]]


def measured(build: Build, seed: int, split: Split) -> Fold:
    """Fit, predict and judge."""
    done = run(build(seed), split.rows, split.labels, split.unseen)
    right = done.predicted == split.truth
    loss = confidence = None
    if hasattr(done.model, "predict_proba"):
        proba = done.model.predict_proba(split.unseen)
        # Not scikit-learn's log_loss, which refuses probabilities above one by a rounding error.
        place = np.searchsorted(done.model.classes_, split.truth)
        of_truth = np.maximum(proba[np.arange(len(place)), place], np.finfo(float).eps)
        loss = float(-np.log(of_truth).mean())
        confidence = proba.max(axis=1)
    K = len(done.model.codevectors_) if isinstance(done.model, ODAClassifier) else None
    return Fold(
        100 * float(right.mean()), done.fit_seconds, done.predict_seconds, K, done.unconverged,
        loss, confidence, right,
    )  # fmt: skip


def results(
    problem: Labelled, models: dict[str, Build], seeds: range, *, scaled: bool = True
) -> Results:
    """All models on all folds of all seeds, in turns."""
    found: Results = {name: [] for name in models}
    for seed in seeds:
        print(f"  {problem.name}, seed {seed}", file=sys.stderr, flush=True)
        for of_model in found.values():
            of_model.append([])
        for split in splits(*problem.make(seed), seed, scaled=scaled):
            for name, build in models.items():
                found[name][-1].append(measured(build, seed, split))
    return found


def flat(folds: list[list[Fold]]) -> list[Fold]:
    """The folds of all seeds in one list."""
    return [fold for of_seed in folds for fold in of_seed]


def mean_accuracy(folds: list[list[Fold]]) -> float:
    return statistics.fmean(fold.accuracy for fold in flat(folds))


def calibration_error(folds: list[Fold]) -> float:
    """Expected calibration error of the rows of all folds together; nan without probabilities."""
    if any(fold.confidence is None for fold in folds):
        return float("nan")
    confidence = np.concatenate([fold.confidence for fold in folds if fold.confidence is not None])
    right = np.concatenate([fold.right for fold in folds])
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))


# -- the tables --------------------------------------------------------------------------------


def report(title: str, found: dict[str, Results]) -> None:
    """Every table of a group of data sets."""
    if found:
        accuracies(title, found)
        differences(title, found)
        calibration(title, found)
        sizes(title, found)
        times(title, found)


def accuracies(title: str, found: dict[str, Results]) -> None:
    rows = []
    for name, result in found.items():
        means = {model: mean_accuracy(folds) for model, folds in result.items()}
        rows.append([name, *(f"{mean:.2f}" for mean in means.values())])
    table(f"{title}: accuracy in percent, mean over seeds and folds", ["data", *MODELS], rows)
    unfinished = {
        model: sum(fold.unconverged for result in found.values() for fold in flat(result[model]))
        for model in MODELS
    }
    said = ", ".join(f"{model} {count}" for model, count in unfinished.items() if count)
    print(f"Fits that ended with a warning of convergence: {said or 'none'}.")


def differences(title: str, found: dict[str, Results]) -> None:
    rows = []
    for name, result in found.items():
        best = max(RIVALS, key=lambda rival: mean_accuracy(result[rival]))
        ours, theirs = (
            [[fold.accuracy for fold in of_seed] for of_seed in result[model]]
            for model in (OURS, best)
        )
        gap = paired(ours, theirs)
        rows.append(
            [name, best, f"{gap.mean:+.2f}", f"{gap.error:.2f}", number(gap.seed_error, 2),
             verdict(gap.within(POINTS)), verdict(gap.mean >= -POINTS_AT_MOST)]
        )  # fmt: skip
    table(
        f"{title}: accuracy of annealed less that of the best of the others, in points; standard\n"
        f"error over pairs of folds, and over the means of the seeds",
        ["data", "the best", "difference", "error\nfolds", "error\nseeds",
         f"within {POINTS} or\nits error", f"within\n{POINTS_AT_MOST}"],
        rows,
    )  # fmt: skip


def calibration(title: str, found: dict[str, Results]) -> None:
    judged = [
        model for model in MODELS if flat(next(iter(found.values()))[model])[0].loss is not None
    ]
    rows = []
    for name, result in found.items():
        losses = [
            statistics.fmean(f.loss for f in flat(result[model]) if f.loss is not None)
            for model in judged
        ]
        errors = [
            statistics.fmean(calibration_error(of_seed) for of_seed in result[model])
            for model in judged
        ]
        rows.append([name, *(number(v) for v in losses), *(f"{v:.3f}" for v in errors)])
    table(
        f"{title}: log loss, and expected calibration error ({BINS} bins, mean over seeds)",
        ["data", *(f"loss\n{m}" for m in judged), *(f"calibration\n{m}" for m in judged)],
        rows,
    )


def _codevectors(folds: list[list[Fold]]) -> list[str]:
    K = [fold.codevectors for fold in flat(folds) if fold.codevectors is not None]
    return [f"{statistics.median(K):.0f}", f"{min(K)}-{max(K)}"]


def sizes(title: str, found: dict[str, Results]) -> None:
    shown = OURS, ONE, PLAIN
    every = {m: [seed for r in found.values() for seed in r[m]] for m in shown}
    table(
        f"{title}: codevectors used, of all voters",
        ["data", *(head for m in shown for head in (f"{m}\nmedian", "\nrange"))],
        [
            [n, *(entry for m in shown for entry in _codevectors(r[m]))]
            for n, r in [*found.items(), ("all", every)]
        ],
    )


def times(title: str, found: dict[str, Results]) -> None:
    """Medians over folds; the total is the sum of the medians, not of everything measured."""

    def medians(pick: Callable[[Fold], float]) -> dict[str, dict[str, float]]:
        each = {
            name: {m: statistics.median(pick(f) for f in flat(folds)) for m, folds in r.items()}
            for name, r in found.items()
        }
        return {**each, "total": {m: sum(r[m] for r in each.values()) for m in MODELS}}

    fit, predict = medians(lambda fold: fold.fit_seconds), medians(lambda f: f.predict_seconds)
    ratios, absolute = [], []
    for name in fit:
        total = name == "total"
        ours, plain = (fit[name][model] / fit[name][FOREST] for model in (OURS, PLAIN))
        faster, one = (predict[name][FOREST] / predict[name][model] for model in (OURS, ONE))
        bar = FIT_TOTAL if total else FIT_EACH
        ratios.append(
            [name, number(ours), number(bar), verdict(ours <= bar), number(plain),
             *([PLAIN_TOTAL, verdict(plain <= PLAIN_TOTAL)] if total else ["-", "-"]),
             number(faster), number(PREDICT), verdict(faster >= PREDICT),
             number(one), number(PREDICT_ONE), verdict(one >= PREDICT_ONE)]
        )  # fmt: skip
        milliseconds = [1000 * spent[name][m] for spent in (fit, predict) for m in MODELS]
        absolute.append([name, *map(number, milliseconds)])
    table(
        f"{title}: time of a fit over the forest's (bar: at most), and how many times faster than\n"
        "the forest annealed predicts (bar: at least)",
        ["data", f"fit\n{OURS}", "bar", "", f"fit\n{PLAIN}", "bar", "", "predict", "bar", "",
         f"predict\n{ONE}", "bar", ""],
        ratios,
    )  # fmt: skip
    table(
        f"{title}: milliseconds of a fit, and of predicting the rows of a fold",
        ["data", *(f"fit\n{m}" for m in MODELS), *(f"predict\n{m}" for m in MODELS)],
        absolute,
    )


# -- the two ways of splitting -----------------------------------------------------------------
# The bars are those set for the coldest level; that of digits is for features as they are.

SPLIT_BARS = {"moons": 99.5, "circles": 99.5, "wbcd": 95.0, "wine": 94.0, "digits": 96.5}


def _split_by(split: str, seed: int) -> ODAClassifier:
    return ODAClassifier(level="last", fine_tune=None, split=split, random_state=seed)


SPLITS: dict[str, Build] = {name: partial(_split_by, name) for name in ("variance", "perturb")}


def ways_of_splitting(names: Sequence[str], seeds: range) -> None:
    rows = []
    for name in (name for name in names if name in SPLIT_BARS):
        bar = SPLIT_BARS[name]
        row: list[object] = [TITLES[name], bar]
        found = results(by_name([name])[0], SPLITS, seeds, scaled=name != "digits")
        for folds in found.values():
            accuracy = mean_accuracy(folds)
            spent = statistics.median(fold.fit_seconds for fold in flat(folds))
            row += [f"{accuracy:.2f}", verdict(accuracy >= bar)]
            row += [*_codevectors(folds), f"{1000 * spent:.1f}"]
        rows.append(row)
    each = ["{}\npercent", "\n", "\nK", "\nrange", "\nms"]
    if rows:
        table(
            "The two ways of splitting, as annealed: accuracy, codevectors, time of a fit "
            "(digits not standardised)",
            ["data", "bar", *(head.format(split) for split in SPLITS for head in each)],
            rows,
        )


def main(
    quick: bool = False, sets: Sequence[str] | None = None, folder: Path | None = None
) -> None:
    """Measure and print."""
    header("quality: accuracy, calibration, size and time of ODAClassifier(), nothing tuned")
    print(IN_WORDS)
    seeds = range(1 if quick else 5)
    names = [name for name in SETS if sets is None or name in sets]
    with one_thread():
        known = by_name([name for name in names if name != FRAUD])
        title = "Known sets" if sets is None else "Sets asked for"
        report(title, {problem.name: results(problem, MODELS, seeds) for problem in known})
        if folder is not None:
            extra = from_folder(folder)
            report(
                folder.name, {problem.name: results(problem, MODELS, seeds) for problem in extra}
            )
        ways_of_splitting(names, seeds)
        if FRAUD in names:
            fraud.main(seeds)
        if sets is None:
            panel.main(range(1) if quick else range(3), at_most=1 if quick else FOLDS)
            robustness.main(1 if quick else 5, quick)


if __name__ == "__main__":
    main()
