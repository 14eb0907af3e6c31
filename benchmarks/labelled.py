"""Labelled data of the benchmarks: the seven sets of `quality`, and files of your own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annealed import datasets
from benchmarks.data import Rows

Labels = NDArray[np.int64]
FOLDS = 5
TITLES = {
    "pima": "PIMA",
    "wbcd": "WBCD diagnostic",
    "wbcd_original": "WBCD original",
    "wine": "wine",
    "digits": "digits",
    "moons": "moons",
    "circles": "circles",
}
FRAUD = "creditcard"
SETS = (*TITLES, FRAUD)
_GENERATED = ("moons", "circles")
_BESIDE = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Labelled:
    """A data set; those that are generated differ from seed to seed."""

    name: str
    make: Callable[[int], tuple[Rows, Labels]]


def data_home() -> Path | None:
    """Folder of the files: the environment variable ANNEALED_DATA, else ../shared/data."""
    given = os.environ.get("ANNEALED_DATA")
    if given:
        return Path(given)
    return _BESIDE if _BESIDE.is_dir() else None


@cache
def load(name: str, seed: int = 0) -> tuple[Rows, Labels, str]:
    """Features, labels, and the name with ``_subset`` where rows are missing."""
    bunch = datasets.load(name, data_home=data_home(), random_state=seed)
    return bunch.data, bunch.target, bunch.name


def _seeded(name: str, seed: int) -> tuple[Rows, Labels]:
    return load(name, seed if name in _GENERATED else 0)[:2]


def by_name(names: Sequence[str]) -> list[Labelled]:
    """The sets of these names; what cannot be had is named, with the reason, and left out."""
    found = []
    for name in names:
        try:
            load(name)
        except (OSError, ValueError) as error:
            missing(name, error)
        else:
            found.append(Labelled(TITLES[name], partial(_seeded, name)))
    return found


def missing(name: str, reason: object) -> None:
    """Say that a set takes no part."""
    print(f"\nNOT MEASURED: {name}. {reason}", flush=True)


def from_folder(folder: Path) -> list[Labelled]:
    """Every NPZ file of a folder, arrays X and y; one that cannot be used is named and left out."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        try:
            X, y = _arrays(path)
        except (OSError, KeyError, ValueError) as error:
            missing(path.name, error)
        else:
            found.append(Labelled(path.stem, partial(_same, X, y)))
    if not found:
        missing(str(folder), "It holds no NPZ file that can be used.")
    return found


def _same(X: Rows, y: Labels, seed: int) -> tuple[Rows, Labels]:
    return X, y


def _arrays(path: Path) -> tuple[Rows, Labels]:
    with np.load(path, allow_pickle=False) as arrays:
        X, labels = np.asarray(arrays["X"], dtype=np.float64), np.asarray(arrays["y"])
    if X.ndim != 2 or labels.shape != X.shape[:1]:
        raise ValueError(f"X has shape {X.shape} and y {labels.shape}: need (n, d) and (n,)")
    if not np.isfinite(X).all():
        raise ValueError("X holds values that are missing or infinite.")
    _, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(counts) < 2 or counts.min() < FOLDS:
        raise ValueError(f"{FOLDS} folds need two classes or more with {FOLDS} rows each.")
    return X, y.astype(np.int64)
