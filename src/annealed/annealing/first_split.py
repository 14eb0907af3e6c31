"""Where the first split of a class will be, foretold from rows at hand.

T_c is the largest eigenvalue of H C (docs/notation.md). The trace of H C, which needs no rows,
bounds it from above, but in d dimensions by up to a factor d: dozens of levels of nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.threads import in_threads

Mask = NDArray[np.bool_]

# Steps of power iteration with memory. The largest eigenvalue comes out to a part in a hundred.
# All eigenvalues take less time with no more features than this.
LANCZOS_STEPS = 30
FEW_FEATURES = 64
# Features up to which the Hessian of a divergence with cross terms is written out.
MOST_CROSS_TERMS = 500


class Axis(NamedTuple):
    """A direction to split along, and how much is known of it."""

    axis: Array
    memory: float  # the length of the sum of p y (x - mu) that the axis rests on


class FirstSplit(NamedTuple):
    """What rows tell of the first split of their class."""

    temperature: float  # an estimate of T_c that errs upwards
    distortion: float  # of one codevector at the mean, to second order
    axes: tuple[Axis, Axis]  # along which it will split, from the rows of either half


def foretell(
    divergence: BregmanDivergence, mean: Array, rows: Array, weights: Array | None, half: Mask
) -> FirstSplit | None:
    """Estimate T_c and the axis from rows of a class; None where the divergence does not say.

    The largest eigenvalue of a sample errs upwards. Each half of the rows gives an axis of its own,
    so that the others measure along it without bias.
    """
    root = _hessian_root(divergence, mean)
    if root is None:
        return None
    w = np.ones(len(rows)) if weights is None else weights
    centre = w @ rows / w.sum()
    order = np.argsort(~half, kind="stable")  # either half in one piece, which needs no copy
    Z, w, n = rows[order] - centre, w[order], int(half.sum())
    Z = np.multiply(Z, root, out=Z) if root.ndim == 1 else Z @ root
    if not Z.any():
        return None
    unit = 2.0 ** math.frexp(float(max(Z.max(), -Z.min())))[1]  # squares of large ones overflow
    Z /= unit

    def look(some: slice) -> tuple[float, Axis]:
        return _axis(Z[some], w[some], root)

    parts = [slice(None), slice(n), slice(n, None)]
    (temperature, _), (_, one), (_, other) = in_threads(look, parts)
    distortion = float(0.5 * w @ _lengths(Z) / w.sum())
    one, other = (axis._replace(memory=axis.memory * unit**2) for axis in (one, other))
    return FirstSplit(temperature * unit**2, distortion * unit**2, (one, other))


def _axis(Z: Array, w: Array, root: Array) -> tuple[float, Axis]:
    """The temperature some rows want to split at, and the axis along which."""
    if not _lengths(Z).any():  # squares of very small numbers vanish
        return 0.0, Axis(np.zeros(Z.shape[1]), 0.0)
    value, axis = largest_eigenvector(Z, w)
    axis = np.asarray(axis / root if root.ndim == 1 else np.linalg.solve(root.T, axis))
    # The sum of w y (x - mu) is sum w C H a/sqrt(<a, H a>), and here <a, H a> = 1.
    return value, Axis(axis, float(w.sum() * value * np.sqrt((axis**2).sum())))


def largest_eigenvector(Z: Array, w: Array) -> tuple[float, Array]:
    """The largest eigenvalue of sum w z z' / sum w and its eigenvector, Z with a row for each z.

    Of many features by Lanczos steps, each new direction made orthogonal to all before.
    """
    w = w / w.sum()
    if Z.shape[1] <= FEW_FEATURES:
        values, vectors = np.linalg.eigh((Z * w[:, None]).T @ Z)
        return float(values[-1]), np.ascontiguousarray(vectors[:, -1])
    direction = Z[int((w * _lengths(Z)).argmax())]
    scale = 0.0
    basis: list[Array] = []
    for _ in range(min(LANCZOS_STEPS, *Z.shape)):
        length = np.sqrt((direction**2).sum())
        if not length > 1e-10 * scale:
            break
        basis.append(direction / length)
        direction = Z.T @ (w * (Z @ basis[-1]))
        if len(basis) == 1:
            scale = float(np.sqrt((direction**2).sum()))
        Q = np.array(basis)
        for _ in range(2):
            direction = direction - Q.T @ (Q @ direction)
    projected = Z @ np.array(basis).T
    values, vectors = np.linalg.eigh((projected * w[:, None]).T @ projected)
    return float(values[-1]), np.asarray(vectors[:, -1] @ np.array(basis))


def _lengths(Z: Array) -> Array:
    """The squared length of every row."""
    return np.asarray(np.einsum("ij,ij->i", Z, Z))


def _hessian_root(divergence: BregmanDivergence, mean: Array) -> Array | None:
    """L with H(mean) = L L', as a vector where H is diagonal; None where that is too much work."""
    if divergence.matrix is not None:
        return np.asarray(np.sqrt(2) * divergence.matrix)
    inside = np.clip(mean, *divergence.bounds(mean))
    if divergence.separable:
        return np.asarray(np.sqrt(divergence.hessian_diagonal(inside[None, :])[0]))
    if len(mean) > MOST_CROSS_TERMS:
        return None
    axes = np.eye(len(mean))
    H = divergence.hessian_product(np.broadcast_to(inside, axes.shape).copy(), axes)
    try:
        return np.asarray(np.linalg.cholesky((H + H.T) / 2), dtype=float)
    except np.linalg.LinAlgError:  # by finite differences it may fail to be positive
        return None
