"""Deterministic annealing of all rows at once, after Rose."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from annealed.annealing.joined_clusters import PlausibleNumbers
from annealed.annealing.n_clusters import Persistence, judge_persistence
from annealed.annealing.schedule import Schedule
from annealed.baselines.batch import BatchAnnealer, anneal_batch
from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.estimators.base import SHARED_RULES
from annealed.estimators.callback_runner import run_callbacks
from annealed.estimators.cluster_reader import ClusterReader
from annealed.estimators.codevectors import all_or_nothing, checked_weights
from annealed.estimators.parameters import check_parameters, one_of, real, whole
from annealed.path import AnnealingPath, Level, check_level
from annealed.stored import Count, Indices, State

# Rows and cooling factor of a surrogate of n_clusters="auto". A batch pays for every row at every
# iteration. Critical temperatures are exact, so plateaus hardly depend on the ladder (by 0.02 in
# log T between 0.96 and 0.9, where a plateau has to stand out by 0.3).
SURROGATE_SAMPLES, SURROGATE_GAMMA = 500, 0.9


@dataclass
class BatchLearner:
    """The batch annealer, and which of its levels answers."""

    annealer: BatchAnnealer
    persistence: Persistence | None = None
    fixed: Level | None = None  # the level `at` picked

    @property
    def divergence(self) -> BregmanDivergence:
        """What samples are compared by."""
        return self.annealer.divergence

    @property
    def plausible(self) -> PlausibleNumbers | None:
        """How well numbers of clusters are supported, if "auto" has chosen."""
        found = self.persistence
        return None if found is None else PlausibleNumbers.by_persistence(found)

    def answering(self) -> Level:
        """The model that answers."""
        return self.annealer.model() if self.fixed is None else self.fixed

    def fixed_at(self, level: Level) -> BatchLearner:
        """A twin that answers with a level of the path."""
        return replace(self, annealer=self.annealer.copy(), persistence=None, fixed=level)


class DeterministicAnnealing(ClusterReader):
    """Cluster by deterministic annealing, all rows at once (Rose).

    What online deterministic annealing approximates: at every temperature the mass-constrained
    fixed point is found by iterating over all rows, and a codevector splits where the covariance
    of its rows says that it has become unstable. Nothing is left to chance, as there is no order
    of presentation. It is ten to more than a hundred times slower than `ODAClustering`; "auto"
    anneals six to twelve surrogates as well (ten to twenty seconds for some hundred rows).

    Parameters
    ----------
    n_clusters : "auto", int or None, default="auto"
        As in `ODAClustering`: the K that persists over the longest stretch of log T beyond what
        data without structure would show, exactly that many, or the coldest level.
    divergence : str or BregmanDivergence, default="squared_euclidean"
        As in `ODAClustering`.
    K_max : int, default=30
        The most codevectors a level may have; the path ends before it would have more.
    T_max, T_min : "auto" or float, default="auto"
        Temperatures to start and end at. "auto" takes 1.25 trace(H C), above which one codevector
        is stable for certain, and 4e-4 of that (H the Hessian of phi, C the covariance).
    gamma : float in (0, 1), default=0.96
        Cooling factor, T_{k+1} = gamma T_k. A split at T_c is seen on the first level below
        0.995 T_c, so with the default between 0.955 and 0.995 T_c.
    tol : float, default=1e-7
        A level is done when no codevector moves by more than a divergence of tol T.
    max_iter : int, default=2000
        The most iterations at one temperature.
    random_state : int, RandomState instance or None, default=None
        Decides the surrogates of "auto", nothing else.
    callbacks : list of callables or callbacks, or None, default=None
        As in `ODAClustering`.

    Attributes
    ----------
    cluster_centers_, codevectors_ : ndarray of shape (n_clusters_, n_features)
    codevector_clusters_ : ndarray of shape (n_clusters_,)
        Number of the cluster of every codevector: its own.
    n_clusters_ : int
    n_clusters_margin_ : float
        How sure "auto" is, see `ODAClustering`.
    plausible_n_clusters_ : PlausibleNumbers or None
        Other numbers with their support, the most plausible first.
    labels_ : ndarray of shape (n_samples,)
        Clusters of the rows given to `fit`.
    weights_ : ndarray of shape (n_clusters_,)
    nodes_ : ndarray of shape (n_clusters_,)
        Place of every codevector in the tree of splits, as in `annealed.path.Level.nodes`.
    temperature_ : float
    path_ : AnnealingPath
        Every level; D and H are those of the fixed point, not estimates.
    n_iter_ : int
        Iterations over all rows, of all levels together.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    The associations of all rows are held at once, an array of shape (n_samples, K).

    References
    ----------
    .. [1] K. Rose, "Deterministic Annealing for Clustering, Compression, Classification,
       Regression, and Related Optimization Problems", Proceedings of the IEEE 86(11), 1998.

    Examples
    --------
    >>> from annealed import DeterministicAnnealing
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=5, cluster_std=0.6, random_state=3)
    >>> model = DeterministicAnnealing(5).fit(X)
    >>> model.cluster_centers_.shape
    (5, 2)
    >>> model.at(n_codevectors=2).predict(X[:4]).shape
    (4,)
    """

    _rules = {
        name: SHARED_RULES[name] for name in ("K_max", "T_max", "T_min", "gamma", "callbacks")
    } | {
        "n_clusters": [one_of("auto"), whole(1), one_of(None)],
        "tol": [real(0)],
        "max_iter": [whole(1)],
    }
    _learner: BatchLearner
    n_iter_: Count
    labels_: Indices

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever answers is of the features of the model."""
        if "_learner" in state:
            for level in (state["_learner"].annealer.model(), state["_learner"].fixed):
                if level is not None:
                    check_level("the model", level, state.get("n_features_in_"), 1)

    def __init__(
        self,
        n_clusters: str | int | None = "auto",
        *,
        divergence: str | BregmanDivergence = "squared_euclidean",
        K_max: int = 30,
        T_max: str | float = "auto",
        T_min: str | float = "auto",
        gamma: float = 0.96,
        tol: float = 1e-7,
        max_iter: int = 2000,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.divergence = divergence
        self.K_max = K_max
        self.T_max = T_max
        self.T_min = T_min
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.callbacks = callbacks

    def _checked_schedule(self) -> tuple[BregmanDivergence, Schedule]:
        check_parameters(type(self).__name__, vars(self), self._rules)
        check_random_state(self.random_state)
        T_max, T_min = self._checked_temperatures()
        schedule = Schedule(
            T_max=T_max, T_min=T_min, gamma=float(self.gamma), K_max=int(self.K_max)
        )
        if not isinstance(self.n_clusters, str) and self.n_clusters is not None:
            schedule = schedule.towards(int(self.n_clusters))
        return get_divergence(self.divergence), schedule

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Anneal all rows of X.

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
        divergence, schedule = self._parameters()
        rows = self._checked_rows(X, divergence, reset=True)
        weights = checked_weights(sample_weight, len(rows))
        seed, found = self._seed(), []
        samples = len(rows) if weights is None else int(np.count_nonzero(weights))

        def surrogate(Z: Array, brief: Schedule, _: np.random.Generator) -> AnnealingPath:
            faster = replace(brief, gamma=min(brief.gamma, SURROGATE_GAMMA))
            return anneal_batch(Z, faster, float(self.tol), int(self.max_iter))

        def choose(annealer: BatchAnnealer) -> Level:
            path = annealer.path()
            if schedule.wanted is not None:
                return path.codebook(min(schedule.wanted, len(path.splits) + 1))
            if self.n_clusters is None:
                return path[-1]
            persistence = judge_persistence(
                path, annealer.covariance, schedule,
                max(min(samples, SURROGATE_SAMPLES), 2), seed, surrogate,
            )  # fmt: skip
            found.append(persistence)
            return path.codebook(persistence.n_clusters)

        annealer = BatchAnnealer(divergence, schedule, float(self.tol), int(self.max_iter))
        self._learner = BatchLearner(annealer)
        with run_callbacks(
            self, X, None, sample_weight, max_levels=self._most_levels(schedule)
        ) as listen:
            annealer.anneal(rows, weights, listen, choose)
            self._learner = BatchLearner(annealer, found[0] if found else None)
            self.n_iter_ = annealer.iterations
            self.labels_ = self._assign(rows)
        self._warn(annealer, schedule)
        return self

    def _warn(self, annealer: BatchAnnealer, schedule: Schedule) -> None:
        message = None
        if not annealer.levels:
            message = "all rows are identical: there is one cluster"
        elif schedule.wanted is not None and self.n_clusters_ < schedule.wanted:
            message = (
                f"found {self.n_clusters_} distinct codevectors where n_clusters="
                f"{schedule.wanted} was asked for; are there that many distinct rows?"
            )
        elif annealer.unconverged:
            message = (
                f"a level at T = {annealer.unconverged[0]:.3g} had not converged after max_iter="
                f"{self.max_iter} iterations; others like it are not reported. Raise max_iter or "
                "tol."
            )
        if message:
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
