"""The paper's learning rule as it is printed, in NumPy, one sample at a time.

It is the oracle the compiled kernel is tested against, and the engine for divergences that users
make. It has the same functions as `annealed.kernels.online`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence, Separable, SquaredEuclidean
from annealed.kernels.running import learn_row, standardised

State = dict[str, Any]
# Associations below this count as nothing in the sums of a level.
LEAST_ASSOCIATION = 1e-9
# A codevector that is wrong or right about a sample by less does not hear of it.
LEAST_BLAME = 1e-6


def step_size(settings: dict[str, Any], n: float, w: float) -> float:
    """The step worth w presentations after n of them: 1 - prod (1 - alpha_{n+k}), k = 1..w."""
    a, b, alpha_min = settings["a"], settings["b"], settings["alpha_min"]
    if w == 1:
        return float(max(1 / (a + b * (n + 1)), alpha_min))
    z, s = n + 1 + (a - 1) / b, 1 / b
    kept = math.lgamma(z + w) - math.lgamma(z + w + s) - math.lgamma(z) + math.lgamma(z + s)
    return max(-math.expm1(kept), -math.expm1(w * math.log1p(-alpha_min)))


class WarmUp:
    """Mean and per-feature variance of a class before its first level (Welford, weighted)."""

    def __init__(self, d: int, at_least: int, matrix: Array | None) -> None:
        self.at_least, self.matrix = at_least, matrix
        self.count, self.seen, self.done = 0, 0.0, False
        self.mean, self.squares, self.last = np.zeros(d), np.zeros(d), np.zeros(d)
        self.lowest, self.highest = np.full(d, np.inf), np.full(d, -np.inf)

    def step(self, x: Array, w: float) -> None:
        x = x if self.matrix is None else x @ self.matrix
        before = x - self.mean
        self.mean += w / self.seen * before
        self.squares += w * before * (x - self.mean)
        self.last[:] = x
        self.lowest, self.highest = np.minimum(self.lowest, x), np.maximum(self.highest, x)
        self.count += 1
        self.done = self.count >= self.at_least

    _arrays = ("mean", "squares", "last", "lowest", "highest")
    _numbers = ("seen", "count", "done")

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        return state | {name: getattr(self, name) for name in self._numbers}

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])


class Level:
    """One temperature level: eq. (oda_learning1), (oda_learning2) as printed, in (rho, sigma)."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        rho: Array,
        axis: Array,
        settings: dict[str, Any],
        low: Array,
        high: Array,
    ) -> None:
        self.divergence, self.settings = divergence, settings
        self.low, self.high = low, high
        self.mu, self.rho, self.axis = mu.copy(), rho.copy(), axis.copy()
        self.sigma = self.rho[:, None] * self.mu
        self.u = np.zeros_like(self.mu)
        self.n, self.seen = settings["n"], 0.0
        self.count, self.streak, self.done = 0, 0, False
        self._clear_sums()

    def _clear_sums(self) -> None:
        K = len(self.mu)
        self.p, self.p2 = np.zeros(K), np.zeros(K)
        self.y, self.y2, self.y4 = np.zeros(K), np.zeros(K), np.zeros(K)
        self.turned = np.zeros_like(self.mu)
        self.weight = self.distortion = self.entropy = 0.0

    def step(self, x: Array, w: float) -> None:
        settings, T = self.settings, self.settings["T"]
        if self.count == settings["first_axis"]:
            self._aim()
        if self.count == settings["second_axis"]:
            self._turn()
        alpha = step_size(settings, self.n, w)
        self.n += w

        d = np.maximum(self.divergence.pairwise(x[None, :], self.mu)[0], 0.0)
        with np.errstate(divide="ignore"):
            exponent = np.log(self.rho) - d / T
        p = np.exp(exponent - exponent.max())
        p /= p.sum()
        if self.count >= settings["first_axis"]:
            self._observe(x, p, d, w)

        self.rho += alpha * (p - self.rho)
        self.sigma += alpha * (x * p[:, None] - self.sigma)
        alive = self.rho > 0
        self.mu[alive] = np.clip(self.sigma[alive] / self.rho[alive, None], self.low, self.high)
        self.sigma = self.rho[:, None] * self.mu
        step = np.divide(alpha * p, self.rho, out=np.zeros_like(p), where=alive)

        self.count += 1
        self.streak = self.streak + 1 if (step**2 * d).max() < settings["small_step"] else 0
        self.done = (
            self.count >= settings["at_least"] and self.streak >= settings["patience"]
        ) or self.count >= settings["at_most"]

    def _observe(self, x: Array, p: Array, d: Array, w: float) -> None:
        p = np.where(p > LEAST_ASSOCIATION, p, 0.0)
        difference = x - self.mu
        y = (self.u * difference).sum(axis=1)
        self.turned += (w * p * y)[:, None] * difference
        if self.count < self.settings["second_axis"]:
            return
        self.p += w * p
        self.p2 += (w * p) ** 2
        self.y += w * p * y
        self.y2 += w * p * y**2
        self.y4 += w * p * y**4
        self.weight += w
        self.distortion += w * float(p @ d)
        self.entropy -= w * float(p @ np.log(np.where(p > 0, p, 1.0)))

    def _aim(self) -> None:
        """u = H a / sqrt(<a, H a>): the variance of <u, x - mu> is the critical temperature."""
        product = self.divergence.hessian_product(self.mu, self.axis)
        norm = np.sqrt((self.axis * product).sum(axis=1, keepdims=True))
        self.u = np.divide(product, norm, out=np.zeros_like(product), where=norm > 0)

    def _turn(self) -> None:
        norm = np.sqrt((self.turned**2).sum(axis=1))
        seen = norm > 0
        self.axis[seen] = self.turned[seen] / norm[seen, None]
        self._clear_sums()
        self._aim()

    _arrays = ("mu", "axis", "u", "p", "p2", "y", "y2", "y4", "turned")
    _numbers = ("n", "seen", "count", "streak", "done", "weight", "distortion", "entropy")

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        state |= {name: getattr(self, name) for name in self._numbers}
        return state | {"r": self.rho.copy(), "g": 1.0}

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])
        self.rho = np.array(state["r"]) * state["g"]
        self.sigma = self.rho[:, None] * self.mu


def warm_up(divergence: BregmanDivergence, d: int, at_least: int) -> WarmUp:
    return WarmUp(d, at_least, divergence.matrix)


def begin(
    divergence: BregmanDivergence,
    mu: Array,
    rho: Array,
    axis: Array,
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> Level:
    return Level(divergence, mu, rho, axis, settings, low, high)


def read(divergence: BregmanDivergence, run: WarmUp | Level | Winner) -> State:
    state = run.state()
    if divergence.matrix is not None and "mean" in state:
        for name in ("mean", "last"):
            state[name] = np.linalg.solve(divergence.matrix.T, state[name])
    return state


def learn(
    runs: list[Any],
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32] | None,
    weights: Array | None,
    begin: int,
    end: int,
) -> int:
    for k in range(begin, end):
        row = k if order is None else int(order[k])
        w = 1.0 if weights is None else float(weights[row])
        if w == 0:
            continue
        run = runs[0 if classes is None else classes[row]]
        run.seen += w
        run.step(np.asarray(X[row], dtype=float), w)
        if run.done:
            return k + 1
    return end


class SoftLVQ:
    """Soft LVQ as cpp/soft_lvq.hpp has it, one sample at a time."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        bias: Array,
        sharpness: Array,
        relevance: Array,
        first_of: NDArray[np.int64],
        unit: Array,
        settings: dict[str, Any],
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
        X: NDArray[Any],
        order: NDArray[np.int64] | None,
        classes: NDArray[np.int32],
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool,
    ) -> Array:
        answers = np.zeros((end - begin if answer else 0, len(self.first_of) - 1))
        for k in range(begin, end):
            row = k if order is None else int(order[k])
            w = 1.0 if weights is None else float(weights[row])
            if w == 0:
                continue
            posterior = self._step(np.asarray(X[row], dtype=float), int(classes[row]), w)
            if answer:
                answers[k - begin] = posterior
        return answers

    def _step(self, x: Array, y: int, w: float) -> Array:
        x = x if self.matrix is None else x @ self.matrix
        mu, beta = self.value["mu"], np.exp(self.value["sharpness"]) / self.settings["T"]
        relevance = np.exp(self.value["relevance"])
        if isinstance(self.divergence, Separable):
            terms = self.divergence.terms(x, mu)
            d = terms @ relevance
        else:
            d = self.divergence.pairwise(x[None, :], mu)[0]
        d = np.maximum(d, 0.0)
        s = self.value["bias"] - beta * d
        e = np.exp(s - s.max())
        posterior = np.add.reduceat(e, self.first_of[:-1]) / e.sum()
        if self.settings["rate"] == 0:
            return np.asarray(posterior)
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
        return np.asarray(posterior)

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
            step = self.settings["rate"] * first / (np.sqrt(second) + 1e-8)
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

    def state(self) -> State:
        state: State = {
            f"{kind}_{name}": array.copy()
            for kind in ("value", "mean", "gradient", "first", "second")
            for name, array in getattr(self, kind).items()
        }
        return state | {"updates": self.updates, "waiting": self.waiting}

    def restore(self, state: State) -> None:
        for kind in ("value", "mean", "gradient", "first", "second"):
            for name, array in getattr(self, kind).items():
                array[:] = state[f"{kind}_{name}"]
        self.updates, self.waiting = state["updates"], state["waiting"]


def sample_format(divergence: BregmanDivergence, keys: tuple[Any, ...] | None) -> None:
    return None  # no run here takes single samples


def begin_soft(
    divergence: BregmanDivergence,
    mu: Array,
    bias: Array,
    sharpness: Array,
    relevance: Array,
    first_of: NDArray[np.int64],
    unit: Array,
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> SoftLVQ:
    return SoftLVQ(divergence, mu, bias, sharpness, relevance, first_of, unit, settings, low, high)


def learn_soft(
    run: SoftLVQ,
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32],
    weights: Array | None,
    begin: int,
    end: int,
    answer: bool = False,
) -> Array:
    return run.learn(X, order, classes, weights, begin, end, answer)


def read_soft(divergence: BregmanDivergence, run: SoftLVQ) -> State:
    state: State = {name: value.copy() for name, value in run.mean.items()}
    if divergence.matrix is not None:
        state["mu"] = np.linalg.solve(divergence.matrix.T, state["mu"].T).T
    return state


def divergences(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, relevance: Array | None = None
) -> Array:
    rows = np.asarray(X, dtype=float)
    if relevance is not None:
        assert isinstance(divergence, Separable)
        columns = [divergence.terms(rows, m) @ relevance for m in mu]
        return np.maximum(np.stack(columns, axis=1), 0.0)
    return np.maximum(divergence.pairwise(rows, mu), 0.0)


def _exponent(d: Array, log_weight: Array, T: float) -> Array:
    """log_weight - d/T, or at T = 0 log_weight for the nearest and -inf for the rest."""
    if T > 0:
        return log_weight - d / T
    possible = np.where(log_weight > -np.inf, d, np.inf)
    return np.where(possible == possible.min(axis=1, keepdims=True), log_weight, -np.inf)


def assign(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, log_weight: Array, T: float
) -> NDArray[np.int64]:
    return np.asarray(_exponent(divergences(divergence, X, mu), log_weight, T).argmax(axis=1))


def associate(
    divergence: BregmanDivergence,
    X: NDArray[Any],
    mu: Array,
    log_weight: Array,
    T: float,
    group: NDArray[np.int64],
    groups: int,
    sharpness: Array | None = None,
    relevance: Array | None = None,
) -> tuple[Array, Array, Array]:
    d = divergences(divergence, X, mu, relevance)
    exponent = _exponent(d if sharpness is None else d * sharpness, log_weight, T)
    highest = exponent.max(axis=1, keepdims=True)
    e = np.exp(exponent - highest)
    total = e.sum(axis=1, keepdims=True)
    p = e / total
    posterior = p @ (group[:, None] == np.arange(groups))
    log_total = (highest + np.log(total))[:, 0] if T > 0 else np.full(len(d), -np.inf)
    return posterior, log_total, (p * d).sum(axis=1)


def losses(
    divergence: BregmanDivergence,
    X: NDArray[Any],
    classes: NDArray[np.int32],
    mu: Array,
    log_weight: Array,
    T: float,
    group: NDArray[np.int64],
    factors: Array,
) -> Array:
    d, own = divergences(divergence, X, mu), group == classes[:, None]
    total = []
    for factor in factors:
        exponent = log_weight - factor * d / T
        mine = np.where(own, exponent, -np.inf)
        total.append((np.logaddexp.reduce(exponent, 1) - np.logaddexp.reduce(mine, 1)).sum())
    return np.array(total)


def hard_sums(
    divergence: BregmanDivergence, X: NDArray[Any], mu: Array, weights: Array | None
) -> tuple[Array, Array, NDArray[np.int64], float]:
    d = divergences(divergence, X, mu)
    labels = d.argmin(axis=1)
    w = np.ones(len(d)) if weights is None else weights
    member = (labels[:, None] == np.arange(len(mu))) * w[:, None]
    nearest = d[np.arange(len(d)), labels]
    return member.sum(axis=0), member.T @ np.asarray(X, dtype=float), labels, float(w @ nearest)


# -- winner takes all ------------------------------------------------------------------------------


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


class Winner:
    """Winner takes all: sVQ, LVQ1 and GLVQ, see `annealed.kernels.online.begin_winner`."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        classes: NDArray[np.int32],
        settings: dict[str, Any],
        low: Array,
        high: Array,
    ) -> None:
        self.divergence, self.settings, self.classes = divergence, settings, np.array(classes)
        self.low, self.high = low, high
        self.mu = np.array(mu, dtype=float)
        self.updates = np.full(len(mu), float(settings["n"]))
        self.count, self.seen, self.distortion, self.errors = 0, 0.0, 0.0, 0.0

    def step(self, x: Array, c: int, w: float) -> None:
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

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])


def begin_winner(
    divergence: BregmanDivergence,
    mu: Array,
    classes: NDArray[np.int32],
    settings: dict[str, Any],
    low: Array,
    high: Array,
) -> Winner:
    return Winner(divergence, mu, classes, settings, low, high)


def compete(
    run: Winner,
    X: NDArray[Any],
    order: NDArray[np.int64] | None,
    classes: NDArray[np.int32] | None,
    weights: Array | None,
    begin: int,
    end: int,
) -> None:
    for k in range(begin, end):
        row = k if order is None else int(order[k])
        w = 1.0 if weights is None else float(weights[row])
        if w > 0:
            c = 0 if classes is None else int(classes[row])
            run.step(np.asarray(X[row], dtype=float), c, w)


__all__ = [
    "assign", "associate", "begin", "begin_soft", "begin_winner", "compete", "divergences",
    "hard_sums", "learn", "learn_soft", "losses", "read", "read_soft", "warm_up",
]  # fmt: skip


# -- preprocessing ---------------------------------------------------------------------------------


def running_standardise(X: Array, count: Array, mean: Array, m2: Array, fill: Array) -> Array:
    Z = np.empty(X.shape)
    for row, x in enumerate(X):
        learn_row(x, count, mean, m2)
        Z[row] = standardised(x, count, mean, m2, fill)
    return Z
