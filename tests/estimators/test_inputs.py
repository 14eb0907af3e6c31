"""What may be fed to the estimators, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import contextlib
import pickle
import re
import signal
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from predicates import same_model, valid_model
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from annealed import DeterministicAnnealing, Mahalanobis, ODAClassifier, ODAClustering
from annealed.kernels import CompiledKernel

BOTH = pytest.mark.parametrize("kind", ["clustering", "classifier"])
VERBS = pytest.mark.parametrize("verb", ["fit", "partial_fit"])


def make(kind, **params):
    """A quick estimator of either kind."""
    if kind == "classifier":
        return ODAClassifier(**{"random_state": 0, "K_max": 8, "gamma": 0.6} | params)
    return ODAClustering(
        **{"n_clusters": None, "random_state": 0, "K_max": 20, "gamma": 0.8} | params
    )


def learn(est, verb, X, y=None, **options):
    """Call ``fit`` or ``partial_fit`` with labels where the estimator wants them."""
    if isinstance(est, ODAClassifier):
        y = np.arange(np.shape(X)[0]) % 2 if y is None else y
        return getattr(est, verb)(X, y, **options)
    return getattr(est, verb)(X, **options)


def refuses(est, call, match, error=ValueError):
    """The call raises that error and leaves the estimator exactly as it was."""
    before = pickle.dumps(est.__dict__)
    with pytest.raises(error, match=match):
        call(est)
    assert pickle.dumps(est.__dict__) == before, "the estimator has changed"


PLANE = np.random.default_rng(1).normal(size=(120, 2))


@pytest.fixture
def plane():
    return PLANE.copy()


@cache
def fitted_on_plane(kind):
    """A model for tests that show that nothing changes it."""
    return learn(make(kind), "fit", PLANE)


@cache
def of_float64(kind, verb, X, y):
    """The model of those rows, in the ordinary layout; of bytes, which can be remembered."""
    X, y = np.frombuffer(X).reshape(-1, 2), np.frombuffer(y, dtype=int)
    return learn(make(kind), verb, X, y)


# -- these work ---------------------------------------------------------------------------------


@BOTH
@VERBS
def test_one_feature_works(kind, verb):
    X = np.random.default_rng(0).normal(size=(300, 1))
    est = learn(make(kind), verb, X)
    assert est.predict(X).shape == (300,)
    assert valid_model(est)


@BOTH
@VERBS
@pytest.mark.parametrize("value", [0.0, -3.5, 1e6])
def test_constant_column_works(kind, verb, value):
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:, 1] = value
    est = learn(make(kind), verb, X)
    np.testing.assert_allclose(est.codevectors_[:, 1], value, rtol=1e-9, atol=1e-30)
    assert valid_model(est)


@VERBS
def test_one_class_works(verb, plane):
    est = learn(make("classifier"), verb, plane, np.full(len(plane), "only"))
    assert set(est.predict(plane)) == {"only"}
    np.testing.assert_allclose(est.predict_proba(plane), 1.0)
    assert valid_model(est)


@BOTH
def test_first_partial_fit_of_one_row_works(kind):
    x = np.array([[1.0, 2.0]])
    est = learn(make(kind), "partial_fit", x)
    np.testing.assert_allclose(est.codevectors_, x)
    assert est.predict(x).shape == (1,)
    np.testing.assert_allclose(est.predict_proba(x).sum(axis=1), 1.0)


@BOTH
def test_fit_of_one_row_works(kind):
    x = np.array([[1.0, 2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        est = learn(make(kind), "fit", x)
    np.testing.assert_allclose(est.codevectors_, x)
    np.testing.assert_allclose(est.transform(x), 0.0)


@pytest.mark.parametrize("n_clusters", ["auto", None, 3])
def test_identical_rows_give_one_cluster_and_a_warning(n_clusters):
    X = np.tile([1.0, 2.0], (200, 1))
    with pytest.warns(ConvergenceWarning):
        est = ODAClustering(n_clusters, random_state=0).fit(X)
    assert est.n_clusters_ == 1
    np.testing.assert_allclose(est.cluster_centers_, [[1.0, 2.0]])
    np.testing.assert_array_equal(est.labels_, 0)


@pytest.mark.parametrize("value", [1e-3, 0.1, 1 / 3, 1e8 + 0.1, 1e60])
def test_identical_rows_are_recognised_whatever_their_value(value):
    X = np.full((999, 3), value)
    with pytest.warns(ConvergenceWarning):
        est = ODAClustering(random_state=0).fit(X)
    assert est.n_clusters_ == 1
    np.testing.assert_allclose(est.cluster_centers_, [[value] * 3])


def test_identical_rows_in_a_stream_give_one_codevector():
    X = np.tile([1.0, 2.0], (500, 1))
    est = make("clustering").partial_fit(X).partial_fit(X)
    assert est.n_clusters_ == 1
    np.testing.assert_array_equal(est.predict(X), 0)


@VERBS
def test_class_of_identical_rows_does_not_disturb_the_others(verb):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), np.full((300, 2), 10.0)])
    y = np.repeat(["spread", "point"], 300)
    order = rng.permutation(600)
    X, y = X[order], y[order]
    est = learn(make("classifier", fine_tune=None), verb, X, y)
    assert est.score(X, y) == 1.0
    np.testing.assert_allclose(est.codevectors_[est.codevector_labels_ == "point"], 10.0)


@pytest.mark.parametrize("n_clusters", [None, 3, "auto"])
def test_rows_of_weight_zero_are_as_if_left_out(n_clusters, blobs):
    X, _ = blobs
    w = np.ones(len(X))
    w[::3] = 0
    X = X.copy()
    X[::3] += 100
    skipped = ODAClustering(n_clusters, random_state=0, K_max=15).fit(X, sample_weight=w)
    without = ODAClustering(n_clusters, random_state=0, K_max=15).fit(X[w > 0])
    assert same_model(skipped, without)
    if n_clusters == "auto":
        assert skipped.n_clusters_margin_ == without.n_clusters_margin_


@BOTH
def test_rows_of_weight_zero_are_skipped_in_a_stream(kind, blobs):
    X, y = blobs
    w = np.ones(len(X))
    w[::3] = 0
    skipped = learn(make(kind), "partial_fit", X, y, sample_weight=w)
    without = learn(make(kind), "partial_fit", X[w > 0], y[w > 0])
    assert same_model(skipped, without)


@BOTH
def test_rows_of_weight_zero_are_skipped_in_fit_of_either_estimator(kind, blobs):
    X, y = blobs
    w = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    skipped = learn(make(kind), "fit", X, y, sample_weight=w)
    without = learn(make(kind), "fit", X[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert same_model(skipped, without)


@BOTH
def test_integers_booleans_and_lists_are_read_as_numbers(kind):
    counts = np.random.default_rng(0).integers(0, 2, (200, 3))
    floats = learn(make(kind), "fit", counts.astype(float))
    for X in (counts, counts.astype(np.uint8), counts.astype(bool), counts.tolist()):
        assert same_model(learn(make(kind), "fit", X), floats)


@BOTH
def test_huge_and_tiny_scales_work(kind, blobs):
    X, y = blobs
    for scale in (1e-60, 1e60):  # the fourth moment of a projection is still a number
        est = learn(make(kind), "fit", X * scale, y)
        assert valid_model(est)
        assert len(est.path_[-1].codevectors) > 3


@BOTH
@VERBS
@pytest.mark.parametrize("scale, words", [(1e150, "overflow"), (1e-200, "Multiply the data")])
def test_scales_that_powers_cannot_hold_are_refused(kind, verb, scale, words, blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=words):
        learn(make(kind), verb, np.tile(X.astype(float) * scale, (4, 1)), np.tile(y, 4))


@BOTH
def test_a_huge_sample_is_refused_and_changes_nothing(kind, blobs):
    est = learn(make(kind), "partial_fit", *blobs)
    x = np.full(est.n_features_in_, 1e200)
    before = pickle.dumps(est)
    for call in (lambda: est.predict(x[None]), lambda: est.learn_one(x, 0)):
        with pytest.raises(ValueError, match="1e\\+200"):
            call()
    assert pickle.dumps(est) == before


def test_rows_that_differ_by_rounding_alone_are_one_cluster():
    rows = np.random.default_rng(0).random((300, 1)) * np.full((1, 6), 1 / 6)
    rows /= rows.sum(axis=1, keepdims=True)
    assert np.ptp(rows, axis=0).max() > 0
    with pytest.warns(ConvergenceWarning, match="identical"):
        model = ODAClustering(divergence="kullback_leibler", random_state=0).fit(rows)
    assert model.n_clusters_ == 1


def test_rows_on_a_line_in_many_dimensions_raise_no_warning():
    line = np.random.default_rng(0).random((300, 1)) * np.ones((1, 6)) / 6
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        ODAClustering(random_state=0).fit(line)


def test_a_given_number_of_clusters_raises_K_max():
    X = np.random.default_rng(0).normal(size=(900, 2))
    model = ODAClustering(120, K_max=100, samples_per_codevector=5, random_state=0).fit(X)
    assert model.n_clusters_ == 120 and len(set(model.labels_.tolist())) <= 120
    assert DeterministicAnnealing(8, K_max=4).fit(X[:200]).n_clusters_ == 8


# -- inputs are read, never written ---------------------------------------------------------------

LAYOUTS = {
    "float32": lambda X: X,
    "read-only": lambda X: _read_only(X),
    "fortran": np.asfortranarray,
    "strided rows": lambda X: np.repeat(X, 2, axis=0)[::2],
    "strided columns": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "negative strides": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "float64 copy": lambda X: X.astype(np.float64),
    "float64 fortran": lambda X: np.asfortranarray(X.astype(np.float64)),
    "big endian": lambda X: X.astype(">f8"),
    "memoryview": lambda X: memoryview(X),
}


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@BOTH
@VERBS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_and_precision_of_rows_do_not_change_the_model(kind, verb, layout, blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    expected = of_float64(kind, verb, X.astype(np.float64).tobytes(), y.tobytes())
    rows = LAYOUTS[layout](X)
    est = learn(make(kind), verb, rows, y)
    assert same_model(est, expected)
    np.testing.assert_array_equal(est.predict(rows), expected.predict(X.astype(np.float64)))
    np.testing.assert_array_equal(
        est.predict_proba(rows), expected.predict_proba(X.astype(np.float64))
    )
    assert est.codevectors_.dtype == np.float64


@BOTH
@pytest.mark.parametrize("divergence", ["squared_euclidean", "i_divergence", "mahalanobis"])
def test_inputs_are_never_modified(kind, divergence, blobs):
    X, y, w = np.abs(blobs[0]), blobs[1].copy(), np.arange(240) % 3 + 0.5
    kept = X.copy(), y.copy(), w.copy()
    for array in (X, y, w):
        array.flags.writeable = False
    if divergence == "mahalanobis":
        divergence = Mahalanobis([[2.0, 0.5], [0.5, 1.0]])
    est = make(kind, divergence=divergence)
    learn(est, "fit", X, y, sample_weight=w)
    learn(est, "partial_fit", X, y, sample_weight=w)
    for method in (est.predict, est.predict_proba, est.transform, est.score_samples):
        method(X)
    for array, copy in zip((X, y, w), kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_what_the_model_shows_cannot_be_used_to_change_it(blobs):
    X, _ = blobs
    est = make("clustering").fit(X)
    before = est.predict_proba(X)
    for array in (est.codevectors_, est.weights_, est.path_[-1].codevectors, est.cluster_centers_):
        with contextlib.suppress(ValueError):  # read-only is as good as a copy
            array[:] = 0
    np.testing.assert_array_equal(est.predict_proba(X), before)


# -- these are refused, and nothing has changed ---------------------------------------------------


def bad_rows():
    """Name, rows, what the message must name, error."""
    X = np.random.default_rng(1).normal(size=(60, 2))
    nan, inf, minus = X.copy(), X.copy(), X.copy()
    nan[3, 1], inf[4, 0], minus[5, 1] = np.nan, np.inf, -np.inf
    text = X.astype(object)
    text[0, 0] = "word"
    missing = X.astype(object)
    missing[2, 1] = None
    things = X.astype(object)
    things[0, 0] = {"a": 1}
    return {
        "nan": (nan, "NaN", ValueError),
        "infinity": (inf, "infinity", ValueError),
        "minus infinity": (minus, "infinity", ValueError),
        "nan in float32": (nan.astype(np.float32), "NaN", ValueError),
        "no rows": (X[:0], "0 sample", ValueError),
        "no columns": (X[:, :0], "0 feature", ValueError),
        "one dimension": (X[:, 0], "2D", ValueError),
        "three dimensions": (X[:, :, None], "dim 3|3", ValueError),
        "complex": (X + 1j, "[Cc]omplex", ValueError),
        "words": (text, "word", ValueError),
        "None": (missing, "NaN|None", (ValueError, TypeError)),
        "other objects": (things, "dict|number", TypeError),
        "nan in sparse rows": (sparse.csr_matrix(nan), "NaN", ValueError),
        "infinity in sparse rows": (sparse.csc_array(inf), "infinity", ValueError),
    }


@BOTH
@VERBS
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("name", bad_rows())
def test_bad_rows_are_refused_and_change_nothing(kind, verb, fitted, name, plane):
    X, message, error = bad_rows()[name]
    est = make(kind)
    if fitted:
        learn(est, verb, plane)
    refuses(est, lambda e: learn(e, verb, X), message, error)


@BOTH
@pytest.mark.parametrize("name", bad_rows())
@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "score_samples"])
def test_bad_rows_are_refused_by_every_reading_method(kind, method, name):
    X, message, error = bad_rows()[name]
    refuses(fitted_on_plane(kind), lambda e: getattr(e, method)(X), message, error)


@BOTH
@VERBS
@pytest.mark.parametrize(
    "weights, message",
    [
        ([-1.0], "negative"),
        ([np.nan], "NaN"),
        ([np.inf], "infinity"),
        (0.0, "zero"),
        ("short", "shape|sample_weight"),
        ("matrix", "sample_weight|1D"),
    ],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_weights_are_refused_and_change_nothing(kind, verb, weights, message, fitted, plane):
    w = np.ones(len(plane))
    if isinstance(weights, list):
        w[7] = weights[0]
    elif weights == 0.0:
        w[:] = 0
    else:
        w = w[:-1] if weights == "short" else np.ones((len(plane), 2))
    est = make(kind)
    if fitted:
        learn(est, verb, plane)
    if fitted and verb == "partial_fit" and not w.any():
        return  # the next test
    refuses(est, lambda e: learn(e, verb, plane, sample_weight=w), message)


@BOTH
def test_a_piece_of_a_stream_may_have_no_weight_at_all(kind, plane):
    est = learn(make(kind), "partial_fit", plane)
    before = est.predict_proba(plane)
    learn(est, "partial_fit", plane, sample_weight=np.zeros(len(plane)))
    np.testing.assert_array_equal(est.predict_proba(plane), before)


@pytest.mark.parametrize("weights", ["negative", "zero"])
def test_bad_weights_are_refused_by_score(weights, plane):
    y = np.arange(len(plane)) % 2
    est = make("clustering").fit(plane)
    w = np.zeros(len(plane)) if weights == "zero" else np.linspace(-1, 1, len(plane))
    refuses(est, lambda e: e.score(plane, y, sample_weight=w), "zero|negative")


PARAMETERS = [
    ({"gamma": 0.0}, "gamma"),
    ({"gamma": 1.0}, "gamma"),
    ({"gamma": -0.5}, "gamma"),
    ({"gamma": 1.5}, "gamma"),
    ({"gamma": np.nan}, "gamma"),
    ({"gamma": "0.9"}, "gamma"),
    ({"gamma": True}, "gamma"),
    ({"T_min": 2.0, "T_max": 1.0}, "T_min.*T_max"),
    ({"T_min": 1e6}, "T_min.*T_max"),
    ({"T_max": 0.0}, "T_max"),
    ({"T_max": -1.0}, "T_max"),
    ({"T_max": np.inf}, "T_max"),
    ({"T_min": -1.0}, "T_min"),
    ({"T_max": "hot"}, "T_max"),
    ({"K_max": 0}, "K_max"),
    ({"K_max": 2.5}, "K_max"),
    ({"split": "sideways"}, "split"),
    ({"samples_per_codevector": -1}, "samples_per_codevector"),
    ({"patience": 0}, "patience"),
    ({"epsilon_c": -1.0}, "epsilon_c"),
    ({"epsilon_n": -1.0}, "epsilon_n"),
    ({"epsilon_r": 1.0}, "epsilon_r"),
    ({"delta": 0.0}, "delta"),
    ({"alpha": 0.5}, "alpha"),
    ({"alpha": (0.5, 0.9)}, "alpha"),
    ({"alpha": (1.0, 0.0)}, "alpha"),
    ({"alpha_min": 1.0}, "alpha_min"),
    ({"thresholds": "magic"}, "thresholds"),
    ({"divergence": "cosine"}, "cosine"),
    ({"divergence": 3}, "3"),
    ({"random_state": "seed"}, "seed"),
]
CLUSTERING = [
    ({"n_clusters": 0}, "n_clusters"),
    ({"n_clusters": -1}, "n_clusters"),
    ({"n_clusters": 2.5}, "n_clusters"),
    ({"n_clusters": "many"}, "n_clusters"),
    ({"n_clusters": True}, "n_clusters"),
    ({"polish": "yes"}, "polish"),
]
CLASSIFIER = [
    ({"level": "first"}, "level"),
    ({"fine_tune": "magic"}, "fine_tune"),
    ({"scoring": "magic"}, "scoring"),
    ({"scoring": 3}, "scoring"),
    ({"priors": [1.0]}, "priors"),
    ({"priors": [0.5, -0.5]}, "priors"),
    ({"priors": [0.0, 0.0]}, "priors"),
    ({"priors": [np.nan, 1.0]}, "priors"),
    ({"priors": {0: 0.3, 1: 0.7}}, "class_weight"),
    ({"class_weight": "heavy"}, "class_weight"),
    ({"class_weight": {7: 1.0}}, "class_weight"),
    ({"class_weight": {0: -1.0}}, "class_weight"),
    ({"class_weight": {0: np.inf}}, "class_weight"),
    ({"K_max": 1}, "K_max"),
]
ALL_PARAMETERS = [("clustering", *case) for case in PARAMETERS + CLUSTERING] + [
    ("classifier", *case) for case in PARAMETERS + CLASSIFIER
]


@VERBS
@pytest.mark.parametrize("kind, params, message", ALL_PARAMETERS, ids=str)
def test_bad_parameters_are_refused_by_name_and_change_nothing(verb, kind, params, message, plane):
    if verb == "partial_fit" and params == {"T_min": 1e6}:
        plane = np.tile(plane, (3, 1))  # past the warm-up, where T_max is known
    refuses(make(kind, **params), lambda e: learn(e, verb, plane), f"(?s){message}")


@BOTH
@VERBS
def test_bad_parameter_set_after_fitting_leaves_the_model_as_it_was(kind, verb, plane):
    est = learn(make(kind), verb, plane).set_params(gamma=2.0)
    refuses(est, lambda e: learn(e, verb, plane), "gamma")


def test_unknown_divergence_lists_the_known_ones(plane):
    with pytest.raises(ValueError, match="unknown divergence") as caught:
        ODAClustering(divergence="cosine").fit(plane)
    for name in (
        "squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito", "logistic",
        "Mahalanobis", "BregmanDivergence",
    ):  # fmt: skip
        assert name in str(caught.value)


def test_more_clusters_than_rows_are_refused(plane):
    refuses(
        make("clustering", n_clusters=7), lambda e: e.fit(plane[:5]), "n_samples=5.*n_clusters=7"
    )


def test_more_clusters_than_rows_with_weight_are_refused(plane):
    w = np.zeros(len(plane))
    w[:5] = 1
    refuses(
        make("clustering", n_clusters=7), lambda e: e.fit(plane, sample_weight=w), "n_clusters=7"
    )


@VERBS
def test_K_max_below_the_number_of_classes_is_refused(verb, plane):
    y = np.arange(len(plane)) % 5
    refuses(make("classifier", K_max=4), lambda e: learn(e, verb, plane, y), "K_max=4.*5 classes")


def test_a_class_too_many_in_a_stream_is_refused(plane):
    y = np.arange(len(plane)) % 3
    est = make("classifier", K_max=3).partial_fit(plane, y)
    refuses(est, lambda e: e.partial_fit(plane[:1], [3]), "K_max=3.*4 classes")
    refuses(
        est, lambda e: e.partial_fit(plane[:1], [0], classes=[0, 1, 2, 3]), "K_max=3.*4 classes"
    )


@VERBS
@pytest.mark.parametrize(
    "y, message",
    [
        (np.linspace(0, 1, 120), "[Uu]nknown label type|continuous"),
        (np.full(120, np.nan), "NaN"),
        (np.zeros(119), "119"),
        (np.zeros((120, 2), dtype=int), "1d|multi|shape"),
        (None, "y"),
    ],
    ids=["continuous", "nan", "too short", "matrix", "missing"],
)
def test_bad_labels_are_refused_and_change_nothing(verb, y, message, plane):
    refuses(make("classifier"), lambda e: getattr(e, verb)(plane, y), message)
    est = learn(make("classifier"), verb, plane)
    refuses(est, lambda e: getattr(e, verb)(plane, y), message)


def test_labels_of_another_kind_are_refused_in_a_stream(plane):
    est = make("classifier").partial_fit(plane, np.arange(120) % 2)
    refuses(est, lambda e: e.partial_fit(plane, np.full(120, "a")), "label|type")


OUT_OF_DOMAIN = [
    ("i_divergence", -1.0, "squared_euclidean"),
    ("kullback_leibler", -0.1, "squared_euclidean"),
    ("itakura_saito", 0.0, "i_divergence"),
    ("itakura_saito", -2.0, "i_divergence"),
    ("logistic", -0.25, r"\[0, 1\]"),
    ("logistic", 1.5, r"\[0, 1\]"),
]


@BOTH
@VERBS
@pytest.mark.parametrize("divergence, value, fix", OUT_OF_DOMAIN)
def test_value_outside_the_domain_is_refused_naming_column_and_fix(
    kind, verb, divergence, value, fix
):
    rng = np.random.default_rng(0)
    good = rng.dirichlet(np.ones(3) * 4, 150)
    bad = good.copy()
    bad[17, 1] = value
    if divergence == "kullback_leibler":
        bad[17, 2] = 1 - bad[17, :2].sum()
    message = f"(?s)column 1.*{re.escape(f'{value:g}')}.*{divergence}.*{fix}"
    refuses(make(kind, divergence=divergence), lambda e: learn(e, verb, bad), message)
    est = learn(make(kind, divergence=divergence), verb, good)
    refuses(est, lambda e: learn(e, verb, bad), message)
    refuses(est, lambda e: e.predict(bad), message)


def test_value_outside_the_domain_names_the_feature():
    frame = pd.DataFrame({"length": [1.0, 2.0, 3.0], "balance": [1.0, -2.0, 3.0]})
    with pytest.raises(ValueError, match=r"'balance'.*-2"):
        ODAClustering(divergence="i_divergence").fit(frame)
    est = make("clustering", divergence="i_divergence").fit(frame.abs())
    with pytest.raises(ValueError, match=r"'balance'.*-2"):
        est.predict(frame)


def test_rows_off_the_simplex_are_refused_naming_row_and_fix():
    X = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    X[4] *= 2
    refuses(
        make("clustering", divergence="kullback_leibler"), lambda e: e.fit(X), "row 4.*2.*Divide"
    )


@BOTH
def test_failed_refit_on_other_features_leaves_the_old_model_usable(kind, plane):
    est = learn(make(kind), "fit", plane)
    before = est.predict_proba(plane)
    wider = np.column_stack([plane, plane])
    with pytest.raises(ValueError, match="zero"):
        learn(est, "fit", wider, sample_weight=np.zeros(len(plane)))
    assert est.n_features_in_ == 2
    np.testing.assert_array_equal(est.predict_proba(plane), before)


@BOTH
def test_failed_first_fit_leaves_the_estimator_unfitted(kind, plane):
    est = make(kind, divergence="i_divergence")
    for verb in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="column"):
            learn(est, verb, pd.DataFrame(plane, columns=["a", "b"]))
        assert not hasattr(est, "n_features_in_")
        assert not hasattr(est, "feature_names_in_")


METHODS = ["partial_fit", "predict", "predict_proba", "transform", "score_samples"]


def read_or_learn(est, method, X):
    return learn(est, method, X) if method == "partial_fit" else getattr(est, method)(X)


@BOTH
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_wrong_number_of_features_is_refused(kind, columns, method, plane):
    est = learn(make(kind), "partial_fit", plane)
    X = np.ones((5, columns))
    refuses(est, lambda e: read_or_learn(e, method, X), f"{columns} features.*2 features")


@BOTH
@pytest.mark.parametrize("columns", [["b", "a"], ["a", "c"]])
@pytest.mark.parametrize("method", METHODS)
def test_features_in_another_order_or_by_another_name_are_refused(kind, columns, method, plane):
    est = learn(make(kind), "partial_fit", pd.DataFrame(plane, columns=["a", "b"]))
    X = pd.DataFrame(plane, columns=columns)
    refuses(est, lambda e: read_or_learn(e, method, X), "feature names")


@BOTH
def test_wrong_size_of_a_mahalanobis_matrix_is_refused(kind, plane):
    est = make(kind, divergence=Mahalanobis(np.eye(3)))
    refuses(est, lambda e: learn(e, "fit", plane), "3 x 3.*2 features")


# -- nothing loops for ever -----------------------------------------------------------------------


def endless(kind, **params):
    """A step is never small enough, so every level runs to its cap."""
    return make(kind, epsilon_c=1e-300, samples_per_codevector=1, K_max=5, **params)


def convergence_warnings(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [w for w in caught if issubclass(w.category, ConvergenceWarning)]


@BOTH
def test_level_cap_ends_the_level_and_warns_once(kind, plane):
    caught = convergence_warnings(lambda: learn(endless(kind), "fit", plane))
    assert len(caught) == 1
    assert "not converged" in str(caught[0].message)


@pytest.mark.parametrize("params", [{"n_clusters": "auto"}, {"n_clusters": 2, "polish": True},
                                    {"n_clusters": "auto", "polish": True}], ids=str)  # fmt: skip
def test_level_cap_warns_once_also_with_surrogates_and_polish(params, blobs):
    caught = convergence_warnings(lambda: endless("clustering", **params).fit(blobs[0]))
    assert len(caught) == 1


@BOTH
def test_level_cap_warns_once_in_a_stream_of_many_calls(kind, plane):
    est = endless(kind)

    def stream():
        for _ in range(60):
            learn(est, "partial_fit", plane)

    assert len(convergence_warnings(stream)) == 1


def test_level_cap_warning_points_at_the_users_line(plane):
    caught = convergence_warnings(lambda: endless("clustering").fit(plane))
    assert caught[0].filename == __file__


def test_asking_for_more_clusters_than_distinct_rows_ends_and_warns():
    X = np.repeat(np.arange(4.0)[:, None], 25, axis=0)
    with pytest.warns(ConvergenceWarning, match="n_clusters=6"):
        est = ODAClustering(6, random_state=0).fit(X)
    assert est.n_clusters_ == 4


# -- Ctrl-C ---------------------------------------------------------------------------------------

ENDLESS = {"samples_per_codevector": 10**9, "random_state": 0}
LONG = [
    (ODAClustering(None, **ENDLESS), 2),
    (ODAClustering(3, split="perturb", **ENDLESS), 50),
    (ODAClustering(None, divergence="itakura_saito", **ENDLESS), 3),
    (ODAClassifier(**ENDLESS), 3),
    (ODAClustering(None, divergence="i_divergence", **ENDLESS), 200),
]


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("est, d", LONG)
def test_interrupt_stops_a_long_fit_and_leaves_the_estimator_as_it_was(est, d, fitted, monkeypatch):
    """Python hears a signal between two calls of the kernel, none of which does much."""
    X = np.abs(np.random.default_rng(0).normal(size=(2000, d)))
    est = clone(est)
    if fitted:
        learn(est.set_params(samples_per_codevector=10), "fit", X[:300])
        est.set_params(**ENDLESS)
    work = []

    def interrupted(kernel, runs, rows, order, classes, weights, begin, end, roles=None):
        stop = learn_rows(kernel, runs, rows, order, classes, weights, begin, end, roles)
        work.append((stop - begin) * rows.shape[1] * 9)  # one codevector, and eight for the rest
        if len(work) == 20:
            signal.raise_signal(signal.SIGINT)
        return stop

    learn_rows = CompiledKernel.learn
    monkeypatch.setattr(CompiledKernel, "learn", interrupted)
    monkeypatch.setattr(
        "annealed.kernels.choice.WORK_PER_CALL", 20_000
    )  # less than one round of rows
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = pickle.dumps(est.__dict__)
    try:
        # Other threads would finish the calls they are in.
        with pytest.raises(KeyboardInterrupt), threadpool_limits(1):
            learn(est, "fit", np.column_stack([X, X[:, :1]]))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(work) == 20, "the fit went on"
    assert max(work[2:]) <= 20_000  # the first show each class 20,000 rows at most: its variances
    assert pickle.dumps(est.__dict__) == before, "the estimator has changed"
