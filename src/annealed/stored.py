"""How a class says what a model file holds of it: annotations, which are rules at the same time.

A class that carries state is a dataclass, a NamedTuple or an estimator. What a field may be stands
in its annotation: a type, a class, lists, tuples and dicts of them, ``X | None``, or one of the
names below, which say more than a type can. How fields must fit together is checked by a
classmethod ``check_stored(cls, state)`` beside them, which is called with the fields of an object
before it is made. `annealed.persistence` derives everything else from that.

A file may have been made by anyone: nothing is built from parts that do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

# Rungs of a ladder and levels of a path: far beyond any, but no loop over them would never end.
MOST_LEVELS = 100_000


class MalformedError(ValueError):
    """A state that no object of ours was ever in."""


@dataclass(frozen=True)
class Rule:
    """A test of a value and the words for what it asks."""

    allows: Callable[[Any], bool]
    words: str


# -- what more there is to say of a field: Annotated[float, Amount's rule, Since("0.2", 0.0)] ------


class Stored(Enum):
    """How a field differs from others, which are always there and always stored."""

    NEVER = "never"  # follows from the rest; it has its default when the object is loaded
    ONCE_SET = "once set"  # not there at first (a class that warms up has no temperature)


@dataclass(frozen=True)
class StoredAs:
    """A field whose place in a file is taken by something else, as ``__getstate__`` gives it."""

    annotation: Any


@dataclass(frozen=True)
class Since:
    """A field that files written before ``version`` lack; ``before`` is what it was until then."""

    version: str
    before: Any


def at_least(low: int) -> Rule:
    """A whole number no machine is too small for."""
    return Rule(lambda v: low <= int(v) < 2**62, f"of at least {low}")


def between(low: int, high: int) -> Rule:
    """From low to below high."""
    return Rule(lambda v: low <= int(v) < high, f"from {low} to below {high}")


def among(*choices: str) -> Rule:
    """One of the texts given."""
    return Rule(lambda v: v in choices, f"among {', '.join(map(repr, choices))}")


def dimensions(n: int) -> Rule:
    """An array of that many dimensions."""
    return Rule(lambda v: v.ndim == n, f"in {n} dimension{'s' if n > 1 else ''}")


# -- what fields are -------------------------------------------------------------------------------

Amount = Annotated[float, Rule(lambda v: 0 <= v < math.inf, "of at least 0")]
Finite = Annotated[float, Rule(math.isfinite, "that is finite")]
Count = Annotated[int, at_least(0)]
Positive = Annotated[int, at_least(1)]
Features = Annotated[int, between(1, 2**30)]  # the number of them
Rung = Annotated[int, between(-MOST_LEVELS, MOST_LEVELS)]
Vector = Annotated[NDArray[np.float64], dimensions(1)]
Matrix = Annotated[NDArray[np.float64], dimensions(2)]
# Unit vectors, of which single precision tells enough.
Directions = Annotated[
    NDArray[Any], Rule(lambda v: v.ndim == 2 and v.dtype in (np.float32, np.float64), "of vectors")
]
Indices = Annotated[NDArray[np.int64], dimensions(1)]
Classes = Annotated[NDArray[np.int32], dimensions(1)]
# Of classes, in the order they are numbered.
Labels = Annotated[
    NDArray[Any], Rule(lambda v: v.ndim == 1 and v.dtype.kind in "biufUO", "of labels")
]
# Of samples that come as dicts.
Key = Annotated[Any, Rule(lambda v: type(v) in (str, int, float, bool), "of a plain type")]
State = dict[str, Any]


# -- how fields fit together -----------------------------------------------------------------------


def require(holds: object, otherwise: str) -> None:
    """Raise MalformedError unless it holds."""
    if not holds:
        raise MalformedError(otherwise)


def one_length(owner: str, *arrays: NDArray[Any]) -> None:
    """Arrays with one entry for each codevector, at least one."""
    lengths = {len(array) for array in arrays}
    require(
        len(lengths) == 1 and lengths != {0}, f"arrays of {owner} differ in length, or are empty"
    )


def one_width(owner: str, d: int | None, *arrays: NDArray[Any]) -> None:
    """Arrays with one column for each feature."""
    widths = {array.shape[-1] for array in arrays}
    require(widths <= {d}, f"arrays of {owner} do not have the {d} features of the model")


def check_labels(classes: NDArray[Any] | None, met: list[Any] | None, numbered: int) -> None:
    """Every class that has been met is among the labels, once, and has a number."""
    require(classes is not None and met is not None, "a classifier has no classes")
    assert classes is not None and met is not None
    known, seen = classes.tolist(), [np.asarray(label).item() for label in met]
    require(len(set(known)) == len(known) and sorted(known) == known, "labels are not in order")
    require(len(set(seen)) == len(seen) and set(seen) <= set(known), "a class has no label")
    require(len(seen) >= numbered, "a class has no label")
