"""`annealed reproduce`: the paper's figures and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from annealed.cli.application import Debug, app, one_line_errors
from annealed.cli.datasets import DataHome, check_data_home
from annealed.experiments import EXPERIMENTS
from annealed.experiments import reproduce as run_experiments


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


@app.command()
@one_line_errors
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="|".join(EXPERIMENTS), help="What to reproduce.", show_default="all"
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats and rows: under two minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("reproduced"),
    data_home: DataHome = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="Folder with changed files of settings (fig1.toml, ...); what is not there keeps "
            "the values of the package."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Reproduce the paper's figures and its table, and write a page that compares them."""
    check_data_home(data_home)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file; --out must be a folder")
    names = list(experiments or EXPERIMENTS)
    with _bar() as bar:
        outcomes = run_experiments(
            out, names, quick=quick, data_home=data_home, settings=settings, progress=_Shown(bar)
        )
    checks = [check for outcome in outcomes for check in outcome.checks]
    absent = {name: why for outcome in outcomes for name, why in outcome.absent.items()}
    for name in absent:
        print(f"not measured: {name} is not at hand (`annealed datasets` says how to get it)")
    print(f"{sum(check.met for check in checks)} of {len(checks)} claims met")
    print(out / "results.html")
