"""Files that commands read and write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from annealed.tables.files import READABLE, TableFile, open_table

Data = Annotated[Path, typer.Argument(help=f"A table: {READABLE}.", show_default=False)]


def open_data(path: Path) -> TableFile:
    """A table to read."""
    if str(path) == "-":
        raise ValueError("standard input cannot be read twice, as a table is; save it to a file")
    return open_table(path)


def check_writable(path: Path) -> None:
    """Say it now, not after the work, if a file cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: permission denied")
