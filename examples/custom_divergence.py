"""A divergence of your own
========================

Give phi and its gradient; everything else follows.

Here errors upwards cost more than errors downwards, as when a forecast must not fall short:
phi(x) = exp(x) - x for each feature. Codevectors are still means, as for every Bregman divergence;
what changes is where one cell ends and the next begins, and so where splits happen.
Draws out/custom_divergence.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from annealed import BregmanDivergence, ODAClustering
from annealed.plots import CodebookDisplay

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    lopsided = BregmanDivergence(
        phi=lambda X: (np.exp(X) - X).sum(axis=1),
        gradient=lambda X: np.exp(X) - 1,
        hessian=np.exp,
        name="exp",
    )
    X = np.random.default_rng(0).uniform(-2.5, 2.5, (400, 2))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for ax, divergence in zip(axes, ("squared_euclidean", lopsided), strict=True):
        model = ODAClustering(
            12,
            shape="round",
            divergence=divergence,
            gamma=0.8,
            samples_per_codevector=20,
            random_state=0,
        ).fit(X)
        name = getattr(divergence, "name", divergence)
        upper = np.mean(model.cluster_centers_.sum(axis=1) > 0)
        print(f"{name:18} {upper:.0%} of the codevectors in the upper right half")
        CodebookDisplay.from_estimator(model, X, ax=ax)
        ax.set_title(f"{name.replace('_', ' ')}")
    figure.savefig(OUT / "custom_divergence.png", dpi=150)


if __name__ == "__main__":
    main()
