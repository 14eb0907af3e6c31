"""Classification: one annealing per class on a common ladder of temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.multiclass import unique_labels

from annealed import stored
from annealed.annealing.annealer import Annealer
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence, SquaredEuclidean
from annealed.drift import Detector
from annealed.estimators.callback_runner import run_callbacks
from annealed.estimators.chunked_rows import in_chunks
from annealed.estimators.class_learner import ClassLearner, ClassSettings
from annealed.estimators.class_reader import ClassReader
from annealed.estimators.codevectors import (
    all_or_nothing,
    checked_weights,
    mean_one,
    names_of,
)
from annealed.estimators.one_sample import LabelledFastPath, Sample
from annealed.estimators.parameters import Rule, one_of, whole
from annealed.estimators.priors import ClassPriors
from annealed.estimators.streaming import STREAM_RULES
from annealed.fine_tuning.methods import TUNINGS
from annealed.fine_tuning.model import Calibration
from annealed.fine_tuning.scoring import Score
from annealed.fine_tuning.stream_tuner import NEVER
from annealed.fine_tuning.units import choose_units
from annealed.kernels import (
    ArrayRows,
    SparseRows,
    dense,
    dense_blocks,
)
from annealed.kernels.protocol import ENDED
from annealed.stored import State, check_labels

Labels = NDArray[Any]


def _names_a_scorer(value: Any) -> bool:
    return isinstance(value, str) and value in get_scorer_names()


def joined_labels(*labels: Labels) -> Labels:
    """All different labels, sorted; ValueError if there are numbers and texts, or no labels.

    As `unique_labels` of scikit-learn, which takes a millisecond or two.
    """
    if len({each.dtype.kind for each in labels}) == 1 and labels[0].dtype.kind in "iuU":
        return np.unique(np.concatenate(labels))
    return np.asarray(unique_labels(*labels))


class GivenPosteriors(ClassifierMixin, BaseEstimator):
    """Posteriors of some rows in the clothes of a classifier, for scorers to ask."""

    def __init__(self, classes_: Labels, posterior: Array) -> None:
        self.classes_, self.posterior = classes_, posterior

    def predict_proba(self, X: ArrayLike) -> Array:
        """The posteriors."""
        return self.posterior

    def predict(self, X: ArrayLike) -> Labels:
        """The likeliest classes."""
        labels: Labels = self.classes_[self.posterior.argmax(axis=1)]
        return labels


class ODAClassifier(ClassReader):
    """Classify by codevectors that carry a class, found by online deterministic annealing.

    Every class is annealed by itself on a common ladder of temperatures, and the model of a level
    is the posterior ``p(c|x) ~ prior_c sum_{i in c} rho_i exp(-d(x, mu_i)/T)``.

    Parameters
    ----------
    divergence : str or BregmanDivergence, default="squared_euclidean"
        One of "squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito",
        "logistic"; or `Mahalanobis(matrix)`; or a `BregmanDivergence` of your own.
    level : {"vote", "auto", "last"}, default="vote"
        Which level predicts. "vote": up to eight, fine-tuned, whose class probabilities are
        averaged with the shares that make rows they have not learnt most likely. "auto": the one
        that does best on such rows, a little less accurate, but a single codebook to read. "last":
        the coldest. Rows not learnt are parts of the rows held out in `fit`, and the samples to
        come in a stream, where one at a time answers: a level, the latest samples as nearest
        neighbours, or class means, whichever does best on the latest few hundred samples ("last":
        always the coldest level). Levels that are not fine-tuned do not vote. Any other level is
        reached with `at`.
    fine_tune : {"soft_lvq", "lvq", "glvq", None}, default="soft_lvq"
        What follows the annealing. "soft_lvq" follows the model's own associations: it moves
        codevectors, weights and temperature and, where rows not learnt say so, fits a temperature
        for each codevector and a relevance for each feature. "lvq" (LVQ1) and "glvq" move the
        nearest codevectors only. A fine-tuned model that does worse on rows not learnt than the
        annealed one is not kept.
    scoring : str, callable or None, default=None
        What "does best" means: any scikit-learn scorer, for example "f1" or "average_precision"
        where one class is rare. None: accuracy less half the log loss. Shares of a vote are by
        likelihood; where one level alone scores higher on the rows held out, it answers alone.
        By a score of predicted classes `fit` also changes the odds between classes, and with them
        the probabilities, to those at which rows held out score best.
    K_max : int or "auto", default="auto"
        The most codevectors a level may have, over all classes; "auto" is 100, or 10 for each
        class if that is more. `fit` doubles it as long as rows held out are told best by the
        coldest level, or by none, do even better with more, and are 10 for each codevector
        (and no more than a random forest's time is likely to be spent).
    T_max, T_min, gamma, split, samples_per_codevector, patience, epsilon_c, epsilon_n, \
epsilon_r, delta, alpha, alpha_min, thresholds, engine
        As in `ODAClustering`; gamma = 0.8 and 20 samples per codevector by default, since a
        decision needs fewer levels than a count of clusters.
    drift_detector : None, "auto" or detector, default="auto"
        Listens to the errors (1 where a sample's class is not the predicted one, else 0) in
        `partial_fit` and `learn_one`. When they become more frequent, models of the samples since
        the change join the race, and the annealing begins again at the top of the ladder: "auto"
        for a `DriftDetector`, or any object of river's interface (``update(x)``,
        ``drift_detected``). `fit` does not listen.
    recent_samples : int, default=1000
        How many of the latest samples of a stream are kept: as nearest neighbours, which answer
        where nothing does better, and to start again from after a change. Half of the room is for
        the last samples of classes that have become rare. A model file then holds samples, each
        as it came; 0 keeps none. In `fit` none are kept.
    priors : array-like of shape (n_classes,) or None, default=None
        Class probabilities in the order of ``classes_``; None takes those seen.
    class_weight : dict, "balanced" or None, default=None
        How much samples of each class count, {label: factor}; "balanced" makes all classes equally
        likely. Classes are annealed by themselves, so it decides the class probabilities, the
        choice of the levels and, in `fit`, how often fine-tuning meets their rows.
    random_state : int, RandomState instance or None, default=None
        Decides the order of presentation in `fit`, and which rows are held out.
    callbacks : list of callables or callbacks, or None, default=None
        As in `ODAClustering`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    codevectors_ : ndarray of shape (K, n_features)
        Everything that decides; of a vote, the codevectors of all voters, one after the other.
    codevector_labels_ : ndarray of shape (K,)
        The class each codevector carries.
    codevector_voters_ : ndarray of shape (K,)
        The voter it belongs to, an index into ``voters_``; all 0 where one level answers.
    voters_ : tuple of annealed.fine_tuning.vote.Voter
        Who predicts, by falling share: ``share``, and what each is and how it does alone on rows
        held out, as in ``candidates_``. Where rows are few, five of them are of annealings that
        each lacked a fifth of the rows. Empty for a model from `at` and while a race is on.
    weights_ : ndarray of shape (K,)
        rho_i, in a vote times the voter's share, summing to one within each class.
    nodes_ : ndarray of shape (K,)
        Place of every codevector in the tree of splits, as in `annealed.path.Level.nodes`.
    temperature_ : float
        T of the model; with a temperature for each codevector or voter, their geometric mean.
    feature_relevances_ : ndarray of shape (n_features,)
        How much each feature counts in the divergence, one on average; all ones where fitting
        them did not help. Of a vote the mean over the voters by their shares.
    feature_units_ : {"given", "standardised", "squashed"}
        In which units features are compared. In `fit` with the squared Euclidean divergence, where
        features differ tenfold in their spread, rows decide whether others than those given tell
        classes apart better; where features have heavy tails, they, or the tails alone, are
        squashed. Codevectors are in those given in any case;
        temperatures, divergences and relevances belong to those that are compared.
    path_ : AnnealingPath
        Every level, as annealed. Their scores are accuracies (or what ``scoring`` says) on rows
        held out; with ``level="last", fine_tune=None`` nothing is held out and they are accuracies
        on at most 500 of the rows learnt. They are nan in a stream.
    candidates_ : tuple of annealed.fine_tuning.scoring.Candidate
        What was tried on rows not learnt: number of codevectors, what was fitted, steps of
        fine-tuning, score, accuracy, log loss. In a stream they appear when a race between them
        is over, and are gone while the next one is on.
    chosen_ : annealed.fine_tuning.scoring.Candidate or None
        What predicts, all voters together (not of a model from `at`, which is as annealed). After
        `fit` its score, accuracy and log loss are estimates from rows held out, corrected for
        having chosen the best of many: no row judges what it has helped to choose. The model itself
        has learnt all rows; where that came out worse than what was tested, by more than chance
        allows, what was tested predicts.
    answering_ : annealed.fine_tuning.stream_tuner.Answering
        In a stream: ``who`` answers ("class means", "latest samples", "annealed level", "fine-tuned
        level of 12 codevectors", "vote of 8 levels"), and ``since`` which sample: so many had been
        learnt with `partial_fit` and `learn_one`. While a race is on the leader answers.
    alarms_ : ndarray of shape (n,)
        Samples of the stream that had been learnt when the drift detector raised an alarm that was
        heeded; of more than 1000 the latest.
    n_alarms_ : int
        How many there were.
    running_score_ : annealed.drift.RunningScore
        Accuracy on samples of the stream, each answered just before it was learnt: ``overall``,
        ``recent`` (over about the last 1000), and how many ``samples`` were scored, in steps of 50;
        nan before the first. It is what the drift detector hears: without one there is none.
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

    classes_: stored.Labels
    _rules = STREAM_RULES | {
        "level": [one_of("vote", "auto", "last")],
        "fine_tune": [one_of(*TUNINGS, None)],
        "scoring": [
            one_of(None),
            Rule(_names_a_scorer, "the name of a scorer (see sklearn.metrics.get_scorer_names)"),
            Rule(callable, "a callable"),
        ],
        "K_max": [one_of("auto"), whole(1)],
        "recent_samples": [whole(0)],
    }

    def __init__(
        self,
        *,
        divergence: str | BregmanDivergence = "squared_euclidean",
        level: str = "vote",
        fine_tune: str | None = "soft_lvq",
        scoring: str | Callable[..., float] | None = None,
        K_max: int | str = "auto",
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
        drift_detector: str | Detector | None = "auto",
        recent_samples: int = 1000,
        thresholds: str = "scale_free",
        engine: str = "online",
        priors: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.divergence = divergence
        self.level = level
        self.fine_tune = fine_tune
        self.scoring = scoring
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
        self.priors = priors
        self.class_weight = class_weight
        self.random_state = random_state
        self.callbacks = callbacks

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Every class has a label."""
        super().check_stored(state)
        if "_learner" in state:
            labels = state["_learner"].labels
            check_labels(state.get("classes_"), labels, len(labels))

    # -- learning ------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Anneal every class of the rows of X, in random order and as often as needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            An array of Dask is not loaded: rows of it are drawn (docs/guide/many-rows.md).
        y : array-like of shape (n_samples,)
            Class labels: numbers or strings.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows; one of weight 0 is left out.

        Returns
        -------
        self
        """
        divergence, schedule = self._parameters()
        drawn = None
        if y is not None and in_chunks(X):
            drawn = self._drawn(X, y, sample_weight)
            assert drawn.labels is not None
            X, y, sample_weight = drawn.rows, drawn.labels, drawn.weights
        rows, labels = self._checked_labelled(X, y, divergence, reset=True)
        if isinstance(rows, ArrayRows):
            rows = dense(rows)  # fine-tuning, which takes most of the time, is for the host
        weights = mean_one(checked_weights(sample_weight, len(rows)))
        classes, index = np.unique(labels, return_inverse=True)
        self._check_weighted(classes, index, weights)
        self.classes_ = classes
        self._check_classes(schedule, classes)
        seed = self._seed()
        rng = np.random.default_rng(seed)
        settings = self._settings()
        self._learner = self._new_learner(rows.shape[1], divergence, schedule)
        for label in classes:
            self._learner.add_class(label, settings)
        # Zeros of sparse rows would not be zeros in other units.
        if isinstance(divergence, SquaredEuclidean) and not isinstance(rows, SparseRows):
            asking = np.random.default_rng([seed, 1])  # whoever is asked, the rest stays as it is
            self._learner.units = choose_units(rows, index.astype(np.int32), weights, asking)
        with run_callbacks(
            self, X, y, sample_weight, max_levels=self._most_levels(schedule)
        ) as listen:
            self._learner.anneal(
                rows, index.astype(np.int32), weights, rng, schedule,
                replace(settings, listen=listen),
            )  # fmt: skip
        if drawn is not None:
            self._learner.annealer.stand_for(len(drawn.rows), drawn.total)
        self._warn_of_caps(self._learner.annealer, 0)
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
        appear at any time, and count from their first row. After `fit` its voters learn the rows,
        and their shares stay until the stream changes.

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
        if y is not None and in_chunks(X):
            for part, own, weights in self._in_turn(X, y, sample_weight):
                self.partial_fit(part, own, classes, weights)
            return self
        first = not self.__sklearn_is_fitted__()
        divergence, _ = self._parameters()
        rows, labels = self._checked_labelled(X, y, divergence, reset=first)
        weights = checked_weights(sample_weight, len(rows), all_zero=not first)
        for here, block in dense_blocks(rows):
            own = None if weights is None else weights[here]
            self._learn_checked(block, labels[here], own, first and here.start == 0, classes)
        return self

    def learn_one(self, x: Sample, y: Any = None, w: float = 1.0) -> None:
        """Learn one sample, as `partial_fit` of one row would.

        Parameters
        ----------
        x : dict or array-like of shape (n_features,)
            The features of a dict may come in any order.
        y : label
            Its class. A class may appear at any time.
        w : float, default=1.0
            Its weight.

        Examples
        --------
        >>> from annealed import ODAClassifier
        >>> model = ODAClassifier(random_state=0)
        >>> for k in range(900):
        ...     model.learn_one({"cm": k % 7, "kg": k % 5}, "small" if k % 7 < 3 else "large")
        >>> model.predict_one({"kg": 4, "cm": 1})
        'small'
        """
        fast_path: LabelledFastPath | None = self.__dict__.get("_fast_path")
        told = -1 if fast_path is None else fast_path.learn(x, y, w)
        if fast_path is None or told < 0:
            if y is None:
                raise ValueError("learn_one needs the class y of the sample")
            self._learn_one(x, y, w)
            return
        if told & ENDED:
            self._one_ended()
        if fast_path.left <= 0:
            self._learner.close_lap(self._settings())
            self._fast_path = self._new_fast_path()
        if fast_path.watch is not None and fast_path.watch.left == 0:
            tuner = self._learner.tuner
            self._learner.end_block(self._settings())
            if self._learner.tuner is not tuner or fast_path.watch.model is not None:
                self._fast_path = self._new_fast_path()

    def predict_proba_one(self, x: Sample) -> dict[Any, float]:
        """Probability of every class seen, of one sample; empty before the first sample."""
        if not self.__sklearn_is_fitted__():
            return {}
        labels, posterior = self._one_answer(x)
        return dict(zip(labels, posterior.tolist(), strict=True))

    def predict_one(self, x: Sample) -> Any:
        """The likeliest class of one sample; None before the first sample."""
        fast_path: LabelledFastPath | None = self.__dict__.get("_fast_path")
        if fast_path is not None and fast_path.run is not None:
            c = fast_path.run.likeliest(x)
            if c >= 0:
                return fast_path.labels[c]
        if not self.__sklearn_is_fitted__():
            return None
        labels, posterior = self._one_answer(x, calibrate=False)  # which decides nothing
        return labels[int(posterior.argmax())]

    def _one_answer(self, x: Sample, *, calibrate: bool = True) -> tuple[Sequence[Any], Array]:
        """Classes in the order they appeared, and their probabilities."""
        learner = self._learner
        fast_path: LabelledFastPath | None = self.__dict__.get("_fast_path")
        if fast_path is None:  # not kept: who reads changes nothing, and answers to the last bit
            fast_path = self._new_fast_path()  # are those of one that has learnt one at a time
        answer = None if fast_path.run is None else fast_path.run.answer(x)
        if answer is not None:
            tuner = learner.tuner
            if calibrate and tuner is not None:
                possible = None
                if not fast_path.all_possible:
                    possible = learner.possible(self._settings())
                answer = Calibration(tuner.calibration, tuner.doubt)(answer[None, :], possible)[0]
            return fast_path.labels, answer
        row = learner.in_units(self._checked_row(x))
        labels: list[Any] = np.array(learner.labels).tolist()
        return labels, np.ravel(self._answering().posterior(learner.divergence, row, len(labels)))

    def _new_fast_path(self) -> LabelledFastPath:
        learner, settings = self._learner, self._settings()
        annealer, tuner, watch = learner.annealer, learner.tuner, learner.watch
        sample_format = annealer.kernel.sample_format(self._sample_keys())
        run = None
        if sample_format is not None and learner.units is None:
            run = learner.begin_stream(sample_format, settings)
        if run is None or (watch is not None and not learner.tells_losses(settings)):
            return LabelledFastPath(annealer)
        labels = np.array(learner.labels).tolist()
        return LabelledFastPath(
            annealer,
            run,
            NEVER if tuner is None else tuner.left,
            labels,
            {label: c for c, label in enumerate(labels)},
            tuner,
            None if tuner is None else tuner.race,
            watch,
            bool(learner.possible(settings).all()),
        )

    def _knows(self, y: Any) -> bool:
        return y in self._learner.labels

    def _meet(self, y: Any) -> None:
        """Make room for a class if it is new; ValueError, and nothing changed, if it cannot be."""
        if self._knows(y):
            return
        label = np.array([y])
        classes = joined_labels(label, self.classes_)
        self._check_classes(self._parameters()[1], classes)
        self.classes_ = classes
        self._learner.add_class(label[0], self._settings())

    def _index_of(self, y: Any) -> NDArray[np.int32]:
        return np.array([self._learner.labels.index(y)], dtype=np.int32)

    # -- the learner ---------------------------------------------------------------------------

    def _priors(self) -> ClassPriors:
        return ClassPriors(self.classes_, self.priors, self.class_weight)

    def _settings(self) -> ClassSettings:
        return ClassSettings(
            new_watch=None if self.drift_detector is None else self._new_watch,
            listen=self._listener(),
            priors=self._priors(),
            score=self._score(),
            method=self.fine_tune,
            last=self.level == "last",
            vote=self.level == "vote" and self.fine_tune is not None,
            grows=self.K_max == "auto" and self.level != "last",
            samples=self.recent_samples,
        )

    def _score(self) -> Score | None:
        """The user's scorer as a function of posteriors and class indices."""
        if self.scoring is None:
            return None
        scorer = get_scorer(self.scoring)

        def score(answers: Array, classes: NDArray[np.int32]) -> float:
            seen = np.array(self._learner.labels)
            order = np.argsort(seen)
            # Metrics refuse a sure class at 1 + 2e-16, and sums that are 1 in single precision.
            proba = answers[:, order].astype(float)
            given = GivenPosteriors(seen[order], proba / proba.sum(axis=1, keepdims=True))
            return float(scorer(given, np.zeros((len(classes), 1)), seen[classes]))

        return score

    def _new_learner(
        self, d: int, divergence: BregmanDivergence, schedule: Schedule
    ) -> ClassLearner:
        return ClassLearner(Annealer(d, divergence, schedule))

    def _learn_checked(
        self,
        rows: NDArray[Any],
        labels: NDArray[Any] | None,
        weights: Array | None,
        first: bool,
        classes: ArrayLike | None = None,
    ) -> None:
        assert labels is not None
        divergence, schedule = self._parameters()
        expected = [labels] if classes is None else [labels, np.asarray(classes)]
        all_classes = joined_labels(*expected, *([] if first else [self.classes_]))
        self._check_classes(schedule, all_classes)
        self.classes_ = all_classes
        settings = self._settings()
        if first:
            self._learner = self._new_learner(rows.shape[1], divergence, schedule)
        self._learner = learner = self._learner.to_continue(settings)
        # Classes are numbered by their first row with any weight, which no chunking can change.
        known, counts = learner.labels, np.arange(len(labels))
        if weights is not None:
            counts = np.flatnonzero(weights > 0)
        fresh, at = np.unique(labels[counts], return_index=True)
        new = sorted(
            (int(counts[first]), label)
            for label, first in zip(fresh, at, strict=True)
            if label not in known
        )
        place = {label: c for c, label in enumerate([*known, *(label for _, label in new)])}
        places = np.array([place.get(label, 0) for label in all_classes.tolist()], dtype=np.int32)
        index = places[np.searchsorted(all_classes, labels)]
        before = len(learner.annealer.unconverged)
        begin = 0
        for row, label in new:
            if learner.labels:  # otherwise no row has had any weight
                learner.learn(rows, index, weights, begin, row, settings)
            learner.add_class(label, settings)
            begin = row
        if learner.labels:
            learner.learn(rows, index, weights, begin, len(rows), settings)
        self._warn_of_caps(learner.annealer, before)

    def _checked_schedule(self) -> tuple[BregmanDivergence, Schedule]:
        divergence, schedule = super()._checked_schedule()
        # What counts is which class is where, not that each cluster is found when it appears.
        return divergence, replace(schedule, thorough=False)

    def _check_classes(self, schedule: Schedule, classes: Labels) -> None:
        """Raise ValueError if K_max, priors or class weights do not fit the classes."""
        if len(classes) > schedule.K_max and not schedule.K_per_class:
            raise ValueError(
                f"K_max={schedule.K_max} is less than the {len(classes)} classes: every class "
                f"needs a codevector, so raise K_max to at least {len(classes)}"
            )
        ClassPriors(classes, self.priors, self.class_weight).check()

    def _check_mergeable(self, other: Any, *, features: bool = True) -> None:
        super()._check_mergeable(other, features=features)
        mine, theirs = (names_of(model.classes_.tolist()) for model in (self, other))
        if (self.classes_.dtype.kind == "U") != (other.classes_.dtype.kind == "U"):
            raise ValueError(
                f"the classes are texts in one model and numbers in another: {mine} and {theirs}"
            )
