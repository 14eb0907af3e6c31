"""The classes whose objects a file may hold; each says itself what a file holds of it."""

from __future__ import annotations

from typing import Annotated, Any

from annealed.annealing.annealer import Annealer
from annealed.annealing.class_annealer import ClassAnnealer, ClassLevel
from annealed.annealing.codebook import Codebook
from annealed.annealing.n_clusters import GivenK, Persistence, PersistentK
from annealed.annealing.schedule import Schedule
from annealed.baselines import DeterministicAnnealing, LVQClassifier, StochasticVQ
from annealed.baselines.batch import BatchAnnealer
from annealed.baselines.competition import Competition, Terms
from annealed.divergences import Geometry
from annealed.drift import DriftDetector, Watch
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.fine_tuning.methods import GeneralizedTuning, SoftTuning, WinnerTuning
from annealed.fine_tuning.model import Fits, TunedModel
from annealed.fine_tuning.scoring import Candidate
from annealed.fine_tuning.stream_race import Race, StreamTuner, TuningOptions
from annealed.path import Level, Split, check_level
from annealed.persistence.schema import EstimatorSchema, PlainSchema, Schema
from annealed.stored import (
    Indices,
    Labels,
    Rule,
    State,
    Stored,
    check_labels,
    one_width,
    require,
)
from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor
from annealed.tables.state import PreprocessorState

# Of samples that came as dicts.
Key = Annotated[Any, Rule(lambda v: type(v) in (str, int, float, bool), "of a plain type")]


class _Clustering:
    """What `ODAClustering` learns."""

    _annealer: Annealer
    _fixed: Level | None
    _polished: Level | None
    labels_: Indices
    _watch: Watch | None
    _keys: tuple[Key, ...]
    _checked: Annotated[Any, Stored.NEVER]

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever answers is of the features of the model."""
        if "_annealer" not in state:
            return
        annealer, d = state["_annealer"], state.get("n_features_in_")
        require(annealer.d == d, "the model is of another number of features")
        require(len(annealer.classes) == 1, "a clustering has several classes")
        watch = state.get("_watch")
        watched = None if watch is None else watch.model
        require(watched is None or type(watched) is Level, "a watch is of no clustering")
        for level in (state.get("_fixed"), state.get("_polished"), watched):
            if level is not None:
                check_level("the model", level, annealer.d, 1)


class _Classifier:
    """What `ODAClassifier` learns."""

    _annealer: Annealer
    _fixed: Level | None
    _tuner: StreamTuner | None
    classes_: Labels
    _seen: list[Any]
    _scores: list[float] | None
    _watch: Watch | None
    _keys: tuple[Key, ...]
    _checked: Annotated[Any, Stored.NEVER]

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever answers is of the features and classes of the model."""
        if "_annealer" not in state:
            return
        annealer, d = state["_annealer"], state.get("n_features_in_")
        require(annealer.d == d, "the model is of another number of features")
        n = len(annealer.classes)
        check_labels(state, n)
        require(n == len(state["_seen"]), "the model is of other classes")
        if state.get("_fixed") is not None:
            check_level("the model", state["_fixed"], annealer.d, n)
        tuner = state.get("_tuner")
        if tuner is not None:
            require(not tuner.tunings or len(tuner.factor) == n, "fine-tuning is of other classes")
            for tuning in tuner.tunings:
                one_width("fine-tuning", annealer.d, tuning.start.level.codevectors)
        watch = state.get("_watch")
        if watch is not None and watch.model is not None:
            require(type(watch.model) is TunedModel, "a watch is of no classifier")
            check_level("the model that is watched", watch.model.level, annealer.d, n)


def _named(*schemas: Schema) -> dict[str, Schema]:
    """By the names that classes have in files."""
    return {schema.cls.__name__: schema for schema in schemas}


PARTS = _named(
    Schema(Codebook),
    Schema(ClassLevel),
    Schema(Level),
    Schema(Split),
    Schema(Schedule),
    Schema(ClassAnnealer),
    Schema(Annealer),
    Schema(GivenK),
    Schema(PersistentK),
    Schema(Persistence),
    Schema(Candidate),
    Schema(TunedModel),
    Schema(Fits),
    Schema(Geometry),
    Schema(SoftTuning),
    Schema(WinnerTuning),
    Schema(GeneralizedTuning),
    Schema(Race),
    Schema(TuningOptions),
    Schema(StreamTuner),
    Schema(DriftDetector),
    Schema(Watch),
    Schema(Terms),
    Schema(Competition),
    Schema(BatchAnnealer),
    PlainSchema(TablePreprocessor, PreprocessorState),
)
ESTIMATORS = _named(
    EstimatorSchema(ODAClustering, _Clustering),
    EstimatorSchema(ODAClassifier, _Classifier),
    EstimatorSchema(DeterministicAnnealing),
    EstimatorSchema(StochasticVQ),
    EstimatorSchema(LVQClassifier),
    EstimatorSchema(TabularModel),
)
SCHEMAS = PARTS | ESTIMATORS
