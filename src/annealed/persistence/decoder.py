"""Out of a model file: what `encoder` has written, and nothing else.

Only objects of the classes that are handed over are ever made, nothing that is read is ever called,
and nothing is made larger than the arrays of the file vouch for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from annealed.divergences import BregmanDivergence
from annealed.persistence.container import NAMES, AnyArray
from annealed.persistence.encoder import INT64, MOST_PARTS, SPARE_WIDTH
from annealed.persistence.schema import Schema
from annealed.stored import MalformedError

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Decoder:
    """Turns JSON and arrays back into values; MalformedError for what `Encoder` never wrote.

    Parameters
    ----------
    schemas : mapping of str to Schema
    arrays : mapping of str to ndarray
    divergences : list of BregmanDivergence
    """

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        arrays: Mapping[str, AnyArray],
        divergences: Sequence[BregmanDivergence] = (),
    ) -> None:
        self.schemas, self.arrays, self.divergences = schemas, arrays, divergences
        self._parts_left = MOST_PARTS

    def decode(self, node: Any) -> Any:
        """The value behind a node of the tree."""
        if node is None or isinstance(node, (bool, str, float)):
            return node
        if isinstance(node, int):
            if node not in INT64:
                raise MalformedError("a number is too large")
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        tag = next(iter(node), None)
        if tag not in self._READERS or set(node) - {tag} - set(self._READERS[tag][1]):
            raise MalformedError(f"nothing is known of an object with the keys {_shown(node)}")
        return self._READERS[tag][0](self, node)

    def _count(self, parts: int) -> None:
        """Objects cut from an array: a number there can become a hundred bytes here."""
        self._parts_left -= parts
        if self._parts_left < 0:
            raise MalformedError(f"it has more than {MOST_PARTS} parts")

    def _array_named(self, name: Any, dtype: Any = None, ndim: int | None = None) -> AnyArray:
        array = self.arrays.get(name) if isinstance(name, str) else None
        if array is None:
            raise MalformedError(f"it names an array {str(name)[:60]!r} that is not there")
        if (dtype is not None and array.dtype != dtype) or (
            ndim is not None and array.ndim != ndim
        ):
            raise MalformedError(f"array {name!r} is of the wrong type or shape")
        return array

    def _list(self, node: Any) -> list[Any]:
        value = self.decode(node)
        if not isinstance(value, list):
            raise MalformedError("there is something else where a list belongs")
        return value

    def _int(self, node: Any) -> int:
        digits = node["int"]
        if not isinstance(digits, str) or len(digits) > 40:
            raise MalformedError("a number is too large")
        return int(digits)

    def _float(self, node: Any) -> float:
        if node["float"] not in NON_FINITE:
            raise MalformedError("a number is not one")
        return NON_FINITE[node["float"]]

    def _array(self, node: Any) -> AnyArray:
        array = self._array_named(node["array"])
        return np.asfortranarray(array) if node.get("order") == "F" else array

    def _scalar(self, node: Any) -> np.generic:
        kind, value = self._two(node["scalar"])
        value = self.decode(value)
        if kind == "str" and isinstance(value, str):
            return np.str_(value)
        for dtype, name in NAMES.items():
            if name == kind and isinstance(value, (bool, int, float)):
                try:
                    scalar: np.generic = dtype.type(value)
                except (OverflowError, ValueError):
                    raise MalformedError("a number does not fit its type") from None
                return scalar
        raise MalformedError("a number is of an unknown type")

    def _two(self, node: Any) -> tuple[Any, Any]:
        if not isinstance(node, list) or len(node) != 2:
            raise MalformedError("there is something else where a pair belongs")
        return node[0], node[1]

    def _tuple(self, node: Any) -> tuple[Any, ...]:
        return tuple(self._list(node["tuple"]))

    def _map(self, node: Any) -> dict[str, Any]:
        if not isinstance(node["map"], dict):
            raise MalformedError("there is something else where a table belongs")
        return {key: self.decode(value) for key, value in node["map"].items()}

    def _pairs(self, node: Any) -> dict[Any, Any]:
        keys, values = (self._list(part) for part in self._two(node["pairs"]))
        if len(keys) != len(values) or not all(_is_key(key) for key in keys):
            raise MalformedError("keys and values of a table do not match")
        return dict(zip(keys, values, strict=True))

    def _numbers(self, node: Any) -> list[Any]:
        return list(self._array_named(node["numbers"], ndim=1).tolist())

    def _tuples(self, node: Any) -> list[tuple[int, ...]]:
        return [tuple(row) for row in self._array_named(node["tuples"], np.int64, 2).tolist()]

    def _stack(self, node: Any) -> list[AnyArray]:
        rows = self._array_named(node["stack"])
        if not rows.ndim:
            raise MalformedError("arrays are cut from a single number")
        ends = self._ends(node, len(rows))
        self._count(len(ends))
        return [rows[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def _ends(self, node: Any, total: int) -> list[int]:
        lengths = self._list(node.get("lengths"))
        if not all(type(n) is int and n >= 0 for n in lengths) or sum(lengths) != total:
            raise MalformedError("arrays are cut where there is nothing")
        return list(itertools.accumulate(lengths))

    def _text(self, node: Any) -> list[str]:
        text = self._array_named(node["text"], np.uint8, 1)
        ends = self._ends(node, len(text))
        data = text.tobytes()
        return [
            data[begin:end].decode("utf-8", "surrogatepass")
            for begin, end in zip([0, *ends], ends, strict=False)
        ]

    def _scalars(self, node: Any) -> list[Any]:
        array = self.decode(node["scalars"])
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype == object:
            raise MalformedError("there is something else where an array belongs")
        self._count(len(array))
        return list(array)

    def _labels(self, node: Any) -> AnyArray:
        tag = "strings" if "strings" in node else "objects"
        values, shape = self._list(node[tag]), node.get("shape")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise MalformedError("an array of text has an impossible shape")
        if len(shape) > 8 or math.prod(shape) != len(values) or max(shape, default=0) > 2**31:
            raise MalformedError("an array of text has an impossible shape")
        if tag == "objects":
            array = np.empty(len(values), dtype=object)
            array[:] = values
            return array.reshape(shape)
        width, longest = (
            node.get("width"),
            max((len(v) for v in values if type(v) is str), default=1),
        )
        if not all(type(v) is str for v in values) or type(width) is not int:
            raise MalformedError("an array of text holds something else")
        if not longest <= max(width, 1) <= SPARE_WIDTH * (longest + 1):
            raise MalformedError("an array of text has an impossible width")
        return np.array(values, dtype=f"<U{width}").reshape(shape)

    def _random(self, node: Any) -> Any:
        state = node["random"]
        if not isinstance(state, dict):
            raise MalformedError("a random generator has no state")
        state = {key: self.decode(value) for key, value in state.items()}
        return _generator(state)

    def _divergence(self, node: Any) -> BregmanDivergence:
        place = node["divergence"]
        if type(place) is not int or not 0 <= place < len(self.divergences):
            raise MalformedError("it names a divergence that is not there")
        return self.divergences[place]

    def _object(self, node: Any) -> Any:
        fields = node.get("fields")
        if not isinstance(fields, dict):
            raise MalformedError("an object has no fields")
        schema = self._schema(node["kind"])
        return schema.object_of({name: self.decode(value) for name, value in fields.items()})

    def _objects(self, node: Any) -> list[Any]:
        schema = self._schema(node["kinds"])
        return [schema.object_of(state) for state in self._rows(node.get("columns"))]

    def _maps(self, node: Any) -> list[dict[str, Any]]:
        return self._rows(node["maps"])

    def _rows(self, columns: Any) -> list[dict[str, Any]]:
        if not isinstance(columns, dict) or not columns:
            raise MalformedError("objects have no fields")
        decoded = {name: self._list(column) for name, column in columns.items()}
        if len({len(column) for column in decoded.values()}) != 1:
            raise MalformedError("objects have columns of different lengths")
        self._count(len(next(iter(decoded.values()))))
        rows = zip(*decoded.values(), strict=True)
        return [dict(zip(decoded, row, strict=True)) for row in rows]

    def _schema(self, name: Any) -> Schema:
        if not isinstance(name, str) or name not in self.schemas:
            raise MalformedError(
                f"it holds a {str(name)[:60]!r}, which this version of annealed does not know; "
                "if it was written by a newer one, update annealed"
            )
        return self.schemas[name]

    # What each first key means, and which keys may stand beside it.
    _READERS: ClassVar[dict[Any, tuple[Callable[[Any, Any], Any], tuple[str, ...]]]] = {
        "int": (_int, ()),
        "float": (_float, ()),
        "array": (_array, ("order",)),
        "scalar": (_scalar, ()),
        "scalars": (_scalars, ()),
        "strings": (_labels, ("shape", "width")),
        "objects": (_labels, ("shape",)),
        "tuple": (_tuple, ()),
        "map": (_map, ()),
        "pairs": (_pairs, ()),
        "numbers": (_numbers, ()),
        "tuples": (_tuples, ()),
        "stack": (_stack, ("lengths",)),
        "text": (_text, ("lengths",)),
        "random": (_random, ()),
        "divergence": (_divergence, ()),
        "kind": (_object, ("fields",)),
        "kinds": (_objects, ("columns",)),
        "maps": (_maps, ()),
    }


def _shown(node: Any) -> str:
    return ", ".join(repr(str(key)[:20]) for key in list(node)[:5]) or "(none)"


def _is_key(key: Any) -> bool:
    return isinstance(key, (str, int, float, bool, np.generic)) or key is None


def _generator(state: dict[str, Any]) -> Any:
    """A random generator; its state is checked here because numpy trusts it."""
    legacy, name = state.pop("legacy", None), str(state.get("bit_generator"))
    inner = state.get("state")
    if type(legacy) is not bool or not isinstance(inner, dict):
        raise MalformedError("a random generator has no state")
    if name == "MT19937":
        key, pos = inner.get("key"), inner.get("pos")
        good = (
            isinstance(key, np.ndarray)
            and key.dtype in (np.uint32, np.uint64)
            and key.shape == (624,)
            and type(pos) is int
            and 0 <= pos <= 624
        )
    else:
        numbers = [inner.get("state"), inner.get("inc")]
        good = name == "PCG64" and all(type(n) is int and 0 <= n < 2**128 for n in numbers)
    if legacy:
        good = good and state.get("has_gauss") in (0, 1) and type(state.get("gauss")) is float
    elif name == "PCG64":
        spare = state.get("uinteger")
        good = good and state.get("has_uint32") in (0, 1)
        good = good and type(spare) is int and 0 <= spare < 2**32
    if not good:
        raise MalformedError("the state of a random generator is impossible")
    if legacy:
        generator = np.random.RandomState(getattr(np.random, name)(0))
        generator.set_state(state)
        return generator
    bits = getattr(np.random, name)(0)
    bits.state = state
    return np.random.Generator(bits)
