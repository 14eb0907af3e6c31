"""The kernel that runs every divergence, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels.protocol import (
    MEASURES,
    TURNS,
    ClassIndices,
    Integers,
    Kernel,
    LevelRun,
    Roles,
    Rows,
    Run,
    RunSettings,
    SampleFormat,
    State,
)
from annealed.kernels.reference.associate import (
    associate,
    divergences,
    exponent,
    hard_sums,
    losses,
)
from annealed.kernels.reference.level import WarmUp, presented
from annealed.kernels.reference.nearest import Nearest
from annealed.kernels.reference.online import Level
from annealed.kernels.reference.soft_lvq import SoftLVQ
from annealed.kernels.reference.winner import Winner

BOTH = TURNS | MEASURES


class ReferenceKernel(Kernel):
    """The NumPy kernel of any divergence.

    Parameters
    ----------
    divergence : BregmanDivergence
    """

    def __init__(self, divergence: BregmanDivergence) -> None:
        self.divergence = divergence

    # -- learning ------------------------------------------------------------------------------

    def begin_warm_up(self, d: int, at_least: int) -> WarmUp:
        return WarmUp(d, at_least, self.divergence.matrix)

    def begin_level(
        self,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> Level:
        return Level(self.divergence, mu, rho, axis, memory, settings, low, high)

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
    ) -> SoftLVQ:
        return SoftLVQ(
            self.divergence, mu, bias, sharpness, relevance, first_of, unit, settings, low, high
        )

    def begin_nearest(
        self,
        start: Array,
        room: int,
        classes: int,
        settings: RunSettings,
        low: Array,
        high: Array,
    ) -> Nearest:
        return Nearest(self.divergence, start, room, classes, settings, low, high)

    def begin_winner(
        self, mu: Array, classes: ClassIndices, settings: RunSettings, low: Array, high: Array
    ) -> Winner:
        return Winner(self.divergence, mu, classes, settings, low, high)

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
        own = [_own(run) for run in runs]
        for k, x, c, w in presented(X, order, classes, weights, begin, end):
            run = own[c]
            run.seen += w
            role = BOTH if roles is None else int(roles[k if order is None else order[k]])
            run.step(x, w, role)
            if run.done:
                return k + 1
        return end

    def read(self, run: Run) -> State:
        return run.read()

    # -- one sample at a time: each is looked at --------------------------------------------------

    def sample_format(self, keys: tuple[Any, ...] | None) -> None:
        return None

    def begin_stream(self, sample_format: SampleFormat, *parts: Any) -> None:
        return None

    # -- reading -------------------------------------------------------------------------------

    def divergences(self, X: Rows, mu: Array, relevance: Array | None = None) -> Array:
        return divergences(self.divergence, X, mu, relevance)

    def assign(self, X: Rows, mu: Array, log_weight: Array, T: float) -> Integers:
        return np.asarray(exponent(self.divergences(X, mu), log_weight, T).argmax(axis=1))

    def assign_groups(
        self, X: Rows, mu: Array, log_weight: Array, T: float, group: Integers, groups: int
    ) -> Integers:
        shares = self.associate(X, mu, log_weight, T, group, groups)[0]
        return np.asarray(shares.argmax(axis=1))

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
        d = self.divergences(X, mu, relevance)
        return associate(d, log_weight, T, group, groups, sharpness)

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
        return losses(self.divergences(X, mu), classes, log_weight, T, group, factors)

    def hard_sums(
        self, X: Rows, mu: Array, weights: Array | None
    ) -> tuple[Array, Array, Integers, float]:
        return hard_sums(self.divergences(X, mu), X, weights)


def _own(run: LevelRun) -> WarmUp | Level:
    if not isinstance(run, WarmUp | Level):
        raise TypeError(f"a {type(run).__name__} was begun by another kernel")
    return run
