"""What `annealed fit` does between reading its arguments and printing: a file in, a model out."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from annealed.cli.application import in_options
from annealed.cli.model_inputs import open_data, scorer_named
from annealed.cli.progress import Progress
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.estimators.classifier import GivenPosteriors
from annealed.tables.columns import is_missing, short_list
from annealed.tables.files import TableError, TableFile, draw, rows_to_learn
from annealed.tables.model import TabularModel
from annealed.tables.targets import classes_in

# Rows held out to test a classifier are a share of all, up to a number that is enough to tell.
MOST_TEST_ROWS = 10_000


@dataclass(frozen=True)
class FitOptions:
    """What was asked for."""

    data: Path
    target: str | None
    columns: Sequence[str]
    drop: Sequence[str]
    categorical: Sequence[str]
    preprocess: str
    n_clusters: str | int | None
    divergence: str
    scoring: str | None
    test: float
    max_rows: int
    seed: int


@dataclass
class Trained:
    """A model and what is to be said about how it came about."""

    options: FitOptions
    model: TabularModel
    rows: int  # of the file
    learnt: int
    tested: int = 0
    without_target: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    class_shares: dict[str, float] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)  # cells among the rows read
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def sampled(self) -> bool:
        """Whether the file has more rows than were read."""
        return self.rows > self.learnt + self.tested + self.without_target


def train(options: FitOptions, progress: Progress) -> Trained:
    """Read, hold out, learn, test."""
    started = time.perf_counter()
    scorer = None if options.scoring is None else scorer_named(options.scoring)
    file = open_data(options.data)
    columns = _columns_to_use(options, file)
    table, kinds, rows = _read(options, file, columns, progress)
    _check_preprocess(options, table, kinds, columns)
    labels, without = _labels(options, file, table)
    if without.any():
        table = table.filter(~without)
    missing = {name: table.column(name).null_count for name in columns}
    test = _held_out(labels, table.num_rows, options)
    features = table.select(columns)
    model = TabularModel(
        _estimator(options, progress),
        standardize=_standardizes(options),
        kinds={name: "category" for name in columns if name in options.categorical} or None,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learn = features.filter(~test)
        try:
            model.fit(learn, None if labels is None else labels[~test])
        except ValueError as error:
            raise TableError(f"{options.data}: {in_options(str(error))}") from None
    model.estimator_.set_params(callbacks=None)
    model.estimator.set_params(callbacks=None)
    model.target_name_ = options.target
    model._stand_for(len(without), rows)
    trained = Trained(
        options, model, rows, learn.num_rows, int(test.sum()), int(without.sum()), missing=missing,
        notes=list(dict.fromkeys(str(warning.message) for warning in caught)),
    )  # fmt: skip
    if labels is not None:
        shares = Counter(labels.tolist())
        trained.class_shares = {str(label): n / len(labels) for label, n in shares.most_common()}
        progress.phase("testing")
        trained.scores = _scores(options, scorer, model, features.filter(test), labels, test)
    trained.seconds = time.perf_counter() - started
    return trained


# -- columns and rows ----------------------------------------------------------------------------


def _columns_to_use(options: FitOptions, file: TableFile) -> list[str]:
    file.check_columns([*options.columns, *options.drop, *options.categorical])
    if options.target is not None:
        file.check_columns([options.target])
    chosen = list(dict.fromkeys(options.columns)) or file.names
    left = [name for name in chosen if name not in options.drop and name != options.target]
    if not left:
        raise TableError(f"{file.path}: no column is left to learn from")
    for name in options.categorical:
        if name not in left and name != options.target:
            raise TableError(f"--categorical names {name!r}, which is not among the columns used")
    return left


def _read(
    options: FitOptions, file: TableFile, columns: list[str], progress: Progress
) -> tuple[Any, dict[str, str], int]:
    """Rows in memory, at most as many as wanted; what the columns are; how many rows there are."""
    wanted = columns if options.target is None else [*columns, options.target]
    # The target is read as it stands: what it is, is decided when it is looked at as classes.
    declared = {
        name: "category" for name in [*options.categorical, options.target] if name is not None
    }
    progress.phase("looking through the file")
    survey = file.survey(wanted, declared)
    if not survey.rows:
        raise TableError(f"{file.path} has names of columns, but no rows")
    most = rows_to_learn(survey.kinds, columns, options.max_rows)
    progress.phase("reading", total=survey.rows)
    table = draw(file, wanted, survey, most=most, seed=options.seed, progress=progress.rows)
    return table, survey.kinds, survey.rows


def _check_preprocess(
    options: FitOptions, table: Any, kinds: dict[str, str], columns: Sequence[str]
) -> None:
    """With --preprocess none there must be nothing to preprocess."""
    if options.preprocess != "none":
        return
    texts = [name for name in columns if kinds[name] == "category"]
    if texts:
        raise TableError(
            f"{options.data}: the columns {short_list(texts)} hold texts, and --preprocess none "
            "takes numbers as they are; leave them out (--drop) or use --preprocess auto"
        )
    for name in columns:
        gaps = table.column(name).null_count
        if gaps:
            raise TableError(
                f"{options.data}, column {name!r}: {gaps} cells are missing, and --preprocess none "
                "fills none; use --preprocess auto"
            )


def _standardizes(options: FitOptions) -> bool:
    """Other divergences are made for positive numbers, which standardising would not leave."""
    return options.preprocess == "auto" and options.divergence == "squared_euclidean"


def _labels(
    options: FitOptions, file: TableFile, table: Any
) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Classes of the rows that have one, and which rows have none."""
    if options.target is None:
        return None, np.zeros(table.num_rows, dtype=bool)
    cells = table.column(options.target).to_pylist()
    without = np.array([is_missing(cell) for cell in cells])
    if without.all():
        raise TableError(f"{options.data}: the target {options.target!r} is missing in every row")
    present = [cell for cell in cells if not is_missing(cell)]
    as_texts = options.target in options.categorical or (file.typed and isinstance(present[0], str))
    try:
        labels = classes_in(present, options.target, as_texts=as_texts, decimal=file.decimal)
    except ValueError as error:
        raise TableError(f"{options.data}: {error}; without --target rows are clustered") from None
    return labels, without


def _held_out(labels: NDArray[Any] | None, rows: int, options: FitOptions) -> NDArray[np.bool_]:
    """Which rows test the model: of every class the same share, and none of a class of few."""
    test = np.zeros(rows, dtype=bool)
    if labels is None:
        return test
    share = min(options.test, MOST_TEST_ROWS / rows)
    rng = np.random.default_rng(options.seed)
    for label in np.unique(labels):
        own = rng.permutation(np.flatnonzero(labels == label))
        test[own[: int(share * len(own))]] = True
    return test


def _estimator(options: FitOptions, progress: Progress) -> Any:
    # A function, not the method itself: the estimator is copied, and what is shown must not be.
    callbacks = [lambda level: progress.level(level)]
    if options.target is not None:
        classifier = ODAClassifier(
            divergence=options.divergence,
            scoring=options.scoring,
            random_state=options.seed,
            callbacks=callbacks,
        )
        progress.annealing(classifier.gamma, "choosing a level")
        return classifier
    clustering = ODAClustering(
        options.n_clusters,
        divergence=options.divergence,
        random_state=options.seed,
        callbacks=callbacks,
    )
    compared = options.n_clusters == "auto"
    progress.annealing(clustering.gamma, "comparing with structureless data" if compared else "")
    return clustering


def _scores(
    options: FitOptions,
    scorer: Any,
    model: TabularModel,
    rows: Any,
    labels: NDArray[Any],
    test: NDArray[np.bool_],
) -> dict[str, float]:
    """How it does on rows it has not learnt, or, if none were held out, did while choosing."""
    if test.any():
        shares = model.predict_proba(rows)
        right = model.classes_[shares.argmax(axis=1)] == labels[test]
        places = np.searchsorted(model.classes_, labels[test])
        loss = log_loss(places, shares, labels=np.arange(len(model.classes_)))
        scores = {"accuracy": float(right.mean()), "log_loss": float(loss)}
        if scorer is not None:
            given = GivenPosteriors(model.classes_, shares)
            scores[str(options.scoring)] = float(scorer(given, shares, labels[test]))
        return scores
    chosen = model.chosen_
    if chosen is None:
        return {}
    scores = {"accuracy": chosen.accuracy, "log_loss": chosen.log_loss}
    return scores if scorer is None else scores | {str(options.scoring): chosen.score}
