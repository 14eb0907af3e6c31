"""`annealed stream`: learn from records as they come."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import signal
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import (
    Categorical,
    Columns,
    Divergence,
    Drop,
    NClusters,
    check_apart,
    check_divergence,
    check_seed,
    check_writable,
    names_in_option,
    number_of_clusters,
)

if TYPE_CHECKING:
    from annealed.cli.streaming import Session, Wish
    from annealed.persistence import Checkpoint
    from annealed.tables.files.records import CSVRows, JSONRows, Records


@app.command()
@one_line_errors
def stream(
    source: Annotated[
        str, typer.Argument(metavar="FILE | -", help="CSV or JSON lines; - is standard input.")
    ] = "-",
    target: Annotated[
        str | None, typer.Option(help="The column to predict. Without it rows are clustered.")
    ] = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: Categorical = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File that holds the state. If it is there, the stream goes on where it stood."
        ),
    ] = None,
    every: Annotated[int, typer.Option(help="Rows between checkpoints, at least.")] = 10_000,
    new_rows: Annotated[
        bool,
        typer.Option(
            "--new-rows",
            help="The source begins where the checkpoint ended: skip none of its rows.",
        ),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more at the end of FILE, as tail -f does.")
    ] = False,
    predictions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE | -",
            help="Write a line for every row: what was predicted before it was learnt, and how "
            "surely.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="File to write the model to at the end.")
    ] = None,
    drift: Annotated[
        bool, typer.Option("--drift", help="Notice when the stream changes, and reheat.")
    ] = False,
    n_clusters: NClusters = "auto",
    divergence: Divergence = "squared_euclidean",
    seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 0,
    skip_bad_rows: Annotated[
        bool,
        typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read; count them."),
    ] = False,
    metrics_every: Annotated[
        int,
        typer.Option(
            help="Print a line of figures to standard error every so many rows; 0: never."
        ),
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no summary.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn from CSV or JSON lines as they come, and survive being killed.

    Each row is predicted before it is learnt. With --checkpoint the state is written as it goes;
    started again on the same source the command skips what it has learnt, and the model is the
    same as if it had never stopped.
    """
    if every < 1:
        raise ValueError(f"--every must be at least 1, not {every}")
    if metrics_every < 0:
        raise ValueError(f"--metrics-every must be at least 1, or 0 for never, not {metrics_every}")
    check_seed(seed)
    check_divergence(divergence)
    if follow and source == "-":
        raise ValueError("--follow is for files; standard input is read until it ends anyway")
    if new_rows and checkpoint is None:
        raise ValueError("--new-rows says where a checkpoint goes on; give --checkpoint FILE too")
    clusters = number_of_clusters(n_clusters, target)
    answers = None if predictions in (None, "-") else Path(str(predictions))
    check_apart({"--checkpoint": checkpoint, "--predictions": answers, "--model": model},
                [None if source == "-" else Path(source)])  # fmt: skip
    for file in (checkpoint, answers, model):
        if file is not None:
            check_writable(file)

    from annealed.cli.streaming import Wish
    from annealed.persistence import Checkpoint, save
    from annealed.tables.files.source import need_pyarrow

    wish = Wish(
        name="standard input" if source == "-" else source, target=target,
        columns=names_in_option(columns), drop=names_in_option(drop),
        categorical=names_in_option(categorical), n_clusters=clusters, divergence=divergence,
        drift=drift, seed=seed, skip_bad=skip_bad_rows,
    )  # fmt: skip
    need_pyarrow(Path(wish.name))
    with contextlib.ExitStack() as stack:
        kept = None if checkpoint is None else stack.enter_context(Checkpoint(checkpoint))
        answer = None if predictions is None else stack.enter_context(_answers(predictions))
        opened = stack.enter_context(_opened(source, follow))
        session = _run(opened, wish, kept, every, answer, follow, new_rows,
                       metrics_every, quiet, as_json)  # fmt: skip
    if model is not None and session.model is not None:
        save(session.model, model)
    if not quiet:
        _print_summary(session, checkpoint, as_json=as_json, to_stderr=predictions == "-")


def _run(
    opened: Any,
    wish: Wish,
    checkpoint: Checkpoint | None,
    every: int,
    answer: Any,
    follow: bool,
    new_rows: bool,
    metrics_every: int,
    quiet: bool,
    as_json: bool,
) -> Session:
    """Read to the end, or until told to stop; the state is saved either way."""
    from annealed.cli.streaming import Session

    stop = _Stop()
    blocks = stop.between(_located(_records(opened, follow), wish.name))
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{wish.name} is empty")
    rows, first = _form(first, wish.name)
    session = Session(wish, rows, checkpoint, every, answer)
    done = session.resume()
    skip, told = 0 if new_rows else done, done
    with _Shown(quiet) as shown, stop:
        try:
            for records in _chained(first, blocks):
                gone = min(skip, len(records))
                skip -= gone
                session.take(records.after(gone))
                shown.update(session)
                if metrics_every and session.consumed - told >= metrics_every:
                    told = session.consumed
                    _print_figures(session, as_json)
        except KeyboardInterrupt:
            session.settle()
            session.save()
            raise
        if skip:
            raise ValueError(
                f"{wish.name} has {done - skip} rows, but the checkpoint stands at {done}: is this "
                "another source? If it begins where that one ended, add --new-rows"
            )
        session.finish()
    if session.model is None:
        raise ValueError(
            f"{wish.name}: none of its {session.consumed} rows can be read"
            if session.consumed
            else f"{wish.name} has names of columns, but no rows"
        )
    return session


def _form(first: Records, name: str) -> tuple[CSVRows | JSONRows, Records]:
    """How records are to be read, and the first of them without a line of names."""
    from annealed.tables.files.records import CSVRows, JSONRows, header_of

    start = next(first.lines()).lstrip(b"\xef\xbb\xbf \t")
    if start.startswith(b"{"):
        return JSONRows(), first
    if re.match(rb"\[\s*(\{|$)", start):
        raise ValueError(
            f"{name} is one array of JSON; write each object on a line of its own instead"
        )
    if b"\0" in start:
        raise ValueError(f"{name} is neither CSV nor JSON lines")
    try:
        delimiter, names = header_of(next(first.lines()))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return CSVRows(delimiter, names), first.after(1)


def _records(opened: Any, follow: bool) -> Iterator[Records]:
    """Records; quotation marks keep line ends in CSV only, which the first character tells."""
    from annealed.tables.files.records import read_records

    start = opened.peek(4)[:4].lstrip(b"\xef\xbb\xbf \t")
    yield from read_records(opened, quotes=not start.startswith(b"{"), follow=follow)


def _located(records: Iterator[Records], name: str) -> Iterator[Records]:
    """The same records; what is wrong with the bytes they come from is said of the source."""
    from annealed.tables.files import TableError

    try:
        yield from records
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} cannot be decompressed: {error}") from None
    except TableError as error:
        raise TableError(f"{name}: {error}") from None


def _chained(first: Records, rest: Iterator[Records]) -> Iterator[Records]:
    yield first
    yield from rest


@contextlib.contextmanager
def _opened(source: str, follow: bool) -> Iterator[Any]:
    if source == "-":
        yield io.BufferedReader(io.FileIO(0, closefd=False))
        return
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if path.suffix == ".gz":
        if follow:
            raise ValueError("--follow cannot follow a compressed file")
        with gzip.open(path) as opened:
            yield opened
        return
    with path.open("rb") as opened:
        yield opened


@contextlib.contextmanager
def _answers(where: str) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        file = sys.stdout if where == "-" else stack.enter_context(open(where, "w", newline=""))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["prediction", "probability"])

        def answer(labels: Sequence[Any], shares: Sequence[float | None]) -> None:
            for label, share in zip(labels, shares, strict=True):
                text = "" if share is None else f"{share:.6g}"
                writer.writerow(["" if label is None else label, text])
            file.flush()

        yield answer


class _Stop:
    """Ctrl-C and a request to end are heard between records, never while one is learnt."""

    def __init__(self) -> None:
        self.asked = self.reading = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.before[number] = signal.signal(number, self._hear)

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: Any) -> None:
        self.asked = True
        if self.reading:
            raise KeyboardInterrupt

    def between(self, blocks: Iterator[Records]) -> Iterator[Records]:
        """The same records, interrupted where one would wait for the next."""
        while True:
            self.reading = True
            if self.asked:
                raise KeyboardInterrupt
            records = next(blocks, None)
            self.reading = False
            if records is None:
                return
            yield records


# -- printing ----------------------------------------------------------------------------------


def _in_words(summary: dict[str, Any]) -> str:
    words = [f"{summary['rows']:,} rows", f"{summary['rows_per_second'] or 0:,}/s"]
    if "codevectors" in summary:
        words += [f"K {summary['codevectors']}", f"T {summary['temperature']:.3g}"]
    for name in ("accuracy", "score"):
        if summary.get(name) is not None:
            words.append(f"{name} {summary[name]:.4g} (recent {summary[f'recent_{name}']:.4g})")
    if summary["bad_rows"]:
        bad = summary["bad_rows"]
        words.append(f"{bad:,} bad row{'s' * (bad != 1)} left out")
    return "  ".join(words)


def _print_figures(session: Session, as_json: bool) -> None:
    summary = session.summary()
    print(json.dumps(summary) if as_json else _in_words(summary), file=sys.stderr, flush=True)


def _print_summary(
    session: Session, checkpoint: Path | None, *, as_json: bool, to_stderr: bool
) -> None:
    summary = session.summary()
    out = sys.stderr if to_stderr else sys.stdout
    if as_json:
        summary["checkpoint"] = None if checkpoint is None else str(checkpoint)
        print(json.dumps(summary), file=out)
        return
    print(_in_words(summary), file=out)
    if checkpoint is not None:
        print(f"checkpoint: {checkpoint}", file=out)


class _Shown:
    """A line that says how far it has come; nothing where standard error is not a terminal."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self.live = Live(console=console, transient=True, auto_refresh=False)
        self.on = console.is_terminal and not quiet
        self.last = 0.0

    def __enter__(self) -> _Shown:
        if self.on:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.on:
            self.live.stop()

    def update(self, session: Session) -> None:
        """Say it, a few times a second."""
        from rich.text import Text

        now = time.perf_counter()
        if self.on and now - self.last > 0.25:
            self.last = now
            self.live.update(Text(_in_words(session.summary())), refresh=True)
