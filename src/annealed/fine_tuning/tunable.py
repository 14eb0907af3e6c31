"""Rows with classes, and a path whose levels can be fine-tuned on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array, Geometry
from annealed.fine_tuning.methods import BATCH, SoftTuning, Tuning
from annealed.fine_tuning.model import (
    TEMPERED_ROWS,
    Classes,
    Fits,
    Integers,
    TunedModel,
    as_annealed,
    tempered,
)
from annealed.kernels import SparseRows, dense
from annealed.path import AnnealingPath, Level
from annealed.threads import go_on

# Rows are dealt into this many parts; so many of them are held out in turn that this many rows
# are tested in all, and of every class (or every row once), each part with at most so many rows.
PARTS = 5
TESTED_ROWS = 600
TESTED_OF_A_CLASS = 20
PART_ROWS = 4000
# Rows are put in random order in blocks of at least, and remembered for at most so many places.
SHUFFLED_AT_LEAST = 4096
SHUFFLED_AT_MOST = 1_000_000


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows, their classes and weights, and the log probabilities the classes are to have."""

    X: NDArray[Any]
    classes: Classes
    weights: Array | None
    log_prior: Array

    @property
    def frequency(self) -> Array | None:
        """How often every row is to be met for classes to count as their prior says.

        None where they do as they come.
        """
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        share = np.bincount(self.classes, weights, minlength=len(self.log_prior)) / weights.sum()
        factor = np.exp(self.log_prior) / np.where(share > 0, share, 1.0)
        return None if np.allclose(factor, 1.0, rtol=1e-9) else np.asarray(factor[self.classes])

    @property
    def emphasis(self) -> Array:
        """Weight of every row when classes count as their prior says."""
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        frequency = self.frequency
        return weights if frequency is None else weights * frequency

    @property
    def parts(self) -> int:
        """How many parts to hold out in turn."""
        rarest = np.bincount(self.classes).min()
        needed = max(TESTED_ROWS / len(self.X), TESTED_OF_A_CLASS / max(rarest, 1))
        return min(int(np.ceil(PARTS * needed)), PARTS)

    def held_out(self, parts: int, rng: np.random.Generator) -> list[tuple[Integers, Integers]]:
        """Rows to learn and rows to test, for each of some parts; every class is in the former."""
        part = np.full(len(self.X), -1)
        present = np.ones(len(self.X), dtype=bool) if self.weights is None else self.weights > 0
        dealt = 0
        for c in range(len(self.log_prior)):
            rows = rng.permutation(np.flatnonzero((self.classes == c) & present))
            if len(rows) > 1:  # a class of one row must be learnt
                part[rows] = (dealt + np.arange(len(rows))) % PARTS
                dealt += len(rows)
        splits = []
        for k in range(parts):
            test = np.flatnonzero(part == k)
            if len(test) > PART_ROWS:
                test = np.sort(rng.choice(test, PART_ROWS, replace=False))
            learn = present.copy()
            learn[test] = False
            if len(test):
                splits.append((np.flatnonzero(learn), test))
        return splits


class ReplayableOrder:
    """Rows in random order, over and over; everyone who reads it reads the same order.

    Rows of a class that counts a thousandfold come a thousand times as often. As weights such
    factors would leave fine-tuning to the few steps in which one of them happens to be met.
    """

    def __init__(self, rows: Integers, frequency: Array | None, rng: np.random.Generator) -> None:
        self.rows, self.seed = rows, int(rng.integers(2**63))
        self.reach = None if frequency is None else np.cumsum(frequency[rows])
        self.times = max(SHUFFLED_AT_LEAST // len(rows), 1)  # few rows: several times in a block
        self.length = self.times * len(rows)
        self._blocks: dict[int, Integers] = {}

    def block(self, k: int) -> Integers:
        """The k-th block of the order."""
        found = self._blocks.get(k)
        if found is None:  # several threads may read: whoever comes first finds it out
            if self.length * len(self._blocks) > SHUFFLED_AT_MOST:
                self._blocks.clear()
            found = self._blocks[k] = self._shuffled(np.random.default_rng([self.seed, k]))
        return found

    def _shuffled(self, rng: np.random.Generator) -> Integers:
        if self.reach is None:
            return rng.permuted(np.tile(self.rows, (self.times, 1)), axis=1).ravel()
        # Each row as often as it should be, but for less than one.
        places = (rng.random() + np.arange(self.length)) * (self.reach[-1] / self.length)
        drawn = np.searchsorted(self.reach, places, side="right")
        return rng.permutation(self.rows[np.minimum(drawn, len(self.rows) - 1)])

    def between(self, begin: int, end: int) -> Iterator[tuple[Integers, int, int]]:
        """Blocks, and what to read of each, to go from place ``begin`` to ``end``."""
        while begin < end:
            k, at = divmod(begin, self.length)
            stop = min(self.length, at + end - begin)
            yield self.block(k), at, stop
            begin += stop - at


class TunablePath:
    """A path, and the rows on which its levels are fine-tuned."""

    def __init__(
        self,
        annealer: Annealer,
        path: AnnealingPath,
        labelled: LabelledRows,
        rows: Integers,
        rng: np.random.Generator,
        method: type[Tuning] | None,
    ) -> None:
        self.annealer, self.divergence, self.path = annealer, annealer.divergence, path
        self.method = method or SoftTuning  # of which nothing but the start is then asked
        self.geometry: Geometry = annealer.geometry()
        self.labelled = labelled
        self.shuffled = ReplayableOrder(rows, labelled.frequency, rng)
        few = self.shuffled.block(0)[:TEMPERED_ROWS]
        self._few = np.asarray(labelled.X[few], dtype=float), labelled.classes[few]
        self._levels: dict[int, Level] = {}
        self._started: dict[int, TunedModel] = {}

    def level(self, K: int) -> Level:
        """The level with K codevectors, or as close as the path comes."""
        if K not in self._levels:
            first, last = self.path[0].n_codevectors, self.path[-1].n_codevectors
            self._levels[K] = self.path.codebook(min(max(K, first), last))
        return self._levels[K]

    def start(self, K: int) -> TunedModel:
        """That level at a fitting temperature."""
        if K not in self._started:
            model = as_annealed(self.level(K), self.labelled.log_prior)
            self._started[K] = tempered(model, self.divergence, *self._few)
        return self._started[K]

    def tuning(self, K: int, fits: Fits, *, plain: bool = False) -> Tuning:
        """Fine-tuning about to begin; of rate 0 for a level that stays as annealed."""
        start, n = self.start(K), len(self.labelled.log_prior)
        if plain:
            return SoftTuning(self.divergence, start, n, self.geometry, Fits(), 0.0)
        return self.method(self.divergence, start, n, self.geometry, fits)

    def tune(self, tuning: Tuning, begin: int, end: int) -> None:
        """Learn from step ``begin`` to step ``end``."""
        labelled = self.labelled
        for order, at, stop in self.shuffled.between(begin * BATCH, end * BATCH):
            go_on()
            X, classes, weights = labelled.X, labelled.classes, labelled.weights
            if not isinstance(X, SparseRows):
                tuning.learn(X, order, classes, weights, at, stop)
                continue
            for first in range(at, stop, X.at_a_time):
                rows = order[first : min(first + X.at_a_time, stop)]
                w = None if weights is None else weights[rows]
                tuning.learn(dense(X[rows]), None, classes[rows], w, 0, len(rows))
