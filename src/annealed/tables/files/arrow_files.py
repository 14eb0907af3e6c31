"""Parquet, and Arrow's own format (also called Feather), as a file or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from annealed.tables.files.table_file import (
    BATCH_ROWS,
    Places,
    Survey,
    TableError,
    TableFile,
    holds_any,
    kind_of_type,
)


class TypedFile(TableFile):
    """A file that says itself what its columns are."""

    schema: Any

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        super().__init__(path)
        try:
            self.schema = self._read_schema()
        except (pa.ArrowInvalid, EOFError) as error:
            raise TableError(f"{path} is not {self.words} file: {error}") from None
        except OSError as error:
            if not path.is_file():  # not ours to explain
                raise
            raise TableError(f"{path} cannot be read as {self.words} file: {error}") from None
        self.names = [str(name) for name in self.schema.names]
        for name in self.names:
            if self.names.count(name) > 1:
                raise TableError(f"{path}: the column name {name!r} appears more than once")

    words = ""

    def _read_schema(self) -> Any:
        raise NotImplementedError

    def _count(self) -> int:
        raise NotImplementedError

    def survey(self, columns: Sequence[str], declared: Mapping[str, str] | None = None) -> Survey:
        """Count rows and say what columns are."""
        self.check_columns(columns)
        kinds: dict[str, str] = {}
        for name in columns:
            kind = kind_of_type(self.schema.field(name).type)
            if kind is None:
                raise TableError(
                    f"{self.path}, column {name!r}: values of type "
                    f"{self.schema.field(name).type} are neither numbers nor texts; leave the "
                    "column out"
                )
            kinds[name] = (declared or {}).get(name, kind)
        return Survey(self._count(), kinds)


class PartedFile(TypedFile):
    """A file that knows its parts, and how many rows each has, before they are read."""

    def _parts(self) -> Iterator[tuple[int, Any]]:
        """How many rows each part has, and what `_read_part` reads it by, in order."""
        raise NotImplementedError

    def _read_part(self, part: Any, columns: Sequence[str]) -> Iterator[Any]:
        raise NotImplementedError

    def _placed_batches(
        self, columns: Sequence[str], wanted: Places | None
    ) -> Iterator[tuple[int, Any]]:
        self.check_columns(columns)
        first = 0
        for rows, part in self._parts():
            if holds_any(wanted, first, rows):
                at = first
                for table in self._read_part(part, columns):
                    yield at, table
                    at += table.num_rows
            first += rows


class ParquetTable(PartedFile):
    """A Parquet file."""

    words = "a Parquet"

    metadata: Any = None

    def _open(self) -> Any:
        from pyarrow.parquet import ParquetFile

        # Buffering ahead, the default, keeps all that was read until the file is closed.
        return ParquetFile(self.path, metadata=self.metadata, pre_buffer=False)

    def _read_schema(self) -> Any:
        with self._open() as file:
            self.metadata = file.metadata
            return file.schema_arrow

    def _count(self) -> int:
        return int(self.metadata.num_rows)

    def _parts(self) -> Iterator[tuple[int, int]]:
        for group in range(self.metadata.num_row_groups):
            yield int(self.metadata.row_group(group).num_rows), group

    def _read_part(self, part: int, columns: Sequence[str]) -> Iterator[Any]:
        with self._open() as file:
            yield from file.iter_batches(
                BATCH_ROWS, row_groups=[part], columns=list(columns), use_threads=False
            )


class ArrowFile(PartedFile):
    """An Arrow file or stream."""

    words = "an Arrow"

    def _reader(self) -> tuple[Any, bool]:
        """A reader, and whether it knows its batches by number."""
        import pyarrow as pa

        with self.path.open("rb") as file:
            magic = file.read(6)
        if magic[:4] == b"FEA1":
            raise TableError(f"{self.path} is of Feather's first version: write it again as Arrow")
        source = pa.memory_map(str(self.path))
        if magic == b"ARROW1":
            return pa.ipc.open_file(source), True
        return pa.ipc.open_stream(source), False

    def _read_schema(self) -> Any:
        return self._reader()[0].schema

    def _parts(self) -> Iterator[tuple[int, Any]]:
        # Batches are views of the file: what is not looked at is not read.
        reader, numbered = self._reader()
        batches = map(reader.get_batch, range(reader.num_record_batches)) if numbered else reader
        for batch in batches:
            yield batch.num_rows, batch

    def _count(self) -> int:
        return sum(rows for rows, _ in self._parts())

    def _read_part(self, part: Any, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        chosen = pa.RecordBatch.from_arrays(
            [part.column(self.names.index(name)) for name in columns], names=list(columns)
        )
        for at in range(0, chosen.num_rows, BATCH_ROWS):
            yield chosen.slice(at, BATCH_ROWS)
