"""The twin of cpp/soft_lvq.hpp: soft LVQ."""

from __future__ import annotations

import numpy as np

from annealed.divergences import Array, BregmanDivergence, Separable, SquaredEuclidean
from annealed.kernels.protocol import ClassIndices, Integers, Rows, RunSettings, State
from annealed.kernels.reference.level import presented

# A codevector that is wrong or right about a sample by less does not hear of it.
LEAST_BLAME = 1e-6


class SoftLVQ:
    """Soft LVQ as cpp/soft_lvq.hpp has it, one sample at a time."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        bias: Array,
        sharpness: Array,
        relevance: Array,
        first_of: Integers,
        unit: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> None:
        self.matrix = divergence.matrix
        # Adam's steps depend on the coordinates: those of the kernel, x L, where there is an L.
        self.divergence = divergence if self.matrix is None else SquaredEuclidean()
        self.first_of, self.unit, self.settings = first_of, unit, settings
        self.low, self.high = low, high
        self.updates, self.waiting = 0, 0
        mu = mu if self.matrix is None else mu @ self.matrix
        start = {"mu": mu, "bias": bias, "sharpness": sharpness, "relevance": relevance}
        self.value = {name: np.array(value, dtype=float) for name, value in start.items()}
        self.mean = {name: value.copy() for name, value in self.value.items()}
        self.gradient, self.first, self.second = (
            {name: np.zeros_like(value) for name, value in self.value.items()} for _ in range(3)
        )

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
        answers = np.zeros((end - begin if answer else 0, len(self.first_of) - 1))
        for k, x, c, w in presented(X, order, classes, weights, begin, end):
            x = x if self.matrix is None else x @ self.matrix
            if answer and averaged:
                answers[k - begin] = self._answer(self._measure(x, self.mean)[2])
            posterior = self._step(x, c, w)
            if answer and not averaged:
                answers[k - begin] = posterior
        return answers

    def _measure(self, x: Array, of: dict[str, Array]) -> tuple[Array, Array, Array]:
        """Terms of the divergences by feature, if there are any, divergences, and s."""
        terms, mu = np.empty(0), of["mu"]
        if isinstance(self.divergence, Separable):
            terms = self.divergence.terms(x, mu)
            d = terms @ np.exp(of["relevance"])
        else:
            d = self.divergence.pairwise(x[None, :], mu)[0]
        d = np.maximum(d, 0.0)
        return terms, d, of["bias"] - np.exp(of["sharpness"]) / self.settings["T"] * d

    def _answer(self, s: Array) -> Array:
        e = np.exp(s - s.max())
        return np.asarray(np.add.reduceat(e, self.first_of[:-1]) / e.sum())

    def _step(self, x: Array, y: int, w: float) -> Array:
        terms, d, s = self._measure(x, self.value)
        posterior = self._answer(s)
        if self.settings["rate"] == 0:
            return posterior
        mu, beta = self.value["mu"], np.exp(self.value["sharpness"]) / self.settings["T"]
        relevance = np.exp(self.value["relevance"])
        e = np.exp(s - s.max())
        own = slice(self.first_of[y], self.first_of[y + 1])
        mine = np.exp(s[own] - s[own].max())
        g = -e / e.sum()
        g[own] += mine / mine.sum()
        g = np.where(np.abs(w * g) > LEAST_BLAME, w * g, 0.0)
        self.gradient["mu"] += (g * beta)[:, None] * relevance * (x - mu)
        self.gradient["bias"] += g
        self.gradient["sharpness"] -= g * beta * d
        if self.settings["relevances"]:
            self.gradient["relevance"] -= (g * beta) @ terms * relevance
        self.waiting += 1
        if self.waiting == self.settings["batch"]:
            self._update()
        return posterior

    def _update(self) -> None:
        self.updates += 1
        self.waiting = 0
        if not self.settings["temperatures"]:
            self.gradient["sharpness"][:] = self.gradient["sharpness"].sum()
        self.gradient["mu"] *= self.unit
        for name, value in self.value.items():
            if name == "relevance" and not self.settings["relevances"]:
                continue
            g = self.gradient[name] / self.settings["batch"]
            self.first[name] += 0.1 * (g - self.first[name])
            self.second[name] += 0.01 * (g**2 - self.second[name])
            first = self.first[name] / (1 - 0.9**self.updates)
            second = self.second[name] / (1 - 0.99**self.updates)
            # In single precision, as the compiled kernel does: a step needs no more digits.
            single = np.sqrt(second.astype(np.float32)) + np.float32(1e-8)
            step = (self.settings["rate"] * first).astype(np.float32) / single
            if name == "mu":
                value[:] = self.divergence.moved(value, self.unit * step)
                value[:] = np.clip(value, self.low, self.high)
            else:
                value += step
            self.gradient[name][:] = 0.0
        share = max(4 / (self.updates + 3), self.settings["recent"])
        for name, value in self.value.items():
            moved = value != self.mean[name]  # a prior of 0 is a bias of -inf
            self.mean[name][moved] += share * (value[moved] - self.mean[name][moved])

    def shift(self, by: Array) -> None:
        self.value["bias"] += by
        self.mean["bias"] += by

    def state(self) -> State:
        state: State = {
            f"{kind}_{name}": array.copy()
            for kind in ("value", "mean", "gradient", "first", "second")
            for name, array in getattr(self, kind).items()
        }
        return state | {"updates": self.updates, "waiting": self.waiting}

    def read(self) -> State:
        state: State = {name: value.copy() for name, value in self.mean.items()}
        if self.matrix is not None:
            state["mu"] = np.linalg.solve(self.matrix.T, state["mu"].T).T
        return state

    def restore(self, state: State) -> None:
        for kind in ("value", "mean", "gradient", "first", "second"):
            for name, array in getattr(self, kind).items():
                array[:] = state[f"{kind}_{name}"]
        self.updates, self.waiting = state["updates"], state["waiting"]
