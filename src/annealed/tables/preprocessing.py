"""From a table to the vectors a model learns: numbers standardised, texts as indicators.

What it has learnt is a handful of plain arrays and strings (`TablePreprocessor.to_state`), and it
can follow a stream row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from annealed.kernels.compiled import record_reader, running_standardise
from annealed.kernels.protocol import RecordReader
from annealed.tables.categories import Categories
from annealed.tables.columns import (
    LARGEST,
    CellError,
    Codes,
    Column,
    Columns,
    Floats,
    cells_of_record,
    columns_of,
    number_of_cell,
    short_list,
    text_of_cell,
)
from annealed.tables.frames import frame_of
from annealed.tables.kinds import KINDS, NUMERIC
from annealed.tables.running import learn_row, spread, standardised
from annealed.tables.state import UNKNOWN, read_state


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Turn tables into vectors: numbers standardised, texts as indicators, missing cells filled.

    Every column counts alike: a number is given mean zero and variance one, and the indicators of
    a column of texts have variance one together. Truth values are numbers 0 and 1, times are
    seconds.

    Parameters
    ----------
    standardize : bool, default=True
        Whether columns are scaled at all. Without it numbers stay as they are and indicators are
        0 and 1; missing cells are filled all the same.
    unknown : {"auto", "error", "ignore"}, default="auto"
        What to do with a column or a key that is missing or new: raise a ValueError that names it,
        or take it for a missing cell or leave it out. "auto" is "ignore" for records (dicts, whose
        keys may come and go; in `fit` only once columns are known) and "error" for tables.
    kinds : dict or None, default=None
        What columns are, by name, where it cannot be seen or should be otherwise: "number",
        "boolean", "datetime" or "category" (of an array by "x0", "x1", ...).
    max_categories : int, default=30
        The most categories of a column that get an indicator of their own; the rest share one.

    Attributes
    ----------
    kinds_ : tuple of str
        What each column is.
    shares_out_ : ndarray of bool
        Which features that come out are shares of rows: of a category, or of a yes.
    mean_, scale_ : ndarray
        Of the columns of numbers, in their order.
    categories_ : dict
        The categories of every column of texts (None: missing).
    n_unseen_ : dict
        For each of these columns how many cells fell outside all indicators.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; arrays have no names.

    Notes
    -----
    In `fit` a missing number is replaced by the median. In a stream, which has none, by the running
    mean. What a stream's columns are is decided by its first row, and a column of texts then has
    ``max_categories`` indicators, which categories take as they appear.

    Examples
    --------
    >>> from annealed import TablePreprocessor
    >>> rows = [{"cm": 1.0, "colour": "red"}, {"cm": 3.0, "colour": "blue"}]
    >>> step = TablePreprocessor().fit(rows)
    >>> step.get_feature_names_out().tolist()
    ['cm', 'colour=blue', 'colour=red']
    >>> step.transform(rows).round(2).tolist()
    [[-1.0, 0.0, 1.41], [1.0, 1.41, 0.0]]
    """

    def __init__(
        self,
        *,
        standardize: bool = True,
        unknown: str = "auto",
        kinds: Mapping[str, str] | None = None,
        max_categories: int = 30,
    ) -> None:
        self.standardize = standardize
        self.unknown = unknown
        self.kinds = kinds
        self.max_categories = max_categories

    # -- what the columns are ------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.unknown not in UNKNOWN:
            raise ValueError(f"unknown must be one of {short_list(UNKNOWN)}, got {self.unknown!r}")
        for name, kind in (self.kinds or {}).items():
            if kind not in KINDS:
                raise ValueError(
                    f"kinds[{name!r}] must be one of {short_list(KINDS)}, got {kind!r}"
                )
        most = self.max_categories
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
            raise ValueError(f"max_categories must be an integer of at least 1, got {most!r}")

    def _set_names(self, names: Sequence[str], named: bool) -> None:
        self._check_parameters()
        strange = [name for name in self.kinds or {} if name not in names]
        if strange:
            raise ValueError(
                f"kinds names the column {strange[0]!r}; the columns are {short_list(names)}"
            )
        if not names:
            raise ValueError(
                "Found array with 0 feature(s) (shape=(0, 0)) while a minimum of 1 is required: "
                "the table has no columns"
            )
        self.n_features_in_ = len(names)
        self._names = tuple(names)
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _set_kinds(self, kinds: Sequence[str]) -> None:
        """Fix what columns are, and begin with statistics of nothing."""
        given = self.kinds or {}
        found = zip(self._names, kinds, strict=True)
        self.kinds_ = tuple(
            given.get(name, "number" if kind == "empty" else kind) for name, kind in found
        )
        numeric = sum(kind in NUMERIC for kind in self.kinds_)
        self._count, self._mean, self._m2 = (np.zeros(numeric) for _ in range(3))
        self._fill = np.full(numeric, np.nan)
        texts = len(self.kinds_) - numeric
        self._texts = [Categories([], int(self.max_categories), other=True) for _ in range(texts)]

    def _columns(self, X: Any) -> Columns:
        if not hasattr(self, "kinds_"):
            self._check_parameters()
            found = columns_of(X, ignore_unknown=self.unknown == "ignore")
        else:
            records = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping)
            ignore = self._keys_may_differ if records else self.unknown == "ignore"
            found = columns_of(X, self._names, ignore_unknown=ignore)
        if not found.n_rows:
            width = len(found.columns)
            raise ValueError(
                f"Found array with 0 sample(s) (shape=(0, {width})) while a minimum of 1 is "
                "required: the table has no rows"
            )
        return found

    @property
    def _keys_may_differ(self) -> bool:
        """Whether records may have other keys than the first."""
        return self.unknown != "error"

    def _begin(self, X: Any) -> Columns:
        """Forget everything; the columns of X say what columns are."""
        self.__dict__.pop("_reader", None)
        for name in ("kinds_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        columns = self._columns(X)
        self._set_names(columns.names, columns.named)
        self._set_kinds([column.kind for column in columns.columns])
        return columns

    def _parted(self, columns: Columns) -> tuple[Floats, list[Column]]:
        """Cells of numbers as a matrix and columns of texts; ValueError at a cell that is wrong."""
        X = np.empty((columns.n_rows, len(self._count)), order="F")
        texts, k = [], 0
        for column, kind in zip(columns.columns, self.kinds_, strict=True):
            if kind == "category":
                texts.append(column.as_category())
                continue
            X[:, k] = column.as_numbers()
            large = np.abs(X[:, k]) > LARGEST
            if large.any():
                row = int(np.argmax(large))
                problem = _too_large(float(X[row, k]))
                raise CellError(problem, column.name, row, columns.named)
            k += 1
        return np.ascontiguousarray(X), texts

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn columns, means, spreads, medians and categories from a whole table.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, list of dicts, or array
        y : ignored

        Returns
        -------
        self
        """
        X, texts = self._parted(self._begin(X))
        present = ~np.isnan(X)
        self._count = present.sum(axis=0).astype(np.float64)
        known = np.maximum(self._count, 1.0)
        self._mean = np.where(present, X, 0.0).sum(axis=0) / known
        self._m2 = (np.where(present, X - self._mean, 0.0) ** 2).sum(axis=0)
        self._fill = np.array([_median(x[seen]) for x, seen in zip(X.T, present.T, strict=True)])
        self._texts = [Categories.learnt(column, int(self.max_categories)) for column in texts]
        for categories, column in zip(self._texts, texts, strict=True):
            categories.learn(categories.places(column))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn rows in the order they come; the first call begins a stream."""
        self.learn_transform(X)
        return self

    def learn_transform(self, X: Any) -> Floats:
        """Learn rows one after the other, each transformed by what is known once it is learnt.

        However a stream is cut into calls, rows come out the same to the last bit.

        Returns
        -------
        ndarray of shape (n_rows, n_features_out)
        """
        if not hasattr(self, "kinds_"):
            self._begin(_first_row(X))
        numbers, texts = self._parted(self._columns(X))
        if self.standardize:
            Z = running_standardise(numbers, self._count, self._mean, self._m2, self._fill)
        else:
            Z = self._running_fill(numbers)
        blocks = []
        for categories, column in zip(self._texts, texts, strict=True):
            places = categories.places(column, learn=True)
            scale = categories.running_scale(places)
            blocks.append(categories.indicators(places, scale if self.standardize else 1.0))
        return self._joined(Z, blocks)

    def _running_fill(self, X: Floats) -> Floats:
        """Rows as they are, missing cells replaced by what is known once the row is learnt."""
        Z = X.copy()
        for row, x in enumerate(X):
            learn_row(x, self._count, self._mean, self._m2)
            gap = np.isnan(x)
            Z[row, gap] = self._stand_in()[gap]
        return Z

    def _stand_in(self) -> Floats:
        return np.where(np.isnan(self._fill), self._mean, self._fill)

    def learn_one(self, record: Mapping[str, Any] | Sequence[Any]) -> Floats:
        """Learn one record: a dict, in any order of its keys, or an array.

        Returns
        -------
        ndarray of shape (n_features_out,)
            What `transform_one` then makes of it.
        """
        z = self.learn_plain(record)
        if z is not None:
            return z
        if not hasattr(self, "kinds_"):
            self._begin([record])
        x, labels = self._cells(record)
        Z = running_standardise(x[None, :], self._count, self._mean, self._m2, self._fill)
        for categories, label in zip(self._texts, labels, strict=True):
            place = categories.place_of(label, learn=True)
            if place < 0:
                categories.unseen += 1
            else:
                categories.counts[place] += 1
        if self.standardize and not labels:
            first: Floats = Z[0]
            return first
        return self._vector(x, labels)

    def learn_plain(self, record: Any) -> Floats | None:
        """As `learn_one`, for records of numbers in a stream under way; None for others.

        What it learnt last can be taken back.
        """
        reader = self.__dict__.get("_reader") or self._new_reader()
        return None if reader is None else reader.learn(record)

    def take_back(self) -> None:
        """Forget the record that `learn_plain` learnt last."""
        self._reader.take_back()

    def _new_reader(self) -> RecordReader | None:
        """What reads records in one go; None where there are texts, or nothing is known yet."""
        if not hasattr(self, "kinds_") or self._texts:
            return None
        self._reader = record_reader(
            self._names, bool(self.standardize), self._keys_may_differ, LARGEST,
            self._count, self._mean, self._m2, self._fill,
        )  # fmt: skip
        return self._reader

    def transform_one(self, record: Mapping[str, Any] | Sequence[Any]) -> Floats:
        """One record as a vector, shape (n_features_out,)."""
        reader = self.__dict__.get("_reader") or self._new_reader()
        z = None if reader is None else reader.transform(record)
        if z is not None:
            return z
        if not hasattr(self, "kinds_"):
            check_is_fitted(self)  # raises; asking it takes longer than the record
        return self._vector(*self._cells(record))

    def _vector(self, x: Floats, labels: list[str | None]) -> Floats:
        if not labels:
            return self._scaled(x)
        places, offsets, width = self._layout()
        z = np.zeros(width)
        z[places] = self._scaled(x)
        for categories, offset, label in zip(self._texts, offsets, labels, strict=True):
            place = categories.place_of(label)
            if place >= 0:
                z[offset + place] = categories.scale if self.standardize else 1.0
        return z

    def _layout(self) -> tuple[list[int], list[int], int]:
        """Where numbers come out, where the indicators of texts begin, and how many there are."""
        places: list[int] = []
        offsets: list[int] = []
        texts, width = iter(self._texts), 0
        for kind in self.kinds_:
            if kind == "category":
                offsets.append(width)
                width += next(texts).width
            else:
                places.append(width)
                width += 1
        return places, offsets, width

    def _cells(self, record: Mapping[str, Any] | Sequence[Any]) -> tuple[Floats, list[str | None]]:
        """Numbers and texts of a record."""
        if isinstance(record, Mapping):
            cells: Any = cells_of_record(record, self._names, self._keys_may_differ)
        else:
            cells = record
            if len(cells) != len(self._names):
                raise ValueError(
                    f"the record has {len(cells)} values, but {len(self._names)} were expected"
                )
            if not self._texts and isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu":
                return _finite(cells.astype(np.float64), self._names), []
        numbers: list[float] = []
        texts: list[str | None] = []
        for name, kind, cell in zip(self._names, self.kinds_, cells, strict=True):
            if type(cell) is float and kind != "category":  # by far the most common
                numbers.append(cell)
            elif kind == "category":
                texts.append(text_of_cell(cell))
            else:
                try:
                    numbers.append(number_of_cell(cell))
                except (TypeError, ValueError):
                    raise ValueError(
                        f"column {name!r}: {cell!r} is not a number, and the column was taken for "
                        "numbers when learning began (so is one whose first cell is missing); if "
                        f"it holds texts, say so at the beginning: kinds={{{name!r}: 'category'}}"
                    ) from None
        x = np.array(numbers, dtype=np.float64)
        if (np.abs(x) > LARGEST).any():
            _finite(x, self._number_names)
        return x, texts

    def copy(self) -> Self:
        """A twin that can go on by itself."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.pop("_reader", None)  # it leads to the original's statistics
        if hasattr(self, "kinds_"):
            for name in ("_count", "_mean", "_m2", "_fill"):
                setattr(twin, name, getattr(self, name).copy())
            twin._texts = [categories.copy() for categories in self._texts]
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_reader"}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `fit` and the next rows of a stream heed them."""
        self.__dict__.pop("_reader", None)
        super().set_params(**params)
        return self

    # -- reading -------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kinds_")

    def transform(self, X: Any) -> Floats:
        """Rows as vectors, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        numbers, texts = self._parted(self._columns(X))
        blocks = [
            categories.indicators(
                categories.places(column), categories.scale if self.standardize else 1.0
            )
            for categories, column in zip(self._texts, texts, strict=True)
        ]
        return self._joined(self._scaled(numbers), blocks)

    def _scaled(self, X: Floats) -> Floats:
        if self.standardize:
            return standardised(X, self._count, self._mean, self._m2, self._fill)
        return np.where(np.isnan(X), self._stand_in(), X)

    def _joined(self, numbers: Floats, blocks: Sequence[Floats]) -> Floats:
        """Numbers and indicators in the order of the columns."""
        if not blocks:
            return numbers
        places, offsets, width = self._layout()
        Z = np.empty((len(numbers), width))
        Z[:, places] = numbers
        for block, offset in zip(blocks, offsets, strict=True):
            Z[:, offset : offset + block.shape[1]] = block
        return Z

    def inverse_transform(self, Z: ArrayLike) -> Floats:
        """Vectors in the columns' own units; indicators become shares between 0 and 1.

        Parameters
        ----------
        Z : array-like of shape (n, n_features_out)
            For example codevectors.

        Returns
        -------
        ndarray of shape (n, n_features_out)
        """
        check_is_fitted(self)
        Z = np.asarray(Z, dtype=np.float64)
        factor, shift = self._units()
        if Z.ndim != 2 or Z.shape[1] != len(factor):
            raise ValueError(f"expected shape (n, {len(factor)}), got {Z.shape}")
        return Z * factor + shift

    def _units(self) -> tuple[Floats, Floats]:
        """For every feature that comes out, how long its unit is in the column's and where 0 is."""
        if not self.standardize:
            d = len(self.get_feature_names_out())
            return np.ones(d), np.zeros(d)
        texts, numbers = iter(self._texts), iter(zip(self.scale_, self._mean, strict=True))
        factor: list[float] = []
        shift: list[float] = []
        for kind in self.kinds_:
            if kind == "category":
                categories = next(texts)
                factor += [1 / categories.scale] * categories.width
                shift += [0.0] * categories.width
            else:
                scale, mean = next(numbers)
                factor.append(scale)
                shift.append(mean)
        return np.array(factor), np.array(shift)

    # -- several streams -----------------------------------------------------------------------

    def merge(self, other: Self, *others: Self) -> Self:
        """One step of several that have learnt from tables of the same columns.

        Means and spreads are those of all rows together, and so are the shares of categories.
        Medians, which cannot be had without the rows, are averaged by the number of their cells.

        Parameters
        ----------
        other, *others : TablePreprocessor
            Fitted, with the same columns, in any order. The parameters of this one are kept.

        Returns
        -------
        TablePreprocessor

        Examples
        --------
        >>> from annealed import TablePreprocessor
        >>> here = TablePreprocessor().partial_fit([{"cm": 1.0}, {"cm": 3.0}])
        >>> there = TablePreprocessor().partial_fit([{"cm": 8.0}])
        >>> here.merge(there).mean_.tolist()
        [4.0]
        """
        for step in (self, other, *others):
            self._check_mergeable(step)
        steps = [self, *(step._ordered_as(self) for step in (other, *others))]
        joined = self.copy()
        count = np.array([step._count for step in steps])
        share = count / np.maximum(count.sum(axis=0), 1.0)
        means = np.array([step._mean for step in steps])
        joined._count, joined._mean = count.sum(axis=0), (share * means).sum(axis=0)
        joined._m2 = sum(
            step._m2 + n * (step._mean - joined._mean) ** 2
            for step, n in zip(steps, count, strict=True)
        )
        median = np.any([~np.isnan(step._fill) for step in steps], axis=0)
        fill = (share * np.array([step._stand_in() for step in steps])).sum(axis=0)
        joined._fill = np.where(median, fill, np.nan)
        texts = zip(*(step._texts for step in steps), strict=True)
        joined._texts = [Categories.merged(parts, int(self.max_categories)) for parts in texts]
        return joined

    def _check_mergeable(self, other: Any) -> None:
        """ValueError or TypeError if the two do not fit together."""
        if type(other) is not type(self):
            raise TypeError(
                f"{type(self).__name__} can be merged with another {type(self).__name__} only, not "
                f"with {type(other).__name__}"
            )
        check_is_fitted(other)
        if sorted(self._names) != sorted(other._names):
            raise ValueError(
                f"the models are of columns {short_list(self._names)} and "
                f"{short_list(other._names)}"
            )
        theirs = dict(zip(other._names, other.kinds_, strict=True))
        for name, kind in zip(self._names, self.kinds_, strict=True):
            if theirs[name] != kind:
                raise ValueError(
                    f"the column {name!r} is of kind {kind!r} in one model and {theirs[name]!r} in "
                    "another; say what it is when they learn"
                )
        if bool(self.standardize) != bool(other.standardize):
            raise ValueError("one model standardises its columns and another does not")

    def _ordered_as(self, other: Self) -> Self:
        """A twin with its columns in the order of those of another."""
        twin = self.copy()
        order = [self._number_names.index(name) for name in other._number_names]
        twin._count, twin._mean, twin._m2, twin._fill = (
            values[order] for values in (self._count, self._mean, self._m2, self._fill)
        )
        texts = dict(self._named_texts())
        twin._texts = [texts[name] for name, _ in other._named_texts()]
        return twin

    def vectors_for(self, joined: Self, Z: ArrayLike) -> Floats:
        """Vectors of this step as those of one that it was merged into.

        Parameters
        ----------
        joined : TablePreprocessor
        Z : array-like of shape (n, n_features_out)

        Returns
        -------
        ndarray of shape (n, n_features_out of ``joined``)
        """
        own = self.inverse_transform(Z)
        factor, shift = joined._units()
        found = np.zeros((len(own), len(factor)))
        at, begins, _ = joined._layout()
        places, offsets, _ = self._layout()
        for name, place in zip(joined._number_names, at, strict=True):
            found[:, place] = own[:, places[self._number_names.index(name)]]
        texts = {
            name: (known, offset)
            for (name, known), offset in zip(self._named_texts(), offsets, strict=True)
        }
        for (name, theirs), begin in zip(joined._named_texts(), begins, strict=True):
            known, offset = texts[name]
            for k, place in enumerate(theirs.places_from(known)):
                if place >= 0:
                    found[:, begin + place] += own[:, offset + k]
        return (found - shift) / factor

    # -- what it has learnt --------------------------------------------------------------------

    @property
    def shares_out_(self) -> NDArray[np.bool_]:
        """Which features that come out are shares of rows: of a category, or of a yes."""
        check_is_fitted(self)
        texts = iter(self._texts)
        found: list[bool] = []
        for kind in self.kinds_:
            found += [True] * next(texts).width if kind == "category" else [kind == "boolean"]
        return np.array(found)

    @property
    def mean_(self) -> Floats:
        """Mean of every column of numbers."""
        check_is_fitted(self)
        return self._mean.copy()

    @property
    def scale_(self) -> Floats:
        """Standard deviation of every column of numbers, 1 where it is constant."""
        check_is_fitted(self)
        return spread(self._count, self._m2)

    @property
    def categories_(self) -> dict[str, list[str | None]]:
        """The categories of every column of texts."""
        check_is_fitted(self)
        return {name: list(known.labels) for name, known in self._named_texts()}

    @property
    def n_unseen_(self) -> dict[str, int]:
        """How many cells of each column of texts had no indicator."""
        check_is_fitted(self)
        return {name: known.unseen for name, known in self._named_texts()}

    @property
    def _number_names(self) -> list[str]:
        return [n for n, kind in zip(self._names, self.kinds_, strict=True) if kind in NUMERIC]

    def _named_texts(self) -> list[tuple[str, Categories]]:
        names = [n for n, kind in zip(self._names, self.kinds_, strict=True) if kind == "category"]
        return list(zip(names, self._texts, strict=True))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the features that come out: the column's, or column=category."""
        check_is_fitted(self)
        if input_features is not None:
            given = [str(name) for name in np.asarray(input_features, dtype=object)]
            named = hasattr(self, "feature_names_in_")
            if len(given) != len(self._names):
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({len(self._names)}), got {len(given)}"
                )
            if named and given != list(self._names):
                raise ValueError("input_features is not equal to feature_names_in_")
        else:
            given = list(self._names)
        texts = iter(self._texts)
        names: list[str] = []
        for name, kind in zip(given, self.kinds_, strict=True):
            names += next(texts).names(name) if kind == "category" else [name]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # -- state ---------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything it was given and has learnt: plain values, and arrays at the top level only.

        Returns
        -------
        dict
            To be given to `from_state`; its keys are part of the file format of models.
        """
        check_is_fitted(self)
        counts: list[Codes] = [categories.counts for categories in self._texts]
        return {
            "standardize": bool(self.standardize),
            "unknown": self.unknown,
            "declared_kinds": None if self.kinds is None else dict(self.kinds),
            "max_categories": int(self.max_categories),
            "names": list(self._names),
            "named": hasattr(self, "feature_names_in_"),
            "kinds": list(self.kinds_),
            "categories": [categories.to_state() for categories in self._texts],
            "count": self._count.copy(),
            "mean": self._mean.copy(),
            "m2": self._m2.copy(),
            "fill": self._fill.copy(),
            "category_counts": np.concatenate([np.zeros(0, dtype=np.int64), *counts]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The preprocessor that gave this state; ValueError if it is none."""
        checked = read_state(state)
        step = cls(
            standardize=checked["standardize"],
            unknown=checked["unknown"],
            kinds=checked["declared_kinds"],
            max_categories=checked["max_categories"],
        )
        step._set_names(checked["names"], checked["named"])
        step._set_kinds(checked["kinds"])
        step.kinds_ = tuple(checked["kinds"])
        step._count, step._mean, step._m2, step._fill = (
            checked[name] for name in ("count", "mean", "m2", "fill")
        )
        step._texts = checked["categories"]
        return step


def _median(x: Floats) -> float:
    return float(np.median(x)) if len(x) else 0.0


def _finite(x: Floats, names: Sequence[str]) -> Floats:
    large = np.abs(x) > LARGEST
    if large.any():
        at = int(np.argmax(large))
        raise ValueError(f"column {names[at]!r}: {_too_large(float(x[at]))}")
    return x


def _too_large(number: float) -> str:
    if np.isinf(number):
        return "Input contains infinity"
    return f"{number:g} is too large: its square is no number"


def _first_row(X: Any) -> Any:
    """The first row of a table as a table."""
    frame = frame_of(X)
    if frame is not None:
        return frame.head(1).to_native()
    if isinstance(X, Mapping):
        return {name: values[:1] for name, values in X.items()}
    return X[:1] if hasattr(X, "__getitem__") else np.asarray(X)[:1]
