"""Cost of learning one sample by winner-takes-all, beside that of the annealer.

`StochasticVQ` and `LVQClassifier` (both rules, two classes) learn by `partial_fit` from the
codevectors at which an `ODAClustering` of the same size tracks. They look for the nearest
codevector and move one or two, where the annealer weighs and moves all that are near: at equal K
and d they should cost no more. The bar is 1.5 times its cost.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from annealed import LVQClassifier, StochasticVQ
from benchmarks.harness import (
    Contender,
    cost_per_sample,
    header,
    number,
    one_thread,
    table,
    verdict,
)
from benchmarks.speed import tracking_model

SHAPES = ((8, 2), (32, 2), (16, 30), (100, 30), (100, 784))
BAR = 1.5
ANNEALER, SVQ, LVQ1, GLVQ = "ODAClustering", "StochasticVQ", "lvq1", "glvq"
RIVALS = (SVQ, LVQ1, GLVQ)


def costs(K: int, d: int, budget: float, rounds: int) -> dict[str, float]:
    """Nanoseconds per sample of everyone, in turns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(max(5 * 1024, min(100_000, 1_000_000 // d)), d))
    y = rng.integers(2, size=len(X))
    annealer = tracking_model(K, X)
    mu = annealer.codevectors_.copy()
    svq = StochasticVQ(K, init=mu, random_state=0).partial_fit(X)
    contenders = {
        ANNEALER: Contender(partial(annealer.partial_fit, X), len(X)),
        SVQ: Contender(partial(svq.partial_fit, X), len(X)),
    }
    for rule in (LVQ1, GLVQ):
        start = (mu, np.arange(K) % 2)
        model = LVQClassifier(rule=rule, init=start, random_state=0).partial_fit(X, y)
        contenders[rule] = Contender(partial(model.partial_fit, X, y), len(X))
    return cost_per_sample(contenders, budget, rounds)


def row(K: int, d: int, ns: dict[str, float]) -> list[object]:
    """Nanoseconds of everyone, ratios to the annealer."""
    ratios = [ns[name] / ns[ANNEALER] for name in RIVALS]
    cells: list[object] = [f"{K}, {d}", *(f"{ns[name]:,.0f}" for name in (ANNEALER, *RIVALS))]
    return [*cells, *(number(ratio) for ratio in ratios), BAR, verdict(max(ratios) <= BAR)]


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("baselines: one sample of partial_fit, winner takes all beside annealing")
    budget, rounds = (0.02, 3) if quick else (0.1, 7)
    with one_thread():
        results = {(K, d): costs(K, d, budget, rounds) for K, d in SHAPES}
    table(
        "Nanoseconds per sample, and as multiples of the annealer's (bar: at most)",
        ["K, d", ANNEALER, SVQ, "LVQ\nlvq1", "LVQ\nglvq", "sVQ /\nODA", "lvq1 /\nODA",
         "glvq /\nODA", "bar", ""],
        [row(K, d, ns) for (K, d), ns in results.items()],
    )  # fmt: skip


if __name__ == "__main__":
    main()
