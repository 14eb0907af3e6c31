"""The tree of splits as a dendrogram: who came from whom, and at which temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.path import AnnealingPath, Integers
from annealed.plots.canvas import (
    add_legend,
    axes_to_draw_in,
    dot_handle,
    hide_spines,
    inches,
    line_handle,
    literal,
    mark_model_in_use,
    plain,
    points,
    scale_temperature,
    stroke,
    text_size,
    write_labels,
    write_title,
)
from annealed.plots.checks import about_model_in_use, require_fitted, require_levels
from annealed.views.colours import SHARED, Colour, branch_colour, paler
from annealed.views.lineage import find_branches, in_use, spread_leaves
from annealed.views.projection import project

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 6.0  # points, for a line that carries all the weight of its class


@dataclass(eq=False)
class TreeNode:
    """A line of the tree from where it was born down to where it splits or the path ends.

    Attributes
    ----------
    weight : float
        Share of its class's samples.
    position : float
        Mean position of its codevectors along the axis that orders the tree.
    branch : int
        For its colour; -1 where several branches are still one.
    end : float
        Temperature at which it splits, or where the path ends.
    children : list of TreeNode
        Two of them, or none.
    x : float
        Where it stands: leaves are counted from left to right.
    number : int
        Of a leaf: its codevector in the coldest level (-1: several, where the tree was cut).
    """

    weight: float
    position: float
    branch: int
    end: float
    children: list[TreeNode] = field(default_factory=list)
    x: float = 0.0
    number: int = -1

    def leaves(self) -> list[TreeNode]:
        """From left to right."""
        below, found = [self], []
        while below:  # no recursion: a chain of splits may be long
            node = below.pop()
            found += [] if node.children else [node]
            below += reversed(node.children)
        return found


class SplitTreeDisplay:
    """Dendrogram of the splits, hot at the top; every leaf is a codevector of the coldest level.

    A line runs from where a codevector was born down to its own critical temperature, where it
    forks; the thicker, the more samples it stands for. Each class is a tree of its own. Make one
    with `from_estimator` or `from_path`: the parameters here are what those compute.

    Parameters
    ----------
    roots : list of TreeNode
        The trees from left to right.
    temperatures : tuple (hot, cold)
        Where the path begins and ends.
    branch_names : list of str
        Names of the branches for the legend, or empty.
    current : tuple (T, K), optional
        Temperature and number of codevectors of the model in use, to be marked.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    stems_ : LineCollection
        A vertical line for each node.
    forks_ : LineCollection
        A horizontal line for each split, at its critical temperature.
    leaves_ : PathCollection
        A dot for each leaf, its area proportional to its weight.
    leaf_labels_ : list of Text
        Numbers of the leaves, as in ``path[-1]``; empty where there is no room.
    current_ : Line2D or None
        Where the model in use cuts the tree.
    legend_ : Legend or None

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClustering
    >>> from annealed.plots import SplitTreeDisplay
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> model = ODAClustering(random_state=0).fit(X)
    >>> display = SplitTreeDisplay.from_estimator(model, n_leaves=5)
    >>> len(display.forks_.get_segments())
    4
    """

    def __init__(
        self,
        roots: list[TreeNode],
        *,
        temperatures: tuple[float, float],
        branch_names: Sequence[str] = (),
        current: tuple[float, int] | None = None,
    ) -> None:
        self.roots = roots
        self.temperatures = temperatures
        self.branch_names = branch_names
        self.current = current

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_leaves: int | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the splits of a fitted estimator and mark where its model cuts the tree.

        Parameters
        ----------
        estimator : ODAClustering, ODAClassifier or DeterministicAnnealing
            Of a pipeline, give its last step.
        n_leaves : int, optional
            Draw no more than the splits that lead to that many codevectors; left out, all.
        ax : matplotlib Axes, optional
            Where to draw; left out, a new figure.

        Returns
        -------
        SplitTreeDisplay
        """
        require_fitted(estimator)
        return cls.from_path(
            estimator.path_,
            n_leaves=n_leaves,
            **about_model_in_use(estimator),
            ax=ax,
        )

    @classmethod
    def from_path(
        cls,
        path: AnnealingPath,
        *,
        n_leaves: int | None = None,
        class_names: Sequence[Any] | None = None,
        current: tuple[float, int] | None = None,
        nodes: Sequence[int] | None = None,
        clusters: NDArray[np.int64] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the splits of a path.

        Parameters
        ----------
        path : AnnealingPath
        n_leaves, ax
            As in `from_estimator`.
        class_names, current, nodes, clusters
            As in `BifurcationDisplay.from_path`.

        Returns
        -------
        SplitTreeDisplay
        """
        require_levels(path)
        branches, names = find_branches(
            path,
            class_names=class_names,
            n_codevectors=(current or (0, 0))[1],
            nodes=nodes,
            clusters=clusters,
        )
        display = cls(
            build_tree(path, branches[-1], n_leaves),
            temperatures=ends_of(path),
            branch_names=names,
            current=in_use(path, current),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Returns
        -------
        SplitTreeDisplay
        """
        leaves = [leaf for root in self.roots for leaf in root.leaves()]
        ax = axes_to_draw_in(ax, float(np.clip(4 + 0.06 * len(leaves), 7, 13)), 5)
        self.ax_, self.figure_ = ax, ax.figure
        scale_temperature(ax, np.array(self.temperatures), vertical=True)
        self._draw_stems_and_forks(room=72 * inches(ax)[0] / len(leaves))
        self._draw_leaves(leaves)
        ax.set_xlim(-0.7, len(leaves) - 0.3)
        hide_spines(ax, "top", "right", "bottom")
        n = len(leaves)
        kind = "classes" if len(self.roots) > 1 else "one codevector"
        words = f"How {kind} split into {n} codevectors"
        write_title(ax, words if n > 1 else "No split", f"The splits to {n} codevectors")
        write_labels(ax, self._below(leaves), "temperature T, from hot to cold")
        self._draw_legend()
        return self

    def _below(self, leaves: list[TreeNode]) -> str:
        numbered = " (numbers as in path_[-1])" if self.leaf_labels_ else ""
        cut = any(leaf.number < 0 for leaf in leaves)
        return "codevectors, several to a dot" if cut else f"codevectors{numbered}"

    def _faded(self, colour: Colour, temperature: float) -> Colour:
        """What lies beyond the model in use is pale."""
        beyond = self.current is not None and temperature < self.current[0] * (1 - 1e-9)
        return paler(colour) if beyond else colour

    def _draw_stems_and_forks(self, room: float) -> None:
        """Stems and forks; a stem is no thicker than what there is room for, in points."""
        from matplotlib.collections import LineCollection

        widest = min(WIDEST * stroke(self.ax_), 1.5 * room + 1.5)
        stems, forks, looks, fork_looks = [], [], [], []
        below = [(root, self.temperatures[0]) for root in self.roots]
        while below:
            node, born = below.pop()
            width = max(0.4, widest * float(np.sqrt(node.weight)))
            if not node.children:
                width = min(width, 0.5 * room)
            # The part beyond the model in use is drawn by itself, being paler.
            cuts = [born, node.end]
            if self.current is not None and node.end < self.current[0] < born:
                cuts.insert(1, self.current[0])
            for start, end in pairwise(cuts):
                stems.append([(node.x, start), (node.x, end)])
                looks.append((self._faded(branch_colour(node.branch), end), width))
            if node.children:
                a, b = (child.x for child in node.children)
                forks.append([(a, node.end), (b, node.end)])
                fork_looks.append((self._faded(branch_colour(node.branch), node.end), width))
            below += [(child, node.end) for child in node.children]
        for name, pieces, look in (("stems_", stems, looks), ("forks_", forks, fork_looks)):
            lines = LineCollection(
                pieces,
                colors=[colour for colour, _ in look],
                linewidths=[width for _, width in look],
                capstyle="projecting" if name == "forks_" else "butt",
            )
            setattr(self, name, self.ax_.add_collection(lines, autolim=False))

    def _draw_leaves(self, leaves: list[TreeNode]) -> None:
        x = np.array([leaf.x for leaf in leaves])
        each = 72 * inches(self.ax_)[0] / len(leaves)  # points from leaf to leaf
        share = np.array([leaf.weight for leaf in leaves])
        largest = float(np.clip(0.8 * each, 2.5, 12.0))
        self.leaves_ = self.ax_.scatter(
            x,
            np.full(len(x), self.temperatures[1]),
            s=largest**2 * share / share.max(),
            c=[branch_colour(leaf.branch) for leaf in leaves],
            clip_on=False,
            zorder=3,
        )
        size = points(text_size(self.ax_))
        roomy = each > 1.7 * size and all(leaf.number >= 0 for leaf in leaves)
        labels = [str(leaf.number) for leaf in leaves] if roomy else []
        self.ax_.set_xticks(x if roomy else [], labels=labels)
        self.ax_.tick_params(axis="x", length=0, pad=0.5 * largest)
        self.leaf_labels_ = [literal(label) for label in self.ax_.get_xticklabels()]

    def _draw_legend(self) -> None:
        named = {leaf.branch for root in self.roots for leaf in root.leaves()}
        colours = [
            (line_handle(branch_colour(b)), plain(name))
            for b, name in enumerate(self.branch_names)
            if b in named
        ]
        dot = dot_handle(mfc=SHARED, mec="none")
        notes: list[tuple[Any, str]] = [(dot, "codevector, by weight")]
        self.current_ = None
        if self.current is not None:
            note = mark_model_in_use(self.ax_.axhline, self.current, self.temperatures[1])
            self.current_ = note[0]
            notes.insert(0, note)
        self.legend_ = add_legend(self.ax_, colours, notes)


def ends_of(path: AnnealingPath) -> tuple[float, float]:
    """Where the tree begins and ends: the path, made to hold every critical temperature."""
    at = [T for _, T in path.ordered_splits]
    hot = max([path[0].temperature, *(1.05 * T for T in at[:1])])
    cold = min([path.end_temperature, *(T / 1.05 for T in at[-1:])])
    return float(hot), float(cold)


def build_tree(
    path: AnnealingPath, branches: Integers, n_leaves: int | None = None
) -> list[TreeNode]:
    """The trees of a path, one for each class, leaves placed at 0, 1, 2, ...

    Branches are those of the coldest codevectors. Children are put in the order of their positions
    on the first principal component, so neighbours in the picture are likely to be alike.
    """
    last, end = path[-1], ends_of(path)[1]
    roots_at_least = len(np.unique(last.classes))
    if n_leaves is not None and n_leaves < roots_at_least:
        raise ValueError(f"n_leaves must be at least {roots_at_least}, got {n_leaves!r}")
    position = project(path, None, None)[0][-1]
    nodes = list(zip(last.classes.tolist(), last.nodes.tolist(), strict=True))
    found = {
        node: TreeNode(float(last.weights[i]), float(position[i]), int(branches[i]), end, number=i)
        for i, node in enumerate(nodes)
    }
    counted = {split: T for split, T in path.ordered_splits}
    drawn = {split for split, _ in path.ordered_splits[: (n_leaves or 10**9) - roots_at_least]}
    for split in reversed(path.events):  # children before their parents
        pair = [found.pop((split.class_index, child), None) for child in split.children]
        sides = [node for node in pair if node is not None]
        if split in counted:
            found[split.class_index, split.parent] = _joined(sides, counted[split], split in drawn)
        elif sides:  # the other side did not last
            found[split.class_index, split.parent] = sides[0]
    roots = [found[node] for node in sorted(found)]
    _place(roots, end)
    return roots


def _joined(sides: list[TreeNode], T: float, drawn: bool) -> TreeNode:
    weight = sum(side.weight for side in sides)
    position = sum(side.weight * side.position for side in sides) / weight
    same = len({side.branch for side in sides}) == 1
    node = TreeNode(weight, position, sides[0].branch if same else -1, T)
    if drawn:
        node.children = sorted(sides, key=lambda side: side.position)
    return node


def _place(roots: list[TreeNode], end: float) -> None:
    """Leaves side by side, every fork above the middle of its children."""
    for node, x in spread_leaves(roots, lambda node: node.children).items():
        node.x = x
        if not node.children:
            node.end = end


__all__ = ["SplitTreeDisplay", "TreeNode", "build_tree", "ends_of"]
