"""Rows of more features than there are rows, in the coordinates of what they span.

Rotations change no squared Euclidean distance and codevectors are means of rows, so annealing there
is annealing here, in fewer dimensions: 200 rows of 5000 features are 200 rows of 199.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annealed.annealing.codebook import Codebook
from annealed.divergences import Array
from annealed.path import Level


class Span:
    """Rows in the coordinates of their span, and the way back.

    Parameters
    ----------
    X : (n, d) array
    matrix : (d, d) array or None
        L of a Mahalanobis divergence, the squared Euclidean one of x L.
    """

    def __init__(self, X: Array, matrix: Array | None) -> None:
        self.matrix = matrix
        self.mean = X.mean(axis=0)
        basis, rows = np.linalg.qr(self._inside(X - self.mean).T)
        kept = np.abs(rows).max(axis=1) > 1e-12 * np.abs(rows).max()
        kept[0] = True  # rows that are all alike have no span
        self.rows = np.ascontiguousarray(rows[kept].T)
        self.basis = basis.T[kept]
        if matrix is not None:
            self.basis = np.linalg.solve(matrix.T, self.basis.T).T

    def _inside(self, rows: Array) -> Array:
        return rows if self.matrix is None else rows @ self.matrix

    def points(self, rows: Array) -> Array:
        """Points of the span in the coordinates of the data."""
        return np.asarray(self.mean + rows @ self.basis)

    def book(self, book: Codebook) -> Codebook:
        """A codebook in the coordinates of the data."""
        return replace(
            book,
            mu=self.points(book.mu),
            axis=book.axis @ self.basis,
            before=book.before @ self.basis,
            resting_axis=book.resting_axis @ self.basis,
            resting_before=book.resting_before @ self.basis,
        )

    def level(self, level: Level) -> Level:
        """A level in the coordinates of the data."""
        return replace(level, codevectors=self.points(level.codevectors))

    def variances(self, X: Array, weights: Array | None) -> Array:
        """Variances of the features of rows as the kernel sees them."""
        w = np.ones(len(X)) if weights is None else weights
        w = w / w.sum()
        return np.asarray(w @ self._inside(X - w @ X) ** 2)
