"""`annealed report`: a page that explores a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.options import Model, Seed, check_apart, check_writable


@app.command()
@one_line_errors
def report(
    model: Model,
    data: Annotated[
        Path | None, typer.Option(help="Rows to show with the model (a sample of them).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Its title.")] = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Write an interactive page about a model: one file, no network needed to open it."""
    check_apart({"--out": out}, [model, data])
    check_writable(out)

    from annealed.cli.model_inputs import load_fitted
    from annealed.cli.model_page import write_page
    from annealed.report import import_tools

    import_tools()  # say what is missing before any work is done
    fitted = load_fitted(model)
    write_page(fitted, data, out, title=title or (data or model).name, seed=seed)
    print(out)
