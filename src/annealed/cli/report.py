"""`annealed report`: a page that explores a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.options import Model, check_apart, check_seed, check_writable


@app.command()
@one_line_errors
def report(
    model: Model,
    data: Annotated[
        Path | None, typer.Option(help="Rows to show with the model (a sample of them).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Its title.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same sample of rows.")] = 0,
    debug: Debug = False,
) -> None:
    """Write an interactive page about a model: one file, no network needed to open it."""
    check_seed(seed)
    check_apart({"--out": out}, [model, data])
    check_writable(out)

    from annealed.cli.reporting import write_report
    from annealed.persistence import load
    from annealed.report import import_tools

    import_tools()  # say what is missing before any work is done
    fitted = load(model)
    if not fitted.__sklearn_is_fitted__():
        raise ValueError(f"{model} holds a model that has not learnt anything yet")
    write_report(fitted, data, out, title=title or (data or model).name, seed=seed)
    print(out)
