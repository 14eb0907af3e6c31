"""Rows in arrays of other libraries, which stay where they are: on a GPU, mostly.

Arrays of PyTorch and CuPy are read through array-api-compat (the extra "array-api"), those that
know the array API standard themselves as they are. NumPy arrays are no matter for this file.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.kernels.sparse_rows import SparseRows

# Numbers of an array of rows and codevectors that is made at a time on a device.
NUMBERS_AT_A_TIME = 1 << 26
# Libraries whose arrays do not know the standard, or not all of it.
NEED_HELP = ("torch", "cupy")


class Place(NamedTuple):
    """Where arrays are, and of which type."""

    xp: Any
    dtype: Any
    device: Any = None

    def put(self, array: NDArray[Any]) -> Any:
        """A NumPy array, there."""
        if self.xp is np:
            return np.require(array, self.dtype, "A")
        return self.xp.asarray(np.ascontiguousarray(array), dtype=self.dtype, device=self.device)

    def take(self, array: Any) -> Any:
        """Any array, there."""
        if self.xp is np:
            return to_host(array).astype(self.dtype, copy=False)
        if isinstance(array, np.ndarray):
            return self.put(array)
        return self.xp.asarray(array, dtype=self.dtype, device=self.device)

    def ordered(self, x: Any, order: NDArray[np.int64]) -> Any:
        """Rows of an array that is there, in another order."""
        if self.xp is np:
            return x[order]
        return self.xp.take(x, self.xp.asarray(order, device=self.device), axis=0)


def is_foreign(X: Any) -> bool:
    """Whether it is an array of another library than NumPy."""
    if isinstance(X, np.ndarray | np.generic) or not hasattr(X, "shape"):
        return False
    library = type(X).__module__.split(".")[0]
    return library in NEED_HELP or hasattr(X, "__array_namespace__")


def namespace_of(X: Any) -> Any:
    """The functions of the array API standard for an array."""
    if isinstance(X, np.ndarray):
        return np
    library = type(X).__module__.split(".")[0]
    if library not in NEED_HELP:
        return X.__array_namespace__()
    try:
        return importlib.import_module(f"array_api_compat.{library}")
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"rows in arrays of {library} need array-api-compat: pip install 'annealed[array-api]'",
            name=missing.name,
        ) from None


def to_host(X: Any) -> NDArray[Any]:
    """The same numbers in a NumPy array."""
    if isinstance(X, np.ndarray):
        return X
    library = type(X).__module__.split(".")[0]
    if library == "torch":
        return np.asarray(X.detach().cpu().numpy())
    if library == "cupy":
        return np.asarray(X.get())
    return np.asarray(X)


class ArrayRows:
    """Rows of an array of another library, of which others can be taken as of a NumPy array.

    Parameters
    ----------
    array : array of shape (n, d), float32 or float64
    """

    ndim = 2

    def __init__(self, array: Any) -> None:
        self.array, self.xp = array, namespace_of(array)
        self.shape: tuple[int, int] = tuple(array.shape)
        single = array.dtype == self.xp.float32
        self.dtype = np.dtype(np.float32 if single else np.float64)

    @classmethod
    def floating(cls, array: Any) -> ArrayRows:
        """Rows of any numbers: as they are if float32 or float64, otherwise converted."""
        xp = namespace_of(array)
        if array.dtype not in (xp.float32, xp.float64):
            array = xp.asarray(array, dtype=xp.float64)
        return cls(array)

    @classmethod
    def of(cls, array: Any) -> Any:
        """The same, but NumPy arrays and sparse rows as they are."""
        return array if isinstance(array, np.ndarray | SparseRows) else cls(array)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> ArrayRows:
        return ArrayRows(self.take(rows))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(to_host(self.array), dtype=dtype)

    def take(self, rows: Any) -> Any:
        """Some rows, where they are."""
        if isinstance(rows, slice):
            return self.array[rows, :]
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return self.xp.take(self.array, self.give(np.asarray(rows, dtype=np.int64)), axis=0)

    def give(self, array: NDArray[Any]) -> Any:
        """A NumPy array, as it is, where the rows are."""
        return self.xp.asarray(np.ascontiguousarray(array), device=self.array.device)

    def column(self, j: int) -> NDArray[Any]:
        """One feature of all rows."""
        return to_host(self.array[:, j])

    def sum(self, axis: int, dtype: Any = None) -> NDArray[Any]:
        """Sums of rows or columns."""
        return to_host(self.xp.sum(self.array, axis=axis, dtype=self.xp.float64))

    def ranges(self) -> tuple[NDArray[Any], NDArray[Any], bool]:
        """Lowest and highest value of every column, and whether all values are finite."""
        low, high = (
            to_host(find(self.array, axis=0)).astype(float) for find in (self.xp.min, self.xp.max)
        )
        # What is not finite need not be the least or the largest: nan may be passed over.
        finite = bool(self.xp.all(self.xp.isfinite(self.xp.sum(self.array, axis=0))))
        finite = finite or bool(self.xp.all(self.xp.isfinite(self.array)))
        return low, high, finite


def given_back(answer: Any, X: Any) -> Any:
    """An answer in a NumPy array as an array like X, where X is; texts stay as they are."""
    if not (is_foreign(X) and isinstance(answer, np.ndarray) and answer.dtype.kind in "biuf"):
        return answer
    xp = namespace_of(X)
    given = xp.asarray(np.ascontiguousarray(answer), device=X.device)
    single = answer.dtype.kind == "f" and X.dtype == xp.float32
    return xp.asarray(given, dtype=xp.float32) if single else given


def place_of(X: Any, single: bool) -> Place:
    """Where rows of X are summed up, in single or double precision."""
    if not isinstance(X, ArrayRows):
        return Place(np, np.dtype(np.float32 if single else np.float64))
    return Place(X.xp, X.xp.float32 if single else X.xp.float64, X.array.device)


def rows_at(X: Any, rows: NDArray[np.int64], *, copy: bool = False) -> Any:
    """Some rows of X in an array that lies where X does; of sparse rows they are sparse.

    It may be a view of them, unless it is to be a copy.
    """
    if isinstance(X, ArrayRows):
        return X.take(rows)
    if isinstance(X, np.ndarray):
        n = len(rows)
        if not copy and n and rows[-1] - rows[0] == n - 1 and (np.diff(rows) == 1).all():
            return X[rows[0] : rows[-1] + 1]
    return X[rows]
