"""Watch a fit
===========

A progress bar, a live plot, and a callback of one's own in five lines.

On a terminal the bar moves while the temperature falls, and with a window (or in a notebook) so
does the picture; here the last one is kept. Draws out/watch_a_fit.png.
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from annealed import ODAClustering
from annealed.callbacks import LivePlot, ProgressBar
from annealed.path import Level

OUT = Path("out")


class Milestones:
    """Says when there are twice as many codevectors as the last time."""

    def __init__(self) -> None:
        self.next = 1

    def __call__(self, level: Level) -> None:
        if level.n_codevectors >= self.next:
            print(f"{level.n_codevectors:3d} codevectors at T = {level.temperature:.2f}")
            self.next = 2 * level.n_codevectors


def main() -> None:
    OUT.mkdir(exist_ok=True)
    X = StandardScaler().fit_transform(load_wine().data)
    plot = LivePlot()
    ODAClustering(3, random_state=0, callbacks=[ProgressBar(), plot, Milestones()]).fit(X)
    plot.figure_.savefig(OUT / "watch_a_fit.png", dpi=150)


if __name__ == "__main__":
    main()
