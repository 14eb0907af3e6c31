"""A file that others write to, replace and cut short: read on as `tail -F` does."""

from __future__ import annotations

import io
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from annealed.tables.files.records import RecordReader, Records
from annealed.tables.files.table_file import shortened

# How often a file that is followed is looked at, in seconds.
PATIENCE = 0.2


class Block(NamedTuple):
    """Some records; ``begins`` says whether the first of them is the first of a file."""

    records: Records
    begins: bool


def records_of(source: io.BufferedIOBase) -> Iterator[Block]:
    """The records of a file or a pipe, to its end."""
    begins = True
    for records in RecordReader(source):
        yield Block(records, begins)
        begins = False


def follow_records(path: Path) -> Iterator[Block]:
    """The records of a file, and of those that take its place; it never ends.

    A file that is replaced is read to its end before the new one is begun, a file that is cut
    short is read from its start again. What then remains of a record without a line end is left
    out, with a warning: the rest of it will not come.
    """
    followed = _Followed(path)
    try:
        while True:
            reader, begins = RecordReader(followed.file, followed.wait), True
            for records in reader:
                yield Block(records, begins)
                begins = False
            if reader.unfinished:
                text = shortened(reader.unfinished.decode("utf-8", "replace"))
                warnings.warn(
                    f"{path} was replaced or cut short before the end of a record, which is left "
                    f"out: {text}", stacklevel=2,
                )  # fmt: skip
            followed.turn()
    finally:
        followed.close()


class _Followed:
    """The file under a name, and the next one once there is one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Without a buffer, so that the place in the file is that of what has been read.
        self.file = path.open("rb", buffering=0)
        self.next: io.FileIO | None = None

    def wait(self) -> bool:
        """At the end of the file: wait a while; False if no more will be written to it."""
        if self.next is not None:
            return False
        if os.fstat(self.file.fileno()).st_size < self.file.tell():
            self.next = self.file  # cut short
            return False
        self.next = self._replacement()
        if self.next is None:
            time.sleep(PATIENCE)
        # Whoever writes to the new file has done with the old one, which has its last lines now.
        return True

    def _replacement(self) -> io.FileIO | None:
        """Another file under the name, once something has been written to it."""
        try:
            there, mine = self.path.stat(), os.fstat(self.file.fileno())
            if not there.st_size or os.path.samestat(there, mine):
                return None
            return self.path.open("rb", buffering=0)
        except (FileNotFoundError, PermissionError):  # it is just being put there
            return None

    def turn(self) -> None:
        """From the file that has been read to the next."""
        assert self.next is not None
        if self.next is self.file:
            self.file.seek(0)
        else:
            self.file.close()
        self.file, self.next = self.next, None

    def close(self) -> None:
        """Be done with both."""
        self.file.close()
        if self.next is not None:
            self.next.close()
