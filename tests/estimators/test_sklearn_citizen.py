"""The estimators among scikit-learn's: labels, frames, weights, searches, pickles, densities."""

from __future__ import annotations

import ast
import copy
import io
import pickle
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from predicates import same_model, same_path, valid_model
from sklearn.base import clone, is_classifier, is_clusterer
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from thoroughness import examples, tries

import annealed
from annealed import BregmanDivergence, Mahalanobis, ODAClassifier, ODAClustering, paper_settings

BOTH = pytest.mark.parametrize("kind", ["clustering", "classifier"])


# Without a choice of level and fine-tuning the posterior is the paper's, in closed form.
AS_ANNEALED = {"level": "last", "fine_tune": None}


def make(kind, **params):
    if kind == "classifier":
        return ODAClassifier(**{"random_state": 0, "K_max": 8, "gamma": 0.6} | params)
    return ODAClustering(
        **{"n_clusters": None, "random_state": 0, "K_max": 20, "gamma": 0.8} | params
    )


def stream(n=3000, seed=0):
    """Three blobs and their labels in random order, long enough for a whole path."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[y] + rng.normal(size=(n, 2)), y


# -- labels and classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "names",
    [["a", "bb", "ccc"], [10, -3, 7], [0.0, 2.0, 1.0], [True, False, True]],
    ids=["strings", "integers", "floats", "booleans"],
)
def test_labels_come_back_as_they_were_given(names, verb, blobs):
    X, index = blobs
    y = np.array(names)[index]
    est = getattr(make("classifier"), verb)(X, y)
    np.testing.assert_array_equal(est.classes_, np.unique(y))
    assert est.classes_.dtype == y.dtype
    assert est.score(X, y) > 0.97
    assert set(est.codevector_labels_.tolist()) == set(y.tolist())
    assert valid_model(est)


def test_lists_of_strings_and_object_arrays_are_labels_too(blobs):
    X, index = blobs
    y = np.array(["cat", "dog", "cow"], dtype=object)[index]
    one, other = make("classifier").fit(X, y), make("classifier").fit(X, y.tolist())
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.score(X, y) > 0.97


def test_new_classes_may_appear_at_any_time():
    X, y = stream()
    names = np.array(["b", "a", "a much longer name"])
    est = make("classifier").partial_fit(X[y == 0], names[y[y == 0]])
    np.testing.assert_array_equal(est.classes_, ["b"])
    est.partial_fit(X[y != 2], names[y[y != 2]])
    np.testing.assert_array_equal(est.classes_, ["a", "b"])
    assert est.score(X[y != 2], names[y[y != 2]]) > 0.97
    est.partial_fit(X, names[y])
    np.testing.assert_array_equal(est.classes_, ["a", "a much longer name", "b"])
    assert est.score(X, names[y]) > 0.97
    np.testing.assert_allclose(est.predict_proba(X).sum(axis=1), 1.0)
    assert valid_model(est)


def test_a_class_seen_once_is_known_and_erases_nobody():
    X, y = stream()
    est = make("classifier").partial_fit(X[y != 2], y[y != 2]).partial_fit(X[y == 2][:1], [2])
    np.testing.assert_array_equal(est.classes_, [0, 1, 2])
    assert est.score(X[y != 2], y[y != 2]) > 0.97
    assert (est.codevector_labels_ == 2).sum() == 1


def test_announced_classes_have_a_column_before_their_first_row():
    X, y = stream(300)
    known = y != 1
    est = make("classifier").partial_fit(X[known], y[known], classes=[0, 1, 2])
    np.testing.assert_array_equal(est.classes_, [0, 1, 2])
    proba = est.predict_proba(X)
    assert proba.shape == (300, 3)
    np.testing.assert_array_equal(proba[:, 1], 0.0)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_announcing_classes_does_not_change_the_model():
    X, y = stream()
    announced = (
        make("classifier").partial_fit(X[:1], y[:1], classes=[2, 1, 0]).partial_fit(X[1:], y[1:])
    )
    silent = make("classifier").partial_fit(X, y)
    assert same_path(announced.path_, silent.path_)
    np.testing.assert_array_equal(announced.predict_proba(X), silent.predict_proba(X))


@examples(8)
@given(cuts=st.lists(st.integers(1, 2999), max_size=6), seed=st.integers(0, 3))
def test_any_chunking_gives_the_same_classifier(cuts, seed):
    X, y = stream(seed=seed)
    whole = make("classifier").partial_fit(X, y)
    parts = make("classifier")
    for rows, labels in zip(np.split(X, sorted(cuts)), np.split(y, sorted(cuts)), strict=True):
        if len(rows):
            parts.partial_fit(rows, labels)
    assert same_model(whole, parts)
    np.testing.assert_array_equal(whole.predict_proba(X[:100]), parts.predict_proba(X[:100]))


# -- priors and weights ---------------------------------------------------------------------------


def odds(est, X, y, verb="fit"):
    """Posterior of classes 0 and 1 with its extremes removed, where ratios can be compared."""
    proba = getattr(est, verb)(X, y).predict_proba(X)
    return proba[:, 0], proba[:, 1]


@pytest.fixture
def overlapping():
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 4 == 0).astype(int)  # 3 to 1
    return rng.normal(size=(400, 2)) + y[:, None], y


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_priors_default_to_the_frequencies_seen(overlapping, verb):
    X, y = overlapping
    # In a stream neighbours and means count what has come so far, sample by sample.
    params = AS_ANNEALED if verb == "partial_fit" else {}
    frequency = odds(make("classifier", **params), X, y, verb)
    given_ = odds(make("classifier", priors=[0.75, 0.25], **params), X, y, verb)
    np.testing.assert_allclose(frequency, given_, rtol=1e-9, atol=1e-300)


def test_priors_scale_the_odds(overlapping):
    X, y = overlapping
    a0, a1 = odds(make("classifier", priors=[0.5, 0.5], **AS_ANNEALED), X, y)
    b0, b1 = odds(make("classifier", priors=[0.9, 0.1], **AS_ANNEALED), X, y)
    inside = (a0 > 1e-6) & (a1 > 1e-6)
    assert inside.sum() > 5
    np.testing.assert_allclose((b0 / b1)[inside], 9 * (a0 / a1)[inside], rtol=1e-6)


def test_class_weight_scales_the_odds(overlapping):
    X, y = overlapping
    a0, a1 = odds(make("classifier", **AS_ANNEALED), X, y)
    b0, b1 = odds(make("classifier", class_weight={1: 5.0}, **AS_ANNEALED), X, y)
    inside = (a0 > 1e-6) & (a1 > 1e-6)
    assert inside.sum() > 5
    np.testing.assert_allclose((b1 / b0)[inside], 5 * (a1 / a0)[inside], rtol=1e-6)


def test_balanced_makes_classes_equally_likely(overlapping):
    X, y = overlapping
    np.testing.assert_allclose(
        odds(make("classifier", class_weight="balanced"), X, y),
        odds(make("classifier", priors=[0.5, 0.5]), X, y),
    )


def test_a_class_of_prior_zero_is_never_predicted(overlapping):
    X, y = overlapping
    est = make("classifier", priors=[0.0, 1.0]).fit(X, y)
    np.testing.assert_array_equal(est.predict(X), 1)
    assert np.isfinite(est.predict_proba(X)).all()


def test_sample_weights_set_the_frequencies(overlapping):
    X, y = overlapping
    w = np.where(y == 1, 3.0, 1.0)
    est = make("classifier").fit(X, y, sample_weight=w)
    balanced = make("classifier", class_weight="balanced").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(
        est.predict_proba(X), balanced.predict_proba(X), rtol=1e-6, atol=1e-12
    )


@BOTH
def test_in_fit_only_ratios_of_weights_matter(kind, blobs):
    X, y = blobs
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    assert same_model(
        make(kind).fit(X, y, sample_weight=w), make(kind).fit(X, y, sample_weight=4 * w)
    )


@BOTH
def test_weights_of_one_are_no_weights(kind, blobs):
    X, y = blobs
    ones = np.ones(len(X))
    assert same_model(make(kind).fit(X, y, sample_weight=ones), make(kind).fit(X, y))
    assert same_model(
        make(kind).partial_fit(X, y, sample_weight=ones), make(kind).partial_fit(X, y)
    )


def test_weights_draw_the_codevector():
    X = np.repeat([[0.0], [1.0]], 100, axis=0)
    w = np.repeat([3.0, 1.0], 100)
    est = ODAClustering(1, random_state=0, samples_per_codevector=2000).fit(X, sample_weight=w)
    np.testing.assert_allclose(est.cluster_centers_, [[0.25]], atol=0.03)


# -- frames ---------------------------------------------------------------------------------------

# Older releases of scikit-learn read names by a protocol that polars 2 has given up.
POLARS_NAMES = hasattr(StandardScaler().fit(pl.DataFrame({"a": [0.0, 1.0]})), "feature_names_in_")
FRAMES = pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pd.DataFrame, id="pandas"),
        pytest.param(
            pl.DataFrame,
            id="polars",
            marks=pytest.mark.skipif(
                not POLARS_NAMES,
                reason="this scikit-learn does not read the feature names of this polars",
            ),
        ),
    ],
)


@BOTH
@FRAMES
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_frames_bring_their_feature_names(kind, frame, verb, blobs):
    X, y = blobs
    data = frame({"width": X[:, 0], "height": X[:, 1]})
    est = getattr(make(kind), verb)(data, y)
    np.testing.assert_array_equal(est.feature_names_in_, ["width", "height"])
    assert est.n_features_in_ == 2
    plain = getattr(make(kind), verb)(X, y)
    assert same_model(est, plain)
    np.testing.assert_array_equal(est.predict(data), plain.predict(X))
    assert not hasattr(plain, "feature_names_in_")


@BOTH
@FRAMES
def test_a_frame_with_columns_in_another_order_is_refused(kind, frame, blobs):
    X, y = blobs
    est = make(kind).fit(frame({"a": X[:, 0], "b": X[:, 1]}), y)
    with pytest.raises(ValueError, match="feature names"):
        est.predict(frame({"b": X[:, 1], "a": X[:, 0]}))


@FRAMES
def test_a_series_of_labels_is_read(frame, blobs):
    X, y = blobs
    names = np.array(["x", "y", "z"])[y]
    series = (pd if frame is pd.DataFrame else pl).Series(names)
    data = frame({"a": X[:, 0], "b": X[:, 1]})
    assert make("classifier").fit(data, series).score(data, names) > 0.97


@BOTH
def test_feature_names_out_number_the_codevectors(kind, blobs):
    X, y = blobs
    est = make(kind).fit(X, y)
    prefix = type(est).__name__.lower()
    expected = [f"{prefix}{i}" for i in range(len(est.codevectors_))]
    np.testing.assert_array_equal(est.get_feature_names_out(), expected)


@BOTH
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_makes_transform_return_a_frame(kind, library, blobs):
    X, y = blobs
    est = make(kind).fit(X, y)
    plain = est.transform(X)
    frame = est.set_output(transform=library).transform(X)
    assert isinstance(frame, pd.DataFrame if library == "pandas" else pl.DataFrame)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    assert list(frame.columns) == est.get_feature_names_out().tolist()


def test_set_output_keeps_the_index(blobs):
    X, _ = blobs
    data = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X)) + 1000)
    out = make("clustering").set_output(transform="pandas").fit(data).transform(data)
    assert out.index.equals(data.index)


# -- parameters, searches, pipelines --------------------------------------------------------------


@BOTH
def test_clone_and_set_params_round_trip(kind, blobs):
    X, y = blobs
    est = make(kind, divergence=Mahalanobis(np.eye(2)), gamma=0.77)
    twin = clone(est)
    assert twin.get_params()["gamma"] == 0.77
    assert not hasattr(twin, "n_features_in_")
    assert same_model(est.fit(X, y), twin.fit(X, y))
    fresh = type(est)().set_params(**est.get_params())
    assert same_model(fresh.fit(X, y), est)
    with pytest.raises(ValueError, match="temperature_of_the_day"):
        est.set_params(temperature_of_the_day=1)


@BOTH
def test_constructor_only_stores(kind):
    odd = {"gamma": "nonsense", "K_max": -7, "divergence": object()}
    est = make(kind, **odd)
    for name, value in odd.items():
        assert getattr(est, name) is value
    assert set(vars(est)) == set(est.get_params())


def test_papers_settings_are_parameters_of_both(blobs):
    X, y = blobs
    assert ODAClustering(None, **paper_settings(), random_state=0).fit(X).n_clusters_ >= 1
    assert ODAClassifier(**paper_settings(), random_state=0).fit(X, y).score(X, y) > 0.9


def test_grid_search_over_a_pipeline():
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ODAClassifier(random_state=0)),
        {"odaclassifier__K_max": [3, 20], "odaclassifier__level": ["last"]},
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.predict(X).shape == y.shape


def test_grid_search_over_the_number_of_clusters(blobs):
    search = GridSearchCV(
        ODAClustering(random_state=0), {"n_clusters": [1, 3]}, cv=3, error_score="raise"
    ).fit(blobs[0])
    assert search.best_params_ == {"n_clusters": 3}


def test_clustering_feeds_a_classifier_in_a_pipeline():
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    model = make_pipeline(
        StandardScaler(), ODAClustering(12, random_state=0), LogisticRegression(max_iter=1000)
    )
    assert cross_val_score(model, X, y, cv=3, error_score="raise").mean() > 0.9


@BOTH
def test_sample_weights_are_routed(kind, blobs):
    X, y = blobs
    w = np.ones(len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        est = make(kind).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        routed = cross_val_score(est, X, y, cv=3, params={"sample_weight": w}, error_score="raise")
        plain = cross_val_score(make(kind), X, y, cv=3, error_score="raise")
    np.testing.assert_allclose(routed, plain)


def test_routed_weights_reach_fit(blobs):
    X, y = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        est = make("classifier").set_fit_request(sample_weight=True)
        est.set_score_request(sample_weight=False)
        bad = np.full(len(X), -1.0)
        with pytest.raises(ValueError, match="negative"):
            cross_val_score(est, X, y, cv=3, params={"sample_weight": bad}, error_score="raise")


def test_routed_weights_reach_partial_fit():
    with sklearn.config_context(enable_metadata_routing=True):
        for kind in ("clustering", "classifier"):
            est = make(kind).set_partial_fit_request(sample_weight=True)
            routing = est.get_metadata_routing()
            assert routing.partial_fit.requests["sample_weight"] is True


@BOTH
@pytest.mark.parametrize(
    "divergence, positive",
    [
        ("squared_euclidean", False),
        (Mahalanobis(np.eye(2)), False),
        ("i_divergence", True),
        ("kullback_leibler", True),
        ("itakura_saito", True),
        ("logistic", True),
        (BregmanDivergence(np.sum, np.exp), False),
        (BregmanDivergence(np.sum, np.exp, domain=(0, np.inf)), True),
        ("no such divergence", False),
    ],
    ids=str,
)
def test_tags_tell_the_truth_per_divergence(kind, divergence, positive):
    tags = get_tags(make(kind, divergence=divergence))
    assert tags.input_tags.positive_only is positive
    sparse = ("squared_euclidean", "i_divergence", "kullback_leibler")
    assert tags.input_tags.sparse is (isinstance(divergence, str) and divergence in sparse)
    assert not tags.input_tags.allow_nan
    assert tags.estimator_type == ("clusterer" if kind == "clustering" else "classifier")
    assert tags.target_tags.required is (kind == "classifier")
    assert tags.transformer_tags is not None


def test_kinds_are_recognised():
    assert is_clusterer(ODAClustering()) and not is_classifier(ODAClustering())
    assert is_classifier(ODAClassifier()) and not is_clusterer(ODAClassifier())


@BOTH
@pytest.mark.parametrize(
    "read",
    ["predict", "predict_proba", "transform", "score_samples", "path_", "codevectors_", "weights_",
     "temperature_", "at", "get_feature_names_out"],
)  # fmt: skip
def test_reading_before_fitting_says_so(kind, read):
    def call(est):
        if read == "at":
            return est.at(temperature=1.0)
        if read == "get_feature_names_out":
            return est.get_feature_names_out()
        return getattr(est, read) if read.endswith("_") else getattr(est, read)(np.zeros((1, 2)))

    expected = (NotFittedError, AttributeError) if read.endswith("_") else NotFittedError
    with pytest.raises(expected):
        call(make(kind))


# -- state ----------------------------------------------------------------------------------------


def through_joblib(est):
    file = io.BytesIO()
    joblib.dump(est, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "pickle": lambda est: pickle.loads(pickle.dumps(est)),
    "joblib": through_joblib,
    "deepcopy": copy.deepcopy,
    "pickle of a pickle": lambda est: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(est)))),
}


@BOTH
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("cut", tries([50, 2500], [1, 50, 777, 2500]))
@pytest.mark.parametrize("split", tries(["variance"], ["variance", "perturb"]))
def test_a_copy_continues_the_stream_to_the_last_bit(kind, way, cut, split):
    X, y = stream()
    est = make(kind, split=split).partial_fit(X[:cut], y[:cut])
    twin = COPIES[way](est)
    np.testing.assert_array_equal(twin.predict_proba(X), est.predict_proba(X))
    est.partial_fit(X[cut:], y[cut:])
    twin.partial_fit(X[cut:], y[cut:])
    assert same_model(est, twin)
    np.testing.assert_array_equal(twin.predict_proba(X), est.predict_proba(X))


def test_a_copy_does_not_share_its_state_with_the_original():
    X, _ = stream()
    for copy_of in (copy.copy, copy.deepcopy):
        est = ODAClustering(random_state=0, K_max=12, gamma=0.8).partial_fit(X[:200])
        before = est.predict_proba(X), est.n_clusters_margin_, len(est.path_)
        copy_of(est).partial_fit(np.tile(X[200:], (4, 1)))
        after = est.predict_proba(X), est.n_clusters_margin_, len(est.path_)
        np.testing.assert_array_equal(before[0], after[0])
        np.testing.assert_array_equal(before[1:], after[1:])


@BOTH
def test_a_fitted_model_survives_pickling(kind, blobs):
    X, y = blobs
    est = make(kind, **({"n_clusters": "auto"} if kind == "clustering" else {})).fit(X, y)
    twin = pickle.loads(pickle.dumps(est))
    assert same_model(est, twin)
    np.testing.assert_array_equal(est.predict(X), twin.predict(X))
    np.testing.assert_array_equal(
        est.at(n_codevectors=5).predict(X), twin.at(n_codevectors=5).predict(X)
    )


@BOTH
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_reading_changes_nothing(kind, verb):
    X, y = stream(1500)
    est = getattr(make(kind), verb)(X, y)
    before = pickle.dumps(est)
    for method in (est.predict, est.predict_proba, est.transform, est.score_samples):
        method(X)
    est.score(X, y)
    assert pickle.dumps(est) == before


@BOTH
def test_reading_between_chunks_does_not_change_the_stream(kind):
    X, y = stream()
    read, unread = make(kind), make(kind)
    for part in np.split(np.arange(3000), 10):
        read.partial_fit(X[part], y[part])
        unread.partial_fit(X[part], y[part])
        read.predict(X[:10])
        if len(read.path_):
            read.at(temperature=1.0).predict(X[:10])
    assert same_model(read, unread)


@BOTH
def test_refitting_forgets_everything_before(kind, blobs):
    X, y = blobs
    est = make(kind).fit(np.random.default_rng(5).normal(size=(100, 4)), np.arange(100) % 2)
    est.partial_fit(np.ones((3, 4)), [0, 1, 0])
    assert same_model(est.fit(X, y), make(kind).fit(X, y))
    assert est.n_features_in_ == 2


@BOTH
def test_the_stream_goes_on_after_fit(kind, blobs):
    X, y = blobs
    est = make(kind).fit(X, y)
    K = len(est.codevectors_)
    before = est.codevectors_.copy()
    est.partial_fit(X, y)
    assert len(est.codevectors_) == K
    assert not np.array_equal(est.codevectors_, before)
    assert valid_model(est)


@BOTH
def test_random_state_none_differs_and_a_seed_repeats(kind, blobs):
    X, y = blobs
    one, two = (make(kind, random_state=None).fit(X, y) for _ in range(2))
    assert not np.array_equal(one.path_[0].codevectors, two.path_[0].codevectors)
    generators = (make(kind, random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2))
    assert same_model(*generators)


# -- predictions ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("divergence", ["squared_euclidean", "i_divergence", "itakura_saito"])
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_predict_is_the_argmax_of_predict_proba(kind, divergence, verb):
    X, y = stream(1500)
    X = np.abs(X) + 0.01
    est = getattr(make(kind, divergence=divergence), verb)(X, y)
    proba = est.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
    assert (proba >= 0).all()
    best = proba.argmax(axis=1)
    np.testing.assert_array_equal(
        est.predict(X), best if kind == "clustering" else est.classes_[best]
    )


def test_predict_is_the_argmax_also_far_from_all_codevectors(blobs):
    X, y = blobs
    far = np.array([[1e6, 0.0], [-1e6, 3.0], [0.0, 1e8]])
    for est in (make("clustering").fit(X), make("classifier").fit(X, y)):
        proba = est.predict_proba(far)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        best = proba.argmax(axis=1)
        assert (proba.max(axis=1) > 0).all()
        labels = best if isinstance(est, ODAClustering) else est.classes_[best]
        np.testing.assert_array_equal(est.predict(far), labels)


@pytest.mark.parametrize(
    "params", [{"n_clusters": 3}, {"K_max": 15}, {"n_clusters": 4, "polish": True}]
)
def test_labels_are_the_predictions_for_the_training_rows(params, blobs):
    X, _ = blobs
    est = ODAClustering(random_state=0, **params).fit(X)
    np.testing.assert_array_equal(est.labels_, est.predict(X))
    np.testing.assert_array_equal(est.labels_, clone(est).fit_predict(X))
    np.testing.assert_array_equal(est.labels_, est.predict_proba(X).argmax(axis=1))


def test_predictions_of_a_row_do_not_depend_on_its_company():
    X, y = stream(1000)
    for est in (make("clustering").fit(X), make("classifier").fit(X, y)):
        together = est.predict_proba(X)
        alone = np.concatenate([est.predict_proba(X[i : i + 1]) for i in range(50)])
        np.testing.assert_array_equal(together[:50], alone)


def test_polish_is_hard_clustering_at_temperature_zero(blobs):
    X, _ = blobs
    est = ODAClustering(3, polish=True, random_state=0).fit(X)
    assert est.temperature_ == 0
    np.testing.assert_array_equal(est.predict(X), est.transform(X).argmin(axis=1))
    for i in range(3):
        np.testing.assert_allclose(est.cluster_centers_[i], X[est.labels_ == i].mean(axis=0))
    np.testing.assert_allclose(est.weights_, np.bincount(est.labels_) / len(X))
    np.testing.assert_allclose(-est.score(X), est.transform(X).min(axis=1).mean())


def test_auto_says_how_sure_it_is(blobs):
    sure = ODAClustering(random_state=0).fit(blobs[0])
    assert sure.n_clusters_ == 3
    assert sure.n_clusters_margin_ > 0.3
    assert np.isnan(ODAClustering(3, random_state=0).fit(blobs[0]).n_clusters_margin_)
    noise = np.random.default_rng(0).normal(size=(500, 2))
    assert ODAClustering(random_state=0).fit(noise).n_clusters_ == 1


@pytest.mark.parametrize(
    "split, seed", [(split, k) for split in ("variance", "perturb") for k in range(tries(1, 5))]
)
def test_auto_finds_three_clear_blobs_at_their_centres(split, seed, blobs):
    est = ODAClustering(split=split, K_max=20, random_state=seed).fit(blobs[0])
    assert est.n_clusters_ == 3
    true = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    assert ((true[:, None] - est.cluster_centers_) ** 2).sum(axis=2).min(axis=1).max() < 0.5


# -- scores and densities -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "divergence", ["squared_euclidean", "i_divergence", Mahalanobis([[2, 1], [1, 3]])], ids=str
)
def test_score_is_minus_the_mean_distortion(divergence):
    X = np.abs(stream(500)[0]) + 0.01
    est = make("clustering", n_clusters=4, shape="round", divergence=divergence).fit(X)
    distortion = (est.predict_proba(X) * est.transform(X)).sum(axis=1)
    np.testing.assert_allclose(est.score(X), -distortion.mean(), rtol=1e-9)
    w = np.arange(500.0)
    np.testing.assert_allclose(
        est.score(X, sample_weight=w), -np.average(distortion, weights=w), rtol=1e-9
    )


def grid(d, half=14.0, points=561):
    axis = np.linspace(-half, half, points)
    step = axis[1] - axis[0]
    if d == 1:
        return axis[:, None], step
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), step**2


@BOTH
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("metric", ["squared_euclidean", "mahalanobis"])
@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_density_integrates_to_one(kind, d, metric, verb):
    X, y = stream(2000)
    X = X[:, :d] - 2
    A = np.array([[2.0, 0.7], [0.7, 1.0]])[:d, :d]
    divergence = Mahalanobis(A) if metric == "mahalanobis" else metric
    est = getattr(make(kind, divergence=divergence, T_min=0.2, T_max=60.0), verb)(X, y)
    points, cell = grid(d)
    np.testing.assert_allclose(np.exp(est.score_samples(points)).sum() * cell, 1.0, rtol=1e-3)


def test_density_is_the_gibbs_mixture(blobs):
    X, _ = blobs
    est = make("clustering", n_clusters=3).fit(X)
    T = est.temperature_
    density = (est.weights_ * np.exp(-est.transform(X) / T)).sum(axis=1) / (np.pi * T)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.exp(est.score_samples(X)), density, rtol=1e-9, atol=1e-300)


def test_density_of_a_classifier_mixes_the_classes_by_their_priors(blobs):
    X, y = blobs
    est = make("classifier", priors=[0.2, 0.3, 0.5], **AS_ANNEALED).fit(X, y)
    T = est.temperature_
    weight = est.weights_ * np.array([0.2, 0.3, 0.5])[est.codevector_labels_]
    density = (weight * np.exp(-est.transform(X) / T)).sum(axis=1) / (np.pi * T)
    np.testing.assert_allclose(np.exp(est.score_samples(X)), density, rtol=1e-9, atol=1e-300)


# -- other levels ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("split", ["variance", "perturb"])
def test_at_gives_a_model_for_every_K(kind, split, blobs):
    X, y = blobs
    est = make(kind, split=split, K_max=20).fit(X, y)
    before = est.predict_proba(X)
    first, last = est.path_[0].n_codevectors, est.path_[-1].n_codevectors
    assert last > first + 5
    for K in range(first, last + 1):
        other = est.at(n_codevectors=K)
        assert len(other.codevectors_) == K == len(other.weights_)
        assert valid_model(other)
        np.testing.assert_allclose(other.predict_proba(X).sum(axis=1), 1.0)
        assert other.transform(X).shape == (len(X), K)
    for K in (first - 1, last + 1):
        with pytest.raises(ValueError, match=f"{first} to {last}"):
            est.at(n_codevectors=K)
    np.testing.assert_array_equal(est.predict_proba(X), before)


@BOTH
def test_at_gives_the_model_of_every_temperature(kind, blobs):
    X, y = blobs
    est = make(kind).fit(X, y)
    for level in est.path_:
        other = est.at(temperature=level.temperature)
        assert other.temperature_ == level.temperature
        np.testing.assert_array_equal(other.codevectors_, level.codevectors)
    assert est.at(temperature=1e12).temperature_ == est.path_[0].temperature
    assert est.at(temperature=1e-12).temperature_ == est.path_[-1].temperature


@pytest.mark.parametrize("given", [{}, {"n_clusters": 2, "temperature": 1.0}])
def test_at_of_a_clustering_names_all_it_can_be_given(given, blobs):
    est = make("clustering").fit(blobs[0])
    with pytest.raises(ValueError, match="one of temperature, n_codevectors and n_clusters"):
        est.at(**given)


def test_at_of_a_classifier_scores_what_the_path_says(blobs):
    X, y = blobs
    est = make("classifier").fit(X, y)
    for level in est.path_:
        assert est.at(temperature=level.temperature).score(X, y) == pytest.approx(level.score)


def test_at_wants_one_of_its_arguments(blobs):
    est = make("clustering").fit(blobs[0])
    for arguments in ({}, {"temperature": 1.0, "n_codevectors": 2}):
        with pytest.raises(ValueError, match="give one of temperature, n_codevectors and n_clus"):
            est.at(**arguments)
    with pytest.raises(ValueError, match="temperature"):
        est.at(temperature=-1.0)


def test_at_while_warming_up_says_so():
    est = make("clustering").partial_fit([[0.0, 1.0]])
    with pytest.raises(ValueError, match="warming up"):
        est.at(n_codevectors=1)


@BOTH
def test_a_model_taken_by_at_stays_what_it_is(kind, blobs):
    X, y = blobs
    est = make(kind).fit(X, y)
    taken = est.at(n_codevectors=4)
    before = taken.predict_proba(X)
    est.partial_fit(X[:50] + 3, y[:50])
    np.testing.assert_array_equal(taken.predict_proba(X), before)
    with pytest.raises(ValueError, match="cannot learn"):
        taken.partial_fit(X, y)
    assert same_model(taken.fit(X, y), make(kind).fit(X, y))


def test_at_on_a_polished_model_gives_the_annealed_one(blobs):
    X, _ = blobs
    est = ODAClustering(3, polish=True, random_state=0).fit(X)
    assert est.at(n_codevectors=3).temperature_ > 0
    assert np.isfinite(est.at(n_codevectors=3).score_samples(X)).all()


# -- nothing private ------------------------------------------------------------------------------


def sklearn_imports():
    """(file, dotted name) of everything the package takes from scikit-learn."""
    for file in sorted(Path(annealed.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            yield from ((file.name, name) for name in names if name.split(".")[0] == "sklearn")


def test_nothing_private_of_scikit_learn_is_imported():
    imports = list(sklearn_imports())
    assert imports
    private = [
        (file, name) for file, name in imports if any(p.startswith("_") for p in name.split("."))
    ]
    assert not private


# -- callbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clustering", "classifier"])
def test_callbacks_are_handed_every_level_as_it_finishes(kind):
    X, y = stream()
    heard = []
    est = make(kind).set_params(callbacks=[heard.append, lambda level: None])
    est.fit(X, y)
    assert [level.temperature for level in heard] == est.path_.temperatures.tolist()
    heard.clear()
    streamed = make(kind).set_params(callbacks=[heard.append])
    for part in np.array_split(np.arange(len(X)), 7):
        streamed.partial_fit(X[part], y[part])
    # In a stream a class may come late and put levels above those that were heard.
    assert [level.temperature for level in heard] == [
        T for T in streamed.path_.temperatures if T <= heard[0].temperature
    ]
    with pytest.raises(ValueError, match="callbacks"):
        make(kind).set_params(callbacks=print).fit(X, y)


@BOTH
def test_listening_does_not_change_the_path(kind):
    X, y = stream(600)
    silent, heard = make(kind).fit(X, y), make(kind, callbacks=[lambda level: None]).fit(X, y)
    assert [level.distortion for level in heard.path_] == [
        level.distortion for level in silent.path_
    ]
