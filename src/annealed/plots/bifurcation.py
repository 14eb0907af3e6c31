"""The bifurcation diagram: where the codevectors are, and where they split, as T falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers, Split
from annealed.plots.colours import INK, PALETTE, Colour, branch_colour, paler

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
        estimator : ODAClustering or ODAClassifier
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
        return cls.from_path(
            estimator.path_,
            feature=feature,
            feature_names=getattr(estimator, "feature_names_in_", None),
            class_names=getattr(estimator, "classes_", None),
            current=(estimator.temperature_, len(estimator.codevectors_)),
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

        Returns
        -------
        BifurcationDisplay
        """
        if not len(path):
            raise ValueError("no level is finished yet, so there is no path to draw")
        positions, position_name = _project(path, feature, feature_names)
        T, K = current or (np.nan, 0)
        n_classes = max(int(level.classes.max()) for level in path) + 1
        if n_classes > 1:
            branches = [level.classes for level in path]
            labels = range(n_classes) if class_names is None else class_names
            names = [label if isinstance(label, str) else f"class {label}" for label in labels]
        else:
            most = 1 + len(path.splits)
            clusters = K if 1 < K <= min(2 * len(PALETTE), most) else 0
            branches = _main_branches(path, clusters or min(len(PALETTE), most))
            names = [f"cluster {i}" for i in range(clusters)]
        display = cls(
            path,
            positions=positions,
            position_name=position_name,
            branches=branches,
            branch_names=names,
            current=current and (T or path.codebook(K).temperature, K),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Returns
        -------
        BifurcationDisplay
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "drawing needs matplotlib, which is not installed: pip install 'annealed[plot]'"
            ) from error

        if ax is None:
            ax = plt.subplots(figsize=(9, 5), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        lasting = _lasting(self.path)
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
        return max(0.6, WIDEST * float(np.sqrt(weight / n_classes)))

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
        k, level = split.level - 1, self.path[split.level]
        T = max(T, level.temperature)  # an estimate may come out colder than the split it is of
        children = (level.classes == split.class_index) & np.isin(level.nodes, split.children)
        size = 1.5 + 0.8 * self._width(level.weights[children].sum())
        i = int(level.parents[children][0])
        height = self.positions[k][i]
        while k > 0 and self.path[k].temperature < T and self.path[k].parents[i] >= 0:
            mother = int(self.path[k].parents[i])
            between = np.log([self.path[k].temperature, self.path[k - 1].temperature])
            ends = self.positions[k][i], self.positions[k - 1][mother]
            height = np.interp(np.log(T), between, ends)
            i, k = mother, k - 1
        return T, float(height), size

    def _draw_axes(self, K: list[int]) -> None:
        """T below, K (the number of lines at each level) above."""
        from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

        ax, T = self.ax_, self.path.temperatures
        margin = max(T[0] / T[-1], 1.5) ** 0.02
        ax.set(xscale="log", xlim=(T[0] * margin, T[-1] / margin))
        ax.set(xlabel="temperature T, from hot to cold", ylabel=self.position_name)
        subs = (1.0,) if T[0] > 300 * T[-1] else (1.0, 2.0, 5.0)
        ax.xaxis.set_major_locator(LogLocator(subs=subs))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        plural = "s" if K[0] > 1 else ""
        ax.set_title(f"From {K[0]} codevector{plural} to {K[-1]} as the temperature falls", pad=12)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(y=0.04)
        ax.autoscale_view(scalex=False)

        top = ax.secondary_xaxis("top")
        shown = _levels_to_label(T, K)
        top.set_xticks(T[shown], labels=[str(K[k]) for k in shown])
        top.xaxis.set_minor_locator(NullLocator())
        top.set_xlabel("number of codevectors K")
        top.spines["top"].set_visible(False)

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], color=branch_colour(b), linewidth=4, label=name)
            for b, name in enumerate(self.branch_names)
        ]
        if self.current is not None:
            T, K = max(self.current[0], self.path[-1].temperature), self.current[1]
            line = self.ax_.axvline(T, color=INK, linestyle=(0, (4, 3)), linewidth=1.2, zorder=0)
            line.set_label(f"model in use (K = {K})")
            handles.append(line)
        label = "split becomes possible\n(critical temperature)"
        handles.append(
            Line2D([], [], linestyle="", marker="o", mfc="white", mec=INK, mew=0.8, label=label)
        )
        self.ax_.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _project(
    path: AnnealingPath, feature: int | str | None, feature_names: Sequence[str] | None
) -> tuple[list[Array], str]:
    """Positions of every level's codevectors on the vertical axis, and its name."""
    d = path[0].codevectors.shape[1]
    names = [] if feature_names is None else list(feature_names)
    if feature is None and d > 1:
        coldest = path[-1].codevectors
        middle = coldest.mean(axis=0)
        _, stretch, axes = np.linalg.svd(coldest - middle, full_matrices=False)
        direction = axes[0] * np.sign(axes[0][np.abs(axes[0]).argmax()])
        share = stretch[0] ** 2 / max(float(stretch @ stretch), 1e-300)
        name = f"first principal component\n({share:.0%} of the codevectors' variance)"
        return [(level.codevectors - middle) @ direction for level in path], name
    if isinstance(feature, str) and feature not in names:
        raise ValueError(f"no feature is called {feature!r}; known names: {names}")
    index = names.index(feature) if isinstance(feature, str) else int(feature or 0)
    if not 0 <= index < d:
        raise ValueError(f"feature must be an index from 0 to {d - 1}, got {feature!r}")
    name = names[index] if names else f"feature {index}"
    return [level.codevectors[:, index] for level in path], name


def _main_branches(path: AnnealingPath, n_branches: int) -> list[Integers]:
    """For every level, to which codevector of the model with ``n_branches`` each one belongs."""
    inner = {split.parent for split, _ in path.ordered_splits[: n_branches - 1]}
    mother = {child: split.parent for split in path.events for child in split.children}

    def head(node: int) -> int:
        while node in mother and mother[node] not in inner:
            node = mother[node]
        return node

    place = {head(node): i for i, node in enumerate(path.codebook(n_branches).nodes.tolist())}
    return [np.array([place.get(head(n), -1) for n in level.nodes.tolist()]) for level in path]


def _levels_to_label(T: Array, K: list[int]) -> list[int]:
    """Levels on which K has grown: those where it then stays longest, no two labels too close."""
    place = np.log(T[0] / T) / max(np.log(T[0] / T[-1]), 1e-300)
    grown = [0, *(k for k in range(1, len(K)) if K[k] > K[k - 1])]
    lasts = np.diff([*place[grown], 1.0])
    shown: list[int] = []
    for k in np.array(grown)[np.argsort(-lasts, kind="stable")]:
        if all(abs(place[k] - place[other]) > 0.035 for other in shown):
            shown.append(int(k))
    return shown


def _lasting(path: AnnealingPath) -> list[NDArray[np.bool_]]:
    """For every level, which codevectors live on to the coldest one."""
    lasting = [np.ones(path[-1].n_codevectors, dtype=bool)]
    for k in range(len(path) - 1, 0, -1):
        mothers = path[k].parents[lasting[-1]]
        lasting.append(np.isin(np.arange(path[k - 1].n_codevectors), mothers))
    return lasting[::-1]
