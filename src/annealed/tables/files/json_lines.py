"""JSON lines: an object on each line, whose keys are the columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from annealed.tables.columns import text_of_cell
from annealed.tables.files.arrow_files import TypedFile
from annealed.tables.files.table_file import BATCH_ROWS, TO_UTF_8, TableError, shortened


class JSONLinesFile(TypedFile):
    """A file of JSON lines, also compressed. What a row does not have is missing.

    Columns are what their cells are: numbers, yes or no, or texts, which numbers among texts are
    too. They stand in the order in which they appear first.
    """

    words = "a JSON lines"
    _rows = 0

    def _read_schema(self) -> Any:
        import pyarrow as pa

        found: dict[str, set[type]] = {}
        for row in self._objects():
            self._rows += 1
            for name, cell in row.items():
                types = found.setdefault(name, set())
                if cell is not None:
                    types.add(type(cell))
        return pa.schema([(name, self._type_of(name, types)) for name, types in found.items()])

    def _type_of(self, name: str, types: set[type]) -> Any:
        import pyarrow as pa

        nested = types & {list, dict}
        if nested:
            kind = "a list" if list in nested else "an object"
            raise TableError(f"{self.path}, column {name!r}: a cell is {kind}, not a value")
        if not types:
            return pa.null()
        if str in types:
            return pa.string()
        return pa.bool_() if types == {bool} else pa.float64()

    def _count(self) -> int:
        return self._rows

    def _objects(self) -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        with pa.input_stream(str(self.path)) as file:
            for number, line in enumerate(_lines(file), start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except UnicodeDecodeError:
                    raise TableError(
                        f"{self.path}, line {number} is not UTF-8: {TO_UTF_8}"
                    ) from None
                except json.JSONDecodeError as error:
                    raise TableError(
                        f"{self.path}, line {number} is not JSON ({error.msg} at character "
                        f"{error.colno}): {_start(line)}"
                    ) from None
                if isinstance(row, list) and number == 1:
                    raise TableError(
                        f"{self.path} is one array of JSON; write each object on a line of its own"
                    )
                if not isinstance(row, dict):
                    raise TableError(
                        f"{self.path}, line {number} is not a JSON object: {_start(line)}"
                    )
                yield row

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        self.check_columns(columns)
        schema = pa.schema([self.schema.field(name) for name in columns])
        brought_to: dict[Any, Callable[[Any], Any]] = {
            pa.string(): text_of_cell,
            pa.float64(): _number,
        }
        read = [(name, brought_to.get(schema.field(name).type, _as_it_is)) for name in columns]
        objects = self._objects()
        while rows := list(islice(objects, BATCH_ROWS)):
            cells = {name: [as_kind(row.get(name)) for row in rows] for name, as_kind in read}
            yield pa.RecordBatch.from_pydict(cells, schema=schema)


def _number(cell: Any) -> float | None:
    try:
        return None if cell is None else float(cell)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def _as_it_is(cell: Any) -> Any:
    return cell


def _lines(file: Any) -> Iterator[bytes]:
    """Lines of a stream of bytes."""
    rest = b""
    while block := file.read(1 << 20):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _start(line: bytes) -> str:
    return shortened(line.decode("utf-8", "replace").strip())
