"""The state machine of Algorithm 1: samples in, levels out.

Each class is annealed by itself on one common ladder of temperatures T_k = T_0 gamma^k (clustering
is the case of one class). A class warms up (mean and variances, from which its unit of temperature
follows), then goes down the ladder: at every level the kernel learns until it has converged; then
codevectors merge, idle ones go, the level is recorded, the temperature falls and codevectors that
have become unstable split. When the ladder ends the codebook of the last level keeps tracking.

Everything that happens depends on the samples in their order alone, never on how calls cut them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed import codebook as cold
from annealed.codebook import Codebook
from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Level, Split

Integers = NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).max)
# Multiplications per call of the kernel, so that Ctrl-C is heard in time.
WORK_PER_CALL = 20_000_000
# In `fit`, means and variances are taken over at most this many samples of a class.
WARM_UP_SAMPLES = 20_000  # at most DEALT_AT_A_TIME
# Rows of a class that are put in random order at a time.
DEALT_AT_A_TIME = 50_000
# A ladder that must grow to a given K goes on below T_min, but not below this part of T_0.
COLDEST = 1e-9


@dataclass(frozen=True)
class Schedule:
    """Every number that decides how a class is annealed.

    Thresholds epsilon_c and epsilon_n are multiples of T, delta of its square root. With
    ``paper`` they are, like T_max and T_min, multiples of Delta_S d instead, the paper's units.
    """

    split: str = "variance"
    T_max: float | None = None
    T_min: float | None = None
    gamma: float = 0.9
    K_max: int = 100
    wanted: int | None = None  # go on, below T_min if need be, until there are this many
    epsilon_c: float = 0.01
    epsilon_n: float = 0.1
    epsilon_r: float = 1e-7
    delta: float = 0.1
    alpha: tuple[float, float] = (1.0, 0.9)
    alpha_min: float = 0.0
    samples_per_codevector: int = 100
    patience: int = 5
    paper: bool = False
    splitting: bool = True

    @property
    def room(self) -> int:
        """How many codevectors to grow to.

        Structure is sometimes noticed late, so a ladder that looks for K codevectors goes on to
        twice as many; the splits are then put in order of their critical temperatures.
        """
        return self.K_max if self.wanted is None else min(self.K_max, 2 * self.wanted + 4)


def weight_entropy(book: Codebook) -> float:
    """H(Q) = -sum_i rho_i log rho_i."""
    rho = book.rho[book.rho > 0]
    return float(-(rho * np.log(rho)).sum())


@dataclass(frozen=True, eq=False)
class ClassLevel:
    """What one class looked like when it finished a level."""

    book: Codebook
    samples: int
    distortion: float
    entropy: float


class ClassAnnealer:
    """One class on its way down the ladder."""

    def __init__(self, d: int, divergence: BregmanDivergence, warm_up: int) -> None:
        self.divergence = divergence
        self.kernel = kernel_for(divergence)
        self.d = d
        self.warm_up = warm_up  # samples that decide the unit of temperature
        self.weight = 0.0  # sample weight seen before the current run
        self.samples = 0  # samples learnt before the current run
        self.rung: int | None = None  # k of T_k; None while warming up
        self.first_rung = 0
        self.tracking = False
        self.paired = False  # whether the current level carries perturbed twins
        self.levels: dict[int, ClassLevel] = {}
        self.splits: list[Split] = []
        self.next_node = 1
        self.book: Codebook | None = None  # as the current level began
        self.run: Any = self._new_run()

    def copy(self) -> ClassAnnealer:
        """A twin that shares what never changes (finished levels, splits)."""
        twin = copy.copy(self)
        twin.levels, twin.splits = dict(self.levels), list(self.splits)
        twin.run = self._new_run()
        twin.run.restore(self.run.state())
        return twin

    def _new_run(self) -> Any:
        if self.book is None:
            return self.kernel.warm_up(self.divergence, self.d, self.warm_up)
        return self.kernel.begin(
            self.divergence, self.book.mu, self.book.rho, self.book.axis, self.run_settings,
            self.low, self.high,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["run"] = self.run.state()
        del state["kernel"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state["run"]
        self.__dict__.update(state)
        self.kernel = kernel_for(self.divergence)
        self.run = self._new_run()
        self.run.restore(saved)

    def read(self) -> dict[str, Any]:
        """State of the current run."""
        state: dict[str, Any] = self.kernel.read(self.divergence, self.run)
        return state

    @property
    def total_weight(self) -> float:
        """Weight of all samples of the class so far."""
        return float(self.weight + self.run.seen)

    # -- warming up ----------------------------------------------------------------------------

    def unit(self) -> float:
        """Unit of temperature of the class, trace(H(mean) C), from the warm-up so far."""
        state = self.read()
        return self.divergence.unit(state["mean"], state["squares"] / max(state["seen"], 1e-300))

    def spread(self) -> float:
        """Delta_S of the paper: the longest edge of the box around the warm-up samples."""
        state = self.run.state()
        return float((state["highest"] - state["lowest"]).max())

    def warm_up_longer(self) -> None:
        """Identical samples so far: there is nothing to anneal yet."""
        self.warm_up *= 2
        seen = self.run.state()
        self.run = self._new_run()
        self.run.restore({**seen, "done": False})

    def enter(self, rung: int, T: float, schedule: Schedule) -> None:
        """Leave the warm-up: one codevector at the mean, on the first rung above T_c."""
        state = self.read()
        self.low, self.high = self.divergence.bounds(state["mean"])
        self.variance = state["squares"] / state["seen"]
        self.mean = np.clip(state["mean"], self.low, self.high)
        self.first_rung, self.entered_at = rung, self.unit()
        self.begin(cold.single(self.mean, state["last"] - self.mean), rung, T, schedule)

    # -- levels --------------------------------------------------------------------------------

    def begin(self, book: Codebook, rung: int, T: float, schedule: Schedule) -> None:
        """Start the level at T_k from a codebook."""
        self.weight += self.run.seen
        self.samples += self.run.count
        self.rung, self.temperature = rung, T
        self.paired = schedule.split == "perturb" and schedule.splitting and not self.tracking
        if self.paired:
            size = schedule.delta * (1.0 if schedule.paper else math.sqrt(T))
            book = cold.perturb(book, size, self.divergence, self.low, self.high)
        self.book = book
        K = len(book)
        at_least = schedule.samples_per_codevector * K
        self.run_settings = {
            "T": T,
            "small_step": schedule.epsilon_c * (1.0 if schedule.paper else T),
            "a": schedule.alpha[0],
            "b": schedule.alpha[1],
            "alpha_min": schedule.alpha_min,
            "first_axis": NEVER if self.tracking else at_least // 4,
            "second_axis": NEVER if self.tracking else at_least // 2,
            "at_least": NEVER if self.tracking else at_least,
            "at_most": NEVER if self.tracking else max(50 * at_least, 1000),
            "patience": schedule.patience,
            # The level before counts as one sample per codevector: the step size starts anew,
            # but no codevector jumps onto the first sample it meets.
            "n": float(K),
        }
        self.run = self._new_run()

    def measured(self) -> Codebook:
        """The codebook as the level has learnt it, with its critical temperatures."""
        assert self.book is not None
        state = self.read()
        mass = state["p"]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = state["y"] / mass
            second = state["y2"] / mass
            error = np.sqrt(np.maximum(state["y4"] / mass - second**2, 0.0) * state["p2"]) / mass
            turned = state["turned"] / np.sqrt((state["turned"] ** 2).sum(axis=1, keepdims=True))
        critical, error, mass = _remembered(self.book, second - mean**2, error, mass)
        axis = np.where(np.isfinite(turned), turned, state["axis"])
        mu, old = state["mu"], state["axis"]
        rho = state["r"] * state["g"]
        return replace(
            self.book,
            mu=state["mu"],
            rho=rho / rho.sum(),
            axis=axis,
            aside=self._turned_to(mu, old, axis),
            critical=critical,
            error=error,
            mass=mass,
            node=self.book.node.copy(),
        )

    def _turned_to(self, mu: Array, old: Array, axis: Array) -> Array:
        """The part of the new axis across the old one, as long as the new one, both by H(mu)."""

        def inner(a: Array, b: Array) -> Array:
            product = self.divergence.hessian_product(mu, b)
            return np.asarray((a * product).sum(axis=1, keepdims=True))

        with np.errstate(divide="ignore", invalid="ignore"):
            across = axis - inner(axis, old) / inner(old, old) * old
            return np.nan_to_num(across * np.sqrt(inner(axis, axis) / inner(across, across)))

    def close(self, schedule: Schedule) -> ClassLevel:
        """Finish the level: merge, prune, and say what came out."""
        state = self.run.state()
        learnt = self.measured()
        book = self._pairs(learnt, schedule) if self.paired else learnt
        if schedule.splitting:
            book = self._merge(cold.prune(book, schedule.epsilon_r), schedule)
        distortion = entropy = math.nan
        if state["weight"] > 0:
            # Joining codevectors takes the entropy between them out of H and adds the divergence
            # from their means to D; both follow from the weights and positions alone.
            distortion = state["distortion"] / state["weight"]
            distortion += self._information(learnt) - self._information(book)
            entropy = state["entropy"] / state["weight"]
            entropy += weight_entropy(book) - weight_entropy(learnt)
            entropy = min(max(entropy, 0.0), weight_entropy(book))  # H(Q|X) <= H(Q)
        return ClassLevel(book, self.samples + state["count"], max(distortion, 0.0), entropy)

    def _information(self, book: Codebook) -> float:
        """sum_i rho_i d(mu_i, mean): what the positions of the codevectors explain."""
        mean = np.clip(book.rho @ book.mu, self.low, self.high)[None, :]
        return float(book.rho @ self.kernel.divergences(self.divergence, book.mu, mean)[:, 0])

    def _threshold(self, schedule: Schedule) -> float:
        return schedule.epsilon_n * (1.0 if schedule.paper else self.temperature)

    def _pairs(self, book: Codebook, schedule: Schedule) -> Codebook:
        """Perturbed twins (2i, 2i + 1): one codevector again, or a split."""
        pairs = range(len(book) // 2)
        distance = self.kernel.divergences(self.divergence, book.mu, book.mu)
        whole = [cold.pooled(book, 2 * i, 2 * i + 1, self.divergence) for i in pairs]
        apart = [i for i in pairs if distance[2 * i, 2 * i + 1] >= self._threshold(schedule)]
        if self.temperature >= self.entered_at:  # above trace(H C) nothing is unstable
            apart = []
        apart.sort(key=lambda i: -np.nan_to_num(whole[i].critical[2 * i]))
        if schedule.wanted is not None:
            apart = apart[: max(schedule.room - len(pairs), 0)]
        assert self.rung is not None
        for i in apart:
            critical = float(whole[i].critical[2 * i])
            book.node[[2 * i, 2 * i + 1]] = self._record(int(book.node[2 * i]), critical, self.rung)
        for i in reversed(pairs):
            if i not in apart:
                book = cold.pooled(book, 2 * i, 2 * i + 1, self.divergence)
        return book

    def _record(self, parent: int, critical: float, rung: int) -> tuple[int, int]:
        if not critical > 0:  # too few samples to measure it
            critical = self.temperature
        children = (self.next_node, self.next_node + 1)
        self.next_node += 2
        self.splits.append(Split(0, parent, children, critical, rung))
        return children

    def _merge(self, book: Codebook, schedule: Schedule) -> Codebook:
        """Join codevectors that are one at this temperature, the closest first.

        Two that were just split rest closer together than strangers do (0.5 T apart at 0.8 T_c for
        a Gaussian), so siblings get the finer threshold.
        """
        threshold = self._threshold(schedule)
        stranger = threshold if schedule.paper else 5 * threshold
        family = {child: split for split in self.splits for child in split.children}
        while len(book) > 1:
            distance = self.kernel.divergences(self.divergence, book.mu, book.mu)
            mother = np.array([family[n].parent if n in family else -1 for n in book.node.tolist()])
            siblings = (mother[:, None] == mother) & (mother >= 0)
            ratio = distance / np.where(siblings, threshold, stranger)
            np.fill_diagonal(ratio, np.inf)
            i, j = sorted(int(k) for k in np.unravel_index(ratio.argmin(), ratio.shape))
            if min(ratio[i, j], ratio[j, i]) >= 1:
                break
            if siblings[i, j]:  # the split is taken back: nobody descends from it
                book.node[[i, j]] = family[int(book.node[i])].parent
            book = cold.pooled(book, i, j, self.divergence)
        return book

    def next_codebook(self, level: ClassLevel, T: float, schedule: Schedule) -> Codebook:
        """The codebook the next level starts from: what is unstable at T has split."""
        book = level.book
        if schedule.split == "perturb" or not schedule.splitting:
            return book
        if T >= self.entered_at:  # above trace(H C) nothing is unstable
            return book
        unstable = np.flatnonzero(book.critical - book.error > T)
        unstable = unstable[np.argsort(-book.critical[unstable], kind="stable")]
        if schedule.wanted is not None:
            unstable = unstable[: max(schedule.room - len(book), 0)]
        if not len(unstable):
            return book
        first = self.next_node
        assert self.rung is not None
        for i in unstable:
            self._record(int(book.node[i]), float(book.critical[i]), self.rung + 1)
        return cold.split(book, unstable, T, self.divergence, self.low, self.high, first)

    def at(self, rung: int) -> ClassLevel:
        """The class as it was on that rung of its own path.

        Above its own T_max, and while it warms up, a class is one codevector at its mean, with a
        distortion of half its unit of temperature (exactly so for the squared Euclidean one).
        """
        if rung in self.levels:
            return self.levels[rung]
        if self.rung is None:
            mean, unit, samples = self.read()["mean"], self.unit(), int(self.run.count)
            mean = np.clip(mean, *self.divergence.bounds(mean))
        else:
            mean, unit, samples = self.mean, self.entered_at, self.warm_up
        return ClassLevel(cold.single(mean, np.zeros(self.d)), samples, 0.5 * unit, 0.0)

    def current(self) -> Codebook:
        """The codebook as it tracks after the last level, before that of the newest level."""
        if not self.tracking:
            return self.at(self.newest()).book
        assert self.book is not None
        state = self.read()
        rho = state["r"] * state["g"]
        return replace(self.book, mu=state["mu"], rho=rho / rho.sum())

    def newest(self) -> int:
        """The coldest rung the class can be read on."""
        return max(self.levels, default=self.first_rung - 1)

    def track(self, book: Codebook, rung: int, T: float, schedule: Schedule, levels: bool) -> None:
        """From now on follow the samples at T with this codebook, its size fixed."""
        self.tracking = True
        if levels:  # the path ends on this rung
            self.levels = {k: level for k, level in self.levels.items() if k <= rung}
            self.splits = [split for split in self.splits if split.level <= rung]
        self.begin(book, rung, T, schedule)


class Annealer:
    """All classes of a model on one ladder of temperatures.

    Parameters
    ----------
    d : int
        Number of features.
    divergence : BregmanDivergence
    schedule : Schedule
    choose : callable, optional
        Called once, when the ladder has ended, with the path; the Level it returns is the one
        that tracks from then on. Left out, the coldest one does.
    """

    def __init__(
        self,
        d: int,
        divergence: BregmanDivergence,
        schedule: Schedule,
        choose: Callable[[Annealer], Level] | None = None,
    ) -> None:
        self.d, self.divergence, self.schedule, self.choose = d, divergence, schedule, choose
        self.classes: list[ClassAnnealer] = []
        self.top: float | None = None  # T_0
        self.last_rung = NEVER  # where the ladder ends
        self.end_temperature = 0.0  # where the coldest codebook of the path stops being stable
        self.chosen: Level | None = None
        self.unconverged: list[tuple[float, int]] = []  # T and samples of levels ended by the cap
        self._path: AnnealingPath | None = None

    def copy(self) -> Annealer:
        """A twin that can go on by itself."""
        twin = copy.copy(self)
        twin.classes = [state.copy() for state in self.classes]
        twin.unconverged = list(self.unconverged)
        twin.choose = copy.copy(self.choose)
        return twin

    def add_class(self, warm_up: int | None = None) -> None:
        """A class nobody has seen before: it starts with a warm-up of its own."""
        self.classes.append(
            ClassAnnealer(self.d, self.divergence, warm_up or max(100, 10 * self.d))
        )
        self._path = None

    def temperature(self, rung: int) -> float:
        """T_k = T_0 gamma^k."""
        assert self.top is not None
        return self.top * self.schedule.gamma**rung

    @property
    def finished(self) -> bool:
        """Whether every class has gone down the whole ladder."""
        return all(state.tracking for state in self.classes)

    # -- learning ------------------------------------------------------------------------------

    def absorb(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None = None,
        weights: Array | None = None,
        listen: Callable[[Annealer], None] | None = None,
    ) -> None:
        """Learn rows in order, cooling whenever a class has converged."""
        at, end = 0, len(X)
        while at < end:
            at = self._advance(X, classes, weights, None, at, end)
            if listen is not None:
                listen(self)

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
        member = np.zeros(len(X), dtype=np.int32) if classes is None else classes
        present = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        deck = [
            _Deck(np.flatnonzero((member == c) & present), rng) for c in range(len(self.classes))
        ]
        for state, cards in zip(self.classes, deck, strict=True):
            state.warm_up = min(len(cards.rows), WARM_UP_SAMPLES)
            state.run = state._new_run()
            state.kernel.learn([state.run], X, cards.order, None, weights, 0, state.warm_up)
        units = [state.unit() for state in self.classes]
        for c in np.argsort(-np.array(units), kind="stable"):
            if units[c] > 0:
                self._enter(self.classes[c])
        cooling = [c for c, unit in enumerate(units) if unit > 0]
        while cooling:
            for c in cooling:
                state = self.classes[c]
                rung = state.rung
                while state.rung == rung and not state.tracking:
                    cards = deck[c]
                    end = len(cards.deal())
                    cards.at = self._advance(X, classes, weights, cards.order, cards.at, end)
            cooling = [c for c in cooling if not self.classes[c].tracking]
            if listen is not None:
                listen(self)
        for c, state in enumerate(self.classes):  # what was shown again does not count again
            seen = deck[c].rows if weights is None else weights[deck[c].rows]
            state.weight = float(len(seen) if weights is None else seen.sum()) - state.run.seen

    def _advance(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None,
        weights: Array | None,
        order: Integers | None,
        begin: int,
        end: int,
    ) -> int:
        """Learn rows from ``begin`` until a level ends or some work is done; how far it came."""
        widest = max(1 if state.book is None else len(state.book) for state in self.classes)
        end = min(end, begin + max(1, WORK_PER_CALL // (self.d * (widest + 8))))
        runs = [state.run for state in self.classes]
        stop: int = self.classes[0].kernel.learn(runs, X, order, classes, weights, begin, end)
        for state in self.classes:
            if state.run.done:
                self._path = None
                if state.rung is None:
                    self._warmed_up(state)
                else:
                    self._end_of_level(state)
        return stop

    def _warmed_up(self, state: ClassAnnealer) -> None:
        if state.unit() > 0:
            self._enter(state)
        else:
            state.warm_up_longer()

    def _enter(self, state: ClassAnnealer) -> None:
        """Put a class on the ladder; the first one decides where the ladder stands."""
        schedule, unit = self.schedule, 1.25 * state.unit()
        if self.top is None:
            if schedule.paper:
                schedule = self.schedule = _in_paper_units(schedule, state.spread() * self.d)
            self.top = unit if schedule.T_max is None else schedule.T_max
            T_min = 4e-4 * self.top if schedule.T_min is None else schedule.T_min
            if not T_min < self.top:
                raise ValueError(
                    f"T_min = {T_min:g} must lie below T_max = {self.top:g}, which the data "
                    "decides: annealing goes from hot to cold"
                )
            self.last_rung = max(self._rung_above(T_min), 0)
        rung = 0 if schedule.T_max is not None else min(self._rung_above(unit), self.last_rung)
        state.enter(rung, self.temperature(rung), schedule)

    def _rung_above(self, T: float) -> int:
        """The coldest rung that is not below T."""
        assert self.top is not None
        return math.floor(math.log(T / self.top) / math.log(self.schedule.gamma) + 1e-9)

    def _end_of_level(self, state: ClassAnnealer) -> None:
        schedule, rung = self.schedule, state.rung
        assert rung is not None
        if state.run.count >= state.run_settings["at_most"]:
            self.unconverged.append((state.temperature, int(state.run.count)))
        level = state.close(schedule)
        others = sum(len(other.at(rung).book) for other in self.classes if other is not state)
        if others + len(level.book) > schedule.K_max:
            self.end_temperature = state.temperature
            self._end_ladder(rung - 1)
            return
        state.levels[rung] = level
        T = self.temperature(rung + 1)
        if rung >= self.last_rung and self._still_to_grow(level):
            self.last_rung = rung + 1
        book = state.next_codebook(level, T, schedule)
        grown = schedule.wanted is not None and len(level.book) >= schedule.room
        if rung >= self.last_rung or grown or others + len(book) > schedule.K_max:
            pending = [split.critical_temperature for split in state.splits if split.level > rung]
            self.end_temperature = min(max(pending, default=T), self.temperature(rung))
            self._end_ladder(rung)
        else:
            state.begin(book, rung + 1, T, schedule)

    def _still_to_grow(self, level: ClassLevel) -> bool:
        """A wanted number of codevectors is not reached, but can be."""
        assert self.top is not None
        if self.schedule.wanted is None or len(level.book) >= self.schedule.wanted:
            return False
        return bool(np.nanmax(level.book.critical, initial=0.0) > COLDEST * self.top)

    def _end_ladder(self, rung: int) -> None:
        """The ladder ends at this rung: whoever has finished it tracks from there."""
        self.last_rung = min(self.last_rung, rung)
        last, T = self.last_rung, self.temperature(self.last_rung)
        for state in self.classes:
            if state.rung is None or state.newest() < last:
                continue
            if not state.tracking or state.rung > last:
                state.track(state.at(last).book, last, T, self.schedule, levels=True)
        if self.finished and self.choose is not None and self.chosen is None:
            self.chosen = self.choose(self)
            self._track_chosen(self.chosen)

    def cool_on(self, X: NDArray[Any], weights: Array | None, rng: np.random.Generator) -> Level:
        """The model that tracks, cooled to the end of the ladder with its size fixed.

        The annealer itself stays as it is. Only for one class.
        """
        start = self.model()
        # Levels of a fixed size end after their samples: a hard codebook is never "converged" in
        # units of a temperature far below the variance of its cells.
        fixed = replace(self.schedule, splitting=False, wanted=None, epsilon_c=math.inf)
        twin = Annealer(self.d, self.divergence, fixed)
        twin.top, twin.classes = self.top, [self.classes[0].copy()]
        state = twin.classes[0]
        state.tracking = False
        rung = self._rung_above(start.temperature)
        twin.last_rung = max(self._rung_above(1e-2 * start.temperature), rung)
        book = cold.bare(start.codevectors, start.weights, start.nodes)
        state.begin(book, rung, start.temperature, fixed)
        rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
        cards = _Deck(rows, rng)
        while not twin.finished:
            end = len(cards.deal())
            cards.at = twin._advance(X, None, weights, cards.order, cards.at, end)
        return twin.model()

    def _track_chosen(self, chosen: Level) -> None:
        for c, state in enumerate(self.classes):
            mine = chosen.classes == c
            book = cold.bare(chosen.codevectors[mine], chosen.weights[mine], chosen.nodes[mine])
            state.track(book, self.last_rung, chosen.temperature, self.schedule, levels=False)

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
        levels: list[Level] = []
        for rung in range(first, last + 1):
            levels.append(self.level(rung, levels[-1] if levels else None))
        splits = [
            replace(split, class_index=c, level=split.level - first)
            for c, state in enumerate(self.classes)
            for split in state.splits
            if split.level <= last
        ]
        splits.sort(key=lambda split: split.level)
        return AnnealingPath(levels, splits, self.end_temperature if self.finished else None)

    def level(self, rung: int, before: Level | None = None) -> Level:
        """The model of all classes on one rung."""
        parts = [state.at(rung) for state in self.classes]
        weight = np.array([state.total_weight for state in self.classes])
        weight = weight / weight.sum()
        classes = np.repeat(np.arange(len(parts)), [len(part.book) for part in parts])
        nodes = np.concatenate([part.book.node for part in parts])
        distortion = float(weight @ [part.distortion for part in parts])
        return Level(
            temperature=self.temperature(rung),
            codevectors=np.concatenate([part.book.mu for part in parts]),
            weights=np.concatenate([part.book.rho for part in parts]),
            classes=classes,
            nodes=nodes,
            parents=self._parents(classes, nodes, before),
            samples=sum(part.samples for part in parts),
            distortion=distortion,
            entropy=float(weight @ [part.entropy for part in parts]),
            score=-distortion if len(parts) == 1 else math.nan,
        )

    def _parents(self, classes: Integers, nodes: Integers, before: Level | None) -> Integers:
        """For every codevector the one of the level before that it comes from."""
        if before is None:
            return np.full(len(nodes), -1, dtype=np.int64)
        known = zip(before.classes.tolist(), before.nodes.tolist(), strict=True)
        place = {node: i for i, node in enumerate(known)}
        mother: dict[tuple[int, int], tuple[int, int]] = {}
        children: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for c, state in enumerate(self.classes):
            for split in state.splits:
                mother.update({(c, child): (c, split.parent) for child in split.children})
                children.setdefault((c, split.parent), []).extend((c, n) for n in split.children)
        parents = []
        for node in zip(classes.tolist(), nodes.tolist(), strict=True):
            # Split since: its mother. Split and taken back: the heavier of the two it was.
            above = node
            while above not in place and above in mother:
                above = mother[above]
            twins = [place[child] for child in children.get(node, []) if child in place]
            parents.append(place[above] if above in place else max(twins, key=before.weights.item))
        return np.array(parents, dtype=np.int64)

    def model(self) -> Level:
        """The model as it stands: every class as it was last seen, all at one temperature.

        Associations at different temperatures cannot be compared, so there is one T for all
        classes: in a stream, where each cools at its own pace, the coldest class's. A class that
        lags behind is then drawn too narrow for a while, which costs less than drawing all the
        others as coarse as it is (measured: docs/notation.md).
        """
        cooling = [state for state in self.classes if state.rung is not None]
        if not cooling:
            T = 1.25 * max(state.unit() for state in self.classes)
        elif all(state.tracking for state in cooling):
            T = min(state.temperature for state in cooling)
        else:
            T = self.temperature(max(state.newest() for state in cooling))
        return self._level_of([state.current() for state in self.classes], T)

    def _level_of(self, books: list[Codebook], T: float) -> Level:
        sizes = [len(book) for book in books]
        return Level(
            temperature=T,
            codevectors=np.concatenate([book.mu for book in books]),
            weights=np.concatenate([book.rho for book in books]),
            classes=np.repeat(np.arange(len(books)), sizes),
            nodes=np.concatenate([book.node for book in books]),
            parents=np.full(sum(sizes), -1, dtype=np.int64),
            samples=sum(state.samples + state.run.count for state in self.classes),
            distortion=math.nan,
            entropy=math.nan,
            score=math.nan,
        )


def _remembered(
    book: Codebook, critical: Array, error: Array, mass: Array
) -> tuple[Array, Array, Array]:
    """Critical temperatures of a level averaged with those of the levels before.

    The variance of a codevector's samples changes little from one level to the next, a single
    level's estimate much by chance; each level further back counts half as much.
    """
    before = np.where(np.isfinite(book.critical), 0.5 * book.mass, 0.0)
    total = before + mass
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = (before * np.nan_to_num(book.critical) + mass * np.nan_to_num(critical)) / total
        spread = np.hypot(before * np.nan_to_num(book.error), mass * np.nan_to_num(error)) / total
    return pooled, spread, total


class _Deck:
    """The rows of one class, dealt in a new random order each time round.

    Levels converge long before they have seen a large table once, so of many rows a random part is
    dealt at a time.
    """

    def __init__(self, rows: Integers, rng: np.random.Generator) -> None:
        self.rows, self.rng, self.at = rows, rng, 0
        self.order = rows[:0]
        self.deal()

    def deal(self) -> Integers:
        if self.at >= len(self.order):
            size = min(len(self.rows), DEALT_AT_A_TIME)
            times = max(2000 // size, 1)  # few rows: several times round at once
            orders = [self.rng.choice(self.rows, size, replace=False) for _ in range(times)]
            self.order, self.at = np.concatenate(orders), 0
        return self.order


def _in_paper_units(schedule: Schedule, scale: float) -> Schedule:
    """The paper's "Parameters": everything but gamma and epsilon_r in multiples of Delta_S d."""
    return replace(
        schedule,
        T_max=100 * scale if schedule.T_max is None else schedule.T_max,
        T_min=0.001 * scale if schedule.T_min is None else schedule.T_min,
        epsilon_c=schedule.epsilon_c * scale,
        epsilon_n=schedule.epsilon_n * scale,
        delta=schedule.delta * scale,
    )
