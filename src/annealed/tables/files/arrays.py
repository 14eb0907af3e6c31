"""NumPy's .npy (two dimensions, or structured) and .npz."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.tables.files.table_file import BATCH_ROWS, Survey, TableError, TableFile
from annealed.tables.kinds import OF_ARRAY, kind_of_array


class ArrayFile(TableFile):
    """Arrays in a file. Columns of a matrix are called x0, x1, ...; of an archive (.npz) after it.

    An .npy file is mapped, not loaded. Arrays of an archive are loaded whole: they are compressed
    or not, but never read in part.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            if not file.read(6).startswith((b"\x93NUMPY", b"PK")):  # npz is a ZIP archive
                raise TableError(f"{path} is not a NumPy file")
        try:
            # Objects would have to be unpickled, which can run any code.
            content = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            words = str(error)
            if "pickle" in words or "Python objects" in words:
                words = "it holds Python objects, which are not read from files; save numbers"
            raise TableError(f"{path} cannot be read: {words}") from None
        self.columns: dict[str, NDArray[Any]] = {}
        if isinstance(content, np.ndarray):
            self._add("x", content, alone=True)
        else:
            self._add_archive(content)
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {n}" for name, n in list(lengths.items())[:6])
            raise TableError(f"{path}: the arrays have different numbers of rows ({shown})")
        self.names = list(self.columns)

    def _add_archive(self, content: Any) -> None:
        with content:
            for name in content.files:
                try:
                    array = content[name]
                except ValueError:
                    raise TableError(
                        f"{self.path}: the array {name!r} holds Python objects, which are not "
                        "read from files; save numbers or texts"
                    ) from None
                plain = name in ("X", "x", "arr_0")
                self._add("x" if plain else name, array, alone=len(content.files) == 1)
        if not self.columns:
            raise TableError(f"{self.path} holds no arrays")

    def _add(self, name: str, array: NDArray[Any], alone: bool) -> None:
        if array.dtype.names:
            found = {field: array[field] for field in array.dtype.names}
        elif array.ndim == 2:
            found = {f"{name}{k}": array[:, k] for k in range(array.shape[1])}
        elif array.ndim == 1:
            found = {"x0" if alone else name: array}
        else:
            raise TableError(
                f"{self.path}: an array of {array.ndim} dimensions is no table; rows and columns "
                "make two"
            )
        for column, values in found.items():
            if kind_of_array(values.dtype) is None or values.ndim != 1:
                raise TableError(
                    f"{self.path}, column {column!r}: values of type {values.dtype} are neither "
                    "numbers nor texts"
                )
            if column in self.columns:
                raise TableError(f"{self.path}: two arrays give a column {column!r}; rename one")
            self.columns[column] = values

    def survey(self, columns: Sequence[str], declared: Mapping[str, str] | None = None) -> Survey:
        """Count rows and say what columns are."""
        self.check_columns(columns)
        kinds = {name: OF_ARRAY[self.columns[name].dtype.kind] for name in columns}
        given = {name: kind for name, kind in (declared or {}).items() if name in kinds}
        return Survey(len(next(iter(self.columns.values()))), kinds | given)

    def _raw_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        self.check_columns(columns)
        rows = len(next(iter(self.columns.values())))
        for at in range(0, rows, BATCH_ROWS):
            parts = [_readable(self.columns[name][at : at + BATCH_ROWS]) for name in columns]
            arrays = [pa.array(part, from_pandas=True) for part in parts]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _readable(part: NDArray[Any]) -> NDArray[Any]:
    """A part of a column in memory, in a form that pyarrow knows."""
    letter = part.dtype.kind
    if letter == "S":
        return np.char.decode(part, "utf-8")
    if letter in "Mm":
        return part.astype("datetime64[us]" if letter == "M" else "timedelta64[us]")
    if letter == "f" and part.dtype.itemsize not in (4, 8):
        return part.astype(np.float64)
    return np.ascontiguousarray(part.astype(part.dtype.newbyteorder("=")))
