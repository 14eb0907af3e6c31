"""One sample at a time: what it may look like, and the short way to the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array, BregmanDivergence
from annealed.drift import Watch
from annealed.estimators.codevectors import names_of
from annealed.fine_tuning.stream_race import StreamTuner
from annealed.kernels import kernel_for

# One sample: a dict of features, or their numbers.
Sample = Mapping[Any, float] | Sequence[float] | NDArray[Any]


def row_of(x: Sample, keys: tuple[Any, ...] | None) -> Array:
    """A sample as one row; of a dict the features ``keys``, no more and no fewer (None: all)."""
    if isinstance(x, Mapping):
        keys = tuple(x) if keys is None else keys
        missing = [key for key in keys if key not in x]
        new = [key for key in x if key not in keys]
        if missing or new:
            raise ValueError(
                f"the sample has no feature {names_of(missing)}"
                if missing
                else f"the sample has a feature {names_of(new)} that the model does not know"
            ) from None
        x = [x[key] for key in keys]
    try:
        row = np.array(x, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"a sample must be numbers, got {x!r}") from None
    if row.ndim == 0:
        raise ValueError(f"a sample must be a dict or a list of numbers, got {x!r}")
    if row.ndim != 1:
        raise ValueError(f"a sample must have one dimension, got an array of {row.ndim}")
    return row[None, :]


def check_row(row: Array, divergence: BregmanDivergence, names: NDArray[Any] | None) -> None:
    """Raise ValueError if a sample is not finite or lies outside the domain."""
    bad = np.flatnonzero(~np.isfinite(row[0]))
    if len(bad):
        name = names[bad[0]] if names is not None else int(bad[0])
        raise ValueError(f"feature {name!r} of the sample is {row[0, bad[0]]}")
    divergence.check(row, None if names is None else names.tolist())


@dataclass(slots=True)
class FastPath:
    """Shortcuts for single samples, good until something has to be decided.

    sample_format : what a sample must be to be taken as it comes
    runs : one per class; empty where each sample must go the long way
    places : index of each label
    tuner : who counts samples until the next race
    watch : who is told of errors
    contestants : the runs of those in the race that is on
    speakers : the runs of those that answer, each with the classes of its codevectors (None: it
        knows them itself)
    listeners : the runs of those that only keep up
    factors : how much a sample of each class counts there
    temperature : T at which plain levels that track answer, if they do
    """

    annealer: Annealer
    sample_format: Any = None
    runs: Sequence[Any] = ()
    places: Mapping[Any, int] = field(default_factory=dict)
    tuner: StreamTuner | None = None
    watch: Watch | None = None
    contestants: Sequence[Any] = ()
    speakers: Sequence[tuple[Any, Any]] = ()
    listeners: Sequence[Any] = ()
    factors: Sequence[float] = ()
    temperature: float | None = None

    def learn(self, x: Any, c: int, w: float) -> bool:
        """Learn a sample of class c; False, and nothing learnt, if it needs the long way.

        A level, or a block that is listened to, may have ended with it.
        """
        tuner, watch = self.tuner, self.watch
        if tuner is None:
            if x is None or not self.runs[c].feed(x, self.sample_format, w):
                return False
            self.annealer._path = None
            return True
        race = tuner.race
        if tuner.since + 1 >= tuner.due or (race is not None and race.left <= 1):
            return False
        if not self.factors[c] > 0 or x is None:
            return False
        if not self.runs[c].feed(x, self.sample_format, w):
            return False
        tuner.since += 1
        counted, wrong = w * self.factors[c], 0
        if race is not None:
            row, leader = race.seen, race.leader
            for k, run in enumerate(self.contestants):
                told = run.test(x, self.sample_format, c, counted, race.answers[k][row])
                if k == leader:
                    wrong = told
            race.classes[row], race.counted[row] = c, counted
            race.seen += 1
        elif len(self.speakers) == 1:
            wrong = self.speakers[0][0].test(x, self.sample_format, c, counted, None)
        else:
            for run, _ in self.speakers:  # several answer together only where nobody listens
                run.feed(x, self.sample_format, c, counted)
        for run in self.listeners:
            run.feed(x, self.sample_format, c, counted, False)
        if watch is not None:
            watch.hear(float(wrong))
        self.annealer._path = None
        return True

    def posterior(self, x: Any) -> Array | None:
        """p(c|x) of a sample before calibration; None if it needs the long way."""
        tuner = self.tuner
        if tuner is not None and self.speakers:
            answers = [
                run.answer(x, self.sample_format)
                if classes is None
                else run.answer(x, self.sample_format, classes)
                for run, classes in self.speakers
            ]
            if any(answer is None for answer in answers):
                return None
            return answers[0] if len(answers) == 1 else np.asarray(tuner.shares @ answers)
        if self.temperature is None:
            return None
        kernel = kernel_for(self.annealer.divergence)
        logs = kernel.evidence(self.runs, x, self.sample_format, self.temperature)
        if logs is None:
            return None
        prior = np.array([state.weight + state.run.seen for state in self.annealer.classes])
        share = np.exp(logs - logs.max()) * prior
        return np.asarray(share / share.sum())
