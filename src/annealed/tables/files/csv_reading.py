"""What files and streams of CSV have in common: names, missing cells, and rows that are no rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from annealed.tables.files.table_file import TO_UTF_8, TableError, is_number, shortened

DELIMITERS = (",", ";", "\t")
# Cells that count as missing, in columns of texts too.
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "?"]


class Header(NamedTuple):
    """The line of names: what separates cells, names as they stand there, and as they are used."""

    delimiter: str
    raw_names: list[str]
    names: list[str]


class WrongRow(NamedTuple):
    """A row that has more or fewer cells than there are names."""

    cells: int
    expected: int
    text: str

    @property
    def problem(self) -> str:
        """What is wrong with it."""
        return (
            f"{self.cells} cell{'s' * (self.cells != 1)} where the line of names has "
            f"{self.expected}: {shortened(self.text)}"
        )


def decimal_of(delimiter: str) -> str:
    """Where semicolons separate cells, it is because commas stand in the numbers."""
    return "," if delimiter == ";" else "."


def read_header(start: bytes, delimiter: str | None = None) -> Header:
    """The line of names at the start of some bytes; TableError if it cannot be one.

    Parameters
    ----------
    start : bytes
        At least the whole line.
    delimiter : str, optional
        Left out, that which stands there most often.
    """
    text = start.decode("utf-8-sig", errors="surrogateescape")
    line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = delimiter or max(DELIMITERS, key=line.count)
    raw = next((row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row), [])
    _check_names_are_utf_8(raw)
    names = [name.strip() or f"column {k + 1}" for k, name in enumerate(raw)]
    for name in names:
        if names.count(name) > 1:
            places = [str(k + 1) for k, other in enumerate(names) if other == name]
            hint = " (is the line of names missing?)" if is_number(name) else ""
            raise TableError(
                f"the name {name!r} stands over columns {' and '.join(places)}; rename one{hint}"
            )
    return Header(delimiter, raw, names)


def _check_names_are_utf_8(names: Sequence[str]) -> None:
    for name in names:
        raw = name.encode("utf-8", "surrogateescape")
        try:
            raw.decode()
        except UnicodeDecodeError:
            raise TableError(f"the column name {raw!r} is not UTF-8: {TO_UTF_8}") from None


def reader_options(
    delimiter: str, types: Mapping[str, Any], wrong: list[WrongRow], decimal: str = "."
) -> dict[str, Any]:
    """How pyarrow is to read CSV: columns of these types, wrong rows noted and then an error."""
    from pyarrow import csv as reader

    def note(row: Any) -> str:
        wrong.append(WrongRow(row.actual_columns, row.expected_columns, row.text))
        return "error"

    return {
        "parse_options": reader.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
        ),
        "convert_options": reader.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=MISSING,
            strings_can_be_null=True, decimal_point=decimal,
        ),
    }  # fmt: skip
