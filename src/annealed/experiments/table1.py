"""Table 1: accuracies in five folds, ours in three recipes beside SVM, NN and RF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold

from annealed.datasets.built_in import GAUSSIAN_CENTRES, GAUSSIAN_CLASSES
from annealed.divergences import Array
from annealed.experiments.configuration import Settings
from annealed.experiments.lab import TITLES, Lab, Labels, Rows
from annealed.experiments.models import FULL, PAPER, PLAIN, RECIPES, Build, ours, quiet, references
from annealed.experiments.results import Cell, Check, Outcome, Table

# In percent, with the spread the paper prints: of ODA, SVM, NN, RF.
PRINTED = {
    "gaussians": {"ODA": 98.9, "SVM": 79.5, "NN": 98.6, "RF": 98.7},
    "wbcd": {"ODA": 90.7, "SVM": 85.6, "NN": 92.7, "RF": 94.6},
    "creditcard": {"ODA": 95.6, "SVM": 69.1, "NN": 58.9, "RF": 62.8},
    "pima": {"ODA": 70.5, "SVM": 62.9, "NN": 76.3, "RF": 74.4},
}
F1 = ("F1", "macro F1", "weighted F1")
BEST = "best possible"
Column = tuple[str, str]  # model and scaling


@dataclass(frozen=True)
class Score:
    """Mean and spread in percent: over folds, and over the means of the repeats."""

    mean: float
    over_folds: float
    over_repeats: float
    folds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.over_folds:.1f}"


def steps(settings: Settings) -> int:
    """Steps of the work, for a progress bar."""
    return len(settings["sets"]) * int(settings["repeats"]) * len(columns("pima", settings))


def columns(name: str, settings: Settings) -> dict[Column, Build]:
    """The models of one row of the table."""
    # The paper takes the I-divergence for WBCD; it needs features that are not negative.
    divergence = "i_divergence" if name == "wbcd" else "squared_euclidean"
    mine: dict[Column, Build] = {
        (PAPER, "raw"): ours(PAPER, divergence),
        (PLAIN, "standardised"): ours(PLAIN),
        (FULL, "standardised"): ours(FULL),
    }
    return mine | references(settings)


def metrics(name: str) -> Sequence[str]:
    """What is measured on a set."""
    return F1 if name == "creditcard" else ("accuracy",)


def judged(metric: str, truth: Labels, answers: Labels) -> float:
    """In percent."""
    if metric == "accuracy":
        return 100 * float(accuracy_score(truth, answers))
    average = {"F1": "binary", "macro F1": "macro", "weighted F1": "weighted"}[metric]
    return 100 * float(f1_score(truth, answers, average=average, zero_division=0))


def bayes(X: Array) -> Labels:
    """The likelier class under the mixture the Gaussians were drawn from."""
    square = ((X[:, None, :] - GAUSSIAN_CENTRES) ** 2).sum(axis=2)
    density = np.exp(-0.5 * square)
    one = density[:, GAUSSIAN_CLASSES == 1].sum(axis=1)
    likelier: Labels = (one > 0.5 * density.sum(axis=1)).astype(np.int64)
    return likelier


def measure(lab: Lab, name: str) -> tuple[dict[tuple[Column, str], Score], Rows] | None:
    """Scores of every column on one set; None if the set is not at hand."""
    settings = lab.settings
    found: dict[tuple[Column, str], list[list[float]]] = {}
    rows = None
    for repeat in range(settings["repeats"]):
        seed = settings["seed"] + repeat
        rows = lab.rows(name, seed)
        folds = StratifiedKFold(settings["folds"], shuffle=True, random_state=seed)
        for column, build in columns(name, settings).items():
            lab.step(f"{TITLES[name]}: {column[0]}, {column[1]}")
            if rows is None:
                continue
            for metric in metrics(name):
                found.setdefault((column, metric), []).append([])
            for learnt, tested in folds.split(rows.X, rows.y):
                with quiet():
                    model = build(seed).fit(rows.X[learnt], rows.y[learnt])
                answers = model.predict(rows.X[tested])
                for metric in metrics(name):
                    score = judged(metric, rows.y[tested], answers)
                    found[column, metric][-1].append(score)
    if rows is None:
        return None
    scores = {key: summary(values) for key, values in found.items()}
    if name == "gaussians":
        best = [[judged("accuracy", rows.y, bayes(rows.X))]]
        scores[(BEST, ""), "accuracy"] = summary(best)
    return scores, rows


def summary(values: list[list[float]]) -> Score:
    """Of repeats of folds."""
    table = np.array(values)
    over_repeats = float(table.mean(axis=1).std())
    return Score(float(table.mean()), float(table.std()), over_repeats, tuple(table.ravel()))


def run(lab: Lab) -> Outcome:
    """Measure every set and compare."""
    outcome = Outcome(
        "table1",
        "Table 1: accuracies in five folds",
        [
            "Five-fold accuracies of ODA beside a linear SVM, a network with one hidden layer (NN) "
            "and random forests (RF), F1 for credit card. ODA is run without fine-tuning."
        ],
    )
    header = ["set", "metric", "model", "scaling", "mean", "sd over folds", "sd over repeats"]
    lines: list[list[Cell]] = []
    every: dict[str, dict[tuple[Column, str], Score]] = {}
    for name in lab.settings["sets"]:
        measured = measure(lab, name)
        if measured is None:
            continue
        every[name], rows = measured
        for ((model, scaling), metric), score in every[name].items():
            numbers = (score.mean, score.over_folds, score.over_repeats)
            lines.append([name, metric, model, scaling, *(round(value, 3) for value in numbers)])
        if rows.note:
            outcome.ours.append(f"{rows.title}: {rows.note}.")
    lab.write_csv("table1.csv", [*header, "paper"], [[*line, _printed(line)] for line in lines])
    outcome.ours = [*_tables(every), *outcome.ours, _legend(lab.settings)]
    outcome.checks = [check for name, scores in every.items() for check in _checks(name, scores)]
    outcome.differences = _differences(every)
    return outcome


def _printed(line: Sequence[Cell]) -> Cell:
    """The paper's number of the same row and model; credit card's F1 is of an unknown kind."""
    model = str(line[2]).partition(",")[0]
    return PRINTED[str(line[0])].get(model, "") if line[1] in ("accuracy", "F1") else ""


def _tables(every: dict[str, dict[tuple[Column, str], Score]]) -> list[Table]:
    tables = []
    for name, scores in every.items():
        rows: list[list[Cell]] = []
        for column in dict.fromkeys(column for column, _ in scores):
            model, scaling = column
            printed = PRINTED[name].get(model.partition(",")[0], "")
            of_column = [str(scores[column, metric]) for metric in metrics(name)]
            rows.append([model, scaling, f"{printed}" if model != FULL else "-", *of_column])
        heads = [f"here: {metric}" for metric in metrics(name)]
        tables.append(Table(TITLES[name], ["model", "features", "paper", *heads], rows))
    return tables


def _legend(settings: Settings) -> str:
    recipes = "; ".join(f"“{name}” is {words}" for name, words in RECIPES.items())
    return (
        f"Percent, mean ± standard deviation over the {settings['folds']} folds of "
        f"{settings['repeats']} repeat(s) (table1.csv has the one over repeats too). Of ours, "
        f"{recipes}. On WBCD the paper's settings run with the I-divergence, as in the paper, on "
        f"raw features. NN has {settings['nn_neurons']} neurons and RF {settings['rf_trees']} "
        "trees on every set, where the paper took the best of 10 to 100 by grid search. RF does "
        "not notice scaling and is run once."
    )


def _checks(name: str, scores: dict[tuple[Column, str], Score]) -> list[Check]:
    """The bars of one set."""
    title = TITLES[name]
    if name == "creditcard":
        return [_fraud_check(metric, scores) for metric in F1]
    best = scores.get(((BEST, ""), "accuracy"))
    checks = []
    for recipe, bar, whose in (
        (PLAIN, PRINTED[name]["ODA"], "ODA in the paper"),
        (FULL, max(PRINTED[name].values()), "the best of the paper's row"),
    ):
        score = scores[(recipe, "standardised"), "accuracy"]
        mean = score.mean
        spread = f"The standard deviation over folds is {score.over_folds:.2f}."
        if score.over_repeats:
            spread = (
                f"The standard deviation over repeats of the folds is {score.over_repeats:.2f}."
            )
        reason = spread
        if best is not None:
            reason += (
                f" On these 1500 samples the rule that knows the mixture reaches {best.mean:.2f}: "
                "no classifier can be expected to do better, and the paper's number belongs to a "
                "mixture that it does not give."
            )
        met = round(mean, 1) >= bar  # the paper's precision
        claim = f"{title}: {recipe} at or above {bar} ({whose})"
        checks.append(Check(claim, f"{mean:.2f}", met, "" if met else reason))
    return checks


def _fraud_check(metric: str, scores: dict[tuple[Column, str], Score]) -> Check:
    mine = scores[(FULL, "standardised"), metric]
    rivals = {
        column: score
        for (column, which), score in scores.items()
        if which == metric and column[0] in ("SVM", "NN", "RF")
    }
    (model, scaling), best = max(rivals.items(), key=lambda item: item[1].mean)
    beaten = sum(mine.mean >= other.mean for other in rivals.values())
    gap = np.subtract(mine.folds, best.folds)
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    met = beaten == len(rivals)
    claim = f"Credit card: {FULL} at or above every reference of the same run in {metric}"
    words = (
        f"{mine.mean:.2f}; the best is {model} ({scaling}) with {best.mean:.2f}; {beaten} of "
        f"{len(rivals)} references reached"
    )
    told_apart = "more than" if -gap.mean() > error else "less than"
    reason = (
        f"Ours less the best: {gap.mean():+.2f}, {told_apart} its standard error of {error:.2f} "
        f"over {len(gap)} folds. A fold tests five or six frauds, each worth ten points of its F1."
    )
    return Check(claim, words, met, "" if met else reason)


def _differences(every: dict[str, dict[tuple[Column, str], Score]]) -> list[str]:
    words = [
        "The paper prints no spread (± 0.0) for most entries; five folds of sets this small have "
        "one of one to four points, as the tables show."
    ]
    raw, scaled = ("SVM", "raw"), ("SVM", "standardised")
    for name in ("wbcd", "pima"):
        if name in every:
            scores = every[name]
            words.append(
                f"{TITLES[name]}: the paper's SVM ({PRINTED[name]['SVM']}) is what a linear SVM "
                f"gives on raw features with the solver of the time, which does not converge there "
                f"(here {scores[raw, 'accuracy'].mean:.1f}, different from fold to fold by "
                f"{scores[raw, 'accuracy'].over_folds:.0f} points); on standardised features it "
                f"reaches {scores[scaled, 'accuracy'].mean:.1f}."
            )
    if "creditcard" in every:
        plain = every["creditcard"][(PLAIN, "standardised"), "F1"].mean
        words.append(
            f"Credit card: without fine-tuning ours has an F1 of {plain:.1f}. A level as annealed "
            "models each class by itself; with the 20 frauds of a fold to learn from, the coldest "
            "level does badly on some draws and well on others."
        )
        words.append(
            "Credit card: the paper does not say which F1 it means. None of the models here comes "
            "near its 95.6 for ODA in the F1 of the fraud class, while all do in the weighted F1, "
            "which counts the 99.8 % of legitimate rows and tells models hardly apart. The 95.6 "
            "may be of that kind; this cannot be settled from the paper."
        )
    words.append(
        "The paper's literal settings end a level at the first small step, so that levels are "
        "short and the result depends on the order of presentation; our defaults ask for several "
        "small steps and for a number of samples in proportion to the codevectors."
    )
    return words
