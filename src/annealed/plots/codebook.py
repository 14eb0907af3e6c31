"""Codevectors among the data they stand for, with the regions where each of them decides."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from annealed.divergences import Array
from annealed.path import Integers
from annealed.plots.canvas import (
    add_legend,
    axes_to_draw_in,
    dot_handle,
    hide_spines,
    inches,
    plain,
    points,
    write_labels,
    write_title,
)
from annealed.plots.checks import require_fitted
from annealed.views.colours import INK, MOST_BRANCHES, SHARED, branch_colour, paler
from annealed.views.lineage import find_branches
from annealed.views.names import feature_index, name_classes, name_clusters, name_features
from annealed.views.projection import name_axes, principal_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Pixels along each side of the picture of regions.
RESOLUTION = 400
# Fractional parts of multiples of this fill [0, 1) evenly.
GOLDEN = 0.6180339887498949


class CodebookDisplay:
    """Data, codevectors and, in the plane, the regions where each decides.

    Two features are shown as they are, with the decision regions of a classifier or the cells of a
    clustering; more are projected on their first two principal components, where regions have no
    borders. The area of a codevector shows its weight. Make one with `from_estimator`: the
    parameters here are what that computes.

    Parameters
    ----------
    codevectors : ndarray of shape (K, 2)
        Where they stand in the picture.
    weights : ndarray of shape (K,)
    colours : ndarray of shape (K,)
        The colour of each codevector, as a number; -1 is grey.
    names : list of str
        What the colours mean, for the legend, or empty.
    data : ndarray of shape (n, 2), optional
        Rows where they stand in the picture.
    data_colours : ndarray of shape (n,), optional
        The colour of each row.
    regions : ndarray of shape (rows, columns), optional
        The colour of every place of a grid over ``extent``, from the lower left corner.
    borders : ndarray of shape (rows, columns), optional
        Where in that grid the borders between regions run.
    extent : tuple (left, right, bottom, top), optional
    axis_names : tuple of str
    title : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    codevectors_ : PathCollection
    data_ : PathCollection or None
    regions_ : AxesImage or None
    legend_ : Legend or None

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClassifier
    >>> from annealed.plots import CodebookDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = ODAClassifier(random_state=0).fit(X, y)
    >>> display = CodebookDisplay.from_estimator(model, X, y)
    >>> len(display.codevectors_.get_offsets()) == len(model.codevectors_)
    True
    """

    def __init__(
        self,
        codevectors: Array,
        *,
        weights: Array,
        colours: Integers,
        names: Sequence[str] = (),
        data: Array | None = None,
        data_colours: Integers | None = None,
        regions: Integers | None = None,
        borders: NDArray[np.bool_] | None = None,
        extent: tuple[float, float, float, float] | None = None,
        axis_names: tuple[str, str] = ("", ""),
        title: str = "",
    ) -> None:
        self.codevectors = codevectors
        self.weights = weights
        self.colours = colours
        self.names = names
        self.data = data
        self.data_colours = data_colours
        self.regions = regions
        self.borders = borders
        self.extent = extent
        self.axis_names = axis_names
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        features: tuple[int | str, int | str] | None = None,
        regions: bool = True,
        max_points: int = 5000,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the codevectors a fitted estimator predicts with.

        Parameters
        ----------
        estimator : estimator with codevectors
            Of a pipeline, give its last step, and rows as that step sees them.
        X : array-like of shape (n_samples, n_features), optional
            Rows to draw, usually those it was fitted with.
        y : array-like of shape (n_samples,), optional
            Their classes. Left out, a row has the colour of what is predicted for it.
        features : pair of int or str, optional
            Draw these two features instead of principal components.
        regions : bool, default=True
            Whether to draw regions, if there are two features.
        max_points : int, default=5000
            Of more rows, so many are drawn, evenly spaced.
        ax : matplotlib Axes, optional
            Where to draw; left out, a new figure.

        Returns
        -------
        CodebookDisplay
        """
        require_fitted(estimator, "codevectors_")
        rows = None if X is None else np.asarray(X, dtype=float)
        if y is not None and (rows is None or len(np.asarray(y)) != len(rows)):
            raise ValueError("y must have one class for each row of X")
        view = _View.of(estimator, rows, features)
        palette = _Palette(estimator)
        data, data_colours = None, None
        if rows is not None:
            step = max(len(rows) / max(max_points, 1), 1.0)
            some = np.arange(0, len(rows), step).astype(int)
            shown = _predict(estimator, rows[some]) if y is None else np.asarray(y)[some]
            data, data_colours = view.place(rows[some], some), palette.of_labels(shown)
        display = cls(
            view.place(estimator.codevectors_),
            weights=_weights(estimator),
            colours=palette.of_codevectors,
            names=palette.names,
            data=data,
            data_colours=data_colours,
            axis_names=view.names,
            title=palette.title,
        )
        if regions and view.whole:
            display._find_regions(estimator, view, palette)
        return display.plot(ax)

    def _find_regions(self, estimator: Any, view: _View, palette: _Palette) -> None:
        """Ask the estimator on a grid around everything that is drawn."""
        divergence = estimator._fitted_divergence
        if divergence.simplex:
            return  # rows that sum to one do not fill the plane
        grid, self.extent = view.grid(self.codevectors, self.data, divergence)
        labels = _predict(estimator, grid).reshape(RESOLUTION, -1)
        self.regions = palette.of_labels(labels.ravel()).reshape(labels.shape)
        edge = np.zeros(labels.shape, dtype=bool)
        edge[:, 1:] |= labels[:, 1:] != labels[:, :-1]
        edge[1:] |= labels[1:] != labels[:-1]
        self.borders = edge

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Returns
        -------
        CodebookDisplay
        """
        ax = axes_to_draw_in(ax, 7, 5)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_regions()
        self._draw_data()
        self._draw_codevectors()
        hide_spines(ax)
        write_labels(ax, *self.axis_names)
        if not self.axis_names[1]:
            ax.set_yticks([])
        write_title(ax, self.title, self.title.partition(",")[0])
        self._draw_legend()
        return self

    def _draw_regions(self) -> None:
        self.regions_ = None
        if self.regions is None or self.borders is None or self.extent is None:
            return
        kinds, place = np.unique(self.regions, return_inverse=True)
        tints = np.array([paler(paler(branch_colour(int(kind)))) for kind in kinds])
        picture = tints[place.reshape(self.regions.shape)]
        picture[self.borders] *= 0.72
        self.regions_ = self.ax_.imshow(
            picture, extent=self.extent, origin="lower", aspect="auto", interpolation="hanning"
        )

    def _draw_data(self) -> None:
        self.data_ = None
        if self.data is None:
            return
        area = float(np.clip(12000 / max(len(self.data), 1), 2.0, 14.0)) * self._scale()
        colours = np.zeros(len(self.data), dtype=int)
        colours = colours if self.data_colours is None else self.data_colours
        kinds, place = np.unique(colours, return_inverse=True)
        tones = np.array([branch_colour(int(kind)) for kind in kinds])
        self.data_ = self.ax_.scatter(
            self.data[:, 0],
            self.data[:, 1],
            s=area,
            c=tones[place],
            alpha=0.45,
            linewidths=0,
            rasterized=True,
        )

    def _scale(self) -> float:
        """Areas shrink and grow with the picture and its text."""
        width, height = inches(self.ax_)
        return float(np.clip(width * height / 16, 0.3, 1.5)) * max(1.0, points("medium") / 10)

    def _draw_codevectors(self) -> None:
        share = self.weights / self.weights.max()
        largest = float(np.clip(1500 / len(share), 30.0, 160.0)) * self._scale()
        few = len(share) < 50
        self.codevectors_ = self.ax_.scatter(
            self.codevectors[:, 0],
            self.codevectors[:, 1],
            s=np.maximum(largest * share, (0.15 if few else 0.4) * largest),
            c=[branch_colour(int(colour)) for colour in self.colours],
            edgecolors="white" if few else [INK],
            linewidths=1.0 if few else 0.7,
            zorder=3,
        )
        if few:  # a dark rim around the white one: seen on any ground
            self.codevectors_.set_path_effects(_rim(3.4))

    def _draw_legend(self) -> None:
        size = 0.6 * points("medium")
        colours: list[tuple[Any, str]] = [
            (dot_handle(mfc=branch_colour(i), mec="none", markersize=size), plain(name))
            for i, name in enumerate(self.names)
        ]
        mark = dot_handle(mfc=SHARED, mec=INK, markersize=1.3 * size)
        notes: list[tuple[Any, str]] = [(mark, "codevector, by weight")]
        if self.data is not None:
            notes.append((dot_handle(mfc=SHARED, mec="none", markersize=0.5 * size), "sample"))
        self.legend_ = add_legend(self.ax_, colours, notes)


def _rim(width: float) -> list[Any]:
    from matplotlib.patheffects import Normal, withStroke

    return [withStroke(linewidth=width, foreground=INK), Normal()]


def _weights(estimator: Any) -> Array:
    """Shares of the samples; codevectors of plain vector quantisers have none and look alike."""
    weights = getattr(estimator, "weights_", None)
    return np.ones(len(estimator.codevectors_)) if weights is None else np.asarray(weights)


def _predict(estimator: Any, rows: Array) -> NDArray[Any]:
    """What it predicts for plain rows, also where it was fitted with named columns."""
    twin = copy.copy(estimator)
    twin.__dict__.pop("feature_names_in_", None)
    labels: NDArray[Any] = twin.predict(rows)
    return labels


class _Palette:
    """Which colour classes, clusters and codevectors have."""

    def __init__(self, estimator: Any) -> None:
        K = len(estimator.codevectors_)
        self.classes: NDArray[Any] | None = getattr(estimator, "classes_", None)
        if self.classes is not None:
            names = name_classes(self.classes, len(self.classes))
            self.names = names if len(names) <= MOST_BRANCHES else []
            self.of_codevectors = np.searchsorted(self.classes, estimator.codevector_labels_)
            self.title = f"{K} codevectors, and the class they decide for"
            return
        joined: Integers | None = getattr(estimator, "codevector_clusters_", None)
        n_clusters = K if joined is None else estimator.n_clusters_
        self.joined = joined is not None and n_clusters < K
        if joined is not None and self.joined:
            s = "s" if n_clusters > 1 else ""
            self.title = f"{K} codevectors in {n_clusters} cluster{s}"
            self.names = name_clusters(n_clusters) if n_clusters <= MOST_BRANCHES else []
            self.of_codevectors = np.where(joined < 0, -1, joined % MOST_BRANCHES)
            return
        self.title = f"{K} codevector{'s' if K > 1 else ''}, and the samples they stand for"
        if K <= MOST_BRANCHES or not hasattr(estimator, "path_"):
            self.names = name_clusters(K) if K <= MOST_BRANCHES else []
            self.of_codevectors = np.arange(K) % MOST_BRANCHES
        else:
            self.names = []
            self.of_codevectors = _branches_of_many(estimator)

    def of_labels(self, labels: NDArray[Any]) -> Integers:
        if self.classes is None and self.joined:
            return np.where(labels < 0, -1, labels % MOST_BRANCHES)
        if self.classes is None:
            return np.asarray(self.of_codevectors[labels], dtype=np.int64)
        place = np.searchsorted(self.classes, labels)
        known = np.isin(labels, self.classes)
        return np.where(known, place, -1)


def _branches_of_many(estimator: Any) -> Integers:
    """Codevectors too many for colours of their own have that of the branch they descend from."""
    path = estimator.path_
    branch: dict[int, int] = {}
    for level, branches in zip(path, find_branches(path)[0], strict=True):
        branch.update(zip(level.nodes.tolist(), branches.tolist(), strict=True))
    return np.array([branch.get(node, -1) for node in estimator.nodes_.tolist()], dtype=np.int64)


class _View:
    """How rows come into the plane."""

    def __init__(self, middle: Array, directions: Array, names: tuple[str, str]) -> None:
        self.middle, self.directions, self.names = middle, directions, names
        self.line = len(middle) == 1
        # Every place of the picture is one row: regions can be drawn.
        self.whole = len(middle) == 2 or self.line

    @classmethod
    def of(cls, estimator: Any, rows: Array | None, features: Any) -> _View:
        codevectors = estimator.codevectors_
        d = codevectors.shape[1]
        known = getattr(estimator, "feature_names_in_", None)
        names = [plain(name) for name in name_features(known, d)]
        if d == 1:
            return cls(np.zeros(1), np.array([[1.0], [0.0]]), (names[0], ""))
        if features is not None or d == 2:
            given = [] if known is None else [str(name) for name in known]
            pair = (0, 1) if features is None else features
            a, b = (feature_index(feature, given, d) for feature in pair)
            view = cls(np.zeros(d), np.eye(d)[[a, b]], (names[a], names[b]))
            view.whole = d == 2 and (a, b) == (0, 1)
            return view
        middle, directions, share = principal_axes(codevectors if rows is None else rows, 2)
        first, second = name_axes(share.tolist())
        return cls(middle, directions, (first, second))

    def place(self, rows: Array, order: NDArray[Any] | None = None) -> Array:
        """Rows in the plane; those of one feature are spread over the height of the picture."""
        placed = np.asarray((rows - self.middle) @ self.directions.T)
        if self.line:
            placed[:, 1] = 0.5 if order is None else (order * GOLDEN) % 1.0
        return placed

    def grid(
        self, codevectors: Array, data: Array | None, divergence: Any
    ) -> tuple[Array, tuple[float, float, float, float]]:
        """Rows for every place of the picture, and its extent; within the divergence's domain."""
        drawn = codevectors if data is None else np.concatenate([codevectors, data])
        low, high = drawn.min(axis=0), drawn.max(axis=0)
        edge = 0.04 * np.where(high > low, high - low, 1.0)
        inside = 0.0 if divergence.closed else 1e-9
        left, bottom = np.maximum(low - edge, divergence.low + inside)
        right, top = np.minimum(high + edge, divergence.high - inside)
        if self.line:
            bottom, top = 0.0, 1.0
        x = np.linspace(left, right, 2 * RESOLUTION + 1)[1::2]
        y = np.linspace(bottom, top, 2 * RESOLUTION + 1)[1::2]
        X, Y = np.meshgrid(x, y)
        rows = X.reshape(-1, 1) if self.line else np.column_stack([X.ravel(), Y.ravel()])
        return rows, (float(left), float(right), float(bottom), float(top))
