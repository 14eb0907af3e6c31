"""What the estimators that learn from streams share: one sample at a time, reheating, merging."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from annealed.divergences import Array
from annealed.drift import DriftDetector, RunningScore, Watch
from annealed.estimators.base import SHARED_RULES, AnnealingEstimator
from annealed.estimators.chunked_rows import ChunkedRows, Drawn, rows_to_draw
from annealed.estimators.codevectors import all_or_nothing, names_of
from annealed.estimators.learner import Learner, LearnerSettings
from annealed.estimators.one_sample import (
    FastPath,
    LabelledFastPath,
    Sample,
    check_row,
    row_of,
)
from annealed.estimators.parameters import Rule, one_of
from annealed.path import Level
from annealed.stored import Key, State, require


def _is_detector(value: Any) -> bool:
    return not isinstance(value, type) and all(
        hasattr(value, name) for name in ("update", "drift_detected")
    )


STREAM_RULES: dict[str, list[Rule]] = SHARED_RULES | {
    "drift_detector": [
        one_of(None, "auto"),
        Rule(_is_detector, "a detector with `update(x)` and `drift_detected`, as river's have"),
    ],
}


class Summary(NamedTuple):
    """What stands for all that a model has learnt, when it is merged with others.

    rows : samples that it keeps, or its codevectors, in the units given
    weights : of the samples that each stands for
    labels : their classes, if there are any
    sampled : whether they are samples
    """

    rows: Array
    weights: Array
    labels: NDArray[Any] | None
    sampled: bool = False


class StreamingEstimator(AnnealingEstimator):
    """An estimator whose learner goes on as samples come."""

    _learner: Learner[Any]
    _keys: tuple[Key, ...]
    _takes_sparse = True

    @classmethod
    def check_stored(cls, state: State) -> None:
        """The learner is of the model's features."""
        if "_learner" in state:
            d = state.get("n_features_in_")
            require(state["_learner"].annealer.d == d, "the model is of another number of features")

    @abstractmethod
    def _settings(self) -> LearnerSettings:
        """What the parameters ask of the learner."""

    def _new_watch(self) -> Watch:
        given = self.drift_detector
        return Watch(DriftDetector() if isinstance(given, str) else given)

    # -- watching --------------------------------------------------------------------------------

    @property
    def alarms_(self) -> NDArray[np.int64]:
        """Samples of the stream that had been learnt at each change noticed, the latest 1000."""
        check_is_fitted(self)
        return np.array(self._learner.record.alarms, dtype=np.int64)

    @property
    def n_alarms_(self) -> int:
        """How often the stream was noticed to change."""
        check_is_fitted(self)
        return self._learner.record.n_alarms

    @property
    def running_score_(self) -> RunningScore:
        """How samples fared before they were learnt, by what the drift detector heard."""
        check_is_fitted(self)
        record = self._learner.record
        if not record.scored:
            return RunningScore(0, np.nan, np.nan)
        overall, recent = map(self._score_of_loss, (record.overall, record.recent))
        return RunningScore(record.scored, overall, recent)

    def _score_of_loss(self, loss: float) -> float:
        """A mean loss as `score` would have it."""
        return -loss

    # -- one sample at a time --------------------------------------------------------------------

    def _learn_one(self, x: Any, y: Any, w: float) -> None:
        """Learn one sample the long way, and prepare the short way for the next."""
        if not isinstance(w, (int, float, np.number)) or not 0 <= w < np.inf:
            raise ValueError(f"the weight w must be a finite non-negative number, got {w!r}")
        row = self._row_of(x)
        if "_fast_path" in self.__dict__ and (w > 0 or self._knows(y)):
            self._check_row(row)
            self._meet(y)
            self._learner.learn(
                row, self._index_of(y), np.array([float(w)]), 0, 1, self._settings()
            )
        else:
            self._learn_carefully(row, x, y, w)
        self._fast_path = self._new_fast_path()

    @all_or_nothing
    def _learn_carefully(self, row: Array, x: Sample, y: Any, w: float) -> None:
        first = not self.__sklearn_is_fitted__()
        self._parameters()
        if first:
            self.n_features_in_ = row.shape[1]
            if isinstance(x, Mapping):
                self._keys = tuple(x)
                if all(isinstance(key, str) for key in x):
                    self.feature_names_in_ = np.array(list(x), dtype=object)
        self._check_row(row)
        self._learn_checked(row, None if y is None else np.array([y]), np.array([float(w)]), first)

    def _sample_keys(self) -> tuple[Any, ...]:
        """Keys of samples that are dicts, in the order of the features."""
        names = getattr(self, "feature_names_in_", None)
        keys = getattr(self, "_keys", None) if names is None else tuple(names.tolist())
        return tuple(range(self.n_features_in_)) if keys is None else keys

    def _row_of(self, x: Sample) -> Array:
        fitted = self.__sklearn_is_fitted__()
        row = row_of(x, self._sample_keys() if fitted else None)
        if fitted and row.shape[1] != self.n_features_in_:
            raise ValueError(
                f"the sample has {row.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_}"
            )
        return row

    def _check_row(self, row: Array) -> None:
        check_row(row, self._parameters()[0], getattr(self, "feature_names_in_", None))

    def _checked_row(self, x: Sample) -> Array:
        row = self._row_of(x)
        self._check_row(row)
        return row

    def _one_ended(self) -> None:
        """A level has ended with the sample just learnt."""
        annealer, listen = self._learner.annealer, self._listener()
        before = len(annealer.unconverged)
        annealer.close_levels()
        if listen is not None:
            listen(annealer)
        self._warn_of_caps(annealer, before)
        self._fast_path = self._new_fast_path()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; they are checked when the estimator learns next."""
        self.__dict__.pop("_fast_path", None)
        super().set_params(**params)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fast_path"}

    # -- rows in chunks --------------------------------------------------------------------------

    def _drawn(self, X: Any, y: Any, sample_weight: Any, *, in_pieces: bool = False) -> Drawn:
        """Rows of an array of Dask to learn from."""
        rows, wanted = ChunkedRows(X), self._parameters()[1].wanted
        return rows.draw(
            rows_to_draw(rows.d, wanted),
            lambda: np.random.default_rng([self._seed(), 2]),
            rows.beside(y, "y"),
            rows.beside(sample_weight, "sample_weight"),
            in_pieces,
        )

    def _in_turn(self, X: Any, y: Any, sample_weight: Any) -> Iterator[tuple[Any, Any, Any]]:
        """The chunks of an array of Dask, each with its labels and weights."""
        rows = ChunkedRows(X)
        beside = rows.beside(y, "y"), rows.beside(sample_weight, "sample_weight")
        return rows.in_turn(*beside)

    def _for_reading(self, X: Any, *, whole: bool = True) -> Self:
        self._check_readable(X)
        twin = copy.copy(self)
        for name in ("labels_", "_checked"):
            twin.__dict__.pop(name, None)
        twin.callbacks = None
        twin._learner = self._reading_learner()
        twin._learner.watch = None
        if not whole:
            twin._learner.annealer.forget_levels()
        return twin

    def _reading_learner(self) -> Learner[Any]:
        """What answers, apart from the learner: one sample at a time would change it in place."""
        return self._learner.copy()

    # -- streams that change, and several streams --------------------------------------------------

    @all_or_nothing
    def reheat(self, temperature: float | None = None, *, factor: float | None = None) -> Self:
        """Go back up to a higher temperature and cool again with the samples to come.

        For streams that have changed: codevectors that split below the temperature are joined
        again, and the annealing finds what there is now. Class frequencies of before soon fade. A
        class that no more samples come of keeps its codevectors. A clustering that keeps samples
        forgets them instead, and anneals those to come from the top, whatever the temperature.

        Parameters
        ----------
        temperature : float, optional
            T to go back to. Left out together with ``factor``, the top of the ladder.
        factor : float, optional
            T to go back to as a multiple of that of the coldest level.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from annealed import ODAClustering
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = ODAClustering(4, random_state=0).partial_fit(X)
        >>> round(float(model.reheat().partial_fit(X + 9).cluster_centers_.mean()))
        9
        """
        check_is_fitted(self)
        settings = self._settings()
        self._learner = self._learner.to_continue(settings)
        annealer = self._learner.annealer
        if annealer.top is None:
            raise ValueError("the model is still warming up: there is nothing to reheat yet")
        if temperature is not None and factor is not None:
            raise ValueError("give either temperature or factor, not both")
        now = annealer.coldest
        if factor is not None:
            if not isinstance(factor, (int, float, np.number)) or not 1 < factor < np.inf:
                raise ValueError(f"factor must be a number above 1 to reheat, got {factor!r}")
            temperature = factor * now
        if temperature is None:
            temperature = annealer.top
        elif not isinstance(temperature, (int, float, np.number)) or not now < temperature < np.inf:
            raise ValueError(
                f"temperature must be a number above {now:.4g}, where the annealing stands, got "
                f"{temperature!r}"
            )
        self._learner.reheat(temperature, settings)
        self.__dict__.pop("labels_", None)
        return self

    def merge(self, other: Self, *others: Self) -> Self:
        """One model of several that were learnt on streams of the same features.

        Of streams the samples that all models keep (``recent_samples``) are learnt together, as
        `fit` would; otherwise the codevectors of all coldest levels are annealed, each with the
        weight of the samples it stands for, which loses what fine-tuning has learnt. The result has
        a path of its own and goes on learning; the models stay as they are.

        Parameters
        ----------
        other, *others : estimators of the same class
            With the same features and divergence. The parameters of this one are kept.

        Returns
        -------
        estimator

        Examples
        --------
        >>> import numpy as np
        >>> from annealed import ODAClustering
        >>> rng = np.random.default_rng(0)
        >>> here, there = (ODAClustering(None, K_max=20, random_state=0).partial_fit(
        ...     rng.normal(size=(9000, 2)) + 9 * rng.integers(0, 2, (9000, 1)) + shift)
        ...     for shift in ([0, 0], [40, 0]))
        >>> centers = here.merge(there).at(n_codevectors=4).cluster_centers_
        >>> sorted(centers.round().astype(int).tolist())
        [[0, 0], [9, 9], [40, 0], [49, 9]]
        """
        models = [self, other, *others]
        for model in models:
            self._check_mergeable(model)
        return self._merged_from([model._summary() for model in models])

    def _merged_from(self, parts: Sequence[Summary]) -> Self:
        """A model of what others are summed up by, with the parameters of this one."""
        rows, weights = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        labels = None if parts[0].labels is None else np.concatenate([part[2] for part in parts])
        joined: Self = clone(self)
        if all(part.sampled for part in parts):
            joined.fit(rows, labels, sample_weight=weights)
        else:
            joined._learn_summary(rows, labels, weights)
        for name in ("feature_names_in_", "_keys"):
            if hasattr(self, name):
                setattr(joined, name, getattr(self, name))
        joined._weigh(labels, weights)
        return joined

    def _learn_summary(self, rows: Array, labels: NDArray[Any] | None, weights: Array) -> None:
        """Learn codevectors, each with the weight of the samples it stands for."""
        self.fit(rows, labels, sample_weight=weights)

    def _check_mergeable(self, other: Any, *, features: bool = True) -> None:
        """ValueError or TypeError if the two do not fit together.

        ``features=False`` where others see to it that these are the same.
        """
        if type(other) is not type(self):
            raise TypeError(
                f"{type(self).__name__} can be merged with another {type(self).__name__} only, not "
                f"with {type(other).__name__}"
            )
        check_is_fitted(other)
        if features:
            self._check_same_features(other)
        names = [str(m._learner.divergence) for m in (self, other)]
        if names[0] != names[1]:
            raise ValueError(f"the models are of the divergences {names[0]} and {names[1]}")

    def _check_same_features(self, other: Self) -> None:
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"the models are of {self.n_features_in_} and {other.n_features_in_} features; "
                "to be merged both must have learnt from the same ones"
            )
        mine, theirs = (getattr(m, "feature_names_in_", None) for m in (self, other))
        if mine is not None and theirs is not None and mine.tolist() != theirs.tolist():
            raise ValueError(
                f"the models are of features {names_of(mine.tolist())} and "
                f"{names_of(theirs.tolist())}"
            )

    def _summary(self) -> Summary:
        """What stands for all that was learnt."""
        annealer = self._learner.annealer
        path = annealer.path()
        total = np.array([state.total_weight for state in annealer.classes])
        kept = self._learner.samples_kept()
        if kept is not None:
            rows, classes, weights = kept
            labels = self._labels_of_classes(classes)
            each = np.bincount(classes, weights, minlength=len(total))
            if ((each > 0) | (total == 0)).all():  # of every class there are some
                return Summary(
                    rows, weights * (total / np.maximum(each, 1e-300))[classes], labels, True
                )
        level = path[-1] if path else annealer.model()
        return Summary(
            self._as_given(level).codevectors,
            level.weights * total[level.classes],
            self._labels_of(level),
        )

    def _as_given(self, level: Level) -> Level:
        """A level in the units given."""
        return level

    def _labels_of(self, level: Level) -> NDArray[Any] | None:
        return self._labels_of_classes(level.classes)

    def _labels_of_classes(self, classes: NDArray[Any]) -> NDArray[Any] | None:
        return None

    def _weigh(self, labels: NDArray[Any] | None, weights: Array) -> None:
        """Let every class weigh as much as the samples its codevectors stand for."""
        annealer = self._learner.annealer
        own = [
            slice(None) if labels is None else labels == self._label_of_class(c)
            for c in range(len(annealer.classes))
        ]
        annealer.set_class_weights([float(weights[mine].sum()) for mine in own])

    def _label_of_class(self, c: int) -> Any:
        return None

    @abstractmethod
    def _learn_checked(
        self, rows: NDArray[Any], labels: NDArray[Any] | None, weights: Array | None, first: bool
    ) -> None:
        """Learn rows in the order they come, all checked; ``first``: of all."""

    @abstractmethod
    def _knows(self, y: Any) -> bool:
        """Whether a sample of this class brings nothing new."""

    @abstractmethod
    def _index_of(self, y: Any) -> NDArray[np.int32] | None:
        """The class of one sample."""

    @abstractmethod
    def _new_fast_path(self) -> FastPath | LabelledFastPath:
        """What the next samples may do without."""
