"""Fig. 2: distortion against samples observed, for ODA, batch DA, k-means and sVQ."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from annealed.divergences import Array
from annealed.experiments.configuration import Settings
from annealed.experiments.drawing import (
    COLOURS,
    MARKERS,
    Numbers,
    figure,
    numbers_along,
    plain_log_ticks,
    save,
    where_changed,
)
from annealed.experiments.equal_k import (
    ANNEALED,
    HARD,
    Equal,
    Readings,
    compare_as_annealed,
    compare_at_zero,
    explain,
    judge,
    tabulate,
)
from annealed.experiments.lab import TITLES, Lab, Rows, standardised
from annealed.experiments.models import one_thread
from annealed.experiments.quantisers import (
    ALGORITHMS,
    Point,
    annealed,
    batch_da,
    in_sequence,
    k_means,
    online_da,
    sizes,
    stochastic_vq,
)
from annealed.experiments.results import Cell, Outcome, Picture

STEPS = (*ALGORITHMS, "ODA and DA at T = 0")
Curves = dict[str, list[Point]]


def steps(settings: Settings) -> int:
    """Steps of the work, for a progress bar."""
    return len(settings["sets"]) * len(STEPS)


def run(lab: Lab) -> Outcome:
    """Run the four algorithms on every set."""
    with one_thread():
        return _run(lab)


def _run(lab: Lab) -> Outcome:
    outcome = Outcome(
        "fig2",
        "Fig. 2: distortion against samples observed",
        [
            "The minimum average distortion of ODA, stochastic vector quantization (sVQ), k-means "
            "and the original deterministic annealing (DA) as a function of the samples they have "
            "observed, with the number of clusters written along the curves. k-means and sVQ run "
            "in sequence over the K that DA found. All come to comparable distortions; ODA and "
            "sVQ need far fewer samples than the two offline algorithms.",
        ],
    )
    curves: dict[str, Curves] = {}
    readings: dict[str, Readings] = {}
    for name in lab.settings["sets"]:
        rows = lab.rows(name)
        if rows is None:
            for step in STEPS:
                lab.step(f"{TITLES[name]}: {step} (not at hand)")
            continue
        curves[name], readings[name] = _compare(lab, rows)
        if rows.note:
            outcome.ours.append(f"{rows.title}: {rows.note}.")
        outcome.checks += judge(rows.title, readings[name])
    _write(lab, curves, readings)
    _draw(lab, curves)
    caption = "Distortion against samples observed; numbers along the curves are K."
    outcome.ours = [Picture("fig2", caption), tabulate(readings), *outcome.ours]
    outcome.differences = [*_differences(lab.settings), *explain(readings)]
    return outcome


def _compare(lab: Lab, rows: Rows) -> tuple[Curves, Readings]:
    settings, X = lab.settings, standardised(rows.X)
    lab.step(f"{rows.title}: DA")
    batch, da = annealed(batch_da(settings), X)
    lab.step(f"{rows.title}: ODA")
    seeds = range(settings["seed"], settings["seed"] + settings["oda_repeats"])
    runs = [annealed(online_da(settings, seed), X) for seed in seeds]
    lab.step(f"{rows.title}: k-means")
    means = in_sequence(k_means(X, settings), X, sizes(da))
    lab.step(f"{rows.title}: sVQ")
    svq = in_sequence(stochastic_vq(X, settings), X, sizes(da))
    lab.step(f"{rows.title}: {STEPS[-1]}")
    readings = {
        ANNEALED: [pair for model, oda in runs for pair in compare_as_annealed(X, model, oda, da)],
        HARD: compare_at_zero(X, batch, da, settings),
    }
    return {"ODA": runs[0][1], "DA": da, "k-means": means, "sVQ": svq}, readings


def _write(lab: Lab, curves: dict[str, Curves], every: dict[str, Readings]) -> None:
    lines: list[list[Cell]] = [
        [name, algorithm, p.samples, p.K, round(p.seconds, 5), round(p.distortion, 6)]
        for name, of_set in curves.items()
        for algorithm, points in of_set.items()
        for p in points
    ]
    header = ["set", "algorithm", "samples", "K", "seconds", "distortion"]
    lab.write_csv("fig2.csv", header, lines)
    names = [field.name for field in fields(Equal)]
    equal: list[list[Cell]] = [
        [name, reading, *(round(getattr(pair, key), 6) for key in names)]
        for name, readings in every.items()
        for reading, pairs in readings.items()
        for pair in pairs
    ]
    header = ["set", "reading", "K", "distortion ODA", "distortion DA", "ratio of distortions",
              "ratio of samples", "ratio of seconds"]  # fmt: skip
    lab.write_csv("fig2_equal_k.csv", header, equal)


def _differences(settings: Settings) -> list[str]:
    return [
        "The paper does not say how features were scaled; here they are standardised, so that "
        "distortions cannot be compared with the paper's. They are mean squared distances to the "
        "nearest codevector for all four algorithms, also where an annealed level would share a "
        "sample among several.",
        f"DA stops at {settings['K_max']} codevectors, cools by {settings['da_gamma']} and takes a "
        f"level for done when nothing moves by more than {settings['da_tol']:g} T. ODA has the "
        "package's defaults, and its path begins with one look at all rows, which is counted. "
        f"Every algorithm runs on one thread; ODA with {settings['oda_repeats']} seeds, of which "
        "the figure shows the first.",
        "k-means and sVQ lie below both annealing curves at equal K: they minimise this very "
        "distortion, a level the free energy at its temperature. That all reach comparable "
        "distortions, as the paper says, is true of cold levels.",
    ]


def _draw(lab: Lab, curves: dict[str, dict[str, list[Point]]]) -> None:
    columns = 2
    rows = max(1, -(-len(curves) // columns))
    with figure(rows, columns, 11, 4.3 * rows) as (drawn, axes):
        for ax in axes.ravel()[len(curves) :]:
            ax.set_axis_off()
        handles: dict[str, Any] = {}
        for letter, (name, of_set), ax in zip("abcd", curves.items(), axes.ravel(), strict=False):
            ax.set(title=f"({letter}) {TITLES[name]}", xscale="log",
                   xlabel="samples observed", ylabel="average distortion")  # fmt: skip
            for algorithm, points in of_set.items():
                x, y, K = _columns(points)
                handles[algorithm] = ax.plot(
                    x, y, color=COLOURS[algorithm], marker=MARKERS[algorithm], markersize=4,
                    markevery=where_changed(K), linewidth=1.5, label=algorithm,
                )[0]  # fmt: skip
            ax.set_ylim(bottom=-0.09 * ax.get_ylim()[1])  # room for numbers below a curve
            ax.margins(x=0.04)
            plain_log_ticks(ax)
        if handles:
            drawn.legend(handles=list(handles.values()), loc="outside lower center", ncols=4)
        drawn.draw_without_rendering()  # so that scales and places are final
        for of_set, ax in zip(curves.values(), axes.ravel(), strict=False):
            numbers_along(
                ax, [Numbers(*_columns(points), COLOURS[who]) for who, points in of_set.items()]
            )
        save(drawn, lab.out, "fig2")


def _columns(points: list[Point]) -> tuple[Array, Array, list[int]]:
    """Samples, distortions and K."""
    samples, distortions = (
        [getattr(p, name) for p in points] for name in ("samples", "distortion")
    )
    return np.array(samples), np.array(distortions), [point.K for point in points]
