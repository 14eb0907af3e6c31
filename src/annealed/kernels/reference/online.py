"""The twin of cpp/online.hpp: one temperature level."""

from __future__ import annotations

from typing import Any

import numpy as np

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels.protocol import MEASURES, TURNS, RunSettings, SampleFormat, State
from annealed.kernels.reference.level import step_size

# Associations below this count as nothing in the sums of a level.
LEAST_ASSOCIATION = 1e-7
# Times an axis turns before it is measured along, a step of power iteration each.
TURNS_OF_A_LEVEL = 3


class Level:
    """One temperature level: eq. (oda_learning1), (oda_learning2) as printed, in (rho, sigma)."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
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
        self.turned = self.axis * memory[:, None]
        self._clear_sums()

    def _clear_sums(self) -> None:
        K = len(self.mu)
        self.p, self.p2 = np.zeros(K), np.zeros(K)
        self.y, self.y2, self.y4 = np.zeros(K), np.zeros(K), np.zeros(K)
        self.mass, self.spread = np.zeros(K), np.zeros(K)
        self.weight = self.distortion = self.entropy = 0.0

    def _steer(self) -> None:
        """Turn the axes when their time has come."""
        since = self.count - self.settings["first_axis"]
        if since < 0:
            return
        if since == 0:
            self._aim()
        stretch = self.settings["second_axis"] - self.settings["first_axis"]
        if 0 < since < stretch and since % max(stretch // TURNS_OF_A_LEVEL, 1) == 0:
            self._turn()
        if since == stretch:
            self._turn()
            self._clear_sums()

    def step(self, x: Array, w: float, role: int) -> None:
        settings, T = self.settings, self.settings["T"]
        if not settings["by_roles"]:
            role = TURNS | MEASURES
        self._steer()
        alpha = step_size(settings, self.n, w)
        self.n += w

        d = np.maximum(self.divergence.pairwise(x[None, :], self.mu)[0], 0.0)
        with np.errstate(divide="ignore"):
            exponent = np.log(self.rho) - d / T
        p = np.exp(exponent - exponent.max())
        p /= p.sum()
        if self.count >= min(settings["first_axis"], settings["second_axis"]):
            self._observe(x, p, d, w, role)

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

    def _observe(self, x: Array, p: Array, d: Array, w: float, role: int) -> None:
        p = np.where(p > LEAST_ASSOCIATION, p, 0.0)
        if self.count < self.settings["first_axis"]:
            role = 0
        difference = x - self.mu
        y = (self.u * difference).sum(axis=1)
        if role & TURNS:
            self.turned += (w * p * y)[:, None] * difference
        if self.count < self.settings["second_axis"]:
            return
        self.mass += w * p
        self.spread += w * p * d
        self.weight += w
        self.distortion += w * float(p @ d)
        self.entropy -= w * float(p @ np.log(np.where(p > 0, p, 1.0)))
        if not role & MEASURES:
            return
        self.p += w * p
        self.p2 += (w * p) ** 2
        self.y += w * p * y
        self.y2 += w * p * y**2
        self.y4 += w * p * y**4

    def _aim(self) -> None:
        """u = H a / sqrt(<a, H a>): the variance of <u, x - mu> is the critical temperature."""
        product = self.divergence.hessian_product(self.mu, self.axis)
        norm = np.sqrt((self.axis * product).sum(axis=1, keepdims=True))
        self.u = np.divide(product, norm, out=np.zeros_like(product), where=norm > 0)

    def _turn(self) -> None:
        norm = np.sqrt((self.turned**2).sum(axis=1))
        seen = norm > 0
        self.axis[seen] = self.turned[seen] / norm[seen, None]
        self._aim()

    _arrays = ("mu", "axis", "u", "p", "p2", "y", "y2", "y4", "mass", "spread", "turned")
    _numbers = ("n", "seen", "count", "streak", "done", "weight", "distortion", "entropy")

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        state |= {name: getattr(self, name) for name in self._numbers}
        return state | {"r": self.rho.copy(), "g": 1.0}

    def read(self) -> State:
        return self.state()

    def restore(self, state: State) -> None:
        for name in self._arrays:
            setattr(self, name, np.array(state[name]))
        for name in self._numbers:
            setattr(self, name, state[name])
        self.rho = np.array(state["r"]) * state["g"]
        self.sigma = self.rho[:, None] * self.mu

    def feed(self, x: Any, sample_format: SampleFormat, w: float, /) -> bool:
        return False  # every sample is looked at

    def feed_and_keep(
        self, x: Any, sample_format: SampleFormat, w: float, rows: Array, at: int, /
    ) -> bool:
        return False

    def associations(self, *_: Any) -> None:
        return None
