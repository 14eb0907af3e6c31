"""Streams that change: the detector, reheating, and what they do to models."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from predicates import same_model, same_tuner
from thoroughness import examples

from annealed import DriftDetector, ODAClassifier, ODAClustering
from annealed.drift import BLOCK, _deviance

pytestmark = pytest.mark.quality


def cut(length, edges):
    """Pieces of a stream between sorted edges."""
    edges = [0, *sorted({e for e in edges if 0 < e < length}), length]
    return [slice(a, b) for a, b in pairwise(edges)]


def turned_moons(n=6000, seed=0):
    """Two Gaussians per class; half way the classes change places."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) * 0.5 + np.array([[0, 0], [3, 0]])[y]
    X[:, 1] += 2 * rng.integers(0, 2, n)
    after = np.arange(n) >= n // 2
    return X, np.where(after, 1 - y, y)


# -- the detector ----------------------------------------------------------------------------------


@examples(20)
@given(st.integers(0, 2**31), st.floats(0.02, 0.5), st.floats(0.2, 0.45))
def test_a_rise_of_the_error_rate_is_noticed_soon(seed, rate, rise):
    rng = np.random.default_rng(seed)
    detector = DriftDetector()
    losses = rng.random(4000) < np.where(np.arange(4000) < 2000, rate, rate + rise)
    alarms = [k for k, loss in enumerate(losses) if detector.update(float(loss))]
    # After a false alarm, one stream in a thousand, there is little to compare new losses with.
    assume(not any(k < 2000 for k in alarms))
    assert any(2000 <= k < 2700 for k in alarms)


def test_few_false_alarms_and_none_when_losses_fall():
    """At 4.5 standard errors 20 streams of 20,000 samples should raise about half an alarm."""
    alarms = 0
    for seed in range(20):
        detector = DriftDetector()
        losses = np.random.default_rng(seed).random(20_000) < 0.2
        alarms += sum(detector.update(float(loss)) for loss in losses)
    assert alarms <= 3
    detector = DriftDetector()
    losses = np.random.default_rng(0).random(6000) < np.linspace(0.6, 0.05, 6000)
    assert not any(detector.update(float(loss)) for loss in losses)


def test_losses_of_any_scale_give_the_same_alarms():
    losses = np.random.default_rng(1).exponential(size=3000) * np.repeat([1.0, 2.0], 1500)
    small, large = DriftDetector(), DriftDetector()
    heard = [(small.update(x), large.update(1024 * x)) for x in losses.tolist()]
    assert [a for a, _ in heard].index(True) > 1500
    # The half error that steadies counts of 0 and 1 is the only thing with a scale.
    first = [[pair[k] for pair in heard].index(True) for k in (0, 1)]
    assert abs(first[0] - first[1]) <= 50


@examples(200)
@given(st.integers(1, 64), st.integers(1, 200), st.data())
def test_no_deviance_exceeds_twice_pearsons_statistic(newest, rest, data):
    """By which the detector rules cuts out that it then need not measure."""
    k, m = newest * BLOCK, rest * BLOCK
    newer, older = data.draw(st.integers(0, k)), data.draw(st.integers(0, m))
    mean = (newer + older) / (k + m)
    if 0 < mean < 1:
        square = (newer - k * mean) ** 2 * (1 / k + 1 / m)
        for whole, variance in ((True, mean * (1 - mean)), (False, mean)):
            found = _deviance(float(newer), k, float(older), m, mean, whole)
            assert found <= 2 * square / variance + 1e-9


# -- reheating -------------------------------------------------------------------------------------


def test_a_clustering_finds_what_has_moved_and_what_is_new():
    rng = np.random.default_rng(0)
    before = np.array([[0.0, 0.0], [10.0, 0.0]])
    after = np.array([[0.0, 0.0], [0.0, 12.0], [12.0, 12.0]])
    X = before[rng.integers(0, 2, 20000)] + rng.normal(size=(20000, 2))
    Z = after[rng.integers(0, 3, 20000)] + rng.normal(size=(20000, 2))
    model = ODAClustering(random_state=0, K_max=12).partial_fit(X)
    assert model.n_clusters_ == 2
    model.reheat()
    model.partial_fit(Z)
    assert model.n_clusters_ == 3
    distance = np.linalg.norm(model.cluster_centers_[:, None] - after, axis=2).min(axis=0)
    assert distance.max() < 0.5


def test_reheating_part_of_the_way_keeps_the_hotter_levels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30000, 2)) + 8 * rng.integers(0, 2, (30000, 1))
    model = ODAClustering(None, K_max=20).partial_fit(X)
    path = model.path_
    T = path.temperatures[len(path) // 2]
    model.reheat(T)
    model.partial_fit(X[:500])
    kept = model.path_
    k = len([level for level in path if level.temperature > T * 1.001])
    for old, new in zip(path[:k], kept[:k], strict=True):
        np.testing.assert_array_equal(old.codevectors, new.codevectors)
    model.partial_fit(X)
    assert model.path_.temperatures[-1] < T / 2
    np.testing.assert_allclose(model.weights_.sum(), 1)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"temperature": 1.0, "factor": 2.0}, "either"),
        ({"factor": 0.5}, "above 1"),
        ({"temperature": 1e-9}, "where the annealing stands"),
    ],
)
def test_impossible_reheating_is_refused(arguments, words):
    X = np.random.default_rng(0).normal(size=(5000, 2))
    model = ODAClustering(3, shape="round", recent_samples=0).partial_fit(X)
    with pytest.raises(ValueError, match=words):
        model.reheat(**arguments)
    with pytest.raises(ValueError, match="warming up"):
        ODAClustering().partial_fit(X[:10]).reheat()


def test_a_class_that_dies_out_is_not_erased_and_fades():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [6, 0], [0, 6]])
    y = rng.integers(0, 3, 6000)
    model = ODAClassifier(random_state=0).partial_fit(centres[y] + rng.normal(size=(6000, 2)), y)
    model.reheat()
    y = rng.integers(0, 2, 6000)
    model.partial_fit(centres[y] + rng.normal(size=(6000, 2)), y)
    assert model.predict(centres).tolist() == [0, 1, 2]
    # Between the classes, where all three were equally likely, the dead one now is the least.
    assert model.predict_proba([[2.0, 2.0]])[0].argmin() == 2


def test_a_late_class_does_not_erase_the_others():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [6, 0], [0, 6]])
    y = rng.integers(0, 2, 4000)
    model = ODAClassifier(random_state=0, drift_detector="auto")
    model.partial_fit(centres[y] + rng.normal(size=(4000, 2)), y)
    for k in range(0, 3000, 100):
        y = np.full(100, 2)
        model.partial_fit(centres[y] + rng.normal(size=(100, 2)), y)
        assert model.predict(centres[:2]).tolist() == [0, 1], k
    assert model.predict(centres).tolist() == [0, 1, 2]


# -- the drift option ------------------------------------------------------------------------------


@pytest.mark.parametrize("fine_tune", ["soft_lvq", None])
def test_with_the_option_a_classifier_recovers(fine_tune):
    X, y = turned_moons(12000)
    right = {}
    for detector in (None, "auto"):
        model = ODAClassifier(fine_tune=fine_tune, drift_detector=detector, random_state=0)
        hits = []
        for k in range(0, len(X), 100):
            part = slice(k, k + 100)
            if k:
                hits.append((model.predict(X[part]) == y[part]).mean())
            model.partial_fit(X[part], y[part])
        right[detector] = np.array(hits)
    assert right["auto"].mean() > right[None].mean() + 0.02
    assert right["auto"][-20:].mean() > 0.95  # the classes lie six standard deviations apart


@examples(8)
@given(st.lists(st.integers(1, 3999), max_size=6), st.booleans())
@example([3999], True)  # an answer of 4e-39 there, which is no normal number in single precision
def test_how_calls_cut_a_changing_stream_cannot_be_seen(edges, weighted):
    X, y = turned_moons(4000)
    weights = np.random.default_rng(3).integers(0, 3, 4000).astype(float) if weighted else None
    whole, parts = (ODAClassifier(drift_detector="auto", random_state=0) for _ in range(2))
    whole.partial_fit(X, y, sample_weight=weights)
    for part in cut(4000, edges):
        if weights is None or weights[part].any():
            w = None if weights is None else weights[part]
            parts.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=w)
    assert same_model(whole, parts) and same_tuner(whole, parts)
    np.testing.assert_array_equal(whole.predict_proba(X[:50]), parts.predict_proba(X[:50]))


class EveryThousand:
    """A detector of river's interface."""

    def __init__(self):
        self.n, self.drift_detected = 0, False

    def update(self, x):
        assert x in (0.0, 1.0)
        self.n += 1
        self.drift_detected = self.n % 1000 == 0


def test_detectors_of_other_packages_are_listened_to_and_left_alone():
    X, y = turned_moons(6000)
    given = EveryThousand()
    model = ODAClassifier(drift_detector=given, random_state=0).partial_fit(X, y)
    assert given.n == 0 and model._learner.watch.detector.n > 5000
    pickle.loads(pickle.dumps(model)).partial_fit(X, y)
    with pytest.raises(ValueError, match="drift_detector"):
        ODAClassifier(drift_detector="often").partial_fit(X, y)


def test_slow_drift_is_followed_with_a_floor_on_the_steps():
    rng = np.random.default_rng(0)
    n = 40_000
    centre = np.linspace(0, 20, n)[:, None] * [1, 0]
    X = centre + rng.normal(size=(n, 2)) + 8 * rng.integers(0, 2, (n, 1)) * [0, 1]
    plain = {"shape": "round", "recent_samples": 0}
    with_floor = ODAClustering(2, alpha_min=0.01, **plain).partial_fit(X)
    without = ODAClustering(2, **plain).partial_fit(X)
    error = [np.abs(m.cluster_centers_[:, 0] - 20).max() for m in (with_floor, without)]
    assert error[0] < 1 < 5 < error[1]


@pytest.mark.parametrize("threshold", [0, -1, float("nan"), float("inf"), "high", None])
def test_a_threshold_that_cannot_be_is_refused(threshold):
    with pytest.raises(ValueError, match="threshold must be a number above 0"):
        DriftDetector(threshold)


@pytest.mark.parametrize("temperature", ["hot", float("inf"), float("nan"), -1])
def test_a_temperature_that_cannot_be_is_refused(temperature):
    X = np.random.default_rng(0).normal(size=(1000, 2))
    model = ODAClustering(2, shape="round", recent_samples=0, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="temperature must be a number above"):
        model.reheat(temperature)
    with pytest.raises(ValueError, match="factor must be a number above 1"):
        model.reheat(factor=temperature)
    with pytest.raises(TypeError, match="merged with another ODAClustering only, not with int"):
        model.merge(3)


def test_values_at_once_are_values_one_by_one():
    rng = np.random.default_rng(0)
    values = np.append(rng.random(1000) < 0.1, rng.random(1000) < 0.4).astype(float).tolist()
    values += rng.exponential(size=500).tolist()
    one, all_at_once = DriftDetector(), DriftDetector()
    begin = 0
    while begin < len(values):
        end = begin + int(rng.integers(0, 180))
        alarms = [one.update(value) for value in values[begin:end]]
        assert all_at_once.update_all(values[begin:end]) == any(alarms)
        begin = end
        np.testing.assert_array_equal(one.blocks, all_at_once.blocks)
        assert (one.count, one.total, one.squares) == (
            all_at_once.count, all_at_once.total, all_at_once.squares,
        )  # fmt: skip
    assert one.excess == all_at_once.excess
