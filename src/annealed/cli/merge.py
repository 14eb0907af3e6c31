"""`annealed merge`: one model of several, each learnt from its own part of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import check_apart, check_writable


@app.command()
@one_line_errors
def merge(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="Models written by annealed fit or annealed stream, two or more. The parameters "
            "of the first are kept.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write, for example all.oda.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Merge models of the same columns, each learnt from a stream or a file of its own, into one.

    Models are small whatever they were learnt from: learn where the rows are, a stream for each
    worker, and merge what comes out.
    """
    if len(models) < 2:
        raise ValueError("give two or more models to merge")
    check_apart({"--out": out}, models)
    check_writable(out)

    from annealed.cli.merging import merge_files, print_merged

    print_merged(merge_files(models, out), as_json=as_json)
