"""Files written whole or not at all, with errors that name the file.

Everything the package writes goes through here, but for streams of answers, which are there to be
read while they grow.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


def write_text(path: Path, text: str, *, errors: str = "strict") -> None:
    """Write a file of text in UTF-8, whole or not at all; line ends stay as they are.

    Parameters
    ----------
    path : Path
    text : str
    errors : str
        What becomes of characters that UTF-8 has no place for, as in `str.encode`.
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8", errors))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of ``path`` once it is whole and on the disk.

    If anything fails on the way, what was there before is still there. A new file gets the
    permissions that any new file gets, a replaced one keeps those it had.

    An OSError about this file says so. What else goes wrong while it is open (reading another file,
    say) is passed on as it is.
    """
    target = Path(os.path.realpath(path))  # a link goes on pointing where it did
    # A name of its own, so that two who write at once do not write into each other's file.
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    with explaining(path):
        mode = _mode_of(target)
        # Not tempfile: its files are for nobody but their owner, whatever the user's umask says.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
    try:
        with contextlib.closing(_Raw(descriptor, path)) as raw:
            file = io.BufferedWriter(raw)
            yield file
            file.flush()
            with explaining(path):
                os.fsync(descriptor)
        with explaining(path):
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _settle_folder(target.parent)


# Windows would otherwise translate line ends.
BINARY = getattr(os, "O_BINARY", 0)


class _Raw(io.FileIO):
    """The file below the buffer: here an error of writing is known to be one, and of which file."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self.path = path

    def write(self, data: Any) -> int:
        with explaining(self.path):
            return super().write(data)


@contextlib.contextmanager
def explaining(path: Path) -> Iterator[None]:
    """An OSError in here is about writing that file: have it say so, and why."""
    try:
        yield
    except OSError as error:
        raise _explained(error, path) from error


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
