"""What a kernel is: an engine made for one divergence, and the runs it hands out.

A kernel reads (`Kernel.divergences`, `Kernel.associate` and their relatives) and begins runs, which
hold codevectors and move them in place as samples come. A run is begun with everything that decides
it; ``state`` and ``restore`` carry what it has learnt to another run begun in the same way.

Rows come as ``X, order, classes, weights, begin, end``: those ``order[k]`` of X (without order, k)
for k from ``begin`` to before ``end``. A row of weight 0 is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NewType, Protocol

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence

Rows = Any  # an array of float32 or float64, or `SparseRows` of them
Integers = NDArray[np.int64]
ClassIndices = NDArray[np.int32]
# What a row does for the split axes, see `Kernel.learn`.
Roles = NDArray[np.uint8]
TURNS, MEASURES = 1, 2
RunSettings = dict[str, Any]
State = dict[str, Any]
# What a sample must be for a run to take it as it comes; only a kernel looks into it.
SampleFormat = NewType("SampleFormat", object)
# What `StreamRun.learn` tells of a sample.
WRONG, ENDED = 1, 2


class Run(Protocol):
    """What every run has."""

    def state(self) -> State:
        """All of its state as arrays and numbers, in the coordinates of the kernel."""
        ...

    def restore(self, state: State) -> None:
        """Go on from such a state; ValueError if it is that of another shape."""
        ...

    def read(self) -> State:
        """State once samples that are pending are learnt, in coordinates that `Kernel.read` knows.

        The run itself stays as it is.
        """
        ...


class LevelRun(Run, Protocol):
    """One class at one temperature, or warming up for its first; learns by `Kernel.learn`."""

    @property
    def count(self) -> int:
        """Samples learnt."""
        ...

    @property
    def seen(self) -> float:
        """Their weight."""
        ...

    @property
    def done(self) -> bool:
        """Whether the level has converged, or the warm-up has seen enough."""
        ...

    def feed(self, x: Any, sample_format: SampleFormat, w: float, /) -> bool:
        """Learn one sample; False, and nothing learnt, if it is out of the ordinary."""
        ...

    def feed_and_keep(
        self, x: Any, sample_format: SampleFormat, w: float, rows: Array, at: int, /
    ) -> bool:
        """The same, and the sample is written to ``rows[at]``."""
        ...

    def associations(
        self, x: Any, sample_format: SampleFormat, clusters: Integers | None, /
    ) -> Array | None:
        """p(mu_i|x) of one sample; None if it is out of the ordinary or the run cannot say.

        With the ``clusters`` of the codevectors (-1 for none) their sum in each.
        """
        ...


class SoftRun(Run, Protocol):
    """Soft LVQ (cpp/soft_lvq.hpp)."""

    @property
    def updates(self) -> int:
        """Steps taken, of a batch of samples each."""
        ...

    def learn(
        self,
        X: Rows,
        order: Integers | None,
        classes: ClassIndices,
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool = False,
        averaged: bool = False,
        threads: int = 1,
    ) -> Array:
        """Learn rows begin..end; if asked, p(c|x) of each before it was learnt.

        The answers are those of the newest iterate, or of the average that `read` gives. So many
        threads may take part, as far as it is worth their while.
        """
        ...

    def shift(self, by: Array) -> None:
        """Add to the bias of every codevector."""
        ...


class NearestRun(Run, Protocol):
    """Nearest neighbours or nearest means at a temperature (cpp/nearest.hpp)."""

    @property
    def updates(self) -> int:
        """Steps taken, of a batch of samples each."""
        ...

    @property
    def seen(self) -> int:
        """Samples taken in."""
        ...

    def know_classes(self, n: int, /) -> None:
        """There are so many classes from now on."""
        ...

    def forget(self, kept: int, /) -> None:
        """Let go of all samples but the latest few."""
        ...

    def learn(
        self,
        X: Rows,
        order: Integers | None,
        classes: ClassIndices,
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool = False,
        tests: bool = True,
    ) -> Array:
        """Learn rows begin..end; if asked, p(c|x) of each before it was learnt.

        Without ``tests`` they are taken in, and nothing is fitted.
        """
        ...


class WinnerRun(Run, Protocol):
    """Winner takes all: stochastic vector quantization, LVQ1 and GLVQ (cpp/winner.hpp)."""

    @property
    def count(self) -> int:
        """Samples learnt."""
        ...

    @property
    def seen(self) -> float:
        """Their weight."""
        ...

    @property
    def distortion(self) -> float:
        """Sum of w d(x, nearest), each before it was learnt."""
        ...

    @property
    def errors(self) -> float:
        """Weight of the samples whose nearest codevector, before, was of another class."""
        ...

    def learn(
        self,
        X: Rows,
        order: Integers | None,
        classes: ClassIndices | None,
        weights: Array | None,
        begin: int,
        end: int,
    ) -> None:
        """Learn rows begin..end."""
        ...


class StreamRun(Protocol):
    """All that a labelled sample of a stream concerns, in one go (cpp/stream.hpp)."""

    def learn(self, x: Any, y: int, w: float, at: int, /) -> int:
        """Learn one sample of class y: WRONG if it was told wrong before, plus ENDED.

        -1, and nothing learnt, if it is out of the ordinary. In a race the answers go to row
        ``at``.
        """
        ...

    def learn_rows(
        self,
        X: Rows,
        classes: ClassIndices,
        weights: Array | None,
        begin: int,
        end: int,
        at: int,
        /,
    ) -> tuple[int, Array]:
        """Learn rows begin..end until one completes its class's level: how far it came.

        And whether each was told wrong, nan for rows of weight 0. In a race the answers go to rows
        from ``at`` on.
        """
        ...

    def answer(self, x: Any, /) -> Array | None:
        """p(c|x) of one sample; None if it is out of the ordinary or nobody can say."""
        ...

    def likeliest(self, x: Any, /) -> int:
        """Its likeliest class; -1 if it is out of the ordinary or nobody can say."""
        ...


class RecordReader(Protocol):
    """Records of numbers as vectors (cpp/bindings/record.cpp); ``x`` is a dict, list or array.

    None for whatever is out of the ordinary, and nothing learnt.
    """

    def learn(self, x: Any, /) -> Array | None:
        """Learn a record; the vector by what is known then."""
        ...

    def take_back(self) -> None:
        """Statistics as they were before the record learnt last."""
        ...

    def transform(self, x: Any, /) -> Array | None:
        """The vector by what is known."""
        ...


class Kernel(Protocol):
    """An engine for one divergence."""

    divergence: BregmanDivergence

    # -- learning ------------------------------------------------------------------------------

    def begin_warm_up(self, d: int, at_least: int) -> LevelRun:
        """Measure the mean and the variances of a class, until ``at_least`` samples have come."""
        ...

    def begin_level(
        self,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> LevelRun:
        """A level from codevectors, their weights and their split axes.

        ``memory`` is the length of the sum of p y (x - mu) that each axis rests on already.
        ``settings`` are those of LevelSettings (cpp/level.hpp) and "n", the presentations the
        codevectors are taken to have had.
        """
        ...

    def begin_soft_lvq(
        self,
        mu: Array,
        bias: Array,
        sharpness: Array,
        relevance: Array,
        first_of: Integers,
        unit: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> SoftRun:
        """Soft LVQ from codevectors sorted by class.

        ``sharpness`` is log T/T_i, T the unit of temperatures in ``settings``: data twice as large
        is then learnt with the same bits. ``relevance`` is log lambda_j; codevectors of class c
        are those from ``first_of[c]`` to ``first_of[c + 1]``; ``unit`` is the length of a unit step
        in the dual variable, in the kernel's coordinates. A Mahalanobis divergence has no bounds to
        keep. `read` gives the average of the iterates, with which to predict: "mu", "bias",
        "sharpness" and "relevance".
        """
        ...

    def begin_nearest(
        self,
        start: Array,
        room: int,
        classes: int,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> NearestRun:
        """Nearest neighbours, or means of so many classes, with room for so many codevectors.

        ``start`` is a point inside the domain. ``settings``: "rate" and "batch" of the steps,
        "recency" (how much less a sample counts than the next one, at the start), "means" and
        "relevances" (whether features are weighed). `read` gives "mu", "classes", "log_weight" and
        "age" of the codevectors, the oldest first, "relevance" (log lambda_j), "temperature" and
        "recency".
        """
        ...

    def begin_winner(
        self, mu: Array, classes: ClassIndices, settings: RunSettings, low: Array, high: Array
    ) -> WinnerRun:
        """Winner takes all from codevectors and the class index of each.

        ``settings``: "rule" ("vq", "lvq1", "glvq"), "a", "b" and "alpha_min" of the step
        alpha(v) = 1/(a + b v), "n", the updates every codevector is taken to have had (the larger,
        the less it moves), and "scale", a divergence typical of the data (only "glvq" looks at it).
        `read` gives "mu", the "updates" v_i, and the numbers of `WinnerRun`.
        """
        ...

    def learn(
        self,
        runs: Sequence[LevelRun],
        X: Rows,
        order: Integers | None,
        classes: ClassIndices | None,
        weights: Array | None,
        begin: int,
        end: int,
        roles: Roles | None = None,
    ) -> int:
        """Present rows begin..end until one completes its class's run; how far it came.

        There is one run for each class. ``roles`` says of every row whether it turns split axes
        (TURNS), measures the variance along them (MEASURES) or does both, which is for rows that
        come only once.
        """
        ...

    def read(self, run: Run) -> State:
        """State of a run with all its samples learnt, in the coordinates of the data.

        The squared deviations of a warm-up stay in those of the kernel, where a Mahalanobis
        divergence has no cross terms.
        """
        ...

    # -- one sample at a time ------------------------------------------------------------------

    def sample_format(self, keys: tuple[Any, ...] | None) -> SampleFormat | None:
        """What a sample must be to be taken as it comes; None if each has to be looked at.

        ``keys`` are those of dicts, in the order of the features; None for sequences.
        """
        ...

    def begin_stream(
        self,
        sample_format: SampleFormat,
        levels: Sequence[LevelRun],
        before: Array,
        T: float,
        tested: Sequence[SoftRun | NearestRun],
        shares: Array,
        kept: Sequence[NearestRun],
        factor: Array,
        answers: Sequence[NDArray[np.float32]],
        classes: ClassIndices,
        counted: Array,
    ) -> StreamRun | None:
        """Everyone that hears of the samples of a stream; None if each has to be looked at.

        ``levels`` learn the samples of their class, those of ``tested`` are tested on all and then
        learn them, by ``factor`` of the class, those of ``kept`` only take them in. Who has a share
        answers; where nobody has, the levels may at temperature ``T``, if that is above 0, each
        class as likely as the weight of its samples, ``before`` its level and in it. In a race
        ``answers`` of every one tested, ``classes`` and weights ``counted`` are arrays with a row
        for each sample, IN/OUT; otherwise all three are empty.
        """
        ...

    # -- reading -------------------------------------------------------------------------------

    def divergences(self, X: Rows, mu: Array, relevance: Array | None = None) -> Array:
        """d(x, mu) for every row and codevector, features weighed by their relevance."""
        ...

    def assign(self, X: Rows, mu: Array, log_weight: Array, T: float) -> Integers:
        """Index of the codevector with the largest weight exp(-d/T) for every row.

        At T = 0 it is the nearest.
        """
        ...

    def assign_groups(
        self, X: Rows, mu: Array, log_weight: Array, T: float, group: Integers, groups: int
    ) -> Integers:
        """The group of codevectors with the largest sum of weight exp(-d/T) for every row.

        T is above 0.
        """
        ...

    def associate(
        self,
        X: Rows,
        mu: Array,
        log_weight: Array,
        T: float,
        group: Integers,
        groups: int,
        sharpness: Array | None = None,
        relevance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Per row: posterior of every group, log sum weight exp(-d/T_i), expected divergence.

        T_i is T, or T/sharpness_i where that is given.
        """
        ...

    def losses(
        self,
        X: Rows,
        classes: ClassIndices,
        mu: Array,
        log_weight: Array,
        T: float,
        group: Integers,
        factors: Array,
    ) -> Array:
        """The sum over rows of -log p(own class|x) at each of the temperatures T/factor."""
        ...

    def hard_sums(
        self, X: Rows, mu: Array, weights: Array | None
    ) -> tuple[Array, Array, Integers, float]:
        """One pass of hard clustering: weights, sums, labels, total divergence."""
        ...
