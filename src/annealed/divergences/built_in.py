"""The built-in divergences: compiled, each a sum over features (Mahalanobis after a rotation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from annealed.divergences.base import Array, BregmanDivergence


class Separable(BregmanDivergence):
    """A built-in divergence: compiled, a sum over features."""

    separable = True
    weighable = True

    def __init__(self, name: str, kernel: str, low: float, high: float) -> None:
        self.name, self.kernel = name, kernel
        self.low, self.high = low, high

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _check_rows(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        self._check_size(X, names, lowest, highest)
        self._check_interval(names, lowest, highest)

    def hessian_product(self, mu: Array, a: Array) -> Array:
        return self.hessian_diagonal(mu) * a

    def unit(self, mean: Array, variance: Array) -> float:
        return float(self._spread(mean, variance).sum())

    def terms(self, X: Array, mu: Array) -> Array:
        """What each feature adds to d(x, mu), of rows and codevectors that broadcast."""
        raise NotImplementedError

    def pairwise(self, X: Array, mu: Array) -> Array:
        return np.stack([self.terms(X, m).sum(axis=1) for m in mu], axis=1)

    def step_unit(self, mean: Array, deviation: Array) -> Array:
        low, high = self.bounds(mean)
        inside = np.clip(mean, low, high)[None, :]
        return np.asarray(self.hessian_diagonal(inside)[0] * deviation)


class SquaredEuclidean(Separable):
    """``|x - mu|^2``, phi = <x, x> (the paper's Example 1)."""

    def __init__(self) -> None:
        super().__init__("squared_euclidean", "squared_euclidean", -np.inf, np.inf)

    def _check_rows(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        self._check_size(X, names, lowest, highest)  # no value is too large but to be squared

    def phi(self, X: Array) -> Array:
        return np.asarray((X**2).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        return 2 * X

    def hessian_diagonal(self, X: Array) -> Array:
        return np.full_like(X, 2.0)

    def terms(self, X: Array, mu: Array) -> Array:
        return np.asarray((X - mu) ** 2)

    def moved(self, mu: Array, step: Array) -> Array:
        return mu + step / 2


class Mahalanobis(SquaredEuclidean):
    """``(x - mu)' A (x - mu)`` for a symmetric positive definite matrix A.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        A; the inverse of a covariance matrix gives the classical Mahalanobis distance.
    """

    separable = False
    weighable = False

    def __init__(self, matrix: ArrayLike) -> None:
        super().__init__()
        self.name = "mahalanobis"
        A = np.array(matrix, dtype=float)
        if not np.isfinite(A).all():
            raise ValueError("the Mahalanobis matrix must be finite, but holds NaN or infinity")
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise ValueError(f"the Mahalanobis matrix must be square, got shape {A.shape}")
        if not np.allclose(A, A.T):
            raise ValueError("the Mahalanobis matrix must be symmetric")
        try:
            self.matrix = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            raise ValueError("the Mahalanobis matrix must be positive definite") from None
        self.A = A

    def __repr__(self) -> str:
        return f"Mahalanobis(<{len(self.A)} x {len(self.A)} matrix>)"

    def _check_rows(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        if X.shape[1] != len(self.A):
            raise ValueError(
                f"the Mahalanobis matrix is {len(self.A)} x {len(self.A)}, but the data has "
                f"{X.shape[1]} features"
            )

    def phi(self, X: Array) -> Array:
        return np.asarray(((X @ self.A) * X).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        return np.asarray(2 * (X @ self.A))

    def hessian_product(self, mu: Array, a: Array) -> Array:
        return np.asarray(2 * (a @ self.A))

    def unit(self, mean: Array, variance: Array) -> float:
        """2 trace(A C): the variances are those of x L, where A = L L'."""
        return float(2 * variance.sum())

    def pairwise(self, X: Array, mu: Array) -> Array:
        return np.stack([(((X - m) @ self.A) * (X - m)).sum(axis=1) for m in mu], axis=1)


def _xlog(x: Array, ratio: Array) -> Array:
    """x log(ratio) with 0 log 0 = 0."""
    return x * np.log(np.where(x > 0, ratio, 1.0))


class IDivergence(Separable):
    """``sum x log(x/mu) - x + mu`` for non-negative data such as counts (Example 2)."""

    def __init__(self) -> None:
        super().__init__("i_divergence", "i_divergence", 0.0, np.inf)

    def _remedy(self) -> str:
        return (
            "Use it on counts and other amounts that cannot be negative, unscaled or min-max "
            "scaled, not standardised; or choose divergence='squared_euclidean'."
        )

    def phi(self, X: Array) -> Array:
        return np.asarray(_xlog(X, X).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        return np.asarray(np.log(X) + 1)

    def hessian_diagonal(self, X: Array) -> Array:
        return 1 / X

    def terms(self, X: Array, mu: Array) -> Array:
        return _xlog(X, X / mu) - X + mu

    def moved(self, mu: Array, step: Array) -> Array:
        return np.asarray(mu * np.exp(step))


class KullbackLeibler(IDivergence):
    """``sum x log(x/mu)`` for rows that are probabilities: non-negative, summing to one."""

    weighable = False  # the features of a row share what there is
    simplex = True

    def __init__(self) -> None:
        super().__init__()
        self.name = "kullback_leibler"

    def _check_rows(
        self, X: NDArray[Any], names: Sequence[str] | None, lowest: Array, highest: Array
    ) -> None:
        super()._check_rows(X, names, lowest, highest)
        total = X.sum(axis=1, dtype=float)
        tolerance = 1e-4 if X.dtype == np.float32 else 1e-8
        off = np.abs(total - 1) > tolerance
        if off.any():
            row = int(np.argmax(off))
            raise ValueError(
                f"row {row} sums to {total[row]:g}, but the kullback_leibler divergence is for "
                "rows that sum to 1. Divide each row by its sum, or use divergence='i_divergence'."
            )


class ItakuraSaito(Separable):
    """``sum x/mu - log(x/mu) - 1`` for positive data such as power spectra."""

    closed = False

    def __init__(self) -> None:
        super().__init__("itakura_saito", "itakura_saito", 0.0, np.inf)

    def _remedy(self) -> str:
        return (
            "It is infinite at 0. Drop or offset such cells, or choose "
            "divergence='i_divergence', which welcomes zeros."
        )

    def phi(self, X: Array) -> Array:
        return np.asarray(-np.log(X).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        return -1 / X

    def hessian_diagonal(self, X: Array) -> Array:
        return 1 / X**2

    def terms(self, X: Array, mu: Array) -> Array:
        return np.asarray((X - mu) / mu - np.log(X / mu))

    def moved(self, mu: Array, step: Array) -> Array:
        # theta = -1/mu must stay negative: no step takes more than half the way there.
        return np.asarray(mu / (1 - np.minimum(mu * step, 0.5)))


class Logistic(Separable):
    """``sum x log(x/mu) + (1 - x) log((1 - x)/(1 - mu))`` for data between 0 and 1."""

    def __init__(self) -> None:
        super().__init__("logistic", "logistic", 0.0, 1.0)

    def _remedy(self) -> str:
        return "Min-max scale that column to [0, 1], or choose divergence='squared_euclidean'."

    def phi(self, X: Array) -> Array:
        return np.asarray((_xlog(X, X) + _xlog(1 - X, 1 - X)).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        return np.asarray(np.log(X / (1 - X)))

    def hessian_diagonal(self, X: Array) -> Array:
        return 1 / (X * (1 - X))

    def terms(self, X: Array, mu: Array) -> Array:
        return _xlog(X, X / mu) + _xlog(1 - X, (1 - X) / (1 - mu))

    def moved(self, mu: Array, step: Array) -> Array:
        return np.asarray(mu / (mu + (1 - mu) * np.exp(-step)))


BUILT_IN: dict[str, Callable[[], BregmanDivergence]] = {
    "squared_euclidean": SquaredEuclidean,
    "i_divergence": IDivergence,
    "kullback_leibler": KullbackLeibler,
    "itakura_saito": ItakuraSaito,
    "logistic": Logistic,
}


def get_divergence(divergence: str | BregmanDivergence) -> BregmanDivergence:
    """The divergence of that name, or the one given."""
    if isinstance(divergence, BregmanDivergence):
        return divergence
    if isinstance(divergence, str) and divergence in BUILT_IN:
        return BUILT_IN[divergence]()
    known = ", ".join(repr(name) for name in BUILT_IN)
    raise ValueError(
        f"unknown divergence {divergence!r}. Known: {known}, Mahalanobis(matrix), or a "
        "BregmanDivergence of your own."
    )
