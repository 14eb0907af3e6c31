"""engine="block": the same path, attributes and files, and rows in arrays of any library."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

import annealed
from annealed import Mahalanobis, ODAClassifier, ODAClustering

pytestmark = pytest.mark.quality
BLOBS = make_blobs(500, centers=5, cluster_std=0.6, random_state=3)
CLASSES = make_moons(300, noise=0.2, random_state=0)
BLOCK = {"engine": "block", "random_state": 0}
QUICK = {**BLOCK, "gamma": 0.6, "K_max": 10}
PLAIN = {**QUICK, "level": "last", "fine_tune": None}


def states(model):
    """Everything its levels are, and what is on its way."""
    learner = model._learner
    return [
        np.asarray(value).tobytes()
        for one in learner.annealer.classes
        for value in [*one.run.state().values(), *(level.book.mu for level in one.levels.values())]
    ]


# -- what it finds ---------------------------------------------------------------------------------


def test_it_finds_what_the_other_engine_finds():
    X, y = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    online, block = (ODAClustering(random_state=0, engine=e).fit(X) for e in ("online", "block"))
    assert block.n_clusters_ == online.n_clusters_ == 5
    assert adjusted_rand_score(y, block.labels_) > 0.98
    assert block.score(X) == pytest.approx(online.score(X), rel=0.02)
    assert not np.array_equal(block.codevectors_, online.codevectors_)  # it is another one


def test_clusters_of_any_shape():
    X, y = make_moons(800, noise=0.05, random_state=0)
    model = ODAClustering(2, **BLOCK).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1


def test_classes():
    X, y = load_digits(return_X_y=True)
    model = ODAClassifier(level="last", fine_tune=None, **BLOCK).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > 0.9


@pytest.mark.parametrize("split", ["variance", "perturb"])
def test_ways_of_splitting(split):
    X, y = BLOBS
    model = ODAClustering(5, split=split, shape="round", **QUICK).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


@pytest.mark.parametrize(
    "divergence",
    ["i_divergence", "itakura_saito", "logistic", "kullback_leibler", Mahalanobis(np.eye(3) * 2)],
)
def test_divergences(divergence):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.gamma(30.0, size=(600, 3)) * (1.0 + 3.0 * np.eye(3)[y])
    if divergence == "logistic":
        X = X / X.max()
    if divergence == "kullback_leibler":
        X = X / X.sum(axis=1, keepdims=True)
    model = ODAClustering(3, divergence=divergence, shape="round", **QUICK).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_given_K_is_as_good_as_the_other_engines():
    """Its last levels are short ones, and a long one at the end."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=0.6, size=(20, 32))
    X = centres[rng.integers(20, size=4000)] + rng.normal(size=(4000, 32))
    scores = [
        ODAClustering(20, shape="round", random_state=0, engine=engine).fit(X).score(X)
        for engine in ("online", "block")
    ]
    assert scores[1] == pytest.approx(scores[0], rel=0.01)


# -- streams ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"n_clusters": 3, "recent_samples": 0}])
def test_cuts_of_a_stream_cannot_be_seen(options, tmp_path):
    X = np.random.default_rng(0).permutation(BLOBS[0])
    whole = ODAClustering(**options, **QUICK).partial_fit(X)
    cut = ODAClustering(**options, **QUICK)
    for k, rows in enumerate(np.split(X, [1, 7, 130, 131, 300, 444])):
        cut.partial_fit(rows)
        cut.predict(X[:5])
        if k % 2:
            annealed.save(cut, tmp_path / "model.oda")
            cut = annealed.load(tmp_path / "model.oda")
    assert states(cut) == states(whole)
    assert_array_equal(cut.predict_proba(X[:50]), whole.predict_proba(X[:50]))


def test_cuts_of_a_stream_of_classes_cannot_be_seen():
    X, y = CLASSES
    whole = ODAClassifier(**QUICK).partial_fit(X, y)
    cut = ODAClassifier(**QUICK)
    for rows in np.split(np.arange(len(X)), [1, 7, 130, 131, 250]):
        cut.partial_fit(X[rows], y[rows])
    assert states(cut) == states(whole)
    assert_array_equal(cut.predict_proba(X[:50]), whole.predict_proba(X[:50]))


def test_single_samples_are_rows():
    X, y = CLASSES
    rows = ODAClassifier(**PLAIN).partial_fit(X, y)
    single = ODAClassifier(**PLAIN)
    for x, label in zip(X, y, strict=True):
        single.learn_one(x, label)
    assert states(single) == states(rows)
    one = ODAClustering(**QUICK)
    for x in X[:200]:
        one.learn_one(x)
    assert states(one) == states(ODAClustering(**QUICK).partial_fit(X[:200]))
    assert one.predict_one(X[0]) == one.predict(X[:1])[0]


def test_sparse_rows():
    sparse = pytest.importorskip("scipy.sparse")
    X = np.random.default_rng(0).poisson(np.eye(4)[np.arange(400) % 4] + 0.05).astype(float)
    dense, same = (ODAClustering(4, **QUICK).fit(rows) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.codevectors_, same.codevectors_, rtol=1e-9)


# -- files, parameters -----------------------------------------------------------------------------


def test_parameters_and_files(tmp_path):
    X, y = CLASSES[0][:150], CLASSES[1][:150]
    for model in (ODAClustering(**QUICK).fit(X), ODAClassifier(**QUICK).fit(X, y)):
        annealed.save(model, tmp_path / "model.oda")
        again = annealed.load(tmp_path / "model.oda")
        assert again.engine == clone(model).get_params()["engine"] == "block"
        assert states(again) == states(model)
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="engine"):
        ODAClustering(engine="steam").fit(BLOBS[0])


def test_a_forged_file_with_pending_samples_of_another_width_is_refused():
    model = ODAClustering(3, recent_samples=0, **QUICK).partial_fit(BLOBS[0])
    run = model._learner.annealer.classes[0].run
    state = run.state()
    for name, value, said in (
        ("pending", np.zeros((2, 5)), "pending do not fit the level"),
        ("block_pz", np.zeros((1, 2)), "another block_pz"),
        ("block_end", run.count, "do not fit their block"),
    ):
        with pytest.raises(ValueError, match=said):
            run.restore({**state, name: value})


# -- arrays of other libraries ---------------------------------------------------------------------


@pytest.fixture(params=["array_api_strict", "torch", "torch cuda", "cupy"])
def library(request):
    """A function that puts a NumPy array into an array of another library."""
    name, _, device = request.param.partition(" ")
    xp = pytest.importorskip(name)
    if name == "torch":
        pytest.importorskip("array_api_compat")
        if device and not xp.cuda.is_available():
            pytest.skip("no CUDA device here")
        return lambda array: xp.asarray(array, device=device or "cpu")
    return xp.asarray


def host(array):
    return annealed.kernels.to_host(array)


def test_rows_come_back_as_they_came(library):
    X, _ = BLOBS
    rows = library(X)
    model = ODAClustering(**QUICK).fit(rows)
    same = ODAClustering(**QUICK).fit(X)
    np.testing.assert_allclose(model.codevectors_, same.codevectors_, atol=1e-9)
    for name in ("cluster_centers_", "weights_", "labels_"):
        assert isinstance(getattr(model, name), np.ndarray)
    assert_array_equal(model.labels_, same.labels_)
    for method in ("predict", "predict_proba", "transform", "score_samples"):
        answer = getattr(same, method)(rows)
        assert type(answer) is type(rows) and answer.device == rows.device
        np.testing.assert_allclose(host(answer), getattr(same, method)(X), atol=1e-9)
    assert type(ODAClustering(**QUICK).fit_predict(rows)) is type(rows)
    assert same.score(rows) == pytest.approx(same.score(X))
    assert same.predict(X) is not None and isinstance(same.predict(X), np.ndarray)


def test_rows_in_single_precision(library):
    X = BLOBS[0].astype(np.float32)
    rows = library(X)
    model = ODAClustering(**QUICK).fit(rows)
    assert model.transform(rows).dtype == rows.dtype
    np.testing.assert_allclose(host(model.transform(rows)), model.transform(X), atol=1e-3)
    assert_array_equal(host(model.predict(rows)), model.predict(X))


def test_a_classifier_takes_them_too(library):
    X, y = CLASSES[0][:150], CLASSES[1][:150]
    rows, labels = library(X), library(y)
    model = ODAClassifier(**QUICK).fit(rows, labels)
    same = ODAClassifier(**QUICK).fit(X, y)
    np.testing.assert_allclose(host(model.predict_proba(rows)), same.predict_proba(X), atol=1e-9)
    assert type(model.predict(rows)) is type(rows)
    assert model.score(rows, labels) == same.score(X, y)
    named = ODAClassifier(**PLAIN).fit(rows, np.array(["no", "yes"])[y])
    assert named.predict(rows).dtype.kind == "U"  # texts have no place in such arrays
    stream = ODAClassifier(**QUICK).partial_fit(rows, labels)
    assert states(stream) == states(ODAClassifier(**QUICK).partial_fit(X, y))


@pytest.mark.parametrize(
    "divergence", ["i_divergence", "itakura_saito", "logistic", "kullback_leibler", "mahalanobis"]
)
def test_divergences_of_arrays(library, divergence):
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(4) * 3, size=300)
    w = rng.uniform(0.5, 2.0, 300)
    if divergence == "mahalanobis":
        divergence = Mahalanobis(np.cov(X[:, :4].T) + np.eye(4))
    rows = library(X)
    options = {"divergence": divergence, "polish": True, **QUICK, "K_max": 5}
    model = ODAClustering(4, **options).fit(rows, sample_weight=library(w))
    same = ODAClustering(4, **options).fit(X, sample_weight=w)
    np.testing.assert_allclose(model.cluster_centers_, same.cluster_centers_, atol=1e-9)
    np.testing.assert_allclose(host(same.transform(rows)), same.transform(X), atol=1e-9)
    assert_array_equal(host(same.predict(rows)), same.predict(X))


def test_what_cannot_be_rows_is_refused(library):
    X = BLOBS[0]
    model = ODAClustering(**QUICK).fit(X)
    with pytest.raises(ValueError, match="shape"):
        ODAClustering(**QUICK).fit(library(X[:, 0]))
    with pytest.raises(ValueError, match="features"):
        model.predict(library(np.ones((3, 5))))
    with pytest.raises(ValueError, match="NaN"):
        model.predict(library(np.array([[1.0, np.nan]])))
    with pytest.raises(ValueError, match="domain"):
        ODAClustering(divergence="i_divergence", **QUICK).fit(library(X))
    whole = ODAClustering(**QUICK).fit(library(np.round(X).astype(np.int64)))
    assert whole.n_features_in_ == 2
