"""Files of tables, read in batches: CSV, JSON lines, Parquet, Arrow, NumPy."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from annealed.tables.files.arrays import ArrayFile
from annealed.tables.files.arrow_files import ArrowFile, ParquetTable
from annealed.tables.files.csv_file import CSVFile
from annealed.tables.files.datasets import DatasetTable, is_dataset, open_folder
from annealed.tables.files.json_lines import JSONLinesFile
from annealed.tables.files.sampling import MOST_ROWS, draw, rows_drawn, rows_to_learn
from annealed.tables.files.table_file import Batch, Survey, TableError, TableFile, need_pyarrow

__all__ = [
    "MOST_ROWS", "READABLE", "Batch", "Survey", "TableError", "TableFile", "draw", "open_table",
    "rows_drawn", "rows_to_learn", "stored_table",
]  # fmt: skip

FORMATS: dict[str, type[TableFile]] = {
    ".csv": CSVFile,
    ".tsv": CSVFile,
    ".parquet": ParquetTable,
    ".arrow": ArrowFile,
    ".feather": ArrowFile,
    ".ipc": ArrowFile,
    ".arrows": ArrowFile,
    ".npy": ArrayFile,
    ".npz": ArrayFile,
    ".jsonl": JSONLinesFile,
    ".ndjson": JSONLinesFile,
    ".json": JSONLinesFile,
}
TEXTS = (CSVFile, JSONLinesFile)  # which may be compressed
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
READABLE = (
    ".csv, .tsv or .jsonl (also .gz, .bz2, .zst), .parquet, .arrow or .feather, NumPy's .npy and "
    ".npz, and folders of .parquet, .arrow or .feather files"
)


def open_table(path: str | Path) -> TableFile:
    """A file of a table, by the end of its name, or a folder of such files.

    Nothing but what it needs to know is read yet.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    TableFile
        With ``names``, ``survey(...)`` and ``batches(...)``.

    Raises
    ------
    FileNotFoundError, OSError
        The file is not there or cannot be read.
    TableError
        It is not a table. A ValueError that names the file and, where it can, row and column.
    """
    path = Path(path)
    ends = [suffix.lower() for suffix in path.suffixes]
    end = ends[-1] if ends else ""
    if end in COMPRESSED and len(ends) > 1 and FORMATS.get(ends[-2]) in TEXTS:
        end = ends[-2]
    if path.is_dir():
        need_pyarrow(path)
        return open_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if end not in FORMATS:
        raise TableError(f"{path}: cannot tell what kind of file this is; its name must end in "
                         f"{READABLE}")  # fmt: skip
    need_pyarrow(path)
    return FORMATS[end](path)


def stored_table(table: Any) -> TableFile | None:
    """What can be read in batches: the name of a file or folder, a dataset of pyarrow; else None.

    Raises
    ------
    FileNotFoundError, OSError, TableError
        As in `open_table`.
    """
    if isinstance(table, str | PathLike):
        return open_table(Path(table))
    return DatasetTable(table) if is_dataset(table) else None
