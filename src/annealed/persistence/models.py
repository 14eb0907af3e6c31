"""Saving and loading models."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from annealed.divergences import BUILT_IN, BregmanDivergence, Mahalanobis
from annealed.persistence.answer import answer_of
from annealed.persistence.classes import ESTIMATORS, SCHEMAS
from annealed.persistence.container import (
    AnyArray,
    FileOrPath,
    ModelFileError,
    checked_open,
    parse_json,
    read_container,
    read_metadata,
    refuse,
    shown,
    write_container,
)
from annealed.persistence.decoder import Decoder
from annealed.persistence.encoder import Encoder
from annealed.persistence.schema import CannotSaveError
from annealed.persistence.whole_files import replacing
from annealed.stored import MalformedError

#: Version of what stands in the header. It changes only when files written before could no longer
#: be read as they are; new fields have defaults instead.
FORMAT = 1


def save(estimator: Any, path: FileOrPath) -> None:
    """Write an estimator, fitted or not, to one file.

    The file is in the safetensors format: arrays, and a header in JSON with everything else. It
    holds all that the estimator carries, so that one that is loaded predicts and goes on learning
    to the last bit as the saved one would have. It is written whole or not at all.

    Parameters
    ----------
    estimator : any estimator of annealed, `TabularModel` among them
    path : str, path-like or binary file
        Any name; ".oda" is customary. A file of that name is replaced. Into a file that is open (an
        `io.BytesIO`, a member of an archive, a socket) it is written where that stands; whether
        all of it arrives is then for whoever opened it.

    Raises
    ------
    ValueError
        If the estimator holds what a file cannot: a function as ``scoring``, for example. A
        divergence of your own is named in the file and given again to `load`. Callbacks are left
        out: the loaded estimator has none.
    OSError
        If the file cannot be written. What was there before is untouched then.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import os, tempfile
    >>> import annealed
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = annealed.ODAClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.oda")
    ...     annealed.save(model, path)
    ...     again = annealed.load(path)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    write_model(estimator, path, {})


def load(path: FileOrPath, divergence: BregmanDivergence | None = None) -> Any:
    """Read an estimator from a file that `save` has written, or from a checkpoint.

    Nothing in the file is executed, and nothing in it is believed: a file that was damaged, cut
    short or made to do harm is refused.

    Parameters
    ----------
    path : str, path-like or binary file
        A file that is open is read from where it stands to its end.
    divergence : BregmanDivergence, optional
        For a model with a divergence of your own, which a file can only name: the same one again.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is not a model; a ValueError that says what is wrong with it.

    See Also
    --------
    save : The way here.

    Examples
    --------
    >>> import os, tempfile
    >>> import annealed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "new.oda")
    ...     annealed.save(annealed.ODAClustering(3, gamma=0.8), path)
    ...     annealed.load(path)
    ODAClustering(gamma=0.8, n_clusters=3)
    """
    return read_model(path, divergence)[0]


def describe(path: FileOrPath) -> dict[str, Any]:
    """What the header of a model file says of it, without its arrays.

    Returns
    -------
    dict
        "estimator", "format", "libraries" (versions it was written with), "summary" and "extra".
    """
    header = _header(read_metadata(path), path)
    about = ("estimator", "format", "libraries", "summary", "extra")
    result = {name: header.get(name) for name in about}
    result["extra"] = _extra(header, path)
    return result


def write_model(estimator: Any, path: FileOrPath, extra: dict[str, Any]) -> None:
    """Write an estimator and plain values that go with it."""
    metadata, arrays = pack(estimator, extra)
    if isinstance(path, (str, os.PathLike)):
        with replacing(Path(path)) as file:
            write_container(file, metadata, arrays)
        return
    # In one piece, whatever the file makes of many. One without a buffer may take less than it is
    # given.
    whole = io.BytesIO()
    write_container(whole, metadata, arrays)
    rest = whole.getbuffer()
    while len(rest):
        rest = rest[checked_open(path, "write").write(rest) or len(rest) :]


def pack(estimator: Any, extra: dict[str, Any]) -> tuple[dict[str, str], dict[str, AnyArray]]:
    """Texts and arrays of a file that holds an estimator."""
    cls: type = type(estimator)
    name = cls.__name__
    if cls not in {schema.cls for schema in ESTIMATORS.values()}:
        raise CannotSaveError(
            f"a {name} cannot be saved as a model file, which holds one of "
            f"{', '.join(ESTIMATORS)}. Of a pipeline save the step that is one of these, or use "
            "pickle"
        )
    encoder = Encoder(SCHEMAS)
    model = encoder.encode(estimator, "")
    fitted = bool(estimator.__sklearn_is_fitted__())
    answer = encoder.encode(answer_of(estimator) if fitted else None, "answer")
    plain = Encoder({})
    header = {
        "format": FORMAT,
        "estimator": name,
        "libraries": _libraries(),
        "summary": _summary(estimator),
        "divergences": encoder.divergences,
        "answer": answer,
        "extra": plain.encode(extra, "extra"),
        "model": model,
    }
    if plain.arrays or plain.divergences:
        raise CannotSaveError("what goes with a model must be numbers, text, lists and dicts")
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    return {"format": "annealed", "annealed": text}, encoder.arrays


def _libraries() -> dict[str, str]:
    try:
        own = version("annealed")
    except PackageNotFoundError:  # run from a folder of sources
        own = "unknown"
    return {
        "annealed": own,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def _summary(estimator: Any) -> dict[str, Any]:
    """What a reader wants to know at a glance; `load` does not look at it."""
    summary: dict[str, Any] = {"fitted": bool(estimator.__sklearn_is_fitted__())}
    if not summary["fitted"]:
        return summary
    summary["n_features"] = int(estimator.n_features_in_)
    summary["n_codevectors"] = len(estimator.codevectors_)
    for name in ("feature_names_in_", "classes_"):
        values = getattr(estimator, name, None)
        if values is not None and len(values) <= 1000:
            summary[name.rstrip("_")] = [_shown(value) for value in values.tolist()]
    if hasattr(estimator, "temperature_"):
        summary["temperature"] = _shown(float(estimator.temperature_))
    return summary


def _shown(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def read_model(
    path: FileOrPath, divergence: BregmanDivergence | None
) -> tuple[Any, dict[str, Any]]:
    """The estimator in a file, and the plain values that go with it."""
    metadata, arrays = read_container(path)
    header = _header(metadata, path)
    extra = _extra(header, path)
    with _refusing(path), np.errstate(all="ignore"):
        known = _divergences(header.get("divergences"), arrays, divergence)
        model = Decoder(SCHEMAS, arrays, known).decode(header.get("model"))
        if type(model) not in {schema.cls for schema in ESTIMATORS.values()}:
            raise MalformedError("it holds no estimator")
        _rehearse(model)
    return model, extra


@contextlib.contextmanager
def _refusing(path: FileOrPath) -> Iterator[None]:
    """Whatever goes wrong in here is wrong with the file."""
    try:
        yield
    except MalformedError as error:
        refuse(path, str(error))
    except Exception as error:
        # The file was written whole (its checksum is right) but by nothing of ours. Whatever the
        # parts it is made of had to say to each other comes out here as one clean error.
        raise ModelFileError(
            f"{shown(path)} cannot be read as a model: its parts do not fit together ({error})"
        ) from error


def _header(metadata: dict[str, str], path: FileOrPath) -> dict[str, Any]:
    if "annealed" not in metadata:
        refuse(path, "its header holds no model")
    header = parse_json(metadata["annealed"].encode("utf-8", "replace"), path, "its model")
    number = header.get("format") if isinstance(header, dict) else None
    if type(number) is not int or number < 1:
        refuse(path, "its header holds no model")
    if number > FORMAT:
        raise ModelFileError(
            f"{shown(path)} was written by a newer version of annealed (format {number}, "
            f"this one reads up to {FORMAT}): update annealed"
        )
    return dict(header)


def _extra(header: dict[str, Any], path: FileOrPath) -> dict[str, Any]:
    with _refusing(path):
        extra = Decoder({}, {}).decode(header.get("extra"))
    if not isinstance(extra, dict):
        refuse(path, "what goes with its model is missing")
    return extra


def _divergences(
    entries: Any, arrays: dict[str, AnyArray], given: BregmanDivergence | None
) -> Sequence[BregmanDivergence]:
    """The divergences of a model: ours by name, a user's as it was given again."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise MalformedError("it names no divergences")
    found: list[BregmanDivergence] = []
    asked_for = False
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str):
            raise MalformedError("a divergence has no name")
        if entry.get("custom") is True:
            asked_for = True
            found.append(_given_again(name, entry.get("domain"), given))
        elif name == "mahalanobis":
            found.append(Mahalanobis(Decoder({}, arrays).decode(entry.get("matrix"))))
        elif name in BUILT_IN:
            found.append(BUILT_IN[name]())
        else:
            raise MalformedError(f"it names the divergence {name[:60]!r}, which is unknown")
    if given is not None and not asked_for:
        raise MalformedError(
            f"divergence={given!r} was given, but its model has no divergence made by a user; "
            "leave divergence out"
        )
    return found


def _given_again(name: str, domain: Any, given: BregmanDivergence | None) -> BregmanDivergence:
    if given is None:
        raise MalformedError(
            f"its model uses a divergence of the user's own making called {name!r}, and a file "
            "cannot hold functions: give it again, load(path, divergence=...)"
        )
    if not isinstance(given, BregmanDivergence):
        raise MalformedError(f"divergence must be a BregmanDivergence, got {given!r}")
    if given.name != name:
        raise MalformedError(
            f"its model uses the divergence called {name!r}, but the one given is called "
            f"{given.name!r}"
        )
    if Decoder({}, {}).decode(domain) != [given.low, given.high]:
        raise MalformedError(
            f"the divergence {name!r} that was given is defined on [{given.low:g}, "
            f"{given.high:g}], unlike that of its model"
        )
    return given


def _rehearse(estimator: Any) -> None:
    """Read once what every user reads: who gets a model can rely on it."""
    if not estimator.__sklearn_is_fitted__():
        return
    K = len(estimator.codevectors_)
    path: Any = getattr(estimator, "path_", ())
    if len(path):
        _ = path.ordered_splits, path.persistence()
    for name in ("weights_", "codevector_labels_", "updates_"):
        values = getattr(estimator, name, None)
        if values is not None and len(values) != K:
            raise MalformedError("its codevectors and their weights or labels differ in number")
    _ = getattr(estimator, "feature_relevances_", None), getattr(estimator, "temperature_", None)
