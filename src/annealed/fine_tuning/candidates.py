"""Candidates: a level each and what fine-tuning may fit of it, tested as they are fine-tuned.

Most are given up early: who no longer gets better has been at its best, and of the others only
those with the best prospects are followed further (successive halving, Jamieson and Talwalkar
2016).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.fine_tuning.methods import BATCH, Tuning
from annealed.fine_tuning.model import Fits
from annealed.fine_tuning.scoring import Candidate, Scorer
from annealed.fine_tuning.tunable import TunablePath
from annealed.path import AnnealingPath
from annealed.threads import in_threads

# Candidates stand at most this factor apart in their number of codevectors.
GROWTH = 2.2
# Steps of fine-tuning after which candidates are tested; after some of them only the most promising
# go on: {steps: how many}, and the best of the coldest level, which tells whether more codevectors
# would pay. Those go on while they get better, but not beyond these passes or steps; small models,
# up to so many multiplications, farther.
FIRST_TEST = 12
SURVIVORS = {48: 8, 192: 3, 768: 1}
MOST_PASSES = 32
MOST_STEPS = 1536
MOST_STEPS_IF_SMALL = 6144
SMALL_WORK = 25_000_000
# Candidates are kept as they were tested while they are so many numbers in all.
KEPT = 4_000_000


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

    @property
    def default_score(self) -> float:
        """What counts without a score of the user's, and what fine-tuning goes by."""
        return self.accuracy - 0.5 * self.log_loss


class CandidateRun:
    """One candidate on its way through all folds."""

    def __init__(self, K: int, fits: Fits, folds: list[HeldOutFold]) -> None:
        self.K, self.fits, self.folds = K, fits, folds
        self.tunings = [fold.tunable.tuning(K, fits) for fold in folds]
        self.tests: list[CandidateTest] = []

    def go_on(self, fold: int, steps: int) -> Array:
        """Fine-tune in a fold until that many steps are taken; answers on the rows held out."""
        taken = self.tests[-1].steps if self.tests else 0
        tunable, X = self.folds[fold]
        tunable.tune(self.tunings[fold], taken, steps)
        return self.tunings[fold].answers(X)

    def be_tested(self, steps: int, answers: Array, scorer: Scorer) -> None:
        """Have the answers in all folds scored."""
        self.tests.append(
            CandidateTest(
                steps, *scorer(answers), answers[scorer.few(answers.shape[1])].astype(np.float32)
            )
        )

    def best(
        self, at_least: float = -np.inf, scores: Array | None = None
    ) -> tuple[float, CandidateTest]:
        """The best test and its smoothed score, of those no worse than the level as annealed.

        And no worse than ``at_least``; without any such test the score is -inf. ``scores`` are of
        its tests, if by other rows than all.
        """
        if scores is None:
            scores = np.array([test.score for test in self.tests])
        bar = max(at_least, scores[0])
        good = np.flatnonzero(scores >= bar)
        if not len(good):
            return -np.inf, self.tests[0]
        smooth = smoothed(scores)
        k = max(good.tolist(), key=smooth.item)
        return float(smooth[k]), self.tests[k]

    def best_by_default(self) -> tuple[float, CandidateTest]:
        """The same by the default score: few rows of a rare class decide many others in leaps."""
        return self.best(scores=np.array([test.default_score for test in self.tests]))

    @property
    def size(self) -> int:
        """Numbers that its models are, about: codevectors, their average, and Adam's moments."""
        return 4 * sum(tuning.work_per_row for tuning in self.tunings)

    def most_steps(self, rows: int) -> int:
        """How far it may go."""
        cheap = SMALL_WORK // (BATCH * self.tunings[0].work_per_row)
        return max(MOST_STEPS, MOST_PASSES * rows // BATCH, min(cheap, MOST_STEPS_IF_SMALL))

    @property
    def prospects(self) -> float:
        """The score after as many steps again, if they gain as much as the last half of them did.

        Many codevectors with much to fit are behind for long, and ahead in the end.
        """
        before, last = (test.default_score for test in self.tests[-2:])
        return 2 * last - before

    @property
    def still_better(self) -> bool:
        """Whether one of the last two tests was the best."""
        return self.best_by_default()[1].steps >= self.tests[-1].steps // 2


def smoothed(scores: Array) -> Array:
    """Scores of tests, each with half its neighbours: a lucky test is not a good model."""
    total, weight = scores.copy(), np.ones(len(scores))
    for here, there in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        total[here] += 0.5 * scores[there]
        weight[here] += 0.5
    return np.asarray(total / weight)


class Chosen(NamedTuple):
    """A candidate, the score it is chosen by, and the test that gave it."""

    run: CandidateRun
    score: float
    test: CandidateTest

    @property
    def candidate(self) -> Candidate:
        """For the record."""
        test = self.test
        return Candidate(
            self.run.K, *self.run.fits, test.steps, test.score, test.accuracy, test.log_loss
        )


class KeptTunings:
    """Candidates as they were tested, so that those chosen need not be learnt from the start.

    As long as all together are small: those of the fewest steps go first, which take the least
    time to be learnt again.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[CandidateRun, int], list[Tuning]] = {}
        self.size = 0

    def keep(self, run: CandidateRun, steps: int) -> None:
        """Keep a candidate of all folds as it is after so many steps."""
        self.kept[run, steps] = [tuning.copy() for tuning in run.tunings]
        self.size += run.size
        while self.size > KEPT:  # they come in the order of their steps
            first, _ = next(iter(self.kept))
            del self.kept[next(iter(self.kept))]
            self.size -= first.size

    def get(self, run: CandidateRun, steps: int, fold: int) -> Tuning | None:
        """A candidate of one fold, to be taken once; None if it was not kept."""
        kept = self.kept.get((run, steps))
        return None if kept is None else kept[fold]


def sizes(path: AnnealingPath, growth: float = GROWTH) -> list[int]:
    """Numbers of codevectors worth trying, evenly from the first level's to the last's."""
    first, last = path[0].n_codevectors, path[-1].n_codevectors
    steps = math.ceil(math.log(last / first, growth))
    return sorted({round(first * (last / first) ** (k / max(steps, 1))) for k in range(steps + 1)})


def run_candidates(
    runs: list[CandidateRun], scorer: Scorer, *, fine_tuned: bool, rows: int
) -> KeptTunings:
    """Test candidates as they are fine-tuned, giving up those that fall behind."""
    kept = KeptTunings()

    def test(running: list[CandidateRun], steps: int) -> None:
        longest_first = sorted(running, key=lambda run: -run.K)
        pieces = [(run, fold) for run in longest_first for fold in range(len(run.folds))]
        answers = in_threads(
            lambda piece: piece[0].go_on(piece[1], steps),
            pieces,
            threads=running[0].folds[0].tunable.annealer.threads,
        )
        found = dict(zip(pieces, answers, strict=True))
        for run in running:
            replies = [found[run, fold] for fold in range(len(run.folds))]
            run.be_tested(steps, np.concatenate(replies), scorer)
            if steps >= sorted(SURVIVORS)[1]:  # before, copying takes more time than it saves
                kept.keep(run, steps)

    test(runs, 0)
    if not fine_tuned:
        return kept
    steps, running = FIRST_TEST, list(runs)
    while running := [run for run in running if steps <= run.most_steps(rows)]:
        test(running, steps)
        met = steps * BATCH >= rows or steps >= max(SURVIVORS)  # before that rare ones were not
        if steps >= min(SURVIVORS) and met:
            running = [run for run in running if run.still_better]
        if steps in SURVIVORS:
            running.sort(key=lambda run: -run.prospects)
            coldest = [run for run in running if run.K == runs[-1].K][:1]
            running = running[: SURVIVORS[steps]]
            running += [run for run in coldest if run not in running]
        steps *= 2
    return kept
