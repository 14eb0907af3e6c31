"""What the page is about: a path, and whatever is known of the data and the model in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.views.lineage import leading_voter
from annealed.views.names import name_classes, name_features

if TYPE_CHECKING:
    from annealed.path import AnnealingPath

Inverse = Callable[[Array], ArrayLike]


class PersistenceLike(Protocol):
    """What `annealed.annealing.n_clusters.Persistence` has that the page shows."""

    n_clusters: int
    plateau: Array
    required: Array


@dataclass(frozen=True, eq=False)
class ModelInUse:
    """The model in use: its temperature (0 after a polish), codevectors and places in the tree.

    ``nodes`` is None where a model does not say which places these are. Of several levels that vote
    it is the one with the largest share.
    """

    temperature: float
    codevectors: Array
    nodes: list[int] | None
    voters: int = 1
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class PageInputs:
    """Checked input of the page.

    ``X`` is in the units the model learnt, ``inverse`` takes such rows to the original units of
    ``features``. ``drawn_from`` is of how many rows ``X`` is a sample, if it is one.
    """

    path: AnnealingPath
    X: Array | None
    labels: list[str] | None
    classes: NDArray[np.int64] | None
    features: list[str]
    class_names: list[str]
    divergence: BregmanDivergence
    inverse: Inverse | None
    use: ModelInUse | None
    persistence: PersistenceLike | None
    score_name: str | None
    title: str
    drawn_from: int | None

    def original(self, rows: Array) -> Array:
        """Rows in original units; ValueError if ``inverse`` gives something else."""
        if self.inverse is None:
            return rows
        values = np.asarray(self.inverse(rows), dtype=float)
        expected = (len(rows), len(self.features))
        if values.shape != expected:
            raise ValueError(
                f"inverse gave an array of shape {values.shape} where {expected} was expected: one "
                "row for each of the rows given, one column for each feature name"
            )
        return values


def read_inputs(
    model: Any,
    X: ArrayLike | None,
    y: ArrayLike | None,
    *,
    feature_names: Sequence[Any] | None,
    class_names: Sequence[Any] | None,
    n_codevectors: int | None,
    divergence: str | BregmanDivergence | None,
    inverse: Inverse | None,
    title: str | None,
    n_rows: int | None,
) -> PageInputs:
    """Read a path, a fitted estimator, a pipeline that ends with one, or a `TabularModel`."""
    if hasattr(model, "preprocessor_"):
        model, X, y, feature_names, inverse = _inside_table_model(model, X, y)
    if hasattr(model, "steps"):
        model, X, known, inverse = _last_step(model, X, inverse)
        feature_names = known if feature_names is None else feature_names
    path = model.path_ if hasattr(model, "path_") else model
    _check_path(model, path)
    if feature_names is None:
        feature_names = getattr(X, "columns", getattr(model, "feature_names_in_", None))
    if class_names is None:
        class_names = getattr(model, "classes_", None)
    d = path[0].codevectors.shape[1]
    rows = None if X is None else _checked_rows(X, d)
    if y is not None and (rows is None or len(np.asarray(y)) != len(rows)):
        raise ValueError(
            f"y holds {len(np.asarray(y))} labels, but "
            + ("no X was given" if rows is None else f"X holds {len(rows)} rows")
        )
    n_classes = max(int(level.classes.max()) for level in path) + 1
    names = _name_classes(class_names, n_classes)
    classes = _find_classes(y, class_names, n_classes)
    return PageInputs(
        path=path,
        X=rows,
        labels=None if y is None else _name_labels(y, classes, names),
        classes=classes,
        features=name_features(feature_names, _width(d, feature_names, inverse)),
        class_names=names,
        divergence=get_divergence(_find_divergence(model, divergence)),
        inverse=inverse,
        use=_find_use(model, path, n_codevectors),
        persistence=getattr(model, "_persistence", None),
        score_name=_name_score(model, path, n_classes),
        title=title or "Annealing path",
        drawn_from=_checked_total(n_rows, rows),
    )


def _inside_table_model(
    model: Any, X: Any, y: ArrayLike | None
) -> tuple[Any, ArrayLike | None, ArrayLike | None, Sequence[Any], Inverse]:
    """The estimator of a `TabularModel`, rows as it sees them, and the way back to the table's."""
    step = model.preprocessor_
    if X is not None:
        X, labels = model.separated(X)
        y = labels if y is None else y
        X = step.transform(X)
    return model.estimator_, X, y, step.get_feature_names_out(), step.inverse_transform


def _last_step(
    pipeline: Any, X: ArrayLike | None, inverse: Inverse | None
) -> tuple[Any, ArrayLike | None, Sequence[Any] | None, Inverse | None]:
    """The model of a pipeline, rows as it sees them, what features are called, and the way back.

    Features are the pipeline's own where there is a way back to them, else those the model sees.
    """
    before, model = pipeline[:-1], pipeline[-1]
    if not len(before):
        return model, X, getattr(X, "columns", None), inverse
    names = getattr(X, "columns", getattr(before, "feature_names_in_", None))
    if X is not None:
        X = before.transform(X)
    if inverse is not None:
        return model, X, None, inverse
    if hasattr(before, "inverse_transform"):
        return model, X, names, before.inverse_transform
    named = hasattr(before, "get_feature_names_out")
    return model, X, before.get_feature_names_out() if named else None, None


def _check_path(model: Any, path: Any) -> None:
    if not hasattr(path, "ordered_splits"):
        raise TypeError(
            "a page can be made of an AnnealingPath, a fitted estimator with a path_, or a "
            f"pipeline that ends with one; got {type(model).__name__}"
        )
    if not len(path):
        raise ValueError("no level is finished yet, so there is no path to show")


def _checked_rows(X: ArrayLike, d: int) -> Array:
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ValueError(
            f"X has shape {rows.shape}, but the model was learnt from rows of {d} features: give "
            "the rows as the model saw them (scaled if it saw them scaled)"
        )
    if not len(rows):
        raise ValueError("X holds no rows; leave it out to show the codevectors alone")
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        raise ValueError(
            f"X holds {rows[row, column]} in row {row}, column {column}; fill or drop such rows"
        )
    return rows


def _checked_total(n_rows: int | None, rows: Array | None) -> int | None:
    if n_rows is not None and (rows is None or n_rows < len(rows)):
        given = "no X was given" if rows is None else f"X itself holds {len(rows)}"
        raise ValueError(f"n_rows={n_rows} says how many rows X was drawn from, but {given}")
    return n_rows


def _width(d: int, names: Sequence[Any] | None, inverse: Inverse | None) -> int:
    """How many features there are in original units: the way back to them may lead to others."""
    return d if inverse is None or names is None else len(names)


def _name_classes(names: Sequence[Any] | None, n_classes: int) -> list[str]:
    if n_classes < 2:
        return []
    if names is not None and len(names) < n_classes:
        raise ValueError(f"{len(names)} class names were given for {n_classes} classes")
    return name_classes(names, n_classes)


def _find_classes(
    y: ArrayLike | None, names: Sequence[Any] | None, n_classes: int
) -> NDArray[np.int64] | None:
    """The class index of every label (-1: unknown); None if there are no classes or no labels."""
    if y is None or n_classes < 2:
        return None
    labels = range(n_classes) if names is None else np.asarray(names).tolist()
    place = {label: c for c, label in enumerate(labels)}
    # A file of texts has "0" for what the model calls 0.
    written = {str(label): c for c, label in enumerate(labels)}
    found = [place.get(label, written.get(str(label), -1)) for label in np.asarray(y).tolist()]
    return np.array(found, dtype=np.int64)


def _name_labels(y: ArrayLike, classes: NDArray[np.int64] | None, names: list[str]) -> list[str]:
    """What each row is called: its class, or its label as a word."""
    labels = [
        label if isinstance(label, str) else "no label" if label is None else f"label {label}"
        for label in np.asarray(y).tolist()
    ]
    if classes is None:
        return labels
    return [
        names[c] if c >= 0 else label for c, label in zip(classes.tolist(), labels, strict=True)
    ]


def _find_divergence(model: Any, given: str | BregmanDivergence | None) -> str | BregmanDivergence:
    if given is not None:
        return given
    own: str | BregmanDivergence = getattr(model, "divergence", "squared_euclidean")
    return own


def _find_use(model: Any, path: AnnealingPath, n_codevectors: int | None) -> ModelInUse | None:
    if n_codevectors is not None:
        level = path.codebook(n_codevectors)
        return ModelInUse(level.temperature, level.codevectors, level.nodes.tolist())
    if model is path:
        return None
    nodes, shown = getattr(model, "nodes_", None), leading_voter(model)
    voters = getattr(model, "voters_", ())
    return ModelInUse(
        float(model.temperature_),
        np.asarray(model.codevectors_)[shown],
        None if nodes is None else np.asarray(nodes)[shown].tolist(),
        max(len(voters), 1),
        voters[0].share if voters else 1.0,
    )


def _name_score(model: Any, path: AnnealingPath, n_classes: int) -> str | None:
    """What the score of a level is; None where it says nothing that the distortion does not."""
    if n_classes < 2 or not any(np.isfinite(level.score) for level in path):
        return None
    if model is path:
        return "score"
    scoring = getattr(model, "scoring", None)
    if scoring is None:
        return "accuracy"
    return scoring if isinstance(scoring, str) else "score"
