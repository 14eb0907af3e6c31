"""Sparse rows: learnt and read as dense ones are, without ever being dense all at once."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from thoroughness import examples

from annealed import ODAClassifier, ODAClustering, load, save
from annealed.divergences import get_divergence
from annealed.kernels import CompiledKernel, SparseRows, sparse_rows

DIVERGENCES = ["squared_euclidean", "i_divergence", "kullback_leibler"]


def counts(rng, n, d, topics=3):
    """Rows of counts, most of them zero, of so many kinds."""
    kind = np.arange(n) % topics
    rate = 0.02 * np.ones((topics, d))
    for k in range(topics):
        rate[k, k::topics] = 1.0
    X = rng.poisson(rate[kind]).astype(float)
    X[X.sum(axis=1) == 0, 0] = 1.0
    return X, kind


def rows_for(name, rng, n, d):
    X = counts(rng, n, d)[0]
    return X / X.sum(axis=1, keepdims=True) if name == "kullback_leibler" else X


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Blocks of some fifty rows, so that there are several."""
    monkeypatch.setattr(sparse_rows, "DENSE_AT_A_TIME", 850)
    monkeypatch.setattr(sparse_rows, "PRODUCTS_AT_A_TIME", 2000)


@pytest.mark.quality
@pytest.mark.parametrize("name", DIVERGENCES)
@examples(10)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 12),
    d=st.integers(2, 30),
    T=st.sampled_from([0.0, 1e-3, 1.0]),
    single=st.booleans(),
)
def test_sparse_rows_are_read_as_dense_ones(name, seed, K, d, T, single):
    rng = np.random.default_rng(seed)
    X = rows_for(name, rng, 60, d).astype(np.float32 if single else np.float64)
    divergence = get_divergence(name)
    low, high = divergence.bounds(X.mean(axis=0, dtype=float))
    mu = np.clip(rows_for(name, rng, K, d), low, high)
    mu[: K // 2] = np.clip(X[: K // 2], low, high)  # rows that lie on codevectors
    weight, group = np.log(rng.dirichlet(np.ones(K))), rng.integers(2, size=K)
    kernel, rows = CompiledKernel(divergence), SparseRows(sparse.csr_array(X))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_rows, "DENSE_AT_A_TIME", 7 * d)
        patch.setattr(sparse_rows, "PRODUCTS_AT_A_TIME", 11 * K)
        np.testing.assert_array_equal(
            kernel.assign(rows, mu, weight, T), kernel.assign(X, mu, weight, T)
        )
        np.testing.assert_allclose(
            kernel.divergences(rows, mu), kernel.divergences(X, mu), rtol=1e-8, atol=1e-14
        )
        for one, other in zip(
            kernel.associate(rows, mu, weight, T, group, 2),
            kernel.associate(X, mu, weight, T, group, 2),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
        for one, other in zip(
            kernel.hard_sums(rows, mu, None), kernel.hard_sums(X, mu, None), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9)
        low_high = rows.ranges()
    np.testing.assert_array_equal(low_high[0], X.min(axis=0))
    np.testing.assert_array_equal(low_high[1], X.max(axis=0))


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_clusters_of_sparse_rows_are_those_of_dense_ones(name, container, few_at_a_time):
    X = rows_for(name, np.random.default_rng(0), 300, 17)
    dense, thin = (
        ODAClustering(3, shape="round", divergence=name, random_state=0).fit(rows)
        for rows in (X, container(X))
    )
    np.testing.assert_array_equal(thin.codevectors_, dense.codevectors_)
    np.testing.assert_array_equal(thin.labels_, dense.labels_)
    np.testing.assert_allclose(thin.predict_proba(container(X)), dense.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(thin.transform(container(X)), dense.transform(X), rtol=1e-8)
    assert thin.score(container(X)) == pytest.approx(dense.score(X))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_blocks_of_sparse_rows_are_those_of_dense_ones(name):
    X = rows_for(name, np.random.default_rng(0), 3000, 17)
    w = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(X))
    dense, thin = (
        ODAClustering(3, shape="round", divergence=name, engine="block", random_state=0).fit(
            rows, sample_weight=w
        )
        for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(thin.codevectors_, dense.codevectors_, rtol=1e-6)
    np.testing.assert_array_equal(thin.labels_, dense.labels_)
    assert thin.path_[-1].distortion == pytest.approx(dense.path_[-1].distortion, rel=1e-6)


@pytest.mark.parametrize("name", ["squared_euclidean", "i_divergence"])
def test_a_stream_of_sparse_rows_in_blocks_is_cut_anywhere(name, tmp_path):
    """Also where samples wait in a file, and dense rows among sparse ones."""
    X = rows_for(name, np.random.default_rng(0), 6000, 17)
    models = []
    for cuts in ([0, 6000], [0, 700, 1501, 1502, 4000, 6000]):
        model = ODAClustering(3, divergence=name, engine="block", recent_samples=0, random_state=0)
        for begin, end in itertools.pairwise(cuts):
            model.partial_fit(sparse.csr_array(X[begin:end]))
            save(model, tmp_path / "model.oda")
            again = load(tmp_path / "model.oda")
            np.testing.assert_array_equal(again.codevectors_, model.codevectors_)
            model = again
        models.append(model)
    whole, cut = models
    np.testing.assert_array_equal(whole.codevectors_, cut.codevectors_)
    cut.partial_fit(X[:100]).partial_fit(sparse.csr_array(X[100:300]))
    whole.partial_fit(sparse.csr_array(X[:300]))
    np.testing.assert_allclose(whole.codevectors_, cut.codevectors_, rtol=1e-9)


@pytest.mark.parametrize("name", ["squared_euclidean", "i_divergence"])
def test_blocks_never_make_sparse_rows_dense(name):
    X = sparse.random(20_000, 5000, density=0.002, format="csr", random_state=0)
    X.data[:] = 1.0
    model = ODAClustering(3, divergence=name, shape="round", engine="block", random_state=0)
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 8 * X.shape[0] * X.shape[1]  # what they would be dense


def test_polished_clusters_of_sparse_rows_are_those_of_dense_ones(few_at_a_time):
    X = counts(np.random.default_rng(0), 300, 17)[0]
    dense, thin = (
        ODAClustering(3, polish=True, random_state=0).fit(rows) for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(thin.codevectors_, dense.codevectors_, rtol=1e-10)
    np.testing.assert_array_equal(thin.labels_, dense.labels_)


@pytest.mark.parametrize("name", ["squared_euclidean", "i_divergence"])
def test_classes_of_sparse_rows_are_told_apart(name, few_at_a_time):
    X, y = counts(np.random.default_rng(0), 240, 17)
    model = ODAClassifier(divergence=name, K_max=6, gamma=0.5, random_state=0)
    model.fit(sparse.csr_array(X[::2]), y[::2])
    assert model.score(sparse.csr_array(X[1::2]), y[1::2]) > 0.95
    np.testing.assert_allclose(
        model.predict_proba(sparse.csr_array(X)), model.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_streams_of_sparse_rows_are_those_of_dense_ones(weighted, few_at_a_time):
    rng = np.random.default_rng(0)
    X, y = counts(rng, 400, 17)
    w = rng.uniform(0.5, 1.5, size=400) if weighted else None
    for make in (
        lambda rows: ODAClustering(random_state=0).partial_fit(rows, sample_weight=w),
        lambda rows: ODAClassifier(random_state=0).partial_fit(rows, y, sample_weight=w),
    ):
        dense, thin = make(X), make(sparse.csr_array(X))
        np.testing.assert_array_equal(thin.codevectors_, dense.codevectors_)
        np.testing.assert_array_equal(thin.predict(X), dense.predict(X))


@pytest.mark.parametrize("name", ["i_divergence", "kullback_leibler"])
def test_topics_are_found_among_words_most_documents_do_not_have(name):
    """A word no sample has had for long leaves no room to step aside in; others do."""
    rng = np.random.default_rng(0)
    n, words, topics = 240, 1500, 4
    topic = np.arange(n) % topics
    own = rng.permutation(words)[: topics * 30].reshape(topics, 30)
    said = rng.integers(words, size=(n, 30))
    said[:, :20] = own[topic[:, None], rng.integers(30, size=(n, 20))]
    X = np.zeros((n, words))
    np.add.at(X, (np.repeat(np.arange(n), 30), said.ravel()), 1.0)
    X = X / 30 if name == "kullback_leibler" else X
    model = ODAClustering(topics, divergence=name, random_state=0).fit(sparse.csr_array(X))
    assert adjusted_rand_score(topic, model.labels_) == 1.0


def test_sparse_rows_are_never_dense_all_at_once():
    X = sparse.random(10_000, 2000, density=0.002, random_state=0, format="csr")  # dense: 160 MB
    model = ODAClustering(3, shape="round", K_max=4, random_state=0, samples_per_codevector=20)
    tracemalloc.start()
    try:
        model.fit(X)
        model.predict_proba(X)
        model.score(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6  # foretelling the first split takes 2000 rows, dense


def test_other_divergences_say_which_take_sparse_rows():
    X = sparse.csr_array(counts(np.random.default_rng(0), 50, 5)[0])
    with pytest.raises(TypeError, match="'squared_euclidean', 'i_divergence'"):
        ODAClustering(divergence="itakura_saito").fit(X)


def test_values_of_sparse_rows_are_checked():
    X = sparse.csr_array(counts(np.random.default_rng(0), 50, 5)[0])
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ODAClustering().fit(X)
    X.data[3] = -1.0
    with pytest.raises(ValueError, match="Negative values in data"):
        ODAClustering(divergence="i_divergence").fit(X)
    X.data[3] = 1e200
    with pytest.raises(ValueError, match=r"column 4 holds 1e\+200 in row 1"):
        ODAClustering().fit(X)


def test_labels_are_left_out_if_nobody_asks_for_them(blobs):
    X, _ = blobs
    model = ODAClustering(3, random_state=0).fit(X)
    labels = model.labels_
    model.set_params(compute_labels=False)
    assert not hasattr(model.fit(X), "labels_")
    np.testing.assert_array_equal(model.fit_predict(X), labels)
