"""What each parameter may be: checked by `fit` and `partial_fit`, never by `__init__`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from annealed.stored import Rule

__all__ = ["Rule", "check_parameters", "instance", "one_of", "real", "step_pair", "whole"]


def whole(low: int) -> Rule:
    """An integer of at least ``low``."""

    def allows(v: Any) -> bool:
        is_whole = isinstance(v, numbers.Integral) and not isinstance(v, bool)
        return is_whole and int(v) >= low

    return Rule(allows, f"an integer of at least {low}")


def real(low: float, high: float = math.inf, *, closed: bool = False) -> Rule:
    """A finite number between the two, the lower end excluded unless ``closed``."""

    def allows(v: Any) -> bool:
        if not isinstance(v, numbers.Real) or isinstance(v, bool):
            return False
        x = float(v)
        return math.isfinite(x) and (low <= x if closed else low < x) and x < high

    left = "at least" if closed else "above"
    words = f"a number {left} {low:g}" + ("" if math.isinf(high) else f" and below {high:g}")
    return Rule(allows, words)


def one_of(*choices: Any) -> Rule:
    """One of the values given."""
    words = " or ".join(repr(choice) for choice in choices)
    return Rule(lambda v: any(type(v) is type(c) and v == c for c in choices), words)


def instance(kind: type, words: str) -> Rule:
    """An object of a kind."""
    return Rule(lambda v: isinstance(v, kind), words)


def check_parameters(
    name: str, parameters: Mapping[str, Any], rules: Mapping[str, list[Rule]]
) -> None:
    """Raise ValueError naming the first parameter that no rule allows."""
    for parameter, allowed in rules.items():
        value = parameters[parameter]
        if not any(rule.allows(value) for rule in allowed):
            words = ", or ".join(rule.words for rule in allowed)
            raise ValueError(
                f"The {parameter!r} parameter of {name} must be {words}. Got {value!r} instead."
            )


def step_pair(name: str, alpha: Any) -> tuple[float, float]:
    """(a, b) of the steps 1/(a + b n); ValueError unless a >= 1 and b > 0.

    Then no step exceeds 1, and a step towards a sample never goes past it.
    """
    two = isinstance(alpha, tuple) and len(alpha) == 2
    if not two or not (real(1, closed=True).allows(alpha[0]) and real(0).allows(alpha[1])):
        raise ValueError(
            f"The 'alpha' parameter of {name} must be a pair (a, b) with a >= 1 and b > 0, for "
            f"steps 1/(a + b n). Got {alpha!r} instead."
        )
    return float(alpha[0]), float(alpha[1])
