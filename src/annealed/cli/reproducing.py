"""What `annealed reproduce` does: the experiments, with a bar, and the claims counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from annealed.experiments import reproduce


def reproduce_and_print(
    out: Path,
    names: Sequence[str],
    *,
    quick: bool,
    data_home: Path | None,
    settings: Path | None,
) -> None:
    """Run the experiments, and say on standard output how many claims are met."""
    with _bar() as bar:
        outcomes = reproduce(
            out, names, quick=quick, data_home=data_home, settings=settings, progress=_Shown(bar)
        )
    checks = [check for outcome in outcomes for check in outcome.checks]
    absent = {name: why for outcome in outcomes for name, why in outcome.absent.items()}
    for name in absent:
        print(f"not measured: {name} is not at hand (`annealed datasets` says how to get it)")
    print(f"{sum(check.met for check in checks)} of {len(checks)} claims met")
    print(out / "results.html")


class _Shown:
    """Progress as a bar; on anything but a terminal nothing is shown."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None)

    def total(self, steps: int) -> None:
        self.bar.update(self.task, total=steps + 1, completed=-1)

    def step(self, words: str) -> None:
        self.bar.update(self.task, description=words, advance=1)


def _bar() -> Bar:
    console = Console(stderr=True)
    return Bar(
        TextColumn("{task.description}", table_column=None),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
