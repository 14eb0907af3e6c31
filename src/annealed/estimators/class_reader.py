"""What a model of several classes says about rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from annealed.divergences import Array
from annealed.estimators.chunked_rows import ChunkedRows, by_chunk, in_chunks
from annealed.estimators.class_learner import ClassLearner, ClassSettings
from annealed.estimators.codevectors import consistent
from annealed.estimators.explaining import Reason, codevector_shares, explain_rows
from annealed.estimators.streaming import StreamingEstimator
from annealed.fine_tuning.model import as_annealed
from annealed.fine_tuning.scoring import Candidate
from annealed.fine_tuning.stream_tuner import Answering
from annealed.fine_tuning.units import GIVEN
from annealed.fine_tuning.vote import Vote, Voter
from annealed.kernels import is_foreign, kernel_for, to_host
from annealed.path import AnnealingPath, Level
from annealed.views.names import name_features

Labels = NDArray[Any]


def right_of(
    model: ClassReader, rows: NDArray[Any], labels: Any, weights: Any
) -> tuple[float, float]:
    """The weights of the rows that are predicted right, and of all: sums."""
    right = model.predict(rows) == np.asarray(labels)
    if weights is None:
        return float(right.sum()), float(len(rows))
    return float(np.sum(weights, where=right)), float(np.sum(weights))


class ClassReader(ClassifierMixin, StreamingEstimator):
    """What a model of several classes says about rows."""

    classes_: Labels
    _learner: ClassLearner

    @abstractmethod
    def _settings(self) -> ClassSettings:
        """What of the parameters a learner needs to know."""

    @property
    def path_(self) -> AnnealingPath:
        """Every finished level, hottest first; classes are indices into ``classes_``."""
        check_is_fitted(self)
        return self._learner.path(self.classes_)

    @property
    def _model(self) -> Level:
        check_is_fitted(self)
        return self._as_given(self._answering().level)

    def _as_given(self, level: Level) -> Level:
        return self._learner.as_given(level)

    def _rows_to_read(self, X: ArrayLike) -> NDArray[Any]:
        """Rows in the units they are compared in."""
        rows = super()._rows_to_read(X)
        return self._learner.in_units(rows)

    def _as_compared(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows, or codevectors, of the units given in those they are compared in."""
        return self._learner.in_units(rows)

    def _codevector_shares(self, rows: NDArray[Any]) -> Array:
        """The part of every codevector in the answer for every row, before calibration."""
        return codevector_shares(self._learner, self._answering(), self._as_compared(rows))

    def _answering(self) -> Vote:
        """The model that answers."""
        return self._learner.answering(self._settings())

    @property
    def feature_relevances_(self) -> Array:
        """How much each feature counts in the divergence, one on average."""
        check_is_fitted(self)
        relevances = self._answering().relevances
        return np.ones(self.n_features_in_) if relevances is None else relevances

    @property
    def feature_units_(self) -> str:
        """The units in which features are compared."""
        check_is_fitted(self)
        return GIVEN if self._learner.units is None else self._learner.units.name

    @property
    def voters_(self) -> tuple[Voter, ...]:
        """Who predicts, by falling share."""
        check_is_fitted(self)
        return () if self._learner.tuner is None else self._learner.tuner.voters

    @property
    def codevector_voters_(self) -> NDArray[np.int64]:
        """The voter each codevector belongs to."""
        check_is_fitted(self)
        return self._answering().membership

    @property
    def candidates_(self) -> tuple[Candidate, ...]:
        """What was tried on rows not learnt."""
        check_is_fitted(self)
        return () if self._learner.tuner is None else self._learner.tuner.candidates

    @property
    def chosen_(self) -> Candidate | None:
        """What predicts, with an estimate of how well."""
        check_is_fitted(self)
        return None if self._learner.tuner is None else self._learner.tuner.chosen

    @property
    def answering_(self) -> Answering:
        """Who answers, and since which sample of the stream."""
        check_is_fitted(self)
        return self._learner.who_answers

    def _score_of_loss(self, loss: float) -> float:
        return 1.0 - loss

    @property
    def codevector_labels_(self) -> Labels:
        """Class of every codevector."""
        return self._labels_of_classes(self._model.classes)

    @by_chunk
    @consistent
    def transform(self, X: ArrayLike) -> Array:
        """Divergences of every row to every codevector, features weighed by their relevances."""
        rows, kernel = self._rows_to_read(X), kernel_for(self._fitted_divergence)
        return np.hstack(
            [
                kernel.divergences(rows, voter.level.codevectors, voter.relevances)
                for voter in self._answering().voters
            ]
        )

    @by_chunk
    @consistent
    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities in the order of ``classes_``, shape (n_samples, n_classes)."""
        return self._posterior_of(self._rows_to_read(X))

    def _posterior_of(self, rows: NDArray[Any]) -> Array:
        place = np.searchsorted(self.classes_, np.array(self._learner.labels))
        posterior = np.zeros((len(rows), len(self.classes_)))
        posterior[:, place] = self._answering().posterior(self._fitted_divergence, rows, len(place))
        return posterior

    @by_chunk
    @consistent
    def predict(self, X: ArrayLike) -> Labels:
        """The likeliest class of every row: always the argmax of `predict_proba`."""
        likeliest = self._posterior_of(self._rows_to_read(X)).argmax(axis=1)
        labels: Labels = self.classes_[likeliest]
        return labels

    @consistent
    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows whose class is the predicted one."""
        if in_chunks(X):
            return self._score_in_chunks(X, y, sample_weight)
        if not (self._takes_arrays and is_foreign(X)):
            return float(super().score(X, y, sample_weight))
        y, weights = (to_host(each) if is_foreign(each) else each for each in (y, sample_weight))
        told = self.classes_[self._posterior_of(self._rows_to_read(X)).argmax(axis=1)]
        return float(accuracy_score(y, told, sample_weight=weights))

    def _score_in_chunks(self, X: Any, y: Any, sample_weight: Any) -> float:
        rows, reader = ChunkedRows(X), self._for_reading(X, whole=False)
        beside = rows.beside(y, "y"), rows.beside(sample_weight, "sample_weight")
        right, mass = rows.sums(right_of, reader, "score", *beside)
        if not mass > 0:
            raise ValueError("all sample weights are zero: there is nothing to score")
        return float(right / mass)

    @consistent
    def explain(self, X: Any, *, n_codevectors: int = 3, n_features: int = 3) -> list[Reason]:
        """Why rows are what they are predicted to be: which codevectors decided, and what moved it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or one row, or one sample as a dict
        n_codevectors : int, default=3
            At most so many reasons for each row, those with the largest shares.
        n_features : int, default=3
            Features named in each.

        Returns
        -------
        list of annealed.estimators.explaining.Reason
            A table, row by row: ``pandas.DataFrame(model.explain(X))`` shows it as one, and each
            line has words of its own (``print``).

        Examples
        --------
        >>> from annealed import ODAClassifier
        >>> from sklearn.datasets import load_iris
        >>> iris = load_iris(as_frame=True)
        >>> model = ODAClassifier(random_state=0).fit(iris.data, iris.target)
        >>> first = model.explain(iris.data[:1])[0]
        >>> int(first.label), int(first.codevector_label), len(first.features)
        (0, 0, 3)
        """
        for name, value in (("n_codevectors", n_codevectors), ("n_features", n_features)):
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        check_is_fitted(self)
        if isinstance(X, Mapping) or np.ndim(X) == 1:
            rows = self._learner.in_units(self._checked_row(X))
        else:
            rows = self._rows_to_read(X)
        return explain_rows(
            self._learner,
            self._settings(),
            rows,
            self._posterior_of(rows),
            self.classes_,
            name_features(getattr(self, "feature_names_in_", None), rows.shape[1]),
            int(n_codevectors),
            int(n_features),
        )

    @by_chunk
    @consistent
    def score_samples(self, X: ArrayLike) -> Array:
        """Log density of every row under the mixture of all classes.

        Of the level as it was annealed: fine-tuning draws borders between classes, not densities.
        ``log sum_c prior_c sum_{i in c} rho_i exp(-d(x, mu_i)/T)``, normalised for the squared
        Euclidean and Mahalanobis divergences (a mixture of Gaussians of variance T/2). For the
        others the constant has no closed form and is left out: compare samples, not models.
        """
        given, learner = super()._rows_to_read(X), self._learner
        rows, level = learner.in_units(given), learner.annealed_level()
        log_weight = as_annealed(level, learner.log_prior(self._settings())).bias
        log_total = kernel_for(learner.divergence).associate(
            rows, level.codevectors, log_weight, level.temperature, level.classes,
            len(learner.labels),
        )[1]  # fmt: skip
        density = self._log_density(log_total, level.temperature)
        return density if learner.units is None else density + learner.units.log_slope(given)

    def _labels_of_classes(self, classes: NDArray[Any]) -> Labels:
        labels: Labels = np.array(self._learner.labels)[classes]
        return labels

    def _label_of_class(self, c: int) -> Any:
        return self._learner.labels[c]
