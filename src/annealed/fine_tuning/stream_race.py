"""Choosing and fine-tuning a level in a stream: candidates race on the samples to come.

Levels of several sizes, as annealed and fine-tuned, are tested on each new sample and then learn it
(test-then-train). The best one stays and goes on learning. A race is held when every class has gone
down the ladder; before that, ever more rarely, so that a long annealing has something better to
answer with on the way; and when the stream has changed. Everything is counted in samples, so how
calls cut the stream cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array
from annealed.fine_tuning.held_out import Selection, sizes
from annealed.fine_tuning.methods import TUNINGS, SoftTuning, Tuning
from annealed.fine_tuning.model import Fits, as_annealed
from annealed.fine_tuning.scoring import Candidate, Score, Scorer
from annealed.fine_tuning.vote import Vote, Voter, check_shares
from annealed.path import Level
from annealed.stored import Classes, Count, Positive, State, Vector, among, require

# Samples on which candidates are compared; and those a fine-tuning learns before its answers count.
LENGTH = 2000
HEAD_START = 200
# Every so many samples of a race the candidate that did best on the last few becomes the one that
# answers; and once so many are past, only the better part of them goes on.
LAP = 100
RECENT = 300
CUT_AT = 600
SURVIVORS = 8
# Levels that take part stand this factor apart in their number of codevectors.
GROWTH = 1.6
# Samples before the first race of an annealing that is still under way; each next one waits until
# twice as many have come.
EARLIEST = 500


@dataclass(eq=False, repr=False)
class Race:
    """Candidates that are tested on each sample and then learn it.

    Parameters
    ----------
    runners : list of Tuning
        One that only tests has rate 0.
    length : int
        Samples until it is over.
    may_not_win : bool
        The first runner may lead, but not win: it has learnt so much longer than the others that
        it would, although they will be better.
    """

    runners: list[Tuning]
    length: Positive = LENGTH
    may_not_win: bool = False
    seen: Count = 0
    leader: Count | None = None
    answers: list[list[NDArray[np.float32]]] = field(init=False)
    classes: list[Classes] = field(default_factory=list)
    counted: list[Vector] = field(default_factory=list)  # how much each sample counts

    def __post_init__(self) -> None:
        self.answers = [[] for _ in self.runners]

    @classmethod
    def check_stored(cls, state: State) -> None:
        """There is an answer of every runner to every sample, and a class and weight of it."""
        runners, seen, leader = state["runners"], state["seen"], state["leader"]
        require(runners and seen < state["length"] <= LENGTH, "a race is over")
        require(leader is None or leader < len(runners), "a race is led by nobody")
        require(len(runners) == len(state["answers"]), "a race has answers of other runners")
        classes, counted = state["classes"], state["counted"]
        require(len(classes) == len(counted), "a race has weights of other samples")
        n = runners[0].n_classes
        require(all(runner.n_classes == n for runner in runners), "a race is of other classes")
        for answers in state["answers"]:
            fits = all(answer.ndim == 2 and answer.shape[1] == n for answer in answers)
            require(fits and sum(map(len, answers)) == seen, "a race has answers of other samples")
        for parts in (classes, counted):
            require(sum(map(len, parts)) == seen, "a race has other samples")
        for each in classes:
            require(((each >= 0) & (each < n)).all(), "a race has samples of impossible classes")

    def copy(self) -> Race:
        """A twin that can go on by itself."""
        twin = object.__new__(Race)
        twin.__dict__.update(self.__dict__)
        twin.runners = [runner.copy() for runner in self.runners]
        twin.answers = [list(answers) for answers in self.answers]
        twin.classes, twin.counted = list(self.classes), list(self.counted)
        return twin

    @property
    def left(self) -> int:
        """Samples to the next lap, or to the end."""
        return min(LAP - self.seen % LAP, self.length - self.seen)

    @property
    def over(self) -> bool:
        """Whether it has had all its samples."""
        return self.seen >= self.length

    def run(self, X: NDArray[Any], classes: Classes, counted: Array) -> None:
        """Test and learn rows, at most as many with any weight as are `left`."""
        present = counted > 0  # of the others, soft LVQ says nothing
        for runner, answers in zip(self.runners, self.answers, strict=True):
            replies = runner.learn(X, None, classes, counted, 0, len(X), answer=True)
            answers.append(replies[present].astype(np.float32))
        self.classes.append(classes[present])
        self.counted.append(counted[present])
        self.seen += int(present.sum())

    def lap(self, score: Score | None) -> None:
        """Say who leads, and let go of those far behind."""
        scores = [score for score, _, _ in self._scores(max(self.seen - RECENT, 0), score)]
        self.leader = int(np.argmax(scores))
        if self.seen == CUT_AT < self.length:
            scores = [score for score, _, _ in self._scores(HEAD_START, score)]
            best = np.argsort(-np.array(scores), kind="stable")[:SURVIVORS].tolist()
            kept = sorted({0, self.leader, *best})
            self.runners = [self.runners[k] for k in kept]
            self.answers = [self.answers[k] for k in kept]
            self.leader = kept.index(self.leader)

    def finish(self, score: Score | None) -> tuple[int, tuple[Candidate, ...], float]:
        """The winner's place, what the runners achieved, and the winner's calibration."""
        start = min(HEAD_START, self.seen // 4)
        scores = self._scores(start, score)
        if self.may_not_win and len(self.runners) > 1:
            del self.runners[0], self.answers[0], scores[0]
        best = int(np.argmax([score for score, _, _ in scores]))
        candidates = tuple(
            Candidate(runner.start.level.n_codevectors, *runner.fits, runner.steps, *scored)
            for runner, scored in zip(self.runners, scores, strict=True)
        )
        power = self._scorer(start, score).calibration(self._replies(best, start))
        return best, candidates, power

    def _replies(self, k: int, start: int) -> Array:
        return np.concatenate(self.answers[k])[start:].astype(float)

    def _scorer(self, start: int, score: Score | None) -> Scorer:
        classes = np.concatenate(self.classes)[start:]
        return Scorer(classes, np.concatenate(self.counted)[start:], score)

    def _scores(self, start: int, score: Score | None) -> list[tuple[float, float, float]]:
        scorer = self._scorer(start, score)
        return [scorer(self._replies(k, start)) for k in range(len(self.runners))]


@dataclass(frozen=True)
class TuningOptions:
    """What a tuner may do.

    last : only the coldest level takes part
    method : how to fine-tune, one of `TUNINGS`; None for not at all
    fits : what fine-tuning may fit
    window : steps whose average is the model
    """

    last: bool
    method: Annotated[str, among(*TUNINGS)] | None
    fits: tuple[Fits, ...]
    window: Positive


@dataclass(eq=False, repr=False)
class StreamTuner:
    """Fine-tuning in a stream: the best of the last race, and the next race.

    After `fit` there may be several that answer together: those that were fine-tuned learn the
    samples to come, the shares stay, until drift calls for a race. The one with the largest share
    takes part.

    Parameters
    ----------
    options : TuningOptions
    """

    options: TuningOptions
    race: Race | None = None
    ladders: Count = 0  # ladders that a race was held for
    since: Count = 0  # samples since the annealing began
    due: Positive = EARLIEST
    factor: Vector = field(default_factory=lambda: np.empty(0))  # how much a class's sample counts
    tunings: list[Tuning] = field(default_factory=list)  # by falling share
    shares: Vector = field(default_factory=lambda: np.empty(0))
    # Power of the posterior; and, where a plain level tracks, its T to predict at over T.
    calibration: float = 1.0
    tempering: float = 1.0
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    voters: tuple[Voter, ...] = ()

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever is fine-tuned is of the classes that it weighs, and has a share."""
        race, tunings = state["race"], state["tunings"]
        for tuning in (*([] if race is None else race.runners), *tunings):
            require(tuning.n_classes == len(state["factor"]), "a fine-tuning is of other classes")
        require(len(tunings) == len(state["shares"]), "a vote has shares of other voters")
        check_shares(state["shares"])

    @classmethod
    def from_selection(
        cls, options: TuningOptions, selection: Selection, annealer: Annealer, log_prior: Array
    ) -> StreamTuner:
        """A tuner whose choice was made elsewhere."""
        tuner = cls(options)
        tuner.tunings, tuner.shares = selection.tunings, selection.shares
        tuner.calibration, tuner.tempering = selection.calibration, selection.tempering
        tuner.candidates, tuner.chosen = selection.candidates, selection.chosen
        tuner.voters = selection.voters
        tuner.ladders, tuner.factor = annealer.ladders, class_factors(annealer, log_prior)
        return tuner

    def copy(self) -> StreamTuner:
        """A twin that can go on by itself."""
        twin = object.__new__(StreamTuner)
        twin.__dict__.update(self.__dict__)
        twin.tunings = [tuning.copy() for tuning in self.tunings]
        twin.race = None if self.race is None else self.race.copy()
        return twin

    @property
    def follows(self) -> bool:
        """Whether what answers learns the samples to come: levels as annealed that vote do not."""
        return len(self.tunings) < 2 or any(tuning.rate for tuning in self.tunings)

    def leave_to_first(self, temperature: float) -> None:
        """Let the voter with the largest share answer alone, a level of this T that is tracked."""
        self.tempering = self.tunings[0].start.level.temperature / temperature
        self.tunings, self.shares = [], np.empty(0)
        self.voters = tuple(replace(voter, share=1.0) for voter in self.voters[:1])

    # -- races ---------------------------------------------------------------------------------

    @property
    def all_tunings(self) -> list[Tuning]:
        """Everything that is being fine-tuned."""
        return [*([] if self.race is None else self.race.runners), *self.tunings]

    @property
    def racing(self) -> bool:
        """Whether a race is on."""
        return self.race is not None

    def is_due(self, annealer: Annealer) -> bool:
        """Whether a race is to begin with the next sample."""
        ended = annealer.finished and self.ladders < annealer.ladders
        return ended or (self.race is None and self.since >= self.due)

    def prepare(self, annealer: Annealer, log_prior: Callable[[], Array]) -> None:
        """Begin the race that is due, if one is."""
        if not self.is_due(annealer):
            return
        if annealer.finished and self.ladders < annealer.ladders:
            self.ladders = annealer.ladders
            self.begin_race(annealer, log_prior(), LENGTH, final=True)
        else:
            while self.due <= self.since:
                self.due *= 2
            if not annealer.finished and self.options.method is not None:
                self.begin_race(annealer, log_prior(), min(self.since, LENGTH))

    def begin_race(
        self, annealer: Annealer, log_prior: Array, length: int, *, final: bool = False
    ) -> None:
        """Begin a race of levels of the path, and of whoever won the last one.

        In the one at the end of a ladder the latter may lead, but not win.
        """
        path, runners = annealer.path(), []
        if not path:
            return
        best_so_far = self.tunings[0] if self.tunings else None
        if self.race is not None and self.race.leader is not None:
            best_so_far = self.race.runners[self.race.leader]
        leads = best_so_far is not None and best_so_far.rate > 0
        if best_so_far is not None and leads:
            runners.append(best_so_far)
            self.tunings, self.shares = [], np.empty(0)  # it is in the race now
        divergence, geometry, n = annealer.divergence, annealer.geometry(), len(log_prior)
        method = None if self.options.method is None else TUNINGS[self.options.method]
        tried = sizes(path, GROWTH)
        for K in tried[-1:] if self.options.last else tried:
            start = as_annealed(path.codebook(K), log_prior)
            runners.append(SoftTuning(divergence, start, n, geometry, Fits(), 0))
            if method is not None:
                runners += [
                    method(divergence, start, n, geometry, fits, window=self.options.window)
                    for fits in self.options.fits
                ]
        self.factor = class_factors(annealer, log_prior)
        self.race = Race(runners, length, may_not_win=leads and final)
        self.race.leader = 0 if leads else None
        self.candidates, self.chosen, self.voters = (), None, ()  # until it is over

    def restart_after_drift(self, annealer: Annealer, log_prior: Array) -> None:
        """The stream has changed: race again from the levels known, before they are reheated."""
        self.since, self.due, self.race = 0, EARLIEST, None
        if self.options.method is not None:  # levels as they are have had their day
            self.begin_race(annealer, log_prior, LENGTH)

    def next_decision(self, weights: Array | None, begin: int, end: int) -> int:
        """How far rows can be learnt before something has to be decided."""
        left = self.due - self.since if self.race is None else self.race.left
        return end if left <= 0 else reach(weights, begin, end, left)

    def learn(
        self,
        X: NDArray[Any],
        classes: Classes,
        weights: Array | None,
        finished: bool,
        score: Score | None,
    ) -> Level | None:
        """Learn rows, at most up to the horizon.

        A level that won as it was annealed is returned, to be tracked.
        """
        self.since += len(X) if weights is None else int(np.count_nonzero(weights))
        if self.race is None and not self.tunings:
            return None
        counted = self.factor[classes]
        if weights is not None:
            counted = counted * weights
        if self.race is None:
            for tuning in self.tunings:
                tuning.learn(X, None, classes, counted, 0, len(X))
            return None
        before = self.race.seen
        self.race.run(X, classes, counted)
        if self.race.seen == before or (self.race.seen % LAP and not self.race.over):
            return None
        self.race.lap(score)
        return self._end_race(finished, score) if self.race.over else None

    def _end_race(self, finished: bool, score: Score | None) -> Level | None:
        assert self.race is not None
        best, candidates, calibration = self.race.finish(score)
        winner = self.race.runners[best]
        plain = not winner.rate and finished
        self.race = None
        self.tunings, self.shares = ([], np.empty(0)) if plain else ([winner], np.ones(1))
        self.calibration, self.tempering = calibration, 1.0
        self.candidates, self.chosen = candidates, candidates[best]
        self.voters = (Voter(**vars(self.chosen), share=1.0),)
        return winner.start.level if plain else None

    def model(self) -> Vote | None:
        """The model that answers; None where that is the annealer's."""
        if self.race is not None and self.race.leader is not None:
            return Vote.of_one(self.race.runners[self.race.leader].model())
        if not self.tunings:
            return None
        voters = tuple(tuning.model() for tuning in self.tunings)
        return Vote(voters, self.shares, self.calibration)


def class_factors(annealer: Annealer, log_prior: Array) -> Array:
    """How much a sample of each class counts, so that classes are as likely as asked."""
    weight = np.array([state.total_weight for state in annealer.classes])
    return np.asarray(np.exp(log_prior) * weight.sum() / weight)


def reach(weights: Array | None, begin: int, end: int, left: int) -> int:
    """Where so many rows that count are past, or the end."""
    if weights is None:
        return min(end, begin + left)
    counted = np.flatnonzero(weights[begin:end])
    return end if len(counted) < left else begin + int(counted[left - 1]) + 1
