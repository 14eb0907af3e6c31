"""Whether `chosen_` keeps its word: the accuracy it reports beside that on fresh rows.

Sets whose classes no feature tells by itself, so that annealings of the same rows end in solutions
of very different worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from annealed import ODAClassifier
from benchmarks.data import Rows
from benchmarks.harness import header, one_thread, table
from benchmarks.labelled import Labels

ROWS, FRESH = 5000, 20_000
Draw = Callable[[np.random.Generator, int], tuple[Rows, Labels]]


def _product(features: int, factors: int) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Rows, Labels]:
        X = rng.normal(size=(n, features))
        return X, (X[:, :factors].prod(axis=1) > 0).astype(int)

    return draw


def _checkerboard(side: int) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Rows, Labels]:
        X = rng.uniform(0, side, size=(n, 2))
        return X, np.floor(X).sum(axis=1).astype(int) % 2

    return draw


SETS: dict[str, Draw] = {
    "sign of x0 x1, 10 features": _product(10, 2),
    "sign of x0 x1 x2, 6 features": _product(6, 3),
    "checkerboard 3 x 3": _checkerboard(3),
    "checkerboard 4 x 4": _checkerboard(4),
}


def main(quick: bool = False) -> None:
    """Print the worst and the mean difference over the seeds."""
    seeds = 5 if quick else 30
    header("Reported and real accuracy")
    lines = []
    with one_thread():
        for name, draw in SETS.items():
            reported, real = np.array([_measured(draw, seed) for seed in range(seeds)]).T * 100
            gap = reported - real
            lines.append(
                [name, f"{reported.mean():.1f}", f"{real.mean():.1f}", f"{real.min():.1f}",
                 f"{gap.mean():+.2f}", f"{gap.max():+.2f}"]
            )  # fmt: skip
    title = f"{ROWS:,} rows to learn, {FRESH:,} fresh ones to test, {seeds} seeds; in points"
    table(title, ["set", "reported", "real", "worst", "mean gap", "worst gap"], lines)


def _measured(draw: Draw, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    X, y = draw(rng, ROWS)
    model = ODAClassifier(random_state=seed).fit(X, y)
    return model.chosen_.accuracy, model.score(*draw(rng, FRESH))
