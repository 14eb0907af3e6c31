"""Options that commands share, each with one meaning, and the checks that need nothing but them.

Reading arguments imports neither NumPy nor scikit-learn, so that `--help` and mistakes are answered
at once. What the library knows too (names, limits) is therefore said again here, and a test keeps
the two together.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

# As `annealed.tables.files.READABLE`.
READABLE = (
    ".csv, .tsv or .jsonl (also .gz, .bz2, .zst), .parquet, .arrow or .feather, NumPy's .npy and "
    ".npz, and folders of .parquet, .arrow or .feather files"
)
# As the default of K_max in `ODAClustering`.
MOST_CLUSTERS = 100
# As scikit-learn takes them.
LARGEST_SEED = 2**32 - 1


class DivergenceName(StrEnum):
    """As `annealed.divergences.BUILT_IN`."""

    SQUARED_EUCLIDEAN = "squared_euclidean"
    I_DIVERGENCE = "i_divergence"
    KULLBACK_LEIBLER = "kullback_leibler"
    ITAKURA_SAITO = "itakura_saito"
    LOGISTIC = "logistic"


class Experiment(StrEnum):
    """As `annealed.experiments.EXPERIMENTS`."""

    FIG1 = "fig1"
    FIG2 = "fig2"
    FIG3 = "fig3"
    FIG4 = "fig4"
    TABLE1 = "table1"


class Preprocess(StrEnum):
    """What is done to columns before they are learnt."""

    AUTO = "auto"
    NONE = "none"


Names = list[str] | None
Columns = Annotated[
    Names, typer.Option(metavar="A,B,C", help="Columns to learn from (default: all others).")
]
Drop = Annotated[Names, typer.Option(metavar="A,B,C", help="Columns to leave out.")]
Categorical = Annotated[
    Names,
    typer.Option(
        metavar="A,B,C", help="Columns of numbers that are codes, not quantities; also the target."
    ),
]
Data = Annotated[Path, typer.Argument(help=f"A table: {READABLE}.", show_default=False)]
Model = Annotated[
    Path, typer.Argument(help="A model written by annealed fit --model.", show_default=False)
]
DataHome = Annotated[
    Path | None,
    typer.Option(
        help="Folder with data files of yours (default: the environment variable ANNEALED_DATA)."
    ),
]
NClusters = Annotated[
    str, typer.Option(metavar="auto|N", help="Number of clusters; auto takes it from the data.")
]
Divergence = Annotated[
    DivergenceName,
    typer.Option(metavar="NAME", help=f"How rows are compared: {', '.join(DivergenceName)}."),
]
Target = Annotated[
    str | None, typer.Option(help="The column to predict. Without it rows are clustered.")
]
ModelOut = Annotated[
    Path | None, typer.Option(help="File to write the model to, for example out.oda.")
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Same seed, same result.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print neither progress nor a summary.")]


def names_in_option(given: Names) -> list[str]:
    """Names from "a,b" or from an option given more than once; quotes keep a comma in a name."""
    return [name.strip() for text in given or [] for name in next(csv.reader([text]), [])]


def number_of_clusters(given: str, target: str | None) -> str | int:
    """What --n-clusters says; ValueError if it says nothing sensible."""
    if given == "auto":
        return given
    if target is not None:
        raise ValueError("--n-clusters is for clusterings; with --target leave it out")
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"--n-clusters must be auto or a number of at least 1, not {given!r}")
    if int(given) > MOST_CLUSTERS:
        raise ValueError(
            f"--n-clusters can be at most {MOST_CLUSTERS}, not {given}; ODAClustering in Python "
            "finds more, with K_max"
        )
    return int(given)


def check_data_home(folder: Path | None) -> None:
    """ValueError if a folder was named and is none."""
    if folder is not None and not folder.is_dir():
        raise ValueError(
            f"{folder} is a file; --data-home must be a folder"
            if folder.exists()
            else f"the folder {folder} does not exist"
        )


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
