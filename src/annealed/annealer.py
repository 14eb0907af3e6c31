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
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from annealed import codebook as cold
from annealed.codebook import Codebook
from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Level, Split

NEVER = np.iinfo(np.int64).max
# Rows presented per call of the kernel are limited by work, so that Ctrl-C is heard in time.
WORK_PER_CALL = 20_000_000


@dataclass(frozen=True)
class Schedule:
    """Every number that decides how a class is annealed.

    ``absolute`` thresholds (epsilon_c, epsilon_n, delta) are the paper's constants times
    Delta_S d; otherwise they are multiples of T (delta: of its square root).
    """

    split: str = "variance"
    T_max: float | None = None
    T_min: float | None = None
    gamma: float = 0.8
    K_max: int = 100
    stop_at: int | None = None  # grow to exactly this many codevectors, then cool on
    epsilon_c: float = 0.01
    epsilon_n: float = 0.1
    epsilon_r: float = 1e-7
    delta: float = 0.1
    alpha: tuple[float, float] = (1.0, 0.9)
    alpha_min: float = 0.0
    samples_per_codevector: int = 20
    patience: int = 5
    absolute: bool = False
    # Weight of the level before, in samples per codevector, when the step size starts anew.
    memory: float = 1.0
    splitting: bool = True


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
        self.warm_up = warm_up
        self.weight = 0.0  # total sample weight seen
        self.samples = 0  # learnt in finished levels
        self.rung: int | None = None  # k of T_k; None while warming up
        self.first_rung = 0
        self.tracking = False
        self.levels: dict[int, ClassLevel] = {}
        self.splits: list[Split] = []
        self.next_node = 1
        self.low = np.full(d, -np.inf)
        self.high = np.full(d, np.inf)
        self.book: Codebook | None = None  # as the current level began
        self.run: Any = self.kernel.warm_up(divergence, d, warm_up)

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
        saved = state.pop("run")
        self.__dict__.update(state)
        self.kernel = kernel_for(self.divergence)
        self.run = self._new_run()
        self.run.restore(saved)

    # -- warming up ----------------------------------------------------------------------------

    def moments(self) -> tuple[Array, Array]:
        """Mean and per-feature variance of the warm-up samples."""
        state = self.kernel.read(self.divergence, self.run)
        return state["mean"], state["squares"] / max(state["weight"], 1e-300)

    def unit(self) -> float:
        """Unit of temperature of the class: trace(H(mean) C)."""
        return self.divergence.unit(*self.moments())

    def enter(self, rung: int, T: float, schedule: Schedule) -> None:
        """Leave the warm-up: one codevector at the mean, on the first rung above T_c."""
        state = self.kernel.read(self.divergence, self.run)
        mean = state["mean"]
        self.low, self.high = self.divergence.bounds(mean)
        mean = np.clip(mean, self.low, self.high)
        self.samples += state["count"]
        self.first_rung = rung
        self.begin(cold.single(mean, state["last"] - mean), rung, T, schedule)

    # -- levels --------------------------------------------------------------------------------

    def begin(self, book: Codebook, rung: int, T: float, schedule: Schedule) -> None:
        """Start the level at T_k from a codebook."""
        self.rung, self.temperature = rung, T
        if schedule.split == "perturb" and schedule.splitting and not self.tracking:
            size = schedule.delta if schedule.absolute else schedule.delta * math.sqrt(T)
            book = cold.perturb(book, size, self.divergence, self.low, self.high)
        self.book = book
        K = len(book)
        at_least = schedule.samples_per_codevector * K
        unit = 1.0 if schedule.absolute else T
        self.run_settings = {
            "T": T,
            "small_step": schedule.epsilon_c * unit,
            "a": schedule.alpha[0],
            "b": schedule.alpha[1],
            "alpha_min": schedule.alpha_min,
            "first_axis": NEVER if self.tracking else at_least // 4,
            "second_axis": NEVER if self.tracking else at_least // 2,
            "at_least": NEVER if self.tracking else at_least,
            "at_most": NEVER if self.tracking else max(50 * at_least, 1000),
            "patience": schedule.patience,
            "n": schedule.memory * K,
        }
        self.run = self._new_run()

    def measured(self) -> Codebook:
        """The codebook as the level has learnt it, with its critical temperatures."""
        assert self.book is not None
        state = self.kernel.read(self.divergence, self.run)
        mass = state["p"]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = state["y"] / mass
            second = state["y2"] / mass
            variance = second - mean**2
            effective = mass**2 / state["p2"]
            error = np.sqrt(np.maximum(state["y4"] / mass - second**2, 0.0) / effective)
            turned = state["turned"] / np.sqrt((state["turned"] ** 2).sum(axis=1, keepdims=True))
            axis = np.where(np.isfinite(turned), turned, state["axis"])
            aside = axis - (axis * state["axis"]).sum(axis=1, keepdims=True) * state["axis"]
            aside /= np.sqrt((aside**2).sum(axis=1, keepdims=True))
        return replace(
            self.book,
            mu=state["mu"],
            rho=state["r"] * state["g"],
            axis=axis,
            aside=np.nan_to_num(aside),
            critical=variance,
            error=error,
            mass=mass,
        )

    def close(self, schedule: Schedule) -> ClassLevel:
        """Finish the level: merge, prune, and say what came out."""
        state = self.run.state()
        book = self.measured()
        assert self.rung is not None
        if schedule.split == "perturb" and schedule.splitting:
            book = self._pairs(book, schedule)
        book = self._merge(cold.prune(book, schedule.epsilon_r), schedule)
        self.samples += state["count"]
        weight = max(state["weight"], 1e-300)
        seen = state["weight"] > 0
        return ClassLevel(
            book=book,
            samples=self.samples,
            distortion=state["distortion"] / weight if seen else math.nan,
            entropy=state["entropy"] / weight if seen else math.nan,
        )

    def _pairs(self, book: Codebook, schedule: Schedule) -> Codebook:
        """Perturbed twins (2i, 2i + 1): one codevector again, or a split."""
        threshold = schedule.epsilon_n * (1.0 if schedule.absolute else self.temperature)
        apart = np.diag(self.kernel.divergences(self.divergence, book.mu[0::2], book.mu[1::2]))
        for i in reversed(range(len(book) // 2)):
            whole = cold.pooled(book, 2 * i, 2 * i + 1, self.divergence)
            if apart[i] < threshold:
                book = whole
                continue
            self._record(int(book.node[2 * i]), float(whole.critical[2 * i]))
            book.node[2 * i : 2 * i + 2] = self.splits[-1].children
        return book

    def _record(self, parent: int, critical: float) -> None:
        assert self.rung is not None
        children = (self.next_node, self.next_node + 1)
        self.next_node += 2
        self.splits.append(Split(0, parent, children, critical, self.rung))

    def _merge(self, book: Codebook, schedule: Schedule) -> Codebook:
        """Join codevectors that are one at this temperature, the closest first.

        Two that were just split rest closer together than strangers do (0.5 T apart at 0.8 T_c for
        a Gaussian), so siblings get the finer threshold.
        """
        if len(book) == 1 or not schedule.splitting:
            return book
        unit = schedule.epsilon_n * (1.0 if schedule.absolute else self.temperature)
        while len(book) > 1:
            distance = self.kernel.divergences(self.divergence, book.mu, book.mu)
            family = {child: split for split in self.splits for child in split.children}
            mother = np.array([family[n].parent if n in family else -1 for n in book.node])
            siblings = (mother[:, None] == mother) & (mother >= 0)
            limit = np.where(siblings, unit, unit if schedule.absolute else 5 * unit)
            ratio = distance / limit
            np.fill_diagonal(ratio, np.inf)
            i, j = np.unravel_index(ratio.argmin(), ratio.shape)
            if ratio[i, j] >= 1:
                break
            i, j = min(i, j), max(i, j)
            undone = family[int(book.node[i])] if siblings[i, j] else None
            heavier = i if book.rho[i] >= book.rho[j] else j
            if undone is not None:  # the split is taken back
                self.splits.remove(undone)
                book.node[heavier] = undone.parent
            book = cold.pooled(book, int(i), int(j), self.divergence)
        return book

    def next_codebook(self, level: ClassLevel, T: float, schedule: Schedule) -> Codebook:
        """The codebook the next level starts from: unstable codevectors have split."""
        book = level.book
        if schedule.split == "perturb" or not schedule.splitting:
            return book
        assert self.rung is not None
        unstable = np.flatnonzero(book.critical - book.error > T)
        unstable = unstable[np.argsort(-book.critical[unstable], kind="stable")]
        if schedule.stop_at is not None:
            unstable = unstable[: max(schedule.stop_at - len(book), 0)]
        if not len(unstable):
            return book
        first = self.next_node
        self.rung += 1
        for i in unstable:
            self._record(int(book.node[i]), float(book.critical[i]))
        self.rung -= 1
        return cold.split(book, unstable, T, self.divergence, self.low, self.high, first)


class Annealer:
    """All classes of a model on one ladder of temperatures.

    Parameters
    ----------
    d : int
        Number of features.
    divergence, schedule
        What to measure with, and every number that decides the course.
    """

    def __init__(self, d: int, divergence: BregmanDivergence, schedule: Schedule) -> None:
        self.d, self.divergence, self.schedule = d, divergence, schedule
        self.classes: list[ClassAnnealer] = []
        self.top: float | None = None  # T_0
        self.last_rung: int | None = None  # where the ladder ends
        self.warned_cap = False
        self.version = 0

    def copy(self) -> Annealer:
        twin = copy.copy(self)
        twin.classes = [state.copy() for state in self.classes]
        return twin

    def add_class(self, warm_up: int | None = None) -> None:
        """A class nobody has seen before: it starts with a warm-up of its own."""
        if warm_up is None:
            warm_up = max(100, 10 * self.d)
        self.classes.append(ClassAnnealer(self.d, self.divergence, warm_up))

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
        order: NDArray[np.int64] | None = None,
    ) -> None:
        """Learn rows in order, cooling whenever a class has converged."""
        at, end = 0, len(X) if order is None else len(order)
        while at < end:
            at = self.advance(X, classes, weights, order, at, end)

    def advance(
        self,
        X: NDArray[Any],
        classes: NDArray[np.int32] | None,
        weights: Array | None,
        order: NDArray[np.int64] | None,
        begin: int,
        end: int,
    ) -> int:
        """Learn rows from ``begin`` until a level ends or some work is done; how far it came."""
        widest = max(len(state.book) if state.book else 1 for state in self.classes)
        end = min(end, begin + max(1, WORK_PER_CALL // (self.d * (widest + 8))))
        kernel = self.classes[0].kernel
        runs = [state.run for state in self.classes]
        stop: int = kernel.learn(runs, X, order, classes, weights, begin, end)
        self.version += 1
        for state in self.classes:
            if state.run.done:
                self._end_of_level(state)
        return stop

    def _end_of_level(self, state: ClassAnnealer) -> None:
        if state.rung is None:
            self._enter(state)
            return
        settings = state.run_settings
        if state.run.count >= settings["at_most"] and not self.warned_cap:
            self.warned_cap = True
            warnings.warn(
                f"a level at T = {state.temperature:.3g} did not converge within "
                f"{settings['at_most']} samples and was ended there (further levels like it "
                "are not reported). A larger epsilon_c ends levels sooner.",
                ConvergenceWarning,
                stacklevel=2,
            )
        rung = state.rung
        level = state.close(self.schedule)
        others = sum(self._size_at(other, rung) for other in self.classes if other is not state)
        assert self.last_rung is not None
        if others + len(level.book) > self.schedule.K_max:
            self._end_ladder(rung - 1)
            return
        state.levels[rung] = level
        T = self.temperature(rung + 1)
        book = state.next_codebook(level, T, self.schedule)
        if rung >= self.last_rung or (
            self.schedule.split == "variance" and others + len(book) > self.schedule.K_max
        ):
            self._end_ladder(rung)
        else:
            state.begin(book, rung + 1, T, self.schedule)

    def _size_at(self, state: ClassAnnealer, rung: int) -> int:
        """Codevectors of a class on a rung; one as long as it has not been there."""
        if rung in state.levels:
            return len(state.levels[rung].book)
        return 1

    def _enter(self, state: ClassAnnealer) -> None:
        unit = state.unit()
        if not unit > 0:  # identical samples so far: nothing to anneal yet
            state.warm_up *= 2
            state.run, seen = state._new_run(), state.run.state()
            state.run.restore({**seen, "done": False})
            return
        schedule = self.schedule
        if self.top is None:
            self.top = 1.25 * unit if schedule.T_max is None else schedule.T_max
            T_min = 4e-4 * self.top if schedule.T_min is None else schedule.T_min
            self.last_rung = max(math.floor(math.log(T_min / self.top) / math.log(schedule.gamma) + 1e-9), 0)
        assert self.last_rung is not None
        wanted = 1.25 * unit if schedule.T_max is None else self.top
        rung = math.floor(math.log(wanted / self.top) / math.log(schedule.gamma) + 1e-9)
        rung = min(rung, self.last_rung)
        state.enter(rung, self.temperature(rung), schedule)

    def _end_ladder(self, rung: int) -> None:
        """The ladder ends at this rung: whoever has finished it tracks from there."""
        assert self.last_rung is not None
        self.last_rung = min(self.last_rung, rung)
        for state in self.classes:
            if state.rung is None or state.tracking:
                continue
            finished = max(state.levels, default=None)
            if finished is None or finished < self.last_rung:
                continue
            state.levels = {k: level for k, level in state.levels.items() if k <= self.last_rung}
            level = state.levels[self.last_rung]
            state.splits = [split for split in state.splits if split.level <= self.last_rung]
            state.tracking = True
            state.begin(level.book, self.last_rung, self.temperature(self.last_rung), self.schedule)

    # -- reading -------------------------------------------------------------------------------

    def path(self) -> AnnealingPath:
        """Every level that all classes have finished."""
        cooling = [state for state in self.classes if state.levels]
        if not cooling:
            return AnnealingPath([], [])
        first = min(min(state.levels) for state in cooling)
        last = min(max(state.levels) for state in cooling)
        weight = np.array([state.weight for state in self.classes])
        levels: list[Level] = []
        for rung in range(first, last + 1):
            levels.append(self._joint(rung, weight, levels[-1] if levels else None))
        splits = [
            replace(split, class_index=index, level=split.level - first)
            for index, state in enumerate(self.classes)
            for split in state.splits
            if split.level <= last
        ]
        return AnnealingPath(levels, sorted(splits, key=lambda split: split.level))

    def _joint(self, rung: int, weight: Array, before: Level | None) -> Level:
        books, index, samples = [], [], 0
        distortion = entropy = total = 0.0
        for c, state in enumerate(self.classes):
            level = state.levels.get(rung) or self._above(state, rung)
            books.append(level.book)
            index.append(np.full(len(level.book), c, dtype=np.int64))
            samples += level.samples
            distortion += weight[c] * level.distortion
            entropy += weight[c] * level.entropy
            total += weight[c]
        classes = np.concatenate(index)
        nodes = np.concatenate([book.node for book in books])
        distortion, entropy = distortion / total, entropy / total
        return Level(
            temperature=self.temperature(rung),
            codevectors=np.concatenate([book.mu for book in books]),
            weights=np.concatenate([book.rho for book in books]),
            classes=classes,
            nodes=nodes,
            parents=self._parents(classes, nodes, before),
            samples=samples,
            distortion=distortion,
            entropy=entropy,
            score=-distortion if len(self.classes) == 1 else math.nan,
        )

    def _above(self, state: ClassAnnealer, rung: int) -> ClassLevel:
        """A class above its own T_max, or still warming up: one codevector at its mean."""
        if state.levels:
            level = state.levels[min(state.levels)]
            return replace(level, book=level.book, samples=0)
        mean, variance = state.moments()
        distortion = float(np.sum(variance))
        return ClassLevel(cold.single(mean, np.zeros(self.d)), state.run.count, distortion, 0.0)

    def _parents(
        self, classes: NDArray[np.int64], nodes: NDArray[np.int64], before: Level | None
    ) -> NDArray[np.int64]:
        if before is None:
            return np.full(len(nodes), -1, dtype=np.int64)
        place = {
            (int(c), int(n)): i
            for i, (c, n) in enumerate(zip(before.classes, before.nodes, strict=True))
        }
        mother = [
            {child: split.parent for split in state.splits for child in split.children}
            for state in self.classes
        ]
        parents = []
        for c, n in zip(classes.tolist(), nodes.tolist(), strict=True):
            while (c, n) not in place and n in mother[c]:
                n = mother[c][n]
            parents.append(place.get((c, n), -1))
        return np.array(parents, dtype=np.int64)
