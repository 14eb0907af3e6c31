"""How good answers are: scores, and what was tried with which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from annealed.divergences import Array
from annealed.fine_tuning.model import Classes
from annealed.stored import Count, Positive

# Numbers of a test's answers that are kept to calibrate by.
CALIBRATED_NUMBERS = 100_000

Score = Callable[[Array, Classes], float]


@dataclass(frozen=True)
class Candidate:
    """What was tried on rows held out.

    Attributes
    ----------
    n_codevectors : int
    temperatures, relevances : bool
        Whether each codevector's temperature and each feature's relevance were fitted.
    steps : int
        Steps of fine-tuning at its best, 0 for as annealed.
    score : float
        What the choice was made by.
    accuracy, log_loss : float
    """

    n_codevectors: Positive
    temperatures: bool
    relevances: bool
    steps: Count
    score: float
    accuracy: float
    log_loss: float


def right_and_loss(answers: Array, classes: Classes) -> tuple[NDArray[np.bool_], Array]:
    """Whether each row's likeliest class is its own, and its log loss."""
    own = answers[np.arange(len(answers)), classes]
    return answers.argmax(axis=1) == classes, -np.log(np.maximum(own, 1e-9))


def per_row(answers: Array, classes: Classes) -> Array:
    """What each row adds to the default score."""
    right, loss = right_and_loss(answers, classes)
    return right - 0.5 * loss


class Scorer:
    """Scores answers on the rows held out.

    Without a scorer of the user's the score is accuracy less half the log loss: accuracy is what
    most users want, but counts few rows as different between two models; the log loss hears of
    all of them.
    """

    def __init__(self, classes: Classes, emphasis: Array, score: Score | None) -> None:
        self.classes, self.emphasis, self.score = classes, emphasis / emphasis.mean(), score

    def __call__(self, answers: Array) -> tuple[float, float, float]:
        """Score, accuracy, log loss."""
        right, losses = right_and_loss(answers, self.classes)
        accuracy = float((right * self.emphasis).mean())
        loss = float((losses * self.emphasis).mean())
        if self.score is None:
            return accuracy - 0.5 * loss, accuracy, loss
        # Many scores know few values: among equals the surer model.
        return self.score(answers, self.classes) - 1e-6 * loss, accuracy, loss

    def some(self, answers: Array) -> Array:
        """Answers on every so many rows, enough to calibrate by."""
        return answers[:: self._every(answers.shape[1])]

    def _every(self, columns: int) -> int:
        return max(len(self.classes) * columns // CALIBRATED_NUMBERS, 1)

    def calibration(self, some: NDArray[Any]) -> float:
        """The power of the posterior with the least log loss, given `some` of the answers.

        As in Platt's calibration a row counts as its own class but for a share 1/(n + 2) of doubt:
        n rows that were all right do not make a model infallible.
        """
        every = self._every(some.shape[1])
        classes, emphasis = self.classes[::every], self.emphasis[::every]
        doubt = 1 / (len(some) + 2)
        target = np.full(some.shape, doubt / some.shape[1])
        target[np.arange(len(some)), classes] += 1 - doubt
        target *= emphasis[:, None]
        log_p = np.log(np.maximum(some.astype(float), 1e-30))

        def loss(exponent: float) -> float:
            logit = np.exp(exponent) * log_p
            return float((target * (logsumexp(logit, axis=1, keepdims=True) - logit)).sum())

        return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 1.0), method="bounded").x))
