"""CSV files: every cell is read as text, and the whole file decides what a column is."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from annealed.tables.files.csv_reading import (
    Header,
    WrongRow,
    decimal_of,
    read_header,
    reader_options,
)
from annealed.tables.files.table_file import (
    TO_UTF_8,
    Place,
    Survey,
    TableError,
    TableFile,
    is_number,
    shortened,
    times_of_texts,
    with_points,
)

# Bytes read at a time; no row may be longer. Arrow reads 32 of them ahead, whoever waits.
BLOCK = 1 << 20
# A column of numbers with a few texts in it is more likely a mistake than a column of texts,
MOSTLY = 0.9
# unless it has so few different cells that they look like names of something.
FEW = 30


class CSVFile(TableFile):
    """A CSV file with a line of names, separated by commas, semicolons or tabs; also compressed."""

    typed = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.delimiter, self.raw_names, self.names = self._header()
        self.decimal = decimal_of(self.delimiter)

    def _header(self) -> Header:
        import pyarrow as pa

        try:
            with pa.input_stream(str(self.path)) as stream:
                start = stream.read(BLOCK)
        except OSError as error:
            raise TableError(f"{self.path} cannot be decompressed: {error}") from None
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise TableError(f"{self.path} is in UTF-16: save it as UTF-8")
        if b"\0" in start[:4096]:
            raise TableError(f"{self.path} is not a text file")
        if not start.removeprefix(codecs.BOM_UTF8).strip():
            raise TableError(f"{self.path} is empty")
        tab = self.path.suffixes[0].lower() == ".tsv" if self.path.suffixes else False
        try:
            return read_header(start, "\t" if tab else None)
        except TableError as error:
            raise TableError(f"{self.path}: {error}") from None

    # -- reading -------------------------------------------------------------------------------

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        self.check_columns(columns)
        raw = [self.raw_names[self.names.index(name)] for name in columns]
        wrong: list[WrongRow] = []
        rows = 0
        try:
            with self._open(raw, wrong) as batches:
                for batch in batches:
                    yield pa.RecordBatch.from_arrays(batch.columns, names=list(columns))
                    rows += batch.num_rows
        except pa.ArrowInvalid as error:
            raise self._explained(error, wrong, rows, raw) from None
        except OSError as error:
            raise TableError(
                f"{self.path} cannot be read to its end ({error}); is it complete?"
            ) from None

    def _open(self, raw: Sequence[str], wrong: list[WrongRow], binary: bool = False) -> Any:
        import pyarrow as pa
        from pyarrow import csv as reader

        form = pa.binary() if binary else pa.string()
        return reader.open_csv(
            str(self.path),
            read_options=reader.ReadOptions(block_size=BLOCK, use_threads=False),
            **reader_options(self.delimiter, dict.fromkeys(raw, form), wrong),
        )

    def _explained(
        self, error: Exception, wrong: list[WrongRow], rows: int, raw: Sequence[str]
    ) -> TableError:
        """What an error of the reader means to someone who made the file."""
        if wrong:
            row = self._row_of(wrong[0].expected, rows)
            return TableError(f"{self.path}, row {row}: {wrong[0].problem}")
        if "UTF8" in str(error):
            return self._not_utf8(raw)
        if "straddling" in str(error):
            return TableError(
                f"{self.path}, after row {rows}: a row is longer than {BLOCK >> 20} MB; is a "
                "quotation mark left open?"
            )
        return TableError(f"{self.path}, after row {rows}: {error}")

    def _row_of(self, expected: int, rows: int) -> int:
        """The number of the row that has too few or too many cells, from 1."""
        import pyarrow as pa

        with pa.input_stream(str(self.path)) as stream:
            lines = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(lines, delimiter=self.delimiter)
            row = -1
            for cells in reader:
                if not cells:
                    continue
                row += 1
                if len(cells) != expected:
                    return row
        return rows + 1

    def _not_utf8(self, raw: Sequence[str]) -> TableError:
        first = 0
        with self._open(raw, [], binary=True) as batches:
            for batch in batches:
                for name, column in zip(raw, batch.columns, strict=True):
                    for at, cell in enumerate(column.to_pylist()):
                        try:
                            (cell or b"").decode()
                        except UnicodeDecodeError:
                            place = Place(self.path, self.names[self.raw_names.index(name)], first)
                            return place.error(at, f"{cell!r} is not UTF-8: {TO_UTF_8}")
                first += batch.num_rows
        return TableError(f"{self.path} is not UTF-8: {TO_UTF_8}")

    # -- what the columns are ------------------------------------------------------------------

    def survey(self, columns: Sequence[str], declared: Mapping[str, str] | None = None) -> Survey:
        """Count rows and say what columns are."""
        given = declared or {}
        watched = {name: _Watched(self, name) for name in columns if name not in given}
        rows = 0
        # A file without a single row of columns still has to be counted.
        for batch in self._raw_batches(list(columns) or self.names[:1]):
            for name, column in watched.items():
                column.watch(batch.column(columns.index(name)), rows)
            rows += batch.num_rows
        kinds = {
            name: given[name] if name in given else watched[name].kind(rows) for name in columns
        }
        return Survey(rows, kinds)


class _Watched:
    """What the cells of a column turn out to be."""

    def __init__(self, file: CSVFile, name: str) -> None:
        self.file, self.name = file, name
        self.numbers = self.texts = 0
        self.times = True  # all texts so far are
        self.different: set[str] | None = set()  # None: more than a few
        self.first_text: tuple[int, str] | None = None

    def watch(self, array: Any, first_row: int) -> None:
        """Look at the cells of a batch."""
        import pyarrow.compute as pc

        present = len(array) - array.null_count
        if not present:
            return
        if self.different is not None:
            found = pc.unique(array).slice(0, FEW + 2).to_pylist()
            self.different.update(cell for cell in found if cell is not None)
            if len(self.different) > FEW:
                self.different = None
        if self.texts > self.numbers:  # decided: a column of texts, unless all of them are times
            self.texts += present
            self.times = self.times and self._are_times(array)
            return
        if self._are_numbers(array):
            self.numbers += present
        else:
            self._count(array, first_row)
            self.times = self.times and not self.numbers and self._are_times(array)

    def _count(self, array: Any, first_row: int) -> None:
        for pair in array.value_counts().to_pylist():
            text, count = pair["values"], pair["counts"]
            if text is None:
                continue
            if is_number(text.replace(self.file.decimal, ".")):
                self.numbers += count
                continue
            self.texts += count
            if self.first_text is None:
                self.first_text = first_row + array.index(text).as_py(), text

    def _are_numbers(self, array: Any) -> bool:
        import pyarrow as pa

        array = with_points(array, self.file.decimal)
        return _can_all(lambda part: part.cast(pa.float64()), array)

    def _are_times(self, array: Any) -> bool:
        return _can_all(times_of_texts, array)

    def kind(self, rows: int) -> str:
        """What the column is; TableError if it should be numbers but for a few cells."""
        if not self.texts:
            return "number" if self.numbers else "empty"
        if self.times and not self.numbers:
            return "datetime"
        cells = self.numbers + self.texts
        named = self.different is not None and 2 * len(self.different) <= cells
        if self.numbers < MOSTLY * cells or named:
            return "category"
        assert self.first_text is not None
        row, text = self.first_text
        place = Place(self.file.path, self.name, row)
        raise place.error(
            0,
            f"{shortened(text)} is not a number, while {self.numbers} of {cells} cells of the "
            f"column are. Correct it, leave the column out (--drop {self.name!r}) or have it taken "
            f"as text (--categorical {self.name!r})",
        )


def _can_all(convert: Callable[[Any], Any], array: Any) -> bool:
    """Whether every cell can be converted; a few first, since pyarrow's failures are slow."""
    import pyarrow as pa

    try:
        convert(array.slice(0, 32))
        convert(array)
    except pa.ArrowInvalid:
        return False
    return True
