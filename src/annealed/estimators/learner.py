"""What changes while learning: one learner owns it, and says at any moment which model answers."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.annealing.rows import reach
from annealed.divergences import Array, BregmanDivergence
from annealed.drift import BLOCK, StreamRecord, Watch
from annealed.path import Level

Index = NDArray[np.int32]
Listener = Callable[[Any], None]


@dataclass(frozen=True)
class LearnerSettings:
    """What the parameters of an estimator ask of its learner, as they stand at the moment.

    new_watch : makes what listens for drift; None for nobody
    listen : is handed the annealer after every level
    """

    new_watch: Callable[[], Watch] | None = None
    listen: Listener | None = None


S = TypeVar("S", bound=LearnerSettings)


@dataclass(eq=False)
class Learner(ABC, Generic[S]):
    """An annealing, and everything else that changes as samples come.

    annealer : the levels, and the codebook that follows the samples after the last
    watch : what listens for drift, if anyone does
    fixed : the level `at` picked; it answers from then on, and nothing is learnt any more
    record : what has been noticed in the stream: alarms, and how samples fared
    """

    annealer: Annealer
    watch: Watch | None = None
    fixed: Level | None = None
    record: StreamRecord = field(default_factory=StreamRecord)

    @property
    def divergence(self) -> BregmanDivergence:
        """What samples are compared by."""
        return self.annealer.divergence

    def samples_kept(self) -> tuple[Array, NDArray[np.int64], Array] | None:
        """Samples of a stream that are kept, their classes and weights.

        None if there are none, or so few that they do not tell what was learnt.
        """
        return None

    def tells_all(self, count: int, most: int, weight: float) -> bool:
        """Whether samples that are kept are all there were, by their weight, or may be."""
        total = sum(state.total_weight for state in self.annealer.classes)
        return count > 0 and (count >= most or weight >= 0.999 * total)

    def copy(self) -> Self:
        """A twin that can go on by itself."""
        twin = copy.copy(self)
        twin.annealer = self.annealer.copy()
        twin.watch = None if self.watch is None else self.watch.copy()
        return twin

    def fixed_at(self, level: Level) -> Self:
        """A twin that answers with a level of the path and cannot learn further."""
        twin = copy.copy(self)
        twin.annealer = self.annealer.copy()  # samples learnt one at a time change it in place
        twin.watch, twin.fixed = None, level
        return twin

    def to_continue(self, settings: S) -> Self:
        """A twin that goes on learning; ValueError if there is to be no more of that."""
        if self.fixed is not None:
            raise ValueError(
                "this model is fixed at one level by at(...) and cannot learn further; call "
                "partial_fit on the annealed estimator itself"
            )
        twin = self.copy()
        twin.watch_as(settings)
        return twin

    def watch_as(self, settings: S) -> None:
        """Listen for drift, or no longer."""
        if settings.new_watch is None:
            self.watch = None
        elif self.watch is None:
            self.watch = settings.new_watch()

    def learn(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: S,
    ) -> None:
        """Learn rows begin..end, each once; where losses have risen, start again from the top."""
        watch = self.watch
        if watch is None:
            self._absorb(rows, index, weights, begin, end, settings)
            return
        while begin < end:
            stop = reach(weights, begin, end, watch.left)
            counted = np.arange(begin, stop)
            if weights is not None:
                counted = counted[weights[begin:stop] > 0]
            losses: Array = np.empty(0)
            if watch.model is not None and len(counted):
                own = None if index is None else index[counted]
                losses = self._losses(watch.model, rows[counted], own)
            told = self._absorb(rows, index, weights, begin, stop, settings)
            if told is not None:
                known = ~np.isnan(told)
                losses = np.where(known, told, losses) if len(losses) else told[known]
            watch.observe(len(counted), losses)
            if watch.left == 0:
                self.end_block(settings)
                watch = self.watch
                assert watch is not None
            begin = stop

    def end_block(self, settings: S) -> None:
        """A block of samples that is listened to has ended: start again, if there is an alarm."""
        watch = self.watch
        assert watch is not None
        self.record = self.record.with_losses(BLOCK, BLOCK - watch.unknown, watch.total)
        if watch.end_block() and self.annealer.top is not None:
            self.record = self.record.with_alarm(self._samples_learnt)
            self._start_again(self.annealer.top, settings, watch.since_change)
        model = self._watched(settings)
        if None not in (watch.model, model) and not self._comparable(watch.model, model):
            assert settings.new_watch is not None
            watch = self.watch = settings.new_watch()
        watch.begin_block(model)

    @property
    def _samples_learnt(self) -> int:
        """Samples of the stream so far; those that were listened to, if nobody else counts."""
        return self.record.heard

    @abstractmethod
    def _absorb(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: S,
    ) -> Array | None:
        """Learn rows begin..end; what was lost on each that counts, nan if learning did not tell.

        None if it never tells.
        """

    @abstractmethod
    def reheat(self, temperature: float, settings: S) -> None:
        """Go back up the ladder."""

    def _start_again(self, temperature: float, settings: S, samples: int) -> None:
        """The stream has changed so many samples ago."""
        self.reheat(temperature, settings)

    @abstractmethod
    def _watched(self, settings: S) -> Any:
        """The model whose losses tell of drift; None where learning tells them."""

    @abstractmethod
    def _losses(self, model: Any, rows: NDArray[Any], index: Index | None) -> NDArray[Any]:
        """What a model gets wrong on each row."""

    def _comparable(self, before: Any, after: Any) -> bool:
        """Whether losses of one model can be compared with those of another."""
        return True
