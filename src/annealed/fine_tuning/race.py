"""A race: everyone is tested on each sample and then learns it, and the latest samples decide.

Everything is counted in samples, so how calls cut the stream cannot be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.fine_tuning.methods import WINDOW, SoftTuning, Tuning
from annealed.fine_tuning.model import Calibration
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.scoring import Score, Scorer
from annealed.stored import Classes, Count, Positive, State, Vector, require

# Samples until a race is over, unless the next one begins before.
LENGTH = 1000
# Every so many samples of a race it is asked who did best on the latest few, and becomes the one
# that answers; the winner is who did best on the last half of the race.
LAP = 100
RECENT = 300
DECIDING = 500
# Once so many samples are past, only the better part of the runners goes on, and the best
# fine-tuning is joined by twins that average over more, fewer and no steps.
CUT_AT = 100
SURVIVORS = 4
# The same where newcomers had no samples to prepare themselves with.
LONGER, LATER_CUT, MORE = 2000, 600, 8
WINDOWS = WINDOW, 50, 4
# One sample that is told badly wrong should not decide a race: no class is taken for less likely.
LEAST_LIKELY = 1e-3
# Smaller answers are kept as 0, as the core does: they are no normal numbers in single precision.
SMALLEST = np.finfo(np.float32).tiny

Contestant = Tuning | Nearest


@dataclass(eq=False, repr=False)
class Race:
    """Candidates that are tested on each sample and then learn it.

    Parameters
    ----------
    n_classes : int
    runners : list of Tuning or Nearest
        Those of this race alone. One that only tests has rate 0.
    companions : int
        Runners that are there also between races; they come first wherever runners are counted.
    barred : int
        The first few of the runners may lead, but not win: they have learnt so much longer than
        the others that they would, although those will be better.
    length : int
        Samples until it is over.
    """

    n_classes: Positive
    runners: list[Contestant]
    companions: Count = 0
    barred: Count = 0
    length: Positive = LENGTH
    seen: Count = 0
    leader: Count | None = None
    # By runner, and of all: a row for each sample of the laps so far and of the one under way.
    answers: list[NDArray[np.float32]] = field(init=False)
    classes: Classes = field(init=False)
    counted: Vector = field(init=False)  # how much each sample counts

    def __post_init__(self) -> None:
        self.classes, self.counted = np.zeros(0, dtype=np.int32), np.zeros(0)
        empty = np.zeros((0, self.n_classes), dtype=np.float32)
        self.answers = [empty for _ in range(self.companions + len(self.runners))]
        self._make_room()

    @classmethod
    def check_stored(cls, state: State) -> None:
        """There is an answer of every runner to every sample, and a class and weight of it."""
        runners, seen, leader = state["runners"], state["seen"], state["leader"]
        require(state["barred"] <= len(runners), "a race bars runners there are not")
        n_runners, n = len(runners) + state["companions"], state["n_classes"]
        require(n_runners and seen < state["length"] <= LONGER, "a race is over")
        require(leader is None or leader < n_runners, "a race is led by nobody")
        require(n_runners == len(state["answers"]), "a race has answers of other runners")
        rows = (seen // LAP + 1) * LAP
        require(
            all(answers.shape == (rows, n) for answers in state["answers"])
            and all(runner.n_classes == n for runner in runners),
            "a race is of other samples or classes",
        )
        classes = state["classes"]
        require(len(classes) == len(state["counted"]) == rows, "a race has other samples")
        fits = ((classes >= 0) & (classes < n)).all()
        require(fits, "a race has samples of impossible classes")

    def _make_room(self) -> None:
        """For the samples of the next lap."""
        more = np.zeros((LAP, self.n_classes), dtype=np.float32)
        self.answers = [np.concatenate([answers, more]) for answers in self.answers]
        self.classes = np.append(self.classes, np.zeros(LAP, dtype=np.int32))
        self.counted = np.append(self.counted, np.zeros(LAP))

    def copy(self) -> Race:
        """A twin that can go on by itself."""
        twin = object.__new__(Race)
        twin.__dict__.update(self.__dict__)
        twin.runners = [runner.copy() for runner in self.runners]
        twin.answers = [answers.copy() for answers in self.answers]
        twin.classes, twin.counted = self.classes.copy(), self.counted.copy()
        return twin

    @property
    def left(self) -> int:
        """Samples to the next lap, or to the end."""
        return min(LAP - self.seen % LAP, self.length - self.seen)

    @property
    def over(self) -> bool:
        """Whether it has had all its samples."""
        return self.seen >= self.length

    def run(
        self, companions: Sequence[Contestant], X: NDArray[Any], classes: Classes, counted: Array
    ) -> Array:
        """Test and learn rows, at most as many with any weight as are `left`.

        Returns whether the one that answers was wrong about each row that counts.
        """
        present = counted > 0
        own = classes[present]
        here, wrong = slice(self.seen, self.seen + len(own)), np.full(len(own), np.nan)
        contestants = [*companions, *self.runners]
        for k, (runner, answers) in enumerate(zip(contestants, self.answers, strict=True)):
            replies = runner.learn(X, None, classes, counted, 0, len(X), answer=True)[present]
            answers[here] = replies
            answers[here][answers[here] < SMALLEST] = 0.0
            if k == self.leader:
                wrong = (replies.argmax(axis=1) != own).astype(float)
        self.classes[here], self.counted[here] = own, counted[present]
        self.seen += len(own)
        return wrong

    def lap(self, score: Score | None) -> None:
        """Say who leads; at times let go of those far behind."""
        self.leader = self._best(max(self.seen - RECENT, 0), score)
        if self.seen == (CUT_AT if self.length == LENGTH else LATER_CUT):
            self._cut(score)
        if not self.over:
            self._make_room()

    def _cut(self, score: Score | None) -> None:
        """Let go of those far behind; the best fine-tuning is joined by its twins."""
        start = self.seen - self.seen // 2
        order = np.argsort(-self._scores(start, score), kind="stable")
        best = [int(k) for k in order if k >= self.companions]
        barred = range(self.companions, self.companions + self.barred)
        survivors = SURVIVORS if self.length == LENGTH else MORE
        kept = sorted({*best[:survivors], *barred, *([] if self.leader is None else [self.leader])})
        kept = [k for k in kept if k >= self.companions]
        places = [*range(self.companions), *kept]
        if self.leader is not None:
            self.leader = places.index(self.leader)
        for k in best[:1]:
            runner = self.runners[k - self.companions]
            if isinstance(runner, SoftTuning) and runner.rate:
                for window in WINDOWS:
                    if window != runner.window:
                        self.runners.append(runner.averaging(window))
                        self.answers.append(self.answers[k].copy())
                        places.append(len(self.answers) - 1)
        self.runners = [self.runners[k - self.companions] for k in places[self.companions :]]
        self.answers = [self.answers[k] for k in places]

    def finish(self, score: Score | None) -> tuple[int, Array, Calibration]:
        """The winner's place, everyone's score, accuracy and log loss, and its calibration."""
        start = max(self.seen - DECIDING, self.seen // 4)
        best = self._best(start, score)
        barred = range(self.companions, self.companions + self.barred)
        if best in barred and len(self.answers) > len(barred):
            scores = self._scores(start, score)
            scores[barred.start : barred.stop] = -np.inf
            best = int(np.argmax(scores))
        scorer = self._scorer(start, score)
        scored = np.array([scorer(self._replies(k, start)) for k in range(len(self.answers))])
        return best, scored, scorer.calibration(self._replies(best, start))

    def best_runners(self, n: int, score: Score | None) -> list[Contestant]:
        """The few that do best lately, of those that are not companions; the leader first."""
        if not self.runners:
            return []
        order = np.arange(len(self.answers))
        if self.seen:
            order = np.argsort(-self._scores(max(self.seen - RECENT, 0), score), kind="stable")
        places = [int(k) for k in order if k >= self.companions and k != self.leader]
        if self.leader is not None and self.leader >= self.companions:
            places.insert(0, self.leader)
        return [self.runners[k - self.companions] for k in places[:n]]

    def _best(self, start: int, score: Score | None) -> int:
        """Who did best on the samples from ``start`` on; the leader stays unless clearly beaten."""
        gains = self._gains(start) if score is None else None
        scores = self._scores(start, score) if gains is None else gains.mean(axis=1)
        best, leader = int(np.argmax(scores)), self.leader
        if leader is None or best == leader or gains is None:
            return best
        ahead = gains[best] - gains[leader]
        clearly = ahead.mean() > ahead.std() / np.sqrt(max(len(ahead), 1))
        return best if clearly else leader

    def _gains(self, start: int) -> Array:
        """What each sample from ``start`` on adds to everyone's score."""
        answers = np.array([each[start : self.seen] for each in self.answers])
        own, counted = self.classes[start : self.seen], self.counted[start : self.seen]
        likely = answers[:, np.arange(len(own)), own].astype(float)
        gains = (answers.argmax(axis=2) == own) + 0.5 * np.log(np.clip(likely, LEAST_LIKELY, 1.0))
        return np.asarray(gains * (counted / counted.mean()))

    def _replies(self, k: int, start: int) -> Array:
        return self.answers[k][start : self.seen].astype(float)

    def _scorer(self, start: int, score: Score | None) -> Scorer:
        here = slice(start, self.seen)
        return Scorer(self.classes[here], self.counted[here], score)

    def _scores(self, start: int, score: Score | None) -> Array:
        if score is None:
            return np.asarray(self._gains(start).mean(axis=1))
        scorer = self._scorer(start, score)
        return np.array([scorer(self._replies(k, start))[0] for k in range(len(self.answers))])
