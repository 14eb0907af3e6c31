"""Learning clusters: one class, and how many clusters it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer, TooCoarse
from annealed.annealing.joined_clusters import (
    JoinedClusters,
    PlausibleNumbers,
    Reading,
    assigned,
    numbered_as,
)
from annealed.annealing.n_clusters import GivenK, Persistence, PersistentK
from annealed.annealing.polish import HardSums, cut_by_distortion, harden, harden_by
from annealed.annealing.rows import reach
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators.codevectors import checked_weights, mean_one
from annealed.estimators.kept_samples import BLOCK, KeptSamples
from annealed.estimators.learner import Index, Learner, LearnerSettings, Listener
from annealed.kernels import SharedRows, column_ranges, kernel_for
from annealed.path import Level, check_level
from annealed.stored import Since, State, Stored, one_width, require

# A number of clusters that rests on so many samples of a stream is changed for another only if that
# is sure.
SETTLED = 1000
# Rows that were drawn have settled the codebook. Of passes over all, which may lie on disks of
# other machines, the last is the one that the distortion falls by less than this part of it.
LEAST_GAIN = 1e-4


@dataclass(frozen=True)
class AllRows:
    """Rows that others were drawn from, which are nowhere at once.

    sums : passes over all of them, and says of codevectors what is nearest to them
    n : how many there are
    """

    sums: Callable[[Array], HardSums]
    n: int


@dataclass(frozen=True)
class ClusterSettings(LearnerSettings):
    """What the parameters of a clustering ask of its learner.

    recent_samples : how many of the newest samples are kept
    new_kept : makes the place for them, of a model that rests on so many samples (0: on none yet)
    new_annealer : makes an annealer of so many rows, with a seed
    """

    recent_samples: int = 0
    new_kept: Callable[[int], KeptSamples] | None = None
    new_annealer: Callable[[int, int], Annealer] | None = None


@dataclass(eq=False)
class ClusterLearner(Learner[ClusterSettings]):
    """Learns one class: clusters.

    polished : the hard clustering that answers until something more is learnt
    kept : the newest samples of a stream, if they are kept
    """

    polished: Level | None = None
    kept: Annotated[KeptSamples | None, Since("0.2", None)] = None
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
        if state["kept"] is not None:
            one_width("the samples", annealer.d, state["kept"].rows)
            state["kept"].check_clusters(annealer.chosen)

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
        drawn_from: AllRows | None = None,
    ) -> None:
        """Learn rows over and over, down to the end of the ladder; a polish is one of all rows."""
        self.annealer.anneal(rows, None, weights, rng, listen)
        if polish:
            self.polished = self._harden(rows, weights, rng, drawn_from)

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
        return _read_at(self.annealer, n_clusters)

    def fixed_at(self, level: Level) -> Self:
        """A twin that answers with a level of the path and cannot learn further."""
        twin = super().fixed_at(level)
        twin.polished = twin.kept = None
        return twin

    def reheat(self, temperature: float, settings: ClusterSettings) -> None:
        """Go back up the ladder, or forget the samples that are kept: others are to come."""
        self.polished = None
        if self.kept is None:
            self.annealer.reheat(temperature)
        else:
            assert settings.new_kept is not None
            seen = self.kept.seen_now
            self.kept = settings.new_kept(0)
            self.kept.seen = seen

    def _absorb(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: ClusterSettings,
    ) -> None:
        self.polished = None
        kept = self.kept
        if kept is None:
            self.annealer.absorb(rows, None, weights, settings.listen, begin, end)
            return
        while begin < end:
            stop = reach(weights, begin, end, kept.left)
            self.annealer.absorb(rows, None, weights, settings.listen, begin, stop)
            kept.add(rows[begin:stop], None if weights is None else weights[begin:stop])
            if kept.left == 0:
                self._look(kept, settings)
            begin = stop

    def _look(self, kept: KeptSamples, settings: ClusterSettings) -> None:
        """A block of samples is over: anneal them again if it is time for that."""
        changed = self.annealer.chosen is not None and self._has_changed(kept)
        if changed:
            self.record = self.record.with_alarm(self._samples_learnt)
        if changed or kept.is_due:
            clusters = None
            if not changed:  # a cluster that nothing came of is not gone
                clusters = assigned(self.answering(), self.divergence, kept.in_order()[0])
            kept.forget_what_is_gone(self.divergence, clusters)
            kept.begin_again(changed)
            self._anneal_again(kept, settings, changed)
        else:
            kept.look_again()

    def _has_changed(self, kept: KeptSamples) -> bool:
        level = self.answering()
        rows = kept.newest(min(BLOCK, kept.count))
        distances = kernel_for(self.divergence).divergences(rows, level.codevectors)
        nearest = distances.argmin(axis=1)
        losses, clusters = distances[np.arange(len(rows)), nearest], level.codevector_clusters
        return kept.has_changed(losses, clusters[nearest], level.n_clusters, level.temperature)

    def _anneal_again(self, kept: KeptSamples, settings: ClusterSettings, changed: bool) -> None:
        """Anneal the samples that are kept as `fit` would; the result takes over.

        Where the stream has not changed for long, neither does the number of clusters without need.
        Nothing happens as long as the samples are all alike.
        """
        assert settings.new_annealer is not None
        rows, weights = kept.in_order()
        even = None if (weights == weights[0]).all() else mean_one(weights)
        fresh = settings.new_annealer(len(rows), kept.seed)
        try:
            fresh.anneal(rows, None, even, np.random.default_rng(kept.seed))
        except TooCoarse:  # a stream need not end where it becomes quiet
            if self.annealer.chosen is None:
                raise
        if fresh.chosen is None:
            kept.wait()
            return
        chosen, annealer = fresh.chosen, self.annealer
        if annealer.chosen is not None:
            before = self.answering()
            settled = kept.since > SETTLED and not changed
            if settled and _still_plausible(fresh, before.n_clusters):
                chosen = _read_at(fresh, before.n_clusters)
            chosen = numbered_as(chosen, before, self.divergence, rows)
        kept.expect(assigned(chosen, self.divergence, rows), chosen.n_clusters)
        fresh.follow(chosen, float(len(rows)))
        fresh.set_class_weights([annealer.classes[0].total_weight])
        fresh.unconverged = annealer.unconverged or fresh.unconverged
        self.annealer, self._reading = fresh, None
        if settings.listen is not None:
            settings.listen(fresh)

    def samples_kept(self) -> tuple[Array, NDArray[np.int64], Array] | None:
        """Samples of a stream that are kept, all of one class."""
        if self.kept is None:
            return None
        rows, weights = self.kept.in_order()
        if not self.tells_all(len(rows), self.kept.most, float(weights.sum())):
            return None
        return rows, np.zeros(len(rows), dtype=np.int64), weights

    @property
    def _samples_learnt(self) -> int:
        return super()._samples_learnt if self.kept is None else self.kept.seen_now

    def copy(self) -> Self:
        """A twin that can go on by itself."""
        twin = super().copy()
        twin.kept = None if self.kept is None else self.kept.copy()
        return twin

    def watch_as(self, settings: ClusterSettings) -> None:
        """Listen for drift and keep samples, or no longer."""
        super().watch_as(settings)
        if not settings.recent_samples:
            self.kept = None
        elif self.kept is None or self.kept.most != settings.recent_samples:
            assert settings.new_kept is not None
            decided = self.annealer.chosen is not None
            seen = 0 if self.kept is None else self.kept.seen_now
            self.kept = settings.new_kept(
                max(round(self.annealer.classes[0].total_weight), 1) if decided else 0
            )
            self.kept.seen = seen

    def _watched(self, settings: ClusterSettings) -> Level:
        return self.annealer.model()

    def _losses(self, model: Level, rows: NDArray[Any], index: Index | None) -> NDArray[Any]:
        distances = kernel_for(self.divergence).divergences(rows, model.codevectors)
        return np.asarray(distances.min(axis=1))

    def _comparable(self, before: Level, after: Level) -> bool:
        # Where the number of clusters was chosen, distances to fewer codevectors are longer.
        return after.n_codevectors >= before.n_codevectors

    def _harden(
        self,
        rows: NDArray[Any],
        weights: Array | None,
        rng: np.random.Generator,
        drawn_from: AllRows | None,
    ) -> Level:
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
        here = rows.array if isinstance(rows, SharedRows) else rows
        hard = [harden(self.divergence, start, here, weights, bounds) for start in starts]
        passes = sum(end.samples - start.samples for end, start in zip(hard, starts, strict=True))
        best = min(hard, key=lambda level: level.distortion)
        best = replace(best, samples=max(start.samples for start in starts) + passes)
        if drawn_from is None:
            return best
        return harden_by(drawn_from.sums, best, drawn_from.n, bounds, LEAST_GAIN)


def hard_sums_of(
    given: tuple[BregmanDivergence, Array], rows: NDArray[Any], weights: Any
) -> HardSums:
    """Of a chunk of all rows, which are checked: what is nearest to each of the codevectors."""
    divergence, mu = given
    if weights is not None and not np.any(weights):
        return np.zeros(len(mu)), np.zeros_like(mu), 0.0
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    lowest, highest, finite = column_ranges(rows)
    if not finite:
        raise ValueError("Input X contains NaN or infinity")
    divergence.check(rows, None, (lowest, highest))
    w = checked_weights(weights, len(rows))
    mass, total, _, distortion = kernel_for(divergence).hard_sums(rows, mu, w)
    return mass, total, distortion


def _read_at(annealer: Annealer, n_clusters: int) -> Level:
    """The model with so many clusters."""
    if isinstance(annealer.choose, JoinedClusters):
        level = annealer.choose.read(annealer, n_clusters).level
        if level is not None:
            return level
    return annealer.path().codebook(n_clusters)


def _still_plausible(annealer: Annealer, n_clusters: int) -> bool:
    """Whether a number of clusters of before may be right that is not the one chosen now.

    One cluster is no answer to insist on: there may have been too few samples to see more.
    """
    choose, chosen = annealer.choose, annealer.chosen
    assert chosen is not None
    if n_clusters in (1, chosen.n_clusters) or n_clusters > annealer.path().n_codevectors.max():
        return False
    if isinstance(choose, PersistentK):
        assert choose.persistence is not None
        return PlausibleNumbers.by_persistence(choose.persistence).supports(n_clusters, 0.0)
    return isinstance(choose, JoinedClusters) and choose.still_plausible(annealer, n_clusters)
