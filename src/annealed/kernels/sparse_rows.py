"""Rows of a sparse matrix: drawn, learnt and read without ever being dense all at once.

Codevectors are dense. What learns a row moves all of each, so rows are made dense a few at a time,
which changes no bit. What reads rows needs only the products of their non-zero entries:

    |x - mu|^2                   = |x|^2 + |mu|^2 - 2 <x, mu>
    sum x log(x/mu) - x + mu     = sum (x log x - x) + sum mu - <x, log mu>

These cancel where a row lies close to a codevector. Rows of which so much is lost that fewer than
nine digits are left, or of which it could change the label, are measured dense instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import xlogy

from annealed.divergences import Array, BregmanDivergence

if TYPE_CHECKING:
    from annealed.kernels.protocol import Integers, Kernel

# Numbers that rows made dense at a time may have (8 MB).
DENSE_AT_A_TIME = 1_000_000
# Numbers of an array of rows and codevectors that is made at a time.
PRODUCTS_AT_A_TIME = 2_000_000
# A divergence below this share of what it is the difference of has lost too many digits.
CANCELLED = 1e-6
# The compiled divergences that zeros mean something to.
WELCOMING = ("squared_euclidean", "i_divergence")


class SparseRows:
    """Rows of a CSR matrix, of which others can be taken as of an array.

    Parameters
    ----------
    matrix : scipy.sparse CSR matrix or array, float32 or float64
    """

    ndim = 2

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.shape: tuple[int, int] = matrix.shape
        self.dtype = matrix.dtype

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> SparseRows:
        """Rows of some arrays, sparse or not, one after the other, in double precision."""
        found = [part.matrix if isinstance(part, cls) else sparse.csr_array(part) for part in parts]
        matrix = found[0] if len(found) == 1 else sparse.vstack(found, format="csr")
        return cls(matrix.astype(float, copy=False))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> SparseRows:
        return SparseRows(self.matrix[rows])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self.matrix.toarray(), dtype=dtype)

    def sum(self, axis: int, dtype: Any = None) -> NDArray[Any]:
        """Sums of rows or columns."""
        return np.asarray(self.matrix.sum(axis=axis, dtype=dtype)).ravel()

    def column(self, j: int) -> NDArray[Any]:
        """One feature of all rows."""
        return np.asarray(self.matrix[:, [j]].toarray()).ravel()

    def ranges(self) -> tuple[Array, Array, bool]:
        """Lowest and highest value of every column, and whether all values are finite."""
        low, high = (self.matrix.min(axis=0), self.matrix.max(axis=0))
        finite = bool(np.isfinite(self.matrix.data).all())
        return low.toarray().ravel().astype(float), high.toarray().ravel().astype(float), finite

    @property
    def at_a_time(self) -> int:
        """How many rows to make dense at a time."""
        return max(DENSE_AT_A_TIME // max(self.shape[1], 1), 1)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[slice, SparseRows]]:
        """All rows, some at a time, and where they stand."""
        each = self.at_a_time if rows is None else max(rows, 1)
        for begin in range(0, len(self), each):
            here = slice(begin, min(begin + each, len(self)))
            yield here, self[here]


class CentredRows:
    """Sparse rows less a point c, as a factor of matrix products: nothing of them is ever dense.

    Parameters
    ----------
    rows : SparseRows
    c : array of shape (d,)
    """

    def __init__(self, rows: SparseRows, c: Array) -> None:
        self.rows, self.c, self.shape = rows, c, rows.shape

    def __getitem__(self, some: tuple[slice, slice]) -> CentredRows:
        """Some of the rows: ``z[rows, :]``."""
        return CentredRows(self.rows[some[0]], self.c)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if function is not np.matmul or method != "__call__" or options:
            return NotImplemented
        a, b = inputs
        if a is self:
            return self.rows.matrix @ b - self.c @ b
        return a @ self.rows.matrix - a.sum(axis=1)[:, None] * self.c


def dense(rows: Any) -> NDArray[Any]:
    """Rows as an array."""
    return np.asarray(rows)


def dense_blocks(rows: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Rows as arrays, sparse ones a few at a time, and where they stand."""
    if isinstance(rows, SparseRows):
        for here, block in rows.blocks():
            yield here, dense(block)
    else:
        yield slice(0, len(rows)), dense(rows)


def welcomes_sparse(divergence: BregmanDivergence) -> bool:
    """Whether sparse rows can be measured by a divergence."""
    return divergence.kernel in WELCOMING and divergence.matrix is None


def distances(X: SparseRows, divergence: BregmanDivergence, mu: Array) -> tuple[Array, Array]:
    """d(x, mu) of every row and codevector by products, and the size of what it is the rest of."""
    matrix = X.matrix.astype(float, copy=False)
    if divergence.kernel == "squared_euclidean":
        own = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1, 1)
        theirs, products = (mu**2).sum(axis=1), 2 * (matrix @ mu.T)
    else:
        parts = sparse.csr_array(matrix, copy=True)
        parts.data = xlogy(parts.data, parts.data) - parts.data
        own = np.asarray(parts.sum(axis=1)).reshape(-1, 1)
        theirs, products = mu.sum(axis=1), matrix @ np.log(mu).T
    size = np.abs(own) + np.abs(theirs) + np.abs(products)
    return np.maximum(own + theirs - products, 0.0), size


def divergences(kernel: Kernel, X: SparseRows, mu: Array) -> Array:
    """d(x, mu) of every row and codevector, to nine digits."""
    out = np.empty((len(X), len(mu)))
    for here, rows in X.blocks(PRODUCTS_AT_A_TIME // len(mu)):
        out[here], size = distances(rows, kernel.divergence, mu)
        lost = np.flatnonzero((out[here] < CANCELLED * size).any(axis=1))
        for part in _parts(lost, X.at_a_time):
            out[here.start + part] = kernel.divergences(dense(rows[part]), mu)
    return out


def assign(kernel: Kernel, X: SparseRows, mu: Array, log_weight: Array, T: float) -> Integers:
    """The label of every row, the same as of dense ones."""
    labels = np.empty(len(X), dtype=np.int64)
    # Where the number of terms of a sum is at most d, rounding takes no more than this of its size.
    doubt = 16 * np.finfo(float).eps * (X.shape[1] + 8)
    weight = log_weight if T > 0 else np.where(np.isneginf(log_weight), -np.inf, 0.0)
    heaviest = np.abs(weight[np.isfinite(weight)]).max(initial=0.0)
    per_T = 1 / T if T > 0 else 1.0
    for here, rows in X.blocks(PRODUCTS_AT_A_TIME // len(mu)):
        d, size = distances(rows, kernel.divergence, mu)
        value = weight - per_T * d
        best = value.argmax(axis=1)
        labels[here] = best
        bar = value.max(axis=1) - doubt * (heaviest + per_T * size.max(axis=1))
        unsure = np.flatnonzero((value >= bar[:, None]).sum(axis=1) > 1)
        for part in _parts(unsure, X.at_a_time):
            labels[here.start + part] = kernel.assign(dense(rows[part]), mu, log_weight, T)
    return labels


def assign_groups(
    kernel: Kernel,
    X: SparseRows,
    mu: Array,
    log_weight: Array,
    T: float,
    group: Integers,
    groups: int,
) -> Integers:
    """As `Kernel.assign_groups`."""
    labels = np.empty(len(X), dtype=np.int64)
    for here, rows in X.blocks(PRODUCTS_AT_A_TIME // len(mu)):
        shares = associate(kernel, rows, mu, log_weight, T, group, groups, None)[0]
        labels[here] = shares.argmax(axis=1)
    return labels


def associate(
    kernel: Kernel,
    X: SparseRows,
    mu: Array,
    log_weight: Array,
    T: float,
    group: Integers,
    groups: int,
    sharpness: Array | None,
) -> tuple[Array, Array, Array]:
    """As `Kernel.associate`, at a temperature above 0 and with features that count alike."""
    shares, log_total = np.empty((len(X), groups)), np.empty(len(X))
    distortion = np.empty(len(X))
    member = (group == np.arange(groups)[:, None]).astype(float)
    scale = 1 / T if sharpness is None else sharpness / T
    for here, rows in X.blocks(PRODUCTS_AT_A_TIME // len(mu)):
        d = divergences(kernel, rows, mu)
        exponent = log_weight - scale * d
        highest = exponent.max(axis=1, keepdims=True)
        e = np.exp(exponent - highest)
        total = e.sum(axis=1, keepdims=True)
        shares[here] = (e @ member.T) / total
        log_total[here] = (highest + np.log(total))[:, 0]
        distortion[here] = (e * d).sum(axis=1) / total[:, 0]
    return shares, log_total, distortion


def hard_sums(
    kernel: Kernel, X: SparseRows, mu: Array, weights: Array | None
) -> tuple[Array, Array, Integers, float]:
    """As `Kernel.hard_sums`."""
    K, distortion = len(mu), 0.0
    w = np.ones(len(X)) if weights is None else weights
    labels = assign(kernel, X, mu, np.zeros(K), 0.0)
    member = sparse.csr_array((w, (labels, np.arange(len(X)))), shape=(K, len(X)))
    for here, rows in X.blocks(PRODUCTS_AT_A_TIME // K):
        own = divergences(kernel, rows, mu)[np.arange(len(rows)), labels[here]]
        distortion += float(w[here] @ own)
    total = np.asarray((member @ X.matrix.astype(float, copy=False)).toarray())
    mass = np.asarray(np.bincount(labels, w, K), dtype=float)
    return mass, total, labels, distortion


def _parts(rows: Integers, at_a_time: int) -> Iterator[Integers]:
    for begin in range(0, len(rows), at_a_time):
        yield rows[begin : begin + at_a_time]
