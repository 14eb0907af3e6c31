"""What every estimator with codevectors shares: rows checked, divergences to codevectors, tags.

No mathematics here.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.estimators.chunked_rows import by_chunk
from annealed.kernels import (
    ArrayRows,
    SparseRows,
    column_ranges,
    given_back,
    is_foreign,
    kernel_for,
    to_host,
    welcomes_sparse,
)
from annealed.kernels.protocol import Rows

# Kinds of labels that are always classes: scikit-learn need not be asked, which takes as long as a
# few hundred samples of a stream.
CLASSES = "biuU"


def all_or_nothing(learn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that learns change the estimator only when it has succeeded.

    It works on a shallow copy, so an error or Ctrl-C, wherever it strikes, leaves the estimator as
    it was, down to ``n_features_in_``.
    """

    @functools.wraps(learn)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.pop("_fast_path", None)  # it leads to the original's state
        learn(twin, *args, **kwargs)
        self.__dict__ = twin.__dict__
        return self

    return guarded


def consistent(read: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that reads see one state of the estimator, also while another thread learns.

    What learns replaces the estimator's attributes all at once (`all_or_nothing`); reading works on
    those that were there when it began. Where rows come in arrays of another library, answers do.
    """

    @functools.wraps(read)
    def reading(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        twin = object.__new__(type(self))
        twin.__dict__ = self.__dict__.copy()
        answer = read(twin, X, *args, **kwargs)
        return given_back(answer, X) if self._takes_arrays else answer

    return reading


class CodevectorEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows in, divergences to codevectors out.

    Whoever derives from it says what ``codevectors_`` are and which divergence was fitted
    (``_fitted_divergence``).
    """

    divergence: str | BregmanDivergence
    _takes_sparse: ClassVar[bool] = False
    # Whether rows in arrays of other libraries than NumPy stay where they are.
    _takes_arrays: bool = False

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # -- rows ----------------------------------------------------------------------------------

    def _checked_rows(
        self, X: ArrayLike, divergence: BregmanDivergence, *, reset: bool, **options: Any
    ) -> Rows:
        """Rows as they are if float32 or float64, otherwise converted; never copied needlessly.

        Sparse ones stay sparse.
        """
        if self._takes_arrays and is_foreign(X):
            return self._checked_arrays(X, divergence, reset=reset)
        options = {"dtype": [np.float64, np.float32], **options}
        if sparse.issparse(X):
            refuse_sparse(X, divergence, self._takes_sparse)
            options["accept_sparse"] = "csr"
        found = validate_data(self, X, reset=reset, ensure_all_finite=False, **options)
        rows: Rows = SparseRows(found) if sparse.issparse(found) else found
        # scikit-learn's own check of a large table takes longer than to predict its rows.
        lowest, highest, finite = column_ranges(rows)
        if not finite:
            validate_data(self, X, reset=reset, **options)  # says what was wrong
        divergence.check(rows, getattr(self, "feature_names_in_", None), (lowest, highest))
        return rows

    def _checked_arrays(self, X: Any, divergence: BregmanDivergence, *, reset: bool) -> Rows:
        """Rows in an array of another library, where they are."""
        if len(X.shape) != 2 or 0 in X.shape:
            raise ValueError(
                f"Expected an array of rows and features, at least one of each, got one of shape "
                f"{tuple(X.shape)}"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        rows: Rows = ArrayRows.floating(X)
        lowest, highest, finite = column_ranges(rows)
        if not finite:
            raise ValueError("Input X contains NaN or infinity")
        divergence.check(rows, getattr(self, "feature_names_in_", None), (lowest, highest))
        return rows

    def _rows_to_read(self, X: ArrayLike) -> Rows:
        check_is_fitted(self)
        return self._checked_rows(X, self._fitted_divergence, reset=False)

    def _checked_labelled(
        self, X: ArrayLike, y: ArrayLike, divergence: BregmanDivergence, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, labels = self._rows_and_labels(X, y, divergence, reset=reset)
        if labels.dtype.kind not in CLASSES:
            check_classification_targets(labels)
        return rows, labels

    def _rows_and_labels(
        self, X: ArrayLike, y: ArrayLike, divergence: BregmanDivergence, *, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and as many labels, whatever those are."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        rows = self._checked_rows(X, divergence, reset=reset)
        labels = column_or_1d(to_host(y) if is_foreign(y) else y, warn=True)
        if len(labels) != len(rows):
            raise ValueError(f"X has {len(rows)} rows, but y has {len(labels)} labels")
        return rows, labels

    def _check_weighted(
        self, classes: NDArray[Any], index: NDArray[np.int64], weights: Array | None
    ) -> None:
        if weights is None:
            return
        empty = np.bincount(index, weights=weights, minlength=len(classes)) == 0
        if empty.any():
            raise ValueError(
                f"no sample of class {names_of(classes[empty].tolist())} has a positive weight; "
                "leave the class out or give one of its rows a weight"
            )

    def _for_reading(self, X: Any, *, whole: bool = True) -> Self:
        """A copy that says of rows like these what this one says now, whatever it learns later.

        Where not the ``whole`` model is asked for, all but what predicts may be left out.
        """
        self._check_readable(X)
        return copy.deepcopy(self)

    def _check_readable(self, X: Any) -> None:
        """ValueError if rows in chunks are none for this model."""
        check_is_fitted(self)
        if X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )

    # -- the model -----------------------------------------------------------------------------

    @property
    def _fitted_divergence(self) -> BregmanDivergence:
        raise NotImplementedError

    @property
    def codevectors_(self) -> Array:
        """mu_i, shape (K, n_features)."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return len(self.codevectors_)

    @by_chunk
    @consistent
    def transform(self, X: ArrayLike) -> Array:
        """Divergences of every row to every codevector, shape (n_samples, K)."""
        rows = self._rows_to_read(X)
        return kernel_for(self._fitted_divergence).divergences(rows, self.codevectors_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse and _may_be_sparse(self.divergence)
        tags.transformer_tags.preserves_dtype = ["float64"]
        try:
            low = get_divergence(self.divergence).low
        except (ValueError, AttributeError):  # reported by fit, not here
            low = -np.inf
        tags.input_tags.positive_only = bool(low >= 0)
        return tags


def places_of(labels: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64] | None:
    """Index of every label among the known ones, which are in order; None if there are others.

    For a stream of few classes much cheaper than sorting all labels again.
    """
    if labels.dtype.kind != known.dtype.kind or labels.dtype.kind not in "biufU":
        return None
    places = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    return places if (known[places] == labels).all() else None


def _may_be_sparse(divergence: str | BregmanDivergence) -> bool:
    try:
        return welcomes_sparse(get_divergence(divergence))
    except (ValueError, AttributeError):  # reported by fit, not here
        return False


def refuse_sparse(X: Any, divergence: BregmanDivergence, taken: bool = False) -> None:
    """Raise TypeError unless sparse rows are taken, and zeros mean something to the divergence."""
    if not sparse.issparse(X) or (taken and welcomes_sparse(divergence)):
        return
    raise TypeError(
        "Sparse data was passed, but "
        + (
            f"the {divergence.name} divergence needs every value of a row; sparse rows go with "
            "'squared_euclidean', 'i_divergence' and 'kullback_leibler'."
            if taken
            else "codevectors are means of samples and become dense at once."
        )
        + " Use X.toarray(), or reduce the features first, for example with "
        "sklearn.decomposition.TruncatedSVD."
    )


def checked_weights(
    sample_weight: ArrayLike | None, n_samples: int, *, all_zero: bool = False
) -> Array | None:
    """Sample weights as floats; ValueError if they are not finite, or negative.

    Or ``all_zero``, unless they may be: a stream can be cut anywhere.
    """
    if sample_weight is None:
        return None
    given = to_host(sample_weight) if is_foreign(sample_weight) else sample_weight
    weights = np.asarray(given, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_samples,)}!")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity")
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"sample_weight must not be negative, but row {row} has {weights[row]:g}")
    if not (all_zero or weights.any()):
        raise ValueError("all sample weights are zero: there is nothing to learn from")
    return np.ascontiguousarray(weights)


def mean_one(weights: Array | None) -> Array | None:
    """Weights scaled so that a row counts as one sample on average (only ratios matter in fit)."""
    return None if weights is None else weights * (np.count_nonzero(weights) / weights.sum())


def names_of(values: Sequence[Any]) -> str:
    """A short list of labels for a message."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values[:5]]
    shown = ", ".join(repr(value) for value in plain)
    return shown + (", ..." if len(values) > 5 else "")
