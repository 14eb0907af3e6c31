"""Who answers in a stream from the first sample on: nearest neighbours and nearest class means.

Codevectors are the latest samples themselves, or the running mean of every class. Temperature,
relevances of the features and, for samples, how soon they are out of date are fitted to the samples
to come, each before it is taken in (cpp/nearest.hpp has the gradient).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence, check_matrix
from annealed.fine_tuning.model import Classes, Fits, Integers, TunedModel
from annealed.fine_tuning.runner import Runner
from annealed.kernels.protocol import Kernel, NearestRun
from annealed.path import Level
from annealed.stored import Positive, State, Stored, StoredAs, Vector, require

# Samples over which class means fade.
MEANS_REMEMBER = 1000
# Step of the logarithms that are fitted, and samples per step.
RATE = 0.05
BATCH = 4


@dataclass(eq=False, repr=False)
class Nearest(Runner):
    """Nearest neighbours, or nearest class means, at a temperature.

    Parameters
    ----------
    divergence : BregmanDivergence
    start : ndarray of shape (d,)
        A sample, which says where the domain is bounded.
    n_classes : int
    samples : int or None
        How many of the latest samples are kept; None for class means.
    """

    divergence: BregmanDivergence
    start: Vector
    n_classes: Positive
    samples: Positive | None
    kernel: Annotated[Kernel, Stored.NEVER] = field(init=False)
    run: Annotated[NearestRun, StoredAs(State)] = field(init=False)

    rate = RATE  # it learns
    fits = Fits(relevances=True)

    @classmethod
    def check_stored(cls, state: State) -> None:
        """There is room for no more than a machine can hold."""
        require(state["samples"] is None or state["samples"] < 2**30, "too many samples are kept")
        require(state["n_classes"] < 2**30, "there are too many classes")
        check_matrix(state["divergence"], len(state["start"]))

    def _new_run(self) -> NearestRun:
        low, high = self.divergence.bounds(self.start)
        remembered = MEANS_REMEMBER if self.samples is None else self.samples
        settings = {
            "rate": RATE,
            "batch": BATCH,
            "recency": 1 / remembered,
            "means": self.samples is None,
            "relevances": self.divergence.weighable,
        }
        inside = np.clip(self.start, low, high)
        return self.kernel.begin_nearest(inside, self._room, self.n_classes, settings, low, high)

    @property
    def _room(self) -> int:
        """For so many codevectors there is room."""
        return self.n_classes if self.samples is None else self.samples

    def know_classes(self, n: int) -> None:
        """There are so many classes from now on."""
        self.n_classes = n
        self.run.know_classes(n)

    def since_change(self, samples: int) -> Self:
        """A twin that has forgotten all samples but the latest few.

        A class that none of these is of keeps its own.
        """
        twin = self.copy()
        twin.run.forget(samples)
        return twin

    @property
    def work_per_row(self) -> int:
        """Multiplications that a row takes."""
        return self._room * len(self.start)

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
        return self.run.learn(X, order, classes, weights, begin, end, answer)

    def keep(self, X: NDArray[Any], classes: Classes, weights: Array | None) -> None:
        """Take rows in without testing what they tell."""
        self.run.learn(X, None, classes, weights, 0, len(X), False, False)

    @property
    def steps(self) -> int:
        """Steps taken in what is fitted."""
        return self.run.updates

    @property
    def n_codevectors(self) -> int:
        """Samples, or classes, there are."""
        return max(len(self.kernel.read(self.run)["mu"]), 1)

    def latest(self, n: int) -> tuple[Array, Classes, Array]:
        """Of the latest n samples those that are kept, oldest first: rows, classes, weights."""
        state = self.kernel.read(self.run)
        some = state["age"] <= n
        rows = np.ascontiguousarray(state["mu"][some])
        return rows, state["classes"][some].astype(np.int32), np.exp(state["log_weight"][some])

    def model(self) -> TunedModel | None:
        """The model as it stands; None before the first sample."""
        state = self.kernel.read(self.run)
        if not len(state["mu"]):
            return None
        classes = state["classes"].astype(np.int64)
        order = np.argsort(classes, kind="stable")
        classes = classes[order]
        bias = (state["log_weight"] - state["recency"] * state["age"])[order]
        first, sizes = np.unique(classes, return_index=True, return_counts=True)[1:]
        share = np.exp(bias - np.repeat(np.maximum.reduceat(bias, first), sizes))
        share = np.maximum(share, 1e-300)  # old samples that no longer count are still there
        relevances = np.exp(state["relevance"])
        scale = float(relevances.mean())
        # Samples that are all alike have no scale: the nearest are all of them.
        T = float(state["temperature"]) / scale
        level = Level(
            temperature=T if T > 1e-200 else 0.0,
            codevectors=state["mu"][order],
            weights=share / np.repeat(np.add.reduceat(share, first), sizes),
            classes=classes,
            nodes=np.arange(len(order)),
            parents=np.full(len(order), -1),
            samples=self.run.seen,
            distortion=np.nan,
            entropy=np.nan,
            score=np.nan,
        )
        fitted = bool(state["relevance"].any())
        return TunedModel(level, bias, None, relevances / scale if fitted else None)
