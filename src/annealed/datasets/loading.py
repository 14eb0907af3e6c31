"""Load a data set by its name, and say which are at hand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from annealed.datasets.built_in import BUILT_IN, Seed, make_built_in
from annealed.datasets.catalogue import STORED, FetchedDataset
from annealed.datasets.tables import Table, fetch_from_openml, read_file

Labels = NDArray[np.int64]
FOLDER_VARIABLE = "ANNEALED_DATA"
NAMES = (*BUILT_IN, *STORED)


# -- from a file or from OpenML ----------------------------------------------------------------


def _folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    given = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE) or None
    return None if given is None else Path(given).expanduser()


def _local_file(spec: FetchedDataset, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    return next((folder / name for name in spec.files() if (folder / name).is_file()), None)


def _how_to_get(name: str) -> str:
    spec = STORED[name]
    file = f"{spec.stems[0]}.csv"
    return (
        f"With a network, load({name!r}) fetches it once and scikit-learn keeps it. Without one, "
        f"on a machine that has a network, annealed and pandas run\n"
        f"    from annealed.datasets import load\n"
        f"    load({name!r}, as_frame=True).frame.to_csv({file!r}, index=False)\n"
        f"and put {file} into a folder here that data_home= or the environment variable "
        f"{FOLDER_VARIABLE} names. Any CSV file with one line of column names will do "
        f"({', '.join(islice(spec.columns, 3))}, ... and target, 0 or 1), OpenML's own among them "
        f"(its data set {spec.openml_id}, {spec.openml_name}), and so will Parquet."
    )


def _fetch(name: str, folder: Path | None, verify: bool, download: bool) -> Table:
    spec = STORED[name]
    path = _local_file(spec, folder)
    if path is not None:
        return read_file(path, spec, verify)
    places = f"the folder {folder} has none of {', '.join(spec.files())}"
    if folder is None:
        places = f"neither data_home= nor the environment variable {FOLDER_VARIABLE} names a folder"
    if not download:
        raise FileNotFoundError(
            f"the data set {name!r} is not here: {places}, and download_if_missing is False. "
            + _how_to_get(name)
        )
    try:
        return fetch_from_openml(spec)
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(
            f"the data set {name!r} is not here: {places}, and OpenML did not answer ({error}). "
            + _how_to_get(name)
        ) from error


def _coded(labels: Iterable[object], spec: FetchedDataset, source: str) -> Labels:
    """Labels as 0 and 1, the positive class."""
    code = {text: 0 for text in spec.negative} | {text: 1 for text in spec.positive}
    # ARFF files may put them in quotes; those stored as floating-point numbers come as "1.0".
    texts = [str(label).strip(" '").removesuffix(".0") for label in labels]
    unknown = sorted({text for text in texts if text not in code})
    if unknown:
        raise ValueError(
            f"{source} has labels {', '.join(map(repr, unknown[:5]))}; known are "
            f"{', '.join(map(repr, code))}"
        )
    return np.array([code[text] for text in texts], dtype=np.int64)


def _stored(name: str, folder: Path | None, verify: bool, download: bool) -> Bunch:
    spec = STORED[name]
    table = _fetch(name, folder, verify, download)
    X, y = table.X, _coded(table.labels, spec, table.source)
    notes = []
    incomplete = np.isnan(X).any(axis=1)
    if incomplete.any():
        if not spec.drops_missing:
            columns = np.array(list(spec.columns))[np.isnan(X).any(axis=0)]
            raise ValueError(
                f"{table.source} lacks values of {', '.join(columns)} in {incomplete.sum()} rows, "
                f"where the set as published lacks none"
            )
        X, y = X[~incomplete], y[~incomplete]
        notes.append(f"Left out for missing values: {incomplete.sum()} rows.")
    if len(X) < spec.rows:
        notes.append(
            f"This is a subset, {len(X):,} of the {spec.rows:,} rows published, and results on it "
            "are not results on the whole set."
        )
    elif len(X) > spec.rows:
        notes.append(f"It has {len(X):,} rows instead of the {spec.rows:,} published.")
    return Bunch(
        data=X,
        target=y,
        feature_names=list(spec.columns),
        target_names=list(spec.target_names),
        name=f"{name}_subset" if len(X) < spec.rows else name,
        source=table.source,
        DESCR=" ".join([spec.about, *notes]),
    )


# -- for users ---------------------------------------------------------------------------------


def load(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    verify: bool = True,
    random_state: Seed = 0,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        "gaussians", "moons", "circles" (generated); "wbcd", "wine", "digits" (from scikit-learn);
        "wbcd_original", "pima", "adult", "creditcard" (from a file or from OpenML).
    data_home : str, path-like or None, default=None
        Folder with files of your own: ``pima.csv.gz``, ``pima.csv`` or ``pima.parquet``, likewise
        ``wbcd_original``, ``adult`` and ``creditcard`` or else ``creditcard_subset``. None takes
        the environment variable ``ANNEALED_DATA``. Nothing is written there; what comes from
        OpenML lies in scikit-learn's own cache (`sklearn.datasets.get_data_home`).
    download_if_missing : bool, default=True
        Whether to ask OpenML for what is not in the folder.
    verify : bool, default=True
        Whether to compare the sha256 of files whose sum is known, and fail if it differs.
    random_state : int, RandomState instance or None, default=0
        Decides the samples of the sets that are generated; no other set depends on it.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Give data and target as pandas objects; needs pandas.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With the fields

        - data : ndarray of shape (n_samples, n_features), float64
        - target : ndarray of shape (n_samples,), int64. Of two classes, 1 is the positive one:
          malignant, diabetes, above 50K, fraud.
        - frame : DataFrame of both, or None unless ``as_frame``
        - feature_names, target_names : list of str
        - name : str. As asked for, with ``_subset`` at its end if there are fewer rows than
          published.
        - source : str. Where the data come from.
        - DESCR : str
    (data, target) : tuple
        If ``return_X_y``.

    Raises
    ------
    FileNotFoundError
        If the set is nowhere to be found; the message says how to get it.
    ValueError
        If there is no set of that name, or a file is not what it should be.

    Examples
    --------
    >>> from annealed import datasets
    >>> X, y = datasets.load("gaussians", return_X_y=True)
    >>> X.shape, int(y.sum())
    ((1500, 2), 708)
    >>> wbcd = datasets.load("wbcd")
    >>> wbcd.target_names[1], int(wbcd.target.sum())
    ('malignant', 212)
    """
    if name not in NAMES:
        raise ValueError(f"there is no data set called {name!r}; there are {', '.join(NAMES)}")
    if name in BUILT_IN:
        bunch = make_built_in(name, random_state)
    else:
        bunch = _stored(name, _folder(data_home), verify, download_if_missing)
    bunch.frame = None
    if as_frame:
        _make_frame(bunch)
    return (bunch.data, bunch.target) if return_X_y else bunch


def _make_frame(bunch: Bunch) -> None:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    bunch.target = pd.Series(bunch.target, name="target")
    bunch.frame = pd.concat([bunch.data, bunch.target], axis=1)


@dataclass(frozen=True)
class Availability:
    """Whether a data set is at hand.

    Attributes
    ----------
    name : str
    present : bool
        Whether `load` needs no network. What scikit-learn may have in its cache is not looked up.
    source : str
        Where it would come from.
    how : str
        How to get it; empty if it is present.
    """

    name: str
    present: bool
    source: str
    how: str = ""


def available(data_home: str | os.PathLike[str] | None = None) -> dict[str, Availability]:
    """What is at hand, what is missing, and how to get it.

    Parameters
    ----------
    data_home : str, path-like or None, default=None
        As in `load`.

    Returns
    -------
    dict of str to Availability
        For every name that `load` knows.

    Examples
    --------
    >>> from annealed import datasets
    >>> datasets.available()["moons"]
    Availability(name='moons', present=True, source='generated', how='')
    """
    return {name: found for name, found in _availabilities(_folder(data_home))}


def _availabilities(folder: Path | None) -> Iterator[tuple[str, Availability]]:
    for name, built_in in BUILT_IN.items():
        yield name, Availability(name, True, built_in.source)
    for name, spec in STORED.items():
        path = _local_file(spec, folder)
        if path is not None:
            yield name, Availability(name, True, f"file {path}")
        else:
            openml = f"OpenML {spec.openml_id} ({spec.openml_name})"
            yield name, Availability(name, False, openml, _how_to_get(name))
