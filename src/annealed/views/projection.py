"""Where rows and codevectors stand: on one axis or in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annealed.divergences import Array
from annealed.path import AnnealingPath
from annealed.views.names import feature_index, name_features


def principal_axes(rows: Array, n_axes: int) -> tuple[Array, Array, Array]:
    """Mean of rows, the directions they differ most in, and the share of variance of each.

    Directions are rows of an array of shape (n_axes, d), turned so that their largest entry is
    positive; where there are fewer, zeros take their place.
    """
    middle = rows.mean(axis=0)
    _, stretch, axes = np.linalg.svd(rows - middle, full_matrices=False)
    found = min(n_axes, len(axes))
    directions, share = np.zeros((n_axes, rows.shape[1])), np.zeros(n_axes)
    largest = np.abs(axes[:found]).argmax(axis=1)
    turn = np.sign(axes[np.arange(found), largest])
    directions[:found] = axes[:found] * np.where(turn == 0, 1.0, turn)[:, None]
    share[:found] = stretch[:found] ** 2 / max(float(stretch @ stretch), 1e-300)
    return middle, directions, share


def name_axes(share: Sequence[float]) -> list[str]:
    """What the first principal axes are called, by their share of the variance."""
    ordinals = ("first", "second")
    return [
        f"{ordinal} principal component ({part:.0%} of variance)"
        for ordinal, part in zip(ordinals, share, strict=False)
    ]


def project(
    path: AnnealingPath, feature: int | str | None, feature_names: Sequence[str] | None
) -> tuple[list[Array], str]:
    """Positions of every level's codevectors on one axis, and its name.

    The axis is a feature or, left out, the direction in which the coldest codevectors differ most.
    """
    d = path[0].codevectors.shape[1]
    if feature is None and d > 1:
        middle, (direction,), (share,) = principal_axes(path[-1].codevectors, 1)
        (name,) = name_axes([share])
        return [(level.codevectors - middle) @ direction for level in path], name
    known = [] if feature_names is None else [str(name) for name in feature_names]
    index = feature_index(0 if feature is None else feature, known, d)
    return [level.codevectors[:, index] for level in path], name_features(known or None, d)[index]


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
    middle, directions, share = principal_axes(rows, 2)
    first, second = name_axes(share.tolist())
    columns = np.ascontiguousarray(directions.T)
    return Plane(middle, columns, (first, second), original=False, projected=True, flat=False)
