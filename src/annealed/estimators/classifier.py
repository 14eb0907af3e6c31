"""Classification: one annealing per class on a common ladder of temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from annealed.annealer import Annealer
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators.annealing import (
    SHARED_RULES,
    AnnealingEstimator,
    all_or_nothing,
    checked_weights,
    mean_one,
    names_of,
)
from annealed.estimators.parameters import one_of
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Level
from annealed.schedule import Schedule

Labels = NDArray[Any]
# Rows on which the accuracy of every level is measured after `fit`.
SCORED_ROWS = 500


class ODAClassifier(ClassifierMixin, AnnealingEstimator):
    """Classify by codevectors that carry a class, found by online deterministic annealing.

    Every class is annealed by itself on a common ladder of temperatures, and the model of a level
    is the posterior ``p(c|x) ~ prior_c sum_{i in c} rho_i exp(-d(x, mu_i)/T)``.

    Parameters
    ----------
    divergence : str or BregmanDivergence, default="squared_euclidean"
        One of "squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito",
        "logistic"; or `Mahalanobis(matrix)`; or a `BregmanDivergence` of your own.
    level : "last", default="last"
        Which level predicts after `fit`: the coldest. Any other is reached with `at`.
    fine_tune : None, default=None
        What follows the annealing: nothing.
    K_max : int, default=100
        The most codevectors a level may have, over all classes.
    T_max, T_min, gamma, split, samples_per_codevector, patience, epsilon_c, epsilon_n, \
epsilon_r, delta, alpha, alpha_min, thresholds
        As in `ODAClustering`; gamma = 0.8 and 20 samples per codevector by default, since a
        decision needs fewer levels than a count of clusters.
    priors : array-like of shape (n_classes,) or None, default=None
        Class probabilities in the order of ``classes_``; None takes those seen.
    class_weight : dict, "balanced" or None, default=None
        Factors on the class probabilities, {label: factor}; "balanced" makes all classes equally
        likely. Since classes are annealed by themselves this is all a class weight changes.
    random_state : int, RandomState instance or None, default=None
        Decides the order of presentation in `fit`.
    callbacks : list of callables or None, default=None
        Each is called with every `annealed.path.Level` as it finishes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    codevectors_ : ndarray of shape (K, n_features)
    codevector_labels_ : ndarray of shape (K,)
        The class each codevector carries.
    weights_ : ndarray of shape (K,)
        rho_i, summing to one within each class.
    temperature_ : float
    path_ : AnnealingPath
        Every level. Their scores are accuracies on at most 500 of the training rows after `fit`,
        nan in a stream.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    .. [1] C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
       Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.

    Examples
    --------
    >>> from annealed import ODAClassifier
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ODAClassifier(random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _rules = SHARED_RULES | {"level": [one_of("last")], "fine_tune": [one_of(None)]}

    def __init__(
        self,
        *,
        divergence: str | BregmanDivergence = "squared_euclidean",
        level: str = "last",
        fine_tune: None = None,
        K_max: int = 100,
        T_max: str | float = "auto",
        T_min: str | float = "auto",
        gamma: float = 0.8,
        split: str = "variance",
        samples_per_codevector: int = 20,
        patience: int = 5,
        epsilon_c: str | float = "auto",
        epsilon_n: str | float = "auto",
        epsilon_r: float = 1e-7,
        delta: str | float = "auto",
        alpha: tuple[float, float] = (1.0, 0.9),
        alpha_min: float = 0.0,
        thresholds: str = "scale_free",
        priors: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Callable[[Level], None]] | None = None,
    ) -> None:
        self.divergence = divergence
        self.level = level
        self.fine_tune = fine_tune
        self.K_max = K_max
        self.T_max = T_max
        self.T_min = T_min
        self.gamma = gamma
        self.split = split
        self.samples_per_codevector = samples_per_codevector
        self.patience = patience
        self.epsilon_c = epsilon_c
        self.epsilon_n = epsilon_n
        self.epsilon_r = epsilon_r
        self.delta = delta
        self.alpha = alpha
        self.alpha_min = alpha_min
        self.thresholds = thresholds
        self.priors = priors
        self.class_weight = class_weight
        self.random_state = random_state
        self.callbacks = callbacks

    # -- learning ------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Anneal every class of the rows of X, in random order and as often as needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels: numbers or strings.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; one of weight 0 is left out.

        Returns
        -------
        self
        """
        divergence, schedule = self._parameters()
        rows, labels = self._checked_labelled(X, y, divergence, reset=True)
        weights = mean_one(checked_weights(sample_weight, len(rows)))
        classes, index = np.unique(labels, return_inverse=True)
        self._check_weighted(classes, index, weights)
        self._check_priors(classes)
        rng = np.random.default_rng(self._seed())
        annealer = self._new_annealer(rows.shape[1], divergence, schedule, len(classes))
        annealer.anneal(rows, index.astype(np.int32), weights, rng, self._listener())
        self._annealer, self._fixed = annealer, None
        self._warn_of_caps(annealer, 0)
        self.classes_, self._seen = classes, list(classes)
        self._scores: list[float] | None = self._level_scores(rows, index, rng)
        return self

    @all_or_nothing
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X in the order they come, each once.

        However a stream is cut into calls, the model is the same to the last bit. New classes may
        appear at any time; each warms up and cools at its own pace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. They take their place in ``classes_`` before a row of theirs comes.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        divergence, schedule = self._parameters()
        rows, labels = self._checked_labelled(X, y, divergence, reset=first)
        weights = checked_weights(sample_weight, len(rows))
        known = [] if first else self._seen
        expected = unique_labels(labels, *([] if classes is None else [np.asarray(classes)]))
        all_classes = expected if first else unique_labels(self.classes_, expected)
        self._check_size(schedule, len(all_classes))
        self._check_priors(all_classes)
        if first:
            annealer = Annealer(rows.shape[1], divergence, schedule)
        else:
            annealer = self._annealer_to_continue()
        # Classes are numbered by their first row with any weight, which no chunking can change.
        present = labels if weights is None else labels[weights > 0]
        fresh, at = np.unique(present, return_index=True)
        new = [label for label in fresh[np.argsort(at)] if label not in known]
        for _ in new:
            annealer.add_class()
        seen = known + new
        place = {label: c for c, label in enumerate(seen)}
        index = np.array([place.get(label, 0) for label in labels], dtype=np.int32)
        before = len(annealer.unconverged)
        annealer.absorb(rows, index, weights, self._listener())
        self._warn_of_caps(annealer, before)
        self._annealer, self._seen, self.classes_ = annealer, seen, all_classes
        self._scores = None
        return self

    def _new_annealer(
        self, d: int, divergence: BregmanDivergence, schedule: Schedule, classes: int
    ) -> Annealer:
        self._check_size(schedule, classes)
        annealer = Annealer(d, divergence, schedule)
        for _ in range(classes):
            annealer.add_class()
        return annealer

    def _check_size(self, schedule: Schedule, classes: int) -> None:
        if classes > schedule.K_max:
            raise ValueError(
                f"K_max={schedule.K_max} is less than the {classes} classes: every class needs a "
                f"codevector, so raise K_max to at least {classes}"
            )

    def _check_priors(self, classes: Labels) -> None:
        """Raise ValueError if priors or class weights do not fit the classes."""
        if self.priors is not None:
            priors = np.asarray(self.priors, dtype=float)
            if priors.shape != (len(classes),):
                raise ValueError(
                    f"priors must have one entry for each of the {len(classes)} classes, got "
                    f"shape {priors.shape}"
                )
            if not np.isfinite(priors).all() or (priors < 0).any() or not priors.any():
                raise ValueError(f"priors must be non-negative and not all zero, got {priors}")
        given = self.class_weight
        if given is None or (isinstance(given, str) and given == "balanced"):
            return
        if not isinstance(given, Mapping):
            raise ValueError(
                f"class_weight must be a dict {{label: factor}}, 'balanced' or None, got {given!r}"
            )
        unknown = [label for label in given if label not in classes]
        if unknown:
            raise ValueError(
                f"class_weight names {names_of(unknown)}, but the classes are "
                f"{names_of(classes.tolist())}"
            )
        if any(not 0 <= factor < np.inf for factor in given.values()):
            raise ValueError(f"class_weight must hold finite non-negative factors, got {given!r}")

    def _level_scores(
        self, rows: NDArray[Any], index: NDArray[np.int64], rng: np.random.Generator
    ) -> list[float]:
        """Accuracy of every level on some of the rows."""
        some = np.sort(rng.permutation(len(rows))[:SCORED_ROWS])
        X, y = rows[some], index[some]
        divergence = self._annealer.divergence
        log_prior = self._log_prior()
        scores = []
        for level in self._annealer.path():
            posterior, _, _ = kernel_for(divergence).associate(
                divergence, X, level.codevectors, np.log(level.weights) + log_prior[level.classes],
                level.temperature, level.classes, len(log_prior),
            )  # fmt: skip
            scores.append(float((posterior.argmax(axis=1) == y).mean()))
        return scores

    # -- reading -------------------------------------------------------------------------------

    @property
    def path_(self) -> AnnealingPath:
        """Every finished level, hottest first; classes are indices into ``classes_``."""
        check_is_fitted(self)
        order = np.searchsorted(self.classes_, np.array(self._seen))
        path: AnnealingPath = self._annealer.path().relabelled(order, self._scores)
        return path

    @property
    def codevector_labels_(self) -> Labels:
        """Class of every codevector."""
        seen = np.array(self._seen)
        labels: Labels = seen[self._model.classes]
        return labels

    def _log_prior(self) -> Array:
        """Log probability of the classes seen, in the order they appeared."""
        weight = np.array([state.total_weight for state in self._annealer.classes])
        place = np.searchsorted(self.classes_, np.array(self._seen))
        if self.class_weight == "balanced":
            weight = np.ones_like(weight)
        if self.priors is not None:
            weight = np.asarray(self.priors, dtype=float)[place]
        if isinstance(self.class_weight, Mapping):
            weight = weight * [self.class_weight.get(label, 1.0) for label in self._seen]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weight / weight.sum()))

    def _posterior(self, X: ArrayLike) -> tuple[Array, Array, Array]:
        rows = self._rows_to_read(X)
        model = self._model
        place = np.searchsorted(self.classes_, np.array(self._seen))
        with np.errstate(divide="ignore"):
            log_weight = np.log(model.weights) + self._log_prior()[model.classes]
        return self._associate(rows, log_weight, place[model.classes], len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities in the order of ``classes_``, shape (n_samples, n_classes)."""
        return self._posterior(X)[0]

    def predict(self, X: ArrayLike) -> Labels:
        """The likeliest class of every row: always the argmax of `predict_proba`."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        labels: Labels = self.classes_[likeliest]
        return labels

    def score_samples(self, X: ArrayLike) -> Array:
        """Log density of every row under the mixture of all classes.

        ``log sum_c prior_c sum_{i in c} rho_i exp(-d(x, mu_i)/T)``, normalised for the squared
        Euclidean and Mahalanobis divergences (a mixture of Gaussians of variance T/2). For the
        others the constant has no closed form and is left out: compare samples, not models.
        """
        log_total = self._posterior(X)[1]
        return self._log_density(log_total, self._density_temperature())
