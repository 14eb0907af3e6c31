"""The twin of cpp/level.hpp: rows as they are presented, step sizes, and the warm-up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from annealed.divergences import Array
from annealed.kernels.protocol import ClassIndices, Integers, Rows, RunSettings, SampleFormat, State


class Presented(NamedTuple):
    """A sample as it is shown to a run."""

    k: int  # its place in the order of presentation
    x: Array
    c: int  # its class, 0 where there are none
    w: float


def presented(
    X: Rows,
    order: Integers | None,
    classes: ClassIndices | None,
    weights: Array | None,
    begin: int,
    end: int,
) -> Iterator[Presented]:
    """The samples of rows begin..end, less those of weight 0."""
    if not 0 <= begin <= end <= len(X if order is None else order):
        raise IndexError("rows asked for are not in the array")
    if order is not None:
        wanted = order[begin:end]
        if ((wanted < 0) | (wanted >= len(X))).any():
            raise IndexError("the order names rows that are not in the array")
    for k in range(begin, end):
        row = k if order is None else int(order[k])
        w = 1.0 if weights is None else float(weights[row])
        if w > 0:
            c = 0 if classes is None else int(classes[row])
            yield Presented(k, np.asarray(X[row], dtype=float), c, w)


def step_size(settings: RunSettings, n: float, w: float) -> float:
    """The step worth w presentations after n of them: 1 - prod (1 - alpha_{n+k}), k = 1..w."""
    a, b, alpha_min = settings["a"], settings["b"], settings["alpha_min"]
    if w == 1:
        return float(max(1 / (a + b * (n + 1)), alpha_min))
    z, s = n + 1 + (a - 1) / b, 1 / b
    kept = math.lgamma(z + w) - math.lgamma(z + w + s) - math.lgamma(z) + math.lgamma(z + s)
    return max(-math.expm1(kept), -math.expm1(w * math.log1p(-alpha_min)))


class WarmUp:
    """Mean and per-feature variance of a class before its first level (Welford, weighted).

    And trace(C^2), a bound of the largest eigenvalue: E <a, b>^2 for a, b the differences of two
    samples each, divided by sqrt(2).
    """

    def __init__(self, d: int, at_least: int, matrix: Array | None) -> None:
        self.at_least, self.matrix = at_least, matrix
        self.count, self.seen, self.done = 0, 0.0, False
        self.mean, self.squares, self.last = np.zeros(d), np.zeros(d), np.zeros(d)
        self.lowest, self.highest = np.full(d, np.inf), np.full(d, -np.inf)
        self.difference, self.crossed = np.zeros(d), 0.0

    def step(self, x: Array, w: float, role: int) -> None:
        x = x if self.matrix is None else x @ self.matrix
        if self.count % 4 == 1:
            self.difference = x - self.last
        if self.count % 4 == 3:
            self.crossed += float(self.difference @ (x - self.last)) ** 2
        before = x - self.mean
        self.mean += w / self.seen * before
        self.squares += w * before * (x - self.mean)
        self.last[:] = x
        self.lowest, self.highest = np.minimum(self.lowest, x), np.maximum(self.highest, x)
        self.count += 1
        self.done = self.count >= self.at_least

    _arrays = ("mean", "squares", "last", "lowest", "highest", "difference")
    _numbers = ("crossed", "seen", "count", "done")

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        return state | {name: getattr(self, name) for name in self._numbers}

    def read(self) -> State:
        state = self.state()
        if self.matrix is not None:
            for name in ("mean", "last"):
                state[name] = np.linalg.solve(self.matrix.T, state[name])
        return state

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])

    def feed(self, x: Any, sample_format: SampleFormat, w: float, /) -> bool:
        return False  # every sample is looked at

    def feed_and_keep(
        self, x: Any, sample_format: SampleFormat, w: float, rows: Array, at: int, /
    ) -> bool:
        return False

    def associations(self, *_: Any) -> None:
        return None
