"""The tree of splits as the page draws it: who comes from whom, where, in which colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from annealed.divergences import Array
from annealed.report.contents import NodeIndex, NodeShown, SplitShown, TreeLine
from annealed.views.lineage import ancestors, branch_of_nodes, spread_leaves

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
        self.splits: list[list[SplitShown]] = [[] for _ in self.keys]
        for split in path.events:
            parent = self.index[split.class_index, split.parent]
            first, second = (self.index[split.class_index, child] for child in split.children)
            T = split.critical_temperature
            critical = float(T) if np.isfinite(T) else None
            self.splits[parent].append(SplitShown((first, second), critical, split.level))
            self.mother[first] = self.mother[second] = parent
        leaves = self.nodes_of(len(path) - 1)
        self.lasting = {node for leaf in leaves for node in ancestors(leaf, self.mother)}
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

    def lasting_split(self, node: NodeIndex) -> SplitShown | None:
        """The split through which a node lives on, at least on one side."""
        return next((f for f in self.splits[node] if self.lasting.intersection(f.children)), None)

    # -- where ---------------------------------------------------------------------------------

    def _heights(self, position: dict[NodeIndex, float]) -> list[float]:
        """Leaves one below the other, every other node between what becomes of it."""
        roots, n_leaves = sorted(self.lasting.difference(self.mother)), len(position)
        self._set_positions(roots, position)

        def in_order(node: NodeIndex) -> list[NodeIndex]:
            return sorted(self._lasting_sides(node), key=lambda side: position[side])

        heights = dict.fromkeys(range(len(self.keys)), 0.0) | spread_leaves(roots, in_order)
        room = dict.fromkeys(heights, BESIDE * max(n_leaves, LEAST_LEAVES))
        for split in self.path.events:  # mothers before their children
            mother = self.index[split.class_index, split.parent]
            for child, side in zip(split.children, (-1, 1), strict=True):
                node = self.index[split.class_index, child]
                if node not in self.lasting:
                    heights[node] = heights[mother] + side * room[mother]
                    room[node] = room[mother] / 2
        return [heights[node] for node in range(len(self.keys))]

    def _lasting_sides(self, node: NodeIndex) -> list[NodeIndex]:
        split = self.lasting_split(node)
        return [] if split is None else [side for side in split.children if side in self.lasting]

    def _set_positions(self, roots: Sequence[NodeIndex], position: dict[NodeIndex, float]) -> None:
        """Add every other lasting node to the positions of the leaves: amid what becomes of it."""
        order, stack = [], list(roots)
        while stack:
            order.append(stack.pop())
            stack += self._lasting_sides(order[-1])
        for node in reversed(order):
            sides = self._lasting_sides(node)
            if sides:
                position[node] = float(np.mean([position[side] for side in sides]))

    def border(self, level: int) -> float:
        """The temperature half-way (in log T) between a level and the one before it."""
        T = self.path.temperatures
        return float(np.sqrt(T[level - 1] * T[level])) if level else float(T[0])

    def lines(self) -> list[TreeLine]:
        """The lines of the tree: a cut at the temperature of a level meets its codevectors.

        A line begins just before the first level that has the codevector, and ends just before the
        first that does not: it has split, or came together with its sister again, or faded.
        """
        path, lines = self.path, []
        begun: dict[NodeIndex, tuple[NodeIndex | None, float]] = {}
        before: list[NodeIndex] = []
        for k in range(len(path)):
            here = self.nodes_of(k)
            for node in set(begun).difference(here):
                lines.append(TreeLine(node, *begun.pop(node), self.border(k)))
            for node, parent in zip(here, path[k].parents.tolist(), strict=True):
                origin = before[parent] if k and parent >= 0 else None
                begun.setdefault(node, (origin, self.border(k)))
            before = here
        coldest = float(path.temperatures[-1])
        lines += [TreeLine(node, *begun[node], coldest) for node in begun]
        return sorted(lines, key=lambda line: (-line.start, line.node))

    # -- in which colour -----------------------------------------------------------------------

    def branches(self, heads: Sequence[NodeIndex]) -> list[int]:
        """For every node, under which of the heads it stands (-1: several are still one)."""
        return list(branch_of_nodes(range(len(self.keys)), heads, self.mother).values())

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
                    splits=self.splits[node],
                )
            )
        return shown
