"""`annealed predict`: the answers of a model for the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.options import Data, Model, Names, check_apart, check_writable, names_in_option


@app.command()
@one_line_errors
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, .csv or .parquet (default: CSV on standard output)."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Probabilities of every class or cluster too.")
    ] = False,
    keep: Annotated[
        Names,
        typer.Option(
            metavar="A,B,C", help="Columns of the data to repeat beside the answers, as they are."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Predict the class or cluster of every row, in the order of the rows."""
    if out is not None:
        _check_out(out, data)
        check_apart({"--out": out}, [model])

    from annealed.cli.predicting import predict_file

    rows = predict_file(model, data, out, proba=proba, keep=names_in_option(keep))
    if out is not None:
        print(f"{rows:,} rows: {out}")


def _check_out(out: Path, data: Path) -> None:
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet, not {out.name!r}")
    if out.exists() and data.exists() and out.samefile(data):
        raise ValueError(f"--out names the data itself, {data}; give another file")
    if data.is_dir() and data.resolve() in out.resolve().parents:
        raise ValueError(
            f"--out lies in {data}, where it would be read as data; give another folder"
        )
    check_writable(out)
