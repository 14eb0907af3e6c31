"""The twin of cpp/winner.hpp: winner takes all."""

from __future__ import annotations

import numpy as np

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels.protocol import ClassIndices, Integers, Rows, RunSettings, State
from annealed.kernels.reference.level import presented, step_size


class Winner:
    """Winner takes all: sVQ, LVQ1 and GLVQ."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        classes: ClassIndices,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> None:
        self.divergence, self.settings, self.classes = divergence, settings, np.array(classes)
        self.low, self.high = low, high
        self.mu = np.array(mu, dtype=float)
        self.updates = np.full(len(mu), float(settings["n"]))
        self.count, self.seen, self.distortion, self.errors = 0, 0.0, 0.0, 0.0

    def learn(
        self,
        X: Rows,
        order: Integers | None,
        classes: ClassIndices | None,
        weights: Array | None,
        begin: int,
        end: int,
    ) -> None:
        for _, x, c, w in presented(X, order, classes, weights, begin, end):
            self._learn_one(x, c, w)

    def _learn_one(self, x: Array, c: int, w: float) -> None:
        d = np.maximum(self.divergence.pairwise(x[None, :], self.mu)[0], 0.0)
        self.count += 1
        self.seen += w
        if self.settings["rule"] == "glvq":
            self._glvq(x, c, w, d)
            return
        winner = int(d.argmin())
        agrees = self.settings["rule"] == "vq" or self.classes[winner] == c
        self.distortion += w * float(d[winner])
        self.errors += 0.0 if agrees else w
        self._move(winner, x, self._step(winner, w), agrees)

    def _glvq(self, x: Array, c: int, w: float, d: Array) -> None:
        own, other = np.where(self.classes == c, d, np.inf), np.where(self.classes != c, d, np.inf)
        plus, minus = int(own.argmin()), int(other.argmin())
        d_own, d_other = float(own[plus]), float(other[minus])
        self.distortion += w * min(d_own, d_other)
        self.errors += 0.0 if d_own <= d_other else w
        total = d_own + d_other
        if not 0 < total < np.inf:
            return
        rate = 4 * self.settings["scale"] / total
        attract, repel = rate * (d_other / total), rate * (d_own / total)
        self._move(plus, x, min(attract * self._step(plus, w), 1.0), True)
        self._move(minus, x, min(repel * self._step(minus, w), 1.0), False)

    def _step(self, i: int, w: float) -> float:
        alpha = step_size(self.settings, float(self.updates[i]), w)
        self.updates[i] += w
        return alpha

    def _move(self, i: int, x: Array, c: float, attracts: bool) -> None:
        mu = self.mu[i]
        step = c * (x - mu)
        moved = mu + step if attracts else _repelled(self.divergence, mu, -step)
        self.mu[i] = np.clip(moved, self.low, self.high)

    _arrays = ("mu", "updates")
    _numbers = ("count", "seen", "distortion", "errors")

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        return state | {name: getattr(self, name) for name in self._numbers}

    def read(self) -> State:
        return self.state()

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])


def _repelled(divergence: BregmanDivergence, mu: Array, delta: Array) -> Array:
    """grad phi*(grad phi(mu) + H(mu) delta), wherever grad phi* is known."""
    name = divergence.kernel
    with np.errstate(over="ignore", under="ignore"):
        if name == "squared_euclidean":  # and Mahalanobis: phi is quadratic
            return np.asarray(mu + delta)
        if name == "i_divergence":
            moved = mu * np.exp(delta / mu)
            return np.asarray(moved / moved.sum() if divergence.simplex else moved)
        if name == "itakura_saito":
            return np.asarray(mu / (1 - np.minimum(delta / mu, 0.5)))
        if name == "logistic":
            exponent = np.log(mu / (1 - mu)) + delta / (mu * (1 - mu))
            return np.asarray(1 / (1 + np.exp(-exponent)))
    # A user's phi comes without grad phi*: a straight step, halved until it stays inside.
    for _ in range(60):
        moved = mu + delta
        if ((moved > divergence.low) & (moved < divergence.high)).all():
            return np.asarray(moved)
        delta = delta / 2
    return mu
