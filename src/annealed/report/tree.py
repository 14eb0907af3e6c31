"""The tree of splits as the page draws it: who comes from whom, where, in which colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from annealed.divergences import Array
from annealed.report.contents import Fork, NodeIndex, NodeShown, Twig

if TYPE_CHECKING:
    from annealed.path import AnnealingPath

# How far beside its mother's line a codevector is drawn that does not last: a part of the height of
# the tree, counted in leaves, of which a small tree is taken to have this many.
BESIDE, LEAST_LEAVES = 0.02, 15


class Tree:
    """All places in the trees of a path, numbered through all classes.

    Parameters
    ----------
    path : AnnealingPath
    positions : ndarray of shape (K,)
        A number for each codevector of the coldest level; sides of a split are drawn in its order.
    """

    def __init__(self, path: AnnealingPath, positions: Array) -> None:
        self.path = path
        self.keys = sorted(self._all_keys())
        self.index = {key: i for i, key in enumerate(self.keys)}
        self.mother: dict[NodeIndex, NodeIndex] = {}
        self.forks: list[list[Fork]] = [[] for _ in self.keys]
        for split in path.events:
            parent = self.index[split.class_index, split.parent]
            first, second = (self.index[split.class_index, child] for child in split.children)
            T = split.critical_temperature
            critical = float(T) if np.isfinite(T) else None
            self.forks[parent].append(Fork((first, second), critical, split.level))
            self.mother[first] = self.mother[second] = parent
        leaves = self.nodes_of(len(path) - 1)
        self.lasting = {node for leaf in leaves for node in self.line(leaf)}
        self.heights = self._heights(dict(zip(leaves, positions.tolist(), strict=True)))

    def _all_keys(self) -> set[tuple[int, int]]:
        keys = {
            key
            for level in self.path
            for key in zip(level.classes.tolist(), level.nodes.tolist(), strict=True)
        }
        for split in self.path.events:
            keys |= {(split.class_index, node) for node in (split.parent, *split.children)}
        return keys

    def nodes_of(self, level: int) -> list[NodeIndex]:
        """The places of a level's codevectors, in their order."""
        here = self.path[level]
        pairs = zip(here.classes.tolist(), here.nodes.tolist(), strict=True)
        return [self.index[key] for key in pairs]

    def line(self, node: NodeIndex) -> Iterator[NodeIndex]:
        """The node, its mother, her mother, ..."""
        yield node
        while node in self.mother:
            node = self.mother[node]
            yield node

    def lasting_fork(self, node: NodeIndex) -> Fork | None:
        """The fork through which a node lives on, at least on one side."""
        return next((f for f in self.forks[node] if self.lasting.intersection(f.children)), None)

    # -- where ---------------------------------------------------------------------------------

    def _heights(self, position: dict[NodeIndex, float]) -> list[float]:
        """Leaves one below the other, every other node between what becomes of it."""
        roots = sorted(self.lasting.difference(self.mother))
        parents_last = self._lasting_children_first(roots)
        for node in parents_last:
            sides = self._lasting_sides(node)
            if sides:
                position[node] = float(np.mean([position[side] for side in sides]))
        heights = dict.fromkeys(range(len(self.keys)), 0.0)
        place = 0
        stack = roots[::-1]
        while stack:
            node = stack.pop()
            sides = sorted(self._lasting_sides(node), key=lambda side: position[side])
            stack += sides[::-1]
            if not sides:
                heights[node] = float(place)
                place += 1
        for node in parents_last:
            sides = self._lasting_sides(node)
            if sides:
                heights[node] = float(np.mean([heights[side] for side in sides]))
        room = dict.fromkeys(heights, BESIDE * max(place, LEAST_LEAVES))
        for split in self.path.events:  # mothers before their children
            mother = self.index[split.class_index, split.parent]
            for child, side in zip(split.children, (-1, 1), strict=True):
                node = self.index[split.class_index, child]
                if node not in self.lasting:
                    heights[node] = heights[mother] + side * room[mother]
                    room[node] = room[mother] / 2
        return [heights[node] for node in range(len(self.keys))]

    def _lasting_sides(self, node: NodeIndex) -> list[NodeIndex]:
        fork = self.lasting_fork(node)
        return [] if fork is None else [side for side in fork.children if side in self.lasting]

    def _lasting_children_first(self, roots: Sequence[NodeIndex]) -> list[NodeIndex]:
        order, stack = [], list(roots)
        while stack:
            order.append(stack.pop())
            stack += self._lasting_sides(order[-1])
        return order[::-1]

    def border(self, level: int) -> float:
        """The temperature half-way (in log T) between a level and the one before it."""
        T = self.path.temperatures
        return float(np.sqrt(T[level - 1] * T[level])) if level else float(T[0])

    def twigs(self) -> list[Twig]:
        """The lines of the tree: a cut at the temperature of a level meets its codevectors.

        A line begins just before the first level that has the codevector, and ends just before the
        first that does not: it has split, or came together with its sister again, or faded.
        """
        path, twigs = self.path, []
        begun: dict[NodeIndex, tuple[NodeIndex | None, float]] = {}
        before: list[NodeIndex] = []
        for k in range(len(path)):
            here = self.nodes_of(k)
            for node in set(begun).difference(here):
                twigs.append(Twig(node, *begun.pop(node), self.border(k)))
            for node, parent in zip(here, path[k].parents.tolist(), strict=True):
                origin = before[parent] if k and parent >= 0 else None
                begun.setdefault(node, (origin, self.border(k)))
            before = here
        coldest = float(path.temperatures[-1])
        twigs += [Twig(node, *begun[node], coldest) for node in begun]
        return sorted(twigs, key=lambda twig: (-twig.start, twig.node))

    # -- in which colour -----------------------------------------------------------------------

    def branches(self, heads: Sequence[NodeIndex]) -> list[int]:
        """For every node, under which of the heads it stands.

        A head stands for its ancestors too as long as no other head descends from them (-1: then
        several heads are still one).
        """
        above = [0] * len(self.keys)
        for head in heads:
            for node in self.line(head):
                above[node] += 1
        place: dict[NodeIndex, int] = {}
        for i, head in enumerate(heads):
            place.update({node: i for node in self.line(head) if above[node] == 1})
        return [
            next((place[up] for up in self.line(node) if up in place), -1)
            for node in range(len(self.keys))
        ]

    def shown(self, branches: Sequence[int], class_names: Sequence[str]) -> list[NodeShown]:
        """Every node with its name, relatives, height and colour."""
        shown = []
        for node, (class_index, number) in enumerate(self.keys):
            name = f"#{number}" if len(class_names) < 2 else f"{class_names[class_index]} #{number}"
            shown.append(
                NodeShown(
                    name=name,
                    class_index=class_index,
                    branch=branches[node],
                    parent=self.mother.get(node),
                    height=self.heights[node],
                    forks=self.forks[node],
                )
            )
        return shown
