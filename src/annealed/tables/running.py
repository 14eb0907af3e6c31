"""Means and spreads that follow a stream: after every row, whatever calls cut it into.

cpp/running.hpp learns and standardises many rows at once, with the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def learn_row(x: Floats, count: Floats, mean: Floats, m2: Floats) -> None:
    """Welford's update of count, mean and m2 with one row, in place."""
    seen = x == x
    if seen.all():
        count += 1.0
        delta = x - mean
        mean += delta / count
        m2 += delta * (x - mean)
        return
    count += seen
    delta = np.where(seen, x - mean, 0.0)
    mean += delta / np.maximum(count, 1.0)
    m2 += np.where(seen, delta * (x - mean), 0.0)


def spread(count: Floats, m2: Floats) -> Floats:
    """Standard deviation of every feature; 1 where it is 0, so that dividing changes nothing."""
    scale: Floats = np.sqrt(m2 / np.maximum(count, 1.0))
    return np.where(scale > 0.0, scale, 1.0)


def standardised(
    X: Floats, count: Floats, mean: Floats, m2: Floats, fill: Floats | None = None
) -> Floats:
    """(x - mean) / spread, of one row or many; a missing cell is filled or comes out as 0.

    So does every cell of a feature that has never varied: nothing is known of its scale.
    """
    scale = np.sqrt(m2 / np.maximum(count, 1.0))
    scale = np.where(scale > 0.0, scale, np.inf)
    Z = (X - mean) / scale
    missing = Z != Z
    if missing.any():
        stand_in = 0.0 if fill is None else (fill - mean) / scale
        Z = np.where(missing, np.nan_to_num(stand_in), Z)
    return Z
