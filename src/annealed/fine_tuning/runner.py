"""What can answer in a stream: it is tested on samples, and then learns them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.fine_tuning.model import Classes, Fits, Integers, TunedModel
from annealed.kernels import WORK_PER_CALL, RunOwner, kernel_for


class Runner(RunOwner, ABC):
    """What answers and learns: a fine-tuning, nearest neighbours, nearest means.

    n_classes : how many classes there are
    rate : of its steps; 0 only tests
    fits : what it fits
    """

    n_classes: int
    rate: float
    fits: Fits

    def __post_init__(self) -> None:
        self.kernel = kernel_for(self.divergence)
        self.run = self._new_run()

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps taken, of a batch of samples each."""

    @property
    @abstractmethod
    def n_codevectors(self) -> int:
        """Codevectors there are."""

    @property
    @abstractmethod
    def work_per_row(self) -> int:
        """Multiplications that a row takes."""

    @abstractmethod
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
        """As `learn`, in one go."""

    @abstractmethod
    def model(self) -> TunedModel | None:
        """The model as it stands; None before the first sample."""

    def learn(
        self,
        X: NDArray[Any],
        order: Integers | None,
        classes: Classes,
        weights: Array | None,
        begin: int,
        end: int,
        answer: bool = False,
    ) -> Array:
        """Learn rows begin..end; if asked, p(c|x) of each before it was learnt."""
        at_once = max(1, WORK_PER_CALL // self.work_per_row)
        replies = []
        while begin < end:
            stop = min(end, begin + at_once)
            replies.append(self._learn(X, order, classes, weights, begin, stop, answer))
            begin = stop
        if not replies:
            return np.empty((0, self.n_classes))
        return replies[0] if len(replies) == 1 else np.concatenate(replies)

    def copy(self) -> Self:
        """A twin that can go on by itself."""
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin
