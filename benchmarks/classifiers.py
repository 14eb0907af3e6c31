"""Who takes part in `quality`, how one of them is measured on one fold, and paired differences."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from annealed import ODAClassifier
from benchmarks.data import Rows
from benchmarks.harness import seconds
from benchmarks.labelled import FOLDS, Labels

Build = Callable[[int], Any]
OURS, ONE, PLAIN, FOREST = "annealed", "one level", "as annealed", "forest"
RIVALS: dict[str, Build] = {
    FOREST: lambda seed: RandomForestClassifier(100, n_jobs=1, random_state=seed),
    "RBF SVM": lambda seed: SVC(),
    # The class scikit-learn has for linear machines; SVC(kernel="linear") is slow on many rows.
    "linear SVM": lambda seed: LinearSVC(random_state=seed),
    # Its default of 200 passes ends before it has converged on most of these sets.
    "MLP": lambda seed: MLPClassifier(max_iter=500, random_state=seed),
    "5-NN": lambda seed: KNeighborsClassifier(5),
}
MODELS: dict[str, Build] = {
    OURS: lambda seed: ODAClassifier(random_state=seed),
    ONE: lambda seed: ODAClassifier(level="auto", random_state=seed),
    PLAIN: lambda seed: ODAClassifier(level="last", fine_tune=None, random_state=seed),
    **RIVALS,
}
IN_WORDS = """
annealed: ODAClassifier(). one level: ODAClassifier(level="auto"). as annealed:
ODAClassifier(level="last", fine_tune=None). forest: 100 trees. RBF SVM: SVC(). linear SVM:
LinearSVC(). MLP: one hidden layer of 100, max_iter=500. All else as it is by default; features
standardised within each fold."""


@dataclass(frozen=True)
class Run:
    """A model fitted on the training rows of one fold, with its times in seconds."""

    model: Any
    predicted: Labels
    fit_seconds: float
    predict_seconds: float
    unconverged: bool


def run(model: Any, rows: Rows, labels: Labels, unseen: Rows) -> Run:
    """Fit and predict, each timed in processor time."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fit_seconds = seconds(partial(model.fit, rows, labels))
    # Predictions of a fold take a millisecond or so; the median of three is less noisy than one.
    spent = statistics.median(seconds(partial(model.predict, unseen)) for _ in range(3))
    unconverged = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    return Run(model, model.predict(unseen), fit_seconds, spent, unconverged)


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to be judged on, standardised by the former."""

    rows: Rows
    labels: Labels
    unseen: Rows
    truth: Labels


def splits(X: Rows, y: Labels, seed: int, *, scaled: bool = True) -> Iterator[Split]:
    """Five stratified folds."""
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        rows, unseen = X[train], X[test]
        if scaled:
            scaler = StandardScaler().fit(rows)
            rows, unseen = scaler.transform(rows), scaler.transform(unseen)
        yield Split(rows, y[train], unseen, y[test])


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences with two standard errors.

    ``error`` is over all folds of all seeds, as if they were independent; they share training rows,
    so it is rather too small. ``seed_error`` is over the means of the seeds, nan of a single one.
    """

    mean: float
    error: float
    seed_error: float

    def within(self, points: float) -> bool:
        """Not worse by more than so many points, or than its standard error."""
        return self.mean >= -max(points, self.error)


def paired(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Difference:
    """Ours less theirs; both hold the folds of every seed."""
    by_seed = np.array(ours) - np.array(theirs)
    return Difference(
        float(by_seed.mean()), _error(by_seed.ravel().tolist()), _error(by_seed.mean(1).tolist())
    )


def _error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
