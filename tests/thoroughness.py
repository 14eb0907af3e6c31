"""How much a test tries: little every day, all of it when asked (HYPOTHESIS_PROFILE=thorough)."""

from __future__ import annotations

import os
from itertools import product

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "everyday")
for name, max_examples in (("everyday", 10), ("thorough", 500)):
    settings.register_profile(
        name,
        deadline=None,
        max_examples=max_examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(PROFILE)


def tries(everyday, thorough):
    """How many seeds, files or rounds."""
    return thorough if PROFILE == "thorough" else everyday


def crossed(*choices):
    """Combinations of some choices: all of them, or every day so many that each value is tried."""
    if PROFILE == "thorough":
        return list(product(*choices))
    n = max(map(len, choices))
    # The longest goes on at every step, a shorter one after as many as its length goes into that.
    return [tuple(some[k // (n // len(some)) % len(some)] for some in choices) for k in range(n)]


def examples(everyday):
    """Settings of a property whose examples are dear: half as many, or twenty times as many."""
    return settings(max_examples=tries(-(-everyday // 2), 20 * everyday))
