"""What every experiment is given: settings, data, a folder for its files, a bell for each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from annealed import datasets
from annealed.divergences import Array
from annealed.experiments.configuration import Settings
from annealed.experiments.results import Cell, write_csv

Labels = NDArray[np.int64]
TITLES = {
    "gaussians": "Gaussians",
    "moons": "Half moons",
    "circles": "Concentric circles",
    "wbcd": "WBCD",
    "pima": "PIMA",
    "adult": "Adult",
    "creditcard": "Credit card",
}


@dataclass(frozen=True)
class Rows:
    """A data set as an experiment uses it; ``note`` says what of it, if not all."""

    name: str
    X: Array
    y: Labels
    note: str = ""

    @property
    def title(self) -> str:
        """Its name for readers."""
        return TITLES[self.name]


@dataclass
class Lab:
    """Where an experiment is run.

    Attributes
    ----------
    settings : mapping
    out : Path
        Folder of the files that are written.
    data_home : Path or None
        As in `annealed.datasets.load`.
    step : callable
        Called with a few words before each step of the work.
    absent : dict of str to str
        Data sets that could not be had, with the reason; `rows` fills it.
    stock : dict of str to Bunch or str
        Data sets that were asked for before, or the reason why they could not be had. Experiments
        share it, so that nobody waits for the same network twice.
    """

    settings: Settings
    out: Path
    data_home: Path | None
    step: Callable[[str], None]
    absent: dict[str, str] = field(default_factory=dict)
    stock: dict[str, Bunch | str] = field(default_factory=dict)

    def rows(self, name: str, seed: int = 0) -> Rows | None:
        """A data set, drawn down to the rows the paper takes; None if it is not at hand."""
        if name not in self.stock:
            self.stock[name] = _load(name, self.data_home)
        bunch = self.stock[name]
        if isinstance(bunch, str):
            self.absent[name] = bunch
            return None
        X, y = bunch.data, bunch.target
        note = ""
        if name == "creditcard":
            X, y = datasets.at_prevalence(X, y, self.settings["creditcard_rows"], random_state=seed)
            note = f"{len(y):,} rows with {int(y.sum())} frauds, drawn from {len(bunch.data):,}"
            note += " (a subset of the file)" if bunch.name.endswith("_subset") else ""
        elif name == "adult":
            drawn = np.random.default_rng(seed).permutation(len(X))[: self.settings["adult_rows"]]
            X, y = X[drawn], y[drawn]
            note = f"{len(y):,} of {len(bunch.data):,} rows, the six numeric features"
        return Rows(name, X, y, note)

    def write_csv(self, name: str, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write numbers beside the pictures."""
        write_csv(self.out / name, header, rows)


def _load(name: str, data_home: Path | None) -> Bunch | str:
    """The set, or why it cannot be had."""
    with warnings.catch_warnings():
        # Of each try to reach OpenML; that all of them failed is in the error.
        warnings.filterwarnings("ignore", message="A network error occurred")
        try:
            bunch: Bunch = datasets.load(name, data_home=data_home)
        except FileNotFoundError as error:
            return " ".join(str(error).split())
    return bunch


def standardised(X: Array) -> Array:
    """Features with mean 0 and variance 1."""
    scaled: Array = StandardScaler().fit_transform(X)
    return scaled
