"""`annealed reproduce`: the paper's figures and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.options import DataHome, Experiment, check_data_home


@app.command()
@one_line_errors
def reproduce(
    experiments: Annotated[
        list[Experiment] | None,
        typer.Argument(help="What to reproduce.", show_default="all"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats and rows: under two minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("reproduced"),
    data_home: DataHome = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="Folder with changed files of settings (fig1.toml, ...); what is not there keeps "
            "the values of the package."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Reproduce the paper's figures and its table, and write a page that compares them."""
    check_data_home(data_home)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file; --out must be a folder")

    from annealed.cli.reproducing import reproduce_and_print

    names = [experiment.value for experiment in experiments or Experiment]
    reproduce_and_print(out, names, quick=quick, data_home=data_home, settings=settings)
