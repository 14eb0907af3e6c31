"""Learning from a stream of records: what `annealed stream` does between reading and printing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.cli.application import in_options
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.persistence import Checkpoint
from annealed.tables.columns import CellError, is_missing, short_list
from annealed.tables.files import TableError
from annealed.tables.files.records import CSVRows, JSONRows, Records, RowError
from annealed.tables.model import TabularModel, check_domain
from annealed.tables.targets import check_no_quantity, take_out

# Rows after which columns are known to be numbers or texts.
FIRST = 100
# Rows are predicted as they come, by the model as it stood at the last multiple of this many rows,
# and learnt when the next is reached: so what is predicted does not depend on how bytes arrive.
BLOCK, LATER_BLOCK, LATER = 100, 1000, 10_000
# Rows the recent figures are about.
RECENT = 1000


@dataclass
class Figures:
    """Test-then-train: how rows fared before they were learnt."""

    rows: int = 0
    mean: float = 0.0  # over all rows
    recent: float = 0.0  # over the last ones, older ones fading

    def add(self, marks: NDArray[Any]) -> None:
        """One number for each row: right or not, or minus the distortion."""
        for mark in marks.tolist():  # one by one, so that how rows came cannot be seen
            self.rows += 1
            self.mean += (mark - self.mean) / self.rows
            self.recent += (mark - self.recent) / min(self.rows, RECENT)


@dataclass(frozen=True)
class Wish:
    """What was asked for.

    ``name`` is what the source is called in messages, ``skip_bad`` leaves out rows that cannot be
    read instead of stopping.
    """

    name: str
    target: str | None
    columns: Sequence[str]
    drop: Sequence[str]
    categorical: Sequence[str]
    n_clusters: str | int
    divergence: str
    drift: bool
    seed: int
    skip_bad: bool


class Rows(NamedTuple):
    """Rows of a block: as a table, their labels, and as vectors for the model as it stands."""

    table: Any
    labels: NDArray[Any] | None
    vectors: NDArray[np.float64] | None


class Session:
    """A stream, the model it is learnt by, and its checkpoint.

    Parameters
    ----------
    wish : Wish
    rows : CSVRows or JSONRows
        How records are read.
    checkpoint : Checkpoint or None
    every : int
        Rows between checkpoints.
    answer : callable or None
        Handed predictions and their probabilities, in the order of the rows; None before there is
        a model.
    """

    def __init__(
        self,
        wish: Wish,
        rows: CSVRows | JSONRows,
        checkpoint: Checkpoint | None,
        every: int,
        answer: Callable[[Sequence[Any], Sequence[float | None]], None] | None,
    ) -> None:
        self.wish, self.rows, self.checkpoint, self.every = wish, rows, checkpoint, every
        self.answer = answer
        self.model: TabularModel | None = None
        self.columns: list[str] = []
        self.kinds: dict[str, str] = {}
        self.consumed = 0  # records read and done with, the bad ones included
        self.saved = 0  # of them in the checkpoint
        self.bad = 0
        self.figures = Figures()
        self.waiting: list[Rows] = []  # answered, but not learnt yet
        self.held = Records()  # until there are FIRST of them
        self.started = time.perf_counter()
        self.learnt = 0  # since it started

    # -- going on ------------------------------------------------------------------------------

    def resume(self) -> int:
        """Go on from the checkpoint, if there is one; records to skip."""
        found = None if self.checkpoint is None else self.checkpoint.load()
        if found is None:
            return 0
        self.model, extra = found
        known = extra.get("stream")
        if not isinstance(known, dict) or not isinstance(self.model, TabularModel):
            raise ValueError(
                f"{self.checkpoint.path if self.checkpoint else ''} is a model, but no checkpoint "
                "of a stream: give another --checkpoint"
            )
        if known["target"] != self.wish.target:
            made = f"with --target {known['target']}" if known["target"] else "without --target"
            raise ValueError(f"the checkpoint was made {made}; do the same, or give another")
        self.columns, self.kinds = list(known["columns"]), dict(known["kinds"])
        self.consumed = self.saved = int(extra["consumed"])
        self.bad = int(known["bad"])
        self.figures = Figures(known["rows"], known["mean"], known["recent"])
        self._check_columns()
        if self.rows.names and set(self._wanted(self.rows.names)) != set(self.columns):
            asked = self.wish.columns or self.wish.drop
            if asked:
                raise ValueError(
                    f"the checkpoint was made with the columns {short_list(self.columns, 12)}, and "
                    "--columns and --drop say otherwise; leave them out, or give another checkpoint"
                )
        return self.consumed

    def save(self) -> None:
        """Write the checkpoint, unless it is up to date."""
        if self.checkpoint is None or self.model is None or self.saved == self.consumed:
            return
        figures = self.figures
        self.checkpoint.save(
            self.model,
            consumed=self.consumed,
            stream={
                "target": self.wish.target, "columns": self.columns, "kinds": self.kinds,
                "bad": self.bad, "rows": figures.rows, "mean": figures.mean,
                "recent": figures.recent,
            },
        )  # fmt: skip
        self.saved = self.consumed

    # -- rows ----------------------------------------------------------------------------------

    def take(self, records: Records) -> None:
        """Answer and learn records; the first few wait until it is clear what columns are."""
        if not self.columns:
            self.held += records
            if len(self.held) < FIRST:
                return
            records, self.held = self.held, Records()
            self._begin(records)
        while len(records):
            step = BLOCK if self.consumed < LATER else LATER_BLOCK
            here = step - self.consumed % step
            self._some(records.first(here))
            records = records.after(here)
            if self.consumed % step == 0:
                self.settle()
                if self.consumed - self.saved >= self.every:
                    self.save()

    def finish(self) -> None:
        """The end of the stream: learn what waits, and write the last checkpoint."""
        if len(self.held):
            records, self.held = self.held, Records()
            self._begin(records)
            self._some(records)
        self.settle()
        self.save()

    def settle(self) -> None:
        """Learn the rows that have been answered."""
        for rows in self.waiting:
            if self.model is None:
                self.model = self._new_model()
            self.model.partial_fit(rows.table, rows.labels)
            self.learnt += len(rows.table)
        self.waiting = []

    def _begin(self, records: Records) -> None:
        """Decide by the first rows what columns there are and what they are."""
        first = self._readable(records.first(FIRST))
        try:
            names = list(self.rows.names) or _names_in(self.rows.table(first, (), {}))
        except RowError as error:
            raise self._of(error) from None
        self.columns = self._wanted(names)
        self._check_columns(names)
        if not self.columns:
            raise ValueError(f"{self.wish.name}: there is no column to learn from")
        try:
            self.kinds = self.rows.kinds(first, self.columns)
            codes = [name for name in self.columns if name in self.wish.categorical]
            self.kinds |= dict.fromkeys(codes, "category")
            self._check_target(first)
        except (RowError, CellError) as error:
            raise self._of(error) from None

    def _readable(self, records: Records) -> Records:
        """The records, or, if bad rows are to be left out, those that can be read."""
        if not self.wish.skip_bad:
            return records
        kept = Records()
        for k in range(len(records)):
            one = records.after(k).first(1)
            try:
                self.rows.kinds(one, self.rows.names or _names_in(self.rows.table(one, (), {})))
            except (RowError, CellError):
                continue
            kept += one
        if not len(kept):
            count = f"{'first ' * (len(records) == FIRST)}{len(records)}"
            raise ValueError(f"{self.wish.name}: none of its {count} rows can be read")
        return kept

    def _wanted(self, names: Sequence[str]) -> list[str]:
        """The columns to learn from, of those there are."""
        left_out = {*self.wish.drop, self.wish.target}
        return [name for name in self.wish.columns or names if name not in left_out]

    def _check_target(self, records: Records) -> None:
        """ValueError if the target looks like a quantity, by the first rows."""
        target = self.wish.target
        if target is None or target in self.wish.categorical:
            return
        table = self.rows.table(records, [target], {})
        cells = [cell for cell in take_out(table, target)[1].tolist() if not is_missing(cell)]
        if self.rows.typed and any(isinstance(cell, str) for cell in cells):
            return
        try:
            check_no_quantity(cells, target, decimal=self.rows.decimal)
        except ValueError as error:
            raise ValueError(f"{self.wish.name}: {error}") from None

    def _check_columns(self, names: Sequence[str] | None = None) -> None:
        names = names or self.rows.names
        if not names:
            return
        wanted = [*self.columns, *([] if self.wish.target is None else [self.wish.target])]
        for name in (*wanted, *self.wish.drop, *self.wish.categorical):
            if name not in names:
                raise ValueError(
                    f"{self.wish.name} has no column {name!r}; its columns are "
                    f"{short_list(names, 12)}"
                )

    def _some(self, records: Records) -> None:
        """Answer rows within one block; they wait to be learnt."""
        try:
            rows = self._read(records)
        except (RowError, CellError, TableError) as error:
            if not self.wish.skip_bad:
                raise self._of(error) from None
            if len(records) == 1:
                self.bad += 1
                self.consumed += 1
                return
            half = len(records) // 2
            self._some(records.first(half))
            self._some(records.after(half))
            return
        self._answer(rows)
        self.waiting.append(rows)
        self.consumed += len(records)

    def _read(self, records: Records) -> Rows:
        """The rows, every cell of which can be learnt."""
        target = self.wish.target
        wanted = [*self.columns, *([] if target is None else [target])]
        table, labels = self.rows.table(records, wanted, self.kinds), None
        if target is not None:
            table, labels = take_out(table, target)
            missing = [
                k for k, label in enumerate(labels.tolist()) if label is None or label != label
            ]
            if missing:
                raise CellError("the target is missing", target, missing[0])
        try:
            if self.model is None:
                self._new_model().partial_fit(table, labels)  # nothing is kept: can it be learnt?
                return Rows(table, labels, None)
            vectors = self.model.preprocessor_.transform(table)
            check_domain(self.model.estimator_, vectors, self.model.preprocessor_)
        except CellError:
            raise
        except ValueError as error:
            raise TableError(in_options(str(error))) from None
        return Rows(table, labels, vectors)

    def _answer(self, rows: Rows) -> None:
        n = len(rows.table)
        if self.model is None or rows.vectors is None:
            if self.answer is not None:
                self.answer([None] * n, [None] * n)
            return
        inner, Z = self.model.estimator_, rows.vectors
        if rows.labels is None:
            self.figures.add(-inner.transform(Z).min(axis=1))
            if self.answer is None:
                return
        shares = inner.predict_proba(Z)
        best = shares.argmax(axis=1)
        answers = (best if rows.labels is None else inner.classes_[best]).tolist()
        if rows.labels is not None:
            pairs = zip(answers, rows.labels.tolist(), strict=True)
            self.figures.add(np.array([mine == own for mine, own in pairs], dtype=float))
        if self.answer is not None:
            self.answer(answers, shares.max(axis=1).tolist())

    def _new_model(self) -> TabularModel:
        wish = self.wish
        drift = "auto" if wish.drift else None
        estimator: ODAClassifier | ODAClustering
        if wish.target is None:
            estimator = ODAClustering(
                wish.n_clusters, divergence=wish.divergence, drift_detector=drift,
                random_state=wish.seed,
            )  # fmt: skip
        else:
            estimator = ODAClassifier(
                divergence=wish.divergence, drift_detector=drift, random_state=wish.seed
            )
        standardize = wish.divergence == "squared_euclidean"
        return TabularModel(estimator, standardize=standardize, kinds=self.kinds)

    # -- messages ------------------------------------------------------------------------------

    def _of(self, error: Exception) -> TableError:
        if isinstance(error, CellError):
            return self._located(error.row, error.column, error.problem)
        if isinstance(error, RowError):
            return self._located(error.at, None, error.problem)
        place = f"{self.wish.name}, after row {self.consumed}" if self.consumed else self.wish.name
        return TableError(f"{place}: {error}")

    def _located(self, at: int, column: str | None, problem: str) -> TableError:
        place = f"{self.wish.name}, row {self.consumed + at + 1}"
        if column is not None:
            place += f", column {column!r}"
        return TableError(f"{place}: {problem} (--skip-bad-rows leaves out such rows)")

    def summary(self) -> dict[str, Any]:
        """How far it has come, in plain values."""
        seconds = time.perf_counter() - self.started
        model = self.model
        summary: dict[str, Any] = {
            "rows": self.consumed,
            "bad_rows": self.bad,
            "seconds": round(seconds, 3),
            "rows_per_second": round(self.learnt / seconds) if seconds > 0 else None,
        }
        if model is not None:
            inner = model.estimator_
            summary |= {
                "codevectors": len(inner.codevectors_),
                "temperature": float(inner.temperature_),
            }
        name = "accuracy" if self.wish.target is not None else "score"
        mean, recent = (
            (self.figures.mean, self.figures.recent) if self.figures.rows else (None, None)
        )
        return summary | {name: mean, f"recent_{name}": recent}


def _names_in(rows: Sequence[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)
