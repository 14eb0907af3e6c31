"""Frames of pandas, polars, pyarrow and their like, all read through narwhals.

Neither narwhals nor any of these is imported before someone hands over such a frame.
"""

from __future__ import annotations

from typing import Any

# What a frame has, and arrays, lists and dicts have not.
SIGNS = ("__arrow_c_stream__", "__dataframe__", "collect_schema")


def frame_of(table: Any) -> Any:
    """The table as a DataFrame of narwhals; None if it is no frame.

    Raises
    ------
    ImportError
        It is a frame, but narwhals is not there.
    TypeError
        It is a frame that has not been computed yet.
    ValueError
        Two of its columns have one name.
    """
    if not any(hasattr(table, sign) for sign in SIGNS):
        return None
    try:
        import narwhals.stable.v2 as nw
    except ModuleNotFoundError:
        raise ImportError(
            f"to read a {type(table).__name__} narwhals is needed, which is not installed: "
            "pip install 'annealed[tables]'"
        ) from None
    try:
        frame = nw.from_native(table, pass_through=True)
        if frame is table and len(getattr(table, "shape", ())) == 2:  # pyarrow's RecordBatch
            frame = nw.from_arrow(table, backend="pyarrow")
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in getattr(table, "column_names", table.columns)]
        refuse_twins(names)
        raise
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"a {type(table).__name__} holds no rows yet: call its collect() first")
    return None if frame is table else frame


def refuse_twins(names: list[str]) -> None:
    """ValueError if a name stands there twice."""
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"the column name {twins[0]!r} appears more than once: rename one of them")


def moments_of(series: Any) -> Any:
    """A column of dates, times or durations as NumPy's; without a zone, UTC where it had one."""
    import narwhals.stable.v2 as nw

    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    if getattr(series.dtype, "time_zone", None) is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return series.to_numpy()


def floats_of(series: Any) -> Any:
    """A column of numbers or truth values as NumPy's floats, nan where a cell is missing."""
    import narwhals.stable.v2 as nw

    return series.cast(nw.Float64).to_numpy()
