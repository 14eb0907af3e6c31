"""What a file holds of the objects of a class, derived from what the class says of itself.

`annealed.stored` tells how a class says it. `classes` lists the classes that a file may hold.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import numbers
import types
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from annealed.stored import MalformedError, Positive, Rule, Since, State, Stored, StoredAs, require


class CannotSaveError(ValueError):
    """Something that a model file cannot hold."""


# -- from an annotation to a rule ------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


_PLAIN = {
    Any: Rule(lambda v: True, "anything"),
    None: Rule(lambda v: v is None, "None"),
    type(None): Rule(lambda v: v is None, "None"),
    bool: Rule(lambda v: type(v) is bool, "true or false"),
    str: Rule(lambda v: type(v) is str, "a text"),
    int: Rule(_is_whole, "a whole number"),
    float: Rule(_is_number, "a number"),
    np.ndarray: Rule(lambda v: isinstance(v, np.ndarray), "an array"),
}


def rule_of(annotation: Any) -> Rule:
    """The rule that an annotation stands for; TypeError if it stands for none."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        rules = [rule_of(parts[0]), *(part for part in parts[1:] if isinstance(part, Rule))]
        words = " ".join(rule.words for rule in rules)
        return Rule(lambda v: all(rule.allows(v) for rule in rules), words)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin in (Union, types.UnionType):
        choices = [rule_of(part) for part in parts]
        words = " or ".join(rule.words for rule in choices)
        return Rule(lambda v: any(rule.allows(v) for rule in choices), words)
    if origin is np.ndarray:
        (scalar,) = get_args(parts[1])
        return _PLAIN[np.ndarray] if scalar is Any else _array_rule(np.dtype(scalar))
    if origin is list:
        return _items_rule(list, rule_of(parts[0]))
    if origin is tuple:
        if parts[1:] == (...,):
            return _items_rule(tuple, rule_of(parts[0]))
        return _tuple_rule([rule_of(part) for part in parts])
    if origin is dict:
        return _table_rule(*map(rule_of, parts))
    if isinstance(annotation, type):
        article = "an" if annotation.__name__[0] in "AEIOUaeiou" else "a"
        return Rule(lambda v: isinstance(v, annotation), f"{article} {annotation.__name__}")
    raise TypeError(f"{annotation!r} does not say what a model file may hold")


def _array_rule(dtype: np.dtype[Any]) -> Rule:
    return Rule(lambda v: isinstance(v, np.ndarray) and v.dtype == dtype, f"an array of {dtype}")


def _items_rule(kind: type[list[Any]] | type[tuple[Any, ...]], item: Rule) -> Rule:
    return Rule(
        lambda v: type(v) is kind and all(map(item.allows, v)),
        f"a {kind.__name__} of which each is {item.words}",
    )


def _tuple_rule(items: list[Rule]) -> Rule:
    def allows(v: Any) -> bool:
        fits = type(v) is tuple and len(v) == len(items)
        return fits and all(rule.allows(part) for rule, part in zip(items, v, strict=True))

    return Rule(allows, f"a tuple of {' and '.join(rule.words for rule in items)}")


def _table_rule(key: Rule, value: Rule) -> Rule:
    def allows(v: Any) -> bool:
        return type(v) is dict and all(key.allows(k) and value.allows(v[k]) for k in v)

    return Rule(allows, f"a table from {key.words} to {value.words}")


# -- from a class to its schema --------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """What a class says of one field.

    Parameters
    ----------
    rule : Rule
    stored : bool
        If not, what it holds is made again when it is asked for.
    required : bool
    older : Since or None
        What it was in files written before it was there.
    """

    rule: Rule
    stored: bool = True
    required: bool = True
    older: Since | None = None

    @classmethod
    def of(cls, annotation: Any, *, required: bool = True) -> Field:
        """What an annotation says."""
        notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        if Stored.NEVER in notes:
            return cls(_PLAIN[Any], stored=False, required=False)
        stands_for = next((note for note in notes if isinstance(note, StoredAs)), None)
        return cls(
            rule_of(annotation if stands_for is None else stands_for.annotation),
            required=required and Stored.ONCE_SET not in notes,
            older=next((note for note in notes if isinstance(note, Since)), None),
        )


class Schema:
    """What a file holds of the objects of one class: a dataclass or a NamedTuple.

    Parameters
    ----------
    cls : type
    declared_in : type, optional
        The class whose annotations and ``check_stored`` say so; left out, the class itself.
    """

    def __init__(self, cls: type, declared_in: type | None = None) -> None:
        self.cls, self.declared_in = cls, declared_in or cls
        self.fields = self._fields()

    def _fields(self) -> dict[str, Field]:
        return fields_of(self.declared_in)

    def state_of(self, value: Any) -> State:
        """The fields of an object that are to be saved."""
        state = self._taken(value)
        unknown = sorted(repr(name) for name in state if name not in self.fields)
        if unknown:
            raise CannotSaveError(
                f"{self.cls.__name__} carries {', '.join(unknown)}, which a model file has no "
                "place for; delete it from the object, or use pickle"
            )
        return {name: part for name, part in state.items() if self.fields[name].stored}

    def object_of(self, state: State) -> Any:
        """An object with these fields; MalformedError if there can be none."""
        name = self.cls.__name__
        for key in state:
            if key not in self.fields or not self.fields[key].stored:
                raise MalformedError(
                    f"it holds {name}.{key}, which this version of annealed does not know: it was "
                    "written by a newer one, so update annealed"
                )
        for key, field in self.fields.items():
            if not field.stored:
                continue
            if key not in state and field.older is not None:
                state[key] = copy.deepcopy(field.older.before)
            if key in state:
                require(field.rule.allows(state[key]), f"{name}.{key} is not {field.rule.words}")
            else:
                require(not field.required, f"{name} lacks {key!r}")
        if hasattr(self.declared_in, "check_stored"):
            self.declared_in.check_stored(state)
        return self._made(state)

    def _taken(self, value: Any) -> State:
        """What pickle would take, unless the class says that it cannot be held by a file."""
        if hasattr(value, "check_storable"):
            try:
                value.check_storable()
            except ValueError as error:
                raise CannotSaveError(str(error)) from None
        if isinstance(value, tuple):
            return dict(value._asdict())  # type: ignore[attr-defined]
        return dict(value.__getstate__())

    def _made(self, state: State) -> Any:
        """What pickle would make; what is not stored has the default that stands with its class."""
        if issubclass(self.cls, tuple):
            return self.cls(**state)
        made: Any = object.__new__(self.cls)
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            made.__dict__.update(state)
        return made


def fields_of(cls: type) -> dict[str, Field]:
    """What a class of annotated fields says of them."""
    hints = get_type_hints(cls, include_extras=True)
    if not dataclasses.is_dataclass(cls):
        return {name: _field(cls, name, hint) for name, hint in hints.items()}
    found = {}
    for field in dataclasses.fields(cls):
        said = found[field.name] = _field(cls, field.name, hints[field.name])
        if said.stored and not field.init and field.default is not dataclasses.MISSING:
            raise TypeError(
                f"{cls.__name__}.{field.name}: dataclasses leave such a default with the class, "
                "where no file would find it; set it in __post_init__"
            )
    return found


def _field(cls: type, name: str, hint: Any, *, required: bool = True) -> Field:
    try:
        return Field.of(hint, required=required)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{name}: {error}") from None


class EstimatorSchema(Schema):
    """What a file holds of an estimator: its parameters, and what it has learnt.

    What it learns are the attributes annotated in its class and those it derives from within this
    package; none of them is there before it has.
    """

    # What scikit-learn adds to an estimator.
    SHARED: ClassVar[dict[str, Any]] = {
        "parameters": State,
        "n_features_in_": Positive,
        "feature_names_in_": Annotated[
            np.ndarray,
            Rule(lambda v: v.dtype == object and v.ndim == 1, "of names"),
            Rule(lambda v: all(type(name) is str for name in v), "that are text"),
        ],
        "_sklearn_output_config": State,
        "_metadata_request": Annotated[Any, Stored.NEVER],
    }

    def _fields(self) -> dict[str, Field]:
        hints = get_type_hints(self.declared_in, include_extras=True)
        own = {
            name
            for base in self.declared_in.__mro__
            if base.__module__.startswith("annealed.")
            for name in inspect.get_annotations(base)
            if get_origin(hints[name]) is not ClassVar
        }
        learnt = {name: hints[name] for name in hints if name in own - self._parameter_names()}
        return {
            name: _field(self.cls, name, hint, required=name == "parameters")
            for name, hint in {**self.SHARED, **learnt}.items()
        }

    def _parameter_names(self) -> set[str]:
        return set(self.cls._get_param_names())  # type: ignore[attr-defined]

    def _taken(self, estimator: Any) -> State:
        """Parameters and what was learnt; callbacks are functions and stay behind."""
        state = super()._taken(estimator)
        parameters = {name: state.pop(name) for name in estimator.get_params(deep=False)}
        if parameters.get("callbacks"):
            parameters["callbacks"] = None
        for name, value in parameters.items():
            if callable(value) and not isinstance(value, type):
                raise CannotSaveError(
                    f"{type(estimator).__name__}({name}=...) is a function of yours, which a model "
                    f"file cannot hold. For scoring give the name of a scorer, or set_params("
                    f"{name}=None) once it has done its work; or use pickle"
                )
        return {"parameters": parameters, **state}

    def object_of(self, state: State) -> Any:
        """An estimator with these parameters, which has learnt this."""
        names = state.get("feature_names_in_")
        require(
            names is None or np.shape(names) == (state.get("n_features_in_"),),
            "features lack a name",
        )
        return super().object_of(state)

    def _made(self, state: State) -> Any:
        parameters, known = state.pop("parameters"), self._parameter_names()
        unknown = [name for name in parameters if name not in known]
        if unknown:
            raise MalformedError(
                f"it holds the parameter {self.cls.__name__}.{unknown[0]}, which this version of "
                "annealed does not know: it was written by a newer one, so update annealed"
            )
        estimator = self.cls(**parameters)
        estimator.__dict__.update(state)
        return estimator


class PlainSchema(Schema):
    """What a file holds of an object that says itself, in plain values, what it has learnt.

    Its class has ``to_state`` and ``from_state``; a TypedDict declares the values.
    """

    def _taken(self, value: Any) -> State:
        return dict(value.to_state())

    def _made(self, state: State) -> Any:
        return self.cls.from_state(state)  # type: ignore[attr-defined]
