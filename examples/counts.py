"""Counts
======

The I-divergence groups by proportions where the Euclidean distance groups by size.

Customers of a shop for bread and books. They have two habits, but how much they buy differs thirty
times, and that is what the Euclidean distance sees first. The I-divergence weighs a difference by
how large the counts are, as chance does. Draws out/counts.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from annealed import ODAClustering
from annealed.plots import CodebookDisplay

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    habit = rng.integers(0, 2, 1200)
    share = np.array([[0.8, 0.2], [0.2, 0.8]])[habit]
    size = np.exp(rng.uniform(np.log(10), np.log(300), len(habit)))
    X = rng.poisson(size[:, None] * share).astype(float)

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for ax, divergence in zip(axes, ("squared_euclidean", "i_divergence"), strict=True):
        model = ODAClustering(8, divergence=divergence, random_state=0).fit(X)
        # A group of codevectors for each habit: who agrees with whom.
        habits = model.cluster_centers_[:, 0] > model.cluster_centers_[:, 1]
        agreement = adjusted_rand_score(habit, habits[model.labels_])
        print(f"{divergence:18} {agreement:.2f} agreement with the habits (1: perfect)")
        CodebookDisplay.from_estimator(model, X, ax=ax)
        ax.set(title=f"{divergence.replace('_', ' ')}: {agreement:.2f}")
        ax.set(xlabel="bread bought", ylabel="books bought")
    figure.savefig(OUT / "counts.png", dpi=150)


if __name__ == "__main__":
    main()
