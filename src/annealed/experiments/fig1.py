"""Fig. 1: codevectors and decision regions as the temperature falls, and from a bad start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from annealed.baselines import LVQClassifier, StochasticVQ
from annealed.divergences import Array
from annealed.estimators import ODAClassifier
from annealed.experiments.configuration import Settings
from annealed.experiments.drawing import figure, save
from annealed.experiments.far_start import MisplacedODA
from annealed.experiments.lab import TITLES, Lab, Labels, Rows, standardised
from annealed.experiments.results import Cell, Check, Outcome, Picture
from annealed.path import Level
from annealed.views.colours import INK, PALETTE, paler

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = "abc"
SHAPES = ("o", "s")  # of the codevectors of a class
HEADER = ["panel", "set", "algorithm", "T", "K", "accuracy", "codevectors in the data"]


@dataclass(frozen=True)
class Panel:
    """One picture: codevectors over data, with a line of text below."""

    title: str
    below: str
    codevectors: Array
    classes: Labels | None  # None: codevectors carry no class
    # Rows to how much speaks for class 1, the border at 0.5; None: no regions.
    evidence: Callable[[Array], Array] | None = None


def steps(settings: Settings) -> int:
    """Steps of the work, for a progress bar."""
    return len(settings["sets"]) + 2


def run(lab: Lab) -> Outcome:
    """Draw the four parts."""
    outcome = Outcome(
        "fig1",
        "Fig. 1: evolution with falling temperature",
        [
            "(a)-(c): codevectors of two classes in the plane (1500 samples each) at four "
            "temperatures. One codevector for each class at first; their number and, as a rule, "
            "the accuracy grow as T falls, and towards T = 0 the number grows rapidly without a "
            "corresponding gain.",
            "(d): codevectors that start outside the data. LVQ is known to fail there; annealing "
            "brings them in.",
        ],
    )
    lines: list[list[Cell]] = []
    for letter, name in zip(LETTERS, lab.settings["sets"], strict=True):
        lab.step(TITLES[name])
        rows = lab.rows(name)
        assert rows is not None  # generated
        _evolution(lab, outcome, letter, rows, lines)
    _far_start(lab, outcome, lines)
    lab.write_csv("fig1.csv", HEADER, lines)
    outcome.differences += [
        "The paper gives neither the generators of its sets nor the temperatures of its panels; "
        "panels here are the coldest levels with at most "
        f"{', '.join(map(str, lab.settings['codevectors']))} codevectors. Its caption calls the "
        "problems binary, its text calls the Gaussians multi-class; here all have two classes.",
        "Accuracies are of the samples learnt, as the figure shows them; Table 1 has those of "
        "samples not learnt.",
    ]
    return outcome


def _evolution(
    lab: Lab, outcome: Outcome, letter: str, rows: Rows, lines: list[list[Cell]]
) -> None:
    X = standardised(rows.X)
    model = _plain(lab.settings["seed"]).fit(X, rows.y)
    levels = [_at_most(model, K) for K in lab.settings["codevectors"]]
    panels = [_panel(model, level, X, rows.y) for level in levels]
    for level in levels:
        accuracy = _accuracy(model, level, X, rows.y)
        lines.append([letter, rows.name, "ODA", level.temperature, level.n_codevectors,
                      round(accuracy, 3), level.n_codevectors])  # fmt: skip
    _draw(lab, f"fig1{letter}", [panels], X, rows.y)
    first, last = (_accuracy(model, level, X, rows.y) for level in (levels[0], levels[-1]))
    outcome.ours.append(
        Picture(f"fig1{letter}", f"({letter}) {rows.title}. Codevectors (circles and squares), "
                "decision regions, and below each panel T, K and the accuracy.")
    )  # fmt: skip
    outcome.checks.append(
        Check(
            f"{rows.title}: accuracy grows as T falls, to more than 95 %",
            f"from {first:.1f} to {last:.1f} % with {levels[-1].n_codevectors} codevectors",
            last > max(first, 95.0),
        )
    )


def _plain(seed: int) -> ODAClassifier:
    return ODAClassifier(level="last", fine_tune=None, random_state=seed)


def _at_most(model: ODAClassifier, K: int) -> Level:
    """The coldest level with at most K codevectors (the hottest if all have more)."""
    fitting = [level for level in model.path_ if level.n_codevectors <= K]
    return fitting[-1] if fitting else model.path_[0]


def _accuracy(model: ODAClassifier, level: Level, X: Array, y: Labels) -> float:
    return 100 * float(model.at(temperature=level.temperature).score(X, y))


def _panel(model: ODAClassifier, level: Level, X: Array, y: Labels) -> Panel:
    there = model.at(temperature=level.temperature)
    T, K = level.temperature, level.n_codevectors
    accuracy = _accuracy(model, level, X, y)
    return Panel(
        f"T = {T:.3g}", f"K = {K}, accuracy {accuracy:.1f} %", level.codevectors, level.classes,
        lambda places: there.predict_proba(places)[:, 1],
    )  # fmt: skip


# -- from outside the data ---------------------------------------------------------------------


def _far_start(lab: Lab, outcome: Outcome, lines: list[list[Cell]]) -> None:
    settings = lab.settings
    rows = lab.rows(settings["far_set"])
    assert rows is not None  # generated
    X, y = standardised(rows.X), rows.y
    rng = np.random.default_rng(settings["seed"])
    place = np.array(settings["far_place"])
    per_class = settings["far_per_class"]
    start = place + settings["far_spread"] * rng.normal(size=(2 * per_class, 2))
    label = np.repeat([0, 1], per_class).astype(np.int64)

    lab.step("ODA from outside the data")
    model = MisplacedODA(
        start[[0, per_class]], level="last", fine_tune=None, random_state=settings["seed"]
    ).fit(X, y)
    levels = [_at_most(model, K) for K in settings["far_codevectors"]]
    annealed = [
        Panel("ODA: start", "K = 2, before the first sample", start[[0, per_class]],
              label[[0, per_class]]),
        *(replace(panel, title=f"ODA: {panel.title}")
          for panel in (_panel(model, level, X, y) for level in levels)),
    ]  # fmt: skip

    lab.step("LVQ and sVQ from outside the data")
    lvq = LVQClassifier(init=(start, label), random_state=settings["seed"]).fit(X, y)
    svq = StochasticVQ(len(start), init=start, random_state=settings["seed"]).fit(X)
    reached = [_inside(model.codevectors_, X) for model in (lvq, svq)]
    right = 100 * float(lvq.score(X, y))
    final = _accuracy(model, levels[-1], X, y)
    rivals = [
        Panel("LVQ: start", f"K = {len(start)}", start, label),
        Panel("LVQ: end", f"{reached[0]} of {len(start)} reach the data, accuracy {right:.1f} %",
              lvq.codevectors_, np.asarray(lvq.codevector_labels_), _nearest_class(lvq)),
        Panel("sVQ: start", f"K = {len(start)}", start, None),
        Panel("sVQ: end", f"{reached[1]} of {len(start)} reach the data", svq.codevectors_, None),
    ]  # fmt: skip
    _draw(lab, "fig1d", [annealed, rivals], X, y)
    for level in levels:
        lines.append(["d", rows.name, "ODA", level.temperature, level.n_codevectors,
                      round(_accuracy(model, level, X, y), 3), level.n_codevectors])  # fmt: skip
    lines.append(["d", rows.name, "LVQ", 0.0, len(start), round(right, 3), reached[0]])
    lines.append(["d", rows.name, "sVQ", 0.0, len(start), "", reached[1]])
    outcome.ours.append(
        Picture("fig1d", "(d) Codevectors that start outside the data: above ODA, below LVQ and "
                "sVQ from the same place.")
    )  # fmt: skip
    outcome.checks.append(
        Check(
            "From outside the data ODA comes to more than 95 %, LVQ and sVQ leave most of their "
            "codevectors outside",
            f"ODA {final:.1f} %; of {len(start)} codevectors in LVQ {reached[0]} "
            f"(accuracy {right:.1f} %) and in sVQ {reached[1]}",
            final > 95.0 and max(reached) < len(start) / 2,
        )
    )
    outcome.differences.append(
        "(d): our estimators start at the mean of the first samples and never outside the data. "
        "For this panel alone that start is overruled and the two first codevectors are put "
        f"{np.hypot(*place):.1f} standard deviations away. The first level, on which all samples "
        "pull on all codevectors, brings them in."
    )


def _inside(codevectors: Array, X: Array) -> int:
    """How many codevectors lie in the box around the data."""
    inside = (codevectors >= X.min(axis=0)) & (codevectors <= X.max(axis=0))
    return int(inside.all(axis=1).sum())


def _nearest_class(model: LVQClassifier) -> Callable[[Array], Array]:
    """Evidence for class 1 of whoever decides by the nearest codevector."""

    def evidence(places: Array) -> Array:
        square = ((places[:, None, :] - model.codevectors_) ** 2).sum(axis=2)
        to_0, to_1 = (square[:, model.codevector_labels_ == c].min(axis=1) for c in (0, 1))
        return np.asarray(to_0 / (to_0 + to_1))

    return evidence


# -- drawing -----------------------------------------------------------------------------------


def _draw(lab: Lab, stem: str, grid: list[list[Panel]], X: Array, y: Labels) -> None:
    rows, columns = len(grid), len(grid[0])
    every = np.vstack([X, *(panel.codevectors for row in grid for panel in row)])
    low, high = every.min(axis=0), every.max(axis=0)
    margin = 0.06 * (high - low).max()
    box = (low - margin, high + margin)
    width, height = box[1] - box[0]
    panel_height = 2.75 * height / width + 0.6  # inches, with title and text
    with figure(rows, columns, 2.9 * columns, panel_height * rows) as (drawn, axes):
        for row, of_row in zip(grid, axes, strict=True):
            for panel, ax in zip(row, of_row, strict=True):
                _draw_panel(ax, panel, X, y, box, lab.settings["grid"])
        save(drawn, lab.out, stem)


def _draw_panel(
    ax: Axes, panel: Panel, X: Array, y: Labels, box: tuple[Array, Array], grid: int
) -> None:
    (left, bottom), (right, top) = box
    if panel.evidence is not None:
        x0, x1 = np.linspace(left, right, grid), np.linspace(bottom, top, grid)
        places = np.stack(np.meshgrid(x0, x1), axis=-1).reshape(-1, 2)
        for_1 = panel.evidence(places).reshape(grid, grid)
        shades = [paler(paler(PALETTE[c])) for c in (0, 1)]
        ax.contourf(x0, x1, for_1, levels=[-0.1, 0.5, 1.1], colors=shades)
        if for_1.min() < 0.5 < for_1.max():
            ax.contour(x0, x1, for_1, levels=[0.5], colors=[INK], linewidths=0.8)
    for c in (0, 1):
        own = X[y == c]
        ax.scatter(own[:, 0], own[:, 1], s=3, color=PALETTE[c], linewidths=0, alpha=0.6,
                   rasterized=True)  # fmt: skip
    _draw_codevectors(ax, panel)
    ax.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], title=panel.title)
    ax.set_xlabel(panel.below, fontsize=9)
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(True)


def _draw_codevectors(ax: Axes, panel: Panel) -> None:
    mu = panel.codevectors
    size = 46 if len(mu) <= 30 else 26
    if panel.classes is None:
        ax.scatter(mu[:, 0], mu[:, 1], s=size, marker="D", color="white", edgecolors=INK,
                   linewidths=1.0, zorder=3)  # fmt: skip
        return
    for c, shape in enumerate(SHAPES):
        own = mu[panel.classes == c]
        ax.scatter(own[:, 0], own[:, 1], s=size, marker=shape, color=PALETTE[c],
                   edgecolors="white", linewidths=1.0, zorder=3)  # fmt: skip
        ax.scatter(own[:, 0], own[:, 1], s=1.7 * size, marker=shape, facecolors="none",
                   edgecolors=INK, linewidths=0.8, zorder=3)  # fmt: skip
