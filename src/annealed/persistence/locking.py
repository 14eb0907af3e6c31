"""Whether a file could be written, and keeping others away from it while one does."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import socket
import sys
from pathlib import Path
from typing import BinaryIO

from annealed.persistence.whole_files import BINARY, explaining, replacing

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# What a folder must have room for before a stream begins, if nothing larger is known.
LEAST_ROOM = 1_000_000


class CheckpointInUseError(OSError):
    """Another process is writing to that checkpoint."""


def check_writable(path: Path) -> None:
    """Raise OSError now if a file could not be written there later.

    The folder must take a new file, and have room for twice what is there now: the old one stays
    until the new one is whole.
    """
    with contextlib.suppress(_TriedError), replacing(path) as file:
        size = path.stat().st_size if path.exists() else 0
        with explaining(path):
            _make_room(file, max(LEAST_ROOM, 2 * size))
        raise _TriedError


def _make_room(file: BinaryIO, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise  # those three only say that this disk cannot be asked


class _TriedError(Exception):
    """There is room: the file that was tried out is not kept."""


class Lock:
    """The right to write to a file, held by one process at a time.

    It is held on ``FILE.lock`` by the operating system, which takes it back when the process ends,
    however it ends; a lock file that is left lying about stops nobody.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        target = Path(os.path.realpath(path))  # whatever name it goes by
        self.beside = target.with_name(f"{target.name}.lock")
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is this object's."""
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take it, or raise CheckpointInUseError saying who has it."""
        while self._descriptor is None:
            descriptor = self._open()
            try:
                _take(descriptor)
            except OSError:
                holder = self._holder(descriptor)
                os.close(descriptor)
                raise CheckpointInUseError(
                    errno.EWOULDBLOCK,
                    f"is in use by {holder}; end that process first, or give another name",
                    str(self.path),
                ) from None
            # Whoever had it may have removed the file between the two: then it is not ours yet.
            if _same_file(descriptor, self.beside):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        about = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, about)

    def _open(self) -> int:
        with explaining(self.beside):
            return os.open(self.beside, os.O_RDWR | os.O_CREAT | BINARY, 0o666)

    def _holder(self, descriptor: int) -> str:
        try:
            about = json.loads(os.read(descriptor, 1000))
            host = "" if about["host"] == socket.gethostname() else f" on {about['host']}"
            return f"process {int(about['pid'])}{host}"
        except (ValueError, KeyError, TypeError):
            return "another process"

    def release(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self.beside.unlink()
            os.close(self._descriptor)
            self._descriptor = None


def remove_leftovers(path: Path) -> None:
    """Remove what processes killed while writing have left; only for the holder of the lock."""
    target = Path(os.path.realpath(path))
    pattern = f".{glob.escape(target.name)}.*.tmp"
    for leftover in target.parent.glob(pattern):
        with contextlib.suppress(OSError):
            leftover.unlink()


def _take(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
