"""The small models that stand in tests/files as this and earlier versions wrote them.

`python tests/stored_models.py` writes those of the version at hand, with what they answer. Files of
a released version are never written again: they are there to be loaded for ever.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

import annealed
from annealed import (
    DeterministicAnnealing,
    LVQClassifier,
    Mahalanobis,
    ODAClassifier,
    ODAClustering,
    StochasticVQ,
    TabularModel,
)

FOLDER = Path(__file__).parent / "files"
SMALL = {"K_max": 4, "gamma": 0.6, "samples_per_codevector": 5, "random_state": 0}

STEEP = SMALL | {"gamma": 0.3, "K_max": 3}
CLASSES = STEEP | {"recent_samples": 20}


def rows(n=3000):
    """Two blobs: rows of two features and labels 0 and 1."""
    rng = np.random.default_rng(42)
    y = np.arange(n) % 2
    X = np.array([[0.0, 0.0], [3.0, 1.0]])[y] + rng.normal(size=(n, 2)) * [1.0, 0.5]
    return X.round(6), y


def models():
    """Every estimator at every stage of its life, small."""
    X, y = rows()
    named = np.array(["ja", "nein"])[y]
    positive = np.abs(X) + 0.5
    A = Mahalanobis([[1.0, 0.2], [0.2, 2.0]])
    return {
        "unfitted": ODAClassifier(divergence=A, random_state=np.random.RandomState(1)),
        "clustering-warm-up": ODAClustering(2, **SMALL).partial_fit(X[:50]),
        "clustering-level": ODAClustering(None, **SMALL).partial_fit(X[:150]),
        "clustering-tracking": ODAClustering(3, recent_samples=0, **SMALL).partial_fit(X[:900]),
        "clustering-polished": ODAClustering("auto", polish=True, **SMALL).fit(X[:80]),
        "clustering-joined": ODAClustering(**SMALL).fit(np.concatenate([X[:40], X[:40] + 30.0])),
        "clustering-mahalanobis": ODAClustering(2, shape="round", divergence=A, **SMALL)
        .partial_fit(X[:300]),
        "classifier-race": ODAClassifier(fine_tune=None, **CLASSES | {"K_max": 2})
        .partial_fit(X[:300], y[:300]),
        "classifier-won": ODAClassifier(**CLASSES).partial_fit(X, named),
        "classifier-fitted": ODAClassifier(level="vote", divergence="i_divergence", **CLASSES)
        .fit(positive[:150], y[:150]),
        "classifier-units": ODAClassifier(level="vote", **CLASSES)
        .fit(np.sinh(X[:120]) * [1, 1e4], y[:120]),
        "classifier-drift": ODAClassifier(level="vote", drift_detector="auto", **CLASSES)
        .fit(X[:60], y[:60]).partial_fit(X[:100], y[:100]),
        "clustering-drift": ODAClustering(None, drift_detector="auto", **STEEP)
        .partial_fit(X[:400]),
        "lvq": LVQClassifier(2, rule="glvq", random_state=0).partial_fit(X[:100], named[:100]),
        "lvq-waiting": LVQClassifier(2, random_state=0).partial_fit(X[:20], y[:20]),
        "vector-quantization": StochasticVQ(4, divergence="itakura_saito", random_state=0)
        .partial_fit(positive[:200]),
        "batch": DeterministicAnnealing(3, gamma=0.7, K_max=4).fit(X[:40]),
        "tabular": TabularModel(
            ODAClassifier(level="last", fine_tune=None, **CLASSES), kinds={"x1": "category"},
            max_categories=3,
        ).partial_fit(X.round()[:300], named[:300]),
    }  # fmt: skip


def answers(model):
    """What a model says of a few rows."""
    X = np.abs(rows()[0][:12]) + 0.5
    said = {"predict": model.predict(X).tolist(), "transform": model.transform(X).tolist()}
    if hasattr(model, "predict_proba"):
        said["predict_proba"] = model.predict_proba(X).tolist()
    return said


def main():
    """Write the files of this version."""
    recorded = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models().items():
            path = FOLDER / f"{annealed.__version__}-{name}.oda"
            annealed.save(model, path)
            recorded[path.name] = None if name == "unfitted" else answers(model)
            print(path.name, path.stat().st_size)
    answers_path = FOLDER / f"{annealed.__version__}-answers.json"
    answers_path.write_text(json.dumps(recorded, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
