"""One class on its way down the ladder of temperatures.

It warms up (mean and variances, from which its unit of temperature follows), then at every level
the kernel learns until it has converged; codevectors that are one at this temperature merge, idle
ones go, and those that the next temperature makes unstable split. After the last level the codebook
tracks, its size fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing import codebook
from annealed.annealing.codebook import Codebook
from annealed.annealing.first_split import FirstSplit
from annealed.annealing.level_length import (
    samples_per_codevector,
    samples_remembered,
    samples_to_close,
)
from annealed.annealing.schedule import Schedule
from annealed.annealing.span import Span
from annealed.divergences import SMALLEST_UNIT, Array, BregmanDivergence, check_matrix
from annealed.kernels import RunOwner, kernel_for, measure_level
from annealed.kernels.protocol import Kernel, LevelRun
from annealed.path import Split, check_splits
from annealed.stored import (
    MOST_LEVELS,
    Amount,
    Count,
    Features,
    Positive,
    Rung,
    Since,
    State,
    Stored,
    StoredAs,
    Vector,
    among,
    between,
    one_width,
    require,
)

NEVER = int(np.iinfo(np.int64).max)
# Samples a class must bring after a reheating before it goes along.
SAMPLES_TO_RESUME = 50
# The last levels on the way to a given K, when there are as many: their size is fixed. Blocks
# settle and close in short levels, of which the latter need no split axes, and end with a longer
# one: a codebook of a fixed size follows T in a few blocks.
SETTLING, CLOSING, FINAL = 1, 2, 3
# Of a level that sees at most this share of the rows next to none has been seen by the levels that
# it remembers: as in a stream, every row may turn axes and measure along them.
MOSTLY_NEW = 0.1


def weight_entropy(book: Codebook) -> float:
    """H(Q) = -sum_i rho_i log rho_i."""
    rho = book.rho[book.rho > 0]
    return float(-(rho * np.log(rho)).sum())


@dataclass(frozen=True, eq=False)
class ClassLevel:
    """What one class looked like when it finished a level."""

    book: Codebook
    samples: Count
    distortion: float
    entropy: float


@dataclass(eq=False, repr=False)
class ClassAnnealer(RunOwner):
    """One class on its way down the ladder."""

    d: Features
    divergence: BregmanDivergence
    warm_up: Positive  # samples that decide the unit of temperature
    weight: float = 0.0  # sample weight seen before the current run
    samples: Count = 0  # samples learnt before the current run
    rung: Rung | None = None  # k of T_k; None while warming up
    first_rung: Rung = 0
    reheated_to: Rung = 0  # where on the ladder it goes on once it has woken up
    tracking: bool = False
    paired: bool = False  # whether the current level carries perturbed twins
    levels: dict[Rung, ClassLevel] = field(default_factory=dict)
    splits: list[Split] = field(default_factory=list)
    next_node: Positive = 1
    held: Count = 0  # codevectors after the last round at this temperature; 0: this is the first
    fixed: Annotated[int, between(0, FINAL + 1)] = 0  # SETTLING, CLOSING, FINAL, if any
    # In `fit` while it anneals: how many rows come again and again, and how many features they have
    # where they were rotated into fewer dimensions.
    rows: Annotated[int | None, Stored.NEVER] = None
    features: Annotated[int | None, Stored.NEVER] = None
    exchanged: Annotated[bool, Stored.NEVER] = False  # whether rows that measured turn axes now
    book: Codebook | None = None  # as the current level began
    engine: Annotated[str, among("online", "block"), Since("0.2", "online")] = "online"
    kernel: Annotated[Kernel, Stored.NEVER] = field(init=False)
    run: Annotated[LevelRun, StoredAs(State)] = field(init=False)
    # What the warm-up has found, and the level it is at: once it has left the warm-up.
    low: Annotated[Vector, Stored.ONCE_SET] = field(init=False)
    high: Annotated[Vector, Stored.ONCE_SET] = field(init=False)
    variance: Annotated[Vector, Stored.ONCE_SET] = field(init=False)
    mean: Annotated[Vector, Stored.ONCE_SET] = field(init=False)
    entered_at: Annotated[Amount, Stored.ONCE_SET] = field(init=False)
    temperature: Annotated[Amount, Stored.ONCE_SET] = field(init=False)
    run_settings: Annotated[State, Stored.ONCE_SET] = field(init=False)

    def __post_init__(self) -> None:
        self.kernel = self._new_kernel()
        self.run = self._new_run()

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Levels, codebook and what the kernel knows are of one number of features."""
        d = state["d"]
        check_splits(state["splits"])
        check_matrix(state["divergence"], d)
        require(len(state["levels"]) < MOST_LEVELS, "a class has too many levels")
        for level in state["levels"].values():
            one_width("a level", d, level.book.mu)
        begun = state["book"] is not None
        on_ladder = state["rung"] is not None
        require(begun == on_ladder, "a class has a codebook but no rung, or no codebook")
        if begun:
            found = ("low", "high", "variance", "mean", "entered_at", "temperature", "run_settings")
            require(
                all(name in state for name in found),
                "a class has left its warm-up without what it found",
            )
            one_width("a class", d, state["book"].mu, *(state[name] for name in found[:4]))
        else:
            # The kernel makes room for d features before it looks at these.
            mean = state["run"].get("mean")
            require(
                isinstance(mean, np.ndarray) and mean.shape == (d,),
                "a warm-up is of another number of features",
            )

    def copy(self) -> ClassAnnealer:
        """A twin that shares what never changes (finished levels, splits)."""
        twin = object.__new__(ClassAnnealer)
        twin.__dict__.update(self.__dict__)
        twin.levels, twin.splits = dict(self.levels), list(self.splits)
        twin.run = self._new_run()
        twin.run.restore(self.run.state())
        return twin

    def _new_kernel(self) -> Kernel:
        return kernel_for(self.divergence, self.engine)

    def _new_run(self) -> LevelRun:
        if self.book is None:
            return self.kernel.begin_warm_up(self.d, self.warm_up)
        return self.kernel.begin_level(
            self.book.mu, self.book.rho, self.book.axis, self.book.memory, self.run_settings,
            self.low, self.high,
        )  # fmt: skip

    def read(self) -> dict[str, Any]:
        """State of the current run."""
        return self.kernel.read(self.run)

    @property
    def total_weight(self) -> float:
        """Weight of all samples of the class so far."""
        return float(self.weight + self.run.seen)

    # -- warming up ----------------------------------------------------------------------------

    def unit(self) -> float:
        """Unit of temperature of the class, trace(H(mean) C), from the warm-up so far."""
        state = self.read()
        return self.divergence.unit(state["mean"], state["squares"] / max(state["seen"], 1e-300))

    def first_split_below(self) -> float:
        """An estimate of T_c that errs upwards, from the warm-up so far, whose samples are gone.

        lambda_max is at most sqrt(trace((H C)^2)), which fours of samples estimate without bias;
        two standard errors are added. Infinite where it is not known.
        """
        state = self.read()
        fours = state["count"] // 4
        if self.divergence.kernel != "squared_euclidean" or not fours or not state["crossed"] > 0:
            return math.inf
        # <a, b>^2 has a standard deviation of about sqrt(2) times its mean, or more; H is 2.
        return 2 * math.sqrt(state["crossed"] / (4 * fours) * (1 + 4 / math.sqrt(fours)))

    def moments(self) -> tuple[Array, Array]:
        """Mean and, in the kernel's coordinates, variances as the warm-up saw them."""
        if self.rung is not None:
            return self.mean, self.variance
        state = self.read()
        return state["mean"], state["squares"] / max(state["seen"], 1e-300)

    def differs(self) -> bool:
        """Whether the samples differ, by more than rounding and so much that it can be measured."""
        state = self.run.state()
        lowest, highest = state["lowest"], state["highest"]
        rounding = 4 * np.finfo(float).eps * np.maximum(np.abs(lowest), np.abs(highest))
        beyond = bool((highest - lowest > rounding).any())
        return beyond and SMALLEST_UNIT <= self.unit() < np.inf

    def check_spread(self) -> None:
        """Raise ValueError if samples differ, but too little to be measured."""
        state = self.run.state()
        self.divergence.check_spread(self.unit(), state["lowest"], state["highest"])

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

    def enter(
        self, rung: int, T: float, schedule: Schedule, first_split: FirstSplit | None = None
    ) -> None:
        """Leave the warm-up: one codevector at the mean, on the first rung above T_c."""
        state = self.read()
        self.low, self.high = self.divergence.bounds(state["mean"])
        self.variance = state["squares"] / state["seen"]
        self.mean = np.clip(state["mean"], self.low, self.high)
        self.first_rung, self.entered_at = rung, self.unit()
        if first_split is None:
            book = codebook.single(
                self.mean, state["last"] - self.mean, distortion=0.5 * self.entered_at
            )
        else:
            one, other = first_split.axes
            book = codebook.single(
                self.mean, one.axis, one.memory, first_split.distortion, other.axis, other.memory
            )
        self.begin(book, rung, T, schedule)

    def become(self, other: ClassAnnealer, span: Span, variance: Array) -> None:
        """Become what a class is that was annealed in the coordinates of a span."""
        for name in (
            "warm_up", "weight", "samples", "rung", "first_rung", "reheated_to", "tracking",
            "paired", "next_node", "held", "fixed",
        ):  # fmt: skip
            setattr(self, name, getattr(other, name))
        self.splits = list(other.splits)
        self.levels = {
            rung: replace(level, book=span.book(level.book)) for rung, level in other.levels.items()
        }
        if other.book is None:  # identical rows: still warming up
            state = other.run.state()
            for name in ("mean", "last", "lowest", "highest"):
                state[name] = span.points(state[name])
            state["squares"] = state["difference"] = np.zeros(self.d)
            self.run = self._new_run()
            self.run.restore(state)
            return
        self.book, self.run_settings = span.book(other.book), other.run_settings
        self.temperature, self.entered_at = other.temperature, other.entered_at
        self.mean, self.variance = span.points(other.mean), variance
        self.low, self.high = self.divergence.bounds(self.mean)
        self.run = self._new_run()

    # -- levels --------------------------------------------------------------------------------

    def begin(
        self,
        book: Codebook,
        rung: int,
        T: float,
        schedule: Schedule,
        tracked: int = NEVER,
        known: float | None = None,
    ) -> None:
        """Start the level at T_k from a codebook; tracking ends after ``tracked`` samples.

        Steps are as small as if the codebook rested on ``known`` samples; left out, on one each.
        """
        self.weight += self.run.seen
        self.samples += self.run.count
        self.rung, self.temperature, book = rung, T, codebook.to_be_learnt(book)
        self.paired = schedule.split == "perturb" and schedule.splitting and not self.tracking
        if self.paired:
            size = schedule.delta * (1.0 if schedule.paper else math.sqrt(T))
            book = codebook.perturb(book, size, self.divergence, self.low, self.high)
        K = len(book)
        at_least = schedule.sampled(K) * self._samples_per_codevector(book, T, schedule)
        n = float(K) if known is None else known
        if schedule.looks_along_axes and not self.tracking:
            n = samples_remembered(book, T, self._mean_distortion(book), at_least)
        by_roles = self.rows is not None and at_least > MOSTLY_NEW * self.rows
        if by_roles and schedule.thorough:
            book, self.exchanged = codebook.exchanged(book), not self.exchanged
        self.book = book
        # A hard codebook never converges in units of a T far below the variance of its cells.
        small = schedule.epsilon_c * (1.0 if schedule.paper else T)
        self.run_settings = {
            "T": T,
            "small_step": math.inf if self._ends else small,
            "a": schedule.alpha[0],
            "b": schedule.alpha[1],
            "alpha_min": schedule.alpha_min,
            # Nothing splits any more once K is reached and only temperature falls.
            "first_axis": NEVER if self.tracking or self._ends else at_least // 4,
            "second_axis": NEVER if self.tracking else at_least // 2,
            "at_least": NEVER if self.tracking else at_least,
            "at_most": tracked if self.tracking else max(50 * at_least, 1000),
            "patience": schedule.patience,
            "n": n,
            "by_roles": by_roles,
        }
        self.run = self._new_run()

    def _samples_per_codevector(self, book: Codebook, T: float, schedule: Schedule) -> int:
        least = schedule.samples_per_codevector
        if self.tracking or not (schedule.thorough and schedule.looks_along_axes):
            return least
        if self.fixed in (SETTLING, CLOSING) and self.engine == "block":
            return least
        if self._ends:
            enough = samples_to_close(least, len(book), self.rows)
            return max(least, enough // 2) if self.fixed == FINAL else enough
        distortion = self._mean_distortion(book)
        return samples_per_codevector(book, T, schedule, distortion, self.dimensions, self.rows)

    @property
    def _ends(self) -> bool:
        """Whether this is one of the last levels to a given K."""
        return self.fixed in (CLOSING, FINAL)

    @property
    def dimensions(self) -> int:
        """The dimensions over which what is not structure is spread."""
        return self.d if self.features is None else self.features

    def _mean_distortion(self, book: Codebook) -> float:
        known = np.isfinite(book.distortion)
        if not known.any():
            return 0.5 * self.entered_at
        return float(book.rho[known] @ book.distortion[known] / book.rho[known].sum())

    def measured(self, state: dict[str, Any]) -> Codebook:
        """The codebook as the level has learnt it, with its critical temperatures."""
        assert self.book is not None
        again = 0.0 if self.rows is None else state["weight"] / self.rows
        critical, error, mass, distortion = measure_level(
            state, self.book.critical, self.book.error, self.book.mass, again
        )
        turned = state["turned"]
        axis, before, memory = self.book.axis, self.book.before, self.book.memory
        if self.run_settings["first_axis"] < NEVER:
            length = np.sqrt((turned**2).sum(axis=1, keepdims=True))
            axis = np.where(length > 0, turned / np.where(length > 0, length, 1.0), state["axis"])
            before = state["axis"]
            memory = 0.5 * length[:, 0]  # like critical temperatures: half of it is remembered
        rho = state["r"] * state["g"]
        return Codebook(
            mu=state["mu"],
            rho=rho / rho.sum(),
            axis=axis,
            memory=memory,
            before=before,
            critical=critical,
            error=error,
            mass=mass,
            distortion=distortion,
            node=self.book.node.copy(),
            resting_axis=self.book.resting_axis,
            resting_memory=self.book.resting_memory,
            resting_before=self.book.resting_before,
        )

    def close(self, schedule: Schedule) -> tuple[ClassLevel, set[int]]:
        """Finish the level: merge, prune, and say what came out.

        And the nodes whose two sides came together again.
        """
        state = self.read()
        learnt = self.measured(state)
        del state["turned"]  # as large as the codevectors, and looked at
        book = self._pairs(learnt, schedule) if self.paired else learnt
        together: set[int] = set()
        if schedule.splitting:
            book = codebook.prune(book, schedule.epsilon_r)
            if not self.fixed:
                samples = state["n"] - self.run_settings["n"]
                book, together = self._merge(book, schedule, samples)
        distortion = entropy = math.nan
        if state["weight"] > 0:
            # Joining codevectors takes the entropy between them out of H and adds the divergence
            # from their means to D; both follow from the weights and positions alone.
            distortion = state["distortion"] / state["weight"]
            entropy = state["entropy"] / state["weight"]
            if book is not learnt:
                distortion += self._information(learnt) - self._information(book)
                entropy += weight_entropy(book) - weight_entropy(learnt)
            entropy = min(max(entropy, 0.0), weight_entropy(book))  # H(Q|X) <= H(Q)
        level = ClassLevel(book, self.samples + state["count"], max(distortion, 0.0), entropy)
        return level, together

    def keep(self, rung: int, level: ClassLevel) -> None:
        """Let a level be the one of its rung."""
        self.levels[rung] = replace(level, book=codebook.to_be_kept(level.book))

    def _information(self, book: Codebook) -> float:
        """sum_i rho_i d(mu_i, mean): what the positions of the codevectors explain."""
        mean = np.clip(book.rho @ book.mu, self.low, self.high)[None, :]
        return float(book.rho @ self.kernel.divergences(book.mu, mean)[:, 0])

    def _threshold(self, schedule: Schedule) -> float:
        return schedule.epsilon_n * (1.0 if schedule.paper else self.temperature)

    def _pairs(self, book: Codebook, schedule: Schedule) -> Codebook:
        """Perturbed twins (2i, 2i + 1): one codevector again, or a split."""
        first = np.arange(0, len(book), 2)
        distance = self.kernel.divergences(book.mu, book.mu)
        critical = codebook.pooled(book, first, first + 1, self.divergence).critical
        apart = np.flatnonzero(distance[first, first + 1] >= self._threshold(schedule))
        if self.temperature >= self.entered_at:  # above trace(H C) nothing is unstable
            apart = apart[:0]
        apart = apart[np.argsort(-np.nan_to_num(critical[apart]), kind="stable")]
        if schedule.wanted is not None:
            apart = apart[: max(schedule.room - len(first), 0)]
        assert self.rung is not None
        for i in apart:
            nodes = self._record(int(book.node[2 * i]), float(critical[i]), self.rung)
            book.node[[2 * i, 2 * i + 1]] = nodes
        whole = np.delete(first, apart)
        return codebook.pooled(book, whole, whole + 1, self.divergence)

    def _record(self, parent: int, critical: float, rung: int) -> tuple[int, int]:
        if not critical > 0:  # too few samples to measure it
            critical = self.temperature
        children = (self.next_node, self.next_node + 1)
        self.next_node += 2
        self.splits.append(Split(0, parent, children, critical, rung))
        return children

    def _merge(
        self, book: Codebook, schedule: Schedule, samples: float
    ) -> tuple[Codebook, set[int]]:
        """Join codevectors that are one at this temperature, pairs nearest to each other first.

        Two that were just split rest closer together than strangers do (0.5 T apart at 0.8 T_c for
        a Gaussian), so siblings get the finer threshold. The mean of m samples lies at D/m from
        where it belongs, in many dimensions more than T, so as much of a distance does not count.
        Also returns the nodes whose two sides were joined.
        """
        threshold = self._threshold(schedule)
        stranger = threshold if schedule.paper else 5 * threshold
        together: set[int] = set()
        family = {child: split.parent for split in self.splits for child in split.children}
        while len(book) > 1:
            # In place: of a thousand codevectors each such table is 8 MB.
            distance = self.kernel.divergences(book.mu, book.mu)
            np.minimum(distance, distance.T, out=distance)
            if schedule.looks_along_axes:
                known = codebook.zero_for_nan(book.distortion)
                chance = known / np.maximum(samples * book.rho, 1.0)
                distance -= chance[:, None]
                distance -= chance
            np.fill_diagonal(distance, np.inf)
            if distance.min() >= max(threshold, stranger):
                break
            mother = np.array([family.get(node, -1) for node in book.node.tolist()])
            siblings = (mother[:, None] == mother) & (mother >= 0)
            ratio = distance
            ratio /= np.where(siblings, threshold, stranger)
            nearest, here = ratio.argmin(axis=1), np.arange(len(book))
            mutual = (nearest[nearest] == here) & (here < nearest)
            first = np.flatnonzero(mutual & (ratio.min(axis=1) < 1))
            if not len(first):
                break
            second = nearest[first]
            for i, j in zip(first.tolist(), second.tolist(), strict=True):
                if siblings[i, j]:  # the split is taken back: nobody descends from it
                    book.node[[i, j]] = parent = family[int(book.node[i])]
                    together.add(parent)
            book = codebook.pooled(book, first, second, self.divergence)
        return book, together

    def unstable(
        self, book: Codebook, T: float, bound: float, schedule: Schedule, errors: float = 1.0
    ) -> NDArray[np.int64]:
        """Codevectors unstable at the temperature ``bound``, hottest first, that may split at T.

        They are so by as many standard errors.
        """
        if schedule.split == "perturb" or not schedule.splitting:
            return np.empty(0, dtype=np.int64)
        if T >= self.entered_at:  # above trace(H C) nothing is unstable
            return np.empty(0, dtype=np.int64)
        found = np.flatnonzero(self.unstable_below(book, errors) > bound)
        if len(found) < 2:
            return found
        return found[np.argsort(-self.unstable_below(book, 0.0)[found], kind="stable")]

    def unstable_below(self, book: Codebook, errors: float = 1.0) -> Array:
        """The temperature each is unstable below, less so many standard errors.

        Of a few rows none may have measured the variance along the axis, or too few to say anything
        of it. But the largest eigenvalue of H C is at least their mean, which needs no axis: to
        second order 2 E d(x, mu)/d.
        """
        along = book.critical - errors * book.error
        least = codebook.zero_for_nan(2 * book.distortion / self.dimensions)
        return np.where(book.error < 0.5 * book.critical, along, least)

    def divided(self, book: Codebook, chosen: NDArray[np.int64], rung: int, T: float) -> Codebook:
        """The codebook that level ``rung``, at T, starts from: the chosen ones have split.

        The largest of many estimates is too large by chance. What was not found to be unstable on
        the level before is said to have become so below its temperature.
        """
        if not len(chosen):
            return book
        first, before = self.next_node, self.temperature
        sure = self.unstable_below(book)
        critical = np.fmax(book.critical, sure)
        if rung != self.rung:
            critical = np.where(sure > before, critical, np.minimum(critical, before))
        for i in chosen:
            self._record(int(book.node[i]), float(critical[i]), rung)
        return codebook.split(book, chosen, T, self.divergence, self.low, self.high, first)

    def size(self, rung: int) -> int:
        """Number of codevectors on that rung."""
        return len(self.levels[rung].book) if rung in self.levels else 1

    def at(self, rung: int) -> ClassLevel:
        """The class as it was on that rung of its own path.

        Above its own T_max, and while it warms up, a class is one codevector at its mean, with a
        distortion of half its unit of temperature (exactly so for the squared Euclidean one).
        """
        if rung in self.levels:
            return self.levels[rung]
        if self.rung is None:
            unit, samples = self.unit(), int(self.run.count)
        else:
            unit, samples = self.entered_at, self.warm_up
        return ClassLevel(self._one_codevector(), samples, 0.5 * unit, 0.0)

    def _one_codevector(self) -> Codebook:
        """The class before its first level."""
        mean = self.moments()[0]
        if self.rung is None:
            mean = np.clip(mean, *self.divergence.bounds(mean))
        return codebook.single(mean, np.zeros(self.d))

    def current(self) -> Codebook:
        """The codebook as it tracks after the last level, before that of the newest level."""
        if not self.tracking:
            newest = self.newest()
            return self.levels[newest].book if newest in self.levels else self._one_codevector()
        assert self.book is not None
        state = self.read()
        rho = state["r"] * state["g"]
        return replace(self.book, mu=state["mu"], rho=rho / rho.sum())

    def newest(self) -> int:
        """The coldest rung the class can be read on."""
        return max(self.levels, default=self.first_rung - 1)

    def track(
        self,
        book: Codebook,
        rung: int,
        T: float,
        schedule: Schedule,
        levels: bool,
        known: float | None = None,
    ) -> None:
        """From now on follow the samples at T with this codebook, its size fixed."""
        self.tracking = True
        if levels:  # the path ends on this rung
            self.levels = {k: level for k, level in self.levels.items() if k <= rung}
            self.splits = [split for split in self.splits if split.level <= rung]
        self.begin(book, rung, T, schedule, known=known)

    # -- reheating -----------------------------------------------------------------------------

    def await_samples(self, rung: int, schedule: Schedule) -> None:
        """Track on as it is until a few samples have come, then go on from that rung."""
        book = self.current()
        self.tracking, self.reheated_to = True, rung
        assert self.rung is not None
        self.begin(book, self.rung, self.temperature, schedule, tracked=SAMPLES_TO_RESUME)

    def resume(self, T: float, schedule: Schedule) -> None:
        """Go on from the rung it was reheated to, codevectors split since then joined again."""
        rung = self.reheated_to
        book = self.current()
        if rung in self.levels:
            book = self._as_on(self.levels[rung].book, book)
        self.levels = {k: level for k, level in self.levels.items() if k < rung}
        self.splits = [split for split in self.splits if split.level <= rung]
        self.tracking, self.held, self.fixed = False, 0, 0
        self.begin(book, rung, T, schedule)

    def _as_on(self, before: Codebook, book: Codebook) -> Codebook:
        """The codevectors of today's book joined as they were in an earlier one."""
        place = {node: i for i, node in enumerate(before.node.tolist())}
        mother = {child: split.parent for split in self.splits for child in split.children}
        group = []
        for i, node in enumerate(book.node.tolist()):
            while node not in place and node in mother:
                node = mother[node]
            if node not in place:  # split and taken back: with the nearest
                distance = self.kernel.divergences(book.mu[i : i + 1], before.mu)
                node = int(before.node[distance.argmin()])
            group.append(place[node])
        present, member = np.unique(group, return_inverse=True)
        share = (member == np.arange(len(present))[:, None]) * (book.rho + 1e-300)
        weight = share.sum(axis=1)
        mu = np.clip(share @ book.mu / weight[:, None], self.low, self.high)
        kept = before.take(present)
        unknown = np.full(len(present), np.nan)
        return replace(
            kept,
            mu=mu,
            rho=weight,
            memory=np.zeros(len(present)),
            resting_memory=np.zeros(len(present)),
            critical=unknown,
            error=unknown,
            mass=np.zeros(len(present)),
        )
