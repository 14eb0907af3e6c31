"""Streams that change: test-then-train accuracy beside river's classifiers, all in one run.

Three of river's synthetic streams of 100,000 samples: SEA with an abrupt change every 25,000,
Agrawal's functions 0 and 4 with an abrupt change half way, and with a gradual one (width 20,000).
Everyone predicts each sample before it learns it. `ODAClassifier` gets features standardised by
running means (`TabularModel`'s, in C++) and answers in blocks of 100 samples by the model as it
stood before the block; river's KNN gets them from river's StandardScaler, trees and naive Bayes
need no scale. The bar: with drift_detector="auto" better than without, and than every one of
river's. Streams of clusters follow (clustering_streams.py).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from annealed import ODAClassifier, TablePreprocessor
from benchmarks import clustering_streams
from benchmarks.harness import header, one_thread, table, verdict

SAMPLES, QUICK_SAMPLES = 100_000, 20_000
BLOCK = 100
Row = tuple[dict[Any, float], int]


def sea(n: int) -> Iterator[Row]:
    """Four variants of SEA with 10 % of noise."""
    from river.datasets import synth

    for variant in range(4):
        yield from synth.SEA(variant=variant, seed=1 + variant, noise=0.1).take(n // 4)


def agrawal_abrupt(n: int) -> Iterator[Row]:
    """Function 0, then function 4."""
    from river.datasets import synth

    parts = [
        synth.Agrawal(classification_function=function, seed=1 + k).take(n // 2)
        for k, function in enumerate((0, 4))
    ]
    return chain(*parts)


def agrawal_gradual(n: int) -> Iterator[Row]:
    """Function 0 that gives way to function 4 around the middle."""
    from river.datasets import synth

    return iter(
        synth.ConceptDriftStream(
            stream=synth.Agrawal(classification_function=0, seed=1),
            drift_stream=synth.Agrawal(classification_function=4, seed=2),
            seed=1, position=n // 2, width=n // 5,
        ).take(n)
    )  # fmt: skip


STREAMS = {"SEA": sea, "Agrawal, abrupt": agrawal_abrupt, "Agrawal, gradual": agrawal_gradual}


def ours(rows: list[Row], detector: str | None) -> tuple[float, float]:
    """Accuracy and seconds of the classifier."""
    X = np.array([[float(value) for value in x.values()] for x, _ in rows])
    y = np.array([label for _, label in rows])
    model = ODAClassifier(random_state=0, drift_detector=detector)
    begin = time.process_time()
    scaled = TablePreprocessor()
    right = 0
    for k in range(0, len(X), BLOCK):
        part = slice(k, k + BLOCK)
        Z = scaled.learn_transform(X[part])
        if k:
            right += int((model.predict(Z) == y[part]).sum())
        model.partial_fit(Z, y[part], classes=[0, 1])
    return right / (len(X) - BLOCK), time.process_time() - begin


def theirs(rows: list[Row], model: Any) -> tuple[float, float]:
    """Accuracy and seconds of one of river's models."""
    begin, right = time.process_time(), 0
    for x, y in rows:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(rows), time.process_time() - begin


def rivals() -> dict[str, Any]:
    """River's, as it makes them."""
    from river import naive_bayes, neighbors, preprocessing, tree

    return {
        "GaussianNB": naive_bayes.GaussianNB(),
        "HoeffdingTree": tree.HoeffdingTreeClassifier(),
        "KNNClassifier": preprocessing.StandardScaler() | neighbors.KNNClassifier(),
    }


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("drift: test-then-train accuracy on streams that change")
    n = QUICK_SAMPLES if quick else SAMPLES
    lines = []
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, stream in STREAMS.items():
            rows = list(stream(n))
            found = {"with drift": ours(rows, "auto"), "without": ours(rows, None)}
            found |= {rival: theirs(rows, model) for rival, model in rivals().items()}
            best = max(score for key, (score, _) in found.items() if key != "with drift")
            cells = [f"{100 * score:.1f} ({seconds:.0f} s)" for score, seconds in found.values()]
            lines.append([name, *cells, verdict(found["with drift"][0] > best)])
    names = ["stream", "ODA\ndrift option", "ODA\nwithout", *rivals(), ""]
    table(
        "Per cent right before learning (processor seconds); bar: the first is best", names, lines
    )
    clustering_streams.main(quick)


if __name__ == "__main__":
    main()
