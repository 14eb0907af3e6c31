"""What features, classes and clusters are called in pictures and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def name_features(names: Sequence[Any] | None, d: int) -> list[str]:
    """The given names, or "feature 0", "feature 1", ..."""
    if names is None:
        return [f"feature {j}" for j in range(d)]
    if len(names) != d:
        raise ValueError(f"{len(names)} feature names were given for {d} features")
    return [str(name) for name in names]


def feature_index(feature: int | str, names: Sequence[str], d: int) -> int:
    """Which column a feature given by index or by name is."""
    if isinstance(feature, str) and feature not in names:
        raise ValueError(f"no feature is called {feature!r}; known names: {list(names)}")
    index = list(names).index(feature) if isinstance(feature, str) else int(feature)
    if not 0 <= index < d:
        raise ValueError(f"feature must be an index from 0 to {d - 1}, got {feature!r}")
    return index


def name_classes(class_names: Sequence[Any] | None, n_classes: int) -> list[str]:
    """The names themselves where they are words, "class 3" where they are numbers."""
    labels = range(n_classes) if class_names is None else class_names
    return [label if isinstance(label, str) else f"class {label}" for label in labels]


def name_clusters(n: int) -> list[str]:
    """Clusters by their numbers, as ``predict`` gives them."""
    return [f"cluster {i}" for i in range(n)]
