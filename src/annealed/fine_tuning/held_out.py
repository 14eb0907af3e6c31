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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, Geometry
from annealed.fine_tuning.methods import BATCH, SoftTuning, Tuning
from annealed.fine_tuning.model import (
    TEMPERED_ROWS,
    Classes,
    Fits,
    Integers,
    TunedModel,
    as_annealed,
    tempered,
)
from annealed.fine_tuning.scoring import Candidate, Score, Scorer, per_row
from annealed.path import AnnealingPath, Level

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


@dataclass(frozen=True, eq=False)
class LabelledRows:
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


class ReplayableOrder:
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


class TunablePath:
    """A path, and the rows on which its levels are fine-tuned."""

    def __init__(
        self,
        annealer: Annealer,
        path: AnnealingPath,
        labelled: LabelledRows,
        emphasis: Array | None,
        rows: Integers,
        rng: np.random.Generator,
        method: type[Tuning] | None,
    ) -> None:
        self.annealer, self.divergence, self.path = annealer, annealer.divergence, path
        self.method = method or SoftTuning  # of which nothing but the start is then asked
        self.geometry: Geometry = annealer.geometry()
        self.labelled, self.emphasis = labelled, emphasis
        self.shuffled = ReplayableOrder(rows, rng)
        order = self.shuffled.block(0)
        # A class of prior 0 is impossible at any temperature.
        few = order if emphasis is None else order[emphasis[order] > 0]
        few = few[:TEMPERED_ROWS]
        self._few = np.asarray(labelled.X[few], dtype=float), labelled.classes[few]
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
            model = as_annealed(level, self.labelled.log_prior)
            self._started[K] = tempered(model, self.divergence, *self._few)
        return self._started[K]

    def tuning(self, K: int, fits: Fits) -> Tuning:
        """Fine-tuning about to begin."""
        return self.method(
            self.divergence, self.start(K), len(self.labelled.log_prior), self.geometry, fits
        )

    def tune(self, tuning: Tuning, begin: int, end: int) -> None:
        """Learn from step ``begin`` to step ``end``."""
        labelled = self.labelled
        for order, at, stop in self.shuffled.between(begin * BATCH, end * BATCH):
            tuning.learn(labelled.X, order, labelled.classes, self.emphasis, at, stop)


class Repeat:
    """A candidate learnt once more, from the rows of a path that can be tuned."""

    def __init__(self, tunable: TunablePath, K: int, fits: Fits, steps: int) -> None:
        self.tunable, self.start = tunable, tunable.start(K)
        self.level = tunable.level(K)
        self.tuning: Tuning | None = None
        if steps:
            self.tuning = tunable.tuning(K, fits)
            tunable.tune(self.tuning, 0, steps)

    @property
    def tempering(self) -> float:
        """T at which the level as annealed predicts best, over its own."""
        return float(self.start.level.temperature / self.level.temperature)

    def gains(self, rows: Integers) -> Array:
        """What each of some rows adds to the default score: right or not, less half its loss."""
        labelled, tunable = self.tunable.labelled, self.tunable
        X, n = labelled.X[rows], len(labelled.log_prior)
        if self.tuning is None:
            answers = self.start.posterior(tunable.divergence, X, n)
        else:
            answers = self.tuning.answers(X)
        return per_row(answers, labelled.classes[rows])


def falls_behind(new: Repeat, tested: list[Repeat], rng: np.random.Generator) -> bool:
    """Whether a model does worse than those that were tested, on rows that it and they learnt."""
    labelled = new.tunable.labelled
    difference, counts = np.zeros(len(labelled.X)), np.zeros(len(labelled.X))
    for old in tested:
        rows = old.tunable.shuffled.rows
        most = COMPARED_ROWS // len(tested)
        if len(rows) > most:
            rows = rng.choice(rows, most, replace=False)
        difference[rows] += new.gains(rows) - old.gains(rows)
        counts[rows] += 1
    seen = counts > 0
    weight = labelled.emphasis[seen]
    weight = weight / weight.sum()
    gain = difference[seen] / counts[seen]
    mean = float(weight @ gain)
    error = float(np.sqrt(weight**2 @ (gain - mean) ** 2))
    return mean < -STANDARD_ERRORS * error


class HeldOutFold(NamedTuple):
    """A path that can be tuned, and the rows held out of it."""

    tunable: TunablePath
    X: NDArray[Any]


class CandidateTest(NamedTuple):
    """What one test of a candidate gave."""

    steps: int
    score: float
    accuracy: float
    log_loss: float
    answers: NDArray[np.float32]  # on some of the rows


class CandidateRun:
    """One candidate on its way through all folds."""

    def __init__(self, K: int, fits: Fits, folds: list[HeldOutFold]) -> None:
        self.K, self.fits, self.folds = K, fits, folds
        self.tunings = [fold.tunable.tuning(K, fits) for fold in folds]
        self.tests: list[CandidateTest] = []

    def go_on(self, steps: int, scorer: Scorer) -> None:
        """Fine-tune until that many steps are taken, then be tested."""
        taken = self.tests[-1].steps if self.tests else 0
        for fold, tuning in zip(self.folds, self.tunings, strict=True):
            fold.tunable.tune(tuning, taken, steps)
        answers = np.concatenate(
            [tuning.answers(fold.X) for fold, tuning in zip(self.folds, self.tunings, strict=True)]
        )
        self.tests.append(
            CandidateTest(steps, *scorer(answers), scorer.some(answers).astype(np.float32))
        )

    def smoothed(self) -> Array:
        """Scores of the tests, each with half its neighbours: a lucky test is not a good model."""
        scores = np.array([test.score for test in self.tests])
        total, weight = scores.copy(), np.ones(len(scores))
        for here, there in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            total[here] += 0.5 * scores[there]
            weight[here] += 0.5
        return np.asarray(total / weight)

    def best(self, at_least: float = -np.inf) -> tuple[float, CandidateTest]:
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
    labelled: LabelledRows,
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
    labelled : LabelledRows
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
    emphasis = labelled.emphasis
    folds, tested = [], []
    for learn, test in labelled.held_out(1 if last else labelled.parts, rng):
        weights = np.zeros(len(labelled.X))
        weights[learn] = 1.0 if labelled.weights is None else labelled.weights[learn]
        again = Annealer(annealer.d, annealer.divergence, schedule)
        for _ in annealer.classes:
            again.add_class()
        again.anneal(labelled.X, labelled.classes, weights, rng)
        if not again.path():  # without the rows held out all others are alike
            continue
        tunable = TunablePath(again, again.path(), labelled, emphasis, learn, rng, method)
        folds.append(HeldOutFold(tunable, np.ascontiguousarray(labelled.X[test])))
        tested.append(test)
    if not folds:
        return None
    rows = np.concatenate(tested)
    scorer = Scorer(labelled.classes[rows], emphasis[rows], score)
    tried = sizes(path)[-1:] if last else sizes(path)
    runs = [CandidateRun(K, each, folds) for K in tried for each in fits]
    run_candidates(runs, scorer, fine_tuned=method is not None, rows=len(labelled.X))
    # No fine-tuning that does worse than the best of all levels as annealed.
    annealed = max(run.tests[0].score for run in runs)
    winner = max(runs, key=lambda run: run.best(annealed)[0])
    chosen = winner.candidate(annealed)
    everything = (
        np.arange(len(labelled.X)) if labelled.weights is None else np.flatnonzero(labelled.weights)
    )
    tested_models = [Repeat(fold.tunable, winner.K, winner.fits, chosen.steps) for fold in folds]
    learnt = np.mean([len(fold.tunable.shuffled.rows) for fold in folds])
    longer = round(chosen.steps * len(everything) / learnt)

    def on_all_rows(source: Annealer) -> Repeat:
        tunable = TunablePath(source, source.path(), labelled, emphasis, everything, rng, method)
        return Repeat(tunable, winner.K, winner.fits, longer)

    final = on_all_rows(annealer)
    if falls_behind(final, tested_models, rng):
        best = max(tested_models, key=_mean_gain)
        best.tunable.annealer.set_class_weights([state.total_weight for state in annealer.classes])
        final = on_all_rows(best.tunable.annealer)
        if falls_behind(final, tested_models, rng):
            final = best
    return Selection(
        annealer=final.tunable.annealer,
        level=final.level,
        tuning=final.tuning,
        tempering=final.tempering,
        calibration=scorer.calibration(winner.best(annealed)[1].answers),
        chosen=chosen,
        candidates=tuple(chosen if run is winner else run.candidate() for run in runs),
        level_scores=[_level_score(level, folds, scorer) for level in final.tunable.path],
    )


def _mean_gain(model: Repeat) -> float:
    """Mean score of a model on rows it has learnt."""
    rows, emphasis = model.tunable.shuffled.rows[:COMPARED_ROWS], model.tunable.labelled.emphasis
    return float(np.average(model.gains(rows), weights=emphasis[rows]))


def _level_score(level: Level, folds: list[HeldOutFold], scorer: Scorer) -> float:
    """Accuracy, or the user's score, of a level as annealed without the rows held out."""
    log_prior = folds[0].tunable.labelled.log_prior
    answers = []
    for tunable, X in folds:
        model = as_annealed(tunable.path.at_temperature(level.temperature), log_prior)
        answers.append(model.posterior(tunable.divergence, X, len(log_prior)))
    score, accuracy, _ = scorer(np.concatenate(answers))
    return accuracy if scorer.score is None else score


def run_candidates(
    runs: list[CandidateRun], scorer: Scorer, *, fine_tuned: bool, rows: int
) -> None:
    """Test candidates as they are fine-tuned, giving up those that fall behind."""
    for run in runs:
        run.go_on(0, scorer)
    if not fine_tuned:
        return
    most = max(MOST_STEPS, MOST_PASSES * rows // BATCH)
    steps, running = FIRST_TEST, list(runs)
    while steps <= most:
        for run in running:
            run.go_on(steps, scorer)
        if steps in SURVIVORS:
            running.sort(key=lambda run: -run.best()[0])
            running = running[: SURVIVORS[steps]]
        if steps >= max(SURVIVORS):  # alone: on while it gets better
            running = [one for one in running if one.still_better]
        if not running:
            return
        steps *= 2
