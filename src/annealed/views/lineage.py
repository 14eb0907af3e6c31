"""Where codevectors stand in a picture, and which branch of the tree they belong to.

Numbers only: the pictures that need matplotlib and the one that does not both start from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers
from annealed.views.colours import PALETTE

# More branches than this have no colours of their own.
MOST_BRANCHES = 2 * len(PALETTE)


def require_fitted(estimator: Any, attribute: str = "path_") -> None:
    """Raise NotFittedError before a fit, and TypeError if there is nothing of that kind to draw."""
    if hasattr(type(estimator), attribute):
        return
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute} to draw: of a pipeline give its last "
            "step, of a TabularModel its estimator_"
        )


def require_levels(path: AnnealingPath) -> None:
    """Raise ValueError if the path has nothing to draw."""
    if not len(path):
        raise ValueError("no level is finished yet, so there is no path to draw")


def principal_axes(rows: Array, n_axes: int) -> tuple[Array, Array, Array]:
    """Mean of rows, the directions they differ most in, and the share of variance of each.

    Directions are rows of an array of shape (n_axes, d), turned so that their largest entry is
    positive; where there are fewer, zeros take their place.
    """
    middle = rows.mean(axis=0)
    _, stretch, axes = np.linalg.svd(rows - middle, full_matrices=False)
    found = min(n_axes, len(axes))
    directions, share = np.zeros((n_axes, rows.shape[1])), np.zeros(n_axes)
    largest = np.abs(axes[:found]).argmax(axis=1)
    turn = np.sign(axes[np.arange(found), largest])
    directions[:found] = axes[:found] * np.where(turn == 0, 1.0, turn)[:, None]
    share[:found] = stretch[:found] ** 2 / max(float(stretch @ stretch), 1e-300)
    return middle, directions, share


def feature_index(feature: int | str, names: Sequence[str], d: int) -> int:
    """Which column a feature given by index or by name is."""
    if isinstance(feature, str) and feature not in names:
        raise ValueError(f"no feature is called {feature!r}; known names: {list(names)}")
    index = list(names).index(feature) if isinstance(feature, str) else int(feature)
    if not 0 <= index < d:
        raise ValueError(f"feature must be an index from 0 to {d - 1}, got {feature!r}")
    return index


def name_features(names: Sequence[Any] | None, d: int) -> list[str]:
    """The given names, or "feature 0", "feature 1", ..."""
    if names is None:
        return [f"feature {j}" for j in range(d)]
    if len(names) != d:
        raise ValueError(f"{len(names)} feature names were given for {d} features")
    return [str(name) for name in names]


def project(
    path: AnnealingPath, feature: int | str | None, feature_names: Sequence[str] | None
) -> tuple[list[Array], str]:
    """Positions of every level's codevectors on one axis, and its name.

    The axis is a feature or, left out, the direction in which the coldest codevectors differ most.
    """
    d = path[0].codevectors.shape[1]
    if feature is None and d > 1:
        middle, (direction,), (share,) = principal_axes(path[-1].codevectors, 1)
        name = f"first principal component ({share:.0%} of variance)"
        return [(level.codevectors - middle) @ direction for level in path], name
    known = [] if feature_names is None else [str(name) for name in feature_names]
    index = feature_index(0 if feature is None else feature, known, d)
    return [level.codevectors[:, index] for level in path], name_features(known or None, d)[index]


def name_classes(class_names: Sequence[Any] | None, n_classes: int) -> list[str]:
    """The names themselves where they are words, "class 3" where they are numbers."""
    labels = range(n_classes) if class_names is None else class_names
    return [label if isinstance(label, str) else f"class {label}" for label in labels]


def find_branches(
    path: AnnealingPath,
    *,
    class_names: Sequence[Any] | None = None,
    n_codevectors: int = 0,
    nodes: Sequence[int] | None = None,
) -> tuple[list[Integers], list[str]]:
    """For every level, the branch of each codevector (-1: several are still one); their names.

    Branches are classes if there are several (without names if too many for colours). Otherwise
    they are the codevectors of the model in use, given by their ``nodes`` in the tree or by their
    number, if there are colours for as many; else the parts the first splits make, without names.
    """
    n_classes = max(int(level.classes.max()) for level in path) + 1
    if n_classes > 1:
        names = name_classes(class_names, n_classes)
        return [level.classes for level in path], names if n_classes <= MOST_BRANCHES else []
    most = 1 + len(path.splits)
    known = {int(node) for level in path for node in level.nodes}
    if nodes is not None and 1 < len(nodes) <= MOST_BRANCHES and known.issuperset(nodes):
        heads, named = [int(node) for node in nodes], True
    else:
        named = 1 < n_codevectors <= min(MOST_BRANCHES, most)
        parts = n_codevectors if named else min(len(PALETTE), most)
        heads = path.codebook(parts).nodes.tolist()
    names = [f"cluster {i}" for i in range(len(heads))] if named else []
    return trace_branches(path, heads), names


def trace_branches(path: AnnealingPath, heads: Sequence[int]) -> list[Integers]:
    """For every level of a path of one class, under which head each codevector stands (-1: none).

    A head stands for its ancestors too as long as no other head descends from them.
    """
    mother = {child: split.parent for split in path.events for child in split.children}
    below: dict[int, int] = {}
    for head in heads:
        for node in _line(head, mother):
            below[node] = below.get(node, 0) + 1
    place: dict[int, int] = {}
    for i, head in enumerate(heads):
        place.update({node: i for node in _line(head, mother) if below[node] == 1})

    def branch(node: int) -> int:
        return next((place[above] for above in _line(node, mother) if above in place), -1)

    return [np.array([branch(n) for n in level.nodes.tolist()], dtype=np.int64) for level in path]


def _line(node: int, mother: dict[int, int]) -> Iterable[int]:
    """The node, its mother, her mother, ..."""
    yield node
    while node in mother:
        node = mother[node]
        yield node


def lasting_codevectors(path: AnnealingPath) -> list[NDArray[np.bool_]]:
    """For every level, which codevectors live on to the coldest one."""
    lasting = [np.ones(path[-1].n_codevectors, dtype=bool)]
    for k in range(len(path) - 1, 0, -1):
        mothers = path[k].parents[lasting[-1]]
        lasting.append(np.isin(np.arange(path[k - 1].n_codevectors), mothers))
    return lasting[::-1]


def follow_up(
    path: AnnealingPath, positions: list[Array], level: int, index: int, temperature: float
) -> float:
    """Where the codevector ``index`` of a level, or what it comes from, stood at a temperature."""
    k, i = level, index
    while k > 0 and path[k - 1].temperature <= temperature and path[k].parents[i] >= 0:
        i, k = int(path[k].parents[i]), k - 1
    if k == 0 or path[k].temperature >= temperature or path[k].parents[i] < 0:
        return float(positions[k][i])
    between = np.log([path[k].temperature, path[k - 1].temperature])
    ends = positions[k][i], positions[k - 1][int(path[k].parents[i])]
    return float(np.interp(np.log(temperature), between, ends))


def in_use(path: AnnealingPath, current: tuple[float, int] | None) -> tuple[float, int] | None:
    """T and K of the model in use, T being that of a level.

    A polish or fine-tuning leaves a temperature of its own; the level it started from is meant.
    """
    if current is None or np.isclose(path.temperatures, current[0], rtol=1e-9, atol=0).any():
        return current
    K = current[1]
    reachable = 0 <= K - len(np.unique(path[0].classes)) <= len(path.ordered_splits)
    return (path.codebook(K) if reachable else path[-1]).temperature, K
