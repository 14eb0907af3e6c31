"""In which units features are compared: as they are given, standardised, or squashed.

Squared distances add features up as they come: one in other units, a million times as large, is all
they see, and one with a few values far out sees nothing but those. Where features look like that,
rows decide: each is told by its nearest neighbours among the others in which class it is, in the
units given and in others. Other units are taken only if they do better by more than chance.

Where tails are heavy they are squashed in any case: neighbours do not mind a few rows far out, but
the variances, steps and temperatures of an annealing go by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.fine_tuning.model import Classes
from annealed.fine_tuning.scoring import per_row
from annealed.stored import Rule, State, Vector, among, one_length, require
from annealed.threads import in_threads, with_one_blas_thread

GIVEN, STANDARDISED, SQUASHED = "given", "standardised", "squashed"
# Features are taken to be in units of their own beyond this ratio of their spreads, and to have
# heavy tails where their standard deviation is so many times that of a Gaussian with as wide a
# middle half.
UNLIKE_SPREADS = 10.0
HEAVY_TAILS = 5.0
# Tails alone are what lies farther out than so many standard deviations of such a Gaussian.
TAILS_BEGIN = 3.0
MIDDLE_HALF = 1.349  # of a Gaussian, in standard deviations
# Rows that decide, neighbours asked, and standard errors by which other units must be better.
DECIDING_ROWS = 1000
NEIGHBOURS = 7
STANDARD_ERRORS = 3.0

_positive = Rule(lambda v: bool((v > 0).all()), "that is positive")


@dataclass(frozen=True, eq=False)
class Units:
    """How rows are taken to the units they are compared in: z = (x - centre)/scale, then squashed.

    Squashing is asinh(z)/spread: linear in the middle, a logarithm far out, and everything comes
    back. Where spread is 1/scale, what is in the middle stays as it was given.
    """

    name: Annotated[str, among(STANDARDISED, SQUASHED)]
    centre: Vector
    scale: Annotated[Vector, _positive]
    spread: Annotated[Vector, _positive]  # of what is squashed, which is divided by it

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Every feature has a centre and a scale."""
        one_length("units", state["centre"], state["scale"], state["spread"])
        values = np.concatenate([state["centre"], state["scale"], state["spread"]])
        require(np.isfinite(values).all(), "units are not finite")

    def to(self, X: NDArray[Any]) -> Array:
        """Rows in these units."""
        Z = (X - self.centre) / self.scale
        return np.asarray(np.arcsinh(Z) / self.spread if self.name == SQUASHED else Z)

    def back(self, Z: Array) -> Array:
        """Rows in the units given."""
        if self.name == SQUASHED:
            Z = np.sinh(Z * self.spread)
        return np.asarray(Z * self.scale + self.centre)

    def log_slope(self, X: NDArray[Any]) -> Array:
        """log |dz/dx| of every row: what a density in the units given has more."""
        slope = np.full(len(X), -float(np.log(self.scale).sum()))
        if self.name == SQUASHED:
            Z = (X - self.centre) / self.scale
            slope -= np.log(self.spread).sum() + 0.5 * np.log1p(Z**2).sum(axis=1)
        return slope


@with_one_blas_thread
def choose_units(
    X: NDArray[Any], classes: Classes, weights: Array | None, rng: np.random.Generator
) -> Units | None:
    """Units in which rows are best told apart by their neighbours; None for those given.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    classes : array of int of shape (n_rows,)
    weights : array of shape (n_rows,) or None
    rng : Generator
        Decides which rows are asked, if there are many.
    """
    rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
    best, *others = _worth_a_try(X[rows])
    some = rng.permutation(rows)[:DECIDING_ROWS] if others else rows[:0]
    known = classes[some]
    if len(some) <= NEIGHBOURS or len(np.unique(known)) < 2:
        return best
    given = np.asarray(X[some], dtype=float)
    before, *found = in_threads(
        lambda units: _told_by_neighbours(units.to(given) if units else given, known),
        [best, *others],
    )
    for units, after in zip(others, found, strict=True):
        gain = after - before
        if gain.mean() > STANDARD_ERRORS * gain.std() / np.sqrt(len(gain)):
            best, before = units, after
    return best


def _worth_a_try(X: NDArray[Any]) -> list[Units | None]:
    """The units that are taken unless others are surely better, and those others; None as given."""
    with np.errstate(all="ignore"):
        centre, spread = X.mean(axis=0, dtype=float), X.std(axis=0, dtype=float)
    alive = spread > 0
    if not alive.any() or not np.isfinite(spread).all():
        return [None]
    low, median, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    middle = (high - low) / MIDDLE_HALF
    with_middle = middle > 1e-12 * spread
    if (spread > HEAVY_TAILS * middle)[with_middle].any():
        scale = np.where(with_middle, middle, np.where(alive, spread, 1.0))
        squashed = np.arcsinh((X - median) / scale).std(axis=0)
        even = np.where(squashed > 0, squashed, 1.0)
        wide = TAILS_BEGIN * scale
        return [
            Units(SQUASHED, median, scale, even),
            Units(SQUASHED, median, wide, 1 / wide),  # as given but for the tails
        ]
    if spread[alive].max() > UNLIKE_SPREADS * spread[alive].min():
        scale = np.where(alive, spread, 1.0)
        return [None, Units(STANDARDISED, centre, scale, np.ones(len(scale)))]
    return [None]


def _told_by_neighbours(Z: Array, classes: Classes) -> Array:
    """What each row adds to the default score if its nearest neighbours, not itself, answer."""
    squares = (Z**2).sum(axis=1)
    distance = squares[:, None] + squares - 2 * Z @ Z.T
    np.fill_diagonal(distance, np.inf)
    nearest = np.argpartition(distance, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    share = np.bincount(classes) / len(classes)
    votes = (classes[nearest][:, :, None] == np.arange(len(share))).sum(axis=1)
    return per_row((votes + share) / (NEIGHBOURS + 1), classes)
