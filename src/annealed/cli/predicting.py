"""What `annealed predict` does: rows of a file in, answers of a model out."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from annealed.cli.model_inputs import columns_to_read, load_fitted, matrix_of, open_data
from annealed.persistence.whole_files import replacing
from annealed.tables.files import TableError, TableFile
from annealed.tables.model import TabularModel


def predict_file(
    model: Path, data: Path, out: Path | None, *, proba: bool, keep: Sequence[str]
) -> int:
    """Write the answers for every row, in the order of the rows; how many there were.

    Columns to ``keep`` stand before the answers, as they are in the file.
    """
    fitted = load_fitted(model)
    if proba and not hasattr(fitted, "predict_proba"):
        raise ValueError(f"{model} holds a model without probabilities; leave --proba out")
    file = open_data(data)
    keep = list(dict.fromkeys(keep))
    file.check_columns(keep)
    rows = 0
    with _writer(out) as write:
        for answers in _beside(_answers(fitted, file, proba), file, keep):
            write(answers)
            rows += answers.num_rows
        if not rows:
            raise TableError(f"{data} has names of columns, but no rows")
    return rows


def _answers(fitted: Any, file: TableFile, proba: bool) -> Iterator[Any]:
    """Batches of answers as pyarrow RecordBatches."""
    import pyarrow as pa

    columns, kinds = columns_to_read(fitted, file)
    classes = getattr(fitted, "classes_", None)
    name = "cluster" if classes is None else "prediction"
    for _, table in file.batches(columns, kinds):
        rows = table if isinstance(fitted, TabularModel) else matrix_of(table)
        if proba:
            shares = fitted.predict_proba(rows)
            best = shares.argmax(axis=1)
            labels = fitted.predict(rows) if classes is None else classes[best]
            of = range(shares.shape[1]) if classes is None else classes.tolist()
            more = {f"p({label})": shares[:, k] for k, label in enumerate(of)}
        else:
            labels, more = fitted.predict(rows), {}
        arrays = [pa.array(labels.tolist()), *map(pa.array, more.values())]
        yield pa.RecordBatch.from_arrays(arrays, names=[name, *more])


def _beside(answers: Iterator[Any], file: TableFile, keep: list[str]) -> Iterator[Any]:
    """Answers with columns of the file before them; read apart, so that they stay what they are."""
    import pyarrow as pa

    if not keep:
        yield from answers
        return
    for batch, (_, kept) in zip(answers, file.batches(keep), strict=True):
        for name in keep:
            if name in batch.schema.names:
                raise ValueError(f"--keep names {name!r}, as the answers are called; rename it")
        columns = [_plain(kept.column(name)) for name in keep]
        yield pa.RecordBatch.from_arrays(
            [*columns, *batch.columns], names=[*keep, *batch.schema.names]
        )


def _plain(column: Any) -> Any:
    """Cells themselves, where a column holds numbers that stand for them."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


@contextmanager
def _writer(out: Path | None) -> Iterator[Callable[[Any], None]]:
    """A function that writes a batch. A file appears under its name only when it is complete."""
    if out is None:
        with _csv_on(sys.stdout.buffer) as write:
            yield write
        sys.stdout.flush()
        return
    written = _csv_on if out.suffix.lower() == ".csv" else _parquet_on
    with replacing(out) as file, written(file) as write:
        yield write


@contextmanager
def _csv_on(stream: BinaryIO) -> Iterator[Callable[[Any], None]]:
    from pyarrow.csv import CSVWriter, WriteOptions

    # pyarrow puts every name in quotes; we write the line of names as others do.
    options = WriteOptions(include_header=False, quoting_style="needed")
    writers: list[Any] = []

    def write(batch: Any) -> None:
        if not writers:
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(batch.schema.names)
            stream.write(line.getvalue().encode())
            writers.append(CSVWriter(stream, batch.schema, write_options=options))
        writers[0].write_batch(batch)

    yield write
    for writer in writers:
        writer.close()


@contextmanager
def _parquet_on(stream: BinaryIO) -> Iterator[Callable[[Any], None]]:
    from pyarrow.parquet import ParquetWriter

    writers: list[Any] = []

    def write(batch: Any) -> None:
        if not writers:
            writers.append(ParquetWriter(stream, batch.schema))
        writers[0].write_batch(batch)

    yield write
    for writer in writers:
        writer.close()
