"""What the page is about: a path, and whatever is known of the data and the model in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.views.names import name_classes, name_features

if TYPE_CHECKING:
    from annealed.path import AnnealingPath, Level

Integers = NDArray[np.int64]
Inverse = Callable[[Array], ArrayLike]


class PersistenceLike(Protocol):
    """What `annealed.annealing.n_clusters.Persistence` has that the page shows."""

    n_clusters: int
    plateau: Array
    required: Array


@dataclass(frozen=True, eq=False)
class ModelInUse:
    """The model that answers, an estimator or a level that was asked for (``model`` is then None).

    Codevectors of several levels that vote stand one after the other: ``membership`` says whose
    they are, the first voter's first. ``nodes`` are their places in the tree (-1: in none), None
    where a model does not say. ``clusters`` are -1 for codevectors in none.
    """

    model: Any
    temperature: float
    codevectors: Array
    weights: Array
    classes: Integers
    clusters: Integers
    nodes: list[int] | None
    voters: tuple[Any, ...]
    membership: Integers
    #: the codevector of the model that every row belongs to most
    codevector_of: Callable[[Array], Integers]

    @property
    def n_clusters(self) -> int:
        """Clusters of the model."""
        return int(self.clusters.max()) + 1

    @property
    def joined(self) -> bool:
        """Whether clusters are made of several codevectors."""
        return self.n_clusters < len(self.clusters)

    @property
    def leading(self) -> slice:
        """Its codevectors, or of several voters those of the one with the largest share."""
        return slice(int(np.count_nonzero(self.membership == 0)))


@dataclass(frozen=True, eq=False)
class PageInputs:
    """Checked input of the page.

    ``X`` is in the units the model learnt, ``inverse`` takes such rows to the original units of
    ``features``; ``shares`` says which of these are shares of a category. Rows are compared as
    ``compared`` gives them. ``drawn_from`` is of how many rows ``X`` is a sample, if it is one, and
    ``row_numbers`` are the numbers that its rows are known by.
    """

    path: AnnealingPath
    X: Array | None
    labels: list[str] | None
    classes: NDArray[np.int64] | None
    row_numbers: Integers
    features: list[str]
    shares: list[bool]
    class_names: list[str]
    divergence: BregmanDivergence
    inverse: Inverse | None
    compared: Callable[[Array], Array]
    use: ModelInUse | None
    persistence: PersistenceLike | None
    score_name: str | None
    title: str
    drawn_from: int | None

    def divergences(self, rows: Array, codevectors: Array) -> Array:
        """Of every row from every codevector, as the model compares them."""
        return self.divergence.pairwise(self.compared(rows), self.compared(codevectors))

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
    row_numbers: Sequence[int] | None,
) -> PageInputs:
    """Read a path, a fitted estimator, a pipeline that ends with one, or a `TabularModel`."""
    shares: list[bool] | None = None
    if hasattr(model, "preprocessor_"):
        shares = model.preprocessor_.shares_out_.tolist()
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
    features = name_features(feature_names, _width(d, feature_names, inverse))
    used_divergence = get_divergence(_find_divergence(model, divergence))
    compared = getattr(model, "_as_compared", np.asarray)
    return PageInputs(
        path=path,
        X=rows,
        labels=None if y is None else _name_labels(y, classes, names),
        classes=classes,
        row_numbers=_checked_numbers(row_numbers, rows),
        features=features,
        shares=[False] * len(features) if shares is None else shares,
        class_names=names,
        divergence=used_divergence,
        inverse=inverse,
        compared=compared,
        use=_find_use(model, path, n_codevectors, used_divergence),
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


def _checked_numbers(numbers: Sequence[int] | None, rows: Array | None) -> Integers:
    n = 0 if rows is None else len(rows)
    found = np.arange(n) if numbers is None else np.asarray(numbers, dtype=np.int64)
    if found.shape != (n,):
        raise ValueError(f"{len(found)} row numbers were given for {n} rows")
    return found


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


def _find_use(
    model: Any, path: AnnealingPath, n_codevectors: int | None, divergence: BregmanDivergence
) -> ModelInUse | None:
    if n_codevectors is not None:
        level = path.codebook(n_codevectors)

        def nearest(rows: Array) -> Integers:
            return likeliest(level, divergence.pairwise(rows, level.codevectors))

        everyone = np.arange(level.n_codevectors)
        return ModelInUse(
            None, level.temperature, level.codevectors, level.weights, level.classes, everyone,
            level.nodes.tolist(), (), np.zeros_like(everyone), nearest,
        )  # fmt: skip
    if model is path:
        return None
    codevectors = np.asarray(model.codevectors_)
    everyone, nodes = np.arange(len(codevectors)), getattr(model, "nodes_", None)
    return ModelInUse(
        model,
        float(model.temperature_),
        codevectors,
        np.asarray(model.weights_),
        _classes_of_codevectors(model, everyone),
        np.asarray(getattr(model, "codevector_clusters_", everyone)),
        None if nodes is None else np.asarray(nodes).tolist(),
        tuple(getattr(model, "voters_", ())),
        np.asarray(getattr(model, "codevector_voters_", np.zeros_like(everyone))),
        lambda rows: np.asarray(model._codevector_shares(rows).argmax(axis=1)),
    )


def _classes_of_codevectors(model: Any, everyone: Integers) -> Integers:
    if not hasattr(model, "codevector_labels_"):
        return np.zeros_like(everyone)
    return np.asarray(np.searchsorted(model.classes_, model.codevector_labels_))


def likeliest(level: Level, divergences: Array) -> Integers:
    """The codevector each row is associated with most: argmax of rho_i exp(-d(x, mu_i)/T)."""
    energy = divergences - level.temperature * level.log_weights
    return np.asarray(energy.argmin(axis=1))


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
