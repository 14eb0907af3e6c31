"""The adapters for river: its own checks, its pipelines and its evaluation."""

import pickle

import numpy as np
import pytest

import annealed

river = pytest.importorskip("river", reason="river is tested in the newest releases only")
from river import checks, datasets, drift, evaluate, metrics, preprocessing  # noqa: E402

from annealed.river import ODAClassifier, ODAClustering  # noqa: E402

MODELS = {
    "classifier": ODAClassifier(),
    "standardised": ODAClassifier(annealed.ODAClassifier(drift_detector="auto"), standardize=True),
    "clustering": ODAClustering(),
}


def own_checks():
    for name, model in MODELS.items():
        for check in checks.yield_checks(model):
            if check.__name__ not in model._unit_test_skips():
                yield pytest.param(model, check, id=f"{name}-{check.__name__}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model, check", list(own_checks()))
def test_river_s_own_checks(model, check):
    check(model.clone())


def test_in_a_pipeline_with_progressive_validation():
    model = preprocessing.StandardScaler() | ODAClassifier()
    metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert metric.get() > 0.85  # river's logistic regression reaches 0.89


def test_it_learns_what_the_estimator_itself_learns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.integers(0, 2, 1500)
    X[:, 0] += 3 * y
    wrapped, plain = ODAClassifier(), annealed.ODAClassifier(random_state=0)
    for row, label in zip(X, y.tolist(), strict=True):
        wrapped.learn_one({0: row[0], "b": row[1], "c": row[2]}, label)
        plain.learn_one(row, label)
    x = {"c": 0.5, "b": -1.0, 0: 2.0}
    assert wrapped.predict_proba_one(x) == pytest.approx(
        plain.predict_proba_one([2.0, -1.0, 0.5]), rel=1e-12
    )
    twin = pickle.loads(pickle.dumps(wrapped))
    assert twin.predict_proba_one(x) == wrapped.predict_proba_one(x)


def test_memory_stays_where_it_is_once_the_races_are_over():
    """What the check we leave out is about, later in the stream, and between races."""
    rng = np.random.default_rng(0)
    model, sizes = annealed.ODAClassifier(random_state=0, K_max=20), []
    while len(sizes) < 3:
        X, y = rng.normal(size=(4000, 3)), rng.integers(0, 2, 4000)
        X[:, 0] += 3 * y
        model.partial_fit(X, y)
        if not model._learner.tuner.racing:
            sizes.append(len(pickle.dumps(model)))
    assert max(sizes) <= 1.15 * min(sizes)  # who has won may have more codevectors


def test_detectors_of_river_are_listened_to():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 2)) * 0.3 + y[:, None]
    y[2000:] = 1 - y[2000:]
    model = annealed.ODAClassifier(drift_detector=drift.ADWIN(), random_state=0).partial_fit(X, y)
    assert model.score(X[2500:], y[2500:]) > 0.9


def test_clusters_of_a_stream():
    rng = np.random.default_rng(0)
    model = ODAClustering(annealed.ODAClustering(3))
    labels, answers = rng.integers(0, 3, 6000), []
    for k, label in enumerate(labels.tolist()):
        x = {"a": 6.0 * label + rng.normal(), "b": rng.normal()}
        if k >= 5000:
            answers.append(model.predict_one(x))
        model.learn_one(x)
    pairs = set(zip(labels[5000:].tolist(), answers, strict=True))
    counts = [
        sum((a, b) == pair for a, b in zip(labels[5000:], answers, strict=True)) for pair in pairs
    ]
    assert sum(sorted(counts)[-3:]) > 980  # three clusters six deviations apart
