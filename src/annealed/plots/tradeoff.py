"""What each level buys: quality, K and free energy along the path, and how long each K persists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers
from annealed.plots.canvas import (
    LETTER,
    add_legend,
    hide_spines,
    inches,
    is_narrow,
    points,
    require_matplotlib,
    scale_temperature,
    short_number,
    text_size,
    write_labels,
)
from annealed.plots.checks import about_model_in_use, require_fitted, require_levels
from annealed.views.colours import INK, PALETTE, SHARED
from annealed.views.lineage import in_use

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE = PALETTE
AGAINST = {
    "temperature": "temperature T, from hot to cold",
    "samples": "samples observed",
}
# The most K that are shown as bars, unless the chosen one lies beyond.
MOST_BARS = 20


class TradeoffDisplay:
    """Quality, number of codevectors and free energy along a path; persistence of every K.

    A column of curves for each thing they are drawn against, and below them a bar for every K:
    over how long a stretch of log T the path has K codevectors, beside what structureless data of
    the same covariance gives on average, and the bar it has to pass to be taken for a number of
    clusters. Make one with `from_estimator` or `from_path`.

    Parameters
    ----------
    path : AnnealingPath
    quality : str
        "score" or "distortion": what the first row shows.
    quality_name : str
        What the axis of that row is called.
    against : tuple of str
        "temperature", "samples" or both: a column of curves for each.
    persistence : ndarray of shape (K,)
        Stretch of log T of K = 1, 2, ...
    expected, required : ndarray of shape (K,), optional
        What structureless data gives, and what is required of a number of clusters.
    current : tuple (T, K), optional
        Temperature and number of codevectors of the model in use, to be marked.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The curves row by row, then the axes of the bars.
    figure_ : matplotlib Figure
    curves_ : dict
        The line of each (row, column): rows are "score" or "distortion", "n_codevectors" and
        "free_energy", columns "temperature" and "samples".
    marks_ : list of Line2D
        In each of those, where the model in use stands.
    bars_ : BarContainer
        Persistence of each K.
    expected_ : BarContainer or None
        What structureless data gives.
    required_ : LineCollection or None
        What a plateau has to pass.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClustering
    >>> from annealed.plots import TradeoffDisplay
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> display = TradeoffDisplay.from_estimator(ODAClustering(random_state=0).fit(X))
    >>> sorted(display.curves_)[0]
    ('distortion', 'samples')
    """

    def __init__(
        self,
        path: AnnealingPath,
        *,
        quality: str,
        quality_name: str,
        against: Sequence[str] = ("temperature", "samples"),
        persistence: Array,
        expected: Array | None = None,
        required: Array | None = None,
        current: tuple[float, int] | None = None,
    ) -> None:
        self.path = path
        self.quality = quality
        self.quality_name = quality_name
        self.against = against
        self.persistence = persistence
        self.expected = expected
        self.required = required
        self.current = current

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        quality: str = "auto",
        against: str | Sequence[str] = ("temperature", "samples"),
        axes: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw the path of a fitted estimator and mark the level it predicts with.

        Parameters
        ----------
        estimator : ODAClustering, ODAClassifier or DeterministicAnnealing
            Of a pipeline, give its last step.
        quality : {"auto", "score", "distortion"}, default="auto"
            What the first row shows; "auto" is the distortion in clustering and, where levels
            have one, the score in classification.
        against : {"temperature", "samples"} or both
            What the curves are drawn against. One is enough where there is little room.
        axes : sequence of matplotlib Axes, optional
            Where to draw: three for each column, row by row, and one for the bars. Left out, a new
            figure.

        Returns
        -------
        TradeoffDisplay
        """
        require_fitted(estimator)
        persistence = getattr(estimator, "_persistence", None)
        name = None
        if hasattr(estimator, "classes_"):
            name = "accuracy" if estimator.scoring is None else f"score ({estimator.scoring})"
        return cls.from_path(
            estimator.path_,
            quality=quality,
            score_name=name,
            against=against,
            persistence=persistence,
            current=about_model_in_use(estimator)["current"],
            axes=axes,
        )

    @classmethod
    def from_path(
        cls,
        path: AnnealingPath,
        *,
        quality: str = "auto",
        score_name: str | None = None,
        against: str | Sequence[str] = ("temperature", "samples"),
        persistence: Any = None,
        current: tuple[float, int] | None = None,
        axes: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw a path.

        Parameters
        ----------
        path : AnnealingPath
        quality, against, axes
            As in `from_estimator`.
        score_name : str, optional
            What the scores of the levels are.
        persistence : Persistence, optional
            Of `annealed.annealing.n_clusters.judge_persistence`, for the comparison with
            structureless data; left out, the persistence of every K is drawn alone.
        current : tuple (T, K), optional
            Mark that level.

        Returns
        -------
        TradeoffDisplay
        """
        require_levels(path)
        columns = (against,) if isinstance(against, str) else tuple(against)
        unknown = [column for column in columns if column not in AGAINST]
        if unknown or not columns:
            raise ValueError(
                f"against must name {' or '.join(map(repr, AGAINST))}, got {against!r}"
            )
        if quality not in ("auto", "score", "distortion"):
            raise ValueError(f"quality must be 'auto', 'score' or 'distortion', got {quality!r}")
        several = len(np.unique(path[-1].classes)) > 1
        scored = bool(np.isfinite([level.score for level in path]).any())
        if quality == "auto":
            quality = "score" if several and scored else "distortion"
        if quality == "score" and not scored:
            raise ValueError("the levels of this path have no scores: draw quality='distortion'")
        display = cls(
            path,
            quality=quality,
            quality_name=(score_name or "score") if quality == "score" else "distortion D",
            against=columns,
            persistence=path.persistence() if persistence is None else persistence.plateau,
            expected=None if persistence is None else persistence.expected,
            required=None if persistence is None else persistence.required,
            current=in_use(path, current),
        )
        return display.plot(axes)

    def plot(self, axes: Sequence[Axes] | None = None) -> Self:
        """Draw into ``axes``, or into a new figure.

        Returns
        -------
        TradeoffDisplay
        """
        rows = [self.quality, "n_codevectors", "free_energy"]
        cells = [(row, column) for row in rows for column in self.against]
        given = self._new_axes() if axes is None else list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) != len(cells) + 1:
            raise ValueError(
                f"{len(cells) + 1} axes are needed (3 for each column of curves and one for the "
                f"bars), got {len(given)}"
            )
        self.axes_ = np.array(given, dtype=object)
        self.figure_ = given[0].figure
        self.curves_: dict[tuple[str, str], Line2D] = {}
        self.marks_: list[Line2D] = []
        for ax, (row, column) in zip(given, cells, strict=False):
            self._draw_curve(ax, row, column, first=column == self.against[0])
        self._draw_bars(given[-1])
        return self

    def _new_axes(self) -> list[Axes]:
        plt = require_matplotlib()
        n = len(self.against)
        figure = plt.figure(figsize=(4.5 * n + (0 if n > 1 else 1.0), 8.5), layout="constrained")
        grid = figure.add_gridspec(4, n, height_ratios=(1, 1, 1, 1.15))
        axes: list[Axes] = [figure.add_subplot(grid[i, j]) for i in range(3) for j in range(n)]
        return [*axes, figure.add_subplot(grid[3, :])]

    # -- curves --------------------------------------------------------------------------------

    def _draw_curve(self, ax: Axes, row: str, column: str, *, first: bool) -> None:
        names = {
            self.quality: self.quality_name,
            "n_codevectors": "codevectors K",
            "free_energy": "free energy F",
        }
        colour = {self.quality: BLUE, "n_codevectors": GREEN, "free_energy": VERMILION}[row]
        x = np.array([getattr(level, column) for level in self.path], dtype=float)
        y = np.array([getattr(level, row) for level in self.path], dtype=float)
        steps = "steps-post" if row == "n_codevectors" else "default"
        style: Any = {"drawstyle": steps, "marker": "o", "markersize": 2.2, "linewidth": 1.3}
        (self.curves_[row, column],) = ax.plot(x, y, color=colour, **style)
        if row == "n_codevectors":
            self._scale_counts(ax, y)
        self._scale_across(ax, x, column)
        hide_spines(ax)
        last = row == "free_energy"
        ax.tick_params(labelbottom=last)
        write_labels(
            ax, AGAINST[column] if last else None, fit_name(ax, names[row]) if first else None
        )
        self._mark(ax, column, x, y, row, first=first)

    def _scale_counts(self, ax: Axes, K: Array) -> None:
        """Numbers of codevectors grow by factors."""
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

        if K.max() < 8 * K.min():
            ax.yaxis.set_major_locator(MaxNLocator(integer=True))
            return
        ax.set_yscale("log")
        ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
        if inches(ax)[1] * 72 / np.log10(K.max() / K.min()) < 4.5 * points("medium"):
            ticks = [1, 10, 100, 1000, 10000]
        ax.yaxis.set_major_locator(FixedLocator(ticks))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    def _scale_across(self, ax: Axes, x: Array, column: str) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        if column == "temperature":
            scale_temperature(ax, x)
            return
        ax.set_xscale("log")
        ax.set_xlim(x.min() / 1.1, x.max() * 1.1)
        decades = max(float(np.log10(x.max() / x.min())), 0.2)
        roomy = inches(ax)[0] * 72 / decades > 6.5 * points("medium")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if roomy else (1.0,)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        ax.xaxis.set_minor_formatter(NullFormatter())

    def _mark(self, ax: Axes, column: str, x: Array, y: Array, row: str, *, first: bool) -> None:
        """The model in use: a dashed line, and its K in words once."""
        if self.current is None:
            return
        T, K = self.current
        k = int(np.abs(np.log(self.path.temperatures / max(T, 1e-300))).argmin())
        look: Any = {"color": INK, "linestyle": (0, (4, 3)), "linewidth": 1.1}
        self.marks_.append(ax.axvline(x[k], zorder=0, **look))
        ax.plot(x[k], y[k], "o", markersize=5.5, mfc="white", mec=INK, zorder=4)
        if row == self.quality and first:
            ax.set_title(f"dashed: model in use (K = {K})", fontsize=text_size(ax), loc="left")

    # -- bars ----------------------------------------------------------------------------------

    def _draw_bars(self, ax: Axes) -> None:
        """K = 1 is left out: its stretch tells only how hot the path began."""
        self.expected_: BarContainer | None = None
        self.required_: LineCollection | None = None
        first = max(2, len(np.unique(self.path[0].classes)) + 1)
        K = np.arange(first, max(self._most_bars(), first) + 1)
        K = K[K <= len(self.persistence)].astype(np.int64)
        compared = self.expected is not None
        width = 0.4 if compared else 0.75
        chosen = None if self.current is None else self.current[1]
        colours = [BLUE if k == chosen else (0.62, 0.76, 0.87) for k in K]
        heights = self.persistence[K - 1]
        self.bars_: BarContainer = ax.bar(
            K - (width / 2 if compared else 0), heights, width, color=colours
        )
        entries: list[tuple[Any, str]] = []
        if len(K) and compared:
            strong = [bar for bar, k in zip(self.bars_, K, strict=True) if k == chosen]
            entries.append(((strong or list(self.bars_))[0], "this path"))
        if compared:
            entries += self._draw_comparison(ax, K, width)
        step = max(1, int(np.ceil(len(K) * 2.4 * points("medium") / (72 * inches(ax)[0]))))
        ax.set_xticks(K[::step])
        hide_spines(ax)
        size = text_size(self.axes_[0])
        write_labels(ax, "number of codevectors K", "stretch of log T", size)
        words = self._verdict()[is_narrow(ax)]
        ax.set_title(words, fontsize=size, loc="left")
        if is_narrow(ax):
            self.legend_ = add_legend(ax, entries)
        else:  # room for it above the bars
            ax.set_ylim(0, 1.25 * ax.get_ylim()[1])
            handles, names = zip(*entries, strict=True) if entries else ((), ())
            look: Any = {"loc": "upper right", "ncols": 3, "frameon": False, "fontsize": size}
            self.legend_ = ax.legend(handles, names, **look)

    def _most_bars(self) -> int:
        K = len(self.persistence)
        chosen = 0 if self.current is None else self.current[1]
        return min(K, max(MOST_BARS, chosen + 3 if chosen <= 3 * MOST_BARS else 0))

    def _draw_comparison(self, ax: Axes, K: Integers, width: float) -> list[tuple[Any, str]]:
        assert self.expected is not None and self.required is not None
        expected, required = self.expected[K - 1], self.required[K - 1]
        self.expected_ = ax.bar(
            K + width / 2, np.nan_to_num(expected), width, color="white", edgecolor=SHARED,
            hatch="////", linewidth=0.8,
        )  # fmt: skip
        there = np.isfinite(required)
        self.required_ = ax.hlines(
            required[there], K[there] - width, K[there] + width, colors=VERMILION, linewidth=1.6
        )
        return (
            [
                (self.expected_[0], "structureless data"),
                (self.required_, "required of clusters"),
            ]
            if len(K)
            else []
        )

    def _verdict(self) -> tuple[str, str]:
        """In a sentence, and shorter."""
        plainly = "How long each K persists"
        if self.expected is None or self.current is None:
            return plainly, plainly
        K = self.current[1]
        if K == 1:
            return "No K persists longer than it would in structureless data", "No K stands out"
        excess = self.persistence[K - 1] - np.asarray(self.required)[K - 1]
        if excess > 0:
            words = f"K = {K} persists longer than it would in structureless data"
            return words, f"K = {K} stands out"
        return plainly, plainly


def fit_name(ax: Axes, name: str) -> str:
    """The name of a quantity, or only its letter where the axes are too low for the name."""
    letter = name.rpartition(" ")[2]
    too_long = len(name) * LETTER * points(text_size(ax)) > 72 * inches(ax)[1]
    return letter if too_long and letter in ("D", "K", "F") else name
