"""What a classifier decides by
============================

Codevectors in the units of the features, and what counts.

Tumours of the Wisconsin breast cancer data. The classifier has few codevectors, each a typical
case; taken back to the original units they can be read, and say in what the classes differ.
Draws out/interpret_profiles.png and out/interpret_tree.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from annealed import ODAClassifier
from annealed.plots import CodevectorDisplay, SplitTreeDisplay

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    data = load_breast_cancer()
    rows, rows_test, y, y_test = train_test_split(
        data.data, data.target_names[data.target], stratify=data.target, random_state=0
    )
    scaler = StandardScaler().fit(rows)
    model = ODAClassifier(random_state=0).fit(scaler.transform(rows), y)
    K, right = len(model.codevectors_), model.score(scaler.transform(rows_test), y_test)
    print(f"{K} codevectors, {right:.1%} of {len(y_test)} tumours right")

    # The mean of each class's codevectors, by their weights, which sum to one within a class.
    mean = {
        label: model.weights_[model.codevector_labels_ == label]
        @ scaler.inverse_transform(model.codevectors_[model.codevector_labels_ == label])
        for label in model.classes_
    }
    print(f"they differ most in:       {'benign':>9} {'malignant':>9}")
    apart = np.abs(mean["malignant"] - mean["benign"]) / scaler.scale_
    for j in np.argsort(-apart)[:5]:
        print(f"  {data.feature_names[j]:24} {mean['benign'][j]:9.3g} {mean['malignant'][j]:9.3g}")

    profiles = CodevectorDisplay.from_estimator(
        model, inverse_transform=scaler, feature_names=data.feature_names, X=rows
    )
    profiles.figure_.savefig(OUT / "interpret_profiles.png", dpi=150)
    SplitTreeDisplay.from_estimator(model).figure_.savefig(OUT / "interpret_tree.png", dpi=150)


if __name__ == "__main__":
    main()
