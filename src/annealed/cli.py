"""The command line: reads arguments, calls the library, prints. Nothing else in annealed prints."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from annealed import datasets as data
from annealed.experiments import EXPERIMENTS
from annealed.experiments import reproduce as run_experiments

# A mistake of the user's, as with every other command line tool.
USAGE = 2

app = typer.Typer(
    name="annealed",
    help="Online deterministic annealing from the command line.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def common(context: typer.Context) -> None:
    """Online deterministic annealing from the command line."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run a command; a mistake in the arguments is told in one line too."""
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        # The class of these errors has moved with the versions of typer; this method has not.
        if not hasattr(error, "format_message"):
            raise
        complain(f"{error.format_message()} (`annealed --help` lists what there is)")
        code = getattr(error, "exit_code", USAGE)
    sys.exit(code if isinstance(code, int) else 0)


DataHome = Annotated[
    Path | None,
    typer.Option(
        help="Folder with data files of yours (default: the environment variable ANNEALED_DATA)."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Say in one line what went wrong, unless ``--debug`` asks for the traceback."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (OSError, ValueError, ImportError) as error:
            if kwargs.get("debug"):
                raise
            complain(str(error) or type(error).__name__)
            raise typer.Exit(USAGE if isinstance(error, ValueError) else 1) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None

    return guarded


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"annealed: {' '.join(message.split())}", file=sys.stderr)


# -- reproduce ---------------------------------------------------------------------------------


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


# -- datasets ----------------------------------------------------------------------------------


@app.command()
@one_line_errors
def datasets(
    data_home: DataHome = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """List the data sets: what is here, what is missing, how to get it."""
    if data_home is not None and not data_home.is_dir():
        raise ValueError(f"the folder {data_home} does not exist")
    found = data.available(data_home)
    if as_json:
        print(json.dumps([asdict(one) for one in found.values()], indent=2))
        return
    console = Console()
    table = Table("data set", "here", "source", box=None, pad_edge=False)
    for one in found.values():
        here = Text("yes" if one.present else "no", style="" if one.present else "bold")
        table.add_row(one.name, here, Text(one.source, overflow="fold"))
    console.print(table)
    for one in found.values():
        if not one.present:
            console.print(Text(f"\n{one.name}: {one.how}"), soft_wrap=True)
