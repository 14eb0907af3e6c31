"""Read a table of the catalogue from a CSV or Parquet file, or from OpenML."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.datasets.catalogue import TARGET, FetchedDataset

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Columns as they were found: features as numbers with nan where a cell is empty."""

    X: Array
    labels: Sequence[object]
    source: str


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _positions(header: Sequence[str], spec: FetchedDataset, where: str) -> tuple[list[int], int]:
    """Where the features and the target stand in a header."""
    at = {_plain(name): position for position, name in enumerate(header)}
    found, missing = [], []
    for name, aliases in {**spec.columns, "target": TARGET}.items():
        place = next((at[_plain(n)] for n in (name, *aliases) if _plain(n) in at), None)
        if place is None:
            missing.append(name)
        else:
            found.append(place)
    if missing:
        raise ValueError(
            f"{where} has no column for {', '.join(missing)}; it has {', '.join(header)}"
        )
    return found[:-1], found[-1]


def _number(cell: object) -> float:
    """A cell as a number; nan if it is empty, "?" or whatever else stands for nothing."""
    if isinstance(cell, str):
        cell = cell.strip()
        return float(cell) if cell not in ("", "?") else float("nan")
    try:
        return float(cell)  # type: ignore[arg-type]
    except TypeError:  # None, or pandas' NA
        return float("nan")


def _read_csv(path: Path, spec: FetchedDataset) -> tuple[Array, list[str]]:
    # Row by row into flat arrays: the full credit card file as lists of text would take a gigabyte.
    values, labels = array("d"), []
    opener: Any = gzip.open if path.suffix == ".gz" else open
    # "sig": the signature some put in front of UTF-8 would become part of the first name.
    with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        features, target = _positions(next(reader, []), spec, path.name)
        for row in reader:
            if row:
                try:
                    values.extend([_number(row[place]) for place in features])
                    labels.append(row[target])
                except (IndexError, ValueError) as error:
                    raise ValueError(f"{path.name}, line {reader.line_num}: {error}") from error
    return np.array(values).reshape(-1, len(features)), labels


def _read_parquet(path: Path, spec: FetchedDataset) -> tuple[Array, list[object]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{path.name} can only be read with pyarrow: pip install pyarrow, or save the file as "
            f"{path.stem}.csv ({error})"
        ) from error
    table = parquet.read_table(path)
    features, target = _positions(table.column_names, spec, path.name)
    columns = [_numbers(table.column(place).to_pylist()) for place in features]
    return np.column_stack(columns), table.column(target).to_pylist()


def _numbers(cells: Any) -> Array:
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_number(cell) for cell in cells])


def read_file(path: Path, spec: FetchedDataset, verify: bool) -> Table:
    """The table in a CSV or Parquet file; with ``verify`` its sum is checked where it is known."""
    expected = spec.sha256.get(path.name)
    source = f"file {path}"
    if expected is not None and verify:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise ValueError(
                f"{path} is not the file it should be: its sha256 is {found} instead of "
                f"{expected}. It is damaged or of another version; get it again, or pass "
                "verify=False to use it as it is"
            )
        source += " (sha256 as expected)"
    elif expected is not None:
        source += " (sha256 not checked)"
    read = _read_parquet if path.suffix == ".parquet" else _read_csv
    X, labels = read(path, spec)
    return Table(X, labels, source)


def fetch_from_openml(spec: FetchedDataset) -> Table:
    """The table from OpenML, or from what scikit-learn keeps of it."""
    from sklearn.datasets import fetch_openml

    # pandas parses much faster but need not be installed; the other parser needs nothing. No types
    # for pandas: scikit-learn 1.9 fails on classes that pandas 3.1 takes for numbers.
    options: dict[str, Any] = {"parser": "liac-arff"}
    if find_spec("pandas") is not None:
        options = {"parser": "pandas", "read_csv_kwargs": {"dtype": None}}
    bunch = fetch_openml(data_id=spec.openml_id, as_frame=False, **options)
    where = f"OpenML's data set {spec.openml_id}"
    features, _ = _positions([*bunch.feature_names, "target"], spec, where)
    X = np.column_stack([_numbers(bunch.data[:, place]) for place in features])
    return Table(X, list(bunch.target), f"OpenML {spec.openml_id} ({spec.openml_name})")
