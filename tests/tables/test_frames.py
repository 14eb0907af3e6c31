"""Frames of every make read alike, through narwhals."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import numpy as np
import pytest

from annealed.tables.columns import columns_of
from annealed.tables.kinds import KINDS, OF_ARRAY, OF_FRAME
from annealed.tables.targets import names_in, take_out

pa = pytest.importorskip("pyarrow", exc_type=ImportError)
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 6)
ZONE = dt.timezone(dt.timedelta(hours=2))
CELLS = {
    "whole": [1, None, 3],
    "part": [0.5, None, 2.0],
    "decimal": [Decimal("1.5"), None, Decimal("2")],
    "truth": [True, None, False],
    "text": ["a", None, "b"],
    "code": ["x", None, "y"],
    "time": [MOMENT, None, MOMENT],
    "zoned": [MOMENT.replace(tzinfo=ZONE), None, MOMENT.replace(tzinfo=dt.UTC)],
    "day": [MOMENT.date(), None, MOMENT.date()],
    "lasts": [dt.timedelta(seconds=1.5), None, dt.timedelta(days=2)],
    "nothing": [None, None, None],
}
KIND = {
    "whole": "number", "part": "number", "decimal": "number", "truth": "boolean",
    "text": "category", "code": "category", "time": "datetime", "zoned": "datetime",
    "day": "datetime", "lasts": "number", "nothing": "empty",
}  # fmt: skip


def arrow_table():
    columns = {name: pa.array(cells) for name, cells in CELLS.items()}
    columns["zoned"] = pa.array(CELLS["zoned"], pa.timestamp("us", tz="Europe/Athens"))
    columns["code"] = columns["code"].dictionary_encode()
    return pa.table(columns)


def pandas_frame():
    pd = pytest.importorskip("pandas", exc_type=ImportError)
    return arrow_table().to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get
    )


def pandas_frame_of_arrow_types():
    pd = pytest.importorskip("pandas", exc_type=ImportError)
    return arrow_table().to_pandas(types_mapper=pd.ArrowDtype)


def polars_frame():
    pl = pytest.importorskip("polars", exc_type=ImportError)
    return pl.from_arrow(arrow_table())


MAKES = (
    arrow_table, pandas_frame, pandas_frame_of_arrow_types, polars_frame,
    lambda: arrow_table().to_batches()[0],
)  # fmt: skip


@pytest.mark.parametrize("make", MAKES)
def test_a_column_is_the_same_whatever_the_make(make):
    columns = {column.name: column for column in columns_of(make()).columns}
    assert {name: column.kind for name, column in columns.items()} == KIND
    same = columns["time"].values[0]
    assert same == (MOMENT - dt.datetime(1970, 1, 1)).total_seconds()
    midnight = same - 3 * 3600 - 4 * 60 - 5 - 6e-6
    expected = {
        "whole": [1, 3], "part": [0.5, 2], "decimal": [1.5, 2], "truth": [1, 0],
        "time": [same, same], "zoned": [same - 2 * 3600, same], "day": [midnight, midnight],
        "lasts": [1.5, 2 * 86400],
    }  # fmt: skip
    for name, (first, last) in expected.items():
        np.testing.assert_allclose(columns[name].values, [first, np.nan, last], rtol=1e-15)
    for name, labels in {"text": ("a", "b"), "code": ("x", "y")}.items():
        assert columns[name].labels == labels
        assert columns[name].values.tolist() == [0, -1, 1]


@pytest.mark.parametrize("make", MAKES)
def test_the_target_is_taken_out_of_every_make(make):
    assert names_in(make()) == list(CELLS)
    rest, target = take_out(make(), "text")
    assert names_in(rest) == [name for name in CELLS if name != "text"]
    assert target.tolist() == ["a", None, "b"]


def test_a_lazy_frame_says_that_it_wants_to_be_collected():
    pl = pytest.importorskip("polars", exc_type=ImportError)
    with pytest.raises(TypeError, match=r"LazyFrame holds no rows yet: call its collect\(\) first"):
        columns_of(pl.LazyFrame({"a": [1]}))


def test_without_narwhals_a_frame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(ImportError, match=r"pip install 'annealed\[tables\]'"):
        columns_of(pa.table({"a": [1]}))
    assert columns_of(np.zeros((2, 1))).n_rows == columns_of([{"a": 1}, {"a": 2}]).n_rows == 2


def test_the_tables_of_kinds_name_no_other_kinds():
    assert {*OF_ARRAY.values(), *OF_FRAME.values()} == set(KINDS)
