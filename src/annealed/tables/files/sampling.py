"""Rows of a file drawn at random, so that a file of any size fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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

    chosen = None
    if survey.rows > most:
        chosen = np.sort(np.random.default_rng(seed).choice(survey.rows, most, replace=False))
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
