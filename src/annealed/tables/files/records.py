"""Records of a stream of text: CSV or JSON lines, whole records out however bytes come in."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.tables.columns import column_of_cells
from annealed.tables.files.csv_reading import WrongRow, decimal_of, reader_options
from annealed.tables.files.table_file import (
    TO_UTF_8,
    TableError,
    is_number,
    shortened,
)

# Bytes asked for at a time, and the longest record there may be.
CHUNK = 1 << 20
LONGEST = 16 << 20
NEWLINE, QUOTE, RETURN = b'\n"\r'


@dataclass(frozen=True, eq=False)
class Records:
    """Some whole records: their bytes, and where each of them ends."""

    text: bytes = b""
    ends: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def first(self, k: int) -> Records:
        """The first k."""
        ends = self.ends[:k]
        return Records(self.text[: int(ends[-1]) if len(ends) else 0], ends)

    def after(self, k: int) -> Records:
        """All but the first k."""
        start = int(self.ends[:k][-1]) if k else 0
        return Records(self.text[start:], self.ends[k:] - start)

    def reaching(self, size: int) -> Records:
        """The first few: as many as it takes to have so many bytes, or all."""
        return self.first(int(np.searchsorted(self.ends, size)) + 1)

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """All records of the parts, in their order."""
        starts = np.cumsum([0, *(len(part.text) for part in parts)])
        ends = [part.ends + start for part, start in zip(parts, starts[:-1], strict=True)]
        return cls(b"".join(part.text for part in parts), np.concatenate(ends))

    def __add__(self, others: Records) -> Records:
        return Records.joined([self, others])

    def lines(self) -> Iterator[bytes]:
        """One after the other."""
        start = 0
        for end in self.ends.tolist():
            yield self.text[start:end]
            start = end


class Fingerprint:
    """What tells rows from others: a running hash of records, blank lines left out.

    It is the same however the bytes came, compressed or not, and whatever ends the lines.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, records: Records) -> None:
        """More records."""
        self._hash.update(records.text.replace(b"\r\n", b"\n"))

    @property
    def text(self) -> str:
        """Thirty-two hexadecimal digits."""
        return self._hash.hexdigest()


class RecordReader:
    """Records as soon as they are there, blank lines left out.

    Line ends between quotation marks belong to the record in CSV, but not in JSON lines, which
    begin with a brace.

    Parameters
    ----------
    source : binary file
        A file or a pipe.
    wait : callable, optional
        For a file that is still written to. It is called where there is no more to read, and
        returns, after a while, whether to look again. A record counts then once its line end is
        there; ``unfinished`` has what is left at the end.
    """

    def __init__(self, source: Any, wait: Callable[[], bool] | None = None) -> None:
        self.source, self.wait = source, wait
        self.unfinished = b""

    def __iter__(self) -> Iterator[Records]:
        rest, quotes, over = b"", None, False
        while not over:
            more = _available(self.source)
            if not more:
                if self.wait is not None and self.wait():
                    continue
                over = True
                more = b"\n" if rest and self.wait is None else b""
            rest += more
            if quotes is None:
                start = rest.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
                if not start and not over:
                    continue
                quotes = start != b"{"
            records, rest = split_records(rest, quotes)
            if len(rest) > LONGEST:
                raise TableError(
                    f"a record is longer than {LONGEST >> 20} MB; is a quotation mark left open?"
                )
            if len(records):
                yield records
        if rest and self.wait is None:
            raise TableError("the input ends inside quotation marks")
        self.unfinished = rest


def _available(source: Any) -> bytes:
    """What is there now, rather than wait until there is as much as was asked for."""
    read = source.read if isinstance(source, io.FileIO) else source.read1
    return bytes(read(CHUNK))


def split_records(data: bytes, quotes: bool) -> tuple[Records, bytes]:
    """The whole records of some bytes, and what is left.

    With ``quotes`` line ends between quotation marks belong to the record.
    """
    codes = np.frombuffer(data, dtype=np.uint8)
    breaks = codes == NEWLINE
    if quotes and QUOTE in data:
        breaks &= np.cumsum(codes == QUOTE) % 2 == 0
    ends = np.flatnonzero(breaks) + 1
    if not len(ends):
        return Records(b"", ends), data
    text, rest = data[: ends[-1]], data[ends[-1] :]
    starts = np.concatenate([[0], ends[:-1]])
    length = ends - starts
    blank = (length == 1) | ((length == 2) & (codes[starts] == RETURN))
    if blank.any():
        text = b"".join(text[a:b] for a, b in zip(starts[~blank], ends[~blank], strict=True))
        ends = np.cumsum(length[~blank])
    return Records(text, ends), rest


# -- CSV ---------------------------------------------------------------------------------------


class CSVFormat:
    """Rows of CSV: all cells as texts until it is said which columns are numbers."""

    typed = False  # a cell that is a text need not be meant as one

    def __init__(self, delimiter: str, names: Sequence[str]) -> None:
        self.delimiter, self.names = delimiter, list(names)
        self.decimal = decimal_of(delimiter)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CSVFormat):
            return False
        return (self.delimiter, self.names) == (other.delimiter, other.names)

    __hash__ = None  # type: ignore[assignment]  # nothing keeps them in sets

    def can_be(self, record: bytes) -> bool:
        """Whether a line is a row rather than names: as many cells, and a number among them."""
        text = record.decode("utf-8", errors="replace").rstrip("\r\n")
        cells = next(csv.reader([text], delimiter=self.delimiter))
        numbers = (is_number(cell.replace(self.decimal, ".")) for cell in cells)
        return len(cells) == len(self.names) and any(numbers)

    def table(self, records: Records, columns: Sequence[str], kinds: Mapping[str, str]) -> Any:
        """A pyarrow Table of some columns. Cells that are no numbers, but should be, stay texts."""
        import pyarrow as pa

        numbers = [name for name in columns if kinds.get(name) == "number"]
        try:
            return self._read(records, columns, numbers)
        except pa.ArrowInvalid:
            return self._read(records, columns, [])

    def _read(self, records: Records, columns: Sequence[str], numbers: Sequence[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as reader

        wrong: list[WrongRow] = []
        types = {name: pa.float64() if name in numbers else pa.string() for name in columns}
        try:
            return reader.read_csv(
                io.BytesIO(records.text),
                read_options=reader.ReadOptions(
                    column_names=self.names, use_threads=False, block_size=len(records.text) + 1
                ),
                **reader_options(self.delimiter, types, wrong, self.decimal),
            )
        except pa.ArrowInvalid as error:
            if wrong:
                lines = [line.decode("utf-8", "replace") for line in records.lines()]
                at = next((k for k, line in enumerate(lines) if wrong[0].text in line), 0)
                raise RowError(at, wrong[0].problem) from None
            if "UTF8" in str(error):
                for at, line in enumerate(records.lines()):
                    try:
                        line.decode()
                    except UnicodeDecodeError:
                        raise RowError(at, f"it is not UTF-8: {TO_UTF_8}") from None
            raise

    def kinds(self, records: Records, columns: Sequence[str]) -> dict[str, str]:
        """What columns are, from some rows: "number" where all cells that are there are numbers."""
        table = self.table(records, columns, {})
        kinds = {}
        for name in columns:
            cells = [cell for cell in table.column(name).to_pylist() if cell is not None]
            plain = all(is_number(cell.replace(self.decimal, ".")) for cell in cells)
            kinds[name] = "number" if plain else "category"
        return kinds


class RowError(ValueError):
    """Something is wrong with a row: its place among those at hand, from 0, and what."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at, self.problem = at, problem


# -- JSON lines --------------------------------------------------------------------------------


class JSONFormat:
    """Objects of JSON, one on each line."""

    names: Sequence[str] = ()
    decimal = "."
    typed = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JSONFormat)

    __hash__ = None  # type: ignore[assignment]  # nothing keeps them in sets

    def table(
        self, records: Records, columns: Sequence[str], kinds: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Some columns of each row; what a row lacks is missing."""
        rows = []
        for at, line in enumerate(records.lines()):
            try:
                row = json.loads(line.rstrip())
            except json.JSONDecodeError as error:
                where = f"{error.msg} at character {error.colno}"
                raise RowError(at, f"it is not JSON ({where}): {_start(line)}") from None
            except UnicodeDecodeError:
                raise RowError(at, f"it is not UTF-8: {TO_UTF_8}") from None
            if not isinstance(row, dict):
                raise RowError(at, f"it is not a JSON object: {_start(line)}")
            rows.append({name: row.get(name) for name in columns} if columns else row)
        return rows

    def kinds(self, records: Records, columns: Sequence[str]) -> dict[str, str]:
        """What columns are, from some rows."""
        rows = self.table(records, columns, {})
        kinds = {}
        for name in columns:
            kind = column_of_cells(name, [row[name] for row in rows]).kind
            kinds[name] = "category" if kind in ("category", "datetime") else "number"
        return kinds


def _start(line: bytes) -> str:
    return shortened(line.decode("utf-8", "replace").strip())
