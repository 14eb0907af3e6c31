"""A small bifurcation diagram as SVG, for notebooks; it needs nothing but this package."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from annealed.divergences import Array
from annealed.path import AnnealingPath
from annealed.views.colours import as_hex, branch_colour
from annealed.views.lineage import find_branches, follow_up, in_use, lasting_codevectors
from annealed.views.projection import project

WIDTH, HEIGHT, EDGE, BELOW = 420, 150, 8, 22
# Beyond so many codevectors lines cover each other, and the text grows with them.
MOST_LINES = 64


def sketch_bifurcation(
    path: AnnealingPath,
    *,
    class_names: Sequence[Any] | None = None,
    current: tuple[float, int] | None = None,
    nodes: Sequence[int] | None = None,
) -> str:
    """The bifurcation diagram of a path as an SVG element; empty if no level is finished.

    Parameters
    ----------
    path : AnnealingPath
        Of one with more than 64 codevectors, the part until there are so many.
    class_names, current, nodes
        As in `annealed.plots.BifurcationDisplay.from_path`.

    Returns
    -------
    str

    Examples
    --------
    >>> from annealed import ODAClustering
    >>> from annealed.views.sketch import sketch_bifurcation
    >>> from sklearn.datasets import load_iris
    >>> path = ODAClustering(random_state=0).fit(load_iris().data).path_
    >>> sketch_bifurcation(path)[:4]
    '<svg'
    """
    whole, K = path, (current or (0.0, 0))[1]
    path = path.until(max(MOST_LINES, len(np.unique(path[0].classes)))) if len(path) else path
    if not len(path):
        return ""
    positions, _ = project(path, None, None)
    fits = nodes if K <= 1 + len(path.splits) else None
    branches, names = find_branches(path, class_names=class_names, n_codevectors=K, nodes=fits)
    view = _View(path, positions)
    lines = _draw_lines(view, branches)
    dots = [_dot(view, split, T) for split, T in path.ordered_splits]
    mark, words = "", ""
    used = in_use(whole, current)
    if used is not None:
        words = f", in use: K = {K}"
        x = view.x(max(used[0], path[-1].temperature))
        mark = (
            f'<line x1="{x}" x2="{x}" y1="0" y2="{HEIGHT}" stroke="currentColor" '
            'stroke-dasharray="4 3"/>'
        )
    first, last = path[0], path[-1]
    caption = (
        f"T {first.temperature:.3g} → {last.temperature:.3g}, "
        f"K {first.n_codevectors} → {last.n_codevectors}{words}"
    )
    title = f"Codevectors as the temperature falls: {caption}"
    legend = ", ".join(f"{name}" for name in names)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" '
        f'height="{HEIGHT + BELOW}" viewBox="0 0 {WIDTH} {HEIGHT + BELOW}" '
        'style="max-width:100%;background:none">'
        f"<title>{_text(title)}</title><desc>{_text(legend)}</desc>"
        f'{mark}<g fill="none" stroke-linecap="round">{"".join(lines)}</g>'
        f'<g fill="white" stroke="#333">{"".join(dots)}</g>'
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT + 15}" text-anchor="middle" fill="currentColor" '
        f'font-family="sans-serif" font-size="12">{_text(caption)}</text></svg>'
    )


def _text(words: str) -> str:
    """Words as text and nothing else; characters XML has no place for are left out."""
    return escape("".join(c for c in words if c.isprintable()), quote=True)


class _View:
    """Pixels of temperatures and positions."""

    def __init__(self, path: AnnealingPath, positions: list[Array]) -> None:
        self.path, self.positions = path, positions
        self.hot, self.cold = np.log(path[0].temperature), np.log(path[-1].temperature)
        drawn = np.concatenate(positions)
        self.low, self.high = float(drawn.min()), float(drawn.max())

    def x(self, T: float) -> str:
        part = (self.hot - np.log(T)) / max(self.hot - self.cold, 1e-300)
        return f"{EDGE + (WIDTH - 2 * EDGE) * float(np.clip(part, 0, 1)):.1f}"

    def y(self, position: float) -> str:
        part = (self.high - position) / max(self.high - self.low, 1e-300)
        return f"{EDGE + (HEIGHT - 2 * EDGE) * part:.1f}"


def _draw_lines(view: _View, branches: list[Any]) -> list[str]:
    """A path for every branch and width."""
    pieces: dict[tuple[int, float], list[str]] = {}
    lasting = lasting_codevectors(view.path)
    n_classes = len(np.unique(view.path[-1].classes))
    for k in range(1, len(view.path)):
        level, before = view.path[k], view.path[k - 1]
        start, end = view.x(before.temperature), view.x(level.temperature)
        for i in np.flatnonzero(lasting[k] & (level.parents >= 0)):
            a, b = view.positions[k - 1][level.parents[i]], view.positions[k][i]
            width = max(0.5, round(2 * 5 * float(np.sqrt(level.weights[i] / n_classes))) / 2)
            piece = f"M{start} {view.y(a)}L{end} {view.y(b)}"
            pieces.setdefault((int(branches[k][i]), width), []).append(piece)
    return [
        f'<path d="{"".join(d)}" stroke="{as_hex(branch_colour(branch))}" '
        f'stroke-width="{width:g}"/>'
        for (branch, width), d in sorted(pieces.items())
    ]


def _dot(view: _View, split: Any, T: float) -> str:
    level = view.path[split.level]
    T = max(T, level.temperature)
    children = view.path.born_of(split)
    i = int(level.parents[children][0])
    y = view.y(follow_up(view.path, view.positions, split.level - 1, i, T))
    radius = 1.2 + 1.8 * float(np.sqrt(level.weights[children].sum()))
    return f'<circle cx="{view.x(T)}" cy="{y}" r="{radius:.1f}" stroke-width="0.7"/>'
