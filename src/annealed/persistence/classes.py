"""The classes whose objects a file may hold; each says itself what a file holds of it."""

from __future__ import annotations

from annealed.annealing.annealer import Annealer
from annealed.annealing.class_annealer import ClassAnnealer, ClassLevel
from annealed.annealing.codebook import Codebook
from annealed.annealing.joined_clusters import JoinedClusters, PlausibleNumbers
from annealed.annealing.n_clusters import GivenK, Persistence, PersistentK
from annealed.annealing.schedule import Schedule
from annealed.baselines import DeterministicAnnealing, LVQClassifier, StochasticVQ
from annealed.baselines.batch import BatchAnnealer
from annealed.baselines.competition import Competition, Terms
from annealed.baselines.deterministic_annealing import BatchLearner
from annealed.divergences import Geometry
from annealed.drift import DriftDetector, StreamRecord, Watch
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.estimators.class_learner import ClassLearner
from annealed.estimators.cluster_learner import ClusterLearner
from annealed.estimators.kept_samples import KeptSamples
from annealed.fine_tuning.methods import GeneralizedTuning, SoftTuning, WinnerTuning
from annealed.fine_tuning.model import Fits, TunedModel
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.newcomers import TuningOptions
from annealed.fine_tuning.race import Race
from annealed.fine_tuning.scoring import Candidate
from annealed.fine_tuning.stream_tuner import Answering, StreamTuner
from annealed.fine_tuning.units import Units
from annealed.fine_tuning.vote import Vote, Voter
from annealed.path import Level, Split
from annealed.persistence.schema import EstimatorSchema, PlainSchema, Schema
from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor
from annealed.tables.state import PreprocessorState


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
    Schema(JoinedClusters),
    Schema(PlausibleNumbers),
    Schema(Candidate),
    Schema(TunedModel),
    Schema(Units),
    Schema(Vote),
    Schema(Voter),
    Schema(Fits),
    Schema(Geometry),
    Schema(SoftTuning),
    Schema(WinnerTuning),
    Schema(GeneralizedTuning),
    Schema(Nearest),
    Schema(Race),
    Schema(TuningOptions),
    Schema(Answering),
    Schema(StreamTuner),
    Schema(DriftDetector),
    Schema(Watch),
    Schema(StreamRecord),
    Schema(Terms),
    Schema(Competition),
    Schema(BatchAnnealer),
    Schema(ClusterLearner),
    Schema(KeptSamples),
    Schema(ClassLearner),
    Schema(BatchLearner),
    PlainSchema(TablePreprocessor, PreprocessorState),
)
ESTIMATORS = _named(
    EstimatorSchema(ODAClustering),
    EstimatorSchema(ODAClassifier),
    EstimatorSchema(DeterministicAnnealing),
    EstimatorSchema(StochasticVQ),
    EstimatorSchema(LVQClassifier),
    EstimatorSchema(TabularModel),
)
SCHEMAS = PARTS | ESTIMATORS
