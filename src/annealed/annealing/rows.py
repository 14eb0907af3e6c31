"""Rows: those of `fit`, in which order and what each is used for; those of a stream, how far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.kernels.protocol import MEASURES, TURNS, Roles

Integers = NDArray[np.int64]

# Rows drawn of a table that is not in memory, or lies on other machines: levels present fewer, so
# more rows would teach nothing. With many features so many that memory stays bounded (160 MB).
MOST_DRAWN = 200_000
MOST_CELLS_DRAWN = 20_000_000
# Rows of a class that are put in random order at a time.
SHUFFLED_AT_A_TIME = 50_000


class ShuffledRows:
    """The rows of one class in a new random order each time round.

    Levels converge long before they have seen a large table once, so of many rows a random part is
    taken at a time. With two ``parts`` one half of the rows is taken, then the other: a row that
    comes back has been forgotten as far as can be. Two codevectors that share one cluster of few
    rows in many dimensions would otherwise each be kept in place by its own rows.

    rows : all of them, in random order, one part after the other
    """

    def __init__(self, rows: Integers, rng: np.random.Generator, parts: int = 1) -> None:
        self.rows, self.rng, self.at = rng.permutation(rows), rng, 0
        self.parts = [part for part in np.array_split(self.rows, parts) if len(part)]
        self.order = rows[:0]
        self.next_order()

    def next_order(self) -> Integers:
        """The order that rows are presented in, a new one where the last has been used up."""
        if self.at < len(self.order):
            return self.order
        first = self.parts[0]
        if len(first) > SHUFFLED_AT_A_TIME:
            self.order = self.rng.choice(first, SHUFFLED_AT_A_TIME, replace=False)
            self.parts = [*self.parts[1:], first]
        else:  # few rows: several times round at once
            times = max(2000 // len(self.rows), 1)
            rounds = [self.rng.permuted(np.tile(part, (times, 1)), axis=1) for part in self.parts]
            self.order = np.concatenate(rounds, axis=1).ravel()
        self.at = 0
        return self.order


def axis_roles(orders: list[ShuffledRows], n: int) -> Roles:
    """For each of n rows whether it turns split axes or measures along them: half of each class.

    Along an axis that the same rows have turned, noise alone has a variance too large by up to
    (1 + sqrt(d/n))^2.
    """
    roles = np.zeros(n, dtype=np.uint8)
    for shuffled in orders:
        roles[shuffled.rows[::2]], roles[shuffled.rows[1::2]] = TURNS, MEASURES
    return roles


def reach(weights: Array | None, begin: int, end: int, left: int) -> int:
    """Where so many rows that count are past, or the end."""
    if weights is None:
        return min(end, begin + left)
    counted = np.flatnonzero(weights[begin:end])
    return end if len(counted) < left else begin + int(counted[left - 1]) + 1
