"""The map: where samples and codevectors stand in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annealed.divergences import Array


@dataclass(frozen=True, eq=False)
class Plane:
    """A linear view of rows: ``(rows - middle) @ directions``, and what its two axes are called.

    ``original`` says that it takes rows in original units; ``projected`` that it shows principal
    components. ``flat`` is the one feature of rows that have no other: samples are then spread
    vertically to be seen.
    """

    middle: Array
    directions: Array
    axes: tuple[str, str]
    original: bool
    projected: bool
    flat: bool

    def place(self, rows: Array) -> Array:
        """Coordinates of rows, shape (n, 2)."""
        return np.asarray((rows - self.middle) @ self.directions)


def choose_plane(rows: Array, original: Array, names: Sequence[str]) -> Plane:
    """The features themselves if there are two, otherwise the directions rows differ most in.

    Parameters
    ----------
    rows, original : ndarray of shape (n, d) and (n, n_features)
        The samples (or codevectors) to be seen, in the model's units and in the original ones.
    names : sequence of str
        Names of the original features.
    """
    d = original.shape[1]
    if d <= 2:
        axes = (names[0], names[1] if d == 2 else "")
        return Plane(np.zeros(d), np.eye(d, 2), axes, original=True, projected=False, flat=d == 1)
    middle = rows.mean(axis=0)
    _, stretch, found = np.linalg.svd(rows - middle, full_matrices=False)
    directions = np.zeros((rows.shape[1], 2))
    share = [0.0, 0.0]
    total = max(float(stretch @ stretch), 1e-300)
    for axis in range(min(2, len(found))):
        # Turned so that the largest entry is positive: the same data give the same map.
        turn = np.sign(found[axis][np.abs(found[axis]).argmax()]) or 1.0
        directions[:, axis] = turn * found[axis]
        share[axis] = float(stretch[axis] ** 2) / total
    first, second = (f"{part:.0%} of variance" for part in share)
    axes = (f"principal component 1 ({first})", f"principal component 2 ({second})")
    return Plane(middle, directions, axes, original=False, projected=True, flat=False)
