"""Clustering: one class, and the question of how many clusters it has."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from annealed.annealing.annealer import Annealer
from annealed.annealing.joined_clusters import JoinedClusters
from annealed.annealing.n_clusters import GivenK, PersistentK
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence
from annealed.drift import Detector
from annealed.estimators.callback_runner import run_callbacks
from annealed.estimators.chunked_rows import Drawn, in_chunks
from annealed.estimators.cluster_learner import (
    AllRows,
    ClusterLearner,
    ClusterSettings,
    hard_sums_of,
)
from annealed.estimators.cluster_reader import ClusterReader
from annealed.estimators.codevectors import all_or_nothing, checked_weights, mean_one
from annealed.estimators.kept_samples import (
    FIRST,
    FIRST_PER_CLUSTER,
    LEAST_KEPT,
    KeptSamples,
)
from annealed.estimators.one_sample import FastPath, Sample
from annealed.estimators.parameters import check_parameters, one_of, whole
from annealed.estimators.streaming import STREAM_RULES, StreamingEstimator
from annealed.kernels import dense_blocks, given_back
from annealed.stored import Indices

# Joining needs codevectors as fine as the gaps between clusters. With 100 it saw those of the 58
# sets of `benchmarks shapes` with a mean adjusted Rand index of .60, with 400 of .80.
K_MAX_TO_JOIN = 400
# Levels finer than this take no more samples than it: they are there to be joined again.
K_SAMPLED_TO_JOIN = 50


@dataclass(slots=True)
class KeepingFastPath(FastPath):
    """Shortcuts for single samples that are kept.

    kept : where
    """

    kept: KeptSamples | None = None

    def learn(self, x: Any, w: float) -> bool:
        """Learn a sample; False, and nothing learnt, if it needs the long way."""
        kept = self.kept
        if kept is None or (left := kept.left) <= 1 or x is None:  # the last of a block: a look
            return False
        at = (kept.begin + kept.step - left) % kept.most
        if not self.run.feed_and_keep(x, self.sample_format, w, kept.rows, at):
            return False
        kept.left = left - 1
        if w != 1.0:
            kept.weights[at] = w
        self.annealer._path = None
        return True


def _all_rows(drawn: Drawn, divergence: BregmanDivergence) -> AllRows | None:
    """The rows that others were drawn from; None if those are all."""
    if drawn.total == len(drawn.rows):
        return None
    return AllRows(lambda mu: drawn.sums(hard_sums_of, (divergence, mu), "polish"), drawn.total)


class ODAClustering(ClusterReader, StreamingEstimator):
    """Cluster by online deterministic annealing, without choosing the number of clusters.

    The temperature falls from one codevector at the mean to as many as the data asks for; every
    level in between is kept in ``path_``.

    Parameters
    ----------
    n_clusters : "auto", int or None, default="auto"
        "auto" takes as many as are seen (1 if none are). An integer gives exactly that many; None
        the coldest level, every codevector a cluster.
    shape : "any" or "round", default="any"
        What a cluster is. "any": codevectors between which the density does not fall, so clusters
        may be bent, long, and of any spread; where no border is seen, round ones. "round": a
        codevector, as in the paper; "auto" then takes the K that persists over the longest stretch
        of log T beyond what data without structure would show.
    min_cluster_size : int or None, default=None
        Label what lies in no cluster of so many samples -1, in a stream of those that are kept. Of
        any shape only.
    divergence : str or BregmanDivergence, default="squared_euclidean"
        One of "squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito",
        "logistic"; or `Mahalanobis(matrix)`; or a `BregmanDivergence` of your own.
    K_max : "auto" or int, default="auto"
        The most codevectors a level may have; the path ends before it would have more. "auto" is
        100; in `fit`, where codevectors are joined into clusters of any shape, 400, at most one for
        two rows. It does not stand in the way of a given ``n_clusters``.
    T_max, T_min : "auto" or float, default="auto"
        Temperatures to start and end at. "auto" starts just above an estimate of the largest
        eigenvalue of H C, where one codevector becomes unstable (H the Hessian of phi, C the
        covariance), and ends at 5e-4 of their sum; later, where the variance within what has been
        parted by then is smaller still.
    gamma : float in (0, 1), default=0.9
        Cooling factor, T_{k+1} = gamma T_k.
    split : "variance" or "perturb", default="variance"
        Split a codevector when the variance of its samples along its main axis says that it has
        become unstable, or carry perturbed pairs as the paper does and see which come apart.
    samples_per_codevector : int, default=100
        Samples each level takes at least, per codevector.
    patience : int, default=5
        Consecutive small steps that end a level.
    epsilon_c, epsilon_n, delta : "auto" or float, default="auto"
        Thresholds of a small step and of a merge as multiples of T (0.01, 0.1), and the size of a
        perturbation as a multiple of its square root (0.1).
    epsilon_r : float, default=1e-7
        Weight below which a codevector is idle and dropped.
    alpha : tuple (a, b), default=(1.0, 0.9)
        Steps alpha_n = 1/(a + b n).
    alpha_min : float, default=0.0
        A floor for them, to follow a stream that drifts slowly.
    drift_detector : None, "auto" or detector, default=None
        Listens to losses in `partial_fit` and `learn_one`, and reheats to the top of the ladder
        when they rise: "auto" for a `DriftDetector`, or any object of river's interface
        (``update(x)``, ``drift_detected``).
    recent_samples : int, default=2000
        How many of its newest samples a stream keeps, 0 or at least 500. They are annealed as `fit`
        would after 125, 250, 500, 1000, ... samples, up to this number, and again when the stream
        has changed, which is seen without being told. Models, and files of them, then hold so many
        samples. With 0, with ``n_clusters=None`` or more than a quarter of it, and with the paper's
        ``thresholds`` none are kept: every sample is learnt once, as it comes, and the first answer
        that lasts takes tens of thousands.
    thresholds : "scale_free" or "paper", default="scale_free"
        Whether thresholds and temperatures scale with the data as above, or are the paper's
        multiples of Delta_S d (see `paper_settings`).
    engine : "online" or "block", default="online"
        How levels learn. "online": one sample at a time, as the paper does. "block": blocks of
        samples, as matrix products; of many features and codevectors several times as fast, of few
        slower, and the way for rows on a GPU. The trajectory differs, the fixed points do not.
    polish : bool, default=False
        After `fit`, cool on with the number of codevectors fixed and end with hard clustering
        (T = 0), as k-means does. Clusters are then round, whatever ``shape`` is.
    compute_labels : bool, default=True
        Whether `fit` leaves ``labels_``. Without them it reads the rows it draws and their ranges,
        and keeps nothing of every row: of very many rows, or on disk, `predict` those that matter.
    random_state : int, RandomState instance or None, default=None
        Decides the order of presentation in `fit` and the surrogates of "auto".
    callbacks : list of callables or callbacks, or None, default=None
        A callable is called with every `annealed.path.Level` as it finishes; an object with the
        hooks of scikit-learn's callbacks follows by those (see `annealed.callbacks`).

    Attributes
    ----------
    codevectors_ : ndarray of shape (K, n_features)
    codevector_clusters_ : ndarray of shape (K,)
        Number of the cluster of every codevector, -1 for those in none.
    cluster_centers_ : ndarray of shape (n_clusters_, n_features)
        Mean of every cluster. It need not lie inside one that is bent.
    n_clusters_ : int
        In a stream 1 until its first samples have been annealed (see ``recent_samples``).
    n_clusters_margin_ : float
        How sure "auto" is: the support of ``n_clusters_`` (nan if the number was given).
    plausible_n_clusters_ : PlausibleNumbers or None
        Numbers of clusters with their support, the most plausible first: how many standard errors
        the weakest of K - 1 borders, or the clearest one that is left out, is away from another
        answer; of round clusters by how much of log T a plateau exceeds the bar.
    labels_ : ndarray of shape (n_samples,)
        Clusters of the rows given to `fit`, unless ``compute_labels=False``.
    weights_ : ndarray of shape (K,)
    nodes_ : ndarray of shape (K,)
        Place of every codevector in the tree of splits, as in `annealed.path.Level.nodes`.
    temperature_ : float
    path_ : AnnealingPath
    alarms_ : ndarray of shape (n,)
        Samples of the stream that had been learnt when it was noticed to have changed, by those
        that are kept or by the drift detector; of more than 1000 the latest.
    n_alarms_ : int
        How many there were.
    running_score_ : annealed.drift.RunningScore
        Minus the mean divergence of samples of the stream to the nearest codevector, before they
        were learnt: ``overall``, ``recent`` (over about the last 1000) and how many ``samples``;
        nan without a drift detector.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    .. [1] C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
       Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.

    Examples
    --------
    >>> from annealed import ODAClustering
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> model = ODAClustering(random_state=0).fit(X)
    >>> model.n_clusters_
    5
    >>> model.at(n_clusters=2).predict(X[:4]).shape
    (4,)

    Of any shape:

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(800, noise=0.05, random_state=0)
    >>> model = ODAClustering(2, random_state=0).fit(X)
    >>> bool((model.labels_ == y).all() or (model.labels_ != y).all())
    True
    """

    _learner: ClusterLearner
    labels_: Indices
    _rules = STREAM_RULES | {
        "n_clusters": [one_of("auto"), whole(1), one_of(None)],
        "shape": [one_of("any", "round")],
        "min_cluster_size": [one_of(None), whole(2)],
        "K_max": [one_of("auto"), whole(1)],
        "recent_samples": [one_of(0), whole(LEAST_KEPT)],
        "polish": [one_of(True, False)],
        "compute_labels": [one_of(True, False)],
    }

    def __init__(
        self,
        n_clusters: str | int | None = "auto",
        *,
        shape: str = "any",
        min_cluster_size: int | None = None,
        divergence: str | BregmanDivergence = "squared_euclidean",
        K_max: str | int = "auto",
        T_max: str | float = "auto",
        T_min: str | float = "auto",
        gamma: float = 0.9,
        split: str = "variance",
        samples_per_codevector: int = 100,
        patience: int = 5,
        epsilon_c: str | float = "auto",
        epsilon_n: str | float = "auto",
        epsilon_r: float = 1e-7,
        delta: str | float = "auto",
        alpha: tuple[float, float] = (1.0, 0.9),
        alpha_min: float = 0.0,
        drift_detector: str | Detector | None = None,
        recent_samples: int = 2000,
        thresholds: str = "scale_free",
        engine: str = "online",
        polish: bool = False,
        compute_labels: bool = True,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.shape = shape
        self.min_cluster_size = min_cluster_size
        self.divergence = divergence
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
        self.drift_detector = drift_detector
        self.recent_samples = recent_samples
        self.thresholds = thresholds
        self.engine = engine
        self.polish = polish
        self.compute_labels = compute_labels
        self.random_state = random_state
        self.callbacks = callbacks

    # -- learning ------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Anneal the rows of X, in random order and as often as needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            An array of Dask is not loaded: rows of it are drawn (docs/guide/many-rows.md), and
            there are no ``labels_``. A polish passes over all of them.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; one of weight 0 is left out.

        Returns
        -------
        self
        """
        if in_chunks(X):
            drawn = self._drawn(X, None, sample_weight, in_pieces=self.engine == "block")
            self._fit(drawn.rows, drawn.weights, drawn=drawn)
        else:
            self._fit(X, sample_weight)
        self._warn_of_caps(self._learner.annealer, 0)
        self._warn_of_too_few()
        return self

    @all_or_nothing
    def _learn_summary(self, rows: Array, labels: NDArray[Any] | None, weights: Array) -> None:
        self._fit(rows, weights, stand_for=max(round(float(weights.sum())), len(rows)))

    def _fit(
        self,
        X: ArrayLike,
        sample_weight: ArrayLike | None,
        stand_for: int | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        """Anneal rows.

        ``stand_for``: how many samples they are a summary of. ``drawn``: how they were drawn from
        others, which are nowhere at once.
        """
        divergence, schedule = self._parameters()
        rows = self._checked_rows(X, divergence, reset=True)
        weights = mean_one(checked_weights(sample_weight, len(rows)))
        samples = len(rows) if weights is None else int(np.count_nonzero(weights))
        if schedule.wanted is not None and samples < schedule.wanted:
            raise ValueError(f"n_samples={samples} should be >= n_clusters={schedule.wanted}.")
        seed = self._seed()
        # Of unequal weights a sum is known as well as one of so many equal ones (Kish 1965).
        known = samples
        if weights is not None and stand_for is None:
            known = max(round(float(weights.sum() ** 2 / (weights**2).sum())), 1)
        # A codevector for every two rows; finer ones would be the rows themselves.
        finest = known // 2 if stand_for is None else samples
        learner_schedule = self._finer(schedule, finest)
        self._learner = self._new_learner(
            rows.shape[1], divergence, learner_schedule, stand_for or known, seed
        )
        choose = self._learner.annealer.choose
        if isinstance(choose, JoinedClusters) and choose.size:
            of_all = 1.0 if drawn is None else len(rows) / drawn.total
            choose.size = max(round(choose.size * of_all * known / samples), 1)
        rng = np.random.default_rng(seed)
        shared, drawn_from = rows, None
        if drawn is not None:
            shared, drawn_from = drawn.shared(rows), _all_rows(drawn, divergence)
        with run_callbacks(
            self, X, None, sample_weight, max_levels=self._most_levels(schedule)
        ) as listen:
            self._learner.anneal(
                shared, weights, rng, listen, polish=self.polish, drawn_from=drawn_from
            )
            self.__dict__.pop("labels_", None)
            if drawn is not None:
                self._learner.annealer.stand_for(len(rows), drawn.total)
            elif self.compute_labels:
                self.labels_ = self._assign(rows)

    def fit_predict(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Indices:
        """`fit`, and the number of the cluster of every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        self.fit(X, sample_weight=sample_weight)
        labels: Indices
        if not self.compute_labels or in_chunks(X):
            labels = self.predict(X)
        else:
            labels = given_back(self.labels_, X) if self._takes_arrays else self.labels_
        return labels

    @all_or_nothing
    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X in the order they come, each once.

        However a stream is cut into calls, the model is the same to the last bit. The newest rows
        are kept and annealed again from time to time (``recent_samples``); clusters that stay keep
        their numbers. In between the codebook follows the samples, its size fixed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if in_chunks(X):
            for part, _, weights in self._in_turn(X, None, sample_weight):
                self.partial_fit(part, sample_weight=weights)
            return self
        first = not self.__sklearn_is_fitted__()
        divergence, _ = self._parameters()
        rows = self._checked_rows(X, divergence, reset=first)
        weights = checked_weights(sample_weight, len(rows), all_zero=not first)
        for here, block in dense_blocks(rows):
            own = None if weights is None else weights[here]
            self._learn_checked(block, None, own, first and here.start == 0)
        return self

    def learn_one(self, x: Sample, y: Any = None, w: float = 1.0) -> None:
        """Learn one sample, as `partial_fit` of one row would.

        Parameters
        ----------
        x : dict or array-like of shape (n_features,)
            The features of a dict may come in any order.
        y : ignored
        w : float, default=1.0
            Its weight.

        Examples
        --------
        >>> from annealed import ODAClustering
        >>> model = ODAClustering(random_state=0)
        >>> for k in range(500):
        ...     model.learn_one({"left": k % 2, "right": k % 3})
        >>> model.predict_proba_one({"right": 0, "left": 0})
        {0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0, 4: 0.0, 5: 0.0}
        """
        fast_path: FastPath | None = self.__dict__.get("_fast_path")
        if fast_path is None or not fast_path.learn(x, w):
            self._learn_one(x, None, w)
        elif fast_path.run.done:
            self._one_ended()

    def predict_proba_one(self, x: Sample) -> dict[int, float]:
        """Associations of one sample with every cluster; empty before the first sample."""
        if not self.__sklearn_is_fitted__():
            return {}
        return dict(enumerate(self._cluster_probabilities(x)))

    def predict_one(self, x: Sample) -> int | None:
        """The likeliest cluster of one sample, -1 for none; None before the first sample."""
        if not self.__sklearn_is_fitted__():
            return None
        found = self._cluster_probabilities(x)
        largest = max(found)
        return found.index(largest) if largest > 1 - sum(found) else -1

    def _cluster_probabilities(self, x: Sample) -> list[float]:
        fast_path: FastPath | None = self.__dict__.get("_fast_path")
        answer: Array | None = None
        if x is not None and fast_path is not None and fast_path.run is not None and self._tracks:
            chosen = self._learner.annealer.chosen
            answer = fast_path.run.associations(
                x, fast_path.sample_format, None if chosen is None else chosen.clusters
            )
        if answer is None:
            answer = self._associate_clusters(self._checked_row(x))[0]
        found: list[float] = answer.tolist()
        return found

    @property
    def _tracks(self) -> bool:
        """Whether the codebook that follows the samples is the one that answers."""
        learner = self._learner
        return learner.annealer.classes[0].tracking and learner.decided

    def _new_fast_path(self) -> FastPath:
        annealer = self._learner.annealer
        sample_format = annealer.kernel.sample_format(self._sample_keys())
        if sample_format is None or self._learner.watch is not None:
            return FastPath(annealer)
        run = annealer.classes[0].run
        if self._learner.kept is None:
            return FastPath(annealer, sample_format, run)
        return KeepingFastPath(annealer, sample_format, run, kept=self._learner.kept)

    def _knows(self, y: Any) -> bool:
        return True

    def _meet(self, y: Any) -> None:
        pass

    def _index_of(self, y: Any) -> NDArray[np.int32] | None:
        return None

    def _reading_learner(self) -> ClusterLearner:
        learner: ClusterLearner = self._learner.fixed_at(self._model)
        return learner

    # -- the learner ---------------------------------------------------------------------------

    def _settings(self) -> ClusterSettings:
        return ClusterSettings(
            None if self.drift_detector is None else self._new_watch,
            self._listener(),
            self.recent_samples if self._samples_first else 0,
            self._new_kept,
            self._new_annealer,
        )

    @property
    def _samples_first(self) -> int:
        """How many of the samples that a stream keeps are annealed first; 0 if it keeps none."""
        if self.n_clusters is None or self.thresholds == "paper":
            return 0
        first = FIRST
        while not isinstance(self.n_clusters, str) and first < FIRST_PER_CLUSTER * self.n_clusters:
            first *= 2
        return first if first <= self.recent_samples else 0

    def _new_kept(self, known: int) -> KeptSamples:
        # However a stream is cut, the model is the same, also where no seed is given.
        seed = 0 if self.random_state is None else self._seed()
        return KeptSamples.new(
            self.recent_samples, self._samples_first, self.n_features_in_, seed, known
        )

    def _new_annealer(self, samples: int, seed: int) -> Annealer:
        """What anneals so many rows."""
        divergence, schedule = self._parameters()
        schedule = self._finer(schedule, samples // 2)
        return self._new_learner(self.n_features_in_, divergence, schedule, samples, seed).annealer

    def _new_learner(
        self,
        d: int,
        divergence: BregmanDivergence,
        schedule: Schedule,
        samples: int | None,
        seed: int,
    ) -> ClusterLearner:
        choose: GivenK | PersistentK | JoinedClusters | None = None
        if self._joins:
            size = 0 if self.min_cluster_size is None else int(self.min_cluster_size)
            choose = JoinedClusters(schedule.wanted, samples, seed, size)
        elif schedule.wanted is not None:
            choose = GivenK(schedule.wanted)
        elif self.n_clusters == "auto":
            choose = PersistentK(samples, seed)
        return ClusterLearner.new(d, divergence, schedule, choose)

    def _finer(self, schedule: Schedule, finest: int) -> Schedule:
        """The schedule of `fit`, where rows come again: finer codebooks take no more samples."""
        if not self._joins or self.K_max != "auto":
            return schedule
        wanted = schedule.wanted or 1
        return replace(
            schedule,
            K_max=max(min(K_MAX_TO_JOIN, finest), wanted),
            K_sampled=max(K_SAMPLED_TO_JOIN, 2 * wanted),
            K_anyway=max(schedule.K_max, 2 * wanted),
        )

    def _learn_checked(
        self, rows: NDArray[Any], labels: NDArray[Any] | None, weights: Array | None, first: bool
    ) -> None:
        divergence, schedule = self._parameters()
        settings = self._settings()
        if first:
            learner = self._new_learner(rows.shape[1], divergence, schedule, None, self._seed())
            learner.watch_as(settings)
        else:
            learner = self._learner.to_continue(settings)
        before = len(learner.annealer.unconverged)
        self._learner = learner
        learner.learn(rows, None, weights, 0, len(rows), settings)
        self._warn_of_caps(learner.annealer, before)
        self.__dict__.pop("labels_", None)

    def _checked_schedule(self) -> tuple[BregmanDivergence, Schedule]:
        divergence, schedule = super()._checked_schedule()
        if isinstance(self.n_clusters, str) or self.n_clusters is None:
            return divergence, schedule
        # A polish chooses among the cuts of the tree, so it wants a deeper one (docs/notation.md),
        # and so does who joins codevectors.
        growth = 10 if self.polish else K_MAX_TO_JOIN if self._joins else 1
        return divergence, schedule.towards(int(self.n_clusters), growth)

    @property
    def _joins(self) -> bool:
        """Whether codevectors are joined into clusters; hard clustering has one for each."""
        return self.shape == "any" and self.n_clusters is not None and not self.polish

    def at(
        self,
        *,
        temperature: float | None = None,
        n_codevectors: int | None = None,
        n_clusters: int | None = None,
    ) -> Self:
        """The fitted model at another level of its path, or with another number of clusters.

        Parameters
        ----------
        temperature : float
            The coldest level that is not below it; every codevector is a cluster.
        n_codevectors : int
            Exactly this many codevectors, every one a cluster.
        n_clusters : int
            Exactly this many clusters, of the shapes that the model finds. A cluster that is not
            divided on the way from a smaller number to a larger one keeps its number, and so does
            the heavier part of one that is.

        Returns
        -------
        estimator
            A copy that predicts with that level. It shares the path and cannot learn further.
        """
        if [temperature, n_codevectors, n_clusters].count(None) != 2:
            raise ValueError("give one of temperature, n_codevectors and n_clusters")
        if n_clusters is None:
            return super().at(temperature=temperature, n_codevectors=n_codevectors)
        check_is_fitted(self)
        if not len(self.path_):
            raise ValueError("no level is finished yet: the model is still warming up")
        check_parameters(
            type(self).__name__, {"n_clusters": n_clusters}, {"n_clusters": [whole(1)]}
        )
        most = max(level.n_codevectors for level in self.path_)
        if n_clusters > most:
            raise ValueError(
                f"no model with {n_clusters} clusters on this path: a cluster needs a codevector, "
                f"and it has {most}"
            )
        return self._fixed_at(self._learner.with_n_clusters(int(n_clusters)))

    def _warn_of_too_few(self) -> None:
        wanted = self._learner.annealer.schedule.wanted
        if not self._learner.annealer.finished:
            warnings.warn(
                "all rows are identical: there is one cluster", ConvergenceWarning, stacklevel=4
            )
        elif wanted is not None and self.n_clusters_ < wanted:
            warnings.warn(
                f"found {self.n_clusters_} distinct codevectors where n_clusters="
                f"{wanted} was asked for; are there that many distinct rows?",
                ConvergenceWarning,
                stacklevel=4,
            )
