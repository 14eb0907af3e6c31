"""Nearest neighbours and nearest means at a temperature: cpp/nearest.hpp and its twin."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import BURG, COMPILED, KERNELS, divergence_for, rows_for

from annealed.kernels import CompiledKernel, ReferenceKernel

D, CLASSES = 3, 4
SETTINGS = {"rate": 0.05, "batch": 4, "recency": 0.05, "means": False, "relevances": True}


def case(name, seed=0, n=120):
    rng = np.random.default_rng(seed)
    divergence = BURG if name == "burg" else divergence_for(name, rng, D)
    X = rows_for(name if name != "burg" else "itakura_saito", rng, n, D)
    y = rng.integers(0, CLASSES, n).astype(np.int32)
    w = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    return divergence, X, y, w


def begun(kernel, X, means, room=20, classes=CLASSES, **changed):
    low, high = kernel.divergence.bounds(X[0])
    settings = SETTINGS | {"means": means} | changed
    room = classes if means else room
    return kernel.begin_nearest(np.clip(X[0], low, high), room, classes, settings, low, high)


def same(one, other, **tolerance):
    one, other = one.read(), other.read()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], **tolerance)


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
def test_the_compiled_one_equals_the_reference(name, means):
    divergence, X, y, w = case(name)
    runs = [begun(made(divergence), X, means) for made in (CompiledKernel, ReferenceKernel)]
    answers = [run.learn(X, None, y, w, 0, len(X), answer=True) for run in runs]
    np.testing.assert_allclose(*answers, rtol=1e-7, atol=1e-9)
    for run in runs:
        run.learn(X, None, y, None, 0, 30, tests=False)  # taken in, not tested
    states = [kernel.read(run) for kernel, run in zip(map_kernels(divergence), runs, strict=True)]
    for key in states[0]:
        np.testing.assert_allclose(states[0][key], states[1][key], rtol=1e-6, atol=1e-9)
    for run in runs:
        run.forget(10)
    assert len(runs[0].read()["mu"]) == len(runs[1].read()["mu"])


def map_kernels(divergence):
    return CompiledKernel(divergence), ReferenceKernel(divergence)


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("made", KERNELS)
def test_any_cut_and_a_restored_state_give_the_same_bits(made, means):
    divergence, X, y, w = case("squared_euclidean", 1)
    whole, cut = (begun(made(divergence), X, means) for _ in range(2))
    whole.learn(X, None, y, w, 0, len(X))
    cut.learn(X, None, y, w, 0, 41)
    restored = begun(made(divergence), X, means)
    restored.restore(cut.state())
    for a, b in ((41, 42), (42, 77), (77, len(X))):
        restored.learn(X, None, y, w, a, b, answer=True)
    for name, value in whole.state().items():
        np.testing.assert_array_equal(value, restored.state()[name])


@pytest.mark.parametrize("made", KERNELS)
def test_the_gradient_of_what_is_fitted_is_that_of_log_p(made):
    """One step of a batch that never ends, against differences of the answers' logarithm."""
    divergence, X, y, _ = case("squared_euclidean", 2)
    run = begun(made(divergence), X, False, batch=10**6)
    run.learn(X, None, y, None, 0, 60)
    state = run.state()

    def log_p(**changed):
        moved = begun(made(divergence), X, False, batch=10**6)
        moved.restore(state | changed)
        return np.log(moved.learn(X, None, y, None, 60, 61, answer=True)[0, y[60]])

    run.learn(X, None, y, None, 60, 61)
    found = run.state()["gradient"] - state["gradient"]
    h = 1e-5
    for k, name in enumerate(["sharpness", "log_recency"]):
        slope = log_p(**{name: state[name] + h}) - log_p(**{name: state[name] - h})
        assert found[k] == pytest.approx(slope / (2 * h), rel=1e-4, abs=1e-7)
    for j in range(D):
        up, down = state["relevance"].copy(), state["relevance"].copy()
        up[j] += h
        down[j] -= h
        slope = log_p(relevance=up) - log_p(relevance=down)
        assert found[2 + j] == pytest.approx(slope / (2 * h), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("made", KERNELS)
def test_the_last_samples_of_a_class_that_is_not_met_any_more_stay(made):
    divergence, X, _, _ = case("squared_euclidean")
    y = np.repeat([0, 1, 2, 3], 30).astype(np.int32)
    run = begun(made(divergence), X, False, room=24)
    run.learn(X, None, y, None, 0, len(X))
    kept = run.read()["classes"]
    assert np.bincount(kept.astype(int)).tolist() == [3, 3, 3, 15]  # half the room is for them
    run.know_classes(6)
    run.learn(X, None, np.full(len(X), 5, dtype=np.int32), None, 0, len(X))
    assert set(run.read()["classes"].tolist()) == {0, 1, 2, 3, 5}


def test_irrelevant_features_and_old_samples_are_found_out():
    rng = np.random.default_rng(0)
    y = (np.arange(4000) // 40 % 2).astype(np.int32)  # what was is soon out of date
    X = np.column_stack([rng.normal(size=4000) + 0.7 * y, 3 * rng.normal(size=4000)])
    run = begun(CompiledKernel(divergence_for("squared_euclidean", rng, 2)), X, False, 200, 2)
    answers = run.learn(X, None, y, None, 0, len(X), answer=True)
    state = run.read()
    assert state["relevance"][0] > state["relevance"][1] + 2
    assert state["recency"] > 0.05
    assert (answers[2000:].argmax(axis=1) == y[2000:]).mean() > 0.9


def test_a_divergence_of_ones_own_and_its_states_are_checked():
    divergence, X, y, _ = case("burg")
    run = begun(ReferenceKernel(divergence), X, False)
    assert run.learn(X, None, y, None, 0, len(X), answer=True).shape == (len(X), CLASSES)
    for kernel in map_kernels(case("squared_euclidean")[0]):
        small, large = (begun(kernel, X, False, room=room) for room in (8, 20))
        with pytest.raises(ValueError, match="another shape"):
            small.restore(large.state())
