"""A stream from its first sample on, and after it has changed: who answers, and what is kept."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

import annealed
from annealed import DriftDetector, ODAClassifier

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


def test_then_train(model, X, y):
    right = []
    for row, label in zip(X, y.tolist(), strict=True):
        right.append(model.predict_one(row) == label)
        model.learn_one(row, label)
    return np.array(right)


test_then_train.__test__ = False


def four_blobs(n, seed=0):
    rng = np.random.default_rng(seed)
    centres, group = 1.5 * rng.normal(size=(4, 6)), rng.integers(4, size=n)
    return centres[group] + rng.normal(size=(n, 6)), group % 2


def test_forty_classes_count_from_their_first_sample():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(40), 50))
    X = (0.9 * rng.normal(size=(40, 21)))[y] + rng.normal(size=(2000, 21))
    sums, counts, nearest_mean = np.zeros((40, 21)), np.zeros(40), []
    for row, label in zip(X, y, strict=True):
        far = ((row - sums / np.maximum(counts, 1)[:, None]) ** 2).sum(axis=1)
        nearest_mean.append(np.where(counts > 0, far, np.inf).argmin() == label)
        sums[label] += row
        counts[label] += 1
    right = test_then_train(ODAClassifier(random_state=0), X, y)
    assert right.mean() > np.mean(nearest_mean) - 0.03
    assert right[1000:].mean() > 0.7


def test_it_is_right_within_a_hundred_samples():
    X, y = four_blobs(400)
    right = test_then_train(ODAClassifier(random_state=0), X, y)
    assert right[20:100].mean() > 0.75 and right[100:].mean() > 0.85


def test_after_labels_have_changed_places_it_starts_from_what_came_since():
    X, y = four_blobs(6000)
    y[4000:] = 1 - y[4000:]
    right = test_then_train(ODAClassifier(random_state=0), X, y)
    settled = right[3000:4000].mean()
    assert right[4200:4500].mean() > settled - 0.05
    assert right[4000:4250].mean() > 0.6


def test_where_everything_moves_the_latest_samples_answer():
    rng = np.random.default_rng(0)
    X, turn = rng.uniform(-1, 1, size=(6000, 2)), np.arange(6000) / 6000 * 4 * np.pi
    u = X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn)
    v = X[:, 1] * np.cos(turn) - X[:, 0] * np.sin(turn)
    y = ((np.floor(2 * u) + np.floor(2 * v)) % 2).astype(int)
    right = test_then_train(ODAClassifier(random_state=0), X, y)
    assert right[2000:].mean() > 0.65  # a checkerboard that turns: levels know nothing of it


def test_irrelevant_features_are_left_out_by_the_neighbours():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 12))
    y = (np.sin(3 * X[:, 0]) > 0).astype(int)  # one of twelve counts, and no mean tells
    right = test_then_train(ODAClassifier(random_state=0), X, y)
    assert right[1500:].mean() > 0.85


@pytest.mark.parametrize("samples", [0, 30])
def test_a_file_holds_samples_only_if_asked_to(tmp_path, samples):
    X, y = four_blobs(150)
    model = ODAClassifier(random_state=0, recent_samples=samples).partial_fit(X, y)
    annealed.save(model, tmp_path / "model.oda")
    tuner = annealed.load(tmp_path / "model.oda")._learner.tuner
    if samples:
        np.testing.assert_array_equal(tuner.neighbours.latest(samples)[0][-1], X[-1])
        assert len(tuner.neighbours.latest(150)[0]) == samples
    else:
        assert tuner.neighbours is None


@cache
def changed():
    """Rows, classes that change places after 4000 of them, and a model of them all."""
    X, y = four_blobs(4400, 3)
    y[4000:] = 1 - y[4000:]
    return X, y, ODAClassifier(random_state=0).partial_fit(X, y)


@pytest.mark.parametrize("at", [37, 250, 1530, 3010, 4080])
def test_a_model_stored_at_any_moment_goes_on_as_if_nothing_had_been(tmp_path, at):
    """While companions race alone, among levels, between races, and after a change."""
    X, y, whole = changed()
    model = ODAClassifier(random_state=0)
    for row, label in zip(X[:at], y[:at].tolist(), strict=True):
        model.learn_one(row, label)
    annealed.save(model, tmp_path / "model.oda")
    for twin in (annealed.load(tmp_path / "model.oda"), pickle.loads(pickle.dumps(model))):
        twin.partial_fit(X[at : at + 13], y[at : at + 13])
        for row, label in zip(X[at + 13 :], y[at + 13 :].tolist(), strict=True):
            twin.learn_one(row, label)
        np.testing.assert_array_equal(twin.predict_proba(X[:50]), whole.predict_proba(X[:50]))


def test_the_number_of_samples_kept_must_be_one():
    with pytest.raises(ValueError, match="recent_samples"):
        ODAClassifier(recent_samples=-1).partial_fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("memory", [20, 100])
def test_errors_that_come_in_runs_are_no_change(memory):
    rng = np.random.default_rng(0)
    fade, state, detector, alarms = np.exp(-1 / memory), 0.0, DriftDetector(), 0
    for step in rng.normal(size=60_000):
        state = fade * state + np.sqrt(1 - fade**2) * step
        alarms += detector.update(float(rng.random() < 1 / (1 + np.exp(2 - state))))
    assert alarms == 0  # with a standard error of independent losses: dozens


def test_rare_errors_are_no_change_but_more_of_them_are():
    rng = np.random.default_rng(0)
    detector = DriftDetector()
    assert not any(detector.update(float(error)) for error in rng.random(200_000) < 0.02)
    heard = [k for k in range(1000) if detector.update(float(rng.random() < 0.2))]
    assert heard and heard[0] < 150
