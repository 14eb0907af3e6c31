"""The look all figures share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from annealed.divergences import Array
from annealed.plots.colours import INK, PALETTE, Colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
STYLE: dict[str, Any] = {
    "figure.dpi": 100,
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
        drawn.savefig(out / f"{stem}.png", metadata={"Software": None})
        drawn.savefig(out / f"{stem}.svg", metadata={"Date": None})


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


def numbers_along(
    ax: Axes,
    x: Array,
    y: Array,
    K: list[int],
    colour: Colour,
    *,
    above: bool,
    taken: list[tuple[float, float]],
) -> None:
    """Write K along a curve wherever it has changed and there is room.

    The figure must have been laid out (``draw_without_rendering``), so that places are final.
    ``taken`` holds the places of numbers already written, in pixels; new ones are added.
    """
    pixels = ax.transData.transform(np.column_stack([x, y]))
    offset = 9.0 if above else -9.0
    changed = where_changed(K)
    # The ends first: they say where a curve begins and how far it came.
    for i in sorted(changed, key=lambda i: i not in (changed[0], changed[-1])):
        place = (float(pixels[i][0]), float(pixels[i][1] + offset * 100 / 72))
        if any(abs(place[0] - a) < 22 and abs(place[1] - b) < 15 for a, b in taken):
            continue
        taken.append(place)
        number = ax.annotate(
            str(K[i]), (x[i], y[i]), xytext=(0, offset), textcoords="offset points",
            ha="center", va="center", fontsize=8, color=_darker(colour),
        )  # fmt: skip
        number.set_path_effects([_halo()])


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
