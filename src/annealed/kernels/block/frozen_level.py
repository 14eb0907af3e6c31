"""A level as a block of samples finds it: all that sums over rows depend on, beside the rows.

Nothing of it changes, and it can be sent: whoever has rows of a block sums them up with it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.kernels.array_rows import Place, to_host
from annealed.kernels.block.dual import Dual
from annealed.kernels.block.sums import Frozen, Sums, block_sums
from annealed.kernels.protocol import MEASURES, TURNS, Integers, Roles
from annealed.threads import with_one_blas_thread

# Rows of a NumPy array that are summed up at a time: few enough for their associations to stay in a
# cache, many enough for the sums of a chunk to be added in a small part of the time it takes.
CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples that are summed up together."""

    x: Any
    w: Array | None
    roles: Roles | None

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def weight(self) -> float:
        """All of them together."""
        return float(len(self) if self.w is None else self.w.sum())


@dataclass(frozen=True, slots=True)
class FrozenLevel:
    """A codebook as a block finds it, and what the block asks of its rows.

    Parameters
    ----------
    dual : Dual
        What rows are measured by.
    frozen : Frozen
        The codebook, where the rows are.
    c : array of shape (d,)
        The point that rows are measured from.
    unit : float
        Of length.
    T : float
    looks : bool
        Whether rows look along the axes.
    observes : bool
        Whether mass, divergences and entropy are asked for.
    by_roles : bool
        Whether some rows turn axes and others measure along them, or all do both.
    """

    dual: Dual
    frozen: Frozen
    c: Array
    unit: float
    T: float
    looks: bool
    observes: bool
    by_roles: bool

    def sums(self, chunk: Chunk, place: Place, xp: Any = None) -> Sums:
        """What a chunk says.

        ``xp`` are functions to call instead of those of its library, where its rows may be changed.
        """
        chunk, turning, measuring = self._ordered(chunk, place)
        z = self.dual.rows(place, chunk.x, self.c, self.unit, here=xp is not None)
        own = None
        if self.observes:
            own = self.dual.own(place, chunk.x, z, self.c, self.unit, self.T)
        w = None if chunk.w is None else place.put(chunk.w)
        return block_sums(
            xp or place.xp, z, self.frozen, w, own=own,
            observed=self.observes, turning=turning, measuring=measuring,
        )  # fmt: skip

    def _ordered(self, chunk: Chunk, place: Place) -> tuple[Chunk, int, int]:
        """Rows so that those that turn axes come first and those that measure last.

        And how many turn, and where those that measure begin.
        """
        roles = chunk.roles
        if not self.looks:
            return chunk, 0, 0
        if roles is None or not self.by_roles:
            return chunk, len(chunk), 0
        order = np.argsort(np.array([0, 0, 2, 1])[roles], kind="stable")
        turning = int(np.count_nonzero(roles & TURNS))
        measuring = len(chunk) - int(np.count_nonzero(roles & MEASURES))
        w = None if chunk.w is None else chunk.w[order]
        return Chunk(place.ordered(chunk.x, order), w, roles[order]), turning, measuring


def on_host(sums: Sums) -> Sums:
    """The same in NumPy arrays."""
    return Sums(*(None if each is None else to_host(each) for each in sums))


class ReusedArrays:
    """NumPy, but what `block_sums` makes for one chunk is made in the memory of the chunk before.

    Workers of Dask give memory back to the system at once (``MALLOC_TRIM_THRESHOLD_``): large
    arrays are new to every use, page by page, which takes half of the time of sums.
    """

    float32 = np.float32
    max, sum, log = staticmethod(np.max), staticmethod(np.sum), staticmethod(np.log)

    def __init__(self) -> None:
        self._made: list[NDArray[Any]] = []
        self._next = 0

    def begin_chunk(self) -> None:
        """From here on the arrays of the chunk before are used again."""
        self._next = 0

    def _array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        size, k = math.prod(shape), self._next
        self._next += 1
        if k == len(self._made):
            self._made.append(np.empty(size, dtype))
        elif len(self._made[k]) < size or self._made[k].dtype != dtype:
            self._made[k] = np.empty(size, dtype)
        return self._made[k][:size].reshape(shape)

    def rows(self, X: NDArray[Any], rows: Integers, dtype: Any) -> NDArray[Any]:
        """Those rows of an array."""
        found = self._array((len(rows), X.shape[1]), dtype)
        if X.dtype == dtype:
            return np.take(X, rows, axis=0, out=found, mode="clip")  # others would be buffered
        found[...] = X[rows]
        return found

    def matmul(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.matmul(a, b, out=self._array((a.shape[0], b.shape[1]), a.dtype)))

    def multiply(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.multiply(a, b, out=self._array(a.shape, a.dtype)))

    def exp(self, a: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(a, out=self._array(a.shape, a.dtype)))

    def clip(self, a: NDArray[Any], low: float, high: None) -> NDArray[Any]:
        return np.asarray(np.clip(a, low, high, out=self._array(a.shape, a.dtype)))

    def asarray(self, a: NDArray[Any], dtype: Any) -> NDArray[Any]:
        found = self._array(a.shape, dtype)
        found[...] = a
        return found


class _OfThread(threading.local):
    """What a thread keeps from piece to piece."""

    def __init__(self) -> None:
        self.arrays, self.shape = ReusedArrays(), (0, 0)

    def arrays_for(self, shape: tuple[int, int]) -> ReusedArrays:
        """Arrays for codebooks of this shape; those for another are given back."""
        if shape != self.shape:
            self.arrays, self.shape = ReusedArrays(), shape
        return self.arrays


_of_thread = _OfThread()


@with_one_blas_thread
def piece_sums(
    level: FrozenLevel, X: Array, rows: Integers, w: Array | None, roles: Roles | None
) -> Sums:
    """What those ``rows`` of an array of NumPy say, in double precision; w and roles are theirs."""
    slope, total = level.frozen.slope, None
    place, xp = Place(np, slope.dtype), _of_thread.arrays_for(slope.shape)
    # As it came, it need not lie at addresses that products of NumPy take as they are: those of a
    # single row would be added in another order.
    frozen = Frozen(*(None if each is None else place.put(each) for each in level.frozen))
    level = replace(level, frozen=frozen, c=np.require(level.c, requirements="A"))
    for begin in range(0, len(rows), CHUNK):
        here = slice(begin, begin + CHUNK)
        xp.begin_chunk()
        chunk = Chunk(
            xp.rows(X, rows[here], slope.dtype),
            None if w is None else w[here],
            None if roles is None else roles[here],
        )
        said = Sums(*(None if each is None else np.asarray(each, dtype=float)
                      for each in level.sums(chunk, place, xp)))  # fmt: skip
        total = said if total is None else total + said
    assert total is not None
    return total
