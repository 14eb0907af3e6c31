"""Fig. 4: running times of the algorithms of Fig. 2a and Fig. 3a."""

from __future__ import annotations

import statistics
import time
from typing import Any

from annealed.experiments.configuration import Settings
from annealed.experiments.drawing import COLOURS, MARKERS, figure, plain_log_ticks, save
from annealed.experiments.lab import Lab, Rows, standardised
from annealed.experiments.models import FULL, PLAIN, one_thread, ours, quiet, references
from annealed.experiments.quantisers import (
    annealed,
    batch_da,
    in_sequence,
    k_means,
    online_da,
    sizes,
    stochastic_vq,
)
from annealed.experiments.results import Cell, Check, Outcome, Picture

Times = dict[str, list[float]]
GUIDE = (0.88, 0.88, 0.88)


def steps(settings: Settings) -> int:
    """Steps of the work, for a progress bar."""
    return 2 * int(settings["repeats"])


def run(lab: Lab) -> Outcome:
    """Time everyone in turns."""
    rows = lab.rows("gaussians")
    assert rows is not None  # generated
    with one_thread():
        clustering, classification = _clustering(lab, rows), _classification(lab, rows)
    panels = {"clustering (Fig. 2a)": clustering, "classification (Fig. 3a)": classification}
    lines: list[list[Cell]] = [
        [panel, who, repeat, round(seconds, 5)]
        for panel, times in panels.items()
        for who, of_repeats in times.items()
        for repeat, seconds in enumerate(of_repeats)
    ]
    lab.write_csv("fig4.csv", ["panel", "algorithm", "repeat", "seconds"], lines)
    _draw(lab, panels)
    oda, da = statistics.median(clustering["ODA"]), statistics.median(clustering["DA"])
    caption = (
        f"Running times on the Gaussians, log scale: each of {lab.settings['repeats']} runs, and "
        "their median."
    )
    return Outcome(
        "fig4",
        "Fig. 4: running times",
        [
            "Running times of the algorithms of Fig. 2a and Fig. 3a on a personal computer. ODA "
            "takes substantially less time than DA; its implementation is said not to be "
            "optimised, while those of k-means, SVM, NN and RF are.",
        ],
        [Picture("fig4", caption)],
        [
            "Times belong to the machine of this run; every algorithm runs on one thread. ODA and "
            "DA share one compiled kernel here, so the comparison is of the algorithms; sVQ is "
            "ours too, the others are scikit-learn's.",
            "k-means and sVQ run in sequence over the K that DA found, their times added up, as in "
            "the paper. ODA goes on to twice DA's largest K, so its time includes a path twice as "
            "long.",
            "“ODA, full” chooses a level on rows held out and fine-tunes, which the paper did not "
            "do; that is most of its time.",
        ],
        [
            Check(
                "Gaussians: ODA takes less time than DA",
                f"{oda:.3f} s and {da:.3f} s, {da / oda:.0f} times as much",
                oda < da,
            )
        ],
    )


def _clustering(lab: Lab, rows: Rows) -> Times:
    settings, X = lab.settings, standardised(rows.X)
    times: Times = {"sVQ": [], "k-means": [], "DA": [], "ODA": []}
    for repeat in range(settings["repeats"]):
        lab.step(f"clustering, {repeat + 1} of {settings['repeats']}")
        _, da = annealed(batch_da(settings), X)
        times["DA"].append(da[-1].seconds)
        _, oda = annealed(online_da(settings, settings["seed"] + repeat), X)
        times["ODA"].append(oda[-1].seconds)
        Ks = sizes(da)
        times["k-means"].append(in_sequence(k_means(X, settings), X, Ks)[-1].seconds)
        times["sVQ"].append(in_sequence(stochastic_vq(X, settings), X, Ks)[-1].seconds)
    return times


def _classification(lab: Lab, rows: Rows) -> Times:
    settings = lab.settings
    builds: dict[str, Any] = {"ODA": ours(PLAIN), "ODA, full": ours(FULL)}
    for (who, scaling), build in references(settings).items():
        if scaling == "standardised" or who == "RF":
            builds[who] = build
    times: Times = {who: [] for who in ("SVM", "RF", "NN", "ODA, full", "ODA")}
    for repeat in range(settings["repeats"]):
        lab.step(f"classification, {repeat + 1} of {settings['repeats']}")
        for who, build in builds.items():
            began = time.perf_counter()
            with quiet():
                build(settings["seed"]).fit(rows.X, rows.y)
            times[who].append(time.perf_counter() - began)
    return times


def _draw(lab: Lab, panels: dict[str, Times]) -> None:
    """Dots, since on a log scale the length of a bar means nothing."""
    with figure(1, len(panels), 11, 3.0) as (drawn, axes):
        for letter, (title, times), ax in zip("ab", panels.items(), axes[0], strict=True):
            lowest, highest = (end(map(end, times.values())) for end in (min, max))
            ax.set(title=f"({letter}) {title}", xscale="log", xlabel="seconds")
            ax.set_xlim(lowest / 2, highest * 3)
            ax.set_ylim(-0.6, len(times) - 0.4)
            for place, (who, of_repeats) in enumerate(times.items()):
                middle, colour = statistics.median(of_repeats), COLOURS[who]
                ax.axhline(place, color=GUIDE, linewidth=0.8, zorder=0)
                ax.plot(of_repeats, [place] * len(of_repeats), linestyle="", marker="|",
                        markersize=11, color=colour, alpha=0.7)  # fmt: skip
                ax.plot(middle, place, marker=MARKERS.get(who, "o"), markersize=8, color=colour)
                ax.annotate(f"{middle:.2g} s", (max(of_repeats), place), xytext=(9, 0), fontsize=9,
                            textcoords="offset points", va="center",
                            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
            ax.set_yticks(range(len(times)), list(times))
            ax.tick_params(axis="y", length=0)
            plain_log_ticks(ax)
        save(drawn, lab.out, "fig4")
