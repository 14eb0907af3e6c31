"""Axes, words and legends as all displays write them: they fit a column of 3.5 inches or a slide.

Sizes are relative to the user's matplotlib settings; nothing of the session is changed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from annealed.divergences import Array
from annealed.views.colours import INK, Colour

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Axes narrower than this, in inches, have their legend below instead of at the side.
NARROW = 4.6
# Width of an average letter, as a part of the size of the font.
LETTER = 0.54
LONGEST_NAME = 32


def require_matplotlib() -> Any:
    """Import matplotlib.pyplot, or say which extra brings it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install 'annealed[plot]'"
        ) from error
    return plt


def axes_to_draw_in(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure of that size in inches."""
    plt = require_matplotlib()
    if ax is not None:
        return ax
    drawn: Axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return drawn


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes, as far as known before the figure is laid out."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return float(box.width / dpi), float(box.height / dpi)


def is_narrow(ax: Axes) -> bool:
    """Whether axes are as narrow as a column of a paper."""
    return bool(inches(ax)[0] < NARROW)


def text_size(ax: Axes) -> str:
    """Size of labels and ticks: smaller where there is little room."""
    return "small" if is_narrow(ax) else "medium"


def points(size: float | str) -> float:
    """A font size such as "small" in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points())


def stroke(ax: Axes) -> float:
    """How much thicker than on a page lines are: on a slide, where text is larger, they are too."""
    _, height = inches(ax)
    return float(np.clip(height / 3.5, 0.5, 1.0)) * max(1.0, points("medium") / 10)


# -- words -------------------------------------------------------------------------------------


def plain(name: Any, longest: int = LONGEST_NAME) -> str:
    """A name from the user's data in one line of printable letters, cut in the middle if long."""
    words = "".join(c if c.isprintable() else " " for c in str(name))
    if len(words) <= longest:
        return words
    tail = (longest - 1) // 3
    return f"{words[: longest - 1 - tail]}…{words[-tail:]}"


def literal(text: Text) -> Text:
    """Show the words as they are: a dollar sign in the name of a feature begins no formula."""
    text.set_parse_math(False)
    return text


def fold(words: str, room: float, size: float | str) -> str:
    """Break words into lines that fit into so many inches, best before what is in brackets."""
    letters = max(int(room * 72 / (LETTER * points(size))), 8)
    if len(words) <= letters:
        return words
    before, bracket, after = words.partition(" (")
    parts = [before, bracket.strip() + after] if after else [words]
    lines = [
        line for part in parts for line in textwrap.wrap(part, letters, break_long_words=False)
    ]
    return "\n".join(lines)


def write_title(ax: Axes, words: str, short: str | None = None, pad: float | None = None) -> None:
    """A title that does not stand out over narrow axes; ``short`` is what it says there."""
    narrow = is_narrow(ax)
    size = "medium" if narrow else "large"
    folded = fold((short or words) if narrow else words, inches(ax)[0], size)
    literal(ax.set_title(folded, fontsize=size, pad=pad))


def write_labels(
    ax: Axes, x: str | None = None, y: str | None = None, size: str | None = None
) -> None:
    """Axis labels, folded to the length of their axes, and the size of the numbers beside them."""
    size, (width, height) = size or text_size(ax), inches(ax)
    ax.tick_params(labelsize=size)
    if x is not None:
        literal(ax.set_xlabel(fold(x, 1.1 * width, size), fontsize=size))
    if y is not None:
        literal(ax.set_ylabel(fold(y, 1.05 * height, size), fontsize=size))


def hide_spines(ax: Axes, *sides: str) -> None:
    """Take away the lines at these sides (top and right if none is named)."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def short_number(value: float) -> str:
    """500, 20k, 3M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


# -- legends -----------------------------------------------------------------------------------


Entries = Sequence[tuple["Artist", str]]


def add_legend(ax: Axes, colours: Entries, notes: Entries = (), *, below: float = 30.0) -> Any:
    """A legend of what the colours mean and of other signs: beside wide axes, under narrow ones.

    Under narrow axes it begins ``below`` points beneath them. In a figure that is not laid out
    automatically it would be cut off at either place, so it goes inside.
    """
    figure: Any = ax.figure
    everything = [*colours, *notes]
    if not everything:
        return None
    if figure.get_layout_engine() is None:
        inside = {"loc": "best", "frameon": True, "framealpha": 0.8, "fontsize": "small"}
        return _legend(ax, everything, inside)
    if not is_narrow(ax):
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
        return _legend(ax, everything, beside)
    if not (colours and notes):
        return _legend_under(ax, everything, below)[0]
    first, height = _legend_under(ax, colours, below)
    second, _ = _legend_under(ax, notes, below + height)
    ax.add_artist(first).set_clip_on(False)  # or the layout would leave no room for it
    ax.legend_ = second
    return first


def _legend_under(ax: Axes, entries: Entries, below: float) -> tuple[Any, float]:
    """A legend in as many columns as there is room for, and its height in points."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    entries = [(handle, plain(name.replace("\n", " "), 24)) for handle, name in entries]
    longest = max(len(name) for _, name in entries)
    letter = points("small")
    each = LETTER * letter * longest + 2.6 * letter
    columns = max(1, min(len(entries), int(72 * 0.96 * _slot(ax) / each)))
    rows = -(-len(entries) // columns)
    under = ax.transAxes + ScaledTranslation(0, -below / 72, figure.dpi_scale_trans)
    # Centred under the figure rather than the axes, which have their labels at the left.
    legend = _legend(ax, entries, {
        "loc": "upper center", "bbox_to_anchor": (0.44, 0.0), "bbox_transform": under,
        "frameon": False, "fontsize": "small", "borderaxespad": 0.0, "borderpad": 0.2,
        "labelspacing": 0.3, "ncols": columns, "columnspacing": 1.0, "handlelength": 1.3,
        "handletextpad": 0.5,
    })  # fmt: skip
    return legend, rows * 1.35 * letter + 0.4 * letter


def _slot(ax: Axes) -> float:
    """Width in inches of what axes and their labels have to themselves in the figure."""
    figure: Any = ax.figure
    place = ax.get_subplotspec()
    part = 1.0 if place is None else len(place.colspan) / place.get_gridspec().ncols
    return float(figure.get_figwidth() * part)


def _legend(ax: Axes, entries: Entries, options: dict[str, Any]) -> Any:
    # Words are set afterwards: a label with a leading underscore would be left out.
    legend = ax.legend([handle for handle, _ in entries], ["x"] * len(entries), **options)
    for text, (_, name) in zip(legend.get_texts(), entries, strict=True):
        literal(text).set_text(name)
    return legend


def line_handle(colour: Colour, **style: Any) -> Artist:
    """What stands for a line in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, **({"linewidth": 3.5} | style))


def dot_handle(**style: Any) -> Artist:
    """What stands for a marker in a legend."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"marker": "o", "mfc": "white", "mec": INK, "mew": 0.8} | style
    return Line2D([], [], linestyle="", **look)


# -- axes of temperature -----------------------------------------------------------------------


def scale_temperature(ax: Axes, T: Array, *, vertical: bool = False) -> None:
    """A log axis from the hottest T to the coldest, with plain numbers that do not collide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    hot, cold = float(np.max(T)), float(np.min(T))
    margin = max(hot / cold, 1.5) ** 0.02
    axis = ax.yaxis if vertical else ax.xaxis
    (ax.set_yscale if vertical else ax.set_xscale)("log")
    if vertical:
        ax.set_ylim(cold / margin, hot * margin)
    else:
        ax.set_xlim(hot * margin, cold / margin)
    decades = max(np.log10(hot / cold), 0.1)
    room = inches(ax)[1 if vertical else 0] * 72 / decades  # points for a decade
    letter = points("medium") * (1.4 if vertical else 4 * LETTER)
    subs = (1.0, 2.0, 5.0) if room > 4.2 * letter else (1.0, 3.0) if room > 3 * letter else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=30))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def spread_labels(places: Array, wanted: Array, apart: float) -> list[int]:
    """Which of some labels to show, the most wanted first, none closer than ``apart``."""
    shown: list[int] = []
    for k in np.argsort(-wanted, kind="stable"):
        if all(abs(places[k] - places[other]) > apart for other in shown):
            shown.append(int(k))
    return sorted(shown)


def mark_model_in_use(
    draw_line: Callable[..., Any], current: tuple[float, int], coldest: float
) -> tuple[Any, str]:
    """A line through the temperature of the model in use, and words for it in the legend.

    ``draw_line`` is ``axhline`` or ``axvline``; the model may be colder than all that is drawn.
    """
    T, K = max(current[0], coldest), current[1]
    line = draw_line(T, zorder=0, color=INK, linestyle=(0, (4, 3)), linewidth=1.2)
    return line, f"model in use (K = {K})"
