"""Checks what a file claims to be the state of a `TablePreprocessor`, value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import numpy as np

from annealed.stored import Indices, Positive, Vector
from annealed.tables.categories import Categories
from annealed.tables.columns import Floats
from annealed.tables.kinds import KINDS, NUMERIC

# What may be done with columns and keys that are missing or new.
UNKNOWN = "auto", "error", "ignore"


class PreprocessorState(TypedDict):
    """What `TablePreprocessor.to_state` gives and a model file holds; `read_state` checks more."""

    standardize: bool
    unknown: str
    declared_kinds: dict[str, str] | None
    max_categories: Positive
    names: list[str]
    named: bool
    kinds: list[str]
    categories: list[dict[str, Any]]
    count: Vector
    mean: Vector
    m2: Vector
    fill: Vector
    category_counts: Indices


def _refuse(problem: str) -> ValueError:
    return ValueError(f"not the state of a preprocessing step: {problem}")


def _plain(
    state: Mapping[str, Any], name: str, kind: type, allows: Callable[[Any], bool] = lambda v: True
) -> Any:
    """A value of exactly this kind."""
    if name not in state:
        raise _refuse(f"{name!r} is missing")
    value = state[name]
    if type(value) is not kind or not allows(value):
        raise _refuse(f"{name!r} is {str(value)[:80]!r}")
    return value


def _floats(
    state: Mapping[str, Any], name: str, size: int, *, least: float, nan: bool = False
) -> Floats:
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.shape != (size,) or value.dtype != np.float64:
        raise _refuse(f"{name!r} must be an array of {size} numbers (float64)")
    known = value[~np.isnan(value)] if nan else value
    if not np.isfinite(known).all() or (known < least).any():
        raise _refuse(f"{name!r} holds a number that cannot be")
    return value.copy()


def _texts(values: Any, name: str, *, missing: bool = False) -> list[Any]:
    if not isinstance(values, list):
        raise _refuse(f"{name!r} is not a list")
    for value in values:
        if not (isinstance(value, str) or (missing and value is None)):
            raise _refuse(f"{name!r} holds {str(value)[:80]!r}")
    if len(set(values)) != len(values):
        raise _refuse(f"{name!r} holds the same text twice")
    return values


def read_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with every value checked; ValueError at the first that cannot be."""
    if not isinstance(state, Mapping):
        raise _refuse(f"it is of type {type(state).__name__!r}")
    names = _texts(_plain(state, "names", list), "names")
    kinds = _plain(state, "kinds", list)
    if len(kinds) != len(names) or any(kind not in KINDS for kind in kinds):
        raise _refuse("'kinds' does not fit the columns")
    declared = state.get("declared_kinds")
    if declared is not None and not (
        isinstance(declared, dict)
        and all(name in names and kind in KINDS for name, kind in declared.items())
    ):
        raise _refuse("'declared_kinds' does not fit the columns")
    numeric = sum(kind in NUMERIC for kind in kinds)
    return {
        "standardize": _plain(state, "standardize", bool),
        "unknown": _plain(state, "unknown", str, lambda v: v in UNKNOWN),
        "declared_kinds": declared,
        "max_categories": _plain(state, "max_categories", int, lambda v: v >= 1),
        "names": names,
        "named": _plain(state, "named", bool),
        "kinds": kinds,
        "count": _floats(state, "count", numeric, least=0),
        "mean": _floats(state, "mean", numeric, least=-np.inf),
        "m2": _floats(state, "m2", numeric, least=0),
        "fill": _floats(state, "fill", numeric, least=-np.inf, nan=True),
        "categories": _read_categories(state, len(kinds) - numeric),
    }


def _read_categories(state: Mapping[str, Any], columns: int) -> list[Categories]:
    given = _plain(state, "categories", list)
    if len(given) != columns:
        raise _refuse(f"'categories' must describe {columns} columns")
    counts = state.get("category_counts")
    if not isinstance(counts, np.ndarray) or counts.ndim != 1 or counts.dtype != np.int64:
        raise _refuse("'category_counts' must be an array of whole numbers (int64)")
    if (counts < 0).any():
        raise _refuse("'category_counts' holds a negative number")
    found, at = [], 0
    for one in given:
        if not isinstance(one, dict):
            raise _refuse("'categories' holds something else than columns")
        labels = _texts(_plain(one, "labels", list), "labels", missing=True)
        # The counts are one number each, so that no room can be claimed that is not in the file.
        left = len(counts) - at
        room = _plain(one, "room", int)
        if not len(labels) <= room <= left:
            raise _refuse(f"'room' is {room}")
        other = _plain(one, "other", bool)
        unseen = _plain(one, "unseen", int, lambda v: v >= 0)
        width = room + other
        if width > left:
            raise _refuse("'category_counts' is too short")
        found.append(Categories(labels, room, other, counts[at : at + width].copy(), unseen))
        at += width
    if at != len(counts):
        raise _refuse("'category_counts' is too long")
    return found
