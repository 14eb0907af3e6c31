"""Which level predicts best, and how far to fine-tune it: by data it has not learnt.

Parts of the rows are held out in turn. Beside all rows the rest is annealed, and candidates
(a number of codevectors, and what fine-tuning fits) are fine-tuned and tested on the part held out
as they go. Most are given up early: who no longer gets better has been at its best, and of the
others only those with the best prospects are followed further (successive halving, Jamieson and
Talwalkar 2016). What wins is repeated on all rows. That is
another annealing, which may end in another solution: it is compared with the models that were
tested, and where it falls behind them one of them answers instead.

Zero steps of fine-tuning is one of the answers: what is worse on the parts held out than the best
level as annealed is never kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array
from annealed.fine_tuning.methods import BATCH, Tuning
from annealed.fine_tuning.model import Calibration, Classes, Fits, Integers, as_annealed
from annealed.fine_tuning.scoring import (
    Candidate,
    Score,
    Scorer,
    doubt_of,
    own_class,
    per_row,
)
from annealed.fine_tuning.tunable import PARTS, LabelledRows, TunablePath
from annealed.fine_tuning.vote import (
    MOST_VOTERS,
    SMALLEST_SHARE,
    Voter,
    fit_shares,
    mean_answer,
)
from annealed.path import AnnealingPath, Level
from annealed.threads import in_threads, with_one_blas_thread

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
# The model repeated on all rows is compared with those tested on at most so many rows that both
# have learnt. It may be worse by so many standard errors: chance alone exceeds them once in 700.
COMPARED_ROWS = 4000
STANDARD_ERRORS = 3.0
# Into so many groups the tested rows are dealt, to be answered by what the others choose.
GROUPS = 5
# Candidates are kept as they were tested while they are so many numbers in all.
KEPT = 4_000_000
# Up to so many rows that are tested, shares are means over so many resamples of them.
FEW_ROWS = 600
RESAMPLES = 10


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


class Repeat:
    """Candidates learnt once more, from the rows of a path that can be tuned, with their shares.

    ``longer`` is how many times as many steps they take as when they were tested. Those of a
    ``fold`` were learnt from these rows when they were tested: where they were ``kept`` they are
    taken as they are.
    """

    def __init__(
        self,
        tunable: TunablePath,
        chosen: list[Chosen],
        shares: Array,
        *,
        longer: float = 1.0,
        fold: int | None = None,
        kept: KeptTunings | None = None,
    ) -> None:
        self.tunable, self.shares = tunable, shares
        self.steps = [round(longer * test.steps) for _, _, test in chosen]
        self.tunings, self.taken = [], []
        for (run, _, test), steps in zip(chosen, self.steps, strict=True):
            there = None if fold is None or kept is None else kept.get(run, test.steps, fold)
            self.taken.append(0 if there is None else steps)
            self.tunings.append(there or tunable.tuning(run.K, run.fits, plain=test.steps == 0))

    @staticmethod
    def learn(models: list[Repeat]) -> None:
        """Take the steps of all candidates of some models."""
        pieces = [
            (model.tunable, tuning, taken, steps)
            for model in models
            for tuning, taken, steps in zip(model.tunings, model.taken, model.steps, strict=True)
            if taken < steps
        ]
        pieces.sort(key=lambda piece: -piece[1].n_codevectors * piece[3])  # the longest first
        in_threads(
            lambda piece: piece[0].tune(*piece[1:]),
            pieces,
            threads=models[0].tunable.annealer.threads,
        )

    def gains(self, rows: Integers) -> Array:
        """What each of some rows adds to the default score: right or not, less half its loss."""
        labelled = self.tunable.labelled
        answers = [tuning.answers(labelled.X[rows]) for tuning in self.tunings]
        return per_row(mean_answer(answers, self.shares), labelled.classes[rows])


def with_tested(
    chosen: list[Chosen], final: Repeat, tested: list[Repeat]
) -> tuple[list[Chosen], Repeat]:
    """The voters, and one of each annealing that was tested, with half of the shares.

    An annealing depends on the order of its rows, of few rows most; a mean over several does less,
    and these are there already. Voters are dealt out to them by their shares.
    """
    kept = final.shares[: MOST_VOTERS - len(tested)]
    kept = kept[0.5 * kept >= SMALLEST_SHARE]
    kept = kept / kept.sum()
    places = (np.arange(len(tested)) + 0.5) / len(tested)
    dealt = np.searchsorted(np.cumsum(final.shares)[:-1], places).tolist()
    shares = np.append(0.5 * kept, np.full(len(tested), 0.5 / len(tested)))
    order = np.argsort(-shares, kind="stable")
    voters = [*chosen[: len(kept)], *(chosen[k] for k in dealt)]
    others = [model.tunings[k] for model, k in zip(tested, dealt, strict=True)]
    tunings = [*final.tunings[: len(kept)], *map(_of_another_tree, others)]
    joined = copy.copy(final)
    joined.tunings, joined.shares = [tunings[k] for k in order.tolist()], shares[order]
    return [voters[k] for k in order.tolist()], joined


def _of_another_tree(tuning: Tuning) -> Tuning:
    """Its codevectors have no place in the tree of the path that is kept."""
    level = tuning.start.level
    nowhere = np.full(level.n_codevectors, -1, dtype=np.int64)
    tuning.start = replace(tuning.start, level=replace(level, nodes=nowhere, parents=nowhere))
    return tuning


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


@dataclass(frozen=True, eq=False)
class Selection:
    """The outcome, and everything that was tried.

    ``annealer`` is the one the voters come from: that of all rows, or one that was tested.
    ``tunings`` of the voters can go on. A level that answers alone and as it was annealed is
    ``plain`` instead, to be read at its own temperature times ``tempering``. ``calibration`` is
    of the posterior; ``chosen`` says how well all this does on ``rows`` that were held out;
    ``share_of_coldest`` how much of the answer is the coldest level's.
    """

    annealer: Annealer
    tunings: list[Tuning]
    shares: Array
    plain: Level | None
    tempering: float
    calibration: Calibration
    chosen: Candidate
    voters: tuple[Voter, ...]
    candidates: tuple[Candidate, ...]
    rows: int
    share_of_coldest: float
    level_scores: list[float]

    @property
    def most_codevectors(self) -> int:
        """Codevectors of the coldest level that was tried."""
        return max(candidate.n_codevectors for candidate in self.candidates)


def sizes(path: AnnealingPath, growth: float = GROWTH) -> list[int]:
    """Numbers of codevectors worth trying, evenly from the first level's to the last's."""
    first, last = path[0].n_codevectors, path[-1].n_codevectors
    steps = math.ceil(math.log(last / first, growth))
    return sorted({round(first * (last / first) ** (k / max(steps, 1))) for k in range(steps + 1)})


@with_one_blas_thread
def anneal_and_select(
    annealer: Annealer,
    labelled: LabelledRows,
    rng: np.random.Generator,
    *,
    last: bool,
    vote: bool,
    method: type[Tuning] | None,
    fits: tuple[Fits, ...],
    score: Score | None,
    listen: Callable[[Annealer], None] | None,
) -> Selection | None:
    """Anneal, choose levels of the path and fine-tune them; None if there is nothing to choose.

    Nor is there where no row can be held out.

    Parameters
    ----------
    annealer : Annealer
        That anneals all the rows: with all classes, of which it has seen nothing yet.
    labelled : LabelledRows
    rng : Generator
    last : bool
        Take the coldest level rather than choose one.
    vote : bool
        Let several levels answer together rather than the best alone.
    method : subclass of Tuning or None
        How to fine-tune; None for not at all.
    fits : tuple of Fits
        What fine-tuning may fit.
    score : callable or None
        Score of posteriors given the classes of their rows; None for the default.
    listen : callable or None
        Told of the levels of all the rows, by the thread that calls.
    """
    emphasis = labelled.emphasis
    aside = rng.spawn(1)[0]  # the path is the one there is without a choice, to the bit
    splits = labelled.held_out(1 if last else labelled.parts, aside)
    annealers = [annealer, *(_with_same_classes(annealer) for _ in splits)]
    weights = [labelled.weights, *(_learnt_only(labelled, learn) for learn, _ in splits)]
    rngs = [rng, *aside.spawn(len(splits))]

    def anneal(k: int) -> None:
        told = listen if k == 0 else None
        annealers[k].anneal(labelled.X, labelled.classes, weights[k], rngs[k], told)

    # Blocks of samples are shared out to threads by themselves.
    alone = annealer.schedule.engine == "block" or listen is not None
    in_threads(anneal, range(len(annealers)), threads=1 if alone else annealer.threads)
    path = annealer.path()
    folds, tested = [], []
    for again, own, (learn, test) in zip(annealers[1:], rngs[1:], splits, strict=True):
        if again.path():  # else all rows but those held out are alike
            tunable = TunablePath(again, again.path(), labelled, learn, own, method)
            folds.append(HeldOutFold(tunable, np.ascontiguousarray(labelled.X[test])))
            tested.append(test)
    if not (path and folds):
        return None
    rows = np.concatenate(tested)
    scorer = Scorer(labelled.classes[rows], emphasis[rows], score, doubt_of(len(rows)))
    K_tried = sizes(path)[-1:] if last else sizes(path)
    runs = [CandidateRun(K, each, folds) for K in K_tried for each in fits]
    kept = run_candidates(runs, scorer, fine_tuned=method is not None, rows=len(labelled.X))
    few = scorer.on(scorer.few(len(labelled.log_prior)))
    scores = [np.array([test.score for test in run.tests]) for run in runs]
    resamples = _resamples(few, len(folds), rng)
    chosen, shares = choose(runs, few, slice(None), scores, resamples, vote=vote)
    everything = (
        np.arange(len(labelled.X)) if labelled.weights is None else np.flatnonzero(labelled.weights)
    )
    tested_models = [
        Repeat(fold.tunable, chosen, shares, fold=k, kept=kept) for k, fold in enumerate(folds)
    ]
    learnt = np.mean([len(fold.tunable.shuffled.rows) for fold in folds])

    def on_all_rows(source: Annealer) -> Repeat:
        tunable = TunablePath(source, source.path(), labelled, everything, rng, method)
        return Repeat(tunable, chosen, shares, longer=float(len(everything) / learnt))

    final = on_all_rows(annealer)
    Repeat.learn([*tested_models, final])
    if falls_behind(final, tested_models, rng):
        best = max(tested_models, key=_mean_gain)
        best.tunable.annealer.set_class_weights([state.total_weight for state in annealer.classes])
        final = on_all_rows(best.tunable.annealer)
        Repeat.learn([final])
        if falls_behind(final, tested_models, rng):
            final = best
    elif vote:
        chosen, final = with_tested(chosen, final, tested_models)
        shares = final.shares
    plain, tempering = None, 1.0
    if len(chosen) == 1 and chosen[0].test.steps == 0:
        plain = final.tunable.level(chosen[0].run.K)
        tempering = final.tunings[0].start.level.temperature / plain.temperature
    mean = mean_answer([each.test.answers for each in chosen], shares)
    score_, accuracy, log_loss = estimate(runs, few, resamples, vote=vote)
    candidates = [  # an annealing without some rows may end with fewer codevectors
        replace(each.candidate, n_codevectors=tuning.start.level.n_codevectors)
        for each, tuning in zip(chosen, final.tunings, strict=True)
    ]
    return Selection(
        annealer=final.tunable.annealer,
        tunings=final.tunings if plain is None else [],
        shares=shares if plain is None else np.empty(0),
        plain=plain,
        tempering=float(tempering),
        calibration=few.calibration(mean),
        chosen=Candidate(
            n_codevectors=sum(each.n_codevectors for each in candidates),
            temperatures=any(each.temperatures for each in candidates),
            relevances=any(each.relevances for each in candidates),
            steps=max(each.steps for each in candidates),
            score=score_,
            accuracy=accuracy,
            log_loss=log_loss,
        ),
        voters=tuple(
            Voter(**vars(each), share=share)
            for each, share in zip(candidates, shares.tolist(), strict=True)
        ),
        candidates=tuple(
            next((each for each in chosen if each.run is run), Chosen(run, *run.best())).candidate
            for run in runs
        ),
        rows=len(rows),
        share_of_coldest=sum(
            share
            for each, share in zip(chosen, shares.tolist(), strict=True)
            if each.run.K == K_tried[-1]
        ),
        level_scores=[_level_score(level, folds, scorer) for level in final.tunable.path],
    )


def _with_same_classes(annealer: Annealer) -> Annealer:
    """One that has seen nothing yet."""
    again = Annealer(annealer.d, annealer.divergence, annealer.schedule)
    for _ in annealer.classes:
        again.add_class()
    return again


def _learnt_only(labelled: LabelledRows, rows: Integers) -> Array:
    """Weights of all rows: 0 but for these."""
    weights = np.zeros(len(labelled.X))
    weights[rows] = 1.0 if labelled.weights is None else labelled.weights[rows]
    return weights


def choose(
    runs: list[CandidateRun],
    judge: Scorer,
    rows: NDArray[Any] | slice,
    scores: list[Array],
    resamples: Array,
    *,
    vote: bool,
) -> tuple[list[Chosen], Array]:
    """Those who answer, by falling share, and their shares.

    Alone: the best score, no fine-tuning that does worse than the best of all levels as annealed;
    by the default score with the prior on sizes of :func:`~annealed.fine_tuning.vote.fit_shares`.
    Together: every candidate at its best, a level as annealed once, with the shares that make
    rows most likely, on average over ``resamples``; by a score of the user's only if that is not
    surely worse than alone. ``scores`` of all tests, and the ``judge``, are by some ``rows`` of the
    tests.
    """
    annealed = max(each[0] for each in scores)
    best = [Chosen(run, *run.best(annealed, s)) for run, s in zip(runs, scores, strict=True)]
    of_a_row = 0.0 if judge.score is not None else 1 / len(judge.classes)
    alone = max(best, key=lambda each: each.score - of_a_row * math.log(each.run.K))
    if not vote:
        return [alone], np.ones(1)
    best = [Chosen(run, *run.best_by_default()) for run in runs]
    if judge.score is None:
        best = [Chosen(run, *run.best(-np.inf, s)) for run, s in zip(runs, scores, strict=True)]
    once = {(each.run.K, each.test.steps and each.run.fits): each for each in best}
    different = list(once.values())
    own = [own_class(each.test.answers[rows], judge.classes, judge.doubt) for each in different]
    voters, shares = fit_shares(
        np.column_stack(own),
        judge.emphasis * resamples[:, rows],
        np.array([each.run.K for each in different]),
    )
    chosen = [different[k] for k in voters.tolist()]
    if judge.score is not None:
        together = mean_answer([each.test.answers[rows] for each in chosen], shares)
        if surely_worse(judge, together, alone.test.answers[rows].astype(float)):
            return [alone], np.ones(1)
    return chosen, shares


def surely_worse(judge: Scorer, one: Array, other: Array) -> bool:
    """Whether one score is below another by more than the standard error of their difference.

    Of a score of the user's nothing is known: by leaving out a group of rows at a time (the
    jackknife). Many scores are a matter of the few rows of a rare class.
    """
    group = _stratified(judge.classes)
    parts = [group >= 0, *(group != g for g in range(GROUPS))]
    here, there = judge.on_parts([one, other], parts).T
    difference, *without = here - there
    error = np.sqrt((GROUPS - 1) * np.var(without))
    return bool(difference < -error)


def _stratified(classes: Classes) -> Integers:
    """The group of every row: as many of every class in each, as far as they go."""
    group = np.empty(len(classes), dtype=np.int64)
    group[np.argsort(classes, kind="stable")] = np.arange(len(classes)) % GROUPS
    return group


def _resamples(scorer: Scorer, folds: int, rng: np.random.Generator) -> Array:
    """How often each of the rows tested is met in every resample (Bayesian bootstrap, Rubin 1981).

    As it is, in a single one, where rows are many.
    """
    n = len(scorer.classes)
    if folds < PARTS or n > FEW_ROWS:
        return np.ones((1, n))
    return rng.exponential(size=(RESAMPLES, n))


def estimate(
    runs: list[CandidateRun], scorer: Scorer, resamples: Array, *, vote: bool
) -> tuple[float, float, float]:
    """Score, accuracy and log loss to expect of new rows.

    The best of many is partly the luckiest, so no row may judge what it has helped to choose: rows
    are dealt into groups, and each group is answered by whom the others choose and calibrate.
    """
    n = len(scorer.classes)
    group = _stratified(scorer.classes)
    parts = [(group == g, group != g) for g in range(min(GROUPS, n))]
    answers = np.array(runs[0].tests[0].answers, dtype=float)  # of a single row, for want of others
    scores = [
        scorer.on_parts([test.answers for test in run.tests], [others for _, others in parts])
        for run in runs
    ]
    for g, (here, others) in enumerate(parts if n > 1 else []):
        judge = scorer.on(others)
        chosen, shares = choose(
            runs, judge, others, [each[g] for each in scores], resamples, vote=vote
        )
        replies = [each.test.answers for each in chosen]
        calibration = judge.calibration(mean_answer([reply[others] for reply in replies], shares))
        answers[here] = mean_answer([reply[here] for reply in replies], shares, calibration)
    return Scorer(scorer.classes, scorer.emphasis, scorer.score)(answers)


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
