"""Learning vector quantization: LVQ1 and GLVQ for every Bregman divergence."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from annealed.baselines.competition import Competition, Terms
from annealed.baselines.stochastic_vq import checked_places, nearest
from annealed.baselines.winner_estimator import WinnerEstimator
from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.estimators.codevectors import (
    all_or_nothing,
    checked_weights,
    mean_one,
    names_of,
    places_of,
)
from annealed.estimators.parameters import Rule, check_parameters, one_of, real, step_pair, whole
from annealed.stored import Count, Labels, State, check_labels

RULES: dict[str, list[Rule]] = {
    "n_codevectors_per_class": [whole(1)],
    "rule": [one_of("lvq1", "glvq")],
    "alpha_min": [real(0, 1, closed=True)],
    "n_passes": [whole(1)],
}


class LVQClassifier(ClassifierMixin, WinnerEstimator):
    """Classify by the class of the nearest codevector, found by learning vector quantization.

    Parameters
    ----------
    n_codevectors_per_class : int, default=4
        Codevectors of every class (fewer where a class has fewer distinct rows).
    rule : "lvq1" or "glvq", default="lvq1"
        "lvq1": the nearest codevector is attracted by a sample of its own class and repelled by
        one of another (Kohonen; the paper's d^l). "glvq": the nearest of the sample's class is
        attracted and the nearest of the others repelled, a stochastic gradient of
        ``(d+ - d-)/(d+ + d-)`` (Sato and Yamada).
    divergence : str or BregmanDivergence, default="squared_euclidean"
        As in `ODAClustering`.
    init : "k-means", "k-means++", "random" or pair (codevectors, labels), default="k-means"
        Where codevectors start: within every class by k-means, at rows far apart from each other,
        at any rows; or at places given, with their classes.
    alpha : tuple (a, b), default=(20.0, 0.1)
        Steps alpha(v) = 1/(a + b v), v the number of updates of the codevector itself.
    alpha_min : float, default=0.0
        A floor for them, to follow a stream that drifts.
    n_passes : int, default=20
        How often `fit` presents every row.
    random_state : int, RandomState instance or None, default=None
        Decides where codevectors start and the order of presentation in `fit`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    codevectors_ : ndarray of shape (K, n_features)
    codevector_labels_ : ndarray of shape (K,)
        The class each codevector carries.
    updates_ : ndarray of shape (K,)
        v of every codevector: the weight of the samples that have moved it.
    n_iter_ : int
        Passes made by `fit`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Attraction is ``mu += c (x - mu)`` with c <= 1. Repulsion cannot be ``mu -= c (x - mu)``, which
    leaves the domain of most divergences; it is the same step taken in the dual variable,
    ``mu = grad phi*(grad phi(mu) - c H(mu)(x - mu))``, equal to first order in c and inside the
    domain for every c. The two agree for the squared Euclidean and Mahalanobis divergences. A
    user's own divergence comes without grad phi*; there the step is halved until it stays inside.

    With "lvq1", c = alpha. With "glvq", c = 4 s alpha d-/(d+ + d-)^2 to attract and
    4 s alpha d+/(d+ + d-)^2 to repel, where s is the mean divergence of the rows from the
    nearest start of their class: c has no units, and is alpha at a sample with d+ = d- = s.

    References
    ----------
    .. [1] T. Kohonen, "Learning Vector Quantization", in Self-Organizing Maps, 1995.
    .. [2] A. Sato and K. Yamada, "Generalized Learning Vector Quantization", NIPS 8, 1996.
    .. [3] C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
       Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.

    Examples
    --------
    >>> from annealed import LVQClassifier
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LVQClassifier(2, random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _rules = RULES
    _seen: list[Any]
    classes_: Labels
    n_iter_: Count

    @classmethod
    def check_stored(cls, state: State) -> None:
        """The rows have the features of the model, and every class a label."""
        if "_competition" in state:
            state["_competition"].check_rows(state.get("n_features_in_"))
            check_labels(
                state.get("classes_"), state.get("_seen"), state["_competition"].highest_class + 1
            )

    def __init__(
        self,
        n_codevectors_per_class: int = 4,
        *,
        rule: str = "lvq1",
        divergence: str | BregmanDivergence = "squared_euclidean",
        init: str | tuple[ArrayLike, ArrayLike] = "k-means",
        alpha: tuple[float, float] = (20.0, 0.1),
        alpha_min: float = 0.0,
        n_passes: int = 20,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_codevectors_per_class = n_codevectors_per_class
        self.rule = rule
        self.divergence = divergence
        self.init = init
        self.alpha = alpha
        self.alpha_min = alpha_min
        self.n_passes = n_passes
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def _checked_divergence(self) -> BregmanDivergence:
        name = type(self).__name__
        check_parameters(name, vars(self), self._rules)
        pair = isinstance(self.init, tuple) and len(self.init) == 2
        kinds = one_of("k-means", "k-means++", "random")
        if not pair and not kinds.allows(self.init):
            raise ValueError(
                f"The 'init' parameter of {name} must be {kinds.words}, or a pair (codevectors, "
                f"labels). Got {self.init!r} instead."
            )
        check_random_state(self.random_state)
        step_pair(name, self.alpha)
        return get_divergence(self.divergence)

    def _new_competition(
        self, divergence: BregmanDivergence, d: int, seed: int
    ) -> tuple[Competition, list[Any]]:
        """A competition that is to begin, and the classes already numbered by ``init``."""
        given, seen = None, []
        if not isinstance(self.init, str):
            name = type(self).__name__
            places = checked_places(name, divergence, self.init[0], d)
            labels = np.asarray(self.init[1])
            if labels.shape != (len(places),):
                raise ValueError(
                    f"The 'init' parameter of {name} has {len(places)} codevectors, but labels of "
                    f"shape {labels.shape}"
                )
            seen = list(np.unique(labels))
            given = tuple(places[labels == label] for label in seen)
        terms = Terms(
            rule=self.rule,
            size=int(self.n_codevectors_per_class),
            init=self.init if isinstance(self.init, str) else "given",
            given=given,
            alpha=step_pair(type(self).__name__, self.alpha),
            alpha_min=float(self.alpha_min),
            wait=max(20, 10 * int(self.n_codevectors_per_class)),
            seed=seed,
        )
        return Competition(divergence, terms), seen

    def _numbered(self, seen: list[Any], labels: Labels, weights: Array | None) -> list[Any]:
        """All classes in the order of their first row with any weight: no chunking changes it."""
        present = labels if weights is None else labels[weights > 0]
        fresh, at = np.unique(present, return_index=True)
        new = [label for label in fresh[np.argsort(at)] if label not in seen]
        if new and not isinstance(self.init, str):
            raise ValueError(
                f"init has no codevector of class {names_of(new)}: add one, or leave its rows out"
            )
        return seen + new

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Present the rows of X in random order, pass by pass.

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
        divergence = self._checked_divergence()
        rows, labels = self._checked_labelled(X, y, divergence, reset=True)
        weights = mean_one(checked_weights(sample_weight, len(rows)))
        classes, index = np.unique(labels, return_inverse=True)
        self._check_weighted(classes, index, weights)
        seed = self._seed()
        competition, seen = self._new_competition(divergence, rows.shape[1], seed)
        absent = [label for label in seen if label not in classes]
        if absent:
            raise ValueError(f"init has codevectors of class {names_of(absent)}, but y has no such")
        seen = self._numbered(seen, labels, weights)
        number = np.array([seen.index(label) for label in classes], dtype=np.int32)[index]
        rng = np.random.default_rng(seed)
        for _ in competition.train(rows, number, weights, int(self.n_passes), rng):
            pass
        self.n_iter_ = int(self.n_passes)
        self._competition, self._seen = competition, seen
        self.classes_ = classes
        if len(classes) == 1:
            warnings.warn(
                "all rows are of one class: there is nothing to tell apart",
                ConvergenceWarning,
                stacklevel=3,
            )
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

        The first max(20, 10 n_codevectors_per_class) rows of a class decide where its codevectors
        start; until they are there it stands where those seen so far would start it, and moves
        nobody. New classes may appear at any time. However a stream is cut into calls, the model
        is the same to the last bit.

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
        divergence = self._checked_divergence()
        rows, labels = self._rows_and_labels(X, y, divergence, reset=first)
        weights = checked_weights(sample_weight, len(rows), all_zero=not first)
        if first:
            competition, seen = self._new_competition(divergence, rows.shape[1], self._seed())
            all_classes = np.empty(0)
        else:
            competition, seen = self._competition.copy(), self._seen
            all_classes = self.classes_
        places = None
        if classes is None and len(seen) == len(all_classes):  # else some were only announced
            places = places_of(labels, all_classes)
        if places is None:
            check_classification_targets(labels)
            expected = unique_labels(labels, *([] if classes is None else [np.asarray(classes)]))
            all_classes = expected if first else unique_labels(all_classes, expected)
            seen = self._numbered(seen, labels, weights)
            places = np.searchsorted(all_classes, labels)
        numbers = {label: c for c, label in enumerate(seen)}
        number = np.array([numbers.get(label, 0) for label in all_classes], dtype=np.int32)[places]
        competition.absorb(rows, number, weights)
        self._competition, self._seen = competition, seen
        self.classes_ = all_classes
        return self

    # -- reading -------------------------------------------------------------------------------

    @property
    def codevector_labels_(self) -> Labels:
        """Class of every codevector."""
        check_is_fitted(self)
        labels: Labels = np.array(self._seen)[self._competition.codebook()[1]]
        return labels

    @property
    def updates_(self) -> Array:
        """v_i: the weight of the samples that have moved each codevector."""
        check_is_fitted(self)
        updates: Array = self._competition.updates()
        return updates

    def predict(self, X: ArrayLike) -> Labels:
        """The class of the nearest codevector of every row."""
        rows = self._rows_to_read(X)
        winner = nearest(self._fitted_divergence, rows, self.codevectors_)
        labels: Labels = self.codevector_labels_[winner]
        return labels
