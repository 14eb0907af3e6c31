"""The model that answers: a level, as annealed or fine-tuned, with what is fitted besides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.path import Level
from annealed.stored import State, Vector, require

Classes = NDArray[np.int32]
Integers = NDArray[np.int64]
# Rows that decide the temperature fine-tuning starts from, and the factors of 1/T tried.
TEMPERED_ROWS = 200
FACTORS = 2.0 ** np.arange(-4.0, 2.5, 0.75)


class Fits(NamedTuple):
    """What fine-tuning fits besides the codevectors, their weights and one temperature."""

    temperatures: bool = False
    relevances: bool = False


@dataclass(frozen=True, eq=False)
class TunedModel:
    """A level that has been fine-tuned: p(c|x) ~ sum_{i in c} exp(b_i - d_lambda(x, mu_i)/T_i).

    ``level`` holds the codevectors, their weights within each class, and T; T_i = T/sharpness_i;
    ``relevances`` have mean one.
    """

    level: Level
    bias: Vector
    sharpness: Vector | None = None
    relevances: Vector | None = None

    @classmethod
    def check_stored(cls, state: State) -> None:
        """What was fitted is of the codevectors and features of the level."""
        K, d = state["level"].codevectors.shape
        sharpness, relevances = state["sharpness"], state["relevances"]
        require(len(state["bias"]) == K, "a fine-tuned model has a bias for other codevectors")
        require(sharpness is None or len(sharpness) == K, "temperatures are of other codevectors")
        require(relevances is None or len(relevances) == d, "relevances are of other features")

    def posterior(self, divergence: BregmanDivergence, X: NDArray[Any], classes: int) -> Array:
        """p(c|x) of every row, in the numbering of the level's classes."""
        level = self.level
        posterior, _, _ = kernel_for(divergence).associate(
            X, level.codevectors, self.bias, level.temperature, level.classes, classes,
            self.sharpness, self.relevances,
        )  # fmt: skip
        return posterior


class Calibration(NamedTuple):
    """Makes probabilities of classes those that rows held out bear out.

    power : they are raised to it, and normalised again
    doubt : a share of the answer that is the same for every class; no answer is beyond it
    """

    power: float = 1.0
    doubt: float = 0.0

    def __call__(self, posterior: Array, possible: NDArray[np.bool_] | None = None) -> Array:
        """The probabilities of every row; which class is first does not change.

        Classes that are not ``possible``, having no weight, stay so.
        """
        power, doubt = self
        if power != 1:
            posterior = posterior**power
            posterior = posterior / posterior.sum(axis=1, keepdims=True)
        if doubt > 0:
            even = 1 / posterior.shape[1] if possible is None else possible / possible.sum()
            posterior = (1 - doubt) * posterior + doubt * even
        return posterior


NO_CALIBRATION = Calibration()


def as_annealed(level: Level, log_prior: Array) -> TunedModel:
    """A level before any fine-tuning."""
    return TunedModel(level, level.log_weights + log_prior[level.classes])


def tempered(
    model: TunedModel, divergence: BregmanDivergence, X: NDArray[Any], classes: Classes
) -> TunedModel:
    """The model at the temperature that gives rows their own class most surely.

    An annealed level's T says how finely it sees, not how sure it is.
    """
    level = model.level
    loss = kernel_for(divergence).losses(
        X, classes, level.codevectors, model.bias, level.temperature, level.classes, FACTORS
    )
    # Where rows are told apart without doubt the loss falls for ever: the hottest that is as good.
    factor = float(FACTORS[int(np.argmax(loss <= np.nanmin(loss) + 1))])
    return replace(model, level=replace(level, temperature=level.temperature / factor))
