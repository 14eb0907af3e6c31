"""Rows of a file drawn at random, so that a file of any size fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.tables.files.table_file import Survey, TableFile


def draw(
    file: TableFile,
    columns: Sequence[str],
    survey: Survey,
    *,
    most: int,
    seed: int,
    progress: Callable[[int], None] = lambda rows: None,
) -> Any:
    """A pyarrow Table of all rows, or of ``most`` drawn without replacement, in their order.

    Parameters
    ----------
    file : TableFile
    columns : sequence of str
    survey : Survey
        How many rows the file has, and what columns are to be brought to.
    most : int
    seed : int
    progress : callable
        Told how many rows were read.
    """
    import pyarrow as pa

    chosen = rows_drawn(survey.rows, most, seed) if survey.rows > most else None
    parts = []
    for first, table in file.batches(columns, survey.kinds):
        if chosen is None:
            parts.append(table)
        else:
            low, high = np.searchsorted(chosen, [first, first + table.num_rows])
            if low < high:
                parts.append(table.take(pa.array(chosen[low:high] - first)))
        progress(first + table.num_rows)
    return pa.Table.from_batches(parts)


def rows_drawn(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """Which rows `draw` takes, by their places in the file."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
