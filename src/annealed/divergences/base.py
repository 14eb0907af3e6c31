"""Bregman divergences: phi, its gradient and Hessian, and where they are defined.

A Bregman divergence is ``d(x, mu) = phi(x) - phi(mu) - <grad phi(mu), x - mu>`` for a strictly
convex phi (the paper's Definition 2). Whatever phi is, the codevector that represents a set of
samples best is their mean (Theorem 1), which is why annealing needs no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.stored import Vector, require

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

# Codevectors stay this far inside the domain, relative to the mean of the feature: close enough
# to the boundary to represent "almost always zero", far enough for log mu to be finite.
BOUNDARY_FLOOR = 1e-6
# Samples may be this large, and their unit of temperature this small: variances are told from
# chance by fourth powers, which then stay within what a double can hold (1e-308 to 1e308).
LARGEST = 1e70
SMALLEST_UNIT = 1e-140


class BregmanDivergence:
    """A Bregman divergence of the user's own making.

    Parameters
    ----------
    phi : callable
        ``phi(X) -> (n_samples,)``: the strictly convex function, row by row.
    gradient : callable
        ``gradient(X) -> (n_samples, n_features)``: its gradient.
    domain : tuple (low, high), default=(-inf, inf)
        The interval every feature lies in. Samples may touch its ends where phi is finite;
        codevectors stay inside.
    hessian : callable, optional
        ``hessian(X) -> (n_samples, n_features)`` for a phi that is a sum over features: its
        second derivatives. Left out, products with the Hessian are taken by differences of the
        gradient, which any phi allows.
    name : str, default="custom"
        What messages and saved models call it.

    Notes
    -----
    It runs in NumPy, one sample at a time: some 100 microseconds per sample where the built-in
    divergences, which are compiled, take a few tenths of one. ``shape="round"`` needs the fewest.

    On the first data it meets, phi is checked: finite there, strictly convex between pairs of
    rows, and with a gradient that agrees with its differences.

    Examples
    --------
    >>> import numpy as np
    >>> from annealed import BregmanDivergence, ODAClustering
    >>> cosh = BregmanDivergence(
    ...     phi=lambda x: np.cosh(x).sum(axis=1), gradient=np.sinh, hessian=np.cosh, name="cosh"
    ... )
    >>> X = np.concatenate([np.random.default_rng(0).normal(m, 0.1, (60, 1)) for m in (-1, 1)])
    >>> model = ODAClustering(2, shape="round", divergence=cosh, random_state=0).fit(X)
    >>> np.sort(model.cluster_centers_.round(1), axis=None)
    array([-1.,  1.])
    """

    #: which compiled kernel measures it (None: the NumPy one does)
    kernel: str | None = None
    #: square root L of a Mahalanobis matrix: the kernel reads x L instead of x
    matrix: Array | None = None
    #: whether it is a sum over features that can be weighed one by one
    weighable = False
    #: whether a sample may lie on the boundary of the domain
    closed = True
    #: whether rows, and so codevectors, sum to one
    simplex = False

    def __init__(
        self,
        phi: Function,
        gradient: Function,
        domain: tuple[float, float] = (-np.inf, np.inf),
        *,
        hessian: Function | None = None,
        name: str = "custom",
    ) -> None:
        if not (callable(phi) and callable(gradient)):
            raise TypeError("phi and gradient must be callables that take an array of rows")
        low, high = domain
        if not low < high:
            raise ValueError(f"domain must be (low, high) with low < high, got {domain!r}")
        self._phi = phi
        self._gradient = gradient
        self._hessian = hessian
        self.low, self.high = float(low), float(high)
        self.name = name

    def __repr__(self) -> str:
        return f"<Bregman divergence {self.name!r}>"

    @property
    def separable(self) -> bool:
        """Whether phi is known to be a sum over features, so that its Hessian is diagonal."""
        return self._hessian is not None

    # -- the function itself -------------------------------------------------------------------

    def phi(self, X: Array) -> Array:
        """phi of every row, shape (n_samples,)."""
        return np.asarray(self._phi(X), dtype=float)

    def gradient(self, X: Array) -> Array:
        """Gradient of phi at every row, shape (n_samples, n_features)."""
        return np.asarray(self._gradient(X), dtype=float)

    def hessian_diagonal(self, X: Array) -> Array:
        """Second derivative of phi in every feature, shape (n_samples, n_features)."""
        if self._hessian is not None:
            return np.asarray(self._hessian(X), dtype=float)
        diagonal = np.empty_like(X)
        for j in range(X.shape[1]):
            unit = np.zeros_like(X)
            unit[:, j] = 1.0
            diagonal[:, j] = self.hessian_product(X, unit)[:, j]
        return diagonal

    def hessian_product(self, mu: Array, a: Array) -> Array:
        """H(mu_i) a_i for every row i, shape (n_samples, n_features)."""
        if self._hessian is not None:
            return self.hessian_diagonal(mu) * a
        # Central differences; the step is the cube root of the rounding unit of mu, shortened
        # where it would leave the domain.
        norm = np.sqrt((a**2).sum(axis=1, keepdims=True))
        step = (
            6e-6 * np.maximum(np.abs(mu).max(axis=1, keepdims=True), 1e-3) / np.where(norm, norm, 1)
        )
        with np.errstate(divide="ignore"):
            room = np.where(a != 0, np.minimum(mu - self.low, self.high - mu) / np.abs(a), np.inf)
        step = np.minimum(step, 1e-3 * room.min(axis=1, keepdims=True))
        difference = self.gradient(mu + step * a) - self.gradient(mu - step * a)
        return np.asarray(difference / (2 * step))

    def pairwise(self, X: Array, mu: Array) -> Array:
        """d(x, mu) for every row of X and of mu, shape (n_samples, n_codevectors)."""
        theta = self.gradient(mu)
        slope = X @ theta.T - (theta * mu).sum(axis=1)
        return np.asarray(self.phi(X)[:, None] - self.phi(mu) - slope)

    # -- moving a codevector -------------------------------------------------------------------

    def moved(self, mu: Array, step: Array) -> Array:
        """Codevectors after a step in the dual variable theta = gradient(mu), mapped back.

        That never leaves the domain. For a divergence of your own the way back is not known: its
        steps are taken in mu itself and cut short where the domain ends.
        """
        return mu + step

    def step_unit(self, mean: Array, deviation: Array) -> Array:
        """The step of `moved` that takes a codevector at the mean by one standard deviation."""
        return deviation

    # -- where it is defined -------------------------------------------------------------------

    def check(
        self,
        X: NDArray[Any],
        names: Sequence[str] | None = None,
        ranges: tuple[Array, Array] | None = None,
    ) -> None:
        """Raise ValueError, naming the column and the fix, if a row lies outside the domain.

        ``ranges`` are the lowest and highest value of every column, if they are known.
        """
        lowest, highest = (X.min(axis=0), X.max(axis=0)) if ranges is None else ranges
        self._check_rows(X, names, lowest, highest)

    def _check_rows(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        self._check_size(X, names, lowest, highest)
        self._check_interval(names, lowest, highest)
        self._check_convexity(np.asarray(X[:256], dtype=float))

    def _check_size(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        if X.dtype == np.float32 or (highest.max() <= LARGEST and lowest.min() >= -LARGEST):
            return
        j = int(np.argmax(np.maximum(highest, -lowest)))
        column = X.column(j) if hasattr(X, "column") else X[:, j]
        row = int(np.argmax(np.abs(column)))
        raise ValueError(
            f"{_column(j, names)} holds {column[row]:g} in row {row}: beyond {LARGEST:g} powers "
            "of a value overflow. Divide that column by a constant."
        )

    def check_spread(self, unit: float, lowest: Array, highest: Array) -> None:
        """Raise ValueError if samples differ, but too little for a `unit` to be measured."""
        spread = float(np.max(highest - lowest, initial=0.0))
        if spread > 0 and not SMALLEST_UNIT <= unit < np.inf:
            raise ValueError(
                f"the samples differ, but by no more than {spread:g}, and powers of such "
                "differences cannot be told from zero. Multiply the data by a constant."
            )

    def _check_interval(self, names: Sequence[str] | None, lowest: Array, highest: Array) -> None:
        below = lowest < self.low if self.closed else lowest <= self.low
        above = highest > self.high if self.closed else highest >= self.high
        for bad, extreme in ((below, lowest), (above, highest)):
            if bad.any():
                j = int(np.argmax(bad))
                name = _column(j, names)
                lead = "Negative values in data: " if self.low == 0 and extreme[j] < 0 else ""
                raise ValueError(
                    f"{lead}{name} holds {extreme[j]:g}, outside the domain of the {self.name} "
                    f"divergence, {self._interval()}. {self._remedy()}"
                )

    def _interval(self) -> str:
        left, right = ("[", "]") if self.closed else ("(", ")")
        if np.isinf(self.low):
            left = "("
        if np.isinf(self.high):
            right = ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def _remedy(self) -> str:
        return (
            "Shift or scale that column into it (nothing is clipped for you), or choose another "
            "divergence, for example 'squared_euclidean'."
        )

    def _check_convexity(self, X: Array) -> None:
        values = self.phi(X)
        if values.shape != (len(X),):
            raise ValueError(
                f"phi of {len(X)} rows must have shape ({len(X)},), got {values.shape}"
            )
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"phi of the {self.name} divergence is {values[row]} at row {row}")
        Y = X[::-1]
        apart = np.flatnonzero((X != Y).any(axis=1))
        if not len(apart):
            return
        X, Y, at_x, at_y = X[apart], Y[apart], values[apart], values[::-1][apart]
        middle = (X + Y) / 2
        # Rounding of phi itself hides any smaller curvature.
        slack = 8 * np.finfo(float).eps * (np.abs(at_x) + np.abs(at_y))
        bulge = (at_x + at_y) / 2 - self.phi(middle)
        if (bulge < -slack).any():
            row = int(apart[np.argmin(bulge)])
            raise ValueError(
                f"phi of the {self.name} divergence is not strictly convex: between rows {row} and "
                f"{len(values) - 1 - row} it lies above its chord"
            )
        inside = (middle + X.mean(axis=0)) / 2  # rows may touch the boundary, these do not
        slope = (self.gradient(inside) * (Y - X)).sum(axis=1)
        step = 1e-4
        difference = self.phi(inside + step * (Y - X)) - self.phi(inside - step * (Y - X))
        error = np.abs(difference / (2 * step) - slope)
        scale = np.abs(slope) + np.abs(at_x - at_y) + np.abs(at_x) + np.abs(at_y)
        if (error > 1e-3 * scale).any():
            raise ValueError(
                f"gradient of the {self.name} divergence does not agree with the differences of phi"
            )
        curvature = (self.hessian_diagonal(inside[:8]) * np.ptp(X, axis=0) ** 2).max(axis=0)
        flat = (np.ptp(X, axis=0) > 0) & ~(curvature > 1e-10 * curvature.max())
        if flat.any():
            raise ValueError(
                f"phi of the {self.name} divergence is not strictly convex: it is flat in feature "
                f"{int(np.argmax(flat))}"
            )

    def bounds(self, mean: Array) -> tuple[Array, Array]:
        """Lowest and highest value of a codevector in every feature, inside the domain."""
        low, high = np.full(len(mean), self.low), np.full(len(mean), self.high)
        if np.isfinite(self.low):
            low += BOUNDARY_FLOOR * _positive(mean - self.low)
        if np.isfinite(self.high):
            high -= BOUNDARY_FLOOR * _positive(self.high - mean)
        return low, high

    def unit(self, mean: Array, variance: Array) -> float:
        """The unit of temperature, trace(H(mean) C): an upper bound of the first critical T."""
        spread = self._spread(mean, variance)
        if self._hessian is not None:
            return float(spread.sum())
        # Nothing is known of the off-diagonal terms; |H_jk C_jk| is at most the geometric mean.
        return float(np.sqrt(spread).sum() ** 2)

    def _spread(self, mean: Array, variance: Array) -> Array:
        low, high = self.bounds(mean)
        inside = np.clip(mean, low, high)[None, :]
        return np.where(variance > 0, self.hessian_diagonal(inside)[0] * variance, 0.0)


def _column(j: int, names: Sequence[str] | None) -> str:
    return f"column {j}" if names is None else f"column {j} ({names[j]!r})"


def _positive(distance: Array) -> Array:
    """Distances to the boundary, with a typical one where a column never leaves it."""
    positive = distance[distance > 0]
    return np.where(distance > 0, distance, positive.min() if len(positive) else 1.0)


class Geometry(NamedTuple):
    """How far a codevector may move at a step of fine-tuning, and where to: `Annealer.geometry`."""

    unit: Vector
    low: Vector
    high: Vector


def check_matrix(divergence: BregmanDivergence, d: int) -> None:
    """Raise MalformedError if it has a Mahalanobis matrix of another number of features."""
    matrix = divergence.matrix
    require(matrix is None or len(matrix) == d, "the Mahalanobis matrix is of another size")
