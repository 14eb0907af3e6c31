"""Handwritten digits
==================

The codevectors are digits themselves.

Each class is annealed by itself, so the codevectors of the level are ways of writing a digit. They
are shown as annealed; fine-tuning would draw them apart for the sake of the decision, which is what
the classifier then uses. Draws out/digits.png and out/digits_bifurcation.png.
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from annealed import ODAClassifier
from annealed.plots import BifurcationDisplay, CodevectorDisplay

OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(digits.data, digits.target, random_state=0)
    model = ODAClassifier(level="last", fine_tune=None, random_state=0).fit(X, y)
    for K in (10, 20, 40, 70):
        print(f"K = {K:2d}: {model.at(n_codevectors=K).score(X_test, y_test):.1%} right")

    display = CodevectorDisplay.from_estimator(model.at(n_codevectors=40), image_shape=(8, 8))
    display.figure_.savefig(OUT / "digits.png", dpi=150)
    BifurcationDisplay.from_estimator(model).figure_.savefig(
        OUT / "digits_bifurcation.png", dpi=150
    )


if __name__ == "__main__":
    main()
