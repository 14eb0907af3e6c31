"""What blocks ask of a divergence: rows and codevectors measured from a point among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from annealed.divergences import Array, BregmanDivergence, Separable
from annealed.kernels.array_rows import Place, to_host
from annealed.kernels.sparse_rows import CentredRows, SparseRows


class Dual:
    """A divergence in the terms of `annealed.kernels.block.sums`.

    Codevectors are in the coordinates of the kernel: those of x L where the divergence is that of a
    Mahalanobis matrix L L', in which it is the squared Euclidean one.

    Parameters
    ----------
    divergence : BregmanDivergence
    relevance : array of shape (d,), optional
        How much every feature counts.
    """

    def __init__(self, divergence: BregmanDivergence, relevance: Array | None = None) -> None:
        self.divergence, self.matrix, self.relevance = divergence, divergence.matrix, relevance
        # Single precision is for these: others have slopes that grow without bound towards the
        # boundary of their domain.
        self.quadratic = divergence.kernel == "squared_euclidean"

    @property
    def shares_threads(self) -> bool:
        """Whether chunks may be shared out to threads: not to run the user's own code."""
        return self.divergence.kernel is not None

    def inside(self, x: Array) -> Array:
        """Rows in the coordinates of the kernel."""
        return x if self.matrix is None else x @ self.matrix

    def centre(self, mean: Array, mu: Array, single: bool) -> tuple[Array, Array]:
        """The point c to measure from, near a mean, in the coordinates of rows; and mu - c.

        For rows in single precision it is one that they can be exactly.
        """
        c: Array = mean
        if self.matrix is not None:
            c = np.asarray(np.linalg.solve(self.matrix.T, mean), dtype=float)
        if single:
            c = c.astype(np.float32).astype(float)
        return c, np.asarray(mu - self.inside(c[None, :]))

    def slopes(self, mu: Array, c: Array) -> tuple[Array, Array]:
        """theta(mu) - theta(c) and d(c, mu) of every codevector."""
        counts = np.ones(mu.shape[1]) if self.relevance is None else self.relevance
        if self.quadratic:
            from_c = mu - self.inside(c[None, :])
            return 2 * from_c * counts, from_c**2 @ counts
        one = c[None, :]
        slope = self.divergence.gradient(mu) - self.divergence.gradient(one)
        if isinstance(self.divergence, Separable):
            return slope * counts, self.divergence.terms(one, mu) @ counts
        return slope, self.divergence.pairwise(one, mu)[0]

    def rows(self, place: Place, x: Any, c: Array, unit: float, *, here: bool = False) -> Any:
        """z = x - c in the coordinates of the kernel, in units of length.

        In the array of x, if it may be ``here`` and x is not needed any more.
        """
        if isinstance(x, SparseRows):  # in double precision, which has no units
            return CentredRows(x, c)
        if here and self.quadratic:
            x -= place.put(c)
            z = x
        else:
            z = x - place.put(c)
        if self.matrix is not None:
            z = z @ place.put(self.matrix)
        if unit != 1:
            z *= 1 / unit
        return z

    def own(self, place: Place, x: Any, z: Any, c: Array, unit: float, T: float) -> Any:
        """d(x, c)/T of every row."""
        xp, name = place.xp, self.divergence.kernel
        if isinstance(x, SparseRows):
            return self._sparse_own(x, c) / T
        if name is None:
            return place.put(
                self.divergence.pairwise(np.asarray(to_host(x), dtype=float), c[None, :])[:, 0] / T
            )
        terms = z * z if self.quadratic else _TERMS[name](xp, x, place.put(c))
        total = xp.sum(terms, axis=1)
        if self.relevance is not None:
            total = terms @ place.put(self.relevance)
        return total * (unit**2 / T)

    def _sparse_own(self, x: SparseRows, c: Array) -> Array:
        """d(x, c): that of a row of zeros, and what each entry that is not zero adds to it."""
        each, at = x.matrix.copy(), c[x.matrix.indices]
        if self.quadratic:
            each.data = each.data * (each.data - 2 * at)
            of_zeros = c @ c
        else:
            each.data = xlogy(each.data, each.data / at) - each.data
            of_zeros = c.sum()
        return np.asarray(each.sum(axis=1)).ravel() + of_zeros

    def hessian_product(self, mu: Array, a: Array) -> Array:
        """H(mu_i) a_i in the coordinates of the kernel."""
        return 2 * a if self.quadratic else self.divergence.hessian_product(mu, a)


def _xlog(xp: Any, x: Any, ratio: Any) -> Any:
    """x log(ratio) with 0 log 0 = 0."""
    return x * xp.log(xp.where(x > 0, ratio, xp.ones_like(x)))


# d(x, c) of every feature, as in `annealed.divergences`, for arrays of any library.
_TERMS = {
    "i_divergence": lambda xp, x, c: _xlog(xp, x, x / c) - x + c,
    "itakura_saito": lambda xp, x, c: (x - c) / c - xp.log(x / c),
    "logistic": lambda xp, x, c: _xlog(xp, x, x / c) + _xlog(xp, 1 - x, (1 - x) / (1 - c)),
}
