"""Run experiments one after the other and write the page about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from sklearn.utils import Bunch

from annealed.experiments import fig1, fig2, fig3, fig4, table1
from annealed.experiments.configuration import read_settings
from annealed.experiments.drawing import require_matplotlib
from annealed.experiments.lab import Lab
from annealed.experiments.page import Run, write_page
from annealed.experiments.results import Outcome


class Progress(Protocol):
    """Who is told how far the work has come."""

    def total(self, steps: int) -> None:
        """Called once, with the number of steps."""

    def step(self, words: str) -> None:
        """Called before each step."""


class _Silent:
    def total(self, steps: int) -> None:
        pass

    def step(self, words: str) -> None:
        pass


_MODULES: dict[str, ModuleType] = {
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "fig4": fig4,
    "table1": table1,
}
EXPERIMENTS = tuple(_MODULES)


def reproduce(
    out: Path,
    names: Sequence[str] = EXPERIMENTS,
    *,
    quick: bool = False,
    data_home: Path | None = None,
    settings: Path | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run experiments and write figures, numbers and the page into a folder.

    Parameters
    ----------
    out : Path
        Folder of the results; it is made if need be.
    names : sequence of str
        Of `EXPERIMENTS`; they are run in that order.
    quick : bool, default=False
        Fewer repeats, smaller references, fewer rows: a look in a minute or two.
    data_home : Path, optional
        As in `annealed.datasets.load`.
    settings : Path, optional
        A folder with changed files of settings.
    progress : Progress, optional

    Returns
    -------
    list of Outcome
    """
    unknown = [name for name in names if name not in _MODULES]
    if unknown:
        raise ValueError(f"no experiment is called {unknown[0]!r}; there are {', '.join(_MODULES)}")
    chosen = {name: read_settings(name, quick, settings) for name in EXPERIMENTS if name in names}
    require_matplotlib()
    bar: Progress = _Silent() if progress is None else progress
    bar.total(sum(_MODULES[name].steps(given) for name, given in chosen.items()))
    out.mkdir(parents=True, exist_ok=True)
    began, outcomes = time.perf_counter(), []
    stock: dict[str, Bunch | str] = {}
    for name, given in chosen.items():
        lab = Lab(given, out, data_home, _titled(name, bar.step), stock=stock)
        outcomes.append(_timed(name, lab))
    write_page(out, outcomes, Run(quick, time.perf_counter() - began))
    return outcomes


def _titled(name: str, step: Callable[[str], None]) -> Callable[[str], None]:
    return lambda words: step(f"{name}: {words}")


def _timed(name: str, lab: Lab) -> Outcome:
    began = time.perf_counter()
    outcome: Outcome = _MODULES[name].run(lab)
    outcome.absent = lab.absent
    outcome.seconds = time.perf_counter() - began
    return outcome
