"""Where `annealed stream` writes lines: answers and figures, to files cut back on resuming."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from annealed.cli.application import complain
from annealed.persistence.whole_files import replacing

# Bytes read at a time.
CHUNK = 1 << 20


class Written(NamedTuple):
    """How far a file of lines had come: its bytes, and a hash of them."""

    size: int
    digest: str


class Kind(NamedTuple):
    """What lines are about.

    name : in messages
    option : of the command, which says where they go
    header : the first line, if there is one
    start : what stands before the number of a row in every other line; a comma stands behind it
    """

    name: str
    option: str
    header: str
    start: str


ANSWERS = Kind("answers", "--predictions", "row,prediction,probability\n", "")
FIGURES = Kind("figures", "--metrics", "", '{"rows": ')


def answer_lines(row: int, labels: Sequence[Any], shares: Sequence[float | None]) -> str:
    """Answers to rows in their order, the first of which has the number ``row``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, (label, share) in enumerate(zip(labels, shares, strict=True), start=row):
        shown = "" if share is None else f"{share:.6g}"
        writer.writerow([number, "" if label is None else label, shown])
    return text.getvalue()


def figures_line(figures: dict[str, Any]) -> str:
    """Figures, of which the first are the ``rows`` they are about."""
    return json.dumps(figures) + "\n"


class Lines:
    """Lines on standard output, a pipe or a device, where what is written stays."""

    last_row: int | None = None  # the last line is about, where that is known from before

    def __init__(self, file: Any, kind: Kind) -> None:
        self.file, self.kind = file, kind

    def begin(self) -> None:
        """Make ready for the first row."""
        self.write(self.kind.header)

    def write(self, text: str) -> None:
        """Write whole lines."""
        self.file.write(text)
        self.file.flush()

    def settle(self) -> Written | None:
        """Have on the disk what has been written, before a checkpoint says that it is there."""
        return None

    def close(self) -> None:
        """No more is to come."""


class LineFile(Lines):
    """A file of lines that ends where the checkpoint stands whenever a run begins.

    What a process that was killed has written since its last checkpoint is cut off: those lines
    are written again. Nothing is written before `begin`, and a file of anyone else's is refused.

    Parameters
    ----------
    path : Path
    kind : Kind
    before : Written or None
        What the checkpoint knows of the file.
    row : int
        The row that comes next.
    checkpoint : Path or None
        For messages.

    Raises
    ------
    ValueError
        If there is a file that is neither what the checkpoint speaks of, nor holds lines from
        that row on.
    """

    def __init__(
        self, path: Path, kind: Kind, before: Written | None, row: int, checkpoint: Path | None
    ) -> None:
        self.path, self.kind, self.hash = path, kind, hashlib.blake2b(digest_size=16)
        self.size = 0
        self.opened: BinaryIO | None = None
        if not path.exists() or not path.stat().st_size:
            if before is not None:
                complain(f"note: {path} is not there; a new one begins with row {row}")
        elif before is not None and self._is(before):
            self.size = before.size
            self.last_row = self._last_row()
        elif not self._begins_with(row):
            raise ValueError(
                f"{path} is not the file of {kind.name} that goes with the checkpoint "
                f"{checkpoint}; move it away, and a new one begins with row {row}"
                if before is not None
                else f"{path} is not a file of {kind.name} from row {row} on, and would be "
                f"overwritten; give {kind.option} another name, or remove it"
            )

    def _is(self, before: Written) -> bool:
        """Whether the file begins with what had been written."""
        digest, left = self.hash.copy(), before.size
        with self.path.open("rb") as file:
            while left and (some := file.read(min(left, CHUNK))):
                digest.update(some)
                left -= len(some)
        if left or digest.hexdigest() != before.digest:
            return False
        self.hash = digest
        return True

    def _begins_with(self, row: int) -> bool:
        """Whether the file has lines from that row on: a run killed before its checkpoint."""
        expected = (self.kind.header + self.kind.start).encode()
        with self.path.open("rb") as file:
            start = file.read(len(expected) + 20)
        header, first = start[: len(expected)], start[len(expected) :]
        if not expected.startswith(header):
            return False
        number, comma, _ = first.partition(b",")
        return not comma or (number.isdigit() and int(number) >= row)

    def _last_row(self) -> int | None:
        """The row that the last line before `size` is about, where lines say so."""
        with self.path.open("rb") as file:
            file.seek(max(self.size - CHUNK, 0))
            last = file.read(min(self.size, CHUNK)).splitlines()[-1]
        number = last.removeprefix(self.kind.start.encode()).partition(b",")[0]
        return int(number) if number.isdigit() else None

    def begin(self) -> None:
        """Open the file and cut it back."""
        if not self.path.exists():
            with replacing(self.path):  # which has the new name on the disk too
                pass
        self.opened = self.path.open("r+b")
        self.opened.truncate(self.size)
        self.opened.seek(self.size)
        if not self.size:
            self.write(self.kind.header)

    def write(self, text: str) -> None:
        """Write whole lines."""
        assert self.opened is not None
        data = text.encode(errors="backslashreplace")  # JSON can have half a character
        self.opened.write(data)
        self.opened.flush()
        self.hash.update(data)
        self.size += len(data)

    def settle(self) -> Written | None:
        """Have on the disk what has been written, before a checkpoint says that it is there."""
        if self.opened is not None:
            os.fsync(self.opened.fileno())
        return Written(self.size, self.hash.hexdigest()) if self.size else None

    def close(self) -> None:
        """No more is to come."""
        if self.opened is not None:
            self.opened.close()


def open_lines(
    where: str, kind: Kind, before: Written | None, row: int, checkpoint: Path | None
) -> Lines:
    """The place for lines that an option names; see `LineFile`."""
    if where == "-":
        return Lines(sys.stdout, kind)
    path = Path(where)
    if path.exists() and not path.is_file():  # a pipe or a device
        return _Device(path, kind)
    return LineFile(path, kind, before, row, checkpoint)


class _Device(Lines):
    def __init__(self, path: Path, kind: Kind) -> None:
        super().__init__(path.open("w", encoding="utf-8", newline=""), kind)

    def close(self) -> None:
        self.file.close()
