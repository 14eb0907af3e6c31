"""Codevectors between which borders are looked for, by the compiled core (cpp/borders.hpp)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.kernels.compiled import core
from annealed.threads import threads_for

Integers = NDArray[np.int64]

# Multiplications for each distance: exponentials of eight, between ten neighbours, at ten widths.
WORK = 8 * 10 * 10

_cuts: Callable[..., tuple[Array, Integers]] = core.cuts
_support_between: Callable[..., float] = core.support_between
_loose: Callable[..., NDArray[np.bool_]] = core.loose


@dataclass(frozen=True, eq=False)
class Places:
    """Codevectors between which borders are looked for (cpp/borders.hpp).

    distances : (n, n), squared, between them
    weights : (n,)
    dimensions : of the space they lie in
    narrowest : twice the least variance of a kernel
    samples : how many samples all codevectors stand for, also those that are not here
    """

    distances: Array
    weights: Array
    dimensions: int
    narrowest: float
    samples: float

    def cuts(self, least: float) -> tuple[Array, Integers]:
        """The support of ever less clear borders, and the clusters each leaves, a row for each."""
        return _cuts(*self._all, least, self._threads)

    def support_between(self, clusters: Integers) -> float:
        """The support of all borders between given clusters, taken together.

        At the width where it is largest.
        """
        return _support_between(*self._all, clusters, self._threads)

    def loose(self, size: float) -> NDArray[np.bool_]:
        """Which lie apart from the others, in groups of fewer than ``size`` samples."""
        return _loose(*self._all, size, self._threads)

    @property
    def _all(self) -> tuple[Array, Array, int, float, float]:
        return (
            np.ascontiguousarray(self.distances, dtype=float),
            np.ascontiguousarray(self.weights, dtype=float),
            self.dimensions, self.narrowest, self.samples,
        )  # fmt: skip

    @property
    def _threads(self) -> int:
        return threads_for(WORK * self.distances.size)
