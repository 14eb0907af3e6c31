"""Which level predicts best, and how far to fine-tune it: by data it has not learnt.

Parts of the rows are held out in turn. On the rest the classes are annealed anew, and candidates
(a number of codevectors, and what fine-tuning fits) are fine-tuned and tested on the part held out
as they go. Most are given up early: whoever is behind after a few steps is not followed further
(successive halving, Jamieson and Talwalkar 2016). What wins is repeated on all rows. That is
another annealing, which may end in another solution: it is compared with the models that were
tested, and where it falls behind them one of them answers instead.

Zero steps of fine-tuning is one of the answers: what is worse on the parts held out than the best
level as annealed is never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from annealed.annealer import Annealer
from annealed.divergences import Array
from annealed.finetune import (
    BATCH,
    TEMPERED_ROWS,
    Classes,
    Fits,
    Geometry,
    Integers,
    SoftTuning,
    TunedModel,
    Tuning,
    as_annealed,
    tempered,
)
from annealed.path import AnnealingPath, Level
from annealed.schedule import Schedule

# Rows are dealt into this many parts; so many of them are held out in turn that this many rows
# are tested in all, and of every class (or every row once), each part with at most so many rows.
PARTS = 5
TESTED_ROWS = 450
TESTED_OF_A_CLASS = 20
PART_ROWS = 4000
# Candidates stand this factor apart in their number of codevectors.
GROWTH = 1.6
# Steps of fine-tuning after which candidates are tested; after some of them only the best few go
# on: {steps: how many}. The last goes on as long as it gets better, but not beyond these passes.
FIRST_TEST = 12
SURVIVORS = {48: 8, 192: 3, 768: 1}
MOST_PASSES = 32
MOST_STEPS = 1536
# Rows are put in random order in blocks of at least, and remembered for at most so many places.
SHUFFLED_AT_LEAST = 4096
SHUFFLED_AT_MOST = 1_000_000
# The model repeated on all rows is compared with those tested on at most so many rows that both
# have learnt. It may be worse by so many standard errors: chance alone exceeds them once in 700.
COMPARED_ROWS = 4000
STANDARD_ERRORS = 3.0
# Numbers of a test's answers that are kept to calibrate by.
CALIBRATED_NUMBERS = 100_000

Score = Callable[[Array, Classes], float]


@dataclass(frozen=True)
class Candidate:
    """What was tried on rows held out.

    Attributes
    ----------
    n_codevectors : int
    temperatures, relevances : bool
        Whether each codevector's temperature and each feature's relevance were fitted.
    steps : int
        Steps of fine-tuning at its best, 0 for as annealed.
    score : float
        What the choice was made by.
    accuracy, log_loss : float
    """

    n_codevectors: int
    temperatures: bool
    relevances: bool
    steps: int
    score: float
    accuracy: float
    log_loss: float


@dataclass(frozen=True, eq=False)
class Lesson:
    """Rows, their classes and weights, and the log probabilities the classes are to have."""

    X: NDArray[Any]
    classes: Classes
    weights: Array | None
    log_prior: Array

    @property
    def emphasis(self) -> Array:
        """Weight of every row when classes count as their prior says."""
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        share = np.bincount(self.classes, weights, minlength=len(self.log_prior)) / weights.sum()
        factor = np.exp(self.log_prior) / np.where(share > 0, share, 1.0)
        return np.asarray(weights * factor[self.classes])

    @property
    def parts(self) -> int:
        """How many parts to hold out in turn."""
        rarest = np.bincount(self.classes).min()
        needed = max(TESTED_ROWS / len(self.X), TESTED_OF_A_CLASS / max(rarest, 1))
        return min(int(np.ceil(PARTS * needed)), PARTS)

    def held_out(self, parts: int, rng: np.random.Generator) -> list[tuple[Integers, Integers]]:
        """Rows to learn and rows to test, for each of some parts; every class is in the former."""
        part = np.full(len(self.X), -1)
        present = np.ones(len(self.X), dtype=bool) if self.weights is None else self.weights > 0
        dealt = 0
        for c in range(len(self.log_prior)):
            rows = rng.permutation(np.flatnonzero((self.classes == c) & present))
            if len(rows) > 1:  # a class of one row must be learnt
                part[rows] = (dealt + np.arange(len(rows))) % PARTS
                dealt += len(rows)
        splits = []
        for k in range(parts):
            test = np.flatnonzero(part == k)
            if len(test) > PART_ROWS:
                test = np.sort(rng.choice(test, PART_ROWS, replace=False))
            learn = present.copy()
            learn[test] = False
            if len(test):
                splits.append((np.flatnonzero(learn), test))
        return splits


class Shuffled:
    """Rows in random order, over and over; everyone who reads it reads the same order."""

    def __init__(self, rows: Integers, rng: np.random.Generator) -> None:
        self.rows, self.seed = rows, int(rng.integers(2**63))
        self.times = max(SHUFFLED_AT_LEAST // len(rows), 1)  # few rows: several times in a block
        self.length = self.times * len(rows)
        self._blocks: dict[int, Integers] = {}

    def block(self, k: int) -> Integers:
        """The k-th block of the order."""
        if k not in self._blocks:
            if self.length * len(self._blocks) > SHUFFLED_AT_MOST:
                self._blocks.clear()
            order = np.tile(self.rows, (self.times, 1))
            self._blocks[k] = np.random.default_rng([self.seed, k]).permuted(order, axis=1).ravel()
        return self._blocks[k]

    def between(self, begin: int, end: int) -> Iterator[tuple[Integers, int, int]]:
        """Blocks, and what to read of each, to go from place ``begin`` to ``end``."""
        while begin < end:
            k, at = divmod(begin, self.length)
            stop = min(self.length, at + end - begin)
            yield self.block(k), at, stop
            begin += stop - at


class Course:
    """A path, and the rows on which its levels are fine-tuned."""

    def __init__(
        self,
        annealer: Annealer,
        path: AnnealingPath,
        lesson: Lesson,
        emphasis: Array | None,
        rows: Integers,
        rng: np.random.Generator,
        method: type[Tuning] | None,
    ) -> None:
        self.annealer, self.divergence, self.path = annealer, annealer.divergence, path
        self.method = method or SoftTuning  # of which nothing but the start is then asked
        self.geometry: Geometry = annealer.geometry()
        self.lesson, self.emphasis = lesson, emphasis
        self.shuffled = Shuffled(rows, rng)
        order = self.shuffled.block(0)
        # A class of prior 0 is impossible at any temperature.
        few = order if emphasis is None else order[emphasis[order] > 0]
        few = few[:TEMPERED_ROWS]
        self._few = np.asarray(lesson.X[few], dtype=float), lesson.classes[few]
        self._started: dict[int, TunedModel] = {}

    def level(self, K: int) -> Level:
        """The level with K codevectors, or as close as the path comes."""
        first, last = self.path[0].n_codevectors, self.path[-1].n_codevectors
        return self.path.codebook(min(max(K, first), last))

    def start(self, K: int) -> TunedModel:
        """That level at a fitting temperature."""
        level = self.level(K)
        K = level.n_codevectors
        if K not in self._started:
            model = as_annealed(level, self.lesson.log_prior)
            self._started[K] = tempered(model, self.divergence, *self._few)
        return self._started[K]

    def tuning(self, K: int, fits: Fits) -> Tuning:
        """Fine-tuning about to begin."""
        return self.method(
            self.divergence, self.start(K), len(self.lesson.log_prior), self.geometry, fits
        )

    def tune(self, tuning: Tuning, begin: int, end: int) -> None:
        """Learn from step ``begin`` to step ``end``."""
        lesson = self.lesson
        for order, at, stop in self.shuffled.between(begin * BATCH, end * BATCH):
            tuning.learn(lesson.X, order, lesson.classes, self.emphasis, at, stop)


class Repeat:
    """A candidate learnt once more, from the rows of a course."""

    def __init__(self, course: Course, K: int, fits: Fits, steps: int) -> None:
        self.course, self.start = course, course.start(K)
        self.level = course.level(K)
        self.tuning: Tuning | None = None
        if steps:
            self.tuning = course.tuning(K, fits)
            course.tune(self.tuning, 0, steps)

    @property
    def tempering(self) -> float:
        """T at which the level as annealed predicts best, over its own."""
        return float(self.start.level.temperature / self.level.temperature)

    def gains(self, rows: Integers) -> Array:
        """What each of some rows adds to the default score: right or not, less half its loss."""
        lesson, course = self.course.lesson, self.course
        X, n = lesson.X[rows], len(lesson.log_prior)
        if self.tuning is None:
            answers = self.start.posterior(course.divergence, X, n)
        else:
            answers = self.tuning.answers(X)
        return per_row(answers, lesson.classes[rows])


def falls_behind(new: Repeat, tested: list[Repeat], rng: np.random.Generator) -> bool:
    """Whether a model does worse than those that were tested, on rows that it and they learnt."""
    lesson = new.course.lesson
    difference, counts = np.zeros(len(lesson.X)), np.zeros(len(lesson.X))
    for old in tested:
        rows = old.course.shuffled.rows
        most = COMPARED_ROWS // len(tested)
        if len(rows) > most:
            rows = rng.choice(rows, most, replace=False)
        difference[rows] += new.gains(rows) - old.gains(rows)
        counts[rows] += 1
    seen = counts > 0
    weight = lesson.emphasis[seen]
    weight = weight / weight.sum()
    gain = difference[seen] / counts[seen]
    mean = float(weight @ gain)
    error = float(np.sqrt(weight**2 @ (gain - mean) ** 2))
    return mean < -STANDARD_ERRORS * error


class Exam(NamedTuple):
    """A course, and the rows held out of it."""

    course: Course
    X: NDArray[Any]


class Test(NamedTuple):
    """What one test of a candidate gave."""

    steps: int
    score: float
    accuracy: float
    log_loss: float
    answers: NDArray[np.float32]  # on some of the rows


class Contestant:
    """One candidate on its way through all exams."""

    def __init__(self, K: int, fits: Fits, exams: list[Exam]) -> None:
        self.K, self.fits, self.exams = K, fits, exams
        self.tunings = [exam.course.tuning(K, fits) for exam in exams]
        self.tests: list[Test] = []

    def go_on(self, steps: int, judge: Judge) -> None:
        """Fine-tune until that many steps are taken, then be tested."""
        taken = self.tests[-1].steps if self.tests else 0
        for exam, tuning in zip(self.exams, self.tunings, strict=True):
            exam.course.tune(tuning, taken, steps)
        answers = np.concatenate(
            [tuning.answers(exam.X) for exam, tuning in zip(self.exams, self.tunings, strict=True)]
        )
        self.tests.append(Test(steps, *judge(answers), judge.some(answers).astype(np.float32)))

    def smoothed(self) -> Array:
        """Scores of the tests, each with half its neighbours: a lucky test is not a good model."""
        scores = np.array([test.score for test in self.tests])
        total, weight = scores.copy(), np.ones(len(scores))
        for here, there in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            total[here] += 0.5 * scores[there]
            weight[here] += 0.5
        return np.asarray(total / weight)

    def best(self, at_least: float = -np.inf) -> tuple[float, Test]:
        """The best test and its smoothed score, of those no worse than the level as annealed.

        And no worse than ``at_least``; without any such test the score is -inf.
        """
        smoothed = self.smoothed()
        bar = max(at_least, self.tests[0].score)
        good = [k for k, test in enumerate(self.tests) if test.score >= bar]
        if not good:
            return -np.inf, self.tests[0]
        k = max(good, key=smoothed.item)
        return float(smoothed[k]), self.tests[k]

    @property
    def still_better(self) -> bool:
        """Whether one of the last two tests was the best."""
        return self.best()[1].steps >= self.tests[-1].steps // 2

    def candidate(self, at_least: float = -np.inf) -> Candidate:
        """For the record."""
        test = self.best(at_least)[1]
        return Candidate(self.K, *self.fits, test.steps, test.score, test.accuracy, test.log_loss)


def right_and_loss(answers: Array, classes: Classes) -> tuple[NDArray[np.bool_], Array]:
    """Whether each row's likeliest class is its own, and its log loss."""
    own = answers[np.arange(len(answers)), classes]
    return answers.argmax(axis=1) == classes, -np.log(np.maximum(own, 1e-9))


def per_row(answers: Array, classes: Classes) -> Array:
    """What each row adds to the default score."""
    right, loss = right_and_loss(answers, classes)
    return right - 0.5 * loss


class Judge:
    """Scores answers on the rows held out.

    Without a scorer of the user's the score is accuracy less half the log loss: accuracy is what
    most users want, but counts few rows as different between two models; the log loss hears of
    all of them.
    """

    def __init__(self, classes: Classes, emphasis: Array, score: Score | None) -> None:
        self.classes, self.emphasis, self.score = classes, emphasis / emphasis.mean(), score

    def __call__(self, answers: Array) -> tuple[float, float, float]:
        """Score, accuracy, log loss."""
        right, losses = right_and_loss(answers, self.classes)
        accuracy = float((right * self.emphasis).mean())
        loss = float((losses * self.emphasis).mean())
        if self.score is None:
            return accuracy - 0.5 * loss, accuracy, loss
        # Many scores know few values: among equals the surer model.
        return self.score(answers, self.classes) - 1e-6 * loss, accuracy, loss

    def some(self, answers: Array) -> Array:
        """Answers on every so many rows, enough to calibrate by."""
        return answers[:: self._every(answers.shape[1])]

    def _every(self, columns: int) -> int:
        return max(len(self.classes) * columns // CALIBRATED_NUMBERS, 1)

    def calibration(self, some: NDArray[Any]) -> float:
        """The power of the posterior with the least log loss, given `some` of the answers.

        As in Platt's calibration a row counts as its own class but for a share 1/(n + 2) of doubt:
        n rows that were all right do not make a model infallible.
        """
        every = self._every(some.shape[1])
        classes, emphasis = self.classes[::every], self.emphasis[::every]
        doubt = 1 / (len(some) + 2)
        target = np.full(some.shape, doubt / some.shape[1])
        target[np.arange(len(some)), classes] += 1 - doubt
        target *= emphasis[:, None]
        log_p = np.log(np.maximum(some.astype(float), 1e-30))

        def loss(exponent: float) -> float:
            logit = np.exp(exponent) * log_p
            return float((target * (logsumexp(logit, axis=1, keepdims=True) - logit)).sum())

        return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 1.0), method="bounded").x))


@dataclass(frozen=True, eq=False)
class Selection:
    """The outcome, and everything that was tried.

    ``annealer`` is the one ``level`` comes from: that of all rows, or one that was tested.
    ``tuning`` can go on; it is None where ``level`` as annealed did best, to be read at its own
    temperature times ``tempering``. ``calibration`` is a power of the posterior.
    """

    annealer: Annealer
    level: Level
    tuning: Tuning | None
    tempering: float
    calibration: float
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    level_scores: list[float]


def sizes(path: AnnealingPath) -> list[int]:
    """Numbers of codevectors worth trying, from the first level's to the last's."""
    found, last = [path[0].n_codevectors], path[-1].n_codevectors
    while found[-1] < last:
        found.append(min(max(round(found[-1] * GROWTH), found[-1] + 1), last))
    return found


def select(
    annealer: Annealer,
    schedule: Schedule,
    lesson: Lesson,
    rng: np.random.Generator,
    *,
    last: bool,
    method: type[Tuning] | None,
    fits: tuple[Fits, ...],
    score: Score | None,
) -> Selection | None:
    """Choose a level of the annealed path and fine-tune it; None if no row can be held out.

    Parameters
    ----------
    annealer : Annealer
        As it annealed all the rows.
    schedule : Schedule
        By which it did.
    lesson : Lesson
    rng : Generator
    last : bool
        Take the coldest level rather than choose one.
    method : subclass of Tuning or None
        How to fine-tune; None for not at all.
    fits : tuple of Fits
        What fine-tuning may fit.
    score : callable or None
        Score of posteriors given the classes of their rows; None for the default.
    """
    path = annealer.path()
    emphasis = lesson.emphasis
    exams, tested = [], []
    for learn, test in lesson.held_out(1 if last else lesson.parts, rng):
        weights = np.zeros(len(lesson.X))
        weights[learn] = 1.0 if lesson.weights is None else lesson.weights[learn]
        again = Annealer(annealer.d, annealer.divergence, schedule)
        for _ in annealer.classes:
            again.add_class()
        again.anneal(lesson.X, lesson.classes, weights, rng)
        if not again.path():  # without the rows held out all others are alike
            continue
        course = Course(again, again.path(), lesson, emphasis, learn, rng, method)
        exams.append(Exam(course, np.ascontiguousarray(lesson.X[test])))
        tested.append(test)
    if not exams:
        return None
    rows = np.concatenate(tested)
    judge = Judge(lesson.classes[rows], emphasis[rows], score)
    tried = sizes(path)[-1:] if last else sizes(path)
    contestants = [Contestant(K, each, exams) for K in tried for each in fits]
    contest(contestants, judge, fine_tuned=method is not None, rows=len(lesson.X))
    # No fine-tuning that does worse than the best of all levels as annealed.
    annealed = max(contestant.tests[0].score for contestant in contestants)
    winner = max(contestants, key=lambda contestant: contestant.best(annealed)[0])
    chosen = winner.candidate(annealed)
    everything = (
        np.arange(len(lesson.X)) if lesson.weights is None else np.flatnonzero(lesson.weights)
    )
    tested_models = [Repeat(exam.course, winner.K, winner.fits, chosen.steps) for exam in exams]
    learnt = np.mean([len(exam.course.shuffled.rows) for exam in exams])
    longer = round(chosen.steps * len(everything) / learnt)

    def on_all_rows(source: Annealer) -> Repeat:
        course = Course(source, source.path(), lesson, emphasis, everything, rng, method)
        return Repeat(course, winner.K, winner.fits, longer)

    final = on_all_rows(annealer)
    if falls_behind(final, tested_models, rng):
        best = max(tested_models, key=_mean_gain)
        best.course.annealer.weigh([state.total_weight for state in annealer.classes])
        final = on_all_rows(best.course.annealer)
        if falls_behind(final, tested_models, rng):
            final = best
    return Selection(
        annealer=final.course.annealer,
        level=final.level,
        tuning=final.tuning,
        tempering=final.tempering,
        calibration=judge.calibration(winner.best(annealed)[1].answers),
        chosen=chosen,
        candidates=tuple(
            chosen if contestant is winner else contestant.candidate() for contestant in contestants
        ),
        level_scores=[_level_score(level, exams, judge) for level in final.course.path],
    )


def _mean_gain(model: Repeat) -> float:
    """Mean score of a model on rows it has learnt."""
    rows, emphasis = model.course.shuffled.rows[:COMPARED_ROWS], model.course.lesson.emphasis
    return float(np.average(model.gains(rows), weights=emphasis[rows]))


def _level_score(level: Level, exams: list[Exam], judge: Judge) -> float:
    """Accuracy, or the user's score, of a level as annealed without the rows held out."""
    log_prior = exams[0].course.lesson.log_prior
    answers = []
    for course, X in exams:
        model = as_annealed(course.path.at_temperature(level.temperature), log_prior)
        answers.append(model.posterior(course.divergence, X, len(log_prior)))
    score, accuracy, _ = judge(np.concatenate(answers))
    return accuracy if judge.score is None else score


def contest(contestants: list[Contestant], judge: Judge, *, fine_tuned: bool, rows: int) -> None:
    """Test candidates as they are fine-tuned, giving up those that fall behind."""
    for contestant in contestants:
        contestant.go_on(0, judge)
    if not fine_tuned:
        return
    most = max(MOST_STEPS, MOST_PASSES * rows // BATCH)
    steps, running = FIRST_TEST, list(contestants)
    while steps <= most:
        for contestant in running:
            contestant.go_on(steps, judge)
        if steps in SURVIVORS:
            running.sort(key=lambda contestant: -contestant.best()[0])
            running = running[: SURVIVORS[steps]]
        if steps >= max(SURVIVORS):  # alone: on while it gets better
            running = [one for one in running if one.still_better]
        if not running:
            return
        steps *= 2
