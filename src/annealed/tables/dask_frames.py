"""Tables that lie in chunks: DataFrames of Dask, whose partitions are frames of pandas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.estimators.chunked_rows import Chunks, Drawn, answer, in_chunks, one_task
from annealed.tables.columns import short_list
from annealed.tables.files import rows_to_learn


def in_partitions(table: Any) -> bool:
    """Whether a table is a DataFrame of Dask, which is not imported to find out."""
    return in_chunks(table) and hasattr(table, "partitions") and hasattr(table, "columns")


class ChunkedTable(Chunks):
    """A DataFrame of Dask.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    """

    def __init__(self, frame: Any) -> None:
        from dask.base import tokenize

        blocks = list(frame.to_delayed())
        super().__init__(blocks, tokenize(frame), [math.nan] * len(blocks))
        # Dates and truth values are numbers to a model; what else there is, is a text.
        kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
        self.kinds = {
            str(name): "number" if kind in "biufmM" else "category"
            for name, kind in zip(frame.columns, kinds, strict=True)
        }

    def drawn(self, target: str | None, seed: int) -> Drawn:
        """Rows to learn from, the target among their columns."""
        columns = [name for name in self.kinds if name != target]
        labels: list[Any] = self.nothing()
        if target is not None:
            self.check_column(target)
            labels = self.tasks(target_of, "target", self.blocks, [target] * len(self.blocks))
        most = rows_to_learn(self.kinds, columns)
        return self.draw(most, lambda: np.random.default_rng(seed), labels, self.nothing())

    def check_column(self, name: str) -> None:
        """ValueError if there is none of this name."""
        if name not in self.kinds:
            raise ValueError(
                f"there is no column {name!r}; the columns are {short_list(self.kinds, 12)}"
            )

    def answers(self, model: Any, method: str) -> Any:
        """What a method of a `TabularModel` says of every row, as an array of Dask: lazily."""
        import dask.array as da

        inner = model.estimator_
        example = getattr(inner, method)(inner.codevectors_[:1])
        n = len(self.blocks)
        tasks = self.tasks(
            answer, method.replace("_", "-"), self.blocks, [one_task(model)] * n, [method] * n,
            [example[:0]] * n,
        )  # fmt: skip
        shape = (math.nan, *example.shape[1:])
        parts = [da.from_delayed(task, shape, meta=example[:0]) for task in tasks]
        return da.concatenate(parts, allow_unknown_chunksizes=True)


def target_of(part: Any, name: str) -> NDArray[Any]:
    """The target of the rows of a partition; ValueError where it is missing."""
    missing = int(part[name].isna().sum())
    if missing:
        raise ValueError(f"the target {name!r} is missing in {missing} of {len(part)} rows")
    labels: NDArray[Any] = part[name].to_numpy()
    return labels.astype(str) if labels.dtype == object else labels


def score_of(given: tuple[Any, str | None], part: Any) -> tuple[float, int]:
    """The score of the rows of a partition, times their number, and that."""
    model, target = given
    return len(part) * model.score(part, target), len(part)
