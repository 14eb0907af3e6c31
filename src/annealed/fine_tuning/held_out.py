"""Which level predicts best, and how far to fine-tune it: by data it has not learnt.

Parts of the rows are held out in turn. Beside all rows the rest is annealed, and candidates
(`candidates`) are fine-tuned and tested on the part held out as they go. What wins is repeated on
all rows (`repeat`).

Zero steps of fine-tuning is one of the answers: what is worse on the parts held out than the best
level as annealed is never kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array
from annealed.fine_tuning.candidates import (
    CandidateRun,
    Chosen,
    HeldOutFold,
    KeptTunings,
    run_candidates,
    sizes,
)
from annealed.fine_tuning.methods import Tuning
from annealed.fine_tuning.model import (
    NO_CALIBRATION,
    Calibration,
    Classes,
    Fits,
    Integers,
    as_annealed,
)
from annealed.fine_tuning.odds import best_odds, shifted
from annealed.fine_tuning.repeat import Repeat, falls_behind, with_tested
from annealed.fine_tuning.scoring import Candidate, Score, Scorer, doubt_of, own_class
from annealed.fine_tuning.tunable import PARTS, LabelledRows, TunablePath
from annealed.fine_tuning.vote import Voter, fit_shares, mean_answer
from annealed.path import Level
from annealed.threads import in_threads, with_one_blas_thread

# Into so many groups the tested rows are dealt, to be answered by what the others choose.
GROUPS = 5
# Up to so many rows that are tested, shares are means over so many resamples of them.
FEW_ROWS = 600
RESAMPLES = 10


@dataclass(frozen=True, eq=False)
class Selection:
    """The outcome, and everything that was tried.

    ``annealer`` is the one the voters come from: that of all rows, or one that was tested.
    ``tunings`` of the voters can go on. A level that answers alone and as it was annealed is
    ``plain`` instead, to be read at its own temperature times ``tempering``. ``calibration`` is
    of the posterior; ``chosen`` says how well all this does on rows that were held out.
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
    level_scores: list[float]


class Answer(NamedTuple):
    """Who answers, by falling share, and by how much the log odds between classes are changed."""

    chosen: list[Chosen]
    shares: Array
    odds: Array

    def on(
        self, rows: NDArray[Any] | slice, calibration: Calibration = NO_CALIBRATION
    ) -> NDArray[Any]:
        """What it says of some of the rows held out."""
        replies = [shifted(each.test.answers[rows], self.odds) for each in self.chosen]
        return mean_answer(replies, self.shares, calibration)


class Expected(NamedTuple):
    """What to expect of new rows, by those held out."""

    score: float
    accuracy: float
    log_loss: float


@dataclass(frozen=True, eq=False)
class Choice:
    """Who is to answer, by rows held out, of an annealing of all rows and those without each part.

    The ``answer`` is that of some of all ``runs``, which are ``kept`` as they were tested as far
    as there is room. ``expected`` says how good it is; ``judge`` knows the rows held out, ``few``
    those of them by which votes and calibrations are fitted.
    """

    annealer: Annealer
    labelled: LabelledRows
    folds: list[HeldOutFold]
    runs: list[CandidateRun]
    kept: KeptTunings
    answer: Answer
    expected: Expected
    judge: Scorer
    few: Scorer
    method: type[Tuning] | None
    vote: bool

    @property
    def rows(self) -> int:
        """Rows that were held out."""
        return len(self.judge.classes)

    @property
    def most_codevectors(self) -> int:
        """Codevectors of the coldest level that was tried."""
        return self.runs[-1].K

    @property
    def share_of_coldest(self) -> float:
        """How much of the answer is the coldest level's."""
        coldest = [each.run.K == self.most_codevectors for each in self.answer.chosen]
        return float(self.answer.shares[coldest].sum())

    @with_one_blas_thread
    def on_all_rows(self, rng: np.random.Generator) -> Selection:
        """Learn from all rows what was chosen; what was tested answers if that falls behind it."""
        chosen, shares, odds = self.answer
        tested = [
            Repeat(fold.tunable, chosen, shares, fold=k, kept=self.kept)
            for k, fold in enumerate(self.folds)
        ]
        final = self._repeat(self.annealer, rng)
        Repeat.learn([*tested, final])
        if falls_behind(final, tested, rng):
            best = max(tested, key=lambda model: model.mean_gain)
            totals = [state.total_weight for state in self.annealer.classes]
            best.tunable.annealer.set_class_weights(totals)
            final = self._repeat(best.tunable.annealer, rng)
            Repeat.learn([final])
            if falls_behind(final, tested, rng):
                final = best
        elif self.vote:
            chosen, final = with_tested(chosen, final, tested)
            shares = final.shares
        if odds.any():
            for tuning in final.tunings:
                tuning.shift(odds)
        plain, tempering = None, 1.0
        if len(chosen) == 1 and chosen[0].test.steps == 0 and not odds.any():
            plain = final.tunable.level(chosen[0].run.K)
            tempering = final.tunings[0].start.level.temperature / plain.temperature
        mean = Answer(chosen, shares, odds).on(slice(None))
        answering = [  # an annealing without some rows may end with fewer codevectors
            replace(each.candidate, n_codevectors=tuning.start.level.n_codevectors)
            for each, tuning in zip(chosen, final.tunings, strict=True)
        ]
        of_run = {each.run: each for each in reversed(chosen)}
        return Selection(
            annealer=final.tunable.annealer,
            tunings=final.tunings if plain is None else [],
            shares=shares if plain is None else np.empty(0),
            plain=plain,
            tempering=float(tempering),
            calibration=self.few.calibration(mean),
            chosen=Candidate(
                n_codevectors=sum(each.n_codevectors for each in answering),
                temperatures=any(each.temperatures for each in answering),
                relevances=any(each.relevances for each in answering),
                steps=max(each.steps for each in answering),
                **self.expected._asdict(),
            ),
            voters=tuple(
                Voter(**vars(each), share=share)
                for each, share in zip(answering, shares.tolist(), strict=True)
            ),
            candidates=tuple(
                of_run.get(run, Chosen(run, *run.best())).candidate for run in self.runs
            ),
            level_scores=[
                _level_score(level, self.folds, self.judge) for level in final.tunable.path
            ],
        )

    def _repeat(self, source: Annealer, rng: np.random.Generator) -> Repeat:
        """What was chosen, of an annealing, about to be learnt from all rows."""
        labelled = self.labelled
        everything = np.arange(len(labelled.X))
        if labelled.weights is not None:
            everything = np.flatnonzero(labelled.weights)
        learnt = np.mean([len(fold.tunable.shuffled.rows) for fold in self.folds])
        tunable = TunablePath(source, source.path(), labelled, everything, rng, self.method)
        longer = float(len(everything) / learnt)
        return Repeat(tunable, self.answer.chosen, self.answer.shares, longer=longer)


@with_one_blas_thread
def anneal_and_choose(
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
) -> Choice | None:
    """Anneal, and choose levels of the path by rows held out; None if there is nothing to choose.

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
    answer = choose(runs, few, slice(None), scores, resamples, vote=vote)
    expected = estimate(runs, few, resamples, vote=vote)
    return Choice(
        annealer, labelled, folds, runs, kept, answer, expected, scorer, few, method, vote
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
) -> Answer:
    """Who answers.

    Alone: the best score, no fine-tuning that does worse than the best of all levels as annealed;
    by the default score with the prior on sizes of :func:`~annealed.fine_tuning.vote.fit_shares`.
    Together: every candidate at its best, a level as annealed once, with the shares that make
    rows most likely, on average over ``resamples``; by a score of the user's only if that is not
    surely worse than alone. ``scores`` of all tests, and the ``judge``, are by some ``rows`` of the
    tests.
    """

    def with_odds(chosen: list[Chosen], shares: Array) -> Answer:
        answers = [each.test.answers[rows] for each in chosen]
        return Answer(chosen, shares, best_odds(judge, answers, shares))

    annealed = max(each[0] for each in scores)
    best = [Chosen(run, *run.best(annealed, s)) for run, s in zip(runs, scores, strict=True)]
    of_a_row = 0.0 if judge.score is not None else 1 / len(judge.classes)
    alone = max(best, key=lambda each: each.score - of_a_row * math.log(each.run.K))
    if not vote:
        return with_odds([alone], np.ones(1))
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
    together = with_odds([different[k] for k in voters.tolist()], shares)
    if judge.score is not None:
        best_alone = with_odds([alone], np.ones(1))
        if surely_worse(judge, together.on(rows), best_alone.on(rows)):
            return best_alone
    return together


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


def estimate(runs: list[CandidateRun], scorer: Scorer, resamples: Array, *, vote: bool) -> Expected:
    """What to expect of new rows.

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
        found = choose(runs, judge, others, [each[g] for each in scores], resamples, vote=vote)
        answers[here] = found.on(here, judge.calibration(found.on(others)))
    return Expected(*Scorer(scorer.classes, scorer.emphasis, scorer.score)(answers))


def _level_score(level: Level, folds: list[HeldOutFold], scorer: Scorer) -> float:
    """Accuracy, or the user's score, of a level as annealed without the rows held out."""
    log_prior = folds[0].tunable.labelled.log_prior
    answers = []
    for tunable, X in folds:
        model = as_annealed(tunable.path.at_temperature(level.temperature), log_prior)
        answers.append(model.posterior(tunable.divergence, X, len(log_prior)))
    score, accuracy, _ = scorer(np.concatenate(answers))
    return accuracy if scorer.score is None else score
