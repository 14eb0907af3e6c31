"""What a column can be, and how that is seen: the one table of kinds, whatever holds the column."""

from __future__ import annotations

import datetime as dt
import numbers
from decimal import Decimal
from typing import Any

import numpy as np

# The first three are numbers to a model; a column without a single cell is of kind "empty" until
# something says otherwise.
KINDS = ("number", "boolean", "datetime", "category")
NUMERIC = ("number", "boolean", "datetime")

# By the letter of a NumPy dtype. Durations are numbers: of seconds.
OF_ARRAY = {
    "b": "boolean", "i": "number", "u": "number", "f": "number", "m": "number", "M": "datetime",
    "U": "category", "S": "category",
}  # fmt: skip
# By the name of a type of narwhals, which are those of pandas, polars and pyarrow; other types of
# numbers say so themselves.
OF_FRAME = {
    "Boolean": "boolean", "Duration": "number", "Datetime": "datetime", "Date": "datetime",
    "String": "category", "Categorical": "category", "Enum": "category",
}  # fmt: skip


def kind_of_array(dtype: np.dtype[Any]) -> str | None:
    """What an array of this type is as a column; None if its cells have to be looked at."""
    return OF_ARRAY.get(dtype.kind)


def kind_of_series(dtype: Any) -> str | None:
    """What a column of a frame is by its type in narwhals; None if its cells must be looked at."""
    return "number" if dtype.is_numeric() else OF_FRAME.get(type(dtype).__name__)


def kind_of_cell(cell: Any) -> str:
    """What a cell that is not missing makes of its column; ValueError if it is no cell at all."""
    if isinstance(cell, str):
        return "category"
    if isinstance(cell, (bool, np.bool_)):
        return "boolean"
    if isinstance(cell, complex) and not isinstance(cell, numbers.Real):
        raise ValueError("Complex data not supported")
    if isinstance(cell, (numbers.Real, Decimal)):
        return "number"
    if isinstance(cell, (dt.date, np.datetime64)):
        return "datetime"
    raise ValueError(
        f"a cell must be a number, a text, a truth value or a time, not of type "
        f"{type(cell).__name__!r}: argument must be a string or a number"
    )
