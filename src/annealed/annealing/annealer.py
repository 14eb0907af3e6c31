"""The state machine of Algorithm 1: samples in, levels out.

Each class is annealed by itself (`ClassAnnealer`) on one common ladder of temperatures
T_k = T_0 gamma^k; clustering is the case of one class. When every class has gone down the ladder,
a level may be chosen, and the codebook of that level keeps tracking.

Everything that happens depends on the samples in their order alone, never on how calls cut them.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing import codebook
from annealed.annealing.class_annealer import NEVER, ClassAnnealer
from annealed.annealing.codebook import Codebook
from annealed.annealing.first_split import FirstSplit, foretell
from annealed.annealing.level_end import end_level
from annealed.annealing.rows import ShuffledRows, axis_roles
from annealed.annealing.schedule import (
    ABOVE_FIRST_SPLIT,
    COLDEST,
    HOTTEST,
    Schedule,
    in_paper_units,
)
from annealed.annealing.span import Span
from annealed.divergences import Array, BregmanDivergence, Geometry, SquaredEuclidean
from annealed.kernels import SparseRows, dense, kernel_for, work_per_call
from annealed.kernels.protocol import MEASURES, TURNS, Kernel, Roles
from annealed.path import AnnealingPath, Family, Level, check_level
from annealed.stored import (
    MOST_LEVELS,
    Amount,
    Count,
    Features,
    State,
    Stored,
    between,
    require,
)
from annealed.threads import go_on, in_threads, with_one_blas_thread

Integers = NDArray[np.int64]

# In `fit`, means and variances are taken over at most this many samples of a class.
WARM_UP_SAMPLES = 20_000
# Rows that foretell where the first split will be.
FORETELLING_ROWS = 2000
# Of sparse rows fewer: as many as have so many numbers when they are dense (32 MB), but at least
# these. Sparse rows that have more are not taken to the coordinates of their span either.
MOST_NUMBERS = 4_000_000
FEWEST_FORETELLING = 100
# Over how many samples for each of its codevectors a codebook that follows is averaged at most.
SAMPLES_TO_FOLLOW = 20
# Class frequencies of before a reheating count as those of so many samples.
REMEMBERED = 200.0

LastRung = Annotated[int, between(-MOST_LEVELS, NEVER + 1)]


def _too_large_to_be_dense(X: NDArray[Any]) -> bool:
    return isinstance(X, SparseRows) and X.shape[0] * X.shape[1] > MOST_NUMBERS


def _one_array(parts: list[Array]) -> Array:
    """One after the other; of a single class no copy, which is not to be written to."""
    if len(parts) > 1:
        return np.concatenate(parts)
    same = parts[0].view()
    same.flags.writeable = False
    return same


class TooCoarse(ValueError):
    """T_min lies above the temperature where the samples would first split."""


class LevelChooser(ABC):
    """Chooses the level that a model is, once its ladder has ended."""

    @abstractmethod
    def __call__(self, annealer: Annealer) -> Level:
        """The level that tracks from then on."""

    @property
    def may_be_round(self) -> bool:
        """Whether a given number of clusters may be as many codevectors, or others joined."""
        return False

    def prefers_round(self, annealer: Annealer) -> bool:
        """Whether a given number of clusters should be as many codevectors, as far as it is seen.

        Asked when a ladder that went beyond them is about to end.
        """
        return False


@dataclass(eq=False, repr=False)
class Annealer:
    """All classes of a model on one ladder of temperatures.

    Parameters
    ----------
    d : int
        Number of features.
    divergence : BregmanDivergence
    schedule : Schedule
    choose : LevelChooser, optional
        Called once, when the ladder has ended. Left out, the coldest level tracks.
    """

    d: Features
    divergence: BregmanDivergence
    schedule: Schedule
    choose: LevelChooser | None = None
    classes: list[ClassAnnealer] = field(default_factory=list)
    top: Amount | None = None  # T_0
    last_rung: LastRung = NEVER  # where the ladder ends
    bottom: LastRung = NEVER  # where T_min lets it end
    ladders: Count = 0  # how often all classes have come to its end
    end_temperature: Amount = 0.0  # where the coldest codebook of the path stops being stable
    chosen: Level | None = None
    # T and samples of levels ended by the cap.
    unconverged: list[tuple[float, Count]] = field(default_factory=list)
    told: float = math.inf  # T of the coldest level a listener has been handed
    _path: Annotated[AnnealingPath | None, Stored.NEVER] = None

    @classmethod
    def check_stored(cls, state: State) -> None:
        """All classes are of one divergence and stand on one ladder."""
        d, classes = state["d"], state["classes"]
        require(all(one.d == d for one in classes), "classes differ in their features")
        require(
            all(one.divergence is state["divergence"] for one in classes),
            "classes differ in their divergence",
        )
        require(
            state["top"] is not None or all(one.rung is None for one in classes),
            "a class is on a ladder that is not there",
        )
        if state["chosen"] is not None:
            check_level("the chosen level", state["chosen"], d, len(classes))

    def copy(self) -> Annealer:
        """A twin that can go on by itself."""
        twin = copy.copy(self)
        twin.classes = [state.copy() for state in self.classes]
        twin.unconverged = list(self.unconverged)
        twin.choose = copy.copy(self.choose)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_path": None}  # which follows from the rest

    def add_class(self, warm_up: int | None = None) -> None:
        """A class nobody has seen before: it starts with a warm-up of its own."""
        self.classes.append(
            ClassAnnealer(
                self.d,
                self.divergence,
                warm_up or max(100, 10 * self.d),
                engine=self.schedule.engine,
            )
        )
        self._path = None

    def temperature(self, rung: int) -> float:
        """T_k = T_0 gamma^k."""
        assert self.top is not None
        return self.top * self.schedule.gamma**rung

    @property
    def K_max(self) -> int:
        """The most codevectors a level may have, over all classes."""
        return max(self.schedule.room, self.schedule.K_per_class * len(self.classes))

    @property
    def finished(self) -> bool:
        """Whether every class has gone down the whole ladder."""
        return all(state.tracking for state in self.classes)

    @property
    def coldest(self) -> float:
        """T of the coldest class."""
        return min(state.temperature for state in self.classes if state.rung is not None)

    @property
    def kernel(self) -> Kernel:
        """What its levels learn by."""
        return kernel_for(self.divergence, self.schedule.engine)

    @property
    def threads(self) -> int | None:
        """How many threads pieces may be shared out to: one, where the user's own code runs."""
        return 1 if self.divergence.kernel is None else None

    # -- learning ------------------------------------------------------------------------------

    def absorb(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None = None,
        weights: Array | None = None,
        listen: Callable[[Annealer], None] | None = None,
        begin: int = 0,
        end: int | None = None,
        pause: bool = False,
    ) -> int:
        """Learn rows begin..end in order, cooling whenever a class has converged.

        With ``pause`` it stops where the last class comes to the end of the ladder. Returns how
        far it came.
        """
        at, end = begin, len(X) if end is None else end
        pause = pause and not self.finished
        while at < end and not (pause and self.finished):
            at = self._advance(X, classes, weights, None, at, end)
            if listen is not None:
                listen(self)
        return at

    @with_one_blas_thread
    def anneal(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None,
        weights: Array | None,
        rng: np.random.Generator,
        listen: Callable[[Annealer], None] | None = None,
    ) -> None:
        """Learn rows over and over, in random order, down to the end of the ladder.

        Classes go down together: level by level, each is shown its own samples until it has
        converged. A class of identical samples stays one codevector.
        """
        looks = self.schedule.looks_along_axes
        spans = self.divergence.kernel == "squared_euclidean" and not _too_large_to_be_dense(X)
        if looks and len(X) < self.d and spans:
            self._anneal_in_span(X, classes, weights, rng, listen)
            return
        member = np.zeros(len(X), dtype=np.int32) if classes is None else classes
        present = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        orders = [
            ShuffledRows(np.flatnonzero((member == c) & present), rng, parts=2 if looks else 1)
            for c in range(len(self.classes))
        ]
        roles = axis_roles(orders, len(X)) if looks else None
        exchanged = None if roles is None else (TURNS | MEASURES) - roles
        first = [each.rows[-WARM_UP_SAMPLES:] for each in orders]  # of the part that comes last

        def warm_up(c: int) -> FirstSplit | None:
            state = self.classes[c]
            state.warm_up = len(first[c])
            state.run = state._new_run()
            state.kernel.learn([state.run], X, first[c], None, weights, 0, len(first[c]))
            if not state.differs():
                return None
            state.rows = len(orders[c].rows) if looks else None
            return self._foretell(state, X, weights, first[c], roles)

        first_splits = in_threads(warm_up, range(len(self.classes)), threads=self.threads)
        cooling = [c for c, state in enumerate(self.classes) if state.differs()]
        if not cooling:
            for state in self.classes:
                state.check_spread()
        for c in sorted(cooling, key=lambda c: -self.classes[c].unit()):
            self._enter(self.classes[c], first_splits[c])
        while cooling:
            for c in cooling:
                state = self.classes[c]
                rung = state.rung
                while state.rung == rung and not state.tracking:
                    shuffled = orders[c]
                    end = len(shuffled.next_order())
                    shuffled.at = self._advance(
                        X, classes, weights, shuffled.order, shuffled.at, end,
                        exchanged if state.exchanged else roles,
                    )  # fmt: skip
            cooling = [c for c in cooling if not self.classes[c].tracking]
            if listen is not None:
                self._count(orders, weights)
                listen(self)
        self._count(orders, weights)
        for state in self.classes:
            state.rows, state.exchanged = None, False

    def _foretell(
        self,
        state: ClassAnnealer,
        X: NDArray[Any],
        weights: Array | None,
        rows: Integers,
        roles: Roles | None,
    ) -> FirstSplit | None:
        """What some rows of a class tell of its first split."""
        if roles is None:
            return None
        few = FORETELLING_ROWS
        if isinstance(X, SparseRows):
            few = min(few, max(MOST_NUMBERS // self.d, FEWEST_FORETELLING))
        some = rows[:few]
        w = None if weights is None else weights[some]
        mean = state.read()["mean"]
        return foretell(self.divergence, mean, dense(X[some]), w, roles[some] == TURNS)

    def _anneal_in_span(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None,
        weights: Array | None,
        rng: np.random.Generator,
        listen: Callable[[Annealer], None] | None,
    ) -> None:
        """Anneal rows of more features than there are rows in the coordinates of their span."""
        X = np.asarray(X, dtype=float)
        span = Span(X, self.divergence.matrix)
        inside = Annealer(span.rows.shape[1], SquaredEuclidean(), self.schedule, self.choose)
        variances = []
        for c in range(len(self.classes)):
            inside.add_class()
            inside.classes[c].features = self.d
            mine = np.ones(len(X), dtype=bool) if classes is None else classes == c
            variances.append(span.variances(X[mine], None if weights is None else weights[mine]))

        def become(other: Annealer) -> None:
            for name in ("schedule", "top", "last_rung", "bottom", "ladders", "end_temperature"):
                setattr(self, name, getattr(other, name))
            self.unconverged = list(other.unconverged)
            self.chosen = None if other.chosen is None else span.level(other.chosen)
            for state, its, variance in zip(self.classes, other.classes, variances, strict=True):
                state.become(its, span, variance)
            self._path = None

        def follow(other: Annealer) -> None:
            assert listen is not None
            become(other)
            listen(self)

        inside.anneal(span.rows, classes, weights, rng, None if listen is None else follow)
        become(inside)

    def set_class_weights(self, totals: Sequence[float]) -> None:
        """Let every class count as so much weight of samples."""
        for state, total in zip(self.classes, totals, strict=True):
            state.weight = total - state.run.seen
        self._path = None  # class frequencies weigh its energies

    def stand_for(self, drawn: int, total: int) -> None:
        """The rows that were learnt were drawn from more: let them count as all."""
        if total > drawn:
            self.set_class_weights([total / drawn * state.total_weight for state in self.classes])

    def forget_levels(self) -> None:
        """Keep the codebook that answers, and nothing of the way there."""
        for state in self.classes:
            state.levels, state.splits = {}, []
        self._path = None

    def _count(self, orders: list[ShuffledRows], weights: Array | None) -> None:
        """Rows that were shown again do not count again."""
        self.set_class_weights(
            [
                float(len(shuffled.rows) if weights is None else weights[shuffled.rows].sum())
                for shuffled in orders
            ]
        )

    def _advance(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None,
        weights: Array | None,
        order: Integers | None,
        begin: int,
        end: int,
        roles: Roles | None = None,
    ) -> int:
        """Learn rows from ``begin`` until a level ends or some work is done; how far it came."""
        go_on()
        end = min(end, begin + self.rows_at_once)
        runs = [state.run for state in self.classes]
        stop = self.classes[0].kernel.learn(runs, X, order, classes, weights, begin, end, roles)
        self.close_levels()
        return stop

    @property
    def rows_at_once(self) -> int:
        """Rows to learn in one call, so that Ctrl-C is heard in time."""
        widest = max(1 if state.book is None else len(state.book) for state in self.classes)
        return max(1, work_per_call(self.schedule.engine) // (self.d * (widest + 8)))

    def close_levels(self) -> None:
        """After samples were learnt: go on with the classes whose level has ended."""
        self._path = None  # class frequencies weigh its energies
        for state in self.classes:
            if state.run.done:
                if state.rung is None:
                    self._warmed_up(state)
                elif state.tracking:
                    state.resume(self.temperature(state.reheated_to), self.schedule)
                else:
                    end_level(self, state)

    def _warmed_up(self, state: ClassAnnealer) -> None:
        if state.differs():
            self._enter(state)
        else:
            if self.top is None:
                state.check_spread()
            state.warm_up_longer()

    def _enter(self, state: ClassAnnealer, first_split: FirstSplit | None = None) -> None:
        """Put a class on the ladder; the first one decides where the ladder stands."""
        schedule, highest = self.schedule, HOTTEST * state.unit()
        T_min = COLDEST * highest
        if schedule.looks_along_axes:
            T_c = state.first_split_below() if first_split is None else first_split.temperature
            highest = min(ABOVE_FIRST_SPLIT * T_c, highest)
        if self.top is None:
            if schedule.paper:
                schedule = self.schedule = in_paper_units(schedule, state.spread() * self.d)
            self.top = highest
            if schedule.T_max is not None:
                self.top, T_min = schedule.T_max, COLDEST * schedule.T_max
            if schedule.T_min is not None:
                T_min = schedule.T_min
            if not T_min < self.top:
                raise TooCoarse(
                    f"T_min = {T_min:g} must lie below T_max = {self.top:g}, which the data "
                    "decides: annealing goes from hot to cold"
                )
            self.bottom = self.last_rung = max(self.rung_above(T_min), 0)
        rung = 0 if schedule.T_max is not None else min(self.rung_above(highest), self.last_rung)
        state.enter(rung, self.temperature(rung), schedule, first_split)

    def rung_above(self, T: float) -> int:
        """The coldest rung that is not below T."""
        assert self.top is not None
        return math.floor(math.log(T / self.top) / math.log(self.schedule.gamma) + 1e-9)

    def end_ladder(self, rung: int, temperature: float) -> None:
        """The ladder ends at this rung: whoever has finished it tracks from there.

        ``temperature`` is where the codebook of that rung stops being stable.
        """
        self.end_temperature = temperature
        self.last_rung = min(self.last_rung, rung)
        last, T = self.last_rung, self.temperature(self.last_rung)
        for state in self.classes:
            if state.rung is None or state.newest() < last:
                continue
            if not state.tracking or state.rung > last:
                state.track(state.at(last).book, last, T, self.schedule, levels=True)
        if self.finished:
            self.ladders += 1
        if self.finished and self.choose is not None and self.chosen is None:
            self.chosen = self.choose(self)
            self.track(self.chosen)

    def cool_on(self, X: NDArray[Any], weights: Array | None, rng: np.random.Generator) -> Level:
        """The model that tracks, cooled to the end of the ladder with its size fixed.

        The annealer itself stays as it is. Only for one class.
        """
        start = self.model()
        # Levels of a fixed size end after their samples: a hard codebook is never "converged" in
        # units of a temperature far below the variance of its cells.
        fixed = replace(
            self.schedule, splitting=False, thorough=False, wanted=None, epsilon_c=math.inf
        )
        twin = Annealer(self.d, self.divergence, fixed)
        twin.top, twin.classes = self.top, [self.classes[0].copy()]
        state = twin.classes[0]
        state.tracking = False
        rung = self.rung_above(start.temperature)
        twin.last_rung = max(self.rung_above(1e-2 * start.temperature), rung)
        book = codebook.bare(start.codevectors, start.weights, start.nodes)
        state.begin(book, rung, start.temperature, fixed)
        rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
        shuffled = ShuffledRows(rows, rng)
        while not twin.finished:
            end = len(shuffled.next_order())
            shuffled.at = twin._advance(X, None, weights, shuffled.order, shuffled.at, end)
        return twin.model()

    def reheat(self, temperature: float) -> None:
        """Go back up the ladder to a temperature, and cool again with the samples to come.

        A class that no more samples come of stays as it is.
        """
        self.last_rung, self.chosen, self.told, self._path = self.bottom, None, math.inf, None
        warm = [state for state in self.classes if state.rung is not None]
        total = sum(state.total_weight for state in warm)
        for state in warm:
            rung = min(max(self.rung_above(temperature), state.first_rung), self.last_rung)
            state.await_samples(rung, self.schedule)
            state.weight *= min(1.0, REMEMBERED / total)

    def follow(self, chosen: Level, known: float) -> None:
        """Track with a level that rests on ``known`` samples, also where its clusters move.

        Steps then never get smaller than those of an average over so many samples a codevector.
        """
        self.chosen, self._path = chosen, None
        floor = 1 / (SAMPLES_TO_FOLLOW * chosen.n_codevectors)
        schedule = replace(self.schedule, alpha_min=max(self.schedule.alpha_min, floor))
        self.track(chosen, known, schedule)

    def track(
        self, chosen: Level, known: float | None = None, schedule: Schedule | None = None
    ) -> None:
        """From now on follow the samples with the codebook of this level."""
        for c, state in enumerate(self.classes):
            if state.rung is None:  # identical samples: there is nothing to follow yet
                continue
            mine = chosen.classes == c
            book = codebook.bare(chosen.codevectors[mine], chosen.weights[mine], chosen.nodes[mine])
            state.track(
                book, self.last_rung, chosen.temperature, schedule or self.schedule, False, known
            )

    # -- reading -------------------------------------------------------------------------------

    def path(self) -> AnnealingPath:
        """Every level that all classes have finished."""
        if self._path is None:
            self._path = self._joined()
        return self._path

    def _joined(self) -> AnnealingPath:
        cooling = [state for state in self.classes if state.rung is not None]
        if not cooling:
            return AnnealingPath([], [])
        first = min(state.first_rung for state in cooling)
        last = min(state.newest() for state in cooling)
        if last < first:
            return AnnealingPath([], [])
        # A last level may lie more than a step below the one before.
        rungs = [
            rung
            for rung in range(first, last + 1)
            if rung in (first, last) or any(rung in state.levels for state in cooling)
        ]
        place = {rung: k for k, rung in enumerate(rungs)}
        splits = [
            replace(split, class_index=c, level=place[split.level])
            for c, state in enumerate(self.classes)
            for split in state.splits
            if split.level <= last
        ]
        splits.sort(key=lambda split: split.level)
        family, levels = Family(splits), [self.level(first)]
        for rung in rungs[1:]:
            level = self.level(rung)
            parents = family.parents(level.classes, level.nodes, levels[-1])
            levels.append(replace(level, parents=parents))
        return AnnealingPath(levels, splits, self.end_temperature if self.finished else None)

    def level(self, rung: int) -> Level:
        """The model of all classes on one rung; what its codevectors come from is left open."""
        parts = [state.at(rung) for state in self.classes]
        weight = np.array([state.total_weight for state in self.classes])
        weight = weight / weight.sum()
        classes = np.repeat(np.arange(len(parts)), [len(part.book) for part in parts])
        nodes = np.concatenate([part.book.node for part in parts])
        distortion = float(weight @ [part.distortion for part in parts])
        return Level(
            temperature=self.temperature(rung),
            codevectors=_one_array([part.book.mu for part in parts]),
            weights=_one_array([part.book.rho for part in parts]),
            classes=classes,
            nodes=nodes,
            parents=np.full(len(nodes), -1, dtype=np.int64),
            samples=sum(part.samples for part in parts),
            distortion=distortion,
            entropy=float(weight @ [part.entropy for part in parts]),
            score=-distortion if len(parts) == 1 else math.nan,
        )

    def geometry(self) -> Geometry:
        """What fine-tuning measures its steps by: the spread of all samples in each feature.

        It follows from the means and variances each class was seen to have as it warmed up.
        """
        matrix = self.divergence.matrix
        weight = np.array([state.total_weight for state in self.classes])
        weight = weight / weight.sum()
        moments = [state.moments() for state in self.classes]
        means = np.array([mean for mean, _ in moments])
        low, high = self.divergence.bounds(weight @ means)
        for mean, _ in moments:
            here = self.divergence.bounds(mean)
            low, high = np.minimum(low, here[0]), np.maximum(high, here[1])
        inside = means if matrix is None else means @ matrix  # variances are the kernel's already
        centred = inside - weight @ inside
        variance = weight @ np.array([variance for _, variance in moments]) + weight @ centred**2
        unit = self.divergence.step_unit(weight @ means, np.sqrt(variance))
        return Geometry(unit, low, high)

    def model(self) -> Level:
        """The model as it stands: every class as it was last seen, all at one temperature.

        Associations at different temperatures cannot be compared, so there is one T for all
        classes: in a stream, where each cools at its own pace, the coldest class's. A class that
        lags behind is then drawn too narrow for a while, which costs less than drawing all the
        others as coarse as it is (measured: docs/notation.md).
        """
        cooling = [state for state in self.classes if state.rung is not None]
        if not cooling:
            T = HOTTEST * max(state.unit() for state in self.classes)
        elif all(state.tracking for state in cooling):
            T = min(state.temperature for state in cooling)
        else:
            T = self.temperature(max(state.newest() for state in cooling))
        return self._level_of([state.current() for state in self.classes], T)

    def coarse(self, most: int) -> Level:
        """The coldest level with at most so many codevectors, of one class."""
        state = self.classes[0]
        book = state.current()
        if len(book) <= most:
            return self.model()
        small = [rung for rung, level in state.levels.items() if len(level.book) <= most]
        if small:
            return self._level_of([state.levels[max(small)].book], self.temperature(max(small)))
        # It split on its first level: all samples as one.
        one = codebook.single(np.clip(book.rho @ book.mu, state.low, state.high), np.zeros(self.d))
        return self._level_of([one], self.temperature(state.first_rung))

    def _level_of(self, books: list[Codebook], T: float) -> Level:
        sizes = [len(book) for book in books]
        return Level(
            temperature=T,
            codevectors=_one_array([book.mu for book in books]),
            weights=_one_array([book.rho for book in books]),
            classes=np.repeat(np.arange(len(books)), sizes),
            nodes=np.concatenate([book.node for book in books]),
            parents=np.full(sum(sizes), -1, dtype=np.int64),
            samples=sum(state.samples + state.run.count for state in self.classes),
            distortion=math.nan,
            entropy=math.nan,
            score=math.nan,
        )
