"""Odds between classes that a score of the user's asks for.

Whoever says how likely classes are answers with the likeliest, which is best for accuracy. F1 is
best where a rare class is answered from half of that F1 on (Lipton, Elkan and Naryanaswamy 2014),
balanced accuracy where a class is answered that is likelier than it is frequent. Of a score nothing
is known but its values, so odds are tried: classes are favoured by a power of how rare they are,
from as much against them to half as much again as it takes for all to count alike. That is one
number, whatever the classes, which rows held out can tell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.fine_tuning.candidates import smoothed
from annealed.fine_tuning.scoring import Scorer
from annealed.fine_tuning.vote import mean_answer

# Powers to try, as far apart as this in the log odds of the rarest to the commonest class, unless
# these were more than so many.
LOWEST, HIGHEST = -1.0, 1.5
STEP = 0.25
MOST = 25


def odds_to_try(frequency: NDArray[np.int64]) -> Array:
    """Logarithms of factors of the classes, a row for each try; one of them is zero.

    Parameters
    ----------
    frequency : ndarray of shape (n_classes,)
        How many rows each class has; those with none are left alone.
    """
    present = frequency > 0
    rarity = np.zeros(len(frequency))
    rarity[present] = np.log(frequency.max() / frequency[present])
    widest = rarity.max()
    if widest <= 0:
        return np.zeros((1, len(frequency)))
    step = max(STEP / widest, (HIGHEST - LOWEST) / MOST)
    powers = step * np.arange(np.ceil(LOWEST / step), np.floor(HIGHEST / step) + 1)
    return np.asarray(powers[:, None] * rarity)


def shifted(posterior: NDArray[np.floating], log_odds: Array) -> Array:
    """p(c|x) when the odds of the classes change so much."""
    if not log_odds.any():
        return np.asarray(posterior)
    weighed = posterior * np.exp(log_odds - log_odds.max())
    return np.asarray(weighed / np.maximum(weighed.sum(axis=1, keepdims=True), 1e-300))


def best_odds(judge: Scorer, answers: list[NDArray[np.floating]], shares: Array) -> Array:
    """The change of the odds by which a vote scores best on the rows of a judge.

    Neighbours count with half their scores, as few rows of a rare class make a score leap; of
    equals it is the least change. There is none without a score of the user's, nor by one that is
    of more than the likeliest classes: probabilities are to stay what they are.
    """
    n_classes = answers[0].shape[1]
    none = np.zeros(n_classes)
    if judge.score is None:
        return none
    unchanged = mean_answer(answers, shares)
    likeliest = np.eye(n_classes)[unchanged.argmax(axis=1)]
    if judge.score(unchanged, judge.classes) != judge.score(likeliest, judge.classes):
        return none
    tries = odds_to_try(np.bincount(judge.classes, minlength=n_classes))
    means = (mean_answer([shifted(each, odds) for each in answers], shares) for odds in tries)
    scores = smoothed(np.array([judge.score(mean, judge.classes) for mean in means]))
    size = np.abs(tries).max(axis=1)
    best = min(np.flatnonzero(scores >= scores.max()).tolist(), key=lambda k: float(size[k]))
    return np.asarray(tries[best])
