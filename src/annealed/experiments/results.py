"""What an experiment hands on: texts, tables, pictures, and the claims it checked."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from annealed.persistence.whole_files import write_text

Cell = str | int | float


@dataclass(frozen=True)
class Picture:
    """A figure on disk, as PNG and SVG of the same stem; ``caption`` says what it shows."""

    stem: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows under column names; cells are written as they are."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Check:
    """A claim held against what was measured.

    Attributes
    ----------
    claim : str
        What was to be shown.
    measured : str
        What came out, in words with its number.
    met : bool
    reason : str
        Why not, where it is known; empty if the claim is met.
    """

    claim: str
    measured: str
    met: bool
    reason: str = ""


@dataclass
class Outcome:
    """All of one experiment.

    Attributes
    ----------
    name, title : str
    paper : list of str
        What the paper shows, in paragraphs.
    ours : list of Picture, Table or str
        What came out here.
    differences : list of str
        Where and why the two differ.
    checks : list of Check
    absent : dict of str to str
        Data sets that were not at hand, with the reason.
    """

    name: str
    title: str
    paper: list[str]
    ours: list[Picture | Table | str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Write rows with a line of column names."""
    lines = io.StringIO(newline="")
    writer = csv.writer(lines)
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, lines.getvalue())
