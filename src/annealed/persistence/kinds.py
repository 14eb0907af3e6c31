"""The table of objects that a model file may hold.

A class that carries state gets an entry here, an estimator one in `estimator_kinds`; a field that
is added to a class gets an entry with its class, and a default for files written before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from annealed.annealing.annealer import Annealer
from annealed.annealing.class_annealer import ClassAnnealer, ClassLevel
from annealed.annealing.codebook import Codebook
from annealed.annealing.n_clusters import GivenK, Persistence, PersistentK
from annealed.annealing.schedule import Schedule
from annealed.baselines.batch import BatchAnnealer
from annealed.baselines.competition import Competition, Terms
from annealed.divergences import Geometry
from annealed.drift import BLOCK, DriftDetector, Watch
from annealed.estimators.parameters import Rule
from annealed.fine_tuning.methods import (
    TUNINGS,
    GeneralizedTuning,
    SoftTuning,
    Tuning,
    WinnerTuning,
)
from annealed.fine_tuning.model import Fits, TunedModel
from annealed.fine_tuning.scoring import Candidate
from annealed.fine_tuning.stream_race import Race, StreamTuner, TuningOptions
from annealed.path import Level, Split
from annealed.persistence.checks import (
    AMOUNT,
    CLASSES,
    DIVERGENCE,
    INDICES,
    MATRIX,
    MOST_LEVELS,
    NUMBER,
    RUNG,
    STATE,
    TEXT,
    TRUTH,
    VECTOR,
    State,
    check_annealer,
    check_batch,
    check_class_annealer,
    check_codebook,
    check_competition,
    check_detector,
    check_level,
    check_persistence,
    check_race,
    check_split,
    check_stream_tuner,
    check_terms,
    check_tuned,
    check_tuning,
    count,
    instance_of,
    list_of,
    maybe,
)
from annealed.persistence.estimator_kinds import ESTIMATORS, LEARNERS, PREPROCESSING
from annealed.persistence.kind import CannotSaveError, Kind


def _bare(cls: type, state: State) -> Any:
    made: Any = object.__new__(cls)
    made.__dict__.update(state)
    return made


def _restored(cls: type, state: State) -> Any:
    made: Any = object.__new__(cls)
    made.__setstate__(state)
    return made


def take_watch(watch: Watch) -> State:
    """A detector of another package has a state that only it knows."""
    if type(watch.detector) is not DriftDetector:
        raise CannotSaveError(
            f"the drift detector is a {type(watch.detector).__name__} of another package, whose "
            'state a model file cannot hold: use drift_detector="auto", or pickle'
        )
    return dict(watch.__dict__)


def _tuning(cls: type[Tuning]) -> Kind:
    return Kind(
        cls,
        {
            "divergence": DIVERGENCE,
            "start": instance_of(TunedModel),
            "fits": instance_of(Fits),
            "n_classes": count(1),
            "geometry": instance_of(Geometry),
            "rate": AMOUNT,
            "window": count(1),
            "run": STATE,
        },
        check=check_tuning,
    )


TUNING = instance_of(SoftTuning, WinnerTuning, GeneralizedTuning)
PAIR = list_of(NUMBER, tuple)
CHOOSERS = maybe(instance_of(GivenK, PersistentK))

PARTS: dict[str, Kind] = {
    "Codebook": Kind(
        Codebook,
        {
            "mu": MATRIX,
            "rho": VECTOR,
            "axis": MATRIX,
            "before": MATRIX,
            "critical": VECTOR,
            "error": VECTOR,
            "mass": VECTOR,
            "node": INDICES,
        },
        check=check_codebook,
    ),
    "ClassLevel": Kind(
        ClassLevel,
        {
            "book": instance_of(Codebook),
            "samples": count(),
            "distortion": NUMBER,
            "entropy": NUMBER,
        },
    ),
    "Level": Kind(
        Level,
        {
            "temperature": AMOUNT,
            "codevectors": MATRIX,
            "weights": VECTOR,
            "classes": INDICES,
            "nodes": INDICES,
            "parents": INDICES,
            "samples": count(),
            "distortion": NUMBER,
            "entropy": NUMBER,
            "score": NUMBER,
        },
        check=check_level,
    ),
    "Split": Kind(
        Split,
        {
            "class_index": count(),
            "parent": count(),
            "children": Rule(
                lambda v: type(v) is tuple and len(v) == 2 and all(map(count(1).allows, v)),
                "a pair of nodes",
            ),
            "critical_temperature": NUMBER,
            "level": RUNG,
        },
        check=check_split,
    ),
    "Schedule": Kind(
        Schedule,
        {
            "split": TEXT,
            "T_max": maybe(AMOUNT),
            "T_min": maybe(AMOUNT),
            "gamma": Rule(lambda v: AMOUNT.allows(v) and 0 < v < 1, "a number between 0 and 1"),
            "K_max": count(1),
            "K_per_class": count(),
            "wanted": maybe(count(1)),
            "growth": count(1),
            "epsilon_c": NUMBER,
            "epsilon_n": NUMBER,
            "epsilon_r": NUMBER,
            "delta": NUMBER,
            "alpha": PAIR,
            "alpha_min": AMOUNT,
            "samples_per_codevector": count(),
            "patience": count(1),
            "paper": TRUTH,
            "splitting": TRUTH,
        },
    ),
    "ClassAnnealer": Kind(
        ClassAnnealer,
        {
            "divergence": DIVERGENCE,
            "d": count(1, 2**30),
            "warm_up": count(1),
            "weight": NUMBER,
            "samples": count(),
            "rung": maybe(RUNG),
            "first_rung": RUNG,
            "reheated_to": RUNG,
            "tracking": TRUTH,
            "paired": TRUTH,
            "levels": instance_of(dict),
            "splits": list_of(instance_of(Split)),
            "next_node": count(1),
            "book": maybe(instance_of(Codebook)),
            "run": STATE,
            "low": VECTOR,
            "high": VECTOR,
            "variance": VECTOR,
            "mean": VECTOR,
            "entered_at": AMOUNT,
            "temperature": AMOUNT,
            "run_settings": STATE,
        },
        may_lack=[
            "low",
            "high",
            "variance",
            "mean",
            "entered_at",
            "temperature",
            "run_settings",
        ],
        check=check_class_annealer,
    ),
    "Annealer": Kind(
        Annealer,
        {
            "d": count(1, 2**30),
            "divergence": DIVERGENCE,
            "schedule": instance_of(Schedule),
            "choose": CHOOSERS,
            "classes": list_of(instance_of(ClassAnnealer)),
            "top": maybe(AMOUNT),
            "last_rung": count(-MOST_LEVELS, 2**63),
            "bottom": count(-MOST_LEVELS, 2**63),
            "ladders": count(),
            "end_temperature": AMOUNT,
            "chosen": maybe(instance_of(Level)),
            "unconverged": list_of(PAIR),
            "told": NUMBER,
        },
        left_out=["_path"],
        check=check_annealer,
        make=lambda cls, state: _bare(cls, {**state, "_path": None}),
    ),
    "GivenK": Kind(GivenK, {"K": count(1)}),
    "PersistentK": Kind(
        PersistentK,
        {
            "samples": maybe(count()),
            "seed": count(),
            "persistence": maybe(instance_of(Persistence)),
        },
    ),
    "Persistence": Kind(
        Persistence,
        {
            "n_clusters": count(1),
            "margin": NUMBER,
            "plateau": VECTOR,
            "expected": VECTOR,
            "required": VECTOR,
        },
        check=check_persistence,
    ),
    "Candidate": Kind(
        Candidate,
        {
            "n_codevectors": count(1),
            "temperatures": TRUTH,
            "relevances": TRUTH,
            "steps": count(),
            "score": NUMBER,
            "accuracy": NUMBER,
            "log_loss": NUMBER,
        },
    ),
    "TunedModel": Kind(
        TunedModel,
        {
            "level": instance_of(Level),
            "bias": VECTOR,
            "sharpness": maybe(VECTOR),
            "relevances": maybe(VECTOR),
            "calibration": NUMBER,
        },
        check=check_tuned,
    ),
    "Fits": Kind(Fits, {"temperatures": TRUTH, "relevances": TRUTH}),
    "Geometry": Kind(Geometry, {"unit": VECTOR, "low": VECTOR, "high": VECTOR}),
    "SoftTuning": _tuning(SoftTuning),
    "WinnerTuning": _tuning(WinnerTuning),
    "GeneralizedTuning": _tuning(GeneralizedTuning),
    "Race": Kind(
        Race,
        {
            "runners": list_of(TUNING),
            "length": count(1),
            "may_not_win": TRUTH,
            "seen": count(),
            "leader": maybe(count()),
            "answers": list_of(list_of(instance_of(np.ndarray))),
            "classes": list_of(CLASSES),
            "counted": list_of(VECTOR),
        },
        check=check_race,
    ),
    "TuningOptions": Kind(
        TuningOptions,
        {
            "last": TRUTH,
            "method": maybe(Rule(lambda v: v in TUNINGS, "a way of fine-tuning")),
            "fits": list_of(instance_of(Fits), tuple),
            "window": count(1),
        },
    ),
    "StreamTuner": Kind(
        StreamTuner,
        {
            "options": instance_of(TuningOptions),
            "race": maybe(instance_of(Race)),
            "tuning": maybe(TUNING),
            "ladders": count(),
            "since": count(),
            "due": count(1),
            "factor": VECTOR,
            "calibration": NUMBER,
            "tempering": NUMBER,
            "candidates": list_of(instance_of(Candidate), tuple),
            "chosen": maybe(instance_of(Candidate)),
        },
        check=check_stream_tuner,
    ),
    "DriftDetector": Kind(
        DriftDetector,
        {
            "threshold": AMOUNT,
            "drift_detected": TRUTH,
            "count": count(0, BLOCK),
            "total": NUMBER,
            "squares": NUMBER,
            "blocks": MATRIX,
        },
        check=check_detector,
    ),
    "Watch": Kind(
        Watch,
        {
            "detector": instance_of(DriftDetector),
            "model": maybe(instance_of(TunedModel, Level)),
            "left": count(1, BLOCK + 1),
            "heard": TRUTH,
            "total": NUMBER,
            "means": list_of(NUMBER, tuple),
        },
        take=take_watch,
    ),
    "Terms": Kind(
        Terms,
        {
            "rule": TEXT,
            "size": count(1),
            "init": TEXT,
            "given": maybe(list_of(MATRIX, tuple)),
            "alpha": PAIR,
            "alpha_min": AMOUNT,
            "wait": count(1),
            "seed": count(),
        },
        check=check_terms,
    ),
    "Competition": Kind(
        Competition,
        {
            "divergence": DIVERGENCE,
            "terms": instance_of(Terms),
            "waiting": instance_of(dict),
            "label": CLASSES,
            "start": MATRIX,
            "weight": AMOUNT,
            "mean": maybe(VECTOR),
            "spread": AMOUNT,
            "run": maybe(STATE),
        },
        left_out=["_provisional"],
        check=check_competition,
        make=lambda cls, state: _restored(cls, {**state, "_provisional": None}),
    ),
    "BatchAnnealer": Kind(
        BatchAnnealer,
        {
            "divergence": DIVERGENCE,
            "schedule": instance_of(Schedule),
            "tol": AMOUNT,
            "max_iter": count(1),
            "levels": list_of(instance_of(Level)),
            "splits": list_of(instance_of(Split)),
            "next_node": count(1),
            "iterations": count(),
            "unconverged": list_of(NUMBER),
            "end_temperature": maybe(AMOUNT),
            "told": NUMBER,
            "chosen": maybe(instance_of(Level)),
            "covariance": MATRIX,
        },
        check=check_batch,
    ),
}
KINDS = PARTS | PREPROCESSING | LEARNERS | ESTIMATORS
