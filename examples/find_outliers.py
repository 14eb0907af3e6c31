"""Outliers
========

Samples in which the model sees little density.

A clustering is also a mixture density, and `score_samples` gives its logarithm. A model of samples
that are trusted says of new ones how strange they are. Draws out/find_outliers.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score

from annealed import ODAClustering
from annealed.plots import CodebookDisplay
from annealed.views.colours import PALETTE

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    trusted, _ = make_moons(1000, noise=0.06, random_state=0)
    model = ODAClustering(30, random_state=0).fit(trusted)
    threshold = np.quantile(model.score_samples(trusted), 0.01)

    usual, _ = make_moons(450, noise=0.06, random_state=1)
    strangers = np.random.default_rng(0).uniform([-1.8, -1.3], [2.8, 1.8], (50, 2))
    X = np.concatenate([usual, strangers])
    strange = np.repeat([False, True], [len(usual), len(strangers)])
    density = model.score_samples(X)
    found = density < threshold
    print(f"area under the ROC curve: {roc_auc_score(strange, -density):.3f}")
    print(f"found: {found[strange].mean():.0%} of the strangers,", end=" ")
    print(f"{found[~strange].mean():.1%} of the others")

    display = CodebookDisplay.from_estimator(model, usual, regions=False)
    for rows, marker, name in (
        (strangers[~found[strange]], "+", "stranger, not found"),
        (X[found], "x", "called strange"),
    ):
        display.ax_.scatter(*rows.T, marker=marker, color=PALETTE[3], label=name)
    display.ax_.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    display.ax_.set_title("30 codevectors, and who is called strange")
    display.figure_.savefig(OUT / "find_outliers.png", dpi=150)


if __name__ == "__main__":
    main()
