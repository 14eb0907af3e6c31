"""The target of a table: taken out by its name, and looked at as classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.tables.columns import is_missing, short_list, text_of_cell
from annealed.tables.frames import frame_of

# Whole numbers may be classes or a quantity, and only how many of them differ tells which. To be
# asked costs a user one option; a quantity taken for classes costs a model that is of no use and
# looks as if it were. So the limit is low: classes that people number are seldom more than twenty,
# while ages, years, counts and prices soon are. Among a few rows it is half of them, as where
# scikit-learn warns; ten, as there are digits, are never asked about.
MOST_NUMBERED_CLASSES, NEVER_ASKED = 20, 10
# Texts of which there are more than this, with fewer than so many rows each, for names.
MOST_CLASSES, LEAST_ROWS = 100, 10
# Of a number nobody writes; postal codes and the like have it, and it belongs to them.
LEADING_ZERO = re.compile(r"\s*[+-]?0\d")


def names_in(table: Any) -> list[str] | None:
    """Names of the columns of a table; None if it has none."""
    if isinstance(table, (list, tuple)):
        return [*table[0]] if len(table) and isinstance(table[0], Mapping) else None
    if isinstance(table, Mapping):
        return list(table)
    frame = frame_of(table)
    if frame is not None:
        return [str(name) for name in frame.columns]
    fields = getattr(getattr(table, "dtype", None), "names", None)
    return None if fields is None else list(fields)


def take_out(table: Any, name: str) -> tuple[Any, NDArray[Any]]:
    """A table without one of its columns, and that column; ValueError if it has none such."""
    names = names_in(table)
    if isinstance(table, (list, tuple)) and not table:
        raise ValueError("X has no rows")
    if names is None:
        raise ValueError(f"y is {name!r}, the name of a column, but the columns of X have no names")
    if name not in names:
        raise ValueError(f"there is no column {name!r}; the columns are {short_list(names, 12)}")
    rest = [other for other in names if other != name]
    if isinstance(table, (list, tuple)):
        values = [record.get(name) for record in table]
        return [{k: v for k, v in record.items() if k != name} for record in table], _array(values)
    if isinstance(table, Mapping):
        return {other: table[other] for other in rest}, np.asarray(table[name])
    if isinstance(table, np.ndarray):
        return table[rest], table[name]
    frame = frame_of(table)
    own = frame.columns[names.index(name)]  # which need not be a text
    return frame.drop(own).to_native(), _array(frame.get_column(own).to_list())


def _array(cells: list[Any]) -> NDArray[Any]:
    """Cells as an array of their own kind, or of objects if some are missing."""
    if any(is_missing(cell) for cell in cells):
        return np.array([None if is_missing(cell) else cell for cell in cells], dtype=object)
    kinds = {type(cell) for cell in cells}
    return np.array(cells) if len(kinds) == 1 else np.array(cells, dtype=object)


def classes_in(
    cells: list[Any], column: str, *, as_texts: bool = False, decimal: str = "."
) -> NDArray[Any]:
    """Class labels from the cells of a column: whole numbers, truth values or texts.

    Parameters
    ----------
    cells : list
        None missing.
    column : str
        Its name, for messages.
    as_texts : bool, default=False
        They are classes, whatever they look like. Otherwise texts that are all whole numbers become
        numbers, unless one is written with zeros in front, as codes are.
    decimal : str, default="."
        What stands for the decimal point in numbers that are texts.

    Raises
    ------
    ValueError
        They look like a quantity, or like names; or there is only one class.
    """
    if as_texts:
        labels = np.array([text_of_cell(cell) for cell in cells])
    else:
        labels = _labels(cells, column, decimal)
    found, counts = np.unique(labels, return_counts=True)
    if len(found) == 1:
        raise ValueError(
            f"the target {column!r} has the same value in every row ({found[0]}): there is nothing "
            "to tell apart"
        )
    if len(found) > MOST_CLASSES and counts.sum() < LEAST_ROWS * len(found):
        raise ValueError(
            f"the target {column!r} has {len(found)} different values in {counts.sum()} rows; "
            f"classes need at least {LEAST_ROWS} rows each on average"
        )
    return labels


def check_no_quantity(cells: list[Any], column: str, *, decimal: str = ".") -> None:
    """ValueError if the cells of a target, none missing, look like a quantity, not like classes."""
    _labels(cells, column, decimal)


def _a_quantity(column: str, what: str) -> str:
    return (
        f"the target {column!r} looks like a quantity ({what}), and this model tells classes "
        "apart; make classes of it, for example low, middle and high, or, if these are classes, "
        f"have them taken as texts (--categorical {column!r})"
    )


def _labels(cells: list[Any], column: str, decimal: str) -> NDArray[Any]:
    kinds = {type(cell) for cell in cells}
    if kinds == {bool}:
        return np.array(cells)
    try:
        numbers = [
            float(cell.replace(decimal, ".") if isinstance(cell, str) else cell) for cell in cells
        ]
    except (TypeError, ValueError):
        return np.array([str(cell) for cell in cells])
    if any(isinstance(cell, str) and LEADING_ZERO.match(cell) for cell in cells):
        return np.array([str(cell) for cell in cells])
    for number in numbers:
        if not number.is_integer():
            raise ValueError(_a_quantity(column, f"{number:g} is not a whole number"))
        if abs(number) > 2**53:  # where floats have no whole numbers of their own any more
            raise ValueError(_a_quantity(column, f"{number:g} is no number of a class"))
    labels = np.array([int(number) for number in numbers])
    different, rows = len(np.unique(labels)), len(labels)
    if different > min(MOST_NUMBERED_CLASSES, max(NEVER_ASKED, rows // 2)):
        raise ValueError(
            _a_quantity(column, f"{different} different whole numbers in {rows:,} rows")
        )
    return labels


class ClassIndex:
    """Which class a cell of the target means; -1: one that the model does not know.

    Parameters
    ----------
    classes : ndarray
        Of the model.
    decimal : str
        What stands for the decimal point in numbers that are texts.
    """

    def __init__(self, classes: NDArray[Any], decimal: str) -> None:
        self.decimal = decimal
        self.numbers = classes.dtype.kind in "iuf"
        self.places = {self._key(label): k for k, label in enumerate(classes.tolist())}

    def __call__(self, cell: Any) -> int:
        """The place of the class."""
        return self.places.get(self._key(cell), -1)

    def _key(self, cell: Any) -> Any:
        if not self.numbers:
            return text_of_cell(cell)
        try:
            return float(cell.replace(self.decimal, ".") if isinstance(cell, str) else cell)
        except (TypeError, ValueError):
            return text_of_cell(cell)
