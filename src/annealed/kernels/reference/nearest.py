"""The twin of cpp/nearest.hpp: nearest neighbours and nearest means at a temperature."""

from __future__ import annotations

import math

import numpy as np

from annealed.divergences import Array, BregmanDivergence, Separable, SquaredEuclidean
from annealed.kernels.protocol import ClassIndices, Integers, Rows, RunSettings, State
from annealed.kernels.reference.level import presented

LEAST_BLAME = 1e-6
REMEMBERED = 200
LEAST_UNIT = 1e-9
WIDEST = 8.0
ARRAYS = "mu", "owner", "born", "log_weight", "relevance", "gradient", "first", "second"
NUMBERS = (
    "sharpness", "log_recency", "nearest", "apart", "seen", "measured", "updates", "waiting", "at"
)  # fmt: skip


class Nearest:
    """Nearest neighbours as cpp/nearest.hpp has them, one sample at a time."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        start: Array,
        room: int,
        classes: int,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> None:
        self.matrix = divergence.matrix
        self.divergence = divergence if self.matrix is None else SquaredEuclidean()
        # Where a divergence is not a sum over features, they cannot be weighed.
        self.settings = settings | {
            "relevances": settings["relevances"] and isinstance(self.divergence, Separable)
        }
        self.start, self.classes, self.low, self.high = start, classes, low, high
        d = len(start)
        self.mu = np.tile(start if self.matrix is None else start @ self.matrix, (room, 1))
        self.owner, self.born = np.full(room, -1.0), np.zeros(room)
        self.log_weight = np.full(room, -np.inf)
        self.relevance = np.zeros(d)
        self.gradient, self.first, self.second = np.zeros((3, d + 2))
        self.sharpness, self.log_recency = 0.0, math.log(settings["recency"])
        self.nearest, self.apart = 0.0, 0.0
        self.seen, self.measured, self.updates, self.waiting, self.at = 0, 0, 0, 0, 0

    @property
    def temperature(self) -> float:
        return max(self.nearest, LEAST_UNIT * self.apart, 1e-300) * math.exp(-self.sharpness)

    @property
    def recency(self) -> float:
        means = self.settings["means"]
        return float(self.settings["recency"]) if means else math.exp(self.log_recency)

    def know_classes(self, n: int) -> None:
        more = n - self.classes
        if more <= 0:
            return
        self.classes = n
        if self.settings["means"]:
            start = self.start if self.matrix is None else self.start @ self.matrix
            self.mu = np.concatenate([self.mu, np.tile(start, (more, 1))])
            self.owner = np.append(self.owner, np.full(more, -1.0))
            self.born = np.append(self.born, np.zeros(more))
            self.log_weight = np.append(self.log_weight, np.full(more, -np.inf))

    def forget(self, kept: int) -> None:
        old = self.seen - self.born > kept
        old &= np.isin(self.owner, self.owner[~old])  # a class not met since keeps its own
        self.owner[old], self.log_weight[old] = -1, -np.inf

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
        answers = np.zeros((end - begin if answer else 0, self.classes))
        for k, x, c, w in presented(X, order, classes, weights, begin, end):
            x = x if self.matrix is None else x @ self.matrix
            if tests:
                posterior = self._test(x, c, w)
                if answer:
                    answers[k - begin] = posterior
            self._take(x, c, w)
        return answers

    def _test(self, x: Array, y: int, w: float) -> Array:
        there = np.flatnonzero(self.owner >= 0)
        if not len(there):
            return np.full(self.classes, 1 / self.classes)
        mu, owner = self.mu[there], self.owner[there].astype(int)
        relevance = np.exp(self.relevance)
        if isinstance(self.divergence, Separable):
            terms = self.divergence.terms(x, mu)
            d = terms @ relevance
        else:
            d = self.divergence.pairwise(x[None, :], mu)[0]
        d = np.maximum(d, 0.0)
        age, beta, r = self.seen - self.born[there], 1 / self.temperature, self.recency
        s = self.log_weight[there] - r * age - beta * d
        e = np.exp(s - s.max())
        share = np.bincount(owner, e, minlength=self.classes)
        posterior = np.minimum(share / e.sum(), 1.0)
        if share[y] > 1e-12 * e.sum():
            g = np.where(owner == y, e / share[y], 0.0) - e / e.sum()
            g = np.where(np.abs(g) > LEAST_BLAME, w * g, 0.0)
            self.gradient[0] -= beta * g @ d
            if not self.settings["means"]:
                self.gradient[1] -= r * g @ age
            if self.settings["relevances"]:
                self.gradient[2:] -= beta * relevance * (g @ terms)
        self.waiting += 1
        if self.waiting == self.settings["batch"]:
            self._update()
        self.measured += 1
        a = max(1 / self.measured, 1 / REMEMBERED)
        self.nearest += a * (d.min() - self.nearest)
        self.apart += a * (d.max() - self.apart)
        return np.asarray(posterior)

    def _update(self) -> None:
        self.updates += 1
        self.waiting = 0
        g = self.gradient / self.settings["batch"]
        self.gradient[:] = 0.0
        self.first += 0.1 * (g - self.first)
        self.second += 0.01 * (g**2 - self.second)
        first = self.first / (1 - 0.9**self.updates)
        second = self.second / (1 - 0.99**self.updates)
        step = self.settings["rate"] * first / (np.sqrt(second) + 1e-8)
        self.sharpness = float(np.clip(self.sharpness + step[0], -WIDEST, WIDEST))
        if not self.settings["means"]:
            begun = math.log(self.settings["recency"])
            low, high = begun - 3, max(begun, 0.0) + 1
            self.log_recency = float(np.clip(self.log_recency + step[1], low, high))
        if self.settings["relevances"]:
            self.relevance = np.clip(self.relevance + step[2:], -WIDEST, WIDEST)

    def _free_place(self) -> int:
        share = len(self.mu) // (2 * self.classes)
        while True:
            i, self.at = self.at, (self.at + 1) % len(self.mu)
            if self.owner[i] < 0 or (self.owner == self.owner[i]).sum() > share:
                return i

    def _take(self, x: Array, y: int, w: float) -> None:
        a, weight = 1.0, w
        if self.settings["means"]:
            i = y
            if self.owner[i] >= 0:
                faded = self.log_weight[i] + self.settings["recency"] * (self.born[i] - self.seen)
                weight = math.exp(faded) + w
                a = w / weight
        else:
            i = self._free_place()
        self.mu[i] = x if a == 1 else self.mu[i] + a * (x - self.mu[i])
        self.mu[i] = np.clip(self.mu[i], self.low, self.high)
        self.owner[i], self.born[i], self.log_weight[i] = y, self.seen, math.log(weight)
        self.seen += 1

    def read(self) -> State:
        there = np.flatnonzero(self.owner >= 0)
        there = there[np.argsort(self.born[there], kind="stable")]
        mu = self.mu[there]
        return {
            "mu": mu if self.matrix is None else np.linalg.solve(self.matrix.T, mu.T).T,
            "classes": self.owner[there],
            "log_weight": self.log_weight[there],
            "age": self.seen - self.born[there],
            "relevance": self.relevance.copy(),
            "temperature": self.temperature,
            "recency": self.recency,
        }

    def state(self) -> State:
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        return arrays | {name: getattr(self, name) for name in NUMBERS}

    def restore(self, state: State) -> None:
        for name in ARRAYS:
            if np.shape(state[name]) != getattr(self, name).shape:
                raise ValueError("saved nearest neighbours have another shape")
            setattr(self, name, np.array(state[name]))
        for name in NUMBERS:
            setattr(self, name, state[name])
