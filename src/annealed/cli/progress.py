"""How far `annealed fit` has come, on a terminal."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from annealed.annealing.schedule import COLDEST
from annealed.path import Level


class _Said(ProgressColumn):
    """Words about a task. That annealing is over is seen by no level having come for long."""

    def __init__(self, progress: Progress, *, details: bool) -> None:
        super().__init__()
        self.progress, self.details = progress, details

    def render(self, task: Task) -> Text:
        """What is going on, or how far it has come."""
        if self.details:
            return Text("" if self.progress.overdue else task.fields["words"])
        return Text(self.progress.then if self.progress.overdue else task.description)


class Progress:
    """A line that says what is going on; nothing where standard error is not a terminal.

    Use it as a context manager.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self.bar = Bar(
            SpinnerColumn(),
            _Said(self, details=False),
            BarColumn(bar_width=20),
            _Said(self, details=True),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, words="")
        self.gamma, self.then = 0.9, ""
        self.first: Level | None = None
        self.pace = 0.0  # seconds the last level took
        self.before = self.started = time.perf_counter()

    @property
    def overdue(self) -> bool:
        """Whether the next level has not come although it should have."""
        if self.first is None or not self.then:
            return False
        return time.perf_counter() - self.before > max(0.5, 4 * self.pace)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def phase(self, words: str, total: int | None = None) -> None:
        """Something new begins."""
        self.then = ""
        self.bar.reset(self.task, description=words, total=total, words="")

    def rows(self, read: int) -> None:
        """So many rows have been read."""
        self.bar.update(self.task, completed=read, words=f"{read:,} rows")

    def annealing(self, gamma: float, then: str) -> None:
        """Annealing begins; what comes after the last level has no end that is known."""
        self.phase("annealing", total=100)
        self.gamma, self.then = gamma, then
        self.before = self.started = time.perf_counter()

    def level(self, level: Level) -> None:
        """A level is done. The time left counts those to come at the cost of this one."""
        now = time.perf_counter()
        if self.first is None:
            self.first = level
        fallen = math.log(self.first.temperature / level.temperature) if level.temperature else 0.0
        to_fall = max(-math.log(COLDEST) - fallen, 0.0)
        self.pace = now - self.before
        left = self.pace * to_fall / -math.log(self.gamma)
        rate = level.samples / max(now - self.started, 1e-9)
        self.before = now
        words = (
            f"T {level.temperature:.3g}  K {level.n_codevectors}  {level.samples:,} samples  "
            f"D {level.distortion:.4g}  {rate:,.0f}/s  {left:.0f} s left"
        )
        self.bar.update(self.task, completed=100 * fallen / -math.log(COLDEST), words=words)
