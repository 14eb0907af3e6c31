"""Rows of this process that lie, cut into pieces, where others can sum them up too.

Whose processes or machines these are, and how they are asked, is no matter for kernels: they hand
over a function and what it needs, and get a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.kernels.protocol import Integers

# Asks for sums: called with a function, what it is given for all pieces, and for each piece its
# number and what the function is given beside it.
AddUp = Callable[
    [Callable[..., tuple[Any, ...]], Any, list[tuple[int, tuple[Any, ...]]]], tuple[Any, ...]
]


# What an association takes beside its products with a row: as much as so many features more.
# Measured with 200 to 1000 codevectors of 64 to 768 features: 0.1 ns times K (d + 400) for a row.
BESIDE_PRODUCTS = 400


def work(rows: int, codevectors: int, d: int) -> int:
    """What the sums of a block take, in tenths of a nanosecond of a core or so."""
    return rows * codevectors * (d + BESIDE_PRODUCTS)


class SharedRows:
    """Rows of a NumPy array, which others have in pieces.

    Parameters
    ----------
    array : array of shape (n, d), float32 or float64
    each : int
        Rows of a piece; the last may have fewer.
    least : int
        The `work` from which on it pays to let others sum up.
    add_up : callable
        Asks the others for sums over rows of the pieces.
    """

    ndim = 2

    def __init__(self, array: NDArray[Any], each: int, least: int, add_up: AddUp) -> None:
        self.array, self.each, self.least, self.add_up = array, each, least, add_up
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])
        self.dtype = array.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        found: NDArray[Any] = self.array[rows]
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self.array, dtype=dtype)

    def worth_sharing(self, rows: int, codevectors: int) -> bool:
        """Whether the sums of a block are worth being asked for."""
        return work(rows, codevectors, self.shape[1]) >= self.least

    def sums(
        self,
        function: Callable[..., tuple[Any, ...]],
        given: Any,
        rows: Integers,
        *beside: NDArray[Any] | None,
    ) -> tuple[Any, ...]:
        """Sums over some rows of what a function gives for those of a piece.

        Parameters
        ----------
        function : callable
            Called with ``given``, a piece, the places of its rows there and what lies beside them.
        given : object
            The same for all pieces.
        rows : array of integers
            Which rows.
        *beside : array or None
            An entry for every one of ``rows``.
        """
        piece = rows // self.each
        order = np.argsort(piece, kind="stable")
        numbers, begins = np.unique(piece[order], return_index=True)
        parts = []
        for k, own in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            places = rows[own] - k * self.each
            parts.append((k, (places, *(None if b is None else b[own] for b in beside))))
        return self.add_up(function, given, parts)
