"""Stochastic vector quantization, the paper's Definition sVQ."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from annealed.baselines.competition import Competition, Terms
from annealed.baselines.winner_estimator import WinnerEstimator
from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.estimators.codevectors import (
    all_or_nothing,
    checked_weights,
    mean_one,
)
from annealed.estimators.parameters import Rule, check_parameters, one_of, real, step_pair, whole
from annealed.kernels import kernel_for
from annealed.stored import Count, Indices, State, require

RULES: dict[str, list[Rule]] = {
    "n_clusters": [whole(1)],
    "alpha_min": [real(0, 1, closed=True)],
    "n_passes": [whole(1)],
    "tol": [real(0, closed=True)],
}


class StochasticVQ(ClusterMixin, WinnerEstimator):
    """Stochastic vector quantization: the nearest codevector moves towards each sample.

    The online relative of k-means, and the algorithm online deterministic annealing becomes at
    T = 0: the number of codevectors is given, and where they end depends on where they start.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of codevectors.
    divergence : str or BregmanDivergence, default="squared_euclidean"
        As in `ODAClustering`.
    init : "k-means++", "random" or array-like of shape (n_clusters, n_features), \
default="k-means++"
        Where codevectors start: rows far apart from each other, any rows, or the places given.
    alpha : tuple (a, b), default=(1.0, 0.9)
        Steps alpha(v) = 1/(a + b v), v the number of updates of the codevector itself.
    alpha_min : float, default=0.0
        A floor for them, to follow a stream that drifts.
    n_passes : int, default=20
        The most times `fit` presents every row.
    tol : float, default=1e-4
        `fit` ends when a pass lowers the mean divergence by less than this part of it.
    random_state : int, RandomState instance or None, default=None
        Decides where codevectors start and the order of presentation in `fit`.

    Attributes
    ----------
    cluster_centers_, codevectors_ : ndarray of shape (n_clusters_, n_features)
    n_clusters_ : int
        ``n_clusters``, or the number of distinct rows if that is less.
    labels_ : ndarray of shape (n_samples,)
        Nearest codevectors of the rows given to `fit`.
    updates_ : ndarray of shape (n_clusters_,)
        v of every codevector: the weight of the samples that have moved it.
    n_iter_ : int
        Passes made by `fit`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    The definition asks for ``mu -= alpha(v) grad d(x, mu)``, and for a Bregman divergence the
    gradient is ``-H(mu)(x - mu)``, H the Hessian of phi. The step taken here is
    ``mu += alpha(v) (x - mu)``: the gradient in the dual variable grad phi(mu) (the natural
    gradient), in which H does not appear. It has no units, so data in other units give the same
    clusters; it stays inside the domain, which the other does not; and with alpha(v) = 1/(1 + v)
    codevectors are the means of their samples, the minimisers for every Bregman divergence. For
    the squared Euclidean one H = 2 and the two differ by that factor in alpha.

    References
    ----------
    .. [1] C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
       Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.

    Examples
    --------
    >>> from annealed import StochasticVQ
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> model = StochasticVQ(5, random_state=0).fit(X)
    >>> model.cluster_centers_.shape
    (5, 2)
    >>> StochasticVQ(5, random_state=0).partial_fit(X[:300]).partial_fit(X[300:]).n_clusters_
    5
    """

    _rules = RULES
    n_iter_: Count
    labels_: Indices

    @classmethod
    def check_stored(cls, state: State) -> None:
        """The rows have the features of the model, and one class."""
        if "_competition" in state:
            state["_competition"].check_rows(state.get("n_features_in_"))
            require(state["_competition"].highest_class == 0, "a clustering has several classes")

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        divergence: str | BregmanDivergence = "squared_euclidean",
        init: str | ArrayLike = "k-means++",
        alpha: tuple[float, float] = (1.0, 0.9),
        alpha_min: float = 0.0,
        n_passes: int = 20,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.divergence = divergence
        self.init = init
        self.alpha = alpha
        self.alpha_min = alpha_min
        self.n_passes = n_passes
        self.tol = tol
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def _terms(self, divergence: BregmanDivergence, d: int, seed: int) -> Terms:
        given = None
        if not isinstance(self.init, str):
            places = checked_places(type(self).__name__, divergence, self.init, d)
            if len(places) != self.n_clusters:
                raise ValueError(
                    f"init holds {len(places)} codevectors, but n_clusters={self.n_clusters}"
                )
            given = (places,)
        return Terms(
            rule="vq",
            size=int(self.n_clusters),
            init=str(self.init) if given is None else "given",
            given=given,
            alpha=step_pair(type(self).__name__, self.alpha),
            alpha_min=float(self.alpha_min),
            wait=max(100, 10 * int(self.n_clusters)),
            seed=seed,
        )

    def _checked_divergence(self) -> BregmanDivergence:
        name = type(self).__name__
        check_parameters(name, vars(self), self._rules)
        if isinstance(self.init, str):
            check_parameters(name, vars(self), {"init": [one_of("k-means++", "random")]})
        check_random_state(self.random_state)
        step_pair(name, self.alpha)
        return get_divergence(self.divergence)

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Present the rows of X in random order, pass by pass, until nothing is gained.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; one of weight 0 is left out.

        Returns
        -------
        self
        """
        divergence = self._checked_divergence()
        rows = self._checked_rows(X, divergence, reset=True)
        weights = mean_one(checked_weights(sample_weight, len(rows)))
        seed = self._seed()
        competition = Competition(divergence, self._terms(divergence, rows.shape[1], seed))
        one_class = np.zeros(len(rows), dtype=np.int32)
        before = np.inf
        rng = np.random.default_rng(seed)
        for passes, now in enumerate(
            competition.train(rows, one_class, weights, int(self.n_passes), rng), start=1
        ):
            self.n_iter_ = passes
            if not before - now > self.tol * before:
                break
            before = now
        self._competition = competition
        if self.n_clusters_ < self.n_clusters:
            warnings.warn(
                f"there are {self.n_clusters_} distinct rows, fewer than "
                f"n_clusters={self.n_clusters}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.labels_ = nearest(divergence, rows, self.codevectors_)
        return self

    @all_or_nothing
    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X in the order they come, each once.

        The first max(100, 10 n_clusters) rows decide where codevectors start; until they are there
        the model is the one that those seen so far would start from. However a stream is cut into
        calls, the model is the same to the last bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        divergence = self._checked_divergence()
        rows = self._checked_rows(X, divergence, reset=first)
        weights = checked_weights(sample_weight, len(rows), all_zero=not first)
        if first:
            terms = self._terms(divergence, rows.shape[1], self._seed())
            competition = Competition(divergence, terms)
        else:
            competition = self._competition.copy()
        competition.absorb(rows, np.zeros(len(rows), dtype=np.int32), weights)
        self._competition = competition
        self.__dict__.pop("labels_", None)
        return self

    # -- reading -------------------------------------------------------------------------------

    @property
    def cluster_centers_(self) -> Array:
        """The codevectors, under the name k-means users expect."""
        return self.codevectors_

    @property
    def n_clusters_(self) -> int:
        """Number of codevectors."""
        return len(self.codevectors_)

    @property
    def updates_(self) -> Array:
        """v_i: the weight of the samples that have moved each codevector."""
        check_is_fitted(self)
        updates: Array = self._competition.updates()
        return updates

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Index of the nearest codevector of every row."""
        rows = self._rows_to_read(X)
        return nearest(self._fitted_divergence, rows, self.codevectors_)

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean divergence of the rows from their nearest codevectors."""
        rows = self._rows_to_read(X)
        weights = checked_weights(sample_weight, len(rows))
        divergence = self._fitted_divergence
        d = kernel_for(divergence).divergences(rows, self.codevectors_)
        return -float(np.average(d.min(axis=1), weights=weights))


def nearest(divergence: BregmanDivergence, rows: NDArray[Any], mu: Array) -> NDArray[np.int64]:
    """Index of the nearest codevector of every row."""
    return kernel_for(divergence).assign(rows, mu, np.zeros(len(mu)), 0.0)


def checked_places(name: str, divergence: BregmanDivergence, init: ArrayLike, d: int) -> Array:
    """Codevectors to start from, as given; ValueError if there is anything wrong with them."""
    places = np.array(init, dtype=float)
    if places.ndim != 2 or places.shape[1] != d:
        raise ValueError(
            f"The 'init' parameter of {name} must have shape (n_codevectors, {d}), as the data "
            f"has {d} features, got {places.shape}"
        )
    if not np.isfinite(places).all():
        raise ValueError(f"The 'init' parameter of {name} contains NaN or infinity")
    try:
        divergence.check(places)
    except ValueError as error:
        raise ValueError(f"The 'init' parameter of {name}: {error}") from None
    return places
