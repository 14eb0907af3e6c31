"""learn_one and predict_one: the same model as partial_fit, whatever form samples come in."""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicates import same_model
from thoroughness import examples, tries

from annealed import Mahalanobis, ODAClassifier, ODAClustering

pytestmark = pytest.mark.quality
NAMES = ["a", "b", "c"]
ROWS = tries(1500, 3000)


def stream(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.gamma(2.0, size=(n, 3)) + 4.0 * np.eye(3)[y]
    return X, np.array(["x", "y", "z"])[y]


def learn_one_by_one(model, X, y, form="dict", shuffle=None):
    for k, (row, label) in enumerate(zip(X, y.tolist(), strict=True)):
        sample = row
        if form == "dict":
            order = range(3) if shuffle is None or k == 0 else shuffle.permutation(3)
            sample = {NAMES[j]: row[j] for j in order}
        elif form == "list":
            sample = row.tolist()
        model.learn_one(sample, label)
    return model


MODELS = {
    "clustering": lambda: ODAClustering(random_state=0, gamma=0.8),
    "coldest": lambda: ODAClustering(None, K_max=12, gamma=0.8),
    "counts": lambda: ODAClustering(4, divergence="i_divergence", gamma=0.8),
    "Mahalanobis": lambda: ODAClustering(
        4, shape="round", divergence=Mahalanobis(np.diag([1.0, 2.0, 3.0]))
    ),
    "classifier": lambda: ODAClassifier(random_state=0, gamma=0.8),
    "plain": lambda: ODAClassifier(fine_tune=None, level="last", gamma=0.8),
    "lvq": lambda: ODAClassifier(fine_tune="lvq", gamma=0.8),
    "balanced": lambda: ODAClassifier(class_weight="balanced", gamma=0.8),
    "watched": lambda: ODAClassifier(drift_detector="auto", gamma=0.8),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_at_a_time_is_partial_fit_to_the_last_bit(name):
    X, y = stream()
    rows = MODELS[name]().partial_fit(X, y)
    one = learn_one_by_one(MODELS[name](), X, y, "dict", np.random.default_rng(0))
    assert same_model(rows, one)
    np.testing.assert_array_equal(rows.predict(X[:200]), one.predict(X[:200]))
    np.testing.assert_allclose(
        [list(one.predict_proba_one(dict(zip(NAMES, x, strict=True))).values()) for x in X[:50]],
        one.predict_proba(X[:50])[:, _order(one)],
        rtol=1e-9,
        atol=1e-12,
    )


def _order(model):
    if not hasattr(model, "classes_"):
        return slice(None)
    return np.searchsorted(model.classes_, list(model.predict_proba_one([1, 1, 1])))


def test_levels_that_answer_themselves_are_learnt_in_one_go():
    """A level that won as it was annealed, with somebody listening for drift."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 4, 5000)
    y = np.array(["x", "y"])[place % 2]  # no class is where its mean is
    X = rng.normal(size=(5000, 2)) + 4.0 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[place]
    one, rows = (
        ODAClassifier(fine_tune=None, gamma=0.7, K_max=12, recent_samples=0) for _ in range(2)
    )
    learn_one_by_one(one, X[:4000], y[:4000], "array")
    assert same_model(one, rows.partial_fit(X[:4000], y[:4000]))
    tuner = one._learner.tuner
    assert not tuner.racing and not tuner.speakers  # nobody but the levels
    assert one._fast_path.run is not None and one._learner.watch.model is None
    np.testing.assert_array_equal([one.predict_one(x) for x in X[:200]], rows.predict(X[:200]))
    # A race that begins without a leader.
    for model in (one, rows):
        model.reheat()
    rows.partial_fit(X[4000:], y[4000:])
    for k in range(4000, 5000):
        one.learn_one(X[k], y[k])
        if k == 4005:
            race = one._learner.tuner.race
            assert race.leader is None and one._fast_path.run is not None
    assert same_model(one, rows)


@pytest.mark.parametrize("form", ["array", "list"])
def test_arrays_and_lists_are_samples_too(form):
    X, y = stream(600)
    model = learn_one_by_one(MODELS["classifier"](), X, y, form)
    assert same_model(model, MODELS["classifier"]().partial_fit(X, y))
    assert not hasattr(model, "feature_names_in_")


@examples(10)
@given(st.lists(st.tuples(st.integers(1, 150), st.booleans()), min_size=1, max_size=8))
def test_both_ways_of_learning_can_be_mixed(pieces):
    X, y = stream(1200)
    model, at = MODELS["classifier"](), 0
    for size, rows in pieces:
        part = slice(at, min(at + size, len(X)))
        if rows:
            model.partial_fit(X[part], y[part])
        else:
            learn_one_by_one(model, X[part], y[part], "array")
        at = part.stop
        if model.__sklearn_is_fitted__():
            model.predict_one(X[0])
    assert same_model(model, MODELS["classifier"]().partial_fit(X[:at], y[:at]))


def test_before_the_first_sample_there_is_no_answer():
    assert ODAClassifier().predict_one({"a": 1.0}) is None
    assert ODAClassifier().predict_proba_one({"a": 1.0}) == {}
    assert ODAClustering().predict_one([1.0]) is None
    assert ODAClustering().predict_proba_one([1.0]) == {}


@cache
def learnt_one_by_one(name):
    """A model for tests that show that nothing changes it."""
    return learn_one_by_one(MODELS[name](), *stream(600))


@pytest.mark.parametrize(
    "sample, words",
    [
        ({"a": 1.0, "b": 2.0}, "has no feature 'c'"),
        ({"a": 1.0, "b": 2.0, "c": 1.0, "d": 4.0}, "'d' that the model does not know"),
        ({"a": 1.0, "b": 2.0, "c": float("nan")}, "'c' of the sample is nan"),
        ({"a": 1.0, "b": 2.0, "c": float("inf")}, "'c' of the sample is inf"),
        ({"a": 1.0, "b": 2.0, "c": "much"}, "must be numbers"),
        ([1.0, 2.0], "2 features"),
        (5, "a dict or a list of numbers"),
        (None, "a dict or a list of numbers"),
        (np.ones((1, 3)), "one dimension"),
    ],
)
@pytest.mark.parametrize("name", ["clustering", "classifier"])
def test_a_sample_that_is_wrong_is_refused_and_changes_nothing(name, sample, words):
    model = learnt_one_by_one(name)
    before = pickle.dumps(model)
    for act in (lambda: model.learn_one(sample, "x"), lambda: model.predict_one(sample)):
        with pytest.raises(ValueError, match=words):
            act()
    assert pickle.dumps(model) == before


def test_weights_and_domains_are_checked_as_in_partial_fit():
    X, y = stream(500)
    model = learn_one_by_one(MODELS["counts"](), X, y)
    with pytest.raises(ValueError, match="i_divergence"):
        model.learn_one({"a": -1.0, "b": 1.0, "c": 1.0})
    model.learn_one({"a": 0.0, "b": 1.0, "c": 1.0})  # the edge belongs to the domain
    for w in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight w"):
            model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, w=w)
    before = pickle.dumps(model)
    model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, w=0.0)
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="class y"):
        ODAClassifier().learn_one([1.0, 2.0])


def test_weighted_samples_are_learnt_as_weighted_rows():
    X, y = stream(1500)
    w = np.random.default_rng(0).integers(0, 3, 1500).astype(float)
    one, rows = MODELS["classifier"](), MODELS["classifier"]()
    for sample, label, weight in zip(X, y.tolist(), w.tolist(), strict=True):
        one.learn_one(sample, label, w=weight)
    assert same_model(one, rows.partial_fit(X, y, sample_weight=w))


def test_copies_and_levels_stay_as_they_are_while_the_original_learns_on():
    X, y = stream(3000)
    model = learn_one_by_one(MODELS["classifier"](), X[:2500], y[:2500], "array")
    level, deep = model.at(n_codevectors=4), copy.deepcopy(model)
    before = level.predict_proba(X), deep.predict_proba(X)
    learn_one_by_one(model, X[2500:], y[2500:], "array")
    np.testing.assert_array_equal(level.predict_proba(X), before[0])
    np.testing.assert_array_equal(deep.predict_proba(X), before[1])
    learn_one_by_one(deep, X[2500:], y[2500:], "array")
    assert same_model(model, deep)
    with pytest.raises(ValueError, match="fixed at one level"):
        level.learn_one(X[0], "x")


def test_a_level_that_was_picked_answers_one_sample_as_it_answers_rows():
    X, y = stream(2000)
    level = ODAClassifier(random_state=0, gamma=0.8).fit(X, y).at(n_codevectors=3)
    one = [level.predict_proba_one(x) for x in X[:20]]
    np.testing.assert_allclose(
        [[each[label] for label in level.classes_] for each in one],
        level.predict_proba(X[:20]),
        rtol=1e-9,
    )
    assert [level.predict_one(x) for x in X[:20]] == level.predict(X[:20]).tolist()


def test_parameters_changed_on_the_way_are_noticed():
    X, y = stream(400)
    model = learn_one_by_one(MODELS["clustering"](), X, y)
    model.set_params(gamma=2.0)
    with pytest.raises(ValueError, match="gamma"):
        model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0})


def test_names_of_a_frame_are_the_keys():
    pd = pytest.importorskip("pandas")
    X, y = stream(900)
    frame = pd.DataFrame(X, columns=NAMES)
    model = MODELS["classifier"]().partial_fit(frame, y)
    model.learn_one({"c": 1.0, "a": 2.0, "b": 3.0}, "x")
    twin = MODELS["classifier"]().partial_fit(frame, y)
    twin.partial_fit(pd.DataFrame([[2.0, 3.0, 1.0]], columns=NAMES), ["x"])
    assert same_model(model, twin)


def test_a_class_that_cannot_be_one_changes_nothing():
    rng = np.random.default_rng(0)
    model = ODAClassifier(K_max=3, random_state=0)
    for k, x in enumerate(rng.normal(size=(300, 2))):
        model.learn_one(x, k % 3)
    before = model.predict_proba_one([0.1, 0.2])
    with pytest.raises(ValueError, match="K_max=3 is less than the 4 classes"):
        model.learn_one([0.1, 0.2], 3)
    with pytest.raises(ValueError, match="Mix of label"):
        model.learn_one([0.1, 0.2], "three")
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba_one([0.1, 0.2]) == before
    model.learn_one([0.1, 0.2], 1)
