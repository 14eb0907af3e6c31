"""The bifurcation diagram: where the codevectors are, and where they split, as T falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers, Split
from annealed.plots.canvas import (
    add_legend,
    axes_to_draw_in,
    dot_handle,
    hide_spines,
    inches,
    line_handle,
    mark_model_in_use,
    plain,
    points,
    scale_temperature,
    spread_labels,
    stroke,
    text_size,
    write_labels,
    write_title,
)
from annealed.plots.checks import about_model_in_use, require_fitted, require_levels
from annealed.views.colours import INK, Colour, branch_colour, paler
from annealed.views.lineage import find_branches, follow_up, in_use, lasting_codevectors
from annealed.views.projection import project

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 7.0  # points, for a line that carries all the weight


class BifurcationDisplay:
    """Bifurcation diagram of an annealing, hot on the left and cold on the right.

    Every codevector that lasts to the coldest level is a line, the thicker the more weight it has;
    those that were merged or dropped again on the way are left out. Make one with `from_estimator`
    or `from_path`: the parameters here are what those compute.

    Parameters
    ----------
    path : AnnealingPath
    positions : list of ndarray of shape (K,)
        For each level, where its codevectors stand on the vertical axis.
    position_name : str
        What the vertical axis shows.
    branches : list of ndarray of shape (K,)
        For each level, the branch of every codevector; -1 where several branches are still one.
    branch_names : list of str
        Names of the branches for the legend, or empty.
    current : tuple (T, K), optional
        Temperature and number of codevectors of the model in use, to be marked.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of LineCollection
        What branches share, then one for each branch.
    splits_ : PathCollection
        A point for each split, at its critical temperature.
    current_ : Line2D or None
        Where the model in use stands.
    legend_ : Legend

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClustering
    >>> from annealed.plots import BifurcationDisplay
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> display = BifurcationDisplay.from_estimator(ODAClustering(random_state=0).fit(X))
    >>> display.ax_.get_xlabel()
    'temperature T, from hot to cold'
    """

    def __init__(
        self,
        path: AnnealingPath,
        *,
        positions: list[Array],
        position_name: str,
        branches: list[Integers],
        branch_names: Sequence[str] = (),
        current: tuple[float, int] | None = None,
    ) -> None:
        self.path = path
        self.positions = positions
        self.position_name = position_name
        self.branches = branches
        self.branch_names = branch_names
        self.current = current

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, feature: int | str | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the path of a fitted estimator and mark the level it predicts with.

        Parameters
        ----------
        estimator : ODAClustering, ODAClassifier or DeterministicAnnealing
            Of a pipeline, give its last step.
        feature : int or str, optional
            What the vertical axis shows, by index or name. Left out, the direction in which the
            coldest codevectors differ most (their first principal component).
        ax : matplotlib Axes, optional
            Where to draw; left out, a new figure.

        Returns
        -------
        BifurcationDisplay
        """
        require_fitted(estimator)
        return cls.from_path(
            estimator.path_,
            feature=feature,
            feature_names=getattr(estimator, "feature_names_in_", None),
            **about_model_in_use(estimator),
            ax=ax,
        )

    @classmethod
    def from_path(
        cls,
        path: AnnealingPath,
        *,
        feature: int | str | None = None,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[Any] | None = None,
        current: tuple[float, int] | None = None,
        nodes: Sequence[int] | None = None,
        clusters: NDArray[np.int64] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw a path, coloured by class if there are several, otherwise by main branch.

        Parameters
        ----------
        path : AnnealingPath
        feature, ax
            As in `from_estimator`.
        feature_names, class_names : sequence, optional
            Names of the features and of the classes.
        current : tuple (T, K), optional
            Mark that temperature (T = 0: the coldest level with K codevectors). Unless K is too
            large for colours, the main branches are its clusters.
        nodes : sequence of int, optional
            Places of its codevectors in the tree of splits, ``nodes_`` of an estimator; needed
            only where the model in use is not the path cut at K.
        clusters : ndarray of int, optional
            Clusters of these codevectors where they are joined, ``codevector_clusters_``.

        Returns
        -------
        BifurcationDisplay
        """
        require_levels(path)
        positions, position_name = project(path, feature, feature_names)
        branches, names = find_branches(
            path,
            class_names=class_names,
            n_codevectors=(current or (0, 0))[1],
            nodes=nodes,
            clusters=clusters,
        )
        display = cls(
            path,
            positions=positions,
            position_name=position_name,
            branches=branches,
            branch_names=names,
            current=in_use(path, current),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Returns
        -------
        BifurcationDisplay
        """
        ax = axes_to_draw_in(ax, 9, 5)
        self.ax_, self.figure_ = ax, ax.figure
        lasting = lasting_codevectors(self.path)
        self._draw_lines(lasting)
        self._draw_splits()
        self._draw_axes([int(here.sum()) for here in lasting])
        self._draw_legend()
        return self

    def _draw_lines(self, lasting: list[NDArray[np.bool_]]) -> None:
        from matplotlib.collections import LineCollection

        self.lines_ = []
        for branch in range(-1, max(int(here.max()) for here in self.branches) + 1):
            pieces, widths, colours = [], [], []
            for k in range(1, len(self.path)):
                level, before = self.path[k], self.path[k - 1]
                here = lasting[k] & (self.branches[k] == branch) & (level.parents >= 0)
                for i in np.flatnonzero(here):
                    start = before.temperature, self.positions[k - 1][level.parents[i]]
                    pieces.append([start, (level.temperature, self.positions[k][i])])
                    widths.append(self._width(level.weights[i]))
                    colours.append(self._faded(branch_colour(branch), level.temperature))
            lines = LineCollection(pieces, linewidths=widths, colors=colours, capstyle="round")
            self.ax_.add_collection(lines)
            self.lines_.append(lines)

    def _width(self, weight: float) -> float:
        """Points; every class has the same share of the weight."""
        n_classes = len(np.unique(self.path[-1].classes))
        widest = WIDEST * stroke(self.ax_)
        return max(0.09 * widest, 0.6, widest * float(np.sqrt(weight / n_classes)))

    def _faded(self, colour: Colour, temperature: float) -> Colour:
        """What lies beyond the model in use is pale."""
        beyond = self.current is not None and temperature < self.current[0] * (1 - 1e-9)
        return paler(colour) if beyond else colour

    def _draw_splits(self) -> None:
        """A dot for each lasting split, the big ones over the small ones."""
        dots = [self._dot(split, T) for split, T in self.path.ordered_splits]
        T, height, size = np.array(sorted(dots, key=lambda dot: dot[2])).reshape(-1, 3).T
        self.splits_ = self.ax_.scatter(
            T,
            height,
            s=size**2,
            facecolors="white",
            edgecolors=[self._faded(INK, t) for t in T],
            linewidths=0.8,
            zorder=3,
        )

    def _dot(self, split: Split, T: float) -> tuple[float, float, float]:
        """T, height and size of a dot where a codevector stood when it became unstable."""
        level = self.path[split.level]
        T = max(T, level.temperature)  # an estimate may come out colder than the split it is of
        children = self.path.born_of(split)
        size = 1.5 + 0.8 * self._width(level.weights[children].sum())
        i = int(level.parents[children][0])
        return T, follow_up(self.path, self.positions, split.level - 1, i, T), size

    def _draw_axes(self, K: list[int]) -> None:
        """T below, K (the number of lines at each level) above."""
        from matplotlib.ticker import NullLocator

        ax, T = self.ax_, self.path.temperatures
        scale_temperature(ax, T)
        write_labels(ax, "temperature T, from hot to cold", plain(self.position_name, 80))
        plural = "s" if K[0] > 1 else ""
        words = f"From {K[0]} codevector{plural} to {K[-1]} as the temperature falls"
        write_title(ax, words, f"{K[0]} to {K[-1]} codevectors as T falls", pad=10)
        hide_spines(ax)
        ax.margins(y=0.04)
        ax.autoscale_view(scalex=False)

        top = ax.secondary_xaxis("top")
        shown = _levels_to_label(T, K, apart=2.2 * points("medium") / (72 * inches(ax)[0]))
        top.set_xticks(T[shown], labels=[str(K[k]) for k in shown])
        top.xaxis.set_minor_locator(NullLocator())
        top.set_xlabel("number of codevectors K", fontsize=text_size(ax))
        top.tick_params(labelsize=text_size(ax))
        top.spines["top"].set_visible(False)

    def _draw_legend(self) -> None:
        colours = [
            (line_handle(branch_colour(b)), plain(name)) for b, name in enumerate(self.branch_names)
        ]
        notes: list[tuple[Any, str]] = [(dot_handle(), "split (critical T)")]
        self.current_ = None
        if self.current is not None:
            note = mark_model_in_use(self.ax_.axvline, self.current, self.path[-1].temperature)
            self.current_ = note[0]
            notes.insert(0, note)
        self.legend_ = add_legend(self.ax_, colours, notes)


def _levels_to_label(T: Array, K: list[int], apart: float) -> list[int]:
    """Levels on which K has grown: those where it then stays longest, no two labels too close."""
    place = np.log(T[0] / T) / max(np.log(T[0] / T[-1]), 1e-300)
    grown = [0, *(k for k in range(1, len(K)) if K[k] > K[k - 1])]
    lasts = np.diff([*place[grown], 1.0])
    return [grown[i] for i in spread_labels(place[grown], lasts, apart)]
