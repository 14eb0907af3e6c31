"""Learning clusters: one class, and how many clusters it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.annealing.joined_clusters import JoinedClusters, PlausibleNumbers, Reading
from annealed.annealing.n_clusters import GivenK, Persistence, PersistentK
from annealed.annealing.polish import cut_by_distortion, harden
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators.learner import Index, Learner, LearnerSettings, Listener
from annealed.kernels import kernel_for
from annealed.path import Level, check_level
from annealed.stored import State, Stored, require


@dataclass(eq=False)
class ClusterLearner(Learner[LearnerSettings]):
    """Learns one class: clusters.

    polished : the hard clustering that answers until something more is learnt
    """

    polished: Level | None = None
    # What the newest level shows on the way down, and by how many samples it had ended.
    _reading: Annotated[tuple[int, Reading] | None, Stored.NEVER] = None

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever answers is of one class and of the annealer's features."""
        annealer, watch = state["annealer"], state["watch"]
        require(len(annealer.classes) == 1, "a clustering has several classes")
        watched = None if watch is None else watch.model
        require(watched is None or type(watched) is Level, "a watch is of no clustering")
        for level in (state["fixed"], state["polished"], watched):
            if level is not None:
                check_level("the model", level, annealer.d, 1)

    @classmethod
    def new(
        cls,
        d: int,
        divergence: BregmanDivergence,
        schedule: Schedule,
        choose: GivenK | PersistentK | JoinedClusters | None,
    ) -> ClusterLearner:
        """One that has seen nothing yet."""
        annealer = Annealer(d, divergence, schedule, choose)
        annealer.add_class()
        return cls(annealer)

    def anneal(
        self,
        rows: NDArray[Any],
        weights: Array | None,
        rng: np.random.Generator,
        listen: Listener | None,
        *,
        polish: bool,
    ) -> None:
        """Learn rows over and over, down to the end of the ladder."""
        self.annealer.anneal(rows, None, weights, rng, listen)
        if polish:
            self.polished = self._harden(rows, weights, rng)

    @property
    def decided(self) -> bool:
        """Whether the codebook that tracks is the one that answers."""
        return self.annealer.choose is None or self.annealer.chosen is not None

    @property
    def plausible(self) -> PlausibleNumbers | None:
        """How well numbers of clusters are supported, as far as it is known."""
        choose = self.annealer.choose
        if isinstance(choose, PersistentK):
            found = choose.persistence if self.decided else None
            return None if found is None else PlausibleNumbers.by_persistence(found)
        if isinstance(choose, JoinedClusters):
            return choose.plausible if self.decided else self._read().plausible
        return None

    @property
    def persistence(self) -> Persistence | None:
        """Plateaus of every K beside those of structureless data, where they were asked."""
        choose = self.annealer.choose
        if self.decided and isinstance(choose, PersistentK | JoinedClusters):
            return choose.persistence
        return None

    def answering(self) -> Level:
        """The model that answers."""
        if self.fixed is not None:
            return self.fixed
        if self.polished is not None:
            return self.polished
        annealer, choose = self.annealer, self.annealer.choose
        if annealer.chosen is not None:
            return replace(annealer.model(), clusters=annealer.chosen.clusters)
        # Levels on the way down have as many codevectors as their temperature asks for, which is
        # not yet an answer: no more clusters than are known.
        if isinstance(choose, JoinedClusters):
            level = self._read().level
            if level is not None:
                return level
            if choose.wanted is not None and len(annealer.path()):
                return GivenK(choose.wanted)(annealer)
            return annealer.coarse(1 if choose.plausible is None else choose.plausible.best)
        if isinstance(choose, PersistentK):
            found = choose.persistence
            return annealer.coarse(1 if found is None else found.n_clusters)
        return annealer.model()

    def _read(self) -> Reading:
        """What the newest level shows; it is looked at once."""
        choose, path = self.annealer.choose, self.annealer.path()
        assert isinstance(choose, JoinedClusters)
        if not len(path):
            return Reading(None, None, path)
        ended = path[-1].samples
        if self._reading is None or self._reading[0] != ended:
            self._reading = ended, choose.read(self.annealer)
        return self._reading[1]

    def with_n_clusters(self, n_clusters: int) -> Level:
        """The model with another number of clusters."""
        annealer, choose = self.annealer, self.annealer.choose
        path = annealer.path()
        if isinstance(choose, JoinedClusters):
            level = choose.read(annealer, n_clusters).level
            if level is not None:
                return level
        return path.codebook(n_clusters)

    def fixed_at(self, level: Level) -> Self:
        """A twin that answers with a level of the path and cannot learn further."""
        twin = super().fixed_at(level)
        twin.polished = None
        return twin

    def reheat(self, temperature: float, settings: LearnerSettings) -> None:
        """Go back up the ladder."""
        self.annealer.reheat(temperature)
        self.polished = None

    def _absorb(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: LearnerSettings,
    ) -> None:
        self.polished = None
        self.annealer.absorb(rows, None, weights, settings.listen, begin, end)

    def _watched(self, settings: LearnerSettings) -> Level:
        return self.annealer.model()

    def _losses(self, model: Level, rows: NDArray[Any], index: Index | None) -> NDArray[Any]:
        distances = kernel_for(self.divergence).divergences(rows, model.codevectors)
        return np.asarray(distances.min(axis=1))

    def _comparable(self, before: Level, after: Level) -> bool:
        # Where the number of clusters was chosen, distances to fewer codevectors are longer.
        return after.n_codevectors >= before.n_codevectors

    def _harden(self, rows: NDArray[Any], weights: Array | None, rng: np.random.Generator) -> Level:
        """The best of hard clustering from the model cooled on and from the cut by distortion.

        Its samples are all that were observed for it, those of the other start too.
        """
        annealer, starts, bounds = self.annealer, [self.annealer.model()], None
        if annealer.finished:
            bounds = annealer.classes[0].low, annealer.classes[0].high
        if annealer.choose is not None and annealer.finished:
            path, K = annealer.path(), starts[0].n_codevectors
            starts = [
                annealer.cool_on(rows, weights, rng),
                cut_by_distortion(path, self.divergence, K),
            ]
        hard = [harden(self.divergence, start, rows, weights, bounds) for start in starts]
        passes = sum(end.samples - start.samples for end, start in zip(hard, starts, strict=True))
        best = min(hard, key=lambda level: level.distortion)
        return replace(best, samples=max(start.samples for start in starts) + passes)
