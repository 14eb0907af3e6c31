"""Parquet, and Arrow's own format (also called Feather), as a file or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from annealed.tables.files.table_file import BATCH_ROWS, Survey, TableError, TableFile, kind_of_type


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


class ParquetTable(TypedFile):
    """A Parquet file."""

    words = "a Parquet"

    def _open(self) -> Any:
        from pyarrow.parquet import ParquetFile

        # Buffering ahead, the default, keeps all that was read until the file is closed.
        return ParquetFile(self.path, pre_buffer=False)

    def _read_schema(self) -> Any:
        with self._open() as file:
            return file.schema_arrow

    def _count(self) -> int:
        with self._open() as file:
            return int(file.metadata.num_rows)

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        self.check_columns(columns)
        with self._open() as file:
            yield from file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False)


class ArrowFile(TypedFile):
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

    def _whole_batches(self) -> Iterator[Any]:
        reader, numbered = self._reader()
        if numbered:
            for k in range(reader.num_record_batches):
                yield reader.get_batch(k)
        else:
            yield from reader

    def _count(self) -> int:
        return sum(batch.num_rows for batch in self._whole_batches())

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        self.check_columns(columns)
        for batch in self._whole_batches():
            chosen = pa.RecordBatch.from_arrays(
                [batch.column(self.names.index(name)) for name in columns], names=list(columns)
            )
            for at in range(0, chosen.num_rows, BATCH_ROWS):
                yield chosen.slice(at, BATCH_ROWS)
