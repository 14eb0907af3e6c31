"""A page about a model and a sample of the rows in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from annealed.cli.model_inputs import columns_to_read, matrix_of, open_data
from annealed.report import explore
from annealed.report.gather import MOST_ROWS
from annealed.tables import TabularModel
from annealed.tables.files import Survey, TableError, draw, rows_drawn


def write_page(fitted: Any, data: Path | None, out: Path, *, title: str, seed: int) -> None:
    """The page about a fitted model and, if given, a sample of the rows in a file."""
    if not hasattr(fitted, "path_"):
        raise ValueError(
            f"this {type(fitted).__name__} has no annealing path to show; annealed report is for "
            "models made by annealing"
        )
    rows, total, numbers = None, None, None
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
        table = draw(file, columns, Survey(total, kinds), most=MOST_ROWS, seed=seed)
        rows = table if isinstance(fitted, TabularModel) else matrix_of(table)
        # As `annealed predict` and `annealed stream` count them: from 1.
        numbers = (rows_drawn(total, MOST_ROWS, seed) + 1).tolist()
        total = total if total > len(table) else None
    page = explore(fitted, rows, title=title, n_rows=total, row_numbers=numbers, seed=seed)
    page.save(out)
