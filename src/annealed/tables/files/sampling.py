"""Rows of a file drawn at random, so that a file of any size fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.rows import MOST_CELLS_DRAWN, MOST_DRAWN
from annealed.tables.files.table_file import Survey, TableFile

# A larger table is sampled: what is learnt from more rows hardly differs, and memory stays bounded.
MOST_ROWS, MOST_CELLS = MOST_DRAWN, MOST_CELLS_DRAWN
# Indicators a column of texts is counted as, for that.
CELLS_OF_A_TEXT = 10


def rows_to_learn(kinds: Mapping[str, str], columns: Sequence[str], most: int = MOST_ROWS) -> int:
    """How many rows of these columns to learn from at most."""
    width = sum(CELLS_OF_A_TEXT if kinds[name] == "category" else 1 for name in columns)
    return min(most, max(MOST_CELLS // width, 1000))


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
    for first, table in file.batches(columns, survey.kinds, chosen):
        if chosen is None:
            parts.append(table)
        else:
            low, high = np.searchsorted(chosen, [first, first + table.num_rows])
            parts.append(table.take(pa.array(chosen[low:high] - first)))
        progress(first + table.num_rows)
    return pa.Table.from_batches(parts)


def rows_drawn(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """Which rows `draw` takes, by their places in the file."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
