"""A table in, a model out: preprocessing and an estimator that learn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from annealed.divergences import BUILT_IN, BregmanDivergence, get_divergence
from annealed.estimators import ODAClassifier, ODAClustering
from annealed.estimators.codevectors import CodevectorEstimator
from annealed.estimators.streaming import StreamingEstimator
from annealed.stored import State, require
from annealed.tables.columns import Floats, is_missing, short_list
from annealed.tables.dask_frames import ChunkedTable, in_partitions, score_of
from annealed.tables.files import TableError, TableFile, draw, rows_to_learn, stored_table
from annealed.tables.preprocessing import TablePreprocessor
from annealed.tables.targets import ClassIndex, classes_in, names_in, take_out

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any] | Sequence[Any]

# What is read off the estimator as it stands.
DELEGATED = (
    "alarms_", "answering_", "candidates_", "chosen_", "classes_", "codevector_clusters_",
    "codevector_labels_", "codevector_voters_", "feature_relevances_", "feature_units_", "labels_",
    "n_alarms_", "n_clusters_", "n_clusters_margin_", "path_", "plausible_n_clusters_",
    "running_score_", "temperature_", "voters_", "weights_",
)  # fmt: skip


def _can(method: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Offer a method only if the estimator has it."""

    def check(self: TabularModel) -> bool:
        inner = self.__dict__.get("estimator_", self.estimator)
        if inner is None:  # either of ours
            inner = ODAClassifier
        getattr(inner, method)
        return True

    decorator: Callable[[Callable[..., Any]], Callable[..., Any]] = available_if(check)
    return decorator


class TabularModel(BaseEstimator):
    """Learn from tables: `TablePreprocessor` and an estimator as one model.

    Parameters
    ----------
    estimator : estimator or None, default=None
        What learns; None takes `ODAClassifier` where there is a target and `ODAClustering` where
        there is none, both with ``random_state=0``.
    standardize, unknown, kinds, max_categories
        As in `TablePreprocessor`.

    Attributes
    ----------
    preprocessor_ : TablePreprocessor
    estimator_ : estimator
    target_name_ : str or None
        The column that was the target, if it was given by its name.
    codevectors_, cluster_centers_ : ndarray of shape (K, n_features_out)
        In the units of the table: numbers as they were, for texts the share of each category.
        ``estimator_.codevectors_`` has them as they are compared.
    feature_names_out_ : ndarray of str
        What the columns of ``codevectors_`` are; `codevectors_to_frame` puts the two together.
    alarms_, answering_, candidates_, chosen_, classes_, codevector_clusters_, codevector_labels_, \
codevector_voters_, feature_relevances_, feature_units_, labels_, n_alarms_, n_clusters_, \
n_clusters_margin_, path_, plausible_n_clusters_, running_score_, temperature_, voters_, weights_
        Those of ``estimator_``, where it has them.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn: of the table, the target left out.

    Examples
    --------
    >>> from annealed import TabularModel
    >>> rows = [{"cm": k % 7, "colour": "red" if k % 7 < 3 else "blue"} for k in range(70)]
    >>> model = TabularModel().fit(rows, ["small" if row["cm"] < 3 else "large" for row in rows])
    >>> model.predict_one({"colour": "red", "cm": 1.0})
    'small'
    """

    preprocessor_: TablePreprocessor
    estimator_: Any
    target_name_: str | None

    @classmethod
    def check_stored(cls, state: State) -> None:
        """The estimator is one of ours, and gets the features that the preprocessing gives."""
        if "estimator_" in state:
            estimator = state["estimator_"]
            ours = isinstance(estimator, CodevectorEstimator)
            require(ours, "a model of tables has no estimator")
            require("preprocessor_" in state, "a model of tables has no preprocessing")
            width = len(state["preprocessor_"].get_feature_names_out())
            require(
                estimator.n_features_in_ == width, "preprocessing gives another number of features"
            )

    def __init__(
        self,
        estimator: Any = None,
        *,
        standardize: bool = True,
        unknown: str = "auto",
        kinds: Mapping[str, str] | None = None,
        max_categories: int = 30,
    ) -> None:
        self.estimator = estimator
        self.standardize = standardize
        self.unknown = unknown
        self.kinds = kinds
        self.max_categories = max_categories

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Learn a whole table.

        A table that is not in memory is read in batches, and only in the columns used. What columns
        are is seen in all of it; beyond 200,000 rows (or 20 million cells) so many rows are drawn
        at random, by the ``random_state`` of the estimator, and learnt.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, list of dicts, or array; or what is not in memory: \
a dataset of pyarrow, a DataFrame of Dask, the name of a file that ``annealed fit`` can read or of \
a folder of Parquet files
        y : array-like, or the name of a column of X, or None
            Of a table that is not in memory the name.
        **options
            For the estimator, for example ``sample_weight``.

        Returns
        -------
        self
        """
        stored, drawn_from = stored_table(X), None
        if stored is not None:
            X, y, target, drawn_from = self._drawn(stored, y, options)
        else:
            if in_partitions(X):
                _check_stored_call(y, options)
                drawn = ChunkedTable(X).drawn(y, self._seed_of_draw())
                X, weights, drawn_from = drawn.rows, drawn.weights, drawn.total
                options = {} if weights is None else {"sample_weight": weights}
            X, y, target = _without_target(X, y)
        step = self._new_preprocessor()
        rows = step.fit(X).transform(X)
        estimator = self._new_estimator(y)
        check_domain(estimator, rows, step)
        estimator.fit(rows, y, **options)
        if drawn_from is not None:
            estimator.__dict__.pop("labels_", None)  # they would be those of the rows drawn
        self._set(step, estimator, target)
        if drawn_from is not None:
            self._stand_for(len(rows), drawn_from)
        return self

    def _drawn(
        self, file: TableFile, y: Any, options: Mapping[str, Any]
    ) -> tuple[Any, NDArray[Any] | None, str | None, int]:
        """Rows of a table that is not in memory, their classes, the target's name, all its rows."""
        _check_stored_call(y, options)
        if y is not None:
            file.check_columns([y])
        columns = [name for name in file.names if name != y]
        wanted = columns if y is None else [*columns, y]
        # The target is read as it stands: what it is, is decided when it is looked at as classes.
        survey = file.survey(
            wanted, {**(self.kinds or {}), **({} if y is None else {y: "category"})}
        )
        if not survey.rows:
            raise TableError(f"{file.path} has no rows")
        most = rows_to_learn(survey.kinds, columns)
        table = draw(file, wanted, survey, most=most, seed=self._seed_of_draw())
        if y is None:
            return table, None, None, survey.rows
        cells = table.column(y).to_pylist()
        missing = sum(map(is_missing, cells))
        if missing:
            raise TableError(
                f"{file.path}: the target {y!r} is missing in {missing} of {len(cells)} rows; "
                "filter the dataset first"
            )
        as_texts = file.typed and isinstance(cells[0], str)
        labels = classes_in(cells, y, as_texts=as_texts)
        return table.select(columns), labels, y, survey.rows

    def _stand_for(self, drawn: int, total: int) -> None:
        """Where models are merged, or learn on, let the rows that were drawn count as all."""
        if isinstance(self.estimator_, StreamingEstimator):
            self.estimator_._learner.annealer.stand_for(drawn, total)

    def _seed_of_draw(self) -> int:
        """By which rows of a table that is not in memory are drawn."""
        seed = getattr(self.estimator, "random_state", None)
        return int(seed) if isinstance(seed, int | np.integer) else 0

    def partial_fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Learn rows in the order they come, each once; the first call begins a stream.

        Means and spreads run along, and every row is scaled by what is known once it is learnt. How
        a stream is cut into calls cannot be seen in the model. What columns are is decided by the
        first row (see `TablePreprocessor`). A table that is not in memory is learnt batch by batch;
        an error in the middle leaves what was learnt before it.
        """
        stored = stored_table(X)
        if stored is not None:
            _check_stored_call(y, options)
            for _, batch in stored.batches(stored.names):
                self.partial_fit(batch, y)
            return self
        if in_partitions(X):
            _check_stored_call(y, options)
            chunks = ChunkedTable(X)
            for part, _, _ in chunks.in_turn(chunks.nothing(), chunks.nothing()):
                self.partial_fit(part, y)
            return self
        first = not self.__sklearn_is_fitted__()
        X, y, target = _without_target(X, y)
        step = self._new_preprocessor() if first else self.preprocessor_.copy()
        rows = step.learn_transform(X)
        estimator = self._new_estimator(y) if first else self.estimator_
        check_domain(estimator, rows, step)
        estimator.partial_fit(rows, y, **options)
        self._set(step, estimator, target if first else self.target_name_)
        return self

    def learn_one(self, x: Record, y: Any = None, w: float = 1.0) -> None:
        """Learn one record, a dict in any order of its keys or an array, of weight w.

        The first record says what columns there are. Later ones may lack some of them: a number
        that is missing is taken for its running mean (after `fit` for the median), a text that is
        missing is a category of its own. Keys that are new are left out. (``unknown="error"``
        refuses both.)
        """
        first = "estimator_" not in self.__dict__
        # A record that is refused, by whomever, has taught nobody anything.
        plain = None if first else self.preprocessor_.learn_plain(x)
        if plain is not None and hasattr(self.estimator_, "learn_one"):
            try:
                self.estimator_.learn_one(plain, y, w)
            except BaseException:
                self.preprocessor_.take_back()
                raise
            return
        if plain is not None:
            self.preprocessor_.take_back()
        step = self._new_preprocessor() if first else self.preprocessor_.copy()
        z = step.learn_one(x)
        estimator = self._new_estimator(y) if first else self.estimator_
        if hasattr(estimator, "learn_one"):
            estimator.learn_one(z, y, w)
        else:
            labels = None if y is None else np.array([y])
            estimator.partial_fit(z[None, :], labels, sample_weight=np.array([w]))
        if first:
            self._set(step, estimator, None)
        else:
            self.preprocessor_ = step

    def _new_preprocessor(self) -> TablePreprocessor:
        return TablePreprocessor(
            standardize=self.standardize, unknown=self.unknown, kinds=self.kinds,
            max_categories=self.max_categories,
        )  # fmt: skip

    def _new_estimator(self, y: Any) -> Any:
        if self.estimator is not None:
            return clone(self.estimator)
        return ODAClustering(random_state=0) if y is None else ODAClassifier(random_state=0)

    def _set(self, step: TablePreprocessor, estimator: Any, target: str | None) -> None:
        self.preprocessor_, self.estimator_, self.target_name_ = step, estimator, target

    # -- reading -------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def separated(self, X: Any) -> tuple[Any, NDArray[Any] | None]:
        """A table without the target, and the target; None if it does not have that column."""
        check_is_fitted(self)
        if self.target_name_ is not None and self.target_name_ in (names_in(X) or ()):
            return take_out(X, self.target_name_)
        return X, None

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        if isinstance(X, Mapping) and X and all(np.ndim(cells) == 0 for cells in X.values()):
            raise ValueError(
                "X is one record, not a table; predict_one takes one, or give [record]"
            )
        rows = self.preprocessor_.transform(self.separated(X)[0])
        check_domain(self.estimator_, rows, self.preprocessor_)
        return rows

    def _row(self, x: Record) -> Floats:
        if self.target_name_ is not None and isinstance(x, Mapping) and self.target_name_ in x:
            x = {name: cell for name, cell in x.items() if name != self.target_name_}
        return self.preprocessor_.transform_one(x)

    def _answers(self, method: str, X: Any) -> NDArray[Any]:
        """What a method of the estimator says of every row, batch by batch where X is stored.

        Of a DataFrame of Dask a lazy array.
        """
        check_is_fitted(self)
        if in_partitions(X):
            lazy: NDArray[Any] = ChunkedTable(X).answers(self._for_reading(), method)
            return lazy
        stored = stored_table(X)
        answer: Callable[[Floats], NDArray[Any]] = getattr(self.estimator_, method)
        if stored is None:
            return answer(self._rows(X))
        answers = [answer(self._rows(batch)) for batch in self._batches(stored)]
        if not answers:
            raise TableError(f"{stored.path} has no rows")
        return np.concatenate(answers)

    def _for_reading(self) -> Self:
        """A copy that answers as this one does now, whatever it learns later."""
        twin: Self = clone(self)
        inner = self.estimator_._for_reading(self.estimator_.codevectors_)
        twin._set(self.preprocessor_.copy(), inner, self.target_name_)
        return twin

    def _batches(self, file: TableFile, *more: str) -> Iterator[Any]:
        """Rows of a table that is not in memory, as far as the model looks at them."""
        columns = list(getattr(self.preprocessor_, "feature_names_in_", file.names))
        file.check_columns([*columns, *more])
        kinds = dict(zip(columns, self.preprocessor_.kinds_, strict=True))
        return (batch for _, batch in file.batches([*columns, *more], kinds))

    @_can("predict")
    def predict(self, X: Any) -> NDArray[Any]:
        """Class or cluster of every row."""
        return self._answers("predict", X)

    @_can("predict_proba")
    def predict_proba(self, X: Any) -> Floats:
        """Probability of every class or cluster, shape (n_rows, n_classes)."""
        return self._answers("predict_proba", X)

    @_can("predict")
    def predict_one(self, x: Record) -> Any:
        """Class or cluster of one record; None before the first was learnt.

        Keys that are missing or new are taken as in `learn_one`.
        """
        if not self.__sklearn_is_fitted__():
            return None
        z = self._row(x)
        if hasattr(self.estimator_, "predict_one"):
            return self.estimator_.predict_one(z)
        label = self.estimator_.predict(z[None, :])[0]
        return label.item() if isinstance(label, np.generic) else label

    @_can("predict_proba")
    def predict_proba_one(self, x: Record) -> dict[Any, float]:
        """Probability of every class or cluster for one record; empty before the first."""
        if not self.__sklearn_is_fitted__():
            return {}
        z = self._row(x)
        if hasattr(self.estimator_, "predict_proba_one"):
            shares: dict[Any, float] = self.estimator_.predict_proba_one(z)
            return shares
        found = self.estimator_.predict_proba(z[None, :])[0].tolist()
        labels = self.classes_.tolist() if self._is_classifier() else range(len(found))
        return dict(zip(labels, found, strict=True))

    @_can("score")
    def score(self, X: Any, y: Any = None, **options: Any) -> float:
        """Accuracy of a classifier, minus the mean distortion of a clustering.

        The classes are in the column that was learnt, unless ``y`` says otherwise.
        """
        check_is_fitted(self)
        if y is None and self._is_classifier():
            if self.target_name_ is None:
                raise ValueError(
                    "score needs the classes of the rows, or the name of their column: score(X, y)"
                )
            y = self.target_name_
        stored = stored_table(X)
        if stored is not None:
            _check_stored_call(y, options)
            return self._score_of(stored, y)
        if in_partitions(X):
            _check_stored_call(y, options)
            total, rows = ChunkedTable(X).sums(score_of, (self._for_reading(), y), "score")
            return float(total / rows)
        if isinstance(y, str):
            X, y, _ = _without_target(X, y)
        return float(self.estimator_.score(self._rows(X), y, **options))

    def _score_of(self, file: TableFile, y: str | None) -> float:
        """The score of a table that is not in memory: the mean over its rows, batch by batch."""
        total, rows = 0.0, 0
        if self._is_classifier():
            assert y is not None
            index_of = ClassIndex(self.classes_, file.decimal)
            for batch in self._batches(file, y):
                truth = [index_of(cell) for cell in batch.column(y).to_pylist()]
                answers = self.predict(batch.select([n for n in batch.schema.names if n != y]))
                total += int((np.searchsorted(self.classes_, answers) == truth).sum())
                rows += batch.num_rows
        else:
            for batch in self._batches(file):
                total += float(self.estimator_.score(self._rows(batch))) * batch.num_rows
                rows += batch.num_rows
        if not rows:
            raise TableError(f"{file.path} has no rows")
        return total / rows

    @_can("score_samples")
    def score_samples(self, X: Any) -> Floats:
        """Log density of every row."""
        return self._answers("score_samples", X)

    @_can("transform")
    def transform(self, X: Any) -> Floats:
        """Divergences of every row to every codevector, shape (n_rows, K)."""
        return self._answers("transform", X)

    @_can("at")
    def at(self, **where: Any) -> Self:
        """The fitted model at another level of its path, without refitting.

        By ``temperature=``, ``n_codevectors=`` or, of clusterings, ``n_clusters=``.
        """
        check_is_fitted(self)
        twin: Self = clone(self)
        level = self.estimator_.at(**where)
        twin._set(self.preprocessor_.copy(), level, self.target_name_)
        return twin

    @_can("merge")
    def merge(self, other: Self, *others: Self) -> Self:
        """One model of several that were learnt on tables, or streams, of the same columns.

        Means, spreads and categories become those of all rows together; then the codevectors of
        all, in these units, are annealed as in the estimator's own ``merge``.

        Parameters
        ----------
        other, *others : TabularModel
            With the same columns, in any order, and estimators of the same class and divergence.
            The parameters of this one are kept.

        Returns
        -------
        TabularModel
            It goes on learning; the models it was made of stay as they are.
        """
        models = [self, other, *others]
        for model in models:
            self._check_mergeable(model)
        step = self.preprocessor_.merge(*(model.preprocessor_ for model in models[1:]))
        parts = []
        for model in models:
            part = model.estimator_._summary()
            parts.append(part._replace(rows=model.preprocessor_.vectors_for(step, part.rows)))
        joined: Self = clone(self)
        names = (model.target_name_ for model in models if model.target_name_ is not None)
        joined._set(step, self.estimator_._merged_from(parts), next(names, None))
        return joined

    def _check_mergeable(self, other: Any) -> None:
        """ValueError or TypeError if the two do not fit together."""
        if type(other) is not type(self):
            raise TypeError(
                f"{type(self).__name__} can be merged with another {type(self).__name__} only, not "
                f"with {type(other).__name__}"
            )
        check_is_fitted(other)
        self.preprocessor_._check_mergeable(other.preprocessor_)
        self.estimator_._check_mergeable(other.estimator_, features=False)
        targets = self.target_name_, other.target_name_
        if None not in targets and targets[0] != targets[1]:
            raise ValueError(f"the models are of the targets {targets[0]!r} and {targets[1]!r}")
        given = self.estimator_.divergence
        mine, theirs = (list(model.feature_names_out_) for model in (self, other))
        if getattr(given, "matrix", None) is not None and mine != theirs:
            raise ValueError(
                f"the models have the features {short_list(mine)} and {short_list(theirs)}, and a "
                f"{given} divergence is of one list of them"
            )

    @property
    def codevectors_(self) -> Floats:
        """The codevectors in the units of the table, shape (K, n_features_out)."""
        check_is_fitted(self)
        return self.preprocessor_.inverse_transform(self.estimator_.codevectors_)

    def codevectors_to_frame(self) -> pd.DataFrame:
        """The codevectors as a pandas DataFrame, with the names of what their columns are.

        Returns
        -------
        DataFrame
            A row for each codevector, named by its class (a classifier) or cluster; first its
            "weight", then the columns of the table in their own units. A column of texts has a
            column "name=category" for each category, its share; fine-tuned codevectors may lie a
            little beyond the data, and shares below 0 or above 1.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ImportError(
                "codevectors_to_frame() needs pandas, which is not installed: pip install pandas"
            ) from None

        check_is_fitted(self)
        names = [str(name) for name in self.feature_names_out_]
        frame = pd.DataFrame(self.codevectors_, columns=names)
        kind = "class" if self._is_classifier() else "cluster"
        if kind == "class":
            labels = self.codevector_labels_
        else:  # without clusters of their own every codevector is one
            labels = getattr(self.estimator_, "codevector_clusters_", np.arange(len(frame)))
        frame.index = pd.Index(labels, name=kind)
        weights = getattr(self.estimator_, "weights_", None)
        if weights is not None:
            frame.insert(0, "weight", weights, allow_duplicates=True)
        return frame

    @property
    def cluster_centers_(self) -> Floats:
        """Means of the clusters of a clustering in the units of the table."""
        if self._is_classifier():
            raise AttributeError("a classifier has no cluster_centers_; see codevectors_")
        check_is_fitted(self)
        return self.preprocessor_.inverse_transform(self.estimator_.cluster_centers_)

    @property
    def feature_names_out_(self) -> NDArray[np.object_]:
        """What the columns of ``codevectors_`` are."""
        check_is_fitted(self)
        return self.preprocessor_.get_feature_names_out()

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self._of_preprocessor("n_features_in_")  # type: ignore[no-any-return]

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns; arrays have none."""
        return self._of_preprocessor("feature_names_in_")  # type: ignore[no-any-return]

    def _of_preprocessor(self, name: str) -> Any:
        step = self.__dict__.get("preprocessor_")
        if step is None:
            raise AttributeError(f"{name} is known once the model has learnt")
        return getattr(step, name)

    def __getattr__(self, name: str) -> Any:
        """What is known of the estimator, where it knows it."""
        if name in ("estimator_", "preprocessor_"):  # an AttributeError too
            raise NotFittedError("this TabularModel is not fitted yet; call fit first")
        if name in DELEGATED and "estimator_" in self.__dict__:
            return getattr(self.__dict__["estimator_"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _is_classifier(self) -> bool:
        inner = self.__dict__.get("estimator_", self.estimator)
        return getattr(inner, "classes_", None) is not None

    def __sklearn_tags__(self) -> Any:
        inner = self.__dict__.get("estimator_", self.estimator)
        tags = super().__sklearn_tags__()
        if inner is not None:
            theirs = inner.__sklearn_tags__()
            tags.estimator_type = theirs.estimator_type
            tags.classifier_tags = theirs.classifier_tags
            tags.target_tags = theirs.target_tags
            tags.non_deterministic = theirs.non_deterministic
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def check_domain(estimator: Any, rows: Floats, step: TablePreprocessor) -> None:
    """Let a divergence that is not defined everywhere name the column, which only we know."""
    divergence = getattr(estimator, "divergence", "squared_euclidean")
    if divergence == "squared_euclidean" or not isinstance(divergence, (str, BregmanDivergence)):
        return
    if isinstance(divergence, str) and divergence not in BUILT_IN:  # for the estimator to refuse
        return
    get_divergence(divergence).check(rows, step.get_feature_names_out().tolist())


def _check_stored_call(y: Any, options: Mapping[str, Any]) -> None:
    """ValueError unless what is said about rows on disk is there too."""
    if y is not None and not isinstance(y, str):
        raise ValueError("X is not in memory, so give y by the name of its column")
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"X is not in memory: {given[0]} has no rows to go with")


def _without_target(X: Any, y: Any) -> tuple[Any, Any, str | None]:
    """A table without its target, the target, and its name if it was given by that."""
    if not isinstance(y, str):
        return X, y, None
    rest, values = take_out(X, y)
    missing = [row for row, value in enumerate(values.tolist()) if is_missing(value)]
    if missing:
        raise ValueError(f"row {missing[0]}, column {y!r}: the target is missing")
    return rest, values, y
