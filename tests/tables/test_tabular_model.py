"""Preprocessing and an estimator as one model."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from thoroughness import examples

from annealed import LVQClassifier, ODAClassifier, ODAClustering, TablePreprocessor, TabularModel
from annealed.tables.targets import classes_in, names_in, take_out

QUICK = ODAClassifier(level="last", fine_tune=None, random_state=0)


def flowers(n=300, seed=0):
    """Records of two numbers and a text, with a kind that all three tell something about."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    length = np.array([10.0, 20.0, 20.0])[kind] + rng.normal(size=n)
    width = np.array([0.1, 0.1, 0.4])[kind] + 0.02 * rng.normal(size=n)
    colour = np.array(["red", "blue", "white"])[np.where(rng.random(n) < 0.9, kind, 0)]
    rows = [
        {"length": float(a), "width": None if k % 17 == 0 else float(b), "colour": str(c)}
        for k, (a, b, c) in enumerate(zip(length, width, colour, strict=True))
    ]
    return rows, np.array(["rose", "iris", "lily"])[kind]


ROWS, KINDS = flowers()
MODEL = TabularModel(QUICK).fit(ROWS, KINDS)


def test_it_is_the_preprocessing_followed_by_the_estimator():
    rows = TablePreprocessor().fit(ROWS).transform(ROWS)
    inner = clone(QUICK).fit(rows, KINDS)
    np.testing.assert_array_equal(MODEL.predict_proba(ROWS), inner.predict_proba(rows))
    np.testing.assert_array_equal(MODEL.transform(ROWS), inner.transform(rows))
    assert MODEL.score(ROWS, KINDS) == inner.score(rows, KINDS) > 0.95
    assert MODEL.path_.temperatures.tolist() == inner.path_.temperatures.tolist()
    assert MODEL.classes_.tolist() == ["iris", "lily", "rose"]


def test_codevectors_come_in_the_units_of_the_table():
    names = MODEL.feature_names_out_.tolist()
    assert names == ["length", "width", "colour=blue", "colour=red", "colour=white"]
    roses = MODEL.codevectors_[MODEL.codevector_labels_ == "rose"]
    assert (abs(roses[:, 0] - 10) < 4).all()
    shares = MODEL.codevectors_[:, 2:]
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-9)


def test_one_record_is_answered_as_a_table_of_one():
    for row, label, shares in zip(
        ROWS[:20], MODEL.predict(ROWS[:20]), MODEL.predict_proba(ROWS[:20]), strict=True
    ):
        backwards = dict(reversed(row.items()))
        assert MODEL.predict_one(backwards) == label
        found = MODEL.predict_proba_one(backwards)
        assert found == pytest.approx(dict(zip(MODEL.classes_, shares, strict=True)), abs=1e-12)


def test_the_target_can_be_named():
    rows = [row | {"kind": str(kind)} for row, kind in zip(ROWS, KINDS, strict=True)]
    named = TabularModel(QUICK).fit(rows, "kind")
    assert named.target_name_ == "kind"
    np.testing.assert_array_equal(named.predict_proba(rows), MODEL.predict_proba(ROWS))
    np.testing.assert_array_equal(named.predict_proba(ROWS), MODEL.predict_proba(ROWS))
    assert named.score(rows, "kind") == MODEL.score(ROWS, KINDS)
    assert named.predict_one(rows[0]) == MODEL.predict_one(ROWS[0])
    with pytest.raises(ValueError, match="row 1, column 'kind': the target is missing"):
        TabularModel(QUICK).fit([rows[0], rows[1] | {"kind": None}], "kind")
    with pytest.raises(ValueError, match="no column 'sort'; the columns are 'length', 'width'"):
        TabularModel(QUICK).fit(rows, "sort")
    with pytest.raises(ValueError, match="the columns of X have no names"):
        TabularModel(QUICK).fit(np.zeros((3, 2)), "kind")


def test_every_make_of_table_gives_the_same_model():
    pd = pytest.importorskip("pandas", exc_type=ImportError)
    pl = pytest.importorskip("polars", exc_type=ImportError)
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    rows = [row | {"kind": str(kind)} for row, kind in zip(ROWS, KINDS, strict=True)]
    for make in (pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        table = make(rows)
        assert names_in(table) == ["length", "width", "colour", "kind"]
        model = TabularModel(QUICK).fit(table, "kind")
        np.testing.assert_array_equal(model.predict_proba(table), MODEL.predict_proba(ROWS))
    structured = np.array([(1.0, "a")], dtype=[("x", float), ("y", "U1")])
    rest, y = take_out(structured, "y")
    assert rest.dtype.names == ("x",) and y.tolist() == ["a"]
    assert take_out({"x": [1.0], "y": ["a"]}, "y")[0] == {"x": [1.0]}


def test_without_a_target_it_clusters():
    model = TabularModel().fit(ROWS)
    assert isinstance(model.estimator_, ODAClustering)
    assert model.cluster_centers_.shape == (model.n_clusters_, 5)
    assert set(model.predict(ROWS)) == set(range(model.n_clusters_))
    assert model.predict_proba_one(ROWS[0]).keys() == set(range(model.n_clusters_))
    assert isinstance(TabularModel().fit(ROWS, KINDS).estimator_, ODAClassifier)


@examples(8)
@given(cuts=st.lists(st.integers(1, 599), max_size=4))
def test_any_cut_of_a_stream_gives_the_same_bits(cuts):
    rows, y = flowers(600, seed=1)
    whole, pieces = TabularModel(QUICK), TabularModel(QUICK)
    whole.partial_fit(rows, y)
    edges = sorted({0, 600, *cuts})
    for a, b in itertools.pairwise(edges):
        pieces.partial_fit(rows[a:b], y[a:b])
    assert pieces.predict_proba(rows).tobytes() == whole.predict_proba(rows).tobytes()
    assert pieces.codevectors_.tobytes() == whole.codevectors_.tobytes()


def test_learning_one_by_one_is_learning_a_stream():
    rows, y = flowers(400, seed=2)
    whole, singles = TabularModel(QUICK).partial_fit(rows, y), TabularModel(QUICK)
    for row, label in zip(rows, y, strict=True):
        singles.learn_one(row, label)
    assert singles.predict_proba(rows).tobytes() == whole.predict_proba(rows).tobytes()


def test_before_the_first_record_nothing_is_said():
    assert TabularModel().predict_one({"x": 1.0}) is None
    assert TabularModel().predict_proba_one({"x": 1.0}) == {}


def test_a_stream_is_learnt():
    rows, y = flowers(4000, seed=3)
    model = TabularModel(QUICK).partial_fit(rows[:3000], y[:3000])
    assert model.score(rows[3000:], y[3000:]) > 0.95


def test_a_refused_record_teaches_nothing():
    rows, y = flowers(300, seed=4)
    model = TabularModel(QUICK).partial_fit(rows, y)
    before = model.predict_proba(rows).tobytes()
    for call in (
        lambda: model.learn_one(rows[0] | {"length": "tall"}, "rose"),
        lambda: model.learn_one(rows[0], None),
        lambda: model.partial_fit([rows[0], rows[1] | {"length": "tall"}], ["rose", "iris"]),
        lambda: model.partial_fit(rows[:2], ["rose"]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (each in its own words)
            call()
        assert model.predict_proba(rows).tobytes() == before


def test_a_refused_record_of_numbers_teaches_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    model = TabularModel(QUICK).partial_fit(X, y)
    before = pickle.dumps(model)
    for call in (
        lambda: model.learn_one(X[0], None),
        lambda: model.learn_one(X[0], 1, w=-1.0),
        lambda: model.learn_one([1.0, 2.0], 1),
        lambda: model.learn_one([1.0, 2.0, np.inf], 1),
        lambda: model.learn_one({"x0": "much", "x1": 1.0, "x2": 1.0}, 1),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (each in its own words)
            call()
        assert pickle.dumps(model) == before


def test_a_level_that_was_picked_keeps_its_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (X[:, 0] > 0).astype(int)
    model = TabularModel(ODAClassifier(fine_tune=None, gamma=0.8)).partial_fit(X, y)
    level = model.at(n_codevectors=2)
    before = level.predict_proba(X[:50])
    for row, label in zip(50 * X[:50], y[:50].tolist(), strict=True):
        model.learn_one(row, label)
    np.testing.assert_array_equal(level.predict_proba(X[:50]), before)


def test_keys_of_records_may_come_and_go():
    rng = np.random.default_rng(0)
    model, right = TabularModel(QUICK), 0
    for k in range(1500):
        label = int(rng.integers(2))
        record = {"a": 3.0 * label + rng.normal(), "b": 3.0 * label + rng.normal()}
        if k and rng.random() < 0.2:
            del record["a" if rng.random() < 0.5 else "b"]
        if k and rng.random() < 0.1:
            record["new"] = rng.normal()
        right += k >= 1000 and model.predict_one(record) == label
        model.learn_one(record, label)
    assert right > 430 and model.n_features_in_ == 2
    # A number that is missing is taken for its running mean.
    told = model.predict_proba_one({"b": 1.0})
    assert told == model.predict_proba_one({"a": model.preprocessor_.mean_[0], "b": 1.0})
    strict = TabularModel(QUICK, unknown="error").partial_fit([{"a": 1.0}, {"a": 2.0}], [0, 1])
    with pytest.raises(ValueError, match="has no key 'a'"):
        strict.learn_one({}, 1)
    with pytest.raises(ValueError, match="has a key 'b'"):
        strict.predict_one({"a": 1.0, "b": 1.0})


def test_it_keeps_scikit_learns_conventions():
    model = TabularModel(ODAClassifier(gamma=0.7), max_categories=5)
    twin = clone(model.set_params(estimator__gamma=0.6))
    assert twin.estimator.gamma == 0.6 and twin.max_categories == 5
    assert is_classifier(model) and not is_classifier(TabularModel(ODAClustering()))
    assert MODEL.estimator is QUICK and not hasattr(QUICK, "classes_")
    assert not hasattr(TabularModel(), "path_") and not hasattr(TabularModel(), "n_features_in_")
    assert not hasattr(TabularModel(LVQClassifier()), "score_samples")
    assert MODEL.n_features_in_ == 3
    assert MODEL.feature_names_in_.tolist() == ["length", "width", "colour"]
    assert not hasattr(MODEL, "cluster_centers_")
    assert "TabularModel" in repr(MODEL)


def test_copies_and_pickles_answer_alike():
    for twin in (copy.deepcopy(MODEL), pickle.loads(pickle.dumps(MODEL))):
        np.testing.assert_array_equal(twin.predict_proba(ROWS), MODEL.predict_proba(ROWS))


def test_it_can_be_cross_validated():
    pd = pytest.importorskip("pandas", exc_type=ImportError)
    scores = cross_val_score(TabularModel(QUICK), pd.DataFrame(ROWS), KINDS, cv=3)
    assert scores.min() > 0.9


def test_a_divergence_names_the_column_it_cannot_take():
    rows = [{"count": float(k), "change": float(k - 3)} for k in range(9)]
    model = TabularModel(ODAClustering(divergence="i_divergence"), standardize=False)
    with pytest.raises(ValueError, match=r"\('change'\) holds -3"):
        model.fit(rows)
    with pytest.raises(ValueError, match=r"\('change'\) holds -3"):
        model.partial_fit(rows)
    with pytest.raises(ValueError, match="divergence"):
        TabularModel(ODAClustering(divergence="manhattan")).fit(rows)


def test_another_granularity_without_another_fit():
    coarse = MODEL.at(n_codevectors=3)
    assert len(coarse.codevectors_) == 3
    assert coarse.codevectors_.shape[1] == MODEL.codevectors_.shape[1]


def test_baselines_learn_from_tables_too():
    model = TabularModel(LVQClassifier(random_state=0)).fit(ROWS, KINDS)
    assert model.score(ROWS, KINDS) > 0.9


def test_a_table_is_scored_by_the_column_that_was_learnt():
    pandas = pytest.importorskip("pandas")
    kinds = np.where(np.arange(200) < 90, "x", "y")
    table = pandas.DataFrame({"a": np.arange(200.0), "kind": kinds})
    model = TabularModel(ODAClassifier(random_state=0)).fit(table, "kind")
    assert model.score(table) == model.score(table, "kind") > 0.95
    with pytest.raises(ValueError, match="kind"):
        model.score(table[["a"]])
    rows = TabularModel(ODAClassifier(random_state=0)).fit(table[["a"]], table["kind"].to_numpy())
    with pytest.raises(ValueError, match="needs the classes"):
        rows.score(table[["a"]])


# -- several streams -----------------------------------------------------------------------------


def test_models_of_tables_are_merged_in_the_units_of_all_rows():
    rows, y = flowers(3000, seed=6)
    backwards = [dict(reversed(row.items())) for row in rows]  # columns in another order
    small = [k for k, row in enumerate(rows) if row["length"] < 15]  # and in other units
    large = [k for k, row in enumerate(rows) if row["length"] >= 15]
    here = TabularModel(QUICK).partial_fit([rows[k] for k in small], y[small])
    there = TabularModel(QUICK).partial_fit([backwards[k] for k in large], y[large])
    before = [pickle.dumps(model) for model in (here, there)]
    joined = here.merge(there)
    assert [pickle.dumps(model) for model in (here, there)] == before
    assert joined.feature_names_in_.tolist() == ["length", "width", "colour"]
    assert joined.classes_.tolist() == ["iris", "lily", "rose"]
    assert joined.score(rows, y) > 0.95
    whole = TablePreprocessor().partial_fit(rows)
    np.testing.assert_allclose(joined.preprocessor_.mean_, whole.mean_)
    np.testing.assert_allclose(joined.preprocessor_.scale_, whole.scale_)
    np.testing.assert_allclose(joined.preprocessor_._texts[0].scale, whole._texts[0].scale)
    assert joined.partial_fit(rows, y).score(rows, y) > 0.95
    joined.learn_one(rows[0], y[0])


def test_vectors_of_a_step_are_those_of_the_one_it_was_merged_into():
    first = [{"cm": float(k), "colour": "red" if k % 3 else "blue"} for k in range(30)]
    second = [{"cm": 9.0 * k, "colour": "green" if (k + 1) % 4 else None} for k in range(30)]
    for steps in (
        [TablePreprocessor().fit(rows) for rows in (first, second)],
        [TablePreprocessor().partial_fit(rows) for rows in (first, second)],
        [TablePreprocessor(standardize=False).fit(rows) for rows in (first, second)],
    ):
        joined = steps[0].merge(steps[1])
        for step, rows in zip(steps, (first, second), strict=True):
            vectors = step.vectors_for(joined, step.transform(rows))
            np.testing.assert_allclose(vectors, joined.transform(rows), atol=1e-12)
        assert joined.categories_["colour"][:2] == steps[0].categories_["colour"]
        assert set(joined.categories_["colour"]) == {"red", "blue", "green", None}


def test_too_many_categories_share_a_place_after_a_merge_as_before():
    def step(letters):
        rows = [{"letter": letter} for k, letter in enumerate(letters) for _ in range(k + 2)]
        return TablePreprocessor(max_categories=3).partial_fit(rows), rows

    (here, first), (there, second) = step("abc"), step("def")
    joined = here.merge(there)
    assert set(joined.categories_["letter"]) >= {"c", "f"}  # the most frequent
    known = joined._texts[0]
    assert known.total == len(first) + len(second)
    assert known.counts[known.room] == sum(
        row["letter"] not in joined.categories_["letter"] for row in first + second
    )


def test_models_of_tables_that_cannot_be_merged_say_why():
    rows, y = flowers(200)
    model = TabularModel(QUICK).partial_fit(rows, y)

    def other(**change):
        return TabularModel(QUICK).partial_fit([row | change for row in rows], y)

    for wrong, words in (
        (other(extra=1.0), "columns 'length', 'width', 'colour' and 'length', 'width', 'colour', "),
        (other(colour=1.0), "'colour' is of kind 'category' in one model and 'number' in another"),
        (TabularModel(QUICK, standardize=False).partial_fit(rows, y), "standardises"),
        (TabularModel(ODAClassifier(divergence="itakura_saito"), standardize=False), "not fitted"),
    ):
        with pytest.raises(ValueError, match=words):
            model.merge(wrong)
    with pytest.raises(TypeError, match="ODAClassifier can be merged with another ODAClassifier"):
        model.merge(TabularModel(ODAClustering()).partial_fit(rows))
    with pytest.raises(TypeError, match="TabularModel can be merged with another TabularModel"):
        model.merge(ODAClassifier())
    records = [
        row | {"kind": str(kind), "sort": str(kind)} for row, kind in zip(rows, y, strict=True)
    ]
    named = [
        TabularModel(QUICK, unknown="ignore").fit(
            [{k: v for k, v in row.items() if k != drop} for row in records], target
        )
        for target, drop in (("kind", "sort"), ("sort", "kind"))
    ]
    with pytest.raises(ValueError, match="the targets 'kind' and 'sort'"):
        named[0].merge(named[1])
    assert not hasattr(TabularModel(LVQClassifier()), "merge")


# -- targets -------------------------------------------------------------------------------------


def test_classes_keep_what_they_are():
    assert classes_in(["1", "0", "1"], "t").tolist() == [1, 0, 1]
    assert classes_in([1.0, 0.0], "t").tolist() == [1, 0]
    assert classes_in(["1", "no"], "t").tolist() == ["1", "no"]
    assert classes_in([True, False], "t").dtype == bool
    assert classes_in(["02139", "10001"], "t").tolist() == ["02139", "10001"]
    assert classes_in(["1", "2.50"], "t", as_texts=True).tolist() == ["1", "2.50"]
    assert classes_in([1.0, 2.5], "t", as_texts=True).tolist() == ["1", "2.5"]


@pytest.mark.parametrize(
    ("different", "rows", "asked"),
    [(10, 12, False), (11, 12, True), (20, 40, False), (20, 39, True), (20, 9000, False),
     (21, 9000, True), (74, 48_842, True)],
)  # fmt: skip
def test_whole_numbers_of_many_values_are_asked_about(different, rows, asked):
    cells = [1990 + k % different for k in range(rows)]
    for found in (cells, [str(cell) for cell in cells]):
        if asked:
            words = rf"{different} different whole numbers in {rows:,} rows.*--categorical 't'"
            with pytest.raises(ValueError, match=words):
                classes_in(found, "t")
        else:
            assert classes_in(found, "t").tolist() == cells
    texts = [f"{cell:05}" for cell in cells]  # such as postal codes
    assert classes_in(texts, "t").tolist() == texts


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["a", "a"], r"'t' has the same value in every row \(a\)"),
        ([1.5, 2.0], r"'t' looks like a quantity \(1.5 is not a whole number\)"),
        ([1e300, 0], r"'t' looks like a quantity \(1e\+300 is no number of a class\)"),
        (list(range(51)), r"'t' looks like a quantity \(51 different whole numbers in 51 rows"),
        ([f"name {k}" for k in range(200)], "200 different values in 200 rows"),
    ],
)
def test_a_target_that_is_no_class_is_said_to_be_none(cells, words):
    with pytest.raises(ValueError, match=words):
        classes_in(cells, "t")


def test_what_is_no_table_is_told_so():
    rows = [{"a": k % 7, "t": "xy"[k % 2]} for k in range(70)]
    with pytest.raises(NotFittedError):
        TabularModel().predict(rows)
    with pytest.raises(ValueError, match="no rows"):
        TabularModel().fit([], "t")
    with pytest.raises(FileNotFoundError, match=r"adult\.csv does not exist"):
        TabularModel().fit("adult.csv", "t")
    with pytest.raises(ValueError, match="predict_one"):
        TabularModel().fit(rows, "t").predict(rows[0])


def test_codevectors_come_with_their_names():
    frame = MODEL.codevectors_to_frame()
    assert [*frame.columns] == ["weight", *MODEL.feature_names_out_]
    assert {"length", "width", "colour=red"} <= {*frame.columns}
    np.testing.assert_array_equal(frame.to_numpy()[:, 1:], MODEL.codevectors_)
    np.testing.assert_array_equal(frame["weight"], MODEL.weights_)
    assert frame.index.name == "class" and [*frame.index] == [*MODEL.codevector_labels_]
    np.testing.assert_allclose(frame.filter(like="colour=").sum(axis=1), 1.0)
    model = TabularModel(ODAClustering(3, random_state=0)).fit(ROWS)
    clusters = model.codevectors_to_frame()
    assert clusters.index.name == "cluster"
    assert [*clusters.index] == [*model.estimator_.codevector_clusters_]
    assert {*clusters.index} == {0, 1, 2}


def test_codevectors_have_names_only_once_there_are_some():
    with pytest.raises(NotFittedError):
        TabularModel().codevectors_to_frame()
