"""Learning from a stream of records: what `annealed stream` does between reading and printing."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.cli.application import in_options
from annealed.cli.line_files import (
    ANSWERS,
    FIGURES,
    Lines,
    answer_lines,
    figures_line,
    open_lines,
)
from annealed.cli.stream_state import StreamState
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.persistence import Checkpoint
from annealed.persistence.container import refuse
from annealed.tables.columns import CellError, is_missing, short_list
from annealed.tables.files import TableError
from annealed.tables.files.records import CSVFormat, Fingerprint, JSONFormat, Records, RowError
from annealed.tables.model import TabularModel, check_domain
from annealed.tables.targets import check_no_quantity, take_out

# Rows after which columns are known to be numbers or texts.
FIRST = 100
# Rows are predicted as they come, by the model as it stood at the last multiple of this many rows,
# and learnt when the next is reached: so what is predicted does not depend on how bytes arrive.
BLOCK, LATER_BLOCK, LATER = 100, 1000, 10_000
# They are learnt before that if they have as many bytes as this: a checkpoint must have room for
# rows that wait.
MOST_WAITING = 4 << 20
# Rows the recent figures are about.
RECENT = 1000
# Alarms whose times a line of figures has.
SHOWN_ALARMS = 10
# Parameters of the estimators that are options of the command, and cannot change on the way.
OPTIONS = {
    "random_state": "--seed", "divergence": "--divergence", "n_clusters": "--n-clusters",
    "drift_detector": "--drift",
}  # fmt: skip


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


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What was asked for.

    ``source``, ``checkpoint``, ``predictions`` and ``metrics`` are where to read and write ("-" is
    standard input and output), ``every`` the rows between checkpoints. With ``new_rows`` the
    source begins where the checkpoint ended. ``skip_bad`` leaves out rows that cannot be read
    instead of stopping. The last three say what is written: figures every so many rows (0:
    never; to ``metrics``, or printed without it), no summary, JSON.
    """

    source: str
    follow: bool
    checkpoint: Path | None
    every: int
    new_rows: bool
    predictions: str | None
    metrics: str | None
    target: str | None
    columns: Sequence[str]
    drop: Sequence[str]
    categorical: Sequence[str]
    n_clusters: str | int
    divergence: str
    drift: bool
    seed: int
    skip_bad: bool
    metrics_every: int
    quiet: bool
    as_json: bool

    @property
    def name(self) -> str:
        """What the source is called in messages."""
        return "standard input" if self.source == "-" else self.source


class AnsweredRows(NamedTuple):
    """Rows of a block: as they came, as a table, their labels, and as vectors for the model."""

    records: Records
    table: Any
    labels: NDArray[Any] | None
    vectors: NDArray[np.float64] | None


class Session:
    """A stream, the model it is learnt by, its answers and its checkpoint.

    It goes on from the checkpoint, if there is one.

    Parameters
    ----------
    options : StreamOptions
    checkpoint : Checkpoint or None
        Open, if there is to be one.
    """

    def __init__(self, options: StreamOptions, checkpoint: Checkpoint | None) -> None:
        self.options, self.checkpoint = options, checkpoint
        self.format: CSVFormat | JSONFormat | None = None  # how records are read
        self.model: TabularModel | None = None
        self.columns: list[str] = []
        self.kinds: dict[str, str] = {}
        self.consumed = 0  # records read and done with, the bad ones included
        self.begins = 0  # of them before the first of the source
        self.fingerprint = Fingerprint()  # of the others
        self.bad = 0
        self.figures = Figures()
        self.waiting: list[AnsweredRows] = []  # answered, but not learnt yet
        self.waiting_bytes = 0
        self.held = Records()  # until there are FIRST of them
        self.started = time.perf_counter()
        self.learnt = 0  # since it started
        self.path = options.checkpoint
        self.before = self._load()
        if self.before is not None:
            self._go_on_from(self.before)
        self.to_skip = self.consumed - self.begins  # rows of the source that have been learnt
        self.source_is_open = self.lines_are_open = False
        self.answers: Lines | None = None
        self.metrics: Lines | None = None
        before, row = self.before, self.consumed + 1
        if options.predictions is not None:
            written = None if before is None else before.answers
            self.answers = open_lines(options.predictions, ANSWERS, written, row, self.path)
        if options.metrics is not None:
            written = None if before is None else before.metrics
            self.metrics = open_lines(options.metrics, FIGURES, written, row, self.path)
        self.saved, self.saved_at = self._standing, self.consumed  # as the checkpoint has it

    @property
    def _lines(self) -> list[Lines]:
        """The files of answers and of figures there are."""
        return [lines for lines in (self.answers, self.metrics) if lines is not None]

    def close(self) -> None:
        """Be done with the files of answers and figures."""
        for lines in self._lines:
            lines.close()

    # -- going on ------------------------------------------------------------------------------

    def _load(self) -> StreamState | None:
        """Take the model from the checkpoint, if there is one, and say where it stands."""
        found = None if self.checkpoint is None else self.checkpoint.load()
        if found is None or self.path is None:
            return None
        self.model, extra = found
        state = StreamState.of(extra, self.path)
        if not isinstance(self.model, TabularModel):
            refuse(self.path, "it is of a stream, but its model does not learn from tables")
        return state

    def _go_on_from(self, state: StreamState) -> None:
        assert self.path is not None and self.model is not None
        if state.target != self.options.target:
            made = f"with --target {state.target}" if state.target else "without --target"
            raise ValueError(
                f"{self.path} was made {made}; do the same, or give another --checkpoint"
            )
        self._check_options(self.path, self.model.estimator)
        self.format, self.columns, self.kinds = state.format, state.columns, state.kinds
        self.consumed, self.bad = state.consumed, state.bad
        self.begins = state.consumed if self.options.new_rows else state.begins
        self.figures = Figures(state.scored, state.mean, state.recent)
        records = state.pending_records(self.path)
        if len(records):
            try:
                self._wait(self._read(records))
            except (RowError, CellError, TableError):
                refuse(self.path, "rows that wait do not fit its columns")

    def _check_options(self, path: Path, old: Any) -> None:
        """ValueError if the model in the checkpoint was made with other options."""
        new = self._new_model().estimator
        if type(new) is not type(old):
            refuse(path, "its model does not fit its target")
        for parameter, option in OPTIONS.items():
            was, asked = (each.get_params(deep=False).get(parameter) for each in (old, new))
            if was != asked:
                words = " and not ".join(_in_words(option, value) for value in (was, asked))
                raise ValueError(
                    f"{path} was made {words}; do the same, or give another --checkpoint"
                )

    def open_source(self, rows: CSVFormat | JSONFormat) -> None:
        """The source begins, or a file that has taken its place; how its records are read."""
        if self.source_is_open:
            self._take_over(rows)
            return
        self.source_is_open = True
        if self.before is not None:
            if rows != self.format and not self.options.new_rows:
                raise self._other_source(f"{self.options.name} has other columns than {self.path}")
            self._check_columns(rows.names)
            wanted = self._wanted(rows.names or self.columns)
            asked = self.options.columns or self.options.drop
            if asked and set(wanted) != set(self.columns):
                raise ValueError(
                    f"{self.path} was made with the columns {short_list(self.columns, 12)}, and "
                    "--columns and --drop say otherwise; leave them out, or give another "
                    "--checkpoint"
                )
            if rows != self.format:
                self.settle()  # rows that wait are kept as they came, and must be read alike
        self.format = rows

    def _take_over(self, rows: CSVFormat | JSONFormat) -> None:
        """Go on with a new file, or with one that was cut short and begins anew."""
        self._check_all_skipped()
        if rows != self.format:
            self.save()
            raise ValueError(
                f"{self.options.name} was replaced by a file with other columns after row "
                f"{self.consumed + len(self.held)}"
            )
        self.begins, self.fingerprint = self.consumed + len(self.held), Fingerprint()
        self.save()  # the rows before cannot be found under this name any more

    def _skip(self, records: Records) -> Records:
        """Those after what has been learnt, which must be what the checkpoint says."""
        gone = min(self.to_skip, len(records))
        self.to_skip -= gone
        self.fingerprint.update(records.first(gone))
        if not self.to_skip and self.before and self.before.fingerprint != self.fingerprint.text:
            last = self.consumed - self.begins
            raise self._other_source(
                f"rows 1 to {last} of {self.options.name} are not those that {self.path} has learnt"
            )
        return records.after(gone)

    def _check_all_skipped(self) -> None:
        if self.to_skip:
            learnt = self.consumed - self.begins
            raise self._other_source(
                f"{self.options.name} has {learnt - self.to_skip} rows, but {self.path} has learnt "
                f"{learnt} of it"
            )

    def _other_source(self, problem: str) -> ValueError:
        return ValueError(
            f"{problem}: is this another source, or was the file replaced or changed? If it begins "
            f"where that one ended, add --new-rows; otherwise give another --checkpoint, or remove "
            f"{self.path} to begin anew"
        )

    @property
    def _standing(self) -> tuple[int | None, ...]:
        """What changes whenever there is something to save."""
        told = None if self.metrics is None else self.metrics.last_row
        return self.consumed, self.begins, self.waiting_bytes, told

    def save(self) -> None:
        """Write the checkpoint, unless it is up to date."""
        if self.checkpoint is None or self.model is None or self.format is None:
            return
        if self.saved == self._standing or self.to_skip:
            return
        # Answers and figures are on the disk before a checkpoint that says so.
        answers = None if self.answers is None else self.answers.settle()
        metrics = None if self.metrics is None else self.metrics.settle()
        csv = self.format if isinstance(self.format, CSVFormat) else None
        figures = self.figures
        state = StreamState(
            consumed=self.consumed, bad=self.bad, target=self.options.target, columns=self.columns,
            kinds=self.kinds, scored=figures.rows, mean=figures.mean, recent=figures.recent,
            delimiter=None if csv is None else csv.delimiter,
            names=[] if csv is None else csv.names,
            begins=self.begins, fingerprint=self.fingerprint.text,
            pending=base64.b64encode(b"".join(rows.records.text for rows in self.waiting)).decode(),
            answers_size=None if answers is None else answers.size,
            answers_digest=None if answers is None else answers.digest,
            metrics_size=None if metrics is None else metrics.size,
            metrics_digest=None if metrics is None else metrics.digest,
        )  # fmt: skip
        self.checkpoint.save(self.model, **state.to_plain())
        self.saved, self.saved_at = self._standing, self.consumed

    # -- rows ----------------------------------------------------------------------------------

    def take(self, records: Records) -> None:
        """Answer and learn records; the first few wait until it is clear what columns are."""
        if self.to_skip:
            records = self._skip(records)
            if self.to_skip:
                return
        self._open_lines()
        if not self.columns:
            self.held += records
            if len(self.held) < FIRST:
                return
            records, self.held = self.held, Records()
            self._begin(records)
        while len(records):
            step = BLOCK if self.consumed < LATER else LATER_BLOCK
            here = records.first(step - self.consumed % step)
            here = here.reaching(MOST_WAITING - self.waiting_bytes)
            self._answer_block(here)
            records = records.after(len(here))
            if self.consumed % step == 0 or self.waiting_bytes >= MOST_WAITING:
                self.settle()
                if self.consumed % step == 0:
                    self._write_metrics_of(step)
                if self.consumed - self.saved_at >= self.options.every:
                    self.save()

    def _open_lines(self) -> None:
        """From here on rows are answered: nothing is refused any more."""
        if not self.lines_are_open:
            for lines in self._lines:
                lines.begin()
            self.lines_are_open = True

    def _write_metrics_of(self, block: int) -> None:
        """A block has been learnt: write a line of figures, if it was to come within these rows.

        Whether that is so, and what it says, depends on rows alone.
        """
        every = self.options.metrics_every
        if every and self.consumed // every > (self.consumed - block) // every:
            self._write_metrics()

    def _write_metrics(self) -> None:
        """Write a line of figures, unless the last one is of the same rows."""
        if self.metrics is None or self.model is None or self.metrics.last_row == self.consumed:
            return
        self.metrics.write(figures_line(self.figures_now()))
        self.metrics.last_row = self.consumed

    def finish(self) -> None:
        """The end of the stream: learn what waits, and write the last checkpoint."""
        self._check_all_skipped()
        self._open_lines()
        if len(self.held):
            records, self.held = self.held, Records()
            self._begin(records)
            self._answer_block(records)
        self.settle()
        self._write_metrics()
        self.save()

    def settle(self) -> None:
        """Learn the rows that have been answered."""
        if not self.waiting:
            return
        table, labels = self.waiting[0].table, self.waiting[0].labels
        if len(self.waiting) > 1:
            # A block is learnt in one go however it came: so a model that keeps the answers to
            # rows, as one that is choosing its level does, keeps them in the same pieces.
            table, labels = self._table(Records.joined([rows.records for rows in self.waiting]))
        if self.model is None:
            self.model = self._new_model()
        self.model.partial_fit(table, labels)
        self.learnt += len(table)
        self.waiting, self.waiting_bytes = [], 0

    def _wait(self, rows: AnsweredRows) -> None:
        self.waiting.append(rows)
        self.waiting_bytes += len(rows.records.text)

    def _begin(self, records: Records) -> None:
        """Decide by the first rows what columns there are and what they are."""
        assert self.format is not None
        first = self._readable(records.first(FIRST))
        try:
            names = list(self.format.names) or _names_in(self.format.table(first, (), {}))
        except RowError as error:
            raise self._located(error) from None
        self.columns = self._wanted(names)
        self._check_columns(names)
        if not self.columns:
            raise ValueError(f"{self.options.name}: there is no column to learn from")
        try:
            self.kinds = self.format.kinds(first, self.columns)
            codes = [name for name in self.columns if name in self.options.categorical]
            self.kinds |= dict.fromkeys(codes, "category")
            self._check_target(first)
        except (RowError, CellError) as error:
            raise self._located(error) from None

    def _readable(self, records: Records) -> Records:
        """The records, or, if bad rows are to be left out, those that can be read."""
        if not self.options.skip_bad:
            return records
        assert self.format is not None
        kept = Records()
        for k in range(len(records)):
            one = records.after(k).first(1)
            try:
                self.format.kinds(
                    one, self.format.names or _names_in(self.format.table(one, (), {}))
                )
            except (RowError, CellError):
                continue
            kept += one
        if not len(kept):
            count = f"{'first ' * (len(records) == FIRST)}{len(records)}"
            raise ValueError(f"{self.options.name}: none of its {count} rows can be read")
        return kept

    def _wanted(self, names: Sequence[str]) -> list[str]:
        """The columns to learn from, of those there are."""
        left_out = {*self.options.drop, self.options.target}
        return [name for name in self.options.columns or names if name not in left_out]

    def _check_target(self, records: Records) -> None:
        """ValueError if the target looks like a quantity, by the first rows."""
        target = self.options.target
        if target is None or target in self.options.categorical:
            return
        assert self.format is not None
        table = self.format.table(records, [target], {})
        cells = [cell for cell in take_out(table, target)[1].tolist() if not is_missing(cell)]
        if self.format.typed and any(isinstance(cell, str) for cell in cells):
            return
        try:
            check_no_quantity(cells, target, decimal=self.format.decimal)
        except ValueError as error:
            raise ValueError(f"{self.options.name}: {error}") from None

    def _check_columns(self, names: Sequence[str]) -> None:
        if not names:
            return
        wanted = [*self.columns, *([] if self.options.target is None else [self.options.target])]
        for name in (*wanted, *self.options.drop, *self.options.categorical):
            if name not in names:
                raise ValueError(
                    f"{self.options.name} has no column {name!r}; its columns are "
                    f"{short_list(names, 12)}"
                )

    def _answer_block(self, records: Records) -> None:
        """Answer rows within one block; they wait to be learnt."""
        try:
            rows = self._read(records)
        except (RowError, CellError, TableError) as error:
            if not self.options.skip_bad:
                raise self._located(error) from None
            if len(records) == 1:
                self.bad += 1
                self._count(records)
                return
            half = len(records) // 2
            self._answer_block(records.first(half))
            self._answer_block(records.after(half))
            return
        self._answer(rows)
        self._wait(rows)
        self._count(records)

    def _count(self, records: Records) -> None:
        """Be done with records. The first may be of a file that the source took the place of."""
        older = min(max(self.begins - self.consumed, 0), len(records))
        self.fingerprint.update(records.after(older))
        self.consumed += len(records)

    def _table(self, records: Records) -> tuple[Any, NDArray[Any] | None]:
        """Rows as a table, and their labels, none of which may be missing."""
        assert self.format is not None
        target = self.options.target
        wanted = [*self.columns, *([] if target is None else [target])]
        table = self.format.table(records, wanted, self.kinds)
        if target is None:
            return table, None
        table, labels = take_out(table, target)
        missing = [k for k, label in enumerate(labels.tolist()) if label is None or label != label]
        if missing:
            raise CellError("the target is missing", target, missing[0])
        return table, labels

    def _read(self, records: Records) -> AnsweredRows:
        """The rows, every cell of which can be learnt."""
        table, labels = self._table(records)
        try:
            if self.model is None:
                self._new_model().partial_fit(table, labels)  # nothing is kept: can it be learnt?
                return AnsweredRows(records, table, labels, None)
            vectors = self.model.preprocessor_.transform(table)
            check_domain(self.model.estimator_, vectors, self.model.preprocessor_)
        except CellError:
            raise
        except ValueError as error:
            raise TableError(in_options(str(error))) from None
        return AnsweredRows(records, table, labels, vectors)

    def _answer(self, rows: AnsweredRows) -> None:
        n = len(rows.table)
        if self.model is None or rows.vectors is None:
            if self.answers is not None:
                self.answers.write(answer_lines(self.consumed + 1, [None] * n, [None] * n))
            return
        inner, Z = self.model.estimator_, rows.vectors
        if rows.labels is None:
            self.figures.add(-inner.transform(Z).min(axis=1))
            if self.answers is None:
                return
        shares = inner.predict_proba(Z)
        best = shares.argmax(axis=1)
        answers = (best if rows.labels is None else inner.classes_[best]).tolist()
        if rows.labels is not None:
            pairs = zip(answers, rows.labels.tolist(), strict=True)
            self.figures.add(np.array([mine == own for mine, own in pairs], dtype=float))
        if self.answers is not None:
            likeliest = shares.max(axis=1).tolist()
            self.answers.write(answer_lines(self.consumed + 1, answers, likeliest))

    def _new_model(self) -> TabularModel:
        options = self.options
        drift = "auto" if options.drift else None
        estimator: ODAClassifier | ODAClustering
        if options.target is None:
            estimator = ODAClustering(
                options.n_clusters, divergence=options.divergence, drift_detector=drift,
                random_state=options.seed,
            )  # fmt: skip
        else:
            estimator = ODAClassifier(
                divergence=options.divergence, drift_detector=drift, random_state=options.seed
            )
        standardize = options.divergence == "squared_euclidean"
        return TabularModel(estimator, standardize=standardize, kinds=self.kinds)

    # -- messages ------------------------------------------------------------------------------

    def _located(self, error: Exception) -> TableError:
        if isinstance(error, CellError):
            return self._at_row(error.row, error.column, error.problem)
        if isinstance(error, RowError):
            return self._at_row(error.at, None, error.problem)
        place = (
            f"{self.options.name}, after {self._row(-1)}" if self.consumed else self.options.name
        )
        return TableError(f"{place}: {error}")

    def _at_row(self, at: int, column: str | None, problem: str) -> TableError:
        place = f"{self.options.name}, {self._row(at)}"
        if column is not None:
            place += f", column {column!r}"
        return TableError(f"{place}: {problem} (--skip-bad-rows leaves out such rows)")

    def _row(self, at: int) -> str:
        """The row at a place from here on, as people count, in the source and in the stream."""
        row = self.consumed + at + 1
        if 0 < self.begins < row:
            return f"row {row - self.begins} (row {row} of the stream)"
        return f"row {row}"

    def summary(self) -> dict[str, Any]:
        """How far it has come, in plain values."""
        seconds = time.perf_counter() - self.started
        return self.figures_now() | {
            "seconds": round(seconds, 3),
            "rows_per_second": round(self.learnt / seconds) if seconds > 0 else None,
        }

    def figures_now(self) -> dict[str, Any]:
        """The same without the clock: what rows alone decide."""
        name = "accuracy" if self.options.target is not None else "score"
        mean, recent = (
            (self.figures.mean, self.figures.recent) if self.figures.rows else (None, None)
        )
        figures = {
            "rows": self.consumed, "bad_rows": self.bad, name: mean, f"recent_{name}": recent,
        }  # fmt: skip
        if self.model is None:
            return figures
        inner = self.model.estimator_
        figures |= {
            "codevectors": len(inner.codevectors_),
            "temperature": float(inner.temperature_),
            "alarms": inner.n_alarms_,
            "latest_alarms": inner.alarms_[-SHOWN_ALARMS:].tolist(),
        }
        if self.options.target is None:
            return figures | {"clusters": int(inner.n_clusters_)}
        who, since = inner.answering_
        return figures | {
            "classes": len(inner.classes_), "answering": who, "answering_since": since,
        }  # fmt: skip


def _in_words(option: str, value: Any) -> str:
    if option == "--drift":
        return f"with{'' if value else 'out'} {option}"
    return f"with {option} {value}"


def _names_in(rows: Sequence[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return list(names)
