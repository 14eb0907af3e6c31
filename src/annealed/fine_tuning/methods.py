"""After the anneal: LVQ of three kinds, and the model it leaves.

The paper asks for "an LVQ algorithm or some other local model" once the temperature has reached its
end. Soft LVQ (robust soft LVQ, Seo and Obermayer 2003) climbs the log posterior of the samples' own
classes, starting where the annealing ended; the kernel has the gradient (cpp/soft_lvq.hpp). LVQ1
and GLVQ move nothing but the nearest codevectors (cpp/winner.hpp).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import (
    Array,
    BregmanDivergence,
    Geometry,
    KullbackLeibler,
    check_matrix,
)
from annealed.fine_tuning.model import Classes, Fits, Integers, TunedModel
from annealed.fine_tuning.runner import Runner
from annealed.kernels.protocol import Kernel, Run, SoftRun, WinnerRun
from annealed.stored import Amount, Positive, State, Stored, StoredAs, one_width, require
from annealed.threads import threads_for

# Samples per step, and its length in units of each parameter's spread (see docs/notation.md).
BATCH = 16
RATE = 0.05
# Once this many steps are averaged, older ones fade: what a stream fine-tunes can follow it, the
# faster where it is expected to change.
WINDOW = 4000
CHANGING_WINDOW = 500


@dataclass(eq=False, repr=False)
class Tuning(Runner):
    """Fine-tuning that goes on as samples come.

    Parameters
    ----------
    divergence : BregmanDivergence
    start : TunedModel
        Where to begin; its codevectors lie sorted by class.
    n_classes : int
    geometry : Geometry
    fits : Fits
    rate : float
        0 only tests: the model stays as it is.
    window : int
        Steps whose average is the model; older ones fade (soft LVQ only).
    """

    divergence: BregmanDivergence
    start: TunedModel
    n_classes: Positive
    geometry: Geometry
    fits: Fits
    rate: Amount = RATE
    window: Positive = WINDOW
    kernel: Annotated[Kernel, Stored.NEVER] = field(init=False)
    run: Annotated[Any, StoredAs(State)] = field(init=False)

    @classmethod
    def check_stored(cls, state: State) -> None:
        """It began with codevectors of every class, sorted by class."""
        level, n_classes = state["start"].level, state["n_classes"]
        classes = np.unique(level.classes)
        require(
            len(classes) == n_classes == level.classes.max() + 1
            and (np.diff(level.classes) >= 0).all(),
            "a fine-tuning has codevectors of other classes",
        )
        d = level.codevectors.shape[1]
        one_width("a fine-tuning", d, *state["geometry"])
        check_matrix(state["divergence"], d)

    @abstractmethod
    def _new_run(self) -> Run:
        """The kernel's side of it, before the first sample."""

    @property
    def n_codevectors(self) -> int:
        """Codevectors there are."""
        return self.start.level.n_codevectors

    @property
    def work_per_row(self) -> int:
        return self.start.level.codevectors.size

    @abstractmethod
    def model(self) -> TunedModel:
        """The model as it stands."""

    def answers(self, X: NDArray[Any]) -> Array:
        """p(c|x) of every row as the model stands."""
        return self.model().posterior(self.divergence, X, self.n_classes)

    def shift(self, log_odds: Array) -> None:
        """Have p(c|x) multiplied by exp of the number of its class, and normalised again."""
        bias = self.start.bias + log_odds[self.start.level.classes]
        self.start = replace(self.start, bias=bias)


class SoftTuning(Tuning):
    """Soft LVQ."""

    run: Annotated[SoftRun, StoredAs(State)] = field(init=False)

    def _new_run(self) -> SoftRun:
        start, level = self.start, self.start.level
        sharpness = np.ones(level.n_codevectors) if start.sharpness is None else start.sharpness
        relevances = (
            np.ones(level.codevectors.shape[1]) if start.relevances is None else start.relevances
        )
        settings = {
            "rate": self.rate,
            "batch": BATCH,
            "temperatures": self.fits.temperatures,
            "relevances": self.fits.relevances,
            "T": level.temperature,
            "recent": 4 / self.window,
        }
        return self.kernel.begin_soft_lvq(
            level.codevectors, start.bias, np.log(sharpness), np.log(relevances),
            np.searchsorted(level.classes, np.arange(self.n_classes + 1)),
            self.geometry.unit, settings, self.geometry.low, self.geometry.high,
        )  # fmt: skip

    def _learn(
        self,
        X: NDArray[Any],
        order: Integers | None,
        classes: Classes,
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool,
    ) -> Array:
        threads = threads_for((end - begin) * self.work_per_row)
        # What is answered is what `model` would say: the average of the steps, not the newest.
        return self.run.learn(X, order, classes, weights, begin, end, answer, answer, threads)

    def averaging(self, window: int) -> Self:
        """A twin whose model is the average of so many steps."""
        state = self.__getstate__() | {"window": window}
        twin = object.__new__(type(self))
        twin.__setstate__(state)
        return twin

    @property
    def steps(self) -> int:
        return self.run.updates

    def shift(self, log_odds: Array) -> None:
        super().shift(log_odds)
        self.run.shift(log_odds[self.start.level.classes])

    def answers(self, X: NDArray[Any]) -> Array:
        # What `model` would say, sooner.
        if self.run.updates == 0:
            return self.start.posterior(self.divergence, X, self.n_classes)
        state = self.kernel.read(self.run)
        relevances = np.exp(state["relevance"]) if self.fits.relevances else None
        level = self.start.level
        posterior, _, _ = self.kernel.associate(
            X, state["mu"], state["bias"], level.temperature, level.classes,
            self.n_classes, np.exp(state["sharpness"]), relevances,
        )  # fmt: skip
        return posterior

    def model(self) -> TunedModel:
        if self.run.updates == 0:
            return self.start
        state = self.kernel.read(self.run)
        old = self.start.level
        mu, bias, log_beta = state["mu"], state["bias"], state["sharpness"]  # beta in units of 1/T
        relevances = None
        if state["relevance"].any():
            relevances = np.exp(state["relevance"])
            scale = relevances.mean()
            relevances, log_beta = relevances / scale, log_beta + np.log(scale)
        if isinstance(self.divergence, KullbackLeibler):
            # Off the simplex the kernel's I-divergence exceeds the Kullback-Leibler one by
            # S - 1 - log S, S the sum of the codevector: back onto it, with that in the bias.
            total = mu.sum(axis=1, keepdims=True)
            mu = mu / total
            excess = (total - 1 - np.log(total))[:, 0]
            bias = bias - excess * np.exp(log_beta) / old.temperature
        T = old.temperature * float(np.exp(-log_beta.mean()))
        sharpness = np.exp(log_beta - log_beta.mean()) if self.fits.temperatures else None
        first, sizes = np.unique(old.classes, return_index=True, return_counts=True)[1:]
        # A class of prior 0 has no bias to tell its weights by.
        logs = np.where(np.isfinite(bias), bias, np.log(old.weights))
        share = np.exp(logs - np.repeat(np.maximum.reduceat(logs, first), sizes))
        weights = share / np.repeat(np.add.reduceat(share, first), sizes)
        level = replace(old, codevectors=mu, weights=weights, temperature=T)
        return TunedModel(level, bias, sharpness, relevances)


class WinnerTuning(Tuning):
    """LVQ1 or GLVQ: codevectors move, their weights and temperature stay."""

    run: Annotated[WinnerRun, StoredAs(State)] = field(init=False)
    rule = "lvq1"
    # alpha(v) = 1/(20 + v/10), v the updates of the codevector itself: no jump at the start.
    alpha = 20.0, 0.1

    def _new_run(self) -> WinnerRun:
        level = self.start.level
        settings = {
            "rule": self.rule,
            "a": self.alpha[0],
            "b": self.alpha[1],
            "alpha_min": 0.0,
            "n": 0.0,
            "scale": level.temperature,
        }
        return self.kernel.begin_winner(
            level.codevectors, level.classes.astype(np.int32), settings,
            self.geometry.low, self.geometry.high,
        )  # fmt: skip

    @property
    def steps(self) -> int:
        return self.run.count // BATCH

    def _learn(
        self,
        X: NDArray[Any],
        order: Integers | None,
        classes: Classes,
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool,
    ) -> Array:
        if not answer:
            self.run.learn(X, order, classes, weights, begin, end)
            return np.empty((0, self.n_classes))
        replies = np.empty((end - begin, self.n_classes))
        for k in range(begin, end):
            row = k if order is None else int(order[k])
            replies[k - begin] = self.answers(X[row : row + 1])[0]
            self.run.learn(X, order, classes, weights, k, k + 1)
        return replies

    def model(self) -> TunedModel:
        if self.run.count == 0:
            return self.start
        mu = self.kernel.read(self.run)["mu"]
        return replace(self.start, level=replace(self.start.level, codevectors=mu))


class GeneralizedTuning(WinnerTuning):
    """GLVQ (Sato and Yamada 1996)."""

    rule = "glvq"


TUNINGS: dict[str, type[Tuning]] = {
    "soft_lvq": SoftTuning,
    "lvq": WinnerTuning,
    "glvq": GeneralizedTuning,
}
