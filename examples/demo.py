"""What annealing does
===================

178 wines: find the groups nobody named, then learn the named ones.

Prints every level as the temperature falls. Draws out/bifurcation.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from annealed import ODAClassifier, ODAClustering
from annealed.path import Level
from annealed.plots import BifurcationDisplay

PICTURE = Path("out/bifurcation.png")


def print_level(level: Level) -> None:
    """One line for a finished level."""
    K = level.n_codevectors
    print(f"  T = {level.temperature:6.2f}   K = {K:3d}   {'o' * min(K, 60)}", flush=True)


def print_groups(groups: np.ndarray, cultivars: np.ndarray, names: np.ndarray) -> None:
    """Who is in which group."""
    print("  " + " " * 10 + "".join(f"{name:>12}" for name in names))
    for group in np.unique(groups):
        counts = [np.sum((groups == group) & (cultivars == c)) for c in range(len(names))]
        print(f"  group {group:<4}" + "".join(f"{count:12d}" for count in counts))


def main() -> None:
    """Run the demonstration."""
    wine = load_wine()
    names = np.array(["cultivar A", "cultivar B", "cultivar C"])
    X = StandardScaler().fit_transform(wine.data)
    print(
        f"{len(X)} wines, {X.shape[1]} chemical measurements each, from three cultivars of grape."
    )

    print("\n1. Clustering. The cultivars are kept secret, and so is how many groups there are.")
    print("   All wines start as one group (K = 1). As the temperature T falls, groups split:\n")
    clustering = ODAClustering(random_state=0, callbacks=[print_level]).fit(X)

    print(f"\n   {clustering.n_clusters_} groups stand out from what data without any would show.")
    print("   Here they are beside the cultivars, which it has never seen:\n")
    print_groups(clustering.labels_, wine.target, names)

    print("\n2. Classification. Now two thirds of the wines come with their cultivar; the others")
    print("   are to be recognised. One fit gives a model at every K, from coarse to fine:\n")
    X_train, X_test, y_train, y_test = train_test_split(
        X, names[wine.target], test_size=1 / 3, stratify=wine.target, random_state=0
    )
    classifier = ODAClassifier(random_state=0).fit(X_train, y_train)
    coarsest, finest = classifier.path_[0].n_codevectors, classifier.path_[-1].n_codevectors
    for K in [k for k in (3, 6, 12, 24, 48) if coarsest <= k < finest] + [finest]:
        right = classifier.at(n_codevectors=K).score(X_test, y_test)
        print(f"  K = {K:3d}   {right:6.1%} of the {len(X_test)} wines right")

    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    display = BifurcationDisplay.from_estimator(clustering)
    display.figure_.savefig(PICTURE, dpi=150)
    print(f"\nThe splits of part 1 are drawn in {PICTURE}.")


if __name__ == "__main__":
    main()
