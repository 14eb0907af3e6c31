"""The look all figures share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from annealed.divergences import Array
from annealed.persistence.whole_files import replacing
from annealed.views.colours import INK, PALETTE, Colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# One colour, one line and one marker for each algorithm, in every figure.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE = PALETTE
COLOURS: dict[str, Colour] = {
    "ODA": BLUE,
    "ODA, full": BLUE,
    "DA": VERMILION,
    "k-means": GREEN,
    "sVQ": ORANGE,
    "SVM": ORANGE,
    "NN": GREEN,
    "RF": PURPLE,
}
DASHES: dict[str, Any] = {"SVM": (0, (6, 2)), "NN": (0, (2, 1.5)), "RF": (0, (6, 2, 1.5, 2))}
MARKERS = {"ODA": "o", "DA": "s", "k-means": "^", "sVQ": "D"}
DPI = 100
POINT = 72 / DPI  # of a pixel
STYLE: dict[str, Any] = {
    "figure.dpi": DPI,
    "savefig.dpi": 150,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "annealed",
    "svg.fonttype": "path",
}


def require_matplotlib() -> None:
    """Fail before the work begins rather than after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the figures need matplotlib, which is not installed: pip install 'annealed[plot]'"
        ) from error


@contextmanager
def figure(rows: int, columns: int, width: float, height: float) -> Iterator[tuple[Figure, Any]]:
    """A figure in the common style and an array of its axes, shape (rows, columns).

    It is drawn without pyplot, so that nothing of the caller's session changes and no screen is
    needed.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: Any = STYLE  # its keys are typed one by one
    with matplotlib.rc_context(style):
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, drawn.subplots(rows, columns, squeeze=False)


def save(drawn: Figure, out: Path, stem: str) -> None:
    """As PNG and SVG."""
    import matplotlib

    style: Any = STYLE  # its keys are typed one by one
    with matplotlib.rc_context(style):
        with replacing(out / f"{stem}.png") as file:
            drawn.savefig(file, format="png", metadata={"Software": None})
        with replacing(out / f"{stem}.svg") as file:
            drawn.savefig(file, format="svg", metadata={"Date": None})


def where_changed(K: list[int]) -> list[int]:
    """Places where K is another than before, the first among them."""
    return [i for i in range(len(K)) if i == 0 or K[i] != K[i - 1]]


def plain_log_ticks(ax: Axes) -> None:
    """Numbers of samples as 1,000 or 20k rather than powers, few enough not to collide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    subs = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


class Numbers(NamedTuple):
    """Numbers to be written along a curve, at the places x, y."""

    x: Array
    y: Array
    K: list[int]
    colour: Colour


def numbers_along(ax: Axes, curves: Sequence[Numbers]) -> None:
    """Write K beside each curve wherever it has changed and there is room.

    The figure must have been laid out (``draw_without_rendering``), so that places are final. A
    number stands on the side where it touches neither a line nor another number, or is left out;
    only the two ends of a curve, which say where it begins and how far it came, may touch a line.
    """
    crowd = np.vstack([np.empty((0, 2)), *map(_pixels_along, ax.get_lines())])
    frame = ax.get_window_extent().padded(-8)
    taken: list[tuple[float, float, float]] = []  # x, y, half the width
    wanted = [
        (i not in (changed[0], changed[-1]), curve, i)
        for curve in curves
        if (changed := where_changed(curve.K))
        for i in changed
    ]
    for optional, curve, i in sorted(wanted, key=lambda one: one[0]):
        text = str(curve.K[i])
        half = 3.6 * len(text) + 1.5
        at = ax.transData.transform((float(curve.x[i]), float(curve.y[i])))
        best: tuple[int, float, float] | None = None
        for dx, dy in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)):
            # Beside the point a wide number needs more room than a narrow one.
            x, y = at[0] + dx * (half + 5), at[1] + dy * (12 if dx == 0 else 8)
            if not frame.contains(x, y) or any(
                abs(x - a) < half + other + 4 and abs(y - b) < 16 for a, b, other in taken
            ):
                continue
            inside = (np.abs(crowd[:, 0] - x) < half + 1) & (np.abs(crowd[:, 1] - y) < 8)
            touched = int(inside.sum())
            if best is None or touched < best[0]:
                best = touched, x, y
        if best is None or (optional and best[0]):
            continue
        taken.append((best[1], best[2], half))
        number = ax.annotate(
            text, (curve.x[i], curve.y[i]), ha="center", va="center", fontsize=8,
            xytext=((best[1] - at[0]) * POINT, (best[2] - at[1]) * POINT),
            textcoords="offset points", color=_darker(curve.colour),
        )  # fmt: skip
        number.set_path_effects([_halo()])


def _pixels_along(line: Line2D) -> Array:
    """Points along a drawn line, close enough for no number to fit between two of them."""
    corners = line.get_transform().transform(line.get_xydata())
    steps = [np.linspace(a, b, 2 + int(np.abs(b - a).max() / 3))
             for a, b in pairwise(corners)]  # fmt: skip
    return np.vstack([corners, *steps])


def names_at_right(ax: Axes, entries: list[tuple[float, str, Colour]]) -> None:
    """Write a name beside the right end of each line, moved apart where they would overlap.

    The figure must have been laid out, as for `numbers_along`.
    """
    apart = 15.0  # pixels
    placed: list[float] = []
    for value, words, colour in sorted(entries, key=lambda entry: entry[0]):
        at = float(ax.transData.transform((ax.get_xlim()[1], value))[1])
        at = max(at, placed[-1] + apart) if placed else at
        placed.append(at)
        height = float(ax.transAxes.inverted().transform((0.0, at))[1])
        ax.text(1.02, height, words, transform=ax.transAxes, va="center", fontsize=9,
                color=_darker(colour))  # fmt: skip


def _halo() -> Any:
    from matplotlib.patheffects import withStroke

    return withStroke(linewidth=2.0, foreground="white")


def _darker(colour: Colour) -> Colour:
    """Readable as text on white."""
    r, g, b = colour
    return 0.75 * r, 0.75 * g, 0.75 * b
