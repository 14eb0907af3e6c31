"""What each codevector looks like: as a small image, or as a profile of its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from annealed.divergences import Array
from annealed.path import Integers
from annealed.plots.canvas import (
    add_legend,
    axes_to_draw_in,
    hide_spines,
    inches,
    is_narrow,
    line_handle,
    literal,
    plain,
    points,
    text_size,
    write_title,
)
from annealed.plots.checks import require_fitted
from annealed.views.colours import INK, MOST_BRANCHES, branch_colour
from annealed.views.names import name_classes, name_clusters, name_features
from annealed.views.projection import principal_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.image import AxesImage

# More codevectors than this are a table of colours rather than lines across each other.
MOST_LINES = 8


class CodevectorDisplay:
    """Each codevector as a small image or as a profile of its features, in their own units.

    Images are tiles of one picture. A profile is a line down the list of features; every feature
    has its own scale, whose ends are written beside it: the smallest and the largest value among
    the codevectors or, if data is given, the range of the data. Many codevectors are columns of a
    table instead, orange where they are above the mean of all and violet where below. Make one
    with `from_estimator`.

    Parameters
    ----------
    codevectors : ndarray of shape (K, n_features)
        In the units to be shown, in the order to be shown.
    kind : {"image", "profile", "table"}
    image_shape : tuple, optional
        Rows and columns of an image, with 3 at the end for colours.
    feature_names : list of str
    weights : ndarray of shape (K,)
    colours : ndarray of shape (K,)
        The colour of each codevector, as a number.
    captions : list of str
        The name of each codevector.
    names : list of str
        What the colours mean, for the legend, or empty.
    scales : tuple (low, high) of ndarray of shape (n_features,), optional
        Where the scale of each feature begins and ends in a profile; left out, at the smallest
        and largest value among the codevectors.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_ : AxesImage or None
        Of images or of a table.
    lines_ : list of Line2D
        A profile for each codevector.
    labels_ : list of Text
        Captions of images, or values beside the scales of profiles or in the cells of a table.
    colorbar_ : Colorbar or None
        Of a table.
    legend_ : Legend or None

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClassifier
    >>> from annealed.plots import CodevectorDisplay
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> wine = load_wine()
    >>> scaler = StandardScaler().fit(wine.data)
    >>> model = ODAClassifier(level="auto", random_state=1)
    >>> _ = model.fit(scaler.transform(wine.data), wine.target)
    >>> display = CodevectorDisplay.from_estimator(
    ...     model, inverse_transform=scaler, feature_names=wine.feature_names
    ... )
    >>> len(display.lines_) == len(model.codevectors_)
    True
    """

    def __init__(
        self,
        codevectors: Array,
        *,
        kind: str,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Sequence[str] = (),
        weights: Array,
        colours: Integers,
        captions: Sequence[str],
        names: Sequence[str] = (),
        scales: tuple[Array, Array] | None = None,
    ) -> None:
        self.codevectors = codevectors
        self.kind = kind
        self.image_shape = image_shape
        self.feature_names = feature_names
        self.weights = weights
        self.colours = colours
        self.captions = captions
        self.names = names
        self.scales = scales

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        kind: str = "auto",
        image_shape: tuple[int, ...] | None = None,
        inverse_transform: Any = None,
        feature_names: Sequence[Any] | None = None,
        X: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the codevectors a fitted estimator predicts with.

        They are put in the order of their classes, then from one end of their first principal
        component to the other, so that neighbours are alike.

        Parameters
        ----------
        estimator : estimator with codevectors
            Of a pipeline, give its last step, and the steps before it as ``inverse_transform``. A
            `TabularModel` is shown in the units and names of its table, categories as shares.
        kind : {"auto", "image", "profile", "table"}, default="auto"
            Images if ``image_shape`` is given; otherwise profiles of up to eight codevectors and
            a table of more.
        image_shape : tuple, optional
            Rows and columns of an image, with 3 at the end for colours between 0 and 1.
        inverse_transform : transformer or callable, optional
            What takes codevectors back to the original units: a fitted transformer such as a
            scaler, or a function of an array of shape (K, n_features).
        feature_names : sequence of str, optional
            Names of the original features; left out, those the estimator (or, if it has them, the
            transformer) was fitted with.
        X : array-like of shape (n_samples, n_features) or table, optional
            Rows in the original units; of a `TabularModel` a table. The scales of profiles then
            hold 96 % of them, so that features in which codevectors hardly differ look so.
        ax : matplotlib Axes, optional
            Where to draw; left out, a new figure.

        Returns
        -------
        CodevectorDisplay
        """
        require_fitted(estimator, "codevectors_")
        rows = _taken_back(estimator.codevectors_, inverse_transform)
        if kind not in ("auto", "image", "profile", "table"):
            raise ValueError(f"kind must be 'auto', 'image', 'profile' or 'table', got {kind!r}")
        if kind == "auto":
            few = len(rows) <= MOST_LINES
            kind = "image" if image_shape is not None else "profile" if few else "table"
        if kind == "image":
            _check_shape(image_shape, rows.shape[1])
        known = feature_names
        if known is None and inverse_transform is None:
            known = getattr(estimator, "feature_names_out_", None)  # of a TabularModel
        for source in (inverse_transform, estimator):
            if known is None:
                known = getattr(source, "feature_names_in_", None)
        if feature_names is None and known is not None and len(known) != rows.shape[1]:
            known = None  # names of other features than these
        classes = getattr(estimator, "classes_", None)
        group = np.zeros(len(rows), dtype=np.int64)
        if classes is not None:
            group = np.searchsorted(classes, estimator.codevector_labels_)
        # As they are compared: in the units of a table one column may outweigh all others.
        compared = getattr(estimator, "estimator_", estimator).codevectors_
        order = np.lexsort([_position(compared), group])
        if classes is not None:
            names = name_classes(classes, len(classes))
            captions = [plain(names[g], 14) for g in group]
        else:
            names = captions = name_clusters(len(rows))
            group = np.arange(len(rows))
        weights = getattr(estimator, "weights_", None)
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
        display = cls(
            rows[order],
            kind=kind,
            image_shape=image_shape,
            feature_names=name_features(known, rows.shape[1]),
            weights=weights[order],
            colours=group[order],
            captions=[captions[i] for i in order],
            names=names if len(names) <= MOST_BRANCHES else [],
            scales=None if X is None else _scales(rows, _as_numbers(estimator, X)),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Returns
        -------
        CodevectorDisplay
        """
        d = self.codevectors.shape[1]
        size = (
            (7.0, 5.0) if self.kind == "image" else (7.0, float(np.clip(1.4 + 0.22 * d, 2.6, 14)))
        )
        ax = axes_to_draw_in(ax, *size)
        self.ax_, self.figure_ = ax, ax.figure
        self.image_: AxesImage | None = None
        self.colorbar_: Colorbar | None = None
        self.legend_ = None
        self.lines_: list[Any] = []
        self.labels_: list[Any] = []
        draw: dict[str, Callable[[], None]] = {
            "image": self._draw_images, "profile": self._draw_profiles, "table": self._draw_table,
        }  # fmt: skip
        draw[self.kind]()
        return self

    # -- images --------------------------------------------------------------------------------

    def _draw_images(self) -> None:
        """All images in one picture, each with its caption and a frame of its colour."""
        assert self.image_shape is not None
        height, width, *bands = self.image_shape
        tiles = self.codevectors.reshape(-1, height, width, *bands)
        K = len(tiles)
        columns = self._columns(K, height, width)
        rows = -(-K // columns)
        gap = max(1, round(0.14 * max(height, width)))
        room = max(gap, round(0.34 * height)) if K <= 120 else gap  # above each, for its caption
        sheet = np.full(
            (rows * (height + room) + gap, columns * (width + gap) + gap, *bands), np.nan
        )
        for k, tile in enumerate(tiles):
            top = (k // columns) * (height + room) + room
            left = (k % columns) * (width + gap) + gap
            sheet[top : top + height, left : left + width] = tile
            self._caption(
                k, left, top, height, width, captioned=K <= 120, tall=rows * (height + room)
            )
        if bands:
            sheet = np.where(np.isnan(sheet), 1.0, np.clip(sheet, 0.0, 1.0))
        self.image_ = self.ax_.imshow(sheet, cmap="Greys", interpolation="nearest")
        self.ax_.set_axis_off()
        write_title(self.ax_, self._title("image"), f"{K} codevectors")
        if K > 120:
            self._draw_legend()

    def _columns(self, K: int, height: int, width: int) -> int:
        across, down = inches(self.ax_)
        shape = (across / width) / (down / (1.3 * height))
        return int(np.clip(round(np.sqrt(K * shape)), 1, K))

    def _caption(
        self, k: int, left: int, top: int, height: int, width: int, *, captioned: bool, tall: int
    ) -> None:
        from matplotlib.patches import Rectangle

        colour = branch_colour(int(self.colours[k]))
        corner = left - 0.5, top - 0.5
        self.ax_.add_patch(Rectangle(corner, width, height, fill=False, ec=colour, lw=1.4))
        if not captioned:
            return
        # As high as the gap above the tile, whatever the size of the picture.
        size = min(points("small"), 0.26 * height * 72 * inches(self.ax_)[1] / tall)
        letters = max(int(1.25 * width / (0.26 * height * 0.6)), 3)
        label = self.ax_.text(
            left + width / 2, top - 1.2, plain(self.captions[k].removeprefix("class "), letters),
            ha="center", va="bottom", fontsize=size, color=INK,
        )  # fmt: skip
        self.labels_.append(literal(label))

    # -- profiles ------------------------------------------------------------------------------

    def _draw_profiles(self) -> None:
        ax, values = self.ax_, self.codevectors
        low, high = self.scales or (values.min(axis=0), values.max(axis=0))
        span = np.where(high > low, high - low, 1.0)
        place = np.where(high > low, (values - low) / span, 0.5)
        rows = np.arange(values.shape[1])
        share = np.sqrt(self.weights / self.weights.max())
        ax.hlines(rows, 0, 1, colors="0.88", linewidth=0.8, zorder=0)
        for k in range(len(values)):
            colour = branch_colour(int(self.colours[k]))
            (line,) = ax.plot(
                place[k], rows, color=colour, marker="o", markersize=3.5,
                linewidth=1.0 + 1.8 * share[k],
            )  # fmt: skip
            self.lines_.append(line)
        size = self._name_rows()
        if self._row_points() > 0.95 * points(size):
            for j in range(values.shape[1]):
                for x, side, value in ((-0.03, "right", low[j]), (1.03, "left", high[j])):
                    label = ax.text(
                        x, j, _figures(value, span[j]), ha=side, va="center", fontsize=size,
                        color="0.35",
                    )  # fmt: skip
                    self.labels_.append(label)
        ax.set_xlim(-0.32, 1.32)
        ax.set_xticks([0, 1], labels=["low", "high"], fontsize=size)
        ax.tick_params(axis="both", length=0)
        hide_spines(ax, "top", "right", "left", "bottom")
        write_title(ax, self._title("profile"), f"{len(values)} codevectors")
        self._draw_legend(below=18.0)

    # -- a table -------------------------------------------------------------------------------

    def _draw_table(self) -> None:
        ax, values = self.ax_, self.codevectors
        K, d = values.shape
        centre = np.average(values, axis=0, weights=self.weights)
        deviation = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=self.weights))
        score = (values - centre) / np.where(deviation > 0, deviation, 1.0)
        self.image_ = ax.imshow(
            score.T, cmap="PuOr_r", vmin=-2.5, vmax=2.5, aspect="auto", interpolation="nearest"
        )
        size = self._name_rows()
        self._write_cells(values, score, size)
        for k in range(K if self.names else 0):  # a strip above the table: what each column is
            ax.plot(
                [k - 0.5, k + 0.5], [-0.75, -0.75], color=branch_colour(int(self.colours[k])),
                linewidth=5, solid_capstyle="butt", clip_on=False,
            )  # fmt: skip
        ax.set_ylim(d - 0.5, -1.1 if self.names else -0.5)
        ax.set_xticks([])
        ax.tick_params(axis="both", length=0)
        hide_spines(ax, "top", "right", "left", "bottom")
        self.colorbar_ = self.figure_.colorbar(
            self.image_, ax=ax, location="bottom", shrink=0.7, aspect=40, pad=0.02, extend="both"
        )
        words = "standard deviations from the mean of all codevectors"
        short = "standard deviations from the mean"
        self.colorbar_.set_label(short if is_narrow(ax) else words, fontsize=size)
        self.colorbar_.ax.tick_params(labelsize=size)
        write_title(ax, self._title("column"), f"{K} codevectors")
        self._draw_legend(below=6.0)

    def _write_cells(self, values: Array, score: Array, size: str) -> None:
        """The values themselves, where cells are large enough."""
        K, d = values.shape
        letter, span = points(size), np.ptp(values, axis=0)
        words = [[_figures(values[k, j], span[j]) for j in range(d)] for k in range(K)]
        longest = max(len(word) for row in words for word in row)
        cell = 72 * 0.7 * inches(self.ax_)[0] / K
        if cell < 0.62 * longest * letter or self._row_points() < letter:
            return
        for k in range(K):
            for j in range(d):
                ink = "white" if abs(score[k, j]) > 1.6 else INK
                text = self.ax_.text(
                    k, j, words[k][j], ha="center", va="center", fontsize=size, color=ink
                )
                self.labels_.append(text)

    # -- what both have ------------------------------------------------------------------------

    def _row_points(self) -> float:
        """Height of a row."""
        return 72 * inches(self.ax_)[1] / int(self.codevectors.shape[1])

    def _name_rows(self) -> str:
        """Names of the features at the left; of too many, some. Returns the size of the text."""
        ax, d = self.ax_, self.codevectors.shape[1]
        size = text_size(ax)
        if self._row_points() < 1.15 * points(size):
            size = "x-small"
        step = max(1, int(np.ceil(1.05 * points(size) / self._row_points())))
        longest = 16 if is_narrow(ax) else 32
        names = [plain(name, longest) for name in self.feature_names]
        ax.set_yticks(np.arange(0, d, step), labels=names[::step], fontsize=size)
        for label in ax.get_yticklabels():
            literal(label)
        ax.set_ylim(d - 0.5, -0.5)
        return size

    def _title(self, each: str) -> str:
        K = len(self.codevectors)
        return f"{K} codevectors, each a{'n' if each == 'image' else ''} {each}"

    def _draw_legend(self, below: float = 8.0) -> None:
        present = set(self.colours.tolist())
        colours = [
            (line_handle(branch_colour(i)), plain(name))
            for i, name in enumerate(self.names)
            if i in present
        ]
        self.legend_ = add_legend(self.ax_, colours, below=below)


def _taken_back(codevectors: Array, inverse_transform: Any) -> Array:
    if inverse_transform is None:
        return np.asarray(codevectors, dtype=float)
    back = getattr(inverse_transform, "inverse_transform", inverse_transform)
    if not callable(back):
        raise TypeError(
            "inverse_transform must be a fitted transformer that has inverse_transform, or a "
            f"function of an array, got {inverse_transform!r}"
        )
    rows = np.asarray(back(np.array(codevectors)), dtype=float)
    if rows.ndim != 2 or len(rows) != len(codevectors):
        raise ValueError(
            f"inverse_transform turned {len(codevectors)} codevectors into an array of shape "
            f"{rows.shape}; one row for each is needed"
        )
    return rows


def _as_numbers(estimator: Any, X: Any) -> Array:
    """Rows in the units to be shown; those of a table as its model sees them, no cell missing."""
    step = getattr(estimator, "preprocessor_", None)
    if step is None:
        return np.asarray(X, dtype=float)
    rows, _ = estimator.separated(X)
    return np.asarray(step.inverse_transform(step.transform(rows)))


def _scales(codevectors: Array, rows: Array) -> tuple[Array, Array]:
    """Where 96 % of the rows lie in each feature, made wide enough for the codevectors."""
    if rows.ndim != 2 or rows.shape[1] != codevectors.shape[1]:
        raise ValueError(
            f"X has shape {rows.shape}, but the codevectors to be shown have "
            f"{codevectors.shape[1]} features: give X in the original units"
        )
    low, high = np.nanquantile(rows, [0.02, 0.98], axis=0)
    return np.minimum(low, codevectors.min(axis=0)), np.maximum(high, codevectors.max(axis=0))


def _check_shape(image_shape: Any, d: int) -> None:
    shape: ArrayLike = () if image_shape is None else image_shape
    sizes = np.ravel(np.asarray(shape))
    fits = len(sizes) == 2 or (len(sizes) == 3 and sizes[2] == 3)
    if not fits or int(np.prod(sizes)) != d:
        raise ValueError(
            f"image_shape must be (rows, columns) or (rows, columns, 3) and have {d} entries in "
            f"all, as a codevector has; got {image_shape!r}"
        )


def _position(codevectors: Array) -> Array:
    """Along the first principal component."""
    middle, (direction,), _ = principal_axes(codevectors, 1)
    return np.asarray((codevectors - middle) @ direction)


def _figures(value: float, span: float) -> str:
    """A value with three significant digits, or as many as tell it from others in that span."""
    if value == 0 or not np.isfinite(value) or not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2g}"
    digits = 2 - int(np.floor(np.log10(abs(value))))
    if span > 0:
        digits = max(digits, 1 - int(np.floor(np.log10(span))))
    return f"{value:.{max(digits, 0)}f}"
