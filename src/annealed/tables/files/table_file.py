"""What every file of a table offers, and how its cells become numbers, times or texts."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.tables.columns import LARGEST, short_list
from annealed.tables.frames import frame_of
from annealed.tables.kinds import kind_of_series

Places = NDArray[np.int64]

# Rows of a batch where the format lets us choose.
BATCH_ROWS = 32_768


class TableError(ValueError):
    """Something is wrong with the contents of a file; the message names it, row and column."""


class Batch(NamedTuple):
    """Some rows of a file: the number of the first, from 0, and a pyarrow RecordBatch or Table."""

    first_row: int
    table: Any


def holds_any(wanted: Places | None, first: int, rows: int) -> bool:
    """Whether any of the places wanted, which are in order, is among so many rows; None: all."""
    if wanted is None:
        return True
    low, high = np.searchsorted(wanted, [first, first + rows])
    return bool(low < high)


@dataclass(frozen=True)
class Survey:
    """What is known of a file once it has been looked through.

    ``rows`` is how many there are, ``kinds`` what each column is ("number", "boolean",
    "datetime", "category" or, if all cells are missing, "empty").
    """

    rows: int
    kinds: dict[str, str] = field(default_factory=dict)


class TableFile:
    """A file whose rows can be read in batches, as often as wanted.

    Parameters
    ----------
    path : Path
    """

    names: list[str]
    decimal = "."  # between the whole and the fraction of numbers that are texts
    typed = True  # whether a cell that is a text was meant to be one; in CSV all are texts

    def __init__(self, path: Path) -> None:
        self.path = path

    def survey(self, columns: Sequence[str], declared: Mapping[str, str] | None = None) -> Survey:
        """Count rows and say what columns are; ``declared`` kinds are taken as they are."""
        raise NotImplementedError

    def batches(
        self,
        columns: Sequence[str],
        kinds: Mapping[str, str] | None = None,
        wanted: Places | None = None,
    ) -> Iterator[Batch]:
        """The rows in order. Columns of a given kind are brought to it, or the cell is named.

        Where places are ``wanted``, which are in order, batches without any of them are left out,
        and not read where the file knows its parts.
        """
        for first, table in self._placed_batches(columns, wanted):
            if holds_any(wanted, first, table.num_rows):
                yield Batch(first, self._brought_to(table, kinds or {}, first))

    def _placed_batches(
        self, columns: Sequence[str], wanted: Places | None
    ) -> Iterator[tuple[int, Any]]:
        """Batches as they are, each with the number of its first row."""
        first = 0
        for table in self._raw_batches(columns):
            yield first, table
            first += table.num_rows

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        raise NotImplementedError

    def check_columns(self, columns: Sequence[str]) -> None:
        """TableError if one is not in the file."""
        for name in columns:
            if name not in self.names:
                raise TableError(
                    f"{self.path} has no column {name!r}; its columns are "
                    f"{short_list(self.names, 12)}"
                )

    def _brought_to(self, table: Any, kinds: Mapping[str, str], first: int) -> Any:
        import pyarrow as pa

        names = table.schema.names
        arrays = []
        for name in names:
            array = table.column(name)
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            kind = kinds.get(name)
            if kind in ("number", "boolean", "empty"):
                array = with_points(array, self.decimal)
                array = numbers_of(array, Place(self.path, name, first))
            elif kind == "datetime":
                array = times_of(array, Place(self.path, name, first))
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=names)


class Place(NamedTuple):
    """Where a cell is: file, column, and the row of the first cell of an array (from 0)."""

    path: Path
    column: str
    first_row: int

    def error(self, at: int, problem: str) -> TableError:
        """What to raise about a cell of the array. Rows are counted from 1 as people do."""
        row = self.first_row + at + 1
        return TableError(f"{self.path}, row {row}, column {self.column!r}: {problem}")


def need_pyarrow(path: Path) -> None:
    """ImportError that says what to install if pyarrow is not there."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(
            f"reading {path} needs pyarrow, which is not installed: pip install 'annealed[cli]'"
        )


def kind_of_type(arrow_type: Any) -> str | None:
    """What a column of this type of pyarrow is; None if a model can do nothing with it."""
    import pyarrow as pa

    if pa.types.is_null(arrow_type):
        return "empty"
    if pa.types.is_date64(arrow_type):  # which narwhals does not know
        return "datetime"
    frame = frame_of(pa.table({"": pa.array([], arrow_type)}))
    return kind_of_series(frame.get_column("").dtype)


# -- cells ---------------------------------------------------------------------------------------


# What to do about text in another encoding, at the end of a message about it.
TO_UTF_8 = "convert the text, for example with iconv -f latin1 -t utf-8"


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def with_points(array: Any, decimal: str) -> Any:
    """Texts of numbers with a decimal point, whatever they had."""
    import pyarrow.compute as pc

    if decimal == "." or kind_of_type(array.type) != "category":
        return array
    return pc.replace_substring(array, decimal, ".")


def numbers_of(array: Any, place: Place) -> Any:
    """An array of finite floats; TableError at the first cell that is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = kind_of_type(array.type)
    if kind == "datetime":
        return array  # seconds to whoever asks for numbers
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_duration(array.type):
        array = pc.divide(array.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    if kind == "category":
        array = _parsed(array, place)
    elif kind is None:
        raise place.error(0, f"values of type {array.type} are no numbers")
    array = array.cast(pa.float64(), safe=False)
    large = pc.greater(pc.abs(array), LARGEST)
    if pc.any(large).as_py():
        at = pc.index(large, True).as_py()
        number = array[at].as_py()
        why = "is not a finite number" if math.isinf(number) else "is too large to be squared"
        raise place.error(at, f"{number:g} {why}")
    return array


def _parsed(array: Any, place: Place) -> Any:
    import pyarrow as pa

    try:
        return array.cast(pa.float64())
    except pa.ArrowInvalid:  # Python reads more (" 1", "+1"), and tells us where it cannot
        cells = array.to_pylist()
    numbers = np.full(len(cells), math.nan)
    for at, cell in enumerate(cells):
        if cell is not None:
            if not is_number(cell):
                raise place.error(at, f"{shortened(cell)} is not a number")
            numbers[at] = float(cell)
    return pa.array(numbers, from_pandas=True)


def times_of(array: Any, place: Place) -> Any:
    """An array of times without a zone (UTC where they had one); TableError where one is none."""
    import pyarrow as pa

    if kind_of_type(array.type) != "category":
        return array
    for form in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return array.cast(form).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            continue
    for at in range(len(array)):
        try:
            times_of_texts(array.slice(at, 1))
        except pa.ArrowInvalid:
            cell = shortened(array[at].as_py())
            raise place.error(at, f"{cell} is not a time such as 2024-01-31 12:00:00") from None
    raise place.error(0, "some times name a zone and some do not")


def times_of_texts(array: Any) -> Any:
    """Texts as times; ArrowInvalid if some are none, or if only some of them name a zone."""
    import pyarrow as pa

    try:
        return array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return array.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))


def shortened(text: str, most: int = 40) -> str:
    """A text in quotes for a message, cut off where it is long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")
