"""How good answers are: scores, and what was tried with which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from annealed.divergences import Array
from annealed.fine_tuning.model import Calibration, Classes
from annealed.stored import Count, Positive

# Numbers of a test's answers that are kept to calibrate and vote by.
CALIBRATED_NUMBERS = 100_000
# Rows that no model could know, seen before any: what keeps a probability from being 0. And steps
# that find how many there are.
SURPRISES = 0.1
DOUBT_STEPS = 20

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
        Before the answers are calibrated; see `Scorer` for the loss.
    """

    n_codevectors: Positive
    temperatures: bool
    relevances: bool
    steps: Count
    score: float
    accuracy: float
    log_loss: float


def right_and_loss(
    answers: Array, classes: Classes, doubt: float = 0.0
) -> tuple[NDArray[np.bool_], Array]:
    """Whether each row's likeliest class is its own, and its log loss."""
    return answers.argmax(axis=1) == classes, -np.log(own_class(answers, classes, doubt))


def own_class(answers: NDArray[Any], classes: Classes, doubt: float = 0.0) -> Array:
    """Probability each row's own class is given, never quite 0 nor, by rounding, above 1.

    A share of ``doubt`` of every answer is the same for all classes.
    """
    own = answers[np.arange(len(answers)), classes].astype(float)
    own = (1 - doubt) * own + doubt / answers.shape[1]
    return np.asarray(np.clip(own, 1e-9, 1.0))


def per_row(answers: Array, classes: Classes, doubt: float = 0.0) -> Array:
    """What each row adds to the default score."""
    right, loss = right_and_loss(answers, classes, doubt)
    return right - 0.5 * loss


def doubt_of(n: int) -> float:
    """The share of rows that are unlike any seen, as far as n rows can tell (Laplace's rule)."""
    return 1 / (n + 2)


class Scorer:
    """Scores answers on the rows held out.

    Without a scorer of the user's the score is accuracy less half the log loss: accuracy is what
    most users want, but counts few rows as different between two models; the log loss hears of
    all of them. With a ``doubt`` it is that of answers of which such a share is the same for every
    class: else one row that a candidate was sure of, and wrong about, decides by itself.
    """

    def __init__(
        self, classes: Classes, emphasis: Array, score: Score | None, doubt: float = 0.0
    ) -> None:
        self.classes, self.emphasis, self.score = classes, emphasis / emphasis.mean(), score
        self.doubt = doubt

    def __call__(self, answers: Array) -> tuple[float, float, float]:
        """Score, accuracy, log loss."""
        right, losses = right_and_loss(answers, self.classes, self.doubt)
        accuracy = float((right * self.emphasis).mean())
        loss = float((losses * self.emphasis).mean())
        if self.score is None:
            return accuracy - 0.5 * loss, accuracy, loss
        # Many scores know few values: among equals the surer model.
        return self.score(answers, self.classes) - 1e-6 * loss, accuracy, loss

    def few(self, columns: int) -> slice:
        """Every so many rows, enough to calibrate and vote by, answers having so many columns."""
        return slice(None, None, max(len(self.classes) * columns // CALIBRATED_NUMBERS, 1))

    def on(self, rows: slice | NDArray[np.bool_]) -> Scorer:
        """The same on some of the rows."""
        return Scorer(self.classes[rows], self.emphasis[rows], self.score, self.doubt)

    def on_parts(self, tests: list[NDArray[Any]], parts: list[NDArray[np.bool_]]) -> Array:
        """Scores by parts of the rows: one row of the array for each part, one column a test."""
        if self.score is None:
            gains = np.array([per_row(answers, self.classes, self.doubt) for answers in tests])
            weights = np.array(parts) * self.emphasis
            return np.asarray(weights @ gains.T / weights.sum(axis=1, keepdims=True))
        judges = [(self.on(rows), rows) for rows in parts]
        return np.array([[judge(test[rows])[0] for test in tests] for judge, rows in judges])

    def calibration(self, answers: NDArray[Any]) -> Calibration:
        """That of the least log loss.

        As in Platt's calibration a row counts as its own class but for a share 1/(n + 2): n rows
        that were all right do not make a model infallible.
        """
        n, columns = answers.shape
        doubt = doubt_of(n)
        target = np.full((n, columns), doubt / columns)
        target[np.arange(n), self.classes] += 1 - doubt
        target *= self.emphasis[:, None]
        log_p = np.log(np.maximum(answers.astype(float), 1e-30))

        log_p -= log_p.max(axis=1, keepdims=True)  # whatever the power, nothing overflows
        wanted = float((target * log_p).sum())

        def loss(exponent: float) -> float:
            power = np.exp(exponent)
            total = np.log(np.exp(power * log_p).sum(axis=1))
            return float(self.emphasis @ total - power * wanted)

        power = float(np.exp(minimize_scalar(loss, bounds=(-3.0, 1.0), method="bounded").x))
        own = own_class(Calibration(power)(answers.astype(float)), self.classes)
        return Calibration(power, self._doubt(own, columns))

    def _doubt(self, own: Array, columns: int) -> float:
        """The share, the same for every class, that makes rows with answers ``own`` likeliest.

        By expectation and maximisation of a mixture, where `SURPRISES` were seen beforehand.
        """
        n = len(own)
        doubt = doubt_of(n)
        for _ in range(DOUBT_STEPS):
            unknown = doubt / columns
            surprise = unknown / ((1 - doubt) * own + unknown)  # a row's chance to be one
            doubt = (SURPRISES + float(self.emphasis @ surprise)) / (SURPRISES + n)
        return doubt
