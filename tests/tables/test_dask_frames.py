"""DataFrames of Dask into models of tables."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from annealed import ODAClassifier, ODAClustering, TabularModel
from annealed.estimators import chunked_rows
from annealed.tables.files import sampling

pd = pytest.importorskip("pandas", exc_type=ImportError)
pytest.importorskip("dask.array", exc_type=ImportError)
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

QUICK = TabularModel(ODAClassifier(level="last", fine_tune=None, random_state=0))


def table_of(n=1200, seed=0, rare=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    kind[rng.choice(n, rare, replace=False)] = 2
    return pd.DataFrame(
        {
            "x": 6.0 * kind + rng.normal(size=n),
            "colour": np.array(["red", "blue", "red"])[np.where(rng.random(n) < 0.9, kind, 0)],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
            "kind": np.array(["rose", "iris", "lily"])[kind],
        }
    )


TABLE = table_of()
CHUNKED = dd.from_pandas(TABLE, npartitions=5)


def test_a_frame_of_dask_is_learnt_and_read_as_its_rows_are():
    whole, model = clone(QUICK).fit(TABLE, "kind"), clone(QUICK).fit(CHUNKED, "kind")
    assert model.codevectors_.tobytes() == whole.codevectors_.tobytes()
    assert model.preprocessor_.kinds_ == ("number", "category", "datetime")
    assert model.target_name_ == "kind"
    for name in ("predict", "predict_proba", "transform", "score_samples"):
        found, expected = getattr(model, name)(CHUNKED), getattr(whole, name)(TABLE)
        assert found.dtype == expected.dtype and "annealed-" in str(dict(found.dask).keys())
        np.testing.assert_array_equal(found.compute(), expected)
    assert model.score(CHUNKED, "kind") == pytest.approx(whole.score(TABLE, "kind"))
    stream = clone(QUICK).partial_fit(CHUNKED, "kind")
    in_memory = clone(QUICK).partial_fit(TABLE, "kind")
    assert stream.codevectors_.tobytes() == in_memory.codevectors_.tobytes()
    clusters = TabularModel(ODAClustering(2, random_state=0)).fit(CHUNKED[["x"]])
    assert not hasattr(clusters, "labels_")
    assert clusters.score(CHUNKED[["x"]]) == pytest.approx(clusters.score(TABLE[["x"]]))


def test_of_many_rows_some_are_drawn_and_a_rare_class_is_not_missed(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_CELLS", 12_000)  # 1000 rows
    monkeypatch.setattr(chunked_rows, "LEAST_OF_A_CLASS", 30)
    table = table_of(20_000, seed=1, rare=40)  # of which 1000 drawn alike would have two
    frame = dd.from_pandas(table, npartitions=7)
    model = clone(QUICK).fit(frame, "kind")
    assert model.classes_.tolist() == ["iris", "lily", "rose"]
    assert 1000 <= model.preprocessor_._count[0] <= 1032
    assert model.score(frame, "kind") > 0.95
    assert (model.predict(table[table["kind"] == "lily"]) == "lily").mean() > 0.9
    assert (model.predict(frame) == "lily").mean().compute() < 0.01
    again = clone(QUICK).fit(dd.from_pandas(table, npartitions=3), "kind")
    assert again.codevectors_.tobytes() == model.codevectors_.tobytes()


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="no column 'sort'; the columns are 'x', 'colour'"):
        clone(QUICK).fit(CHUNKED, "sort")
    with pytest.raises(ValueError, match="give y by the name of its column"):
        clone(QUICK).fit(CHUNKED, TABLE["kind"])
    gaps = TABLE.assign(kind=TABLE["kind"].where(TABLE["x"] < 6))
    with pytest.raises(ValueError, match="the target 'kind' is missing in"):
        clone(QUICK).fit(dd.from_pandas(gaps, npartitions=2), "kind")
