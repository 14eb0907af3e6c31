"""Tables that commands read."""

from __future__ import annotations

from pathlib import Path

from annealed.tables.files import READABLE, TableFile, open_table


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
