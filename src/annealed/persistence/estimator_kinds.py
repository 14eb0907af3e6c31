"""Estimators in a model file: their parameters and what they have learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from annealed.annealing.annealer import Annealer
from annealed.annealing.n_clusters import Persistence
from annealed.baselines import DeterministicAnnealing, LVQClassifier, StochasticVQ
from annealed.baselines.batch import BatchAnnealer
from annealed.baselines.competition import Competition
from annealed.baselines.deterministic_annealing import BatchLearner
from annealed.drift import Watch
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.estimators.learner import ClassLearner, ClusterLearner
from annealed.estimators.parameters import Rule
from annealed.fine_tuning.model import TunedModel
from annealed.fine_tuning.stream_race import StreamTuner
from annealed.path import Level
from annealed.persistence.checks import (
    INDICES,
    NUMBER,
    STATE,
    TEXT,
    TRUTH,
    VECTOR,
    State,
    count,
    fits_level,
    instance_of,
    list_of,
    maybe,
    one_width,
    require,
    tunings_of,
)
from annealed.persistence.kind import CannotSaveError, Kind, MalformedError
from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor


def _take_estimator(estimator: Any) -> State:
    """Parameters and what was learnt; callbacks are functions and stay behind."""
    state = dict(estimator.__getstate__())
    names = estimator.get_params(deep=False)
    parameters = {name: state.pop(name) for name in names}
    if parameters.get("callbacks"):
        parameters["callbacks"] = None
    for name, value in parameters.items():
        if callable(value) and not isinstance(value, type):
            raise CannotSaveError(
                f"{type(estimator).__name__}({name}=...) is a function of yours, which a model "
                f"file cannot hold. For scoring give the name of a scorer, or set_params({name}="
                "None) once it has done its work; or use pickle"
            )
    return {"parameters": parameters, **state}


def _make_estimator(cls: type, state: State) -> Any:
    parameters = state.pop("parameters")
    known = cls._get_param_names()  # type: ignore[attr-defined]
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise MalformedError(
            f"it holds the parameter {cls.__name__}.{unknown[0]}, which this version of annealed "
            "does not know: it was written by a newer one, so update annealed"
        )
    estimator = cls(**parameters)
    estimator.__dict__.update(state)
    return estimator


def _estimator(cls: type, check: Callable[[State], None], **fields: Rule) -> Kind:
    shared = {
        "parameters": STATE,
        "n_features_in_": count(1),
        "feature_names_in_": Rule(
            lambda v: isinstance(v, np.ndarray) and v.dtype == object and v.ndim == 1,
            "an array of names",
        ),
        "_sklearn_output_config": STATE,
    }

    def check_all(s: State) -> None:
        names = s.get("feature_names_in_")
        require(names is None or len(names) == s.get("n_features_in_"), "features lack a name")
        require(
            names is None or all(type(n) is str for n in names), "names of features are no text"
        )
        check(s)

    return Kind(
        cls,
        {**shared, **fields},
        may_lack=[name for name in (*shared, *fields) if name != "parameters"],
        left_out=["_checked", "_metadata_request"],
        check=check_all,
        take=_take_estimator,
        make=_make_estimator,
    )


LABELS = Rule(
    lambda v: isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "biufUO",
    "an array of labels",
)
SCORES = maybe(list_of(NUMBER))
# Of samples that came as dicts.
KEYS = list_of(Rule(lambda v: type(v) in (str, int, float, bool), "a plain key"), tuple)


def _check_clustering(s: State) -> None:
    if "_learner" not in s:
        return
    learner = s["_learner"]
    d = learner.annealer.d
    require(d == s.get("n_features_in_"), "the model is of another number of features")
    require(len(learner.annealer.classes) == 1, "a clustering has several classes")
    watched = None if learner.watch is None else learner.watch.model
    require(watched is None or type(watched) is Level, "a watch is of no clustering")
    for level in (learner.fixed, learner.polished, watched):
        if level is not None:
            fits_level("the model", level, d, 1)


def _check_labels(s: State, met: list[Any], numbered: int) -> None:
    """Every class that has been met is among the labels, once, and has a number."""
    require("classes_" in s, "a classifier has no classes")
    classes, seen = s["classes_"].tolist(), [np.asarray(label).item() for label in met]
    require(
        len(set(classes)) == len(classes) and sorted(classes) == classes, "labels are not in order"
    )
    require(len(set(seen)) == len(seen) and set(seen) <= set(classes), "a class has no label")
    require(len(seen) >= numbered, "a class has no label")


def _check_classifier(s: State) -> None:
    if "_learner" not in s:
        return
    learner = s["_learner"]
    annealer, tuner, watch = learner.annealer, learner.tuner, learner.watch
    require(annealer.d == s.get("n_features_in_"), "the model is of another number of features")
    n = len(learner.labels)
    _check_labels(s, learner.labels, len(annealer.classes))
    require(n == len(annealer.classes), "the model is of other classes")
    if learner.fixed is not None:
        fits_level("the model", learner.fixed, annealer.d, n)
    if tuner is not None:
        tunings = tunings_of(tuner.race, tuner.tuning)
        require(not tunings or len(tuner.factor) == n, "fine-tuning is of other classes")
        for tuning in tunings:
            one_width("fine-tuning", annealer.d, tuning.start.level.codevectors)
    if watch is not None and watch.model is not None:
        require(type(watch.model) is TunedModel, "a watch is of no classifier")
        fits_level("the model that is watched", watch.model.level, annealer.d, n)


def _check_competing(s: State) -> None:
    if "_competition" not in s:
        return
    competition, d = s["_competition"], s.get("n_features_in_")
    rows = [kept[0] for kept in competition.waiting.values()]
    parts = rows if competition.run is None else [competition.start, *rows]
    require(parts, "a competition has no rows")
    for part in parts:
        one_width("a competition", d, part)
    highest = max([*competition.label.tolist(), *competition.waiting])
    if "classes_" in s:
        require("_seen" in s, "a classifier has no classes")
        _check_labels(s, s["_seen"], highest + 1)
    else:
        require(highest == 0, "a clustering has several classes")


def _check_batch_estimator(s: State) -> None:
    if "_learner" not in s:
        return
    for level in (s["_learner"].annealer.model(), s["_learner"].fixed):
        if level is not None:
            fits_level("the model", level, s.get("n_features_in_"), 1)


def _check_tabular(s: State) -> None:
    if "estimator_" not in s:
        return
    require("preprocessor_" in s, "a model of tables has no preprocessing")
    width = len(s["preprocessor_"].get_feature_names_out())
    require(
        s["estimator_"].n_features_in_ == width, "preprocessing gives another number of features"
    )


LEARNERS: dict[str, Kind] = {
    "ClusterLearner": Kind(
        ClusterLearner,
        {
            "annealer": instance_of(Annealer),
            "watch": maybe(instance_of(Watch)),
            "fixed": maybe(instance_of(Level)),
            "polished": maybe(instance_of(Level)),
        },
    ),
    "ClassLearner": Kind(
        ClassLearner,
        {
            "annealer": instance_of(Annealer),
            "watch": maybe(instance_of(Watch)),
            "fixed": maybe(instance_of(Level)),
            "labels": instance_of(list),
            "tuner": maybe(instance_of(StreamTuner)),
            "level_scores": SCORES,
        },
    ),
    "BatchLearner": Kind(
        BatchLearner,
        {
            "annealer": instance_of(BatchAnnealer),
            "persistence": maybe(instance_of(Persistence)),
            "fixed": maybe(instance_of(Level)),
        },
    ),
}
ESTIMATORS: dict[str, Kind] = {
    "ODAClustering": _estimator(
        ODAClustering,
        _check_clustering,
        _learner=instance_of(ClusterLearner),
        labels_=INDICES,
        _keys=KEYS,
    ),
    "ODAClassifier": _estimator(
        ODAClassifier,
        _check_classifier,
        _learner=instance_of(ClassLearner),
        classes_=LABELS,
        _keys=KEYS,
    ),
    "DeterministicAnnealing": _estimator(
        DeterministicAnnealing,
        _check_batch_estimator,
        _learner=instance_of(BatchLearner),
        n_iter_=count(),
        labels_=INDICES,
    ),
    "StochasticVQ": _estimator(
        StochasticVQ,
        _check_competing,
        _competition=instance_of(Competition),
        n_iter_=count(),
        labels_=INDICES,
    ),
    "LVQClassifier": _estimator(
        LVQClassifier,
        _check_competing,
        _competition=instance_of(Competition),
        n_iter_=count(),
        classes_=LABELS,
        _seen=instance_of(list),
    ),
}
ESTIMATORS["TabularModel"] = Kind(
    TabularModel,
    {
        "parameters": STATE,
        "preprocessor_": instance_of(TablePreprocessor),
        "target_name_": maybe(TEXT),
        "estimator_": instance_of(*(kind.cls for kind in ESTIMATORS.values())),
    },
    may_lack=["preprocessor_", "estimator_", "target_name_"],
    left_out=["_metadata_request"],
    check=_check_tabular,
    take=_take_estimator,
    make=_make_estimator,
)
# What it holds beside an estimator; its own `from_state` checks every value.
PREPROCESSING: dict[str, Kind] = {
    "TablePreprocessor": Kind(
        TablePreprocessor,
        {
            "standardize": TRUTH,
            "unknown": TEXT,
            "declared_kinds": maybe(instance_of(dict)),
            "max_categories": count(1),
            "names": instance_of(list),
            "named": TRUTH,
            "kinds": instance_of(list),
            "categories": instance_of(list),
            "count": VECTOR,
            "mean": VECTOR,
            "m2": VECTOR,
            "fill": VECTOR,
            "category_counts": INDICES,
        },
        take=lambda step: step.to_state(),
        make=lambda cls, state: TablePreprocessor.from_state(state),
    ),
}
