"""Running `annealed stream`: reading, being told to stop, and saying how far it has come."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import signal
import sys
import time
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from annealed.cli.stream_session import Session, StreamOptions
from annealed.persistence import Checkpoint
from annealed.tables.files import TableError
from annealed.tables.files.csv_reading import read_header
from annealed.tables.files.following import Block, follow_records, records_of
from annealed.tables.files.records import CSVFormat, JSONFormat, Records


def run_stream(options: StreamOptions) -> Session:
    """Learn a source to its end, or until told to stop."""
    _leave_signals_to_us()
    with contextlib.ExitStack() as stack:
        source = _open_source(options.source, options.follow)
        blocks = stack.enter_context(contextlib.closing(source))
        checkpoint = None
        if options.checkpoint is not None:
            checkpoint = stack.enter_context(Checkpoint(options.checkpoint))
        session = Session(options, checkpoint)
        stack.callback(session.close)
        _run(session, blocks)
    return session


def _leave_signals_to_us() -> None:
    """Keep pyarrow, which would end a read of its own accord, out of Ctrl-C."""
    import pyarrow

    pyarrow.enable_signal_handlers(False)


def _run(session: Session, blocks: Iterator[Block]) -> None:
    """Read to the end, or until told to stop; the state is saved either way."""
    options, told, stop = session.options, session.consumed, _Stop()
    name = options.name
    every = options.metrics_every if options.metrics is None else 0
    with _Shown(options.quiet) as shown, stop:
        try:
            for records, begins in stop.between(_located(blocks, name)):
                if begins:
                    rows, records = _form(records, name, session.format)
                    session.open_source(rows)
                session.take(records)
                shown.update(session)
                if every and session.consumed - told >= every:
                    told = session.consumed
                    _print_figures(session)
        except KeyboardInterrupt:
            session.save()
            raise
        if not session.source_is_open:
            raise ValueError(f"{name} is empty")
        session.finish()
    if session.model is None:
        raise ValueError(
            f"{name}: none of its {session.consumed} rows can be read"
            if session.consumed
            else f"{name} has names of columns, but no rows"
        )


def _form(
    first: Records, name: str, known: CSVFormat | JSONFormat | None
) -> tuple[CSVFormat | JSONFormat, Records]:
    """How records are to be read, and the first of them without a line of names.

    A file that has taken the place of one with ``known`` columns, or that was emptied, may begin
    with a row: its writer need not know that it is new.
    """
    line = next(first.lines())
    start = line.lstrip(b"\xef\xbb\xbf \t")
    if start.startswith(b"{"):
        return JSONFormat(), first
    if re.match(rb"\[\s*(\{|$)", start):
        raise ValueError(
            f"{name} is one array of JSON; write each object on a line of its own instead"
        )
    if b"\0" in start:
        raise ValueError(f"{name} is neither CSV nor JSON lines")
    try:
        header = read_header(line)
        rows = CSVFormat(header.delimiter, header.names)
    except ValueError as error:
        if isinstance(known, CSVFormat) and known.can_be(line):
            return known, first
        raise ValueError(f"{name}: {error}") from None
    if isinstance(known, CSVFormat) and rows != known and known.can_be(line):
        return known, first
    return rows, first.after(1)


def _located(blocks: Iterator[Block], name: str) -> Iterator[Block]:
    """The same records; what is wrong with the bytes they come from is said of the source."""
    try:
        yield from blocks
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} cannot be decompressed: {error}") from None
    except TableError as error:
        raise TableError(f"{name}: {error}") from None


def _open_source(source: str, follow: bool) -> Generator[Block]:
    """The records of the source as they come; OSError or ValueError now if it is not there."""
    if source != "-":
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        if path.is_dir():
            raise ValueError(f"{path} is a folder, not a file")
    return _blocks(source, follow)


def _blocks(source: str, follow: bool) -> Generator[Block]:
    if source == "-":
        yield from records_of(io.BufferedReader(io.FileIO(0, closefd=False)))
        return
    path = Path(source)
    if path.suffix == ".gz":
        with gzip.open(path) as opened:
            yield from records_of(opened)
    elif follow:
        yield from follow_records(path)
    else:
        with path.open("rb") as file:
            yield from records_of(file)


class _Stop:
    """Ctrl-C and a request to end are heard between records, never while one is learnt."""

    def __init__(self) -> None:
        self.asked = self.reading = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                self.before[number] = signal.signal(number, self._hear)

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: Any) -> None:
        self.asked = True
        if self.reading:
            self.reading = False  # a second one does not stop what the first one has begun
            raise KeyboardInterrupt

    def between(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The same records, interrupted where one would wait for the next."""
        while True:
            self.reading = True  # first, lest one that comes between the two lines is not heard
            if self.asked:
                self.reading = False
                raise KeyboardInterrupt
            block = next(blocks, None)
            self.reading = False
            if block is None:
                return
            yield block


# -- printing ----------------------------------------------------------------------------------


def _in_words(summary: dict[str, Any]) -> str:
    words = [f"{summary['rows']:,} rows", f"{summary['rows_per_second'] or 0:,}/s"]
    if "codevectors" in summary:
        words += [f"K {summary['codevectors']}", f"T {summary['temperature']:.3g}"]
    if summary.get("alarms"):
        words.append(f"alarms {summary['alarms']:,} (last at {summary['latest_alarms'][-1]:,})")
    for name in ("accuracy", "score"):
        if summary.get(name) is not None:
            words.append(f"{name} {summary[name]:.4g} (recent {summary[f'recent_{name}']:.4g})")
    if summary["bad_rows"]:
        bad = summary["bad_rows"]
        words.append(f"{bad:,} bad row{'s' * (bad != 1)} left out")
    return "  ".join(words)


def _print_figures(session: Session) -> None:
    summary = session.summary()
    words = json.dumps(summary) if session.options.as_json else _in_words(summary)
    print(words, file=sys.stderr, flush=True)


def print_summary(session: Session) -> None:
    """Say what has become of it; beside lines on standard output, on standard error."""
    summary, checkpoint, options = session.summary(), session.path, session.options
    out = sys.stderr if "-" in (options.predictions, options.metrics) else sys.stdout
    if options.as_json:
        summary["checkpoint"] = None if checkpoint is None else str(checkpoint)
        print(json.dumps(summary), file=out)
        return
    print(_in_words(summary), file=out)
    if checkpoint is not None:
        print(f"checkpoint: {checkpoint}", file=out)


class _Shown:
    """A line that says how far it has come; nothing where standard error is not a terminal."""

    def __init__(self, quiet: bool) -> None:
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
        now = time.perf_counter()
        if self.on and now - self.last > 0.25:
            self.last = now
            self.live.update(Text(_in_words(session.summary())), refresh=True)
