"""How much a test tries: little every day, all of it when asked (HYPOTHESIS_PROFILE=thorough)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "everyday")
for name, max_examples in (("everyday", 15), ("thorough", 500)):
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


def examples(everyday):
    """Settings of a property whose examples are dear: half as many, or twenty times as many."""
    return settings(max_examples=tries(-(-everyday // 2), 20 * everyday))
