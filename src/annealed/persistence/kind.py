"""What a model file may hold besides plain values: a class, its fields, and what each may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from annealed.estimators.parameters import Rule


class CannotSaveError(ValueError):
    """Something that a model file cannot hold."""


class MalformedError(ValueError):
    """A tree that no model was ever written as."""


@dataclass(frozen=True)
class Kind:
    """A class whose objects a file may hold.

    Parameters
    ----------
    cls : type
    fields : mapping of str to Rule
        Its state: what every field must be.
    may_lack : collection of str
        Fields that are not there at first (a class that warms up has no temperature).
    defaults : mapping of str to object
        Values of fields that files of earlier versions do not have.
    left_out : collection of str
        Fields that are not saved: what they hold is made again when it is asked for.
    check : callable
        Called with the fields of an object before it is made; raises ValueError unless they fit
        each other.
    take, make : callable
        How the state is taken from an object and how an object is made of it. Left out, what pickle
        would do: ``__getstate__`` and ``__setstate__``, or all attributes.
    """

    cls: type
    fields: Mapping[str, Rule]
    may_lack: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    check: Callable[[dict[str, Any]], None] | None = None
    take: Callable[[Any], dict[str, Any]] | None = None
    make: Callable[[type, dict[str, Any]], Any] | None = None

    def state_of(self, value: Any) -> dict[str, Any]:
        """The fields of an object that are to be saved."""
        state = (self.take or _state_of)(value)
        state = {name: part for name, part in state.items() if name not in self.left_out}
        unknown = set(state) - set(self.fields)
        if unknown:
            names = ", ".join(sorted(map(repr, unknown)))
            raise CannotSaveError(
                f"{self.cls.__name__} carries {names}, which a model file has no place for; "
                "delete it from the object, or use pickle"
            )
        return state

    def object_of(self, state: dict[str, Any]) -> Any:
        """An object with these fields."""
        unknown = [name for name in state if name not in self.fields]
        if unknown:
            raise MalformedError(
                f"it holds {self.cls.__name__}.{unknown[0]}, which this version of annealed does "
                "not know: it was written by a newer one, so update annealed"
            )
        for name, value in self.defaults.items():
            state.setdefault(name, value)
        for name, rule in self.fields.items():
            if name not in state:
                if name not in self.may_lack:
                    raise MalformedError(f"{self.cls.__name__} lacks {name!r}")
            elif not rule.allows(state[name]):
                raise MalformedError(f"{self.cls.__name__}.{name} is not {rule.words}")
        if self.check is not None:
            self.check(state)
        return (self.make or _object_of)(self.cls, state)


def _state_of(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):
        return dict(value._asdict())  # type: ignore[attr-defined]
    return dict(value.__getstate__())


def _object_of(cls: type, state: dict[str, Any]) -> Any:
    if issubclass(cls, tuple):
        return cls(**state)
    made: Any = object.__new__(cls)
    if hasattr(cls, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state)
    return made
