"""A stream of any length: how it is cut, scaled, shifted or permuted does not matter."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import subprocess
import sys
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs, make_moons
from thoroughness import examples, tries

from annealed import BregmanDivergence, Mahalanobis, ODAClassifier, ODAClustering

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


def fingerprint(model):
    """Every bit of the learnt state."""
    parts = [pickle.dumps(state.__getstate__()) for state in model._learner.annealer.classes]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def fed(model, X, cuts, y=None, weights=None, reads=False):
    edges = [0, *sorted(cuts), len(X)]
    for a, b in itertools.pairwise(edges):
        if a == b:
            continue
        labels = () if y is None else (y[a:b],)
        w = None if weights is None else weights[a:b]
        model.partial_fit(X[a:b], *labels, sample_weight=w)
        if reads:
            model.predict(X[:3])
    return model


cuts_of = st.lists(st.integers(0, 3000), max_size=12)


@examples(15)
@given(cuts=cuts_of, seed=st.integers(0, 5), split=st.sampled_from(["variance", "perturb"]))
def test_any_chunking_of_a_clustering_is_bit_identical(cuts, seed, split):
    X = make_blobs(3000, centers=4, n_features=3, random_state=seed)[0]
    # Of samples that are kept and annealed again: test_kept_samples.py.
    blank = ODAClustering(
        split=split, samples_per_codevector=10, gamma=0.7, recent_samples=0, random_state=0
    )
    whole = fingerprint(fed(deepcopy(blank), X, []))
    assert fingerprint(fed(deepcopy(blank), X, cuts, reads=True)) == whole


@cache
def four_classes(weighted):
    """Rows, labels and weights, and what is learnt of them in one piece."""
    rng = np.random.default_rng(0)
    X, y = make_blobs(3000, centers=4, n_features=2, random_state=1)
    y = np.array(["a", "b", "c", "d"])[y]
    y[:1500][y[:1500] == "d"] = "a"  # d comes late
    y[(y == "c") & (rng.uniform(size=3000) < 0.9)] = "b"  # c is rare
    w = rng.uniform(0.1, 3.0, size=3000) if weighted else None
    return X, y, w, fed(ODAClassifier(random_state=0), X, [], y, w)


@examples(10)
@given(cuts=cuts_of, weighted=st.booleans())
def test_any_chunking_of_a_classifier_is_bit_identical(cuts, weighted):
    """With classes that come late and at their own pace, and with weights."""
    X, y, w, whole = four_classes(weighted)
    cut = fed(ODAClassifier(random_state=0), X, cuts, y, w, reads=True)
    assert fingerprint(whole) == fingerprint(cut)
    np.testing.assert_array_equal(whole.predict_proba(X[:50]), cut.predict_proba(X[:50]))


@cache
def many_clusters():
    """Rows, a model fitted to them, and one that has learnt them again in one piece."""
    X = make_blobs(3000, centers=40, n_features=64, random_state=0)[0]
    start = ODAClustering(40, samples_per_codevector=5, gamma=0.7, random_state=0).fit(X)
    assert start._learner.annealer.finished
    return X, start, fed(deepcopy(start), X, [])


@examples(8)
@given(cuts=cuts_of)
def test_any_chunking_of_a_large_codebook_is_bit_identical(cuts):
    """Sixteen samples at a time, whoever looks in between (the look-ahead kernel)."""
    X, start, whole = many_clusters()
    cut = fed(deepcopy(start), X, cuts, reads=True)
    assert whole._learner.annealer.classes[0].run.state()["pending"].size % 64 == 0
    assert fingerprint(whole) == fingerprint(cut)
    np.testing.assert_array_equal(whole.codevectors_, cut.codevectors_)


def test_the_same_seed_gives_the_same_model_in_two_processes():
    program = """
import hashlib
from sklearn.datasets import make_blobs
from annealed import ODAClustering
X = make_blobs(600, centers=6, random_state=0)[0]
m = ODAClustering(6, random_state=7).fit(X)
said = hashlib.sha256(m.codevectors_.tobytes() + m.labels_.tobytes()).hexdigest()
"""
    there = subprocess.run(
        [sys.executable, "-c", program + "print(said)"], capture_output=True, text=True, check=True
    )
    here = {}
    exec(program, here)
    assert there.stdout.strip() == here["said"]


def anneal(X, **parameters):
    return ODAClustering(None, random_state=0, **parameters).fit(X).path_


@pytest.mark.parametrize("split", ["variance", "perturb"])
@pytest.mark.parametrize("factor", [2.0**-20, 0.25, 2.0**30])
def test_a_power_of_two_scales_the_model_exactly(split, factor):
    X = make_blobs(1500, centers=5, n_features=4, random_state=0)[0]
    plain, scaled = anneal(X, split=split), anneal(X * factor, split=split)
    assert len(plain) == len(scaled)
    for one, other in zip(plain, scaled, strict=True):
        np.testing.assert_array_equal(one.codevectors * factor, other.codevectors)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.temperature * factor**2 == other.temperature


@pytest.mark.parametrize(("factor", "shift"), [(1.0, 100.0), (1 / 3, 0.0), (777.7, -1e4)])
def test_scale_and_shift_change_nothing_but_scale_and_shift(factor, shift):
    """Down to the first fifty splits, to 1e-6 of the spread."""
    X = make_blobs(1500, centers=5, n_features=4, random_state=0)[0]
    plain, moved = anneal(X), anneal(X * factor + shift)
    compared = 0
    for one, other in zip(plain, moved, strict=False):
        if one.n_codevectors > 51:
            break
        assert one.n_codevectors == other.n_codevectors
        back = (other.codevectors - shift) / factor
        np.testing.assert_allclose(back, one.codevectors, atol=1e-6 * X.std())
        compared = one.n_codevectors
    assert compared > 20


def test_permuting_features_permutes_codevectors():
    X = make_blobs(1500, centers=5, n_features=6, random_state=0)[0]
    order = np.random.default_rng(0).permutation(6)
    plain, permuted = anneal(X), anneal(X[:, order])
    for one, other in zip(plain, permuted, strict=False):
        if one.n_codevectors > 51:
            break
        np.testing.assert_allclose(one.codevectors[:, order], other.codevectors, atol=1e-6)


def test_memory_is_constant_and_the_size_fixed_after_the_last_level():
    X = make_blobs(tries(4000, 20_000), centers=5, random_state=0)[0]
    model = ODAClustering(K_max=tries(20, 100), random_state=0)
    for _ in range(20):
        model.partial_fit(X)
    assert model._learner.annealer.finished
    K, size = model.n_clusters_, len(pickle.dumps(model))
    before = model.codevectors_.copy()
    for _ in range(3):
        model.partial_fit(X)
    assert model.n_clusters_ == K
    assert len(pickle.dumps(model)) <= size + 64  # a counter may need another byte
    assert not np.array_equal(before, model.codevectors_)  # it tracks


def test_after_the_last_level_the_codebook_follows_the_stream():
    X = make_blobs(4000, centers=3, cluster_std=0.5, random_state=0)[0]
    model = ODAClustering(3, shape="round", alpha_min=0.01, random_state=0).fit(X)
    drift = np.array([1.0, -1.0])
    for step in np.linspace(0, 1, 40):
        model.partial_fit(X + step * drift)
    wanted = np.sort(ODAClustering(3, random_state=0).fit(X + drift).codevectors_, axis=0)
    np.testing.assert_allclose(np.sort(model.codevectors_, axis=0), wanted, atol=0.15)


def test_a_rare_class_neither_waits_nor_vanishes():
    """One sample in fifty: it keeps its codevectors, the others go on without it."""
    rng = np.random.default_rng(0)
    X, y = make_moons(40000, noise=0.1, random_state=0)
    rare = (y == 1) & (rng.uniform(size=len(y)) > 0.02)
    X, y = X[~rare], y[~rare]
    model = ODAClassifier(random_state=0)
    X_new, y_new = make_moons(2000, noise=0.1, random_state=1)
    recalls = []
    for k in range(0, len(X), 500):
        model.partial_fit(X[k : k + 500], y[k : k + 500])
        right = model.predict(X_new) == y_new
        recalls.append((right[y_new == 0].mean(), right[y_new == 1].mean()))
    common, rarely = (
        model._learner.annealer.classes[model._learner.labels.index(c)] for c in (0, 1)
    )
    assert common.newest() > rarely.newest()  # it did not wait
    assert len(rarely.current()) > 1  # it did not starve
    assert min(common for common, _ in recalls) > 0.85  # nor does it cost the others
    assert recalls[-1][1] > 0.7  # of a class of 400 samples, against a prior of one in fifty


def test_a_late_class_never_erases_the_old_ones():
    X, y = make_blobs(6000, centers=4, cluster_std=0.7, random_state=3)
    early, late = y < 3, y == 3
    model = ODAClassifier(random_state=0)
    for _ in range(3):
        model.partial_fit(X[early], y[early])
    before = model.score(X[early], y[early])
    model.partial_fit(X[late][:1], y[late][:1])  # a single row of the new class
    assert model.score(X[early], y[early]) > before - 0.02
    for _ in range(3):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95
    assert set(model.codevector_labels_) == {0, 1, 2, 3}


def test_streams_of_other_divergences():
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.choice([2.0, 20.0], size=(2000, 1)) * np.array([1.0, 3.0, 0.2]))
    model = ODAClustering(2, shape="round", divergence="i_divergence", random_state=0)
    for k in range(0, 2000, 333):
        model.partial_fit(counts[k : k + 333])
    order = np.argsort(model.codevectors_[:, 0])
    np.testing.assert_allclose(
        model.codevectors_[order], [[2, 6, 0.4], [20, 60, 4]], rtol=0.25, atol=0.2
    )


def test_mahalanobis_and_custom_divergences_cut_their_streams_too():
    X = make_blobs(900, centers=3, n_features=2, random_state=0)[0]
    half = BregmanDivergence(lambda x: 0.5 * (x**2).sum(axis=1), lambda x: x, name="half")
    for divergence in (Mahalanobis([[2.0, 0.5], [0.5, 1.0]]), half):
        blank = ODAClustering(3, divergence=divergence, samples_per_codevector=10, recent_samples=0)
        models = [fed(deepcopy(blank), X, cuts, reads=True) for cuts in ([], [1, 50, 51, 400])]
        np.testing.assert_array_equal(models[0].codevectors_, models[1].codevectors_)


# -- the number of clusters ----------------------------------------------------------------------


def test_a_stream_says_how_many_clusters_it_sees_on_the_way_down():
    X, _ = make_blobs(70_000, centers=8, cluster_std=0.4, random_state=0)
    model = ODAClustering(random_state=0)
    seen = []
    for rows in np.split(X, 14):
        model.partial_fit(rows)
        seen.append(model.n_clusters_)
        assert len(model.cluster_centers_) == model.n_clusters_
        assert len(model.codevector_clusters_) == len(model.weights_)
        assert model.predict_proba(rows[:2]).shape == (2, model.n_clusters_)
        assert len(model.predict_proba_one(rows[0])) == model.n_clusters_
    assert seen[-1] == 8 and model.n_clusters_margin_ > 0
    assert seen == sorted(seen)  # none is seen that would have to be taken back
    assert seen.index(8) < 13  # before the ladder ends
    model.reheat()
    for rows in np.split(X[:20_000], 10):  # meanwhile no more than were known before
        assert model.partial_fit(rows).n_clusters_ <= 8


def test_choosing_the_number_of_clusters_is_no_drift():
    # Distances to 8 codevectors are longer than to the 50 the ladder ended with.
    X, _ = make_blobs(100_000, centers=8, cluster_std=0.4, random_state=2)
    model = ODAClustering(drift_detector="auto", random_state=0).partial_fit(X)
    assert model.n_clusters_ == 8 and model.n_clusters_margin_ > 0


# -- one thread learns, another reads ------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score", "score_samples"])
def test_reading_sees_one_model_while_another_thread_learns(method, monkeypatch):
    X, _ = make_blobs(9000, centers=8, cluster_std=0.4, random_state=0)
    model = ODAClustering(None, random_state=0).partial_fit(X[:2000])
    wanted = getattr(deepcopy(model), method)(X[:5])
    current = ODAClustering._model

    def learns_meanwhile(self):  # what another thread does between two looks at the model
        level = current.fget(self)
        monkeypatch.setattr(ODAClustering, "_model", current)
        model.partial_fit(X)
        return level

    monkeypatch.setattr(ODAClustering, "_model", property(learns_meanwhile))
    K = len(model._learner.annealer.model().weights)
    np.testing.assert_array_equal(getattr(model, method)(X[:5]), wanted)
    assert len(model.codevectors_) > K
