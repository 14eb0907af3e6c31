"""Writing a file whole or not at all, and keeping others away from it."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import socket
import stat
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# What a folder must have room for before a stream begins, if nothing larger is known.
LEAST_ROOM = 1_000_000


class CheckpointInUseError(OSError):
    """Another process is writing to that checkpoint."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of ``path`` once it is whole and on the disk.

    If anything fails on the way, what was there before is still there. A new file gets the
    permissions that any new file gets, a replaced one keeps those it had.
    """
    target = Path(os.path.realpath(path))  # a link goes on pointing where it did
    # A name of its own, so that two who write at once do not write into each other's file.
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        mode = _mode_of(target)
        # Not tempfile: its files are for nobody but their owner, whatever the user's umask says.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _settle_folder(target.parent)
    except OSError as error:
        raise _explained(error, path) from error


_BINARY = getattr(os, "O_BINARY", 0)


def _mode_of(target: Path) -> int | None:
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(
            errno.EISDIR, "this is a folder; give the name of a file", str(target)
        )
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "this is not an ordinary file", str(target))
    return stat.S_IMODE(found)


def _settle_folder(folder: Path) -> None:
    """Have the new name on the disk as well; not every system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explained(error: OSError, path: Path) -> OSError:
    """The same error, saying what it means for the file."""
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "your disk quota is used up",
        errno.EFBIG: "the file would be larger than is allowed",
        errno.EROFS: "the disk can only be read",
        errno.EACCES: "you have no permission to write in that folder",
        errno.EPERM: "you have no permission to write in that folder",
        errno.ENOENT: "there is no such folder; make it first",
        errno.ENOTDIR: "part of that path is a file, not a folder",
        errno.ENAMETOOLONG: "that name is too long",
    }
    reason = reasons.get(error.errno or 0, error.strerror or str(error))
    untouched = "; what was there before is untouched" if path.is_file() else ""
    return type(error)(error.errno, f"could not be written: {reason}{untouched}", str(path))


def check_writable(path: Path) -> None:
    """Raise OSError now if a file could not be written there later.

    The folder must take a new file, and have room for twice what is there now: the old one stays
    until the new one is whole.
    """
    with contextlib.suppress(_TriedError), replacing(path) as file:
        size = path.stat().st_size if path.exists() else 0
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
        try:
            return os.open(self.beside, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
        except OSError as error:
            raise _explained(error, self.beside) from error

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
