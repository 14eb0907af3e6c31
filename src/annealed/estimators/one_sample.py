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
from annealed.fine_tuning.race import Race
from annealed.fine_tuning.stream_tuner import StreamTuner
from annealed.kernels.protocol import WRONG, StreamRun

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
    """Shortcuts for single samples without labels, good until something has to be decided.

    sample_format : what a sample must be to be taken as it comes
    run : of the one class; None where each sample must go the long way
    """

    annealer: Annealer
    sample_format: Any = None
    run: Any = None

    def learn(self, x: Any, w: float) -> bool:
        """Learn a sample; False, and nothing learnt, if it needs the long way.

        A level may have ended with it.
        """
        if x is None or self.run is None or not self.run.feed(x, self.sample_format, w):
            return False
        self.annealer._path = None
        return True


@dataclass(slots=True)
class LabelledFastPath:
    """Shortcuts for single samples with labels, good until something has to be decided.

    run : everyone that learns a sample, and who answers; None where each must go the long way
    left : samples until something has to be decided
    labels : of the classes, and the other way round ``places``
    tuner, race : who count samples
    watch : who is told of errors
    all_possible : whether every class has some weight, which samples do not take away
    """

    annealer: Annealer
    run: StreamRun | None = None
    left: int = 0
    labels: Sequence[Any] = ()
    places: Mapping[Any, int] = field(default_factory=dict)
    tuner: StreamTuner | None = None
    race: Race | None = None
    watch: Watch | None = None
    all_possible: bool = False

    def learn(self, x: Any, y: Any, w: float) -> int:
        """Learn a sample; -1, and nothing learnt, if it needs the long way.

        Otherwise what the kernel tells of it (ENDED: a level has ended with it).
        """
        c = self.places.get(y, -1)
        if self.left <= 0 or c < 0 or self.run is None:
            return -1
        race = self.race
        told = self.run.learn(x, c, w, 0 if race is None else race.seen)
        if told < 0:
            return -1
        self.left -= 1
        self.annealer._path = None
        if race is not None:
            race.seen += 1
        if self.tuner is not None:
            self.tuner.since += 1
        if self.watch is not None:
            self.watch.hear(told & WRONG)
        return told
