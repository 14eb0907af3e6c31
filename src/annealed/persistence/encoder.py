"""Into a model file: a tree of plain values and known objects, as JSON and arrays.

None, truth values, text, numbers and lists are what they are in JSON. Everything else is an object
whose first key says what it is: {"array": name}, {"tuple": [...]}, {"kind": ..., "fields": ...} and
so on (docs/model-files.md lists them). Numbers keep every bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from annealed.divergences import BUILT_IN, BregmanDivergence, Mahalanobis
from annealed.persistence.container import NAMES, AnyArray
from annealed.persistence.schema import CannotSaveError, Schema

# Lists at least this long go into arrays: of numbers, and of text.
LONG, LONG_TEXT = 8, 1000
# The most objects a file may make of its arrays (what stands in JSON is bounded by the header).
MOST_PARTS = 300_000
# An array of text may have room for texts this many times as long as its longest.
SPARE_WIDTH = 64
INT64 = range(-(2**63), 2**63)


class Encoder:
    """Turns values into JSON, collecting arrays and divergences on the way.

    Parameters
    ----------
    schemas : mapping of str to Schema
        Objects that may occur, under the names that stand for them in the file.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas = schemas
        self.names = {schema.cls: name for name, schema in schemas.items()}
        self.arrays: dict[str, AnyArray] = {}
        self.divergences: list[dict[str, Any]] = []
        self.custom: BregmanDivergence | None = None
        self._known: dict[int, tuple[Any, Any]] = {}  # what has been met, kept alive, by id
        self._cuts: dict[tuple[int, ...], Any] = {}
        self._parts = 0

    def encode(self, value: Any, place: str) -> Any:
        """The value as JSON; ``place`` says where it stands, in names of arrays and messages."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return value if value in INT64 else {"int": str(value)}
        if type(value) is float:
            if math.isfinite(value):
                return value
            return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
        if type(value) in self.names:
            name = self.names[type(value)]
            state = self.schemas[name].state_of(value)
            return {"kind": name, "fields": self._fields(state, place)}
        if isinstance(value, BregmanDivergence):
            return {"divergence": self._once(value, lambda: self._divergence(value))}
        if isinstance(value, np.ndarray):
            return self._once(value, lambda: self._array(value, place))
        if isinstance(value, np.generic):
            return {"scalar": [_scalar_type(value, place), self.encode(value.item(), place)]}
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            return {"random": self._fields(_random_state(value, place), place)}
        if type(value) is tuple:
            return {"tuple": self._sequence(value, place)}
        if isinstance(value, list):
            return self._sequence(value, place)
        if isinstance(value, Mapping):
            if all(type(key) is str for key in value):
                return {"map": self._fields(value, place)}
            keys, values = list(value), list(value.values())
            return {"pairs": [self._sequence(keys, f"{place}.keys"), self._sequence(values, place)]}
        if hasattr(value, "__array__"):
            return self.encode(np.asarray(value), place)
        raise CannotSaveError(
            f"{place} is {_article(value)}, which a model file cannot hold (it holds numbers, "
            "text, arrays, lists, dicts and the estimators of annealed); use pickle for it"
        )

    def _fields(self, state: Mapping[str, Any], place: str) -> dict[str, Any]:
        return {name: self.encode(value, _inside(place, name)) for name, value in state.items()}

    def _once(self, value: Any, encode: Callable[[], Any]) -> Any:
        """One array or divergence that stands in two places is written once."""
        if id(value) not in self._known:
            self._known[id(value)] = value, encode()
        return self._known[id(value)][1]

    def _sequence(self, items: Sequence[Any], place: str) -> Any:
        """A list, with what lists of objects, arrays and numbers have in common taken out."""
        types = {type(item) for item in items}
        if len(items) >= 2 and len(types) == 1:
            (cls,) = types
            if cls in self.names:
                states = [self.schemas[self.names[cls]].state_of(item) for item in items]
                if _alike(states):
                    self._count(len(items), place)
                    return {"kinds": self.names[cls], "columns": self._columns(states, place)}
            if cls is dict and _alike(items):
                self._count(len(items), place)
                return {"maps": self._columns(items, place)}
            if cls is np.ndarray and _stackable(items):
                self._count(len(items), place)
                return self._stack(items, place)
            if issubclass(cls, np.generic) and len({item.dtype for item in items}) == 1:
                self._count(len(items), place)
                return {"scalars": self._array(np.array(items), place)}
            if cls is str and len(items) >= LONG_TEXT:
                return self._text(items, place)
            if len(items) >= LONG:
                if cls is float:
                    return {"numbers": self._store(np.array(items), place)}
                if cls is int and all(item in INT64 for item in items):
                    return {"numbers": self._store(np.array(items, dtype=np.int64), place)}
                if cls is tuple and _integer_tuples(items):
                    return {"tuples": self._store(np.array(items, dtype=np.int64), place)}
        return [self.encode(item, f"{place}.{i}") for i, item in enumerate(items)]

    def _count(self, parts: int, place: str) -> None:
        self._parts += parts
        if self._parts > MOST_PARTS:
            raise CannotSaveError(
                f"the model holds too many separate parts for a model file ({place or 'it'} among "
                "them)"
            )

    def _columns(self, states: Sequence[dict[str, Any]], place: str) -> dict[str, Any]:
        """Objects of one kind, field by field."""
        return {
            column: self._sequence([state[column] for state in states], f"{place}.{column}")
            for column in states[0]
        }

    def _stack(self, items: Sequence[AnyArray], place: str) -> Any:
        lengths = [len(item) for item in items]
        return {
            "stack": self._store(np.concatenate(items), place),
            "lengths": self._lengths(lengths, place),
        }

    def _lengths(self, lengths: list[int], place: str) -> Any:
        """How arrays were cut; those of one object are mostly cut alike."""
        key = tuple(lengths)
        if key not in self._cuts:
            self._cuts[key] = self._sequence(lengths, f"{place}.lengths")
        return self._cuts[key]

    def _text(self, items: Sequence[str], place: str) -> Any:
        parts = [item.encode("utf-8", "surrogatepass") for item in items]
        return {
            "text": self._store(np.frombuffer(b"".join(parts), dtype=np.uint8), place),
            "lengths": self._lengths([len(part) for part in parts], place),
        }

    def _array(self, array: AnyArray, place: str) -> Any:
        if array.dtype.newbyteorder("=") in NAMES:
            stored = {"array": self._store(array, place)}
            if array.flags.f_contiguous and not array.flags.c_contiguous:
                stored["order"] = "F"  # sums over it must be taken in the same order again
            return stored
        if array.dtype.kind == "U":
            texts = array.reshape(-1).tolist()
            values = self._sequence(texts, place)
            return {"strings": values, "shape": list(array.shape), "width": _width(array, texts)}
        if array.dtype == object:
            values = self._sequence(array.reshape(-1).tolist(), place)
            return {"objects": values, "shape": list(array.shape)}
        raise CannotSaveError(
            f"{place} is an array of {array.dtype}, which a model file cannot hold"
        )

    def _store(self, array: AnyArray, place: str) -> str:
        name = place
        while name in self.arrays:  # a key that looks like a path
            name += "'"
        self.arrays[name] = array
        return name

    def _divergence(self, divergence: BregmanDivergence) -> int:
        if type(divergence) is Mahalanobis:
            matrix = self.encode(divergence.A, "divergence.matrix")
            self.divergences.append({"name": divergence.name, "matrix": matrix})
        elif BUILT_IN.get(divergence.name) is type(divergence):
            self.divergences.append({"name": divergence.name})
        else:
            if self.custom is not None:
                raise CannotSaveError(
                    f"the model has two divergences of your own making, {self.custom.name!r} and "
                    f"{divergence.name!r}; a model file can name one"
                )
            self.custom = divergence
            domain = [self.encode(end, "divergence") for end in (divergence.low, divergence.high)]
            self.divergences.append({"name": divergence.name, "custom": True, "domain": domain})
        return len(self.divergences) - 1


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _article(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _width(array: AnyArray, texts: Sequence[str]) -> int:
    """Characters of the longest text there is room for, unless there is far too much room."""
    longest = max(map(len, texts), default=1)
    return min(array.dtype.itemsize // 4, SPARE_WIDTH * (longest + 1))


def _alike(states: Sequence[dict[Any, Any]]) -> bool:
    """Whether all have the same fields, at least one."""
    first = list(states[0])
    return bool(first) and all(
        list(state) == first and all(type(key) is str for key in state) for state in states
    )


def _stackable(items: Sequence[AnyArray]) -> bool:
    first = items[0]
    return first.ndim > 0 and all(
        item.dtype == first.dtype
        and item.dtype in NAMES
        and item.shape[1:] == first.shape[1:]
        and item.ndim == first.ndim
        and item.flags.c_contiguous
        for item in items
    )


def _integer_tuples(items: Sequence[tuple[Any, ...]]) -> bool:
    return len({len(item) for item in items}) == 1 and all(
        type(n) is int and n in INT64 for item in items for n in item
    )


def _scalar_type(value: np.generic, place: str) -> str:
    if value.dtype.kind == "U":
        return "str"
    if value.dtype not in NAMES:
        raise CannotSaveError(f"{place} is of type {value.dtype}, which a model file cannot hold")
    return NAMES[value.dtype]


def _random_state(value: Any, place: str) -> dict[str, Any]:
    legacy = isinstance(value, np.random.RandomState)
    state = value.get_state(legacy=False) if legacy else value.bit_generator.state
    if state["bit_generator"] not in ("MT19937", "PCG64"):
        raise CannotSaveError(
            f"{place} is a random generator of the kind {state['bit_generator']}; a model file "
            "holds MT19937 and PCG64"
        )
    return {"legacy": legacy, **state}
