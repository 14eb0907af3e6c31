"""How many clusters are there?
============================

As many as the data shows borders between, or as many as last.

Fifteen groups in the plane, nobody says how many. Groups are parted where the density falls
between them. As the paper has it (``shape="round"``), a codevector is a cluster, and the K is taken
that lasts longer, as the temperature falls, than structureless data would let it. A plain Gaussian
shows neither borders nor such a K: K is 1.
Draws out/choose_k.png (the cells) and out/choose_k_persistence.png (why that K, of round clusters).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

from annealed import ODAClustering
from annealed.plots import CodebookDisplay, TradeoffDisplay

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    grid = np.stack(np.meshgrid(np.arange(5), np.arange(3)), axis=-1).reshape(-1, 2)
    X, _ = make_blobs(1500, centers=6.0 * grid, cluster_std=1.0, random_state=0)
    model = ODAClustering(random_state=0).fit(X)
    print(f"15 groups: K = {model.n_clusters_}, by a margin of {model.n_clusters_margin_:.2f}")
    CodebookDisplay.from_estimator(model, X).figure_.savefig(OUT / "choose_k.png", dpi=150)
    model = ODAClustering(shape="round", random_state=0).fit(X)
    print(f"   as round ones: K = {model.n_clusters_}, by {model.n_clusters_margin_:.2f} in log T")
    TradeoffDisplay.from_estimator(model, against="temperature").figure_.savefig(
        OUT / "choose_k_persistence.png", dpi=150
    )

    noise = np.random.default_rng(0).normal(size=(1500, 2))
    print(f"no groups: K = {ODAClustering(random_state=0).fit(noise).n_clusters_}")


if __name__ == "__main__":
    main()
