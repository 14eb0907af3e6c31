"""Where `annealed stream` writes its answers: a file that is cut back on resuming, or a pipe."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from annealed.cli.application import complain
from annealed.persistence.whole_files import replacing

HEADER = "row,prediction,probability\n"
# Bytes read at a time.
CHUNK = 1 << 20


class Written(NamedTuple):
    """How far a file of answers had come: its bytes, and a hash of them."""

    size: int
    digest: str


class Answers:
    """Answers on standard output, a pipe or a device, where what is written stays."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def begin(self) -> None:
        """Make ready for the first row."""
        self._put(HEADER)

    def write(self, row: int, labels: Sequence[Any], shares: Sequence[float | None]) -> None:
        """Answers to rows in their order, the first of which has the number ``row``."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for number, (label, share) in enumerate(zip(labels, shares, strict=True), start=row):
            shown = "" if share is None else f"{share:.6g}"
            writer.writerow([number, "" if label is None else label, shown])
        self._put(text.getvalue())

    def _put(self, text: str) -> None:
        self.file.write(text)
        self.file.flush()

    def settle(self) -> Written | None:
        """Have on the disk what has been written, before a checkpoint says that it is there."""
        return None

    def close(self) -> None:
        """No more is to come."""


class AnswerFile(Answers):
    """A file of answers that ends where the checkpoint stands whenever a run begins.

    What a process that was killed has answered since its last checkpoint is cut off: those rows
    are answered again. Nothing is written before `begin`, and a file of anyone else's is refused.

    Parameters
    ----------
    path : Path
    before : Written or None
        What the checkpoint knows of the file.
    row : int
        The row to be answered next.
    checkpoint : Path or None
        For messages.

    Raises
    ------
    ValueError
        If there is a file that is neither what the checkpoint speaks of, nor holds answers from
        that row on.
    """

    def __init__(
        self, path: Path, before: Written | None, row: int, checkpoint: Path | None
    ) -> None:
        self.path, self.hash = path, hashlib.blake2b(digest_size=16)
        self.size = 0
        self.opened: BinaryIO | None = None
        if not path.exists() or not path.stat().st_size:
            if before is not None:
                complain(f"note: {path} is not there; a new one begins with row {row}")
        elif before is not None and self._is(before):
            self.size = before.size
        elif not self._begins_with(row):
            raise ValueError(
                f"{path} is not the file of answers that goes with the checkpoint {checkpoint}; "
                f"move it away, and a new one begins with row {row}"
                if before is not None
                else f"{path} is not a file of answers from row {row} on, and would be "
                "overwritten; give --predictions another name, or remove it"
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
        """Whether the file has answers from that row on: a run killed before its checkpoint."""
        with self.path.open("rb") as file:
            start = file.read(len(HEADER) + 20)
        header, first = start[: len(HEADER)], start[len(HEADER) :]
        if not HEADER.encode().startswith(header):
            return False
        number, comma, _ = first.partition(b",")
        return not comma or (number.isdigit() and int(number) >= row)

    def begin(self) -> None:
        """Open the file and cut it back."""
        if not self.path.exists():
            with replacing(self.path):  # which has the new name on the disk too
                pass
        self.opened = self.path.open("r+b")
        self.opened.truncate(self.size)
        self.opened.seek(self.size)
        if not self.size:
            self._put(HEADER)

    def _put(self, text: str) -> None:
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


def open_answers(where: str, before: Written | None, row: int, checkpoint: Path | None) -> Answers:
    """The place for answers that ``--predictions`` names; see `AnswerFile`."""
    if where == "-":
        return Answers(sys.stdout)
    path = Path(where)
    if path.exists() and not path.is_file():  # a pipe or a device
        return _Device(path)
    return AnswerFile(path, before, row, checkpoint)


class _Device(Answers):
    def __init__(self, path: Path) -> None:
        super().__init__(path.open("w", encoding="utf-8", newline=""))

    def close(self) -> None:
        self.file.close()
