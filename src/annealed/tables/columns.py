"""Tables of any make as columns of numbers or of texts.

pandas, polars and pyarrow tables, lists of dicts, structured and plain arrays all become `Columns`.
None of these packages is imported here: whoever hands over such a table has imported it.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# What a column can be. The first three are numbers to a model; a column without a single cell is
# of kind "empty" until something says otherwise.
KINDS = ("number", "boolean", "datetime", "category")
NUMERIC = ("number", "boolean", "datetime")
# The largest number whose square is one too.
LARGEST = 1e150
EPOCH = dt.datetime(1970, 1, 1)


class CellError(ValueError):
    """A cell that cannot be used: it knows its row (from 0), its column and what is wrong.

    Whoever knows more about the place (a file, an offset) can say it again with that.
    """

    def __init__(self, problem: str, column: str, row: int, named: bool = True) -> None:
        self.problem, self.column, self.row = problem, column, row
        place = f"column {column!r}" if named else f"column {column}"
        super().__init__(f"row {row}, {place}: {problem}")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: floats, nan where a cell is missing; or codes into ``labels``, -1 where missing.

    Times are seconds since 1970 (UTC where they say so).
    """

    name: str
    kind: str
    values: NDArray[Any]
    labels: tuple[str, ...] = ()

    def as_numbers(self) -> Floats:
        """Floats, also from texts that are numbers or times; CellError where one is neither."""
        if self.kind != "category":
            return self.values
        parsed = np.full(len(self.labels) + 1, np.nan)  # the last one for -1, missing
        for code, label in enumerate(self.labels):
            try:
                parsed[code] = _number_in(label)
            except ValueError:
                rows = np.flatnonzero(self.values == code)
                if len(rows):
                    raise CellError(f"{label!r} is not a number", self.name, int(rows[0])) from None
        numbers_: Floats = parsed[self.values]
        return numbers_

    def as_category(self) -> Column:
        """The same column as codes and texts: 3.0 becomes "3"."""
        if self.kind == "category":
            return self
        found, codes = np.unique(self.values, return_inverse=True)
        present = ~np.isnan(found)
        labels = tuple(_text_of(float(value), self.kind) for value in found[present])
        place = np.where(present, np.cumsum(present) - 1, -1)
        return Column(self.name, "category", place[codes.reshape(-1)].astype(np.int64), labels)


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of equal length; ``named`` is False where names were made up (x0, x1, ...)."""

    columns: tuple[Column, ...]
    n_rows: int
    named: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(column.name for column in self.columns)


def _number_in(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        if not text or text.isspace():  # as readers of CSV files give a missing cell
            return np.nan
        moment = dt.datetime.fromisoformat(text)
        return seconds_of(moment)


def _text_of(value: float, kind: str) -> str:
    if kind == "boolean":
        return str(bool(value))
    return str(int(value)) if value.is_integer() else repr(value)


def seconds_of(moment: dt.date) -> float:
    """Seconds since 1970; a time that names no zone is taken as it stands."""
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - EPOCH).total_seconds()


# -- single cells --------------------------------------------------------------------------------


def is_missing(cell: Any) -> bool:
    """None, nan, and pandas' NA and NaT."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64):
        return bool(np.isnat(cell))
    return isinstance(cell, (float, np.floating, Decimal)) and cell != cell


def kind_of_cell(cell: Any) -> str:
    """What a cell that is not missing makes of its column; ValueError if it is no cell at all."""
    if isinstance(cell, str):
        return "category"
    if isinstance(cell, (bool, np.bool_)):
        return "boolean"
    if isinstance(cell, complex) and not isinstance(cell, numbers.Real):
        raise ValueError("Complex data not supported")
    if isinstance(cell, (numbers.Real, Decimal)):
        return "number"
    if isinstance(cell, (dt.date, np.datetime64)):
        return "datetime"
    raise ValueError(
        f"a cell must be a number, a text, a truth value or a time, not of type "
        f"{type(cell).__name__!r}: argument must be a string or a number"
    )


def number_of_cell(cell: Any) -> float:
    """A cell as a number; ValueError if it is none."""
    if is_missing(cell):
        return np.nan
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, dt.date):
        return seconds_of(cell)
    if isinstance(cell, str):
        return _number_in(cell)
    return float(cell)


def text_of_cell(cell: Any) -> str | None:
    """A cell as a text, None where missing."""
    if is_missing(cell):
        return None
    if isinstance(cell, str):
        return cell
    kind = kind_of_cell(cell)
    return _text_of(number_of_cell(cell), kind)


def column_of_cells(name: str, cells: Sequence[Any], named: bool = True) -> Column:
    """A column of Python objects. Texts among numbers make it a column of texts."""
    kinds = set()
    for row, cell in enumerate(cells):
        if not is_missing(cell):
            try:
                kinds.add(kind_of_cell(cell))
            except ValueError as error:
                raise CellError(str(error), name, row, named) from None
    if not kinds:
        return Column(name, "empty", np.full(len(cells), np.nan))
    if kinds <= {"number", "boolean"} or (len(kinds) == 1 and "category" not in kinds):
        kind = "number" if "number" in kinds else kinds.pop()
        values = np.array([number_of_cell(cell) for cell in cells], dtype=np.float64)
        return Column(name, kind, values)
    return _texts(name, cells)


def _texts(name: str, cells: Sequence[Any]) -> Column:
    place: dict[str, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    for row, cell in enumerate(cells):
        text = text_of_cell(cell)
        codes[row] = -1 if text is None else place.setdefault(text, len(place))
    return Column(name, "category", codes, tuple(place))


# -- whole tables --------------------------------------------------------------------------------


def columns_of(
    table: Any, names: Sequence[str] | None = None, *, ignore_unknown: bool = False
) -> Columns:
    """The columns of a table, in the order of ``names`` if given.

    Parameters
    ----------
    table : pandas, polars or pyarrow table, list of dicts, dict of columns, or array
    names : sequence of str, optional
        The columns that are wanted, in this order.
    ignore_unknown : bool
        A wanted column that is not there is one of missing cells, others are left out; otherwise
        both are errors that name the column.
    """
    if sparse.issparse(table):
        raise TypeError("Sparse data was passed, but a table is dense. Use X.toarray()")
    package = type(table).__module__.partition(".")[0]
    if package == "pandas":
        found = _of_pandas(table)
    elif package == "polars":
        found = _of_polars(table)
    elif package == "pyarrow":
        found = _of_arrow(table)
    elif isinstance(table, Mapping):
        found = _of_mapping(table)
    elif isinstance(table, (list, tuple)) and len(table) and isinstance(table[0], Mapping):
        return _of_records(table, names, ignore_unknown)
    else:
        found = _of_array(table)
    _refuse_twins(found.names)
    if names is None:
        return found
    if not found.named:
        _check_width(len(found.columns), len(names))
        return found
    return _in_order(found, names, ignore_unknown)


def _refuse_twins(names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"the column name {twins[0]!r} appears more than once: rename one of them")


def _check_width(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(
            f"X has {found} features, but TablePreprocessor is expecting {expected} features as "
            "input"
        )


def _in_order(found: Columns, names: Sequence[str], ignore_unknown: bool) -> Columns:
    known = {column.name: column for column in found.columns}
    absent = [name for name in names if name not in known]
    if not ignore_unknown:
        if absent:
            raise ValueError(f"the table has no column {absent[0]!r}, which was learnt")
        new = [name for name in known if name not in set(names)]
        if new:
            raise ValueError(
                f"the table has a column {new[0]!r}, which was not there before; leave it out or "
                "set unknown='ignore'"
            )
    empty = np.full(found.n_rows, np.nan)
    columns = tuple(known.get(name, Column(name, "empty", empty)) for name in names)
    return Columns(columns, found.n_rows)


def cells_of_record(
    record: Mapping[Any, Any], names: Sequence[str], ignore_unknown: bool, row: int | None = None
) -> list[Any]:
    """The cells of one record in the order of the names; ValueError names a key that is wrong."""
    try:
        cells = [record[name] for name in names]
        if len(record) == len(names) or ignore_unknown:
            return cells
    except KeyError as error:
        if ignore_unknown:
            return [record.get(name) for name in names]
        where = "the record" if row is None else f"record {row}"
        raise ValueError(
            f"{where} has no key {error.args[0]!r}; a missing value is None, or set "
            "unknown='ignore'"
        ) from None
    new = next(key for key in record if key not in set(names))
    where = "the record" if row is None else f"record {row}"
    raise ValueError(
        f"{where} has a key {new!r}, which was not there before; leave it out or set "
        "unknown='ignore'"
    )


def _of_records(
    records: Sequence[Mapping[Any, Any]], names: Sequence[str] | None, ignore_unknown: bool
) -> Columns:
    order = [*records[0]] if names is None else list(names)
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise ValueError(f"record {row} is of type {type(record).__name__!r}, not a dict")
    rows = [
        cells_of_record(record, order, ignore_unknown, row) for row, record in enumerate(records)
    ]
    columns = tuple(
        column_of_cells(str(name), [cells[k] for cells in rows]) for k, name in enumerate(order)
    )
    return Columns(columns, len(records))


def _of_mapping(table: Mapping[Any, Any]) -> Columns:
    columns = tuple(_of_one_array(str(name), np.asarray(v)) for name, v in table.items())
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the columns differ in length: {sorted(lengths)}")
    return Columns(columns, lengths.pop() if lengths else 0)


def _of_pandas(table: Any) -> Columns:
    if table.ndim != 2:
        raise ValueError("Expected 2D array, got 1D array instead. Reshape your data: a table has "
                         "rows and columns")  # fmt: skip
    columns = []
    for place, name in enumerate(table.columns):
        series = table.iloc[:, place]
        columns.append(_of_series(str(name), series))
    return Columns(tuple(columns), len(table))


def _of_series(name: str, series: Any) -> Column:
    dtype = series.dtype
    if type(dtype).__name__ == "CategoricalDtype":
        labels = tuple(text_of_cell(label) or "" for label in dtype.categories)
        return Column(name, "category", series.cat.codes.to_numpy().astype(np.int64), labels)
    if type(dtype).__name__ == "DatetimeTZDtype":
        return _of_one_array(name, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if isinstance(dtype, np.dtype):
        return _of_one_array(name, series.to_numpy())
    if getattr(dtype, "_is_numeric", False):  # pandas' numbers with missing values
        kind = "boolean" if getattr(dtype, "_is_boolean", False) else "number"
        return Column(name, kind, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if type(dtype).__name__ == "StringDtype":
        return _texts(name, series.tolist())
    return column_of_cells(name, series.tolist())


def _of_polars(table: Any) -> Columns:
    columns = []
    for series in table.get_columns():
        if series.dtype.is_numeric() or str(series.dtype) == "Boolean":
            kind = "number" if series.dtype.is_numeric() else "boolean"
            cells = np.array(series.to_list(), dtype=np.float64)  # None becomes nan
            columns.append(Column(series.name, kind, cells))
        elif str(series.dtype) in ("String", "Categorical", "Enum"):
            columns.append(_texts(series.name, series.to_list()))
        else:
            columns.append(column_of_cells(series.name, series.to_list()))
    return Columns(tuple(columns), table.height)


def _of_arrow(table: Any) -> Columns:
    names = [str(name) for name in table.schema.names]
    columns = tuple(_of_arrow_array(name, table.column(k)) for k, name in enumerate(names))
    return Columns(columns, table.num_rows)


def _of_arrow_array(name: str, array: Any) -> Column:
    import pyarrow as pa

    kind, array = array.type, array.combine_chunks() if hasattr(array, "chunks") else array
    test = pa.types
    if test.is_null(kind):
        return Column(name, "empty", np.full(len(array), np.nan))
    if test.is_boolean(kind) or test.is_integer(kind) or test.is_floating(kind):
        values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return Column(name, "boolean" if test.is_boolean(kind) else "number", values)
    if test.is_decimal(kind):
        return Column(name, "number", array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if test.is_timestamp(kind) or test.is_date(kind):
        array = array.cast(pa.timestamp("us"), safe=False)
        return _of_one_array(name, array.to_numpy(zero_copy_only=False))
    if test.is_duration(kind):
        array = array.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64())
        return Column(name, "number", array.to_numpy(zero_copy_only=False) / 1e6)
    if test.is_string(kind) or test.is_large_string(kind) or test.is_dictionary(kind):
        coded = array if test.is_dictionary(kind) else array.dictionary_encode()
        codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        labels = tuple(text_of_cell(label) or "" for label in coded.dictionary.to_pylist())
        return Column(name, "category", codes, labels)
    raise ValueError(
        f"column {name!r} holds values of type {kind}, which are neither numbers nor texts: leave "
        "it out"
    )


def _of_array(table: Any) -> Columns:
    array = table if isinstance(table, np.ndarray) else np.asarray(table)
    if array.dtype.names:
        if array.ndim != 1:
            raise ValueError(f"a structured array must have one dimension, this has {array.ndim}")
        columns = tuple(_of_one_array(name, array[name]) for name in array.dtype.names)
        return Columns(columns, len(array))
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: a table has "
            "rows and columns"
        )
    columns = tuple(_of_one_array(f"x{k}", array[:, k], named=False) for k in range(array.shape[1]))
    return Columns(columns, len(array), named=False)


def _of_one_array(name: str, values: NDArray[Any], named: bool = True) -> Column:
    if values.ndim != 1:
        raise ValueError(f"column {name!r} has {values.ndim} dimensions, not one")
    letter = values.dtype.kind
    if letter in "biuf":
        return Column(name, "boolean" if letter == "b" else "number", values.astype(np.float64))
    if letter == "M":
        return Column(name, "datetime", _seconds(values.astype("datetime64[us]")))
    if letter == "m":
        return Column(name, "number", _seconds(values.astype("timedelta64[us]")))
    if letter == "c":
        raise ValueError("Complex data not supported")
    if letter in "US":
        values = values.astype(str)
    return column_of_cells(name, values.tolist(), named)


def _seconds(moments: NDArray[Any]) -> Floats:
    seconds = moments.astype(np.int64) / 1e6
    seconds[np.isnat(moments)] = np.nan
    return seconds


def short_list(names: Iterable[str], most: int = 5) -> str:
    """Names for a message, the first few of them."""
    some = list(names)
    shown = ", ".join(repr(name) for name in some[:most])
    return shown + (f", ... ({len(some)} in all)" if len(some) > most else "")
