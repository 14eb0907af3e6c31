"""Arrow datasets: many files that are one table, a folder of Parquet files among them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from annealed.tables.files.arrow_files import PartedFile
from annealed.tables.files.table_file import BATCH_ROWS, TableError

# What files of a folder are, by the ends of their names, to pyarrow.
FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
# Files that programs leave beside tables; pyarrow leaves them out too.
HIDDEN = (".", "_")


def is_dataset(table: Any) -> bool:
    """Whether this is a dataset of pyarrow, which is not imported to find out."""
    made_in = type(table).__module__.partition(".")[0]
    return made_in == "pyarrow" and hasattr(table, "get_fragments")


class DatasetTable(PartedFile):
    """A dataset of pyarrow. Of a file of Parquet only those row groups are read that are wanted.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        It may be filtered; then all of it is read to find a part.
    path : Path, optional
        What messages call it by.
    """

    words = "an Arrow dataset"

    def __init__(self, dataset: Any, path: Path | None = None) -> None:
        self.dataset = dataset
        if path is None:
            files = getattr(dataset, "files", None)
            path = Path(os.path.commonpath(files)) if files else Path("the dataset")
        super().__init__(path)

    def _read_schema(self) -> Any:
        return self.dataset.schema

    def _count(self) -> int:
        return int(self.dataset.count_rows())

    def _parts(self) -> Iterator[tuple[int, Any]]:
        try:
            fragments = self.dataset.get_fragments()
        except ValueError:  # it is filtered, and what is left of a fragment is not known
            yield self._count(), self.dataset
            return
        for fragment in fragments:
            groups = getattr(fragment, "row_groups", None)
            if groups is None:
                yield int(fragment.count_rows()), fragment
                continue
            for group in groups:
                yield int(group.num_rows), fragment.subset(row_group_ids=[group.id])

    def _read_part(self, part: Any, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        whole = part is self.dataset
        options: dict[str, Any] = {} if whole else {"schema": self.dataset.schema}
        try:
            # What is read ahead would all be in memory at once.
            yield from part.to_batches(
                columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=1,
                fragment_readahead=1, use_threads=False, **options,
            )  # fmt: skip
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TableError(f"{getattr(part, 'path', self.path)}: {error}") from None


def open_folder(folder: Path) -> DatasetTable:
    """The files of a folder, and of folders in it, as one table; TableError if they are none.

    Folders called name=value, as many programs write them, add a column.
    """
    from pyarrow.dataset import dataset

    ends: dict[str, Path] = {}
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
        for name in sorted(files):
            if not name.startswith(HIDDEN):
                ends.setdefault(Path(name).suffix.lower(), Path(base, name))
    if not ends:
        raise TableError(f"{folder} is a folder without any files")
    strange = next((path for end, path in ends.items() if end not in FORMATS), None)
    if strange is not None:
        raise TableError(
            f"{folder} is a folder with {strange.relative_to(folder)} in it; the files of a folder "
            "that is one table are all .parquet, or all .arrow or .feather"
        )
    formats = {FORMATS[end] for end in ends}
    if len(formats) > 1:
        some = " and ".join(str(path.relative_to(folder)) for path in list(ends.values())[:2])
        raise TableError(f"{folder} is a folder with {some} in it, which are not of one kind")
    try:
        found = dataset(folder, format=formats.pop(), partitioning="hive")
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise TableError(f"{folder} cannot be read: {error}") from None
    return DatasetTable(found, folder)
