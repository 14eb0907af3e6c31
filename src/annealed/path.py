"""The annealing path: every level from one codevector to the coldest, and the tree of splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, overload

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.stored import (
    Amount,
    Count,
    Indices,
    Matrix,
    Positive,
    Rung,
    Since,
    State,
    Vector,
    one_length,
    one_width,
    require,
)

if TYPE_CHECKING:
    import pandas as pd


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """A finished level: the model at one temperature.

    Attributes
    ----------
    temperature : float
        T.
    codevectors : ndarray of shape (K, d)
        mu_i.
    weights : ndarray of shape (K,)
        rho_i, summing to one within each class.
    classes : ndarray of shape (K,)
        c_i, as indices into the estimator's ``classes_`` (all 0 in clustering).
    nodes : ndarray of shape (K,)
        The place of each codevector in the tree of splits.
    parents : ndarray of shape (K,)
        For each codevector the index, in the level before, of the one it comes from (-1: none).
    samples : int
        Samples observed from the start to the end of this level.
    distortion, entropy : float
        D and H of eq. (F), estimated from the level's own samples before each was learnt.
    score : float
        Minus the distortion in clustering, accuracy in classification.
    clusters : ndarray of shape (K,) or None
        Number of the cluster of each codevector, -1 for those in none; None where each is a
        cluster of its own.
    """

    temperature: Amount
    codevectors: Matrix
    weights: Vector
    classes: Indices
    nodes: Indices
    parents: Indices
    samples: Count
    distortion: float
    entropy: float
    score: float
    clusters: Annotated[Indices | None, Since("0.2", None)] = None

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Every codevector has a weight, a class and a place in the tree."""
        one_length(
            "a level",
            *(state[name] for name in ("codevectors", "weights", "classes", "nodes", "parents")),
        )
        require((state["classes"] >= 0).all(), "a codevector has an impossible class")
        if state["clusters"] is not None:
            one_length("a level", state["codevectors"], state["clusters"])
            numbers = np.unique(state["clusters"][state["clusters"] != -1])
            require((numbers == np.arange(len(numbers))).all(), "a cluster has no codevector")

    @property
    def log_weights(self) -> Array:
        """log rho_i, -inf for a weight of 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    @property
    def n_codevectors(self) -> int:
        """K."""
        return len(self.codevectors)

    @property
    def codevector_clusters(self) -> Integers:
        """Number of the cluster of each codevector, -1 for those in none."""
        return np.arange(self.n_codevectors) if self.clusters is None else self.clusters

    @property
    def groups(self) -> Integers:
        """The same, but those in none are one more group, after the last."""
        clusters = self.codevector_clusters
        return np.where(clusters < 0, self.n_clusters, clusters)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.n_codevectors if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def free_energy(self) -> float:
        """F = D - T H."""
        return self.distortion - self.temperature * self.entropy

    def __repr__(self) -> str:
        return f"<Level T={self.temperature:.4g} K={self.n_codevectors}>"


@dataclass(frozen=True)
class Split:
    """One bifurcation: a codevector became two.

    ``critical_temperature`` is the estimate from the variance of its samples; ``level`` is the
    index of the first level on which the two stand apart. Nodes are numbered within a class.
    """

    class_index: Count
    parent: Count
    children: tuple[Positive, Positive]
    critical_temperature: float
    level: Rung

    @classmethod
    def check_stored(cls, state: State) -> None:
        """A parent is older than its children, so that nobody descends from himself."""
        first, second = state["children"]
        require(state["parent"] < first < second, "a split has children older than their parent")


def check_splits(splits: Iterable[Split]) -> None:
    """Every node comes from one parent that was there before it: the tree has no circles."""
    children = [child for split in splits for child in split.children]
    require(len(set(children)) == len(children), "a codevector comes from two splits")


def check_level(owner: str, level: Level, d: int | None, n_classes: int) -> None:
    """Raise MalformedError unless the level has d features and no class beyond n_classes."""
    one_width(owner, d, level.codevectors)
    require(level.classes.max() < n_classes, f"{owner} has a class that does not exist")


class AnnealingPath(Sequence[Level]):
    """The levels of an annealing, hottest first, and how the codevectors of one come from another.

    Parameters
    ----------
    levels : sequence of Level
    events : sequence of Split
        Every split, also those that were taken back when the two came together again.
    end_temperature : float, optional
        Where the coldest level stops being stable; left out, its own temperature.

    Examples
    --------
    >>> from annealed import ODAClustering
    >>> from sklearn.datasets import load_iris
    >>> path = ODAClustering(random_state=0).fit(load_iris().data).path_
    >>> path[0].n_codevectors
    1
    >>> path.codebook(3).codevectors.shape
    (3, 4)
    """

    def __init__(
        self,
        levels: Sequence[Level],
        events: Sequence[Split],
        end_temperature: float | None = None,
    ) -> None:
        self.levels = tuple(levels)
        self.events = tuple(events)
        if end_temperature is None:
            end_temperature = self.levels[-1].temperature if self.levels else np.nan
        self.end_temperature = end_temperature

    @overload
    def __getitem__(self, index: int) -> Level: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Level, ...]: ...
    def __getitem__(self, index: int | slice) -> Level | tuple[Level, ...]:
        return self.levels[index]

    def __len__(self) -> int:
        return len(self.levels)

    def __iter__(self) -> Iterator[Level]:
        return iter(self.levels)

    def __repr__(self) -> str:
        if not self.levels:
            return "<AnnealingPath, no level finished yet>"
        first, last = self.levels[0], self.levels[-1]
        return (
            f"<AnnealingPath of {len(self)} levels, T {first.temperature:.3g} to "
            f"{last.temperature:.3g}, K {first.n_codevectors} to {last.n_codevectors}>"
        )

    def relabelled(self, classes: Integers, scores: Sequence[float] | None) -> AnnealingPath:
        """The same path with class c called ``classes[c]`` and, if given, other scores."""
        levels = [replace(level, classes=classes[level.classes]) for level in self]
        if scores is not None:
            levels = [replace(level, score=s) for level, s in zip(levels, scores, strict=True)]
        events = [
            replace(split, class_index=int(classes[split.class_index])) for split in self.events
        ]
        return AnnealingPath(levels, events, self.end_temperature)

    @property
    def temperatures(self) -> Array:
        """T of every level."""
        return np.array([level.temperature for level in self])

    @property
    def n_codevectors(self) -> Integers:
        """K of every level."""
        return np.array([level.n_codevectors for level in self], dtype=np.int64)

    def to_frame(self) -> pd.DataFrame:
        """One row per level: T, K, samples, D, H, F, score (needs pandas)."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ImportError(
                "to_frame() needs pandas, which is not installed: pip install pandas"
            ) from None

        columns = {
            "temperature": "temperature",
            "n_codevectors": "n_codevectors",
            "samples": "samples",
            "distortion": "distortion",
            "entropy": "entropy",
            "free_energy": "free_energy",
            "score": "score",
        }
        frame = pd.DataFrame(
            {name: [getattr(level, field) for level in self] for name, field in columns.items()}
        )
        frame.index.name = "level"
        return frame

    # -- the tree ------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """Splits of which both sides live on to the coldest level, in the order they happened."""
        if not self.levels:
            return ()
        last = self.levels[-1]
        alive = set(zip(last.classes.tolist(), last.nodes.tolist(), strict=True))
        lasting = []
        for split in reversed(self.events):  # children split after their parents
            sides = [(split.class_index, child) in alive for child in split.children]
            if all(sides):
                lasting.append(split)
            if any(sides):
                alive.add((split.class_index, split.parent))
        return tuple(reversed(lasting))

    @cached_property
    def ordered_splits(self) -> tuple[tuple[Split, float], ...]:
        """Lasting splits from the hottest to the coldest, each with the temperature it counts at.

        A split counts at its critical temperature, but never above its parent's: a structure that
        was noticed late is put where it belongs. This is the order that makes the tree binary and
        gives every K a place on the path.
        """
        lasting = set(map(id, self.splits))
        counted: dict[tuple[int, int], float] = {}
        rows = []
        for place, split in enumerate(self.events):
            T = counted.get((split.class_index, split.parent), np.inf)
            if id(split) in lasting:
                own = split.critical_temperature
                T = min(T, own if np.isfinite(own) else self.levels[split.level].temperature)
                rows.append((-T, place, split))
            for child in split.children:
                counted[split.class_index, child] = T
        return tuple((split, -T) for T, _, split in sorted(rows, key=lambda row: row[:2]))

    def persistence(self) -> Array:
        """For K = 1, 2, ...: over how long a stretch of log T the path has K codevectors.

        Entry K - 1 belongs to K. The stretch of the coldest K ends with the path.
        """
        if not self.levels:
            return np.empty(0)
        groups = len(np.unique(self.levels[0].classes))
        at = [T for _, T in self.ordered_splits]
        end = min([self.end_temperature, *at[-1:]])
        edges = np.array([max([self.levels[0].temperature, *at[:1]]), *at, end])
        return np.concatenate([np.zeros(groups - 1), np.log(edges[:-1] / edges[1:])])

    def until(self, K_max: int) -> AnnealingPath:
        """The path as it would be had it ended before its first level of more than K_max."""
        beyond = np.flatnonzero(self.n_codevectors > K_max)
        if not len(beyond):
            return self
        end = int(beyond[0])
        pending = [s.critical_temperature for s in self.events if s.level == end]
        T = self.levels[end - 1].temperature
        return AnnealingPath(
            self.levels[:end],
            [split for split in self.events if split.level < end],
            float(min(np.nanmax(pending, initial=self.levels[end].temperature), T)),
        )

    def codebook(self, n_codevectors: int) -> Level:
        """The model with exactly that many codevectors.

        It is the coldest level before the next split that lasts, splits in the order of their
        critical temperatures. Where many appear at one temperature that order means little: then
        it is the coldest level that has so many, and if there is none, the first that has the
        wanted ones, with the others undone.
        """
        first = len(np.unique(self.levels[0].classes)) if self.levels else 0
        used = n_codevectors - first
        exact = [level for level in self.levels if level.n_codevectors == n_codevectors]
        if not 0 <= used <= len(self.ordered_splits):
            if exact:  # some of its codevectors did not last
                return exact[-1]
            raise ValueError(
                f"no model with {n_codevectors} codevectors on this path: it has {first} to "
                f"{first + len(self.ordered_splits)}"
            )
        applied = [split for split, _ in self.ordered_splits[:used]]
        start = max((split.level for split in applied), default=0)
        later = [split.level for split, _ in self.ordered_splits[used:]]
        before = self.levels[start : min(later, default=len(self.levels))]
        inner = {(split.class_index, split.parent) for split in applied}
        whole = [level for level in before if level.n_codevectors == n_codevectors]
        for level in (*reversed(whole), *reversed(before), *exact[-1:], *self.levels[start:]):
            if not before and level.n_codevectors == n_codevectors:
                return level
            groups = self._groups(level, inner)
            # A codevector that is to vanish later may still stand by itself: not this level.
            if len(set(groups)) == n_codevectors:
                return _joined(level, groups)
        raise AssertionError("on the coldest level only lasting splits are left")

    def born_of(self, split: Split) -> NDArray[np.bool_]:
        """Which codevectors of a split's own level come of it.

        They are its children or, where a level has split more than once, what became of them.
        """
        level, above = self.levels[split.level], (split.class_index, split.parent)
        found = []
        for node in zip(level.classes.tolist(), level.nodes.tolist(), strict=True):
            while node != above and node in self._mother:
                node = self._mother[node]
            found.append(node == above)
        return np.array(found)

    def parent_of(self, node: int, class_index: int = 0) -> int:
        """The node it was split from."""
        return self._mother[class_index, node][1]

    def joined(self, level: Level, inner: set[tuple[int, int]]) -> Level:
        """The level with all splits undone but those of the ``inner`` (class, node) pairs."""
        return _joined(level, self._groups(level, inner))

    def _groups(self, level: Level, inner: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """The node each codevector belongs to when only the ``inner`` nodes are split."""
        mother, groups = self._mother, []
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for node in zip(level.classes.tolist(), level.nodes.tolist(), strict=True):
            passed = []
            while node not in found and node in mother and mother[node] not in inner:
                passed.append(node)
                node = mother[node]
            node = found.get(node, node)
            found.update(dict.fromkeys(passed, node))
            groups.append(node)
        return groups

    @cached_property
    def _mother(self) -> dict[tuple[int, int], tuple[int, int]]:
        return {
            (split.class_index, child): (split.class_index, split.parent)
            for split in self.events
            for child in split.children
        }

    def at_temperature(self, temperature: float) -> Level:
        """The coldest level that is not below the temperature (the first one if all are)."""
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, got {temperature!r}")
        fits = np.flatnonzero(self.temperatures >= temperature * (1 - 1e-12))
        return self.levels[int(fits[-1])] if len(fits) else self.levels[0]


class Family:
    """Who was split from whom."""

    def __init__(self, events: Iterable[Split]) -> None:
        self.mother: dict[tuple[int, int], tuple[int, int]] = {}
        self.children: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for split in events:
            above = split.class_index, split.parent
            pair = [(split.class_index, child) for child in split.children]
            self.mother.update(dict.fromkeys(pair, above))
            self.children.setdefault(above, []).extend(pair)

    def parents(self, classes: Integers, nodes: Integers, before: Level | None) -> Integers:
        """Index in the level before of the codevector each one comes from (-1: none)."""
        if before is None:
            return np.full(len(nodes), -1, dtype=np.int64)
        known = zip(before.classes.tolist(), before.nodes.tolist(), strict=True)
        place = {node: i for i, node in enumerate(known)}
        newest = int(before.nodes.max())
        parents = []
        for node in zip(classes.tolist(), nodes.tolist(), strict=True):
            # Split since: the nearest ancestor that was there. Split and taken back since: the
            # heaviest of those the nearest ancestor had become.
            above, there = node, self._there(node, place, newest)
            while not there and above in self.mother:
                above = self.mother[above]
                there = self._there(above, place, newest)
            parents.append(max(there, key=before.weights.item, default=-1))
        return np.array(parents, dtype=np.int64)

    def _there(
        self, node: tuple[int, int], place: dict[tuple[int, int], int], newest: int
    ) -> list[int]:
        """Places of a node, or else of all that descend from it, in a level.

        Nodes are numbered as they appear: nobody beyond the ``newest`` of the level is looked for.
        """
        if node in place:
            return [place[node]]
        found, open_nodes = [], [node]
        while open_nodes:
            for child in self.children.get(open_nodes.pop(), ()):
                if child in place:
                    found.append(place[child])
                elif child[1] < newest:
                    open_nodes.append(child)
        return found


def _joined(level: Level, groups: list[tuple[int, int]]) -> Level:
    """The level with the codevectors of each group joined in their weighted mean."""
    nodes = sorted(set(groups))
    if len(nodes) == level.n_codevectors:
        return level
    place = {node: g for g, node in enumerate(nodes)}
    group = np.array([place[node] for node in groups])
    member = (group[:, None] == np.arange(len(nodes))) * level.weights[:, None]
    weights = member.sum(axis=0)
    first = np.unique(group, return_index=True)[1]
    return Level(
        temperature=level.temperature,
        codevectors=(member.T @ level.codevectors) / weights[:, None],
        weights=weights,
        classes=level.classes[first],
        nodes=np.array([node for _, node in nodes], dtype=np.int64),
        parents=level.parents[first],
        samples=level.samples,
        distortion=np.nan,
        entropy=np.nan,
        score=np.nan,
    )
