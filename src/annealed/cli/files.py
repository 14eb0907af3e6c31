"""Files that commands read and write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from annealed.tables.files import READABLE, TableFile, open_table

Data = Annotated[Path, typer.Argument(help=f"A table: {READABLE}.", show_default=False)]


def open_data(path: Path) -> TableFile:
    """A table to read."""
    if str(path) == "-":
        raise ValueError(
            "standard input cannot be read twice, as this command does; save it to a file first, "
            "or learn from it with annealed stream"
        )
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson") and path.is_file():
        raise ValueError(f"{path}: only annealed stream reads JSON; give a table: {READABLE}")
    return open_table(path)


def check_writable(path: Path) -> None:
    """Say it now, not after the work, if a file cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: permission denied")


def check_apart(written: Mapping[str, Path | None], read: Sequence[Path | None]) -> None:
    """ValueError if a file to write is one that is read, or is to be written twice.

    Parameters
    ----------
    written : mapping
        Options and the files they name, None where one was not given.
    read : sequence of Path or None
    """
    taken = {os.path.realpath(path) for path in read if path is not None}
    for option, path in written.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise ValueError(
                f"{option} names {path}, which this command reads or writes already; give another "
                "file"
            )
        taken.add(place)


def check_seed(seed: int) -> None:
    """ValueError at a seed that cannot be."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be a number from 0 to {2**32 - 1}, not {seed}")
