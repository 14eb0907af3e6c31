"""How many samples a level needs, and how many the level before it stands for.

Both grow with the number of dimensions: docs/notation.md, "Many dimensions".
"""

from __future__ import annotations

import math

from annealed.annealing.codebook import Codebook
from annealed.annealing.schedule import Schedule

# Samples of a codevector on each of the last levels to a given K: the mean of m samples costs 1/m
# more distortion than the mean of all. Of rows that come again one round at most: three take a
# third of all the time and save a thousandth of the distortion.
SAMPLES_TO_CLOSE = 1000
# Few rows are shown so many times on every level, up to so many samples: what is left to chance is
# then which rows there are, not which of them a level happened to draw.
ROUNDS_OF_FEW = 10
SAMPLES_OF_FEW = 2000
# An axis that so many samples a feature have turned is known well enough.
SAMPLES_PER_FEATURE = 10


def samples_per_codevector(
    book: Codebook, T: float, schedule: Schedule, distortion: float, d: int, rows: int | None
) -> int:
    """How many samples a level takes for each codevector: more near a transition.

    An axis that m samples turned shows the largest of d sample variances, which noise of variance
    s in every direction raises to s (1 + sqrt(d/m))^2. Where something new may be found that must
    stay below T, so that an axis finds what is unstable and not noise; half of a level's samples
    turn axes. There is no more to learn from ``rows`` that come again than they are.
    """
    least = schedule.samples_per_codevector
    if rows is not None:
        least = max(least, min(ROUNDS_OF_FEW * rows, SAMPLES_OF_FEW) // len(book))
    # Near a transition: something has just split, or may be found unstable after this level.
    near = (book.mass == 0) | (book.critical + book.error > schedule.gamma * T)
    noise = 2 * distortion / d  # the mean eigenvalue of H C within a cell
    if not near.any() or not T > noise > 0:  # below it everything is unstable
        return least
    needed = 2 * d / max(math.sqrt(T / noise) - 1, 1e-9) ** 2
    most = SAMPLES_PER_FEATURE * d
    if rows is not None:
        most = min(most, rows // (2 * len(book)))
    return max(least, math.ceil(min(needed, most)))


def samples_remembered(book: Codebook, T: float, distortion: float, at_least: int) -> float:
    """As how many samples the level before counts when the step size starts anew.

    At least as one per codevector, so that none jumps onto the first sample it meets. The mean of m
    samples lies at D/m from where it belongs, and every distance from it is longer by that: in many
    dimensions a light codevector would lose all its samples unless this is less than T.
    """
    needed = (distortion / T - 1) / float(book.rho.min())
    return max(float(len(book)), min(needed, at_least / 4))


def well_placed(distortion: float, samples: float, T: float) -> bool:
    """Whether a codevector of so many samples is known well enough to tell a density.

    The mean of m samples lies at D/m from where it belongs. Where that exceeds T, codevectors are
    where chance has put them: in many dimensions, where D is about d T/2 (docs/notation.md, "Many
    dimensions"), long before a path ends; in the plane never.
    """
    return distortion <= samples * T


def samples_to_close(least: int, K: int, rows: int | None) -> int:
    """How many samples each of the last levels to a given K takes for a codevector.

    In a stream, where a level of many samples is only late, no more than others do.
    """
    return max(least, min(SAMPLES_TO_CLOSE, (rows or 0) // K))
