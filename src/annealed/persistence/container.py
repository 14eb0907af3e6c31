"""The outside of a model file: the safetensors format, read with nothing taken on trust.

A file is eight bytes (the length of the header, little-endian), a header in JSON that names each
array with its type, shape and place, and the arrays one behind the other. Every byte is under a
checksum, and nothing is allocated that the size of the file does not vouch for. The format is that
of https://github.com/huggingface/safetensors; its own readers open our files too.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]

# Names of types in the file, as numpy spells them; the widest come first in a file, so that every
# array lies on a multiple of its item size.
DTYPES = {
    "F64": "<f8", "I64": "<i8", "U64": "<u8", "F32": "<f4", "I32": "<i4", "U32": "<u4",
    "F16": "<f2", "I16": "<i2", "U16": "<u2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
NAMES = {np.dtype(numpy_name).newbyteorder("="): name for name, numpy_name in DTYPES.items()}
# Bounds of what a header may hold. Parsed, a byte of JSON can become forty bytes of memory; a model
# needs a few thousand of these marks, and long lists are kept in arrays.
MOST_BYTES = 16_000_000
MOST_MARKS = 250_000
MOST_DIMENSIONS = 8
CHECKSUM = "sha256"
NO_CHECKSUM = "0" * 64


# A file by its name, or one that is open.
FileOrPath = str | os.PathLike[str] | BinaryIO


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or asks for what is not there."""


def write_container(
    file: BinaryIO, metadata: Mapping[str, str], arrays: Mapping[str, AnyArray]
) -> None:
    """Write arrays and texts to a binary file that has just been opened.

    Parameters
    ----------
    file : binary file
    metadata : mapping of str to str
        A key "sha256" is added: the hash of the whole file with that value's digits all "0".
    arrays : mapping of str to ndarray
        Of the types in `DTYPES`.
    """
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {"__metadata__": {**metadata, CHECKSUM: NO_CHECKSUM}}
    at = 0
    for name, array in ordered:
        place = [at, at + array.nbytes]
        kind = NAMES[array.dtype.newbyteorder("=")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": place}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) > MOST_BYTES - 8 or _marks(text) > MOST_MARKS:
        raise ValueError(
            "the model holds too many separate parts for a model file: its header would take "
            f"{len(text):,} bytes"
        )
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight
    length = len(text).to_bytes(8, "little")
    digest = hashlib.new(CHECKSUM, length + text)
    for _, array in ordered:
        digest.update(_bytes(array))
    marked, plain = _checksum_in(digest.hexdigest()), _checksum_in(NO_CHECKSUM)
    file.write(length + text.replace(plain, marked, 1))
    for _, array in ordered:
        file.write(_bytes(array))


def read_container(path: FileOrPath) -> tuple[dict[str, str], dict[str, AnyArray]]:
    """Texts and arrays of a file; ModelFileError, with the reason, if anything is wrong with it."""
    with _opened(path) as (file, size):
        length, text = _header_bytes(file, size, path)
        header = parse_json(text, path, "its header")
        if not isinstance(header, dict):
            refuse(path, "its header is not a JSON object")
        metadata = _metadata(header.pop("__metadata__", None), path)
        places = _places(header, size - 8 - len(text), path)
        marked = _checksum_in(metadata[CHECKSUM])
        if text.count(marked) != 1:
            refuse(path, "its checksum is not where it belongs")
        digest = hashlib.new(CHECKSUM, length + text.replace(marked, _checksum_in(NO_CHECKSUM)))
        arrays = {}
        for name, dtype, shape in places:
            array = np.empty(shape, dtype=dtype)
            _fill(file, array, path)
            digest.update(_bytes(array))
            arrays[name] = array
    if digest.hexdigest() != metadata[CHECKSUM]:
        refuse(path, "its checksum does not match: the file was damaged or changed after writing")
    for name, array in arrays.items():
        if array.dtype == bool and (array.view(np.uint8) > 1).any():
            refuse(path, f"array {name!r} holds truth values that are neither 0 nor 1")
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return metadata, arrays


def read_metadata(path: FileOrPath) -> dict[str, str]:
    """The texts of a file alone, without reading its arrays or checking them."""
    with _opened(path) as (file, size):
        _, text = _header_bytes(file, size, path)
        header = parse_json(text, path, "its header")
        if not isinstance(header, dict):
            refuse(path, "its header is not a JSON object")
        return _metadata(header.get("__metadata__"), path)


def refuse(path: FileOrPath, reason: str) -> NoReturn:
    """Raise ModelFileError for that file."""
    raise ModelFileError(f"{shown(path)} cannot be read as a model: {reason}")


def parse_json(text: bytes, path: FileOrPath, what: str) -> Any:
    """Strict JSON within bounds: no duplicate keys, no NaN or infinity."""
    if len(text) > MOST_BYTES or _marks(text) > MOST_MARKS:
        refuse(path, f"{what} is larger than that of any model")
    try:
        return json.loads(
            text.decode("ascii"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_such_number,
            parse_float=_finite,
        )
    except RecursionError:
        refuse(path, f"{what} is nested too deeply")
    except ValueError as error:  # of the encoding, of JSON, or of the functions above
        refuse(path, f"{what} is not valid JSON ({error})")


def _marks(text: bytes) -> int:
    """How many values JSON text can hold at most."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _no_such_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (np.inf, -np.inf):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _checksum_in(digits: str) -> bytes:
    return f'"{CHECKSUM}":"{digits}"'.encode()


def _bytes(array: AnyArray) -> memoryview:
    """The bytes of an array as they lie in the file."""
    dtype = array.dtype.newbyteorder("<")
    flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
    return flat.view(np.uint8).data


class _opened:
    """A file for reading, and its size; one that is open is read to its end and left open."""

    def __init__(self, path: FileOrPath) -> None:
        self.path = path

    def __enter__(self) -> tuple[BinaryIO, int]:
        if not isinstance(self.path, (str, os.PathLike)):
            # Whole, since a pipe cannot tell its size, and what a header says is checked by it.
            content = checked_open(self.path, "read").read()
            self.file: BinaryIO = io.BytesIO(content)
            return self.file, len(content)
        if not stat.S_ISREG(os.stat(self.path).st_mode):
            refuse(self.path, "it is not an ordinary file")
        self.file = open(self.path, "rb")
        return self.file, os.fstat(self.file.fileno()).st_size

    def __exit__(self, *_: object) -> None:
        self.file.close()


def checked_open(file: BinaryIO, method: str) -> BinaryIO:
    """An open file that can "read" or "write" bytes; TypeError if it cannot."""
    if isinstance(file, io.TextIOBase):
        raise TypeError("the file was opened as text, and a model is bytes: open it in binary mode")
    if not hasattr(file, method):
        raise TypeError(f"give the name of a file, or one that is open to {method}, not {file!r}")
    return file


def shown(path: FileOrPath) -> str:
    """A file in a message: its name in quotes, if it has one."""
    if isinstance(path, (str, os.PathLike)):
        return repr(os.fspath(path))
    name = getattr(path, "name", None)
    return repr(name) if isinstance(name, str) else "the file"


def _header_bytes(file: BinaryIO, size: int, path: FileOrPath) -> tuple[bytes, bytes]:
    length = file.read(8)
    if len(length) < 8:
        refuse(path, f"it holds {size} bytes, too few for one")
    count = int.from_bytes(length, "little")
    if count > size - 8:
        refuse(
            path,
            f"it ends after {size} bytes, before its header does; it was cut short, or it is some "
            "other kind of file",
        )
    if count > MOST_BYTES:
        refuse(path, f"its header of {count:,} bytes is larger than that of any model")
    text = file.read(count)
    if len(text) < count or not text.startswith(b"{"):
        refuse(path, "it does not begin as a safetensors file does")
    return length, text


def _metadata(value: Any, path: FileOrPath) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        refuse(path, "it was not written by annealed.save: there is no text in its header")
    digits = value.get(CHECKSUM, "")
    if value.get("format") != "annealed" or len(digits) != 64 or not digits.isalnum():
        refuse(path, "it is a safetensors file, but was not written by annealed.save")
    return value


def _places(
    header: Mapping[str, Any], size: int, path: FileOrPath
) -> Iterator[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Name, type and shape of every array in the order they lie in the file, all checked first."""
    found = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            refuse(path, f"array {name!r} is not described as safetensors asks")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            refuse(path, f"array {name!r} is of the unknown type {str(dtype)[:40]!r}")
        if not _wholes(shape, size) or len(shape) > MOST_DIMENSIONS:
            refuse(path, f"array {name!r} has an impossible shape")
        if not _wholes(offsets, size) or len(offsets) != 2:
            refuse(path, f"array {name!r} lies outside the file")
        items = 1
        for n in shape:
            items *= n
        begin, end = offsets
        if end - begin != items * np.dtype(DTYPES[dtype]).itemsize:
            refuse(path, f"array {name!r} has a shape that does not match its bytes")
        found.append((begin, end, name, np.dtype(DTYPES[dtype]), tuple(shape)))
    found.sort(key=lambda entry: entry[:2])
    at = 0
    for begin, end, name, _, _ in found:
        if begin != at:
            refuse(path, f"array {name!r} does not begin where the one before it ends")
        at = end
    if at != size:
        refuse(path, f"its arrays take {at} bytes, but {size} follow the header")
    return ((name, dtype, shape) for _, _, name, dtype, shape in found)


def _wholes(values: Any, most: int) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n <= most for n in values)


def _fill(file: BinaryIO, array: AnyArray, path: FileOrPath) -> None:
    into = array.reshape(-1).view(np.uint8).data
    if file.readinto(into) != len(into):  # type: ignore[attr-defined]
        refuse(path, "it became shorter while it was read")
