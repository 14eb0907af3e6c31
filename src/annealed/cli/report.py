"""`annealed report`: a page that explores a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.files import check_apart, check_seed, check_writable, open_data
from annealed.cli.predict import Model, columns_to_read, matrix_of
from annealed.persistence import load
from annealed.report import explore, import_tools
from annealed.tables import TabularModel
from annealed.tables.files import TableError, draw

# The page shows at most so many rows.
SHOWN_ROWS = 5000


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
    import_tools()  # say it before any work is done
    check_seed(seed)
    check_apart({"--out": out}, [model, data])
    check_writable(out)
    fitted = load(model)
    if not fitted.__sklearn_is_fitted__():
        raise ValueError(f"{model} holds a model that has not learnt anything yet")
    write_report(fitted, data, out, title=title or (data or model).name, seed=seed)
    print(out)


def write_report(fitted: Any, data: Path | None, out: Path, *, title: str, seed: int) -> None:
    """The page about a fitted model and, if given, a sample of the rows in a file."""
    if not hasattr(fitted, "path_"):
        raise ValueError(
            f"this {type(fitted).__name__} has no annealing path to show; annealed report is for "
            "models made by annealing"
        )
    rows, total = None, None
    if data is not None:
        file = open_data(data)
        columns, kinds = columns_to_read(fitted, file)
        target = getattr(fitted, "target_name_", None)
        if target in file.names:
            columns = [*columns, target]
        first = columns[:1]
        total = sum(table.num_rows for _, table in file.batches(first, {}))
        if not total:
            raise TableError(f"{data} has names of columns, but no rows")
        table = draw(file, columns, kinds, total, SHOWN_ROWS, seed)
        rows = table if isinstance(fitted, TabularModel) else matrix_of(table)
        total = total if total > len(table) else None
    explore(fitted, rows, title=title, n_rows=total, seed=seed).save(out)
