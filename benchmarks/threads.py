"""Two threads beside one, on the clock: reading a million rows, and whole fits.

- `predict` of a million rows (K = 100, 30 features) beside scikit-learn's `KMeans.predict`, with
  one thread and with two.
- `fit` with the number of clusters left open, of a large codebook, and of the default classifier,
  with one thread and with two.
- Whether the answers are the same bits.

Threads are limited as everywhere in scikit-learn, by threadpoolctl. Times are on the clock, the
fastest of several rounds in which all take turns: whatever else the machine does only adds to them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_classification
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from annealed import ODAClassifier, ODAClustering
from benchmarks import CORES
from benchmarks.data import eight_in_sixteen, uniform_square
from benchmarks.harness import header, number, table, verdict
from benchmarks.wide import embeddings

READING_BAR = 1.7
FIT_BAR = 1.4


def fastest(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[tuple[str, int], float]:
    """Least time on the clock of each call with one thread and with two; they take turns."""
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            for threads in (1, 2):
                with threadpool_limits(threads):
                    start = time.perf_counter()
                    call()
                times.setdefault((name, threads), []).append(time.perf_counter() - start)
    return {key: min(spent) for key, spent in times.items()}


def same_bits(answer: Callable[[], Any]) -> bool:
    """Whether one thread and two answer the same."""
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append([np.asarray(part).tobytes() for part in answer()])
    return found[0] == found[1]


def reading(rows: int, rounds: int) -> None:
    """Reading many rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 30))
    ours = ODAClustering(100, shape="round", random_state=0).fit(X[:5000])
    theirs = KMeans(100, n_init=1, max_iter=5, random_state=0).fit(X[:5000])
    calls: dict[str, Callable[[], object]] = {
        "KMeans.predict": lambda: theirs.predict(X),
        "ODAClustering.predict": lambda: ours.predict(X),
        "ODAClustering.predict_proba": lambda: ours.predict_proba(X),
        "ODAClustering.score": lambda: ours.score(X),
        "ODAClustering.transform": lambda: ours.transform(X),
    }
    spent = fastest(calls, rounds)
    table(
        f"{rows} rows of 30 features, K = 100, seconds",
        ["", "1 thread", "2 threads", "times faster"],
        [
            [name, number(spent[name, 1]), number(spent[name, 2]),
             number(spent[name, 1] / spent[name, 2])]
            for name in calls
        ],
    )  # fmt: skip
    ratios = [spent["ODAClustering.predict", n] / spent["KMeans.predict", n] for n in (1, 2)]
    gain = spent["ODAClustering.predict", 1] / spent["ODAClustering.predict", 2]
    print(f"\npredict / KMeans.predict: {number(ratios[0])} with one thread, "
          f"{number(ratios[1])} with two (bar 1): {verdict(ratios[1] <= 1)}")  # fmt: skip
    print(f"predict with two threads: {number(gain)} times faster (bar {READING_BAR}): "
          f"{verdict(gain >= READING_BAR)}")  # fmt: skip
    bits = same_bits(lambda: [ours.predict(X), ours.predict_proba(X[:100_000]), ours.score(X)])
    print(f"same bits: {verdict(bits)}")


def fits(rows: int, rounds: int) -> None:
    """Whole fits."""
    many = eight_in_sixteen(0, rows)
    flat = uniform_square(0, 5000)
    wide = embeddings(rows // 50, 768)
    digits = load_digits(return_X_y=True)
    made = make_classification(
        3000, 20, n_informative=10, n_classes=3, n_clusters_per_class=3, random_state=0
    )
    large = make_classification(
        rows // 50, 50, n_informative=20, n_classes=5, n_clusters_per_class=3, random_state=0
    )
    models: dict[str, Callable[[], Any]] = {
        f"ODAClustering(), {rows} x 16": lambda: ODAClustering(random_state=0).fit(many),
        "ODAClustering(), 5000 x 2, no clusters": lambda: ODAClustering(random_state=0).fit(flat),
        f"ODAClustering(), {len(wide)} x 768": lambda: ODAClustering(random_state=0).fit(wide),
        f"ODAClustering(200), {len(wide)} x 768": lambda: ODAClustering(200, random_state=0).fit(
            wide
        ),
        "ODAClassifier(), digits": lambda: ODAClassifier(random_state=0).fit(*digits),
        "ODAClassifier(), 3000 x 20": lambda: ODAClassifier(random_state=0).fit(*made),
        f"ODAClassifier(), {len(large[0])} x 50": lambda: ODAClassifier(random_state=0).fit(*large),
    }
    spent = fastest(models, rounds)
    lines = []
    for name, fit in models.items():
        gain = spent[name, 1] / spent[name, 2]
        bits = same_bits(lambda fit=fit: _model(fit()))
        lines.append(
            [name, number(spent[name, 1]), number(spent[name, 2]), number(gain),
             verdict(gain >= FIT_BAR), verdict(bits)]
        )  # fmt: skip
    table(
        "Fits, seconds",
        ["", "1 thread", "2 threads", "times faster", f"bar {FIT_BAR}", "same bits"],
        lines,
    )


def _model(model: Any) -> list[Any]:
    return [model.codevectors_, model.weights_, *(level.codevectors for level in model.path_)]


def main(*, quick: bool = False) -> None:
    """Run and print."""
    bound = os.sched_getaffinity(0) if CORES else set()
    if CORES:
        os.sched_setaffinity(0, CORES)
    header("Threads: two beside one")
    print("          but here: time on the clock, the least over rounds")
    try:
        reading(200_000 if quick else 1_000_000, 5 if quick else 15)
        fits(100_000 if quick else 1_000_000, 2 if quick else 5)
    finally:
        if CORES:
            os.sched_setaffinity(0, bound)
