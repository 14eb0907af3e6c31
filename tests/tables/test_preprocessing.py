"""Tables into vectors: what columns become, streams in any pieces, state as plain values."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from annealed import TablePreprocessor
from annealed.kernels.compiled import running_standardise
from annealed.tables.categories import Categories
from annealed.tables.columns import Column, columns_of
from annealed.tables.running import learn_row, standardised

ROWS = [
    {"cm": 1.5, "colour": "red", "ok": True, "when": dt.datetime(2024, 1, 1)},
    {"cm": None, "colour": "blue", "ok": False, "when": dt.datetime(2024, 1, 3)},
    {"cm": 4.5, "colour": None, "ok": True, "when": None},
    {"cm": 9.0, "colour": "red", "ok": None, "when": dt.datetime(2024, 1, 2)},
]
numbers = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6))
texts = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "Ünï", "", "1"]))
records = st.lists(
    st.fixed_dictionaries({"x": numbers, "t": texts, "y": numbers}), min_size=1, max_size=30
)
DECLARED = {"x": "number", "t": "category", "y": "number"}


def arrow_table():
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    return pa.Table.from_pylist(ROWS)


def pandas_table():
    return pytest.importorskip("pandas", exc_type=ImportError).DataFrame(ROWS)


def polars_table():
    return pytest.importorskip("polars", exc_type=ImportError).DataFrame(ROWS)


# -- what columns become -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pandas_table, polars_table, arrow_table])
def test_every_make_of_table_gives_the_same_vectors(make):
    expected = TablePreprocessor().fit(ROWS)
    step = TablePreprocessor().fit(make())
    assert step.kinds_ == ("number", "category", "boolean", "datetime")
    assert step.get_feature_names_out().tolist() == [
        "cm", "colour=blue", "colour=red", "colour missing", "ok", "when"
    ]  # fmt: skip
    np.testing.assert_array_equal(step.transform(make()), expected.transform(ROWS))
    np.testing.assert_array_equal(step.transform(ROWS), expected.transform(make()))


def test_numbers_are_standardised_and_missing_cells_take_the_median():
    Z = TablePreprocessor().fit_transform(ROWS)
    seen = np.array([1.5, 4.5, 9.0])
    np.testing.assert_allclose(Z[:, 0], (np.array([1.5, 4.5, 4.5, 9.0]) - 5.0) / seen.std())
    days = Z[:, 5]
    assert days[0] < days[3] < days[1] and days[2] == days[3]  # the second is the median


def test_indicators_of_a_column_have_variance_one_together():
    rng = np.random.default_rng(0)
    cells = rng.choice(["a", "b", "c", "d"], p=[0.7, 0.2, 0.05, 0.05], size=(500, 1))
    Z = TablePreprocessor().fit_transform(cells.astype(object))
    assert Z.var(axis=0).sum() == pytest.approx(1.0)


def test_two_categories_lie_as_far_apart_as_a_standardised_number():
    cells = np.array([["no"], ["no"], ["no"], ["yes"]], dtype=object)
    Z = TablePreprocessor().fit_transform(cells)
    z = TablePreprocessor().fit_transform(cells == "yes")
    distance = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distance, ((z[:, None] - z[None]) ** 2).sum(axis=2))


def test_without_standardisation_numbers_stay_as_they_are():
    Z = TablePreprocessor(standardize=False).fit_transform(ROWS)
    assert Z[:, 0].tolist() == [1.5, 4.5, 4.5, 9.0]
    assert Z[:, 1:4].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_rare_categories_share_an_indicator_and_the_order_does_not_depend_on_the_rows():
    cells = [c for k, c in enumerate("abcdefgh") for _ in range(2**k)]
    table = np.array(cells, dtype=object)[:, None]
    step = TablePreprocessor(max_categories=3).fit(table)
    assert step.get_feature_names_out().tolist() == ["x0=f", "x0=g", "x0=h", "x0 other"]
    again = TablePreprocessor(max_categories=3).fit(table[::-1])
    assert again.get_feature_names_out().tolist() == step.get_feature_names_out().tolist()
    np.testing.assert_array_equal(step.transform([["a"]]), step.transform([["never seen"]]))


def test_a_column_where_every_text_is_different_says_nothing_and_does_no_harm():
    table = np.array([f"id {k}" for k in range(1000)], dtype=object)[:, None]
    Z = TablePreprocessor().fit_transform(table)
    assert Z.shape == (1000, 1) and (Z == 1).all()


def test_a_category_that_was_not_there_has_no_indicator():
    step = TablePreprocessor().fit([{"c": "a"}, {"c": "b"}])
    assert step.transform([{"c": "z"}, {"c": None}]).tolist() == [[0, 0], [0, 0]]


def test_constant_and_empty_columns_become_zeros():
    rows = [{"same": 3.0, "none": None, "x": k} for k in range(4)]
    step = TablePreprocessor()
    Z = step.fit_transform(rows)
    assert not Z[:, :2].any() and np.isfinite(Z).all()
    # What they hold later cannot be told apart from anything: nothing is known of their scale.
    assert step.transform([{"same": 1e9, "none": 5.0, "x": 1.5}]).tolist() == [[0, 0, 0]]


def test_numbers_and_texts_in_one_column_are_texts():
    step = TablePreprocessor().fit([{"c": 3}, {"c": "high"}, {"c": 2.5}])
    assert step.categories_ == {"c": ["2.5", "3", "high"]}


def test_codes_can_be_declared_categories():
    step = TablePreprocessor(kinds={"zip": "category"}).fit([{"zip": 1010}, {"zip": 8020}])
    assert step.get_feature_names_out().tolist() == ["zip=1010", "zip=8020"]
    np.testing.assert_array_equal(
        step.transform([{"zip": "8020"}]), step.transform([{"zip": 8020}])
    )


def test_texts_are_read_as_numbers_and_times_where_those_were_learnt():
    step = TablePreprocessor().fit(ROWS)
    row = {"cm": "4.5", "colour": "red", "ok": 1, "when": "2024-01-03"}
    expected = {"cm": 4.5, "colour": "red", "ok": True, "when": dt.date(2024, 1, 3)}
    np.testing.assert_array_equal(step.transform([row]), step.transform([expected]))
    np.testing.assert_array_equal(step.transform_one(row), step.transform([expected])[0])


def test_columns_come_back_in_their_own_units():
    step = TablePreprocessor().fit(ROWS)
    back = step.inverse_transform(step.transform(ROWS))
    np.testing.assert_allclose(back[:, 0], [1.5, 4.5, 4.5, 9.0])
    np.testing.assert_allclose(back[:, 1:4], [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    with pytest.raises(ValueError, match=r"expected shape \(n, 6\)"):
        step.inverse_transform(np.zeros((2, 5)))


def test_structured_arrays_and_dicts_of_columns_are_tables():
    array = np.array([(1.0, "a"), (2.0, "b")], dtype=[("x", float), ("t", "U3")])
    step = TablePreprocessor().fit(array)
    table = {"x": [1.0, 2.0], "t": ["a", "b"]}
    np.testing.assert_array_equal(step.transform(table), step.transform(array))


# -- streams -------------------------------------------------------------------------------------


@given(rows=records, cuts=st.lists(st.integers(0, 30), max_size=4), standardize=st.booleans())
def test_any_cut_of_a_stream_gives_the_same_bits(rows, cuts, standardize):
    whole = TablePreprocessor(kinds=DECLARED, max_categories=3, standardize=standardize)
    pieces, singles = clone(whole), clone(whole)
    Z = whole.learn_transform(rows)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [pieces.learn_transform(rows[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.concatenate(parts).tobytes() == Z.tobytes()
    for row, z in zip(rows, Z, strict=True):
        singles.learn_one(row)
        assert singles.transform_one(row).tobytes() == z.tobytes()
    assert_same_state(pieces.to_state(), whole.to_state())
    assert_same_state(singles.to_state(), whole.to_state())


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == other[name].dtype
            assert value.tobytes() == other[name].tobytes(), name
        else:
            assert value == other[name], name


@given(rows=records)
def test_a_stream_ends_with_the_statistics_of_the_whole_table(rows):
    stream = TablePreprocessor(kinds=DECLARED).partial_fit(rows)
    whole = TablePreprocessor(kinds=DECLARED).fit(rows)
    np.testing.assert_allclose(stream.mean_, whole.mean_, rtol=1e-9, atol=1e-6)
    spread = np.maximum(np.abs(whole.mean_), 1)
    np.testing.assert_allclose(stream._m2, whole._m2, rtol=1e-6, atol=1e-6 * spread.max() ** 2)
    assert set(stream.categories_["t"]) == set(whole.categories_["t"])
    assert stream._texts[0].scale == pytest.approx(whole._texts[0].scale)


def test_a_missing_cell_of_a_stream_is_the_running_mean():
    step = TablePreprocessor()
    Z = step.learn_transform([{"x": 1.0}, {"x": 3.0}, {"x": None}])
    assert Z[:, 0].tolist() == [0.0, 1.0, 0.0]
    raw = TablePreprocessor(standardize=False)
    assert raw.learn_transform([{"x": 1.0}, {"x": 3.0}, {"x": None}])[:, 0].tolist() == [1, 3, 2]


def test_a_stream_gives_indicators_as_categories_appear():
    step = TablePreprocessor(max_categories=2)
    step.learn_transform([{"c": "b"}, {"c": "a"}, {"c": "z"}, {"c": None}])
    assert step.get_feature_names_out().tolist() == ["c=b", "c=a", "c other"]
    assert step.transform([{"c": "new"}])[0].nonzero()[0].tolist() == [2]


def test_learning_goes_on_after_fit():
    step = TablePreprocessor().fit([{"x": 0.0, "c": "a"}, {"x": 2.0, "c": "b"}])
    step.learn_transform([{"x": 4.0, "c": "new"}])
    assert step.mean_.tolist() == [2.0] and step.n_unseen_ == {"c": 1}


def test_the_kernel_standardises_as_the_literal_one_to_the_last_bit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1, 100, 0.01, 0] + [5, 0, 1e3, 2]
    X[rng.random(X.shape) < 0.1] = np.nan
    fill = np.array([np.nan, 3.0, np.nan, 1.0])
    compiled, literal = ([np.zeros(4) for _ in range(3)] for _ in range(2))
    Z = []
    for x in X:
        learn_row(x, *literal)
        Z.append(standardised(x, *literal, fill))
    np.testing.assert_array_equal(running_standardise(X, *compiled, fill), Z)
    np.testing.assert_array_equal(compiled, literal)


def test_running_standardisation_is_that_of_every_prefix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1, 100, 0.01] + [5, 0, 1e3]
    count, mean, m2 = np.zeros(3), np.zeros(3), np.zeros(3)
    Z = running_standardise(X, count, mean, m2, np.full(3, np.nan))
    for k in range(2, 50):
        past = X[: k + 1]
        np.testing.assert_allclose(Z[k], (X[k] - past.mean(0)) / past.std(0), rtol=1e-7)


def test_counting_squares_one_by_one_is_counting_them_all():
    rng = np.random.default_rng(1)
    places = rng.integers(-1, 4, size=200)
    step = Categories(["a", "b", "c", "d"], 4, other=False)
    scales = step.running_scale(places)
    for k in (0, 1, 50, 199):
        until = Categories(["a", "b", "c", "d"], 4, other=False)
        until.learn(places[: k + 1])
        assert scales[k] == until.scale
    assert step.unseen == (places < 0).sum()


def test_a_failed_call_leaves_the_statistics_alone():
    step = TablePreprocessor().fit(ROWS)
    before = copy.deepcopy(step.to_state())
    bad = [ROWS[0], ROWS[1] | {"cm": "abc"}]
    with pytest.raises(ValueError, match="'abc' is not a number"):
        step.learn_transform(bad)
    with pytest.raises(ValueError, match="'abc' is not a number"):
        step.learn_one(bad[1])
    assert_same_state(step.to_state(), before)


# -- errors --------------------------------------------------------------------------------------

FITTED = TablePreprocessor(unknown="error").fit(ROWS)
GOOD = ROWS[0]
SHORT = {name: value for name, value in GOOD.items() if name != "ok"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FITTED.transform([GOOD, SHORT]), "record 1 has no key 'ok'; a missing value is"),
        (lambda: FITTED.transform_one(SHORT), "the record has no key 'ok'"),
        (lambda: FITTED.transform_one(GOOD | {"z": 1}), "the record has a key 'z', which was not"),
        (lambda: FITTED.transform([GOOD, GOOD | {"z": 1}]), "record 1 has a key 'z'"),
        (lambda: FITTED.transform({"cm": [1.0]}), "no column 'colour', which was learnt"),
        (
            lambda: FITTED.transform({k: [v] for k, v in (GOOD | {"z": 1}).items()}),
            "a column 'z', which was not there before",
        ),
        (lambda: FITTED.transform([GOOD | {"cm": "abc"}]), "row 0, column 'cm': 'abc' is not a"),
        (lambda: FITTED.transform([GOOD, GOOD | {"cm": np.inf}]), "row 1, column 'cm': .*infinity"),
        (lambda: FITTED.transform_one(GOOD | {"cm": np.inf}), "column 'cm': .*infinity"),
        (lambda: FITTED.transform([GOOD | {"cm": -1e200}]), "'cm': -1e.200 is too large"),
        (lambda: FITTED.transform_one([1.0, 2.0]), "2 values, but 4 were expected"),
        (lambda: FITTED.transform_one(GOOD | {"cm": [1]}), r"column 'cm': \[1\] is not a number"),
        (lambda: TablePreprocessor().fit([{"a": [1, 2]}]), "row 0, column 'a': a cell must be"),
        (lambda: TablePreprocessor().fit([{"a": 1}, 3]), "record 1 is of type 'int', not a dict"),
        (lambda: TablePreprocessor().fit({"a": [1], "b": [1, 2]}), "differ in length"),
        (
            lambda: TablePreprocessor(unknown="x").fit(ROWS),
            "unknown must be one of 'auto'",
        ),
        (lambda: TablePreprocessor(max_categories=0).fit(ROWS), "max_categories must be an int"),
        (lambda: TablePreprocessor(kinds={"cm": "int"}).fit(ROWS), "must be one of 'number'"),
        (lambda: TablePreprocessor(kinds={"cn": "number"}).fit(ROWS), "the column 'cn'; the col"),
        (lambda: columns_of(np.zeros((2, 2, 2))), "got 3D array instead"),
    ],
)
def test_errors_say_what_and_where(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_twin_names_are_refused():
    pd = pytest.importorskip("pandas", exc_type=ImportError)
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="the column name 'a' appears more than once"):
        TablePreprocessor().fit(table)


def test_nested_columns_are_refused_by_name():
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    table = pa.table({"a": [[1, 2], [3]]})
    with pytest.raises(ValueError, match="column 'a' holds values of type List"):
        TablePreprocessor().fit(table)


@pytest.mark.parametrize("unknown", ["auto", "ignore"])
def test_keys_of_records_may_come_and_go(unknown):
    step = TablePreprocessor(unknown=unknown).fit(ROWS)
    z = step.transform_one(SHORT | {"new": 1})
    np.testing.assert_array_equal(z, step.transform([SHORT | {"new": 1}])[0])
    np.testing.assert_array_equal(z, step.transform_one(GOOD | {"ok": None}))
    ones, rows = TablePreprocessor(unknown=unknown), TablePreprocessor(unknown=unknown)
    stream = [*ROWS, SHORT, GOOD | {"new": 1}]
    learnt = [ones.learn_one(record) for record in stream]
    np.testing.assert_array_equal(learnt, rows.learn_transform(stream))
    assert_same_state(ones.to_state(), rows.to_state())


def test_columns_of_tables_may_not():
    step = TablePreprocessor().fit(ROWS)
    table = {name: [row[name] for row in ROWS] for name in SHORT}
    with pytest.raises(ValueError, match="no column 'ok', which was learnt"):
        step.transform(table)
    with pytest.raises(ValueError, match="record 1 has a key 'z'"):
        TablePreprocessor().fit([GOOD, GOOD | {"z": 1}])


NUMBERS = ["a", "b", "c"]
cells_of_numbers = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-100, 100), st.booleans(), st.none(), st.just(np.nan),
    st.just("1.5"), st.floats(-10, 10).map(np.float32),
)  # fmt: skip
records_of_numbers = st.dictionaries(
    st.sampled_from([*NUMBERS, "new"]), cells_of_numbers, max_size=4
)


@given(
    stream=st.lists(records_of_numbers, max_size=12),
    standardize=st.booleans(),
    fit=st.booleans(),
)
def test_records_of_numbers_come_out_as_tables_do(stream, standardize, fit):
    """Whether the kernel reads a record or each cell is looked at, to the last bit."""
    begin = [{"a": 1.0, "b": 2, "c": 0.5}, {"a": 3.0, "b": None, "c": 0.5}]
    ones, rows = (TablePreprocessor(standardize=standardize) for _ in range(2))
    for step in (ones, rows):
        step.fit(begin) if fit else step.partial_fit(begin)
    for record in stream:
        assert ones.transform_one(record).tobytes() == rows.transform([record])[0].tobytes()
        assert ones.learn_one(record).tobytes() == rows.learn_transform([record])[0].tobytes()
        lists = [record.get(name) for name in NUMBERS]
        assert ones.transform_one(lists).tobytes() == rows.transform([record])[0].tobytes()
    assert_same_state(ones.to_state(), rows.to_state())


def test_what_a_record_taught_can_be_taken_back():
    step = TablePreprocessor().partial_fit(np.arange(12.0).reshape(4, 3))
    before = copy.deepcopy(step.to_state())
    z = step.learn_plain(np.array([7.0, np.nan, 2.0]))
    twin = copy.deepcopy(step)
    assert step.to_state()["count"].tolist() == [5, 4, 5]
    step.take_back()
    assert_same_state(step.to_state(), before)
    assert twin.to_state()["count"].tolist() == [5, 4, 5]  # copies do not share
    assert twin.transform_one([7.0, None, 2.0]).tolist() == z.tolist()
    assert step.learn_plain({"x0": "a"}) is None and step.learn_plain([1e200, 0, 0]) is None
    assert_same_state(step.to_state(), before)
    assert TablePreprocessor().learn_plain([1.0]) is None
    assert TablePreprocessor().fit(ROWS).learn_plain(ROWS[0]) is None  # there are texts


# -- state ---------------------------------------------------------------------------------------


@given(rows=records, standardize=st.booleans(), fit=st.booleans())
def test_state_is_plain_and_comes_back_the_same(rows, standardize, fit):
    step = TablePreprocessor(standardize=standardize, kinds=DECLARED, max_categories=4)
    step = step.fit(rows) if fit else step.partial_fit(rows)
    state = step.to_state()
    plain = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
    arrays = {name: value for name, value in state.items() if name not in plain}
    again = TablePreprocessor.from_state({**json.loads(json.dumps(plain)), **arrays})
    assert_same_state(again.to_state(), state)
    assert again.get_params() == step.get_params()
    np.testing.assert_array_equal(again.transform(rows), step.transform(rows))
    more = [*rows, {"x": 1.0, "t": "new", "y": None}]
    assert again.learn_transform(more).tobytes() == step.learn_transform(more).tobytes()


STATE = FITTED.to_state()
CATEGORY = STATE["categories"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"names": None}, {"names": ["a", "a", "b", "c"]}, {"names": ["a"]}, {"names": [1, 2, 3, 4]},
        {"kinds": ["number"] * 3}, {"kinds": ["number"] * 4}, {"kinds": ["os.system"] * 4},
        {"standardize": 1}, {"unknown": "maybe"}, {"max_categories": 0}, {"named": "yes"},
        {"declared_kinds": {"cm": "x"}}, {"declared_kinds": [1]},
        {"count": np.zeros(2)}, {"count": [1, 2, 3]}, {"count": np.zeros(3, dtype=np.float32)},
        {"mean": np.array([np.nan, 0, 0])}, {"m2": -np.ones(3)}, {"fill": np.full(3, np.inf)},
        {"categories": []}, {"categories": [3]}, {"categories": [CATEGORY | {"room": 10**12}]},
        {"categories": [CATEGORY | {"room": -1}]}, {"categories": [CATEGORY | {"room": True}]},
        {"categories": [CATEGORY | {"labels": ["a", "a", "b"]}]},
        {"categories": [CATEGORY | {"labels": [{}]}]}, {"categories": [CATEGORY | {"unseen": -1}]},
        {"categories": [CATEGORY | {"other": True}]}, {"categories": [CATEGORY | {"room": 2}]},
        {"category_counts": -np.ones(3, dtype=np.int64)}, {"category_counts": np.zeros(3)},
        {"category_counts": np.zeros(4, dtype=np.int64)}, {"category_counts": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="not the state of a preprocessing step"):
        TablePreprocessor.from_state(STATE | change)


@pytest.mark.parametrize("name", sorted(set(STATE) - {"declared_kinds"}))
def test_a_state_that_lacks_something_is_refused(name):
    state = {key: value for key, value in STATE.items() if key != name}
    with pytest.raises(ValueError, match="not the state of a preprocessing step"):
        TablePreprocessor.from_state(state)


def test_something_else_than_a_state_is_refused():
    with pytest.raises(ValueError, match="it is of type 'list'"):
        TablePreprocessor.from_state([])


# -- scikit-learn --------------------------------------------------------------------------------

ANY_ORDER = "columns are found by their names, so they may come in any order"


@parametrize_with_checks(
    [TablePreprocessor(), TablePreprocessor(standardize=False)],
    expected_failed_checks=lambda _: {"check_dataframe_column_names_consistency": ANY_ORDER},
)
def test_preprocessor_passes_scikit_learns_check(estimator, check):
    check(estimator)


def test_a_category_column_of_missing_cells_only():
    column = Column("c", "category", np.array([-1, -1]), ("unused",))
    assert Categories.learnt(column, 5).labels == [None]


def test_a_text_after_a_missing_first_cell_is_refused_with_the_way_out():
    model = TablePreprocessor()
    model.learn_one({"v": 1.0, "m": None})
    with pytest.raises(ValueError, match=r"first cell is missing.*kinds=\{'m': 'category'\}"):
        model.learn_one({"v": 1.0, "m": "a"})
    said = TablePreprocessor(kinds={"m": "category"})
    said.learn_one({"v": 1.0, "m": None})
    said.learn_one({"v": 1.0, "m": "a"})
    assert list(said.kinds_) == ["number", "category"]
