"""From a file to what a fitted model takes: its columns, as a table or as an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names

from annealed.persistence import load
from annealed.tables.files import TableError, TableFile, open_table


def open_data(path: Path) -> TableFile:
    """A table to read."""
    if str(path) == "-":
        raise ValueError(
            "standard input cannot be read twice, as this command does; save it to a file first, "
            "or learn from it with annealed stream"
        )
    return open_table(path)


def load_fitted(path: Path) -> Any:
    """The model in a file; ValueError if it has not learnt anything."""
    fitted = load(path)
    if not fitted.__sklearn_is_fitted__():
        raise ValueError(f"{path} holds a model that has not learnt anything yet")
    return fitted


def columns_to_read(fitted: Any, file: TableFile) -> tuple[list[str], dict[str, str]]:
    """The columns a model was learnt with, and what they were."""
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        if len(file.names) != fitted.n_features_in_:
            raise TableError(
                f"{file.path} has {len(file.names)} columns, but the model was learnt from "
                f"{fitted.n_features_in_} columns without names"
            )
        names = file.names
    columns = [str(name) for name in names]
    for name in columns:
        if name not in file.names:
            raise TableError(
                f"{file.path} has no column {name!r}, which the model was learnt with; add it (its "
                f"cells may be empty), or learn without it (annealed fit --drop {name!r})"
            )
    step = getattr(fitted, "preprocessor_", None)
    known = ["number"] * len(columns) if step is None else step.kinds_
    return columns, dict(zip(columns, known, strict=True))


def matrix_of(table: Any) -> Any:
    """Columns of numbers as an array."""
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in table.columns])


def scorer_named(name: str) -> Any:
    """The score of scikit-learn with that name; ValueError if there is none."""
    if name not in get_scorer_names():
        raise ValueError(
            f"--scoring: scikit-learn has no score {name!r}; it has for example accuracy, "
            "balanced_accuracy, f1_macro and roc_auc"
        )
    return get_scorer(name)
