"""Tables of any make as columns of numbers or of texts.

Frames (pandas, polars, pyarrow), lists of dicts, structured and plain arrays all become `Columns`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from annealed.tables.frames import floats_of, frame_of, moments_of, refuse_twins
from annealed.tables.kinds import kind_of_array, kind_of_cell, kind_of_series

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

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
    return _coded(name, [text_of_cell(cell) for cell in cells])


def _coded(name: str, cells: Sequence[Any]) -> Column:
    """A column of codes. Cells that are alike are one text, so that each is looked at only once."""
    different: dict[Any, int] = {}
    where = [different.setdefault(cell, len(different)) for cell in cells]
    place: dict[str, int] = {}
    codes = np.empty(len(different), dtype=np.int64)
    for k, cell in enumerate(different):
        text = text_of_cell(cell)
        codes[k] = -1 if text is None else place.setdefault(text, len(place))
    return Column(name, "category", codes[where], tuple(place))


# -- whole tables --------------------------------------------------------------------------------


def columns_of(
    table: Any, names: Sequence[str] | None = None, *, ignore_unknown: bool = False
) -> Columns:
    """The columns of a table, in the order of ``names`` if given.

    Parameters
    ----------
    table : frame (pandas, polars, pyarrow), list of dicts, dict of columns, or array
    names : sequence of str, optional
        The columns that are wanted, in this order.
    ignore_unknown : bool
        A wanted column that is not there is one of missing cells, others are left out; otherwise
        both are errors that name the column.
    """
    if sparse.issparse(table):
        raise TypeError("Sparse data was passed, but a table is dense. Use X.toarray()")
    frame = frame_of(table)
    if frame is not None:
        found = _of_frame(frame)
    elif isinstance(table, Mapping):
        found = _of_mapping(table)
    elif isinstance(table, (list, tuple)) and len(table) and isinstance(table[0], Mapping):
        return _of_records(table, names, ignore_unknown)
    else:
        found = _of_array(table)
    refuse_twins(list(found.names))
    if names is None:
        return found
    if not found.named:
        _check_width(len(found.columns), len(names))
        return found
    return _in_order(found, names, ignore_unknown)


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


def _of_frame(frame: Any) -> Columns:
    return Columns(tuple(_of_series(series) for series in frame.iter_columns()), len(frame))


def _of_series(series: Any) -> Column:
    name, dtype = str(series.name), series.dtype
    kind = kind_of_series(dtype)
    # pandas' columns of objects hold whatever they hold, also where all cells happen to be texts.
    untyped = getattr(series.to_native(), "dtype", None) == np.dtype(object)
    if untyped or str(dtype) in ("Object", "Unknown"):
        return column_of_cells(name, series.to_list())
    if kind is None:
        raise ValueError(
            f"column {name!r} holds values of type {dtype}, which are neither numbers nor texts: "
            "leave it out"
        )
    if kind == "category":
        return _coded(name, series.to_list())
    if kind == "datetime" or str(dtype).startswith("Duration"):
        return _of_one_array(name, moments_of(series))
    return Column(name, kind, floats_of(series))


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
    letter, kind = values.dtype.kind, kind_of_array(values.dtype)
    if letter in "Mm":
        values = _seconds(values.astype(f"{values.dtype.str[1:3]}[us]"))
    if kind is not None and kind != "category":
        return Column(name, kind, values.astype(np.float64))
    if letter == "c":
        raise ValueError("Complex data not supported")
    if kind == "category":
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
