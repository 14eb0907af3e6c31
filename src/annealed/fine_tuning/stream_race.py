"""Who answers in a stream: every plausible way runs, and the latest samples decide.

Three kinds of candidates are tested on each new sample and then learn it (test-then-train): the
latest samples themselves as codevectors, the running class means (both from the first sample on:
`nearest`), and levels as annealed and fine-tuned. The levels come from the annealing of the stream
or, while it is short or has just changed, from an annealing of the samples that are kept. Whoever
does best on the latest few hundred samples answers. Races are held ever more rarely as a stream
goes on, at the end of every ladder, and when the stream has changed; between them the winner learns
alone. Everything is counted in samples, so how calls cut the stream cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array, BregmanDivergence, Geometry
from annealed.fine_tuning.held_out import Selection, sizes
from annealed.fine_tuning.methods import TUNINGS, WINDOW, SoftTuning, Tuning
from annealed.fine_tuning.model import TEMPERED_ROWS, Fits, as_annealed, tempered
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.scoring import Candidate, Score, Scorer, own_class
from annealed.fine_tuning.vote import Vote, Voter, check_shares
from annealed.path import AnnealingPath, Level
from annealed.stored import (
    Classes,
    Count,
    Positive,
    State,
    Vector,
    among,
    between,
    require,
)

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
# Runners of a race that go on into one that begins before it is over.
CARRIED = 4
# Levels that take part stand this factor apart in their number of codevectors, and have at least so
# many samples for each where they are made of samples that are kept. These are presented again and
# again, so often in all, before what was made of them is tested.
GROWTH = 2.2
SAMPLES_PER_CODEVECTOR = 20
REHEARSED = 3000
# Samples before the first race with levels; each next one waits until twice as many have come, but
# no longer than so many.
EARLIEST = 100
LONGEST_WAIT = 10_000
# One sample that is told badly wrong should not decide a race: no class is taken for less likely.
LEAST_LIKELY = 1e-3
# Samples that an alarm says to be new: fewer do not start anything.
FEWEST = 50

Runner = Tuning | Nearest


def gains(answers: NDArray[Any], classes: Classes) -> Array:
    """What each sample adds to the score by which a race is decided."""
    right = answers.argmax(axis=1) == classes
    return np.asarray(right + 0.5 * np.log(np.maximum(own_class(answers, classes), LEAST_LIKELY)))


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
    runners: list[Tuning | Nearest]
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
        self, companions: Sequence[Runner], X: NDArray[Any], classes: Classes, counted: Array
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

    def finish(self, score: Score | None) -> tuple[int, Array, float]:
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

    def best_runners(self, n: int, score: Score | None) -> list[Runner]:
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
        scores = self._scores(start, score)
        best = int(np.argmax(scores))
        leader = self.leader
        if leader is None or best == leader or score is not None:
            return best
        ahead = self._gains(best, start) - self._gains(leader, start)
        clearly = ahead.mean() > ahead.std() / np.sqrt(max(len(ahead), 1))
        return best if clearly else leader

    def _gains(self, k: int, start: int) -> Array:
        counted, own = self.counted[start : self.seen], self.classes[start : self.seen]
        return np.asarray(gains(self._replies(k, start), own) * (counted / counted.mean()))

    def _replies(self, k: int, start: int) -> Array:
        return self.answers[k][start : self.seen].astype(float)

    def _scorer(self, start: int, score: Score | None) -> Scorer:
        here = slice(start, self.seen)
        return Scorer(self.classes[here], self.counted[here], score)

    def _scores(self, start: int, score: Score | None) -> Array:
        places = range(len(self.answers))
        if score is None:
            return np.array([self._gains(k, start).mean() for k in places])
        scorer = self._scorer(start, score)
        return np.array([scorer(self._replies(k, start))[0] for k in places])


@dataclass(frozen=True)
class TuningOptions:
    """What a tuner may do.

    last : only the coldest level takes part
    method : how to fine-tune, one of `TUNINGS`; None for not at all
    fits : what fine-tuning may fit
    window : steps whose average is the model
    samples : how many of the latest samples are kept; 0 for none
    """

    last: bool
    method: Annotated[str, among(*TUNINGS)] | None
    fits: tuple[Fits, ...]
    window: Positive
    samples: Annotated[int, between(0, 2**30)] = 0


# No race by itself: after `fit`, whose choice stands until the stream changes.
NEVER = 2**61

TUNED, NEIGHBOURS, MEANS = "tuned", "neighbours", "means"


class Starts(NamedTuple):
    """Levels that fine-tunings may start from, and what they measure their steps by."""

    path: AnnealingPath
    geometry: Geometry


@dataclass(eq=False, repr=False)
class StreamTuner:
    """Who answers in a stream, the race there may be, and the next one.

    After `fit` there may be several fine-tunings that answer together: they learn the samples to
    come, the shares stay, until drift calls for a race.

    Parameters
    ----------
    options : TuningOptions
    """

    options: TuningOptions
    neighbours: Nearest | None = None  # those two are there from the first sample on
    means: Nearest | None = None
    race: Race | None = None
    ladders: Count = 0  # ladders that a race was held for
    since: Count = 0  # samples since the stream began or changed
    due: Positive = EARLIEST
    factor: Vector = field(default_factory=lambda: np.empty(0))  # how much a class's sample counts
    speaker: Annotated[str, among(TUNED, NEIGHBOURS, MEANS)] = TUNED  # between races
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
        companions = [part for part in (state["neighbours"], state["means"]) if part is not None]
        for part in (*([] if race is None else race.runners), *companions, *tunings):
            require(part.n_classes == len(state["factor"]), "a fine-tuning is of other classes")
        require(race is None or race.companions <= len(companions), "a race has other runners")
        speaker = state["speaker"]
        require(speaker == TUNED or state[speaker] is not None, "nobody answers")
        require(len(tunings) == len(state["shares"]), "a vote has shares of other voters")
        check_shares(state["shares"])

    @classmethod
    def from_selection(
        cls, options: TuningOptions, selection: Selection, annealer: Annealer, log_prior: Array
    ) -> StreamTuner:
        """A tuner whose choice was made elsewhere."""
        tuner = cls(options)
        tuner.due = NEVER
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
        twin.neighbours = None if self.neighbours is None else self.neighbours.copy()
        twin.means = None if self.means is None else self.means.copy()
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

    @property
    def companions(self) -> list[Nearest]:
        """Those that are there from the first sample on."""
        return [each for each in (self.neighbours, self.means) if each is not None]

    @property
    def all_tunings(self) -> list[Tuning]:
        """Everything that is being fine-tuned."""
        runners = [] if self.race is None else self.race.runners
        return [*(each for each in runners if isinstance(each, Tuning)), *self.tunings]

    @property
    def all_nearest(self) -> list[Nearest]:
        """All nearest neighbours and means."""
        runners = [] if self.race is None else self.race.runners
        return [*(each for each in runners if isinstance(each, Nearest)), *self.companions]

    @property
    def contestants(self) -> list[Runner]:
        """Everyone in the race that is on."""
        if self.race is None:
            return []
        return [*self.companions[: self.race.companions], *self.race.runners]

    @property
    def speakers(self) -> list[Runner]:
        """Who answers, several by their shares; nobody where the annealer does."""
        if self.race is not None and self.race.leader is not None:
            return [self.contestants[self.race.leader]]
        if self.race is None and self.speaker != TUNED:
            return [getattr(self, self.speaker)]
        return list(self.tunings)

    @property
    def tested(self) -> list[Runner]:
        """Who is tested on a sample before learning it."""
        return self.speakers if self.race is None else self.contestants

    @property
    def tested_shares(self) -> Array:
        """How much each of those has in the answer."""
        if self.race is None:
            return self.shares if self.tunings else np.ones(len(self.speakers))
        shares = np.zeros(len(self.contestants))
        if self.race.leader is not None:
            shares[self.race.leader] = 1.0
        return shares

    @property
    def left(self) -> int:
        """Samples until something has to be decided."""
        left = self.due - self.since
        return left if self.race is None else min(left, self.race.left)

    @property
    def tells_losses(self) -> bool:
        """Whether learning a sample tells how the one that answers did on it."""
        return bool(self.speakers)

    @property
    def meets_companions(self) -> bool:
        """Whether companions are still to be made of the next sample."""
        return not (self.companions or self.options.last)

    # -- classes -------------------------------------------------------------------------------

    def add_class(self, factor: Array) -> None:
        """A class nobody has seen before: what was fine-tuned does not know it.

        ``factor`` says how much samples of each class count from now on.
        """
        self.factor = factor
        for each in self.companions:
            each.know_classes(len(self.factor))
        if self.companions:
            self._race_companions()
        else:
            self.race = None
        self.tunings, self.shares, self.speaker = [], np.empty(0), TUNED
        self.calibration, self.tempering = 1.0, 1.0
        self.due = self.since + EARLIEST

    def _race_companions(self) -> None:
        leader = 0
        if self.race is not None and self.race.leader is not None:
            leader = self.race.leader if self.race.leader < self.race.companions else 0
        elif self.speaker == MEANS:
            leader = len(self.companions) - 1
        self.race = Race(len(self.factor), [], len(self.companions))
        self.race.leader = leader
        self.candidates, self.chosen, self.voters = (), None, ()

    # -- races ---------------------------------------------------------------------------------

    @property
    def racing(self) -> bool:
        """Whether a race is on."""
        return self.race is not None

    def is_due(self, annealer: Annealer) -> bool:
        """Whether a race is to begin with the next sample."""
        return self._ladder_ended(annealer) or self.since >= self.due

    def _ladder_ended(self, annealer: Annealer) -> bool:
        return annealer.finished and self.ladders < annealer.ladders

    def prepare(
        self, annealer: Annealer, log_prior: Callable[[], Array], score: Score | None
    ) -> None:
        """Begin the race that is due, if one is."""
        if not self.is_due(annealer):
            return
        ended = self._ladder_ended(annealer)
        if ended:
            self.ladders = annealer.ladders
        while self.due <= self.since:
            self.due += min(self.due, LONGEST_WAIT)
        kept = None if ended else self._kept_path(annealer, self.since)
        if kept is not None or ended or self.options.method is not None:
            self.begin_race(annealer, log_prior(), score, kept, final=ended)

    def _kept_path(self, annealer: Annealer, samples: int) -> Starts | None:
        """An annealing of the latest samples; None where the stream's own has more to tell."""
        if self.neighbours is None or self.options.last or self.options.method is None:
            return None
        if samples > self.options.samples and annealer.path():
            return None
        rows, classes, weights = self.neighbours.latest(samples)
        # Every class takes part, those of no sample lately with what is known of them.
        level = annealer.model()
        missing = np.setdiff1d(np.arange(len(annealer.classes)), classes).astype(np.int32)
        for c in missing:
            mine = level.classes == c
            mean = level.weights[mine] @ level.codevectors[mine] / level.weights[mine].sum()
            rows, weights = np.vstack([rows, mean]), np.append(weights, 1.0)
        classes = np.append(classes, missing).astype(np.int32)
        own = Annealer(annealer.d, annealer.divergence, annealer.schedule)
        most = len(rows) // SAMPLES_PER_CODEVECTOR
        only_means = most < GROWTH * len(annealer.classes)  # there is nothing more to find
        for _ in annealer.classes:
            own.add_class(len(rows) + 1 if only_means else None)
        if only_means:
            own.absorb(rows, classes, weights, None, 0, len(rows))
            return Starts(AnnealingPath([own.model()], []), own.geometry())
        own.schedule = replace(own.schedule, K_max=most)
        own.anneal(rows, classes, weights, np.random.default_rng(samples))
        return Starts(own.path(), own.geometry()) if own.path() else None

    def begin_race(
        self,
        annealer: Annealer,
        log_prior: Array,
        score: Score | None,
        kept: Starts | None = None,
        *,
        since_change: int | None = None,
        final: bool = False,
    ) -> None:
        """Begin a race of levels, of whoever did best in the last one, and of the companions.

        Levels are those of the annealing of samples that are kept, if one is given, otherwise those
        of the stream's. After a change the companions have twins that forgot what was before.
        """
        source = Starts(annealer.path(), annealer.geometry()) if kept is None else kept
        runners: list[Runner] = []
        leader = None
        if self.race is not None:
            runners += self.race.best_runners(CARRIED, score)
            leader = self.race.leader
            if leader is not None and leader >= self.race.companions:
                leader = len(self.companions)
        elif self.speaker != TUNED:
            leader = 0 if self.speaker == NEIGHBOURS else len(self.companions) - 1
        elif self.tunings and self.tunings[0].rate > 0:
            runners.append(self.tunings[0])
            leader = len(self.companions)
        # Samples that are kept prepare the newcomers; without them they begin far behind.
        barred = len(runners) if final and self.neighbours is None else 0
        if since_change is not None:
            twins = self._forgetful(since_change)
            if twins and self._better_anew(annealer.divergence, since_change):
                leader = len(self.companions) + len(runners)
            runners += twins
        self.factor = class_factors(annealer, log_prior)
        if source.path:
            runners += self._levels(
                annealer.divergence, source, log_prior, since_change, plain=kept is None
            )
        if not runners and not self.companions:
            return
        if leader is None and self.companions and not annealer.finished:
            leader = 0
        self.tunings, self.shares, self.speaker = [], np.empty(0), TUNED  # all are in the race now
        length = LENGTH if self.neighbours is not None else LONGER
        self.race = Race(len(log_prior), runners, len(self.companions), barred, length)
        self.race.leader = leader
        self.calibration = 1.0
        self.candidates, self.chosen, self.voters = (), None, ()  # until it is over

    def _forgetful(self, samples: int) -> list[Runner]:
        """Twins of the companions that know the latest samples only."""
        if self.neighbours is None or not samples:
            return []
        twin = self.neighbours.since_change(samples)
        rows, classes, weights = twin.latest(twin.run.seen)
        means = Nearest(twin.divergence, twin.start, twin.n_classes, None)
        means.learn(rows, None, classes, weights, 0, len(rows))
        return [twin, means]

    def _better_anew(self, divergence: BregmanDivergence, samples: int) -> bool:
        """Whether neighbours begun with the latest samples do better on them than who answers.

        They are tested on each before they learn it; the other has learnt them already.
        """
        assert self.neighbours is not None
        old, now = self.model(), self.neighbours
        rows, classes, weights = now.latest(samples)
        if old is None or not len(rows):
            return False
        anew = Nearest(now.divergence, now.start, now.n_classes, now.samples)
        told = anew.learn(rows, None, classes, weights, 0, len(rows), answer=True)
        known = old.posterior(divergence, rows, now.n_classes)
        right, wrong = (float((each.argmax(axis=1) == classes).mean()) for each in (told, known))
        return right > wrong

    def _levels(
        self,
        divergence: BregmanDivergence,
        source: Starts,
        log_prior: Array,
        samples: int | None,
        *,
        plain: bool,
    ) -> list[Runner]:
        """Levels of a path, as annealed and fine-tuned on the samples that are kept."""
        path, geometry, n = source.path, source.geometry, len(log_prior)
        d = path[0].codevectors.shape[1]
        rows, classes, weights = np.empty((0, d)), np.empty(0, np.int32), np.empty(0)
        if self.neighbours is not None:
            rows, classes, weights = self.neighbours.latest(
                self.options.samples if samples is None else samples
            )
        order = _rehearsal(len(rows))
        method = None if self.options.method is None else TUNINGS[self.options.method]
        found: list[Runner] = []
        for K in _tried(path, self.options.last):
            start = as_annealed(path.codebook(K), log_prior)
            if plain:
                found.append(SoftTuning(divergence, start, n, geometry, Fits(), 0))
            if method is None:
                continue
            if len(rows):
                start = tempered(start, divergence, rows[-TEMPERED_ROWS:], classes[-TEMPERED_ROWS:])
            for fits in self.options.fits:
                tuning = method(divergence, start, n, geometry, fits, window=self.options.window)
                tuning.learn(rows, order, classes, weights, 0, len(order))
                found.append(tuning)
        return found

    def restart_after_drift(
        self, annealer: Annealer, log_prior: Array, score: Score | None, samples: int
    ) -> None:
        """The stream has changed some samples ago: who knows only these joins the race."""
        self.since, self.due = samples, EARLIEST
        while self.due <= self.since:
            self.due *= 2
        if self.options.method is None and not self.companions:
            return  # levels as they are have had their day
        kept = None if samples < FEWEST else self._kept_path(annealer, samples)
        self.begin_race(annealer, log_prior, score, kept, since_change=samples)

    def next_decision(self, weights: Array | None, begin: int, end: int) -> int:
        """How far rows can be learnt before something has to be decided."""
        left = self.left
        return end if left <= 0 else reach(weights, begin, end, left)

    def _meet(self, annealer: Annealer, X: NDArray[Any], counted: NDArray[np.bool_]) -> None:
        """At the first sample: make the companions."""
        if not self.meets_companions or not counted.any():
            return
        start = np.array(X[int(np.argmax(counted))], dtype=float)
        n = len(annealer.classes)
        if self.options.samples:
            self.neighbours = Nearest(annealer.divergence, start, n, self.options.samples)
        self.means = Nearest(annealer.divergence, start, n, None)
        if self.since == 0 and self.race is None and not self.tunings and not annealer.finished:
            self._race_companions()

    def learn(
        self,
        X: NDArray[Any],
        classes: Classes,
        weights: Array | None,
        annealer: Annealer,
        score: Score | None,
    ) -> tuple[Level | None, Array | None]:
        """Learn rows, at most up to the next decision.

        A level that won as it was annealed is returned, to be tracked; and whether the one that
        answers was wrong about each row that counts, where that is known.
        """
        present = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        self._meet(annealer, X, present)
        self.since += int(present.sum())
        if self.race is None and not self.tunings and not self.companions:
            return None, None
        # Of a class that is new further on, rows of no weight may come before.
        counted = np.where(present, self.factor[np.where(present, classes, 0)], 0.0)
        if weights is not None:
            counted = counted * weights
        if self.race is None:
            return None, self._learn_alone(X, classes, counted, present)
        before, losses = self.race.seen, np.full(len(X), np.nan)
        taking_part = self.companions[: self.race.companions]
        losses[counted > 0] = self.race.run(taking_part, X, classes, counted)
        wrong = losses[present]
        for each in self.companions[self.race.companions :]:
            each.keep(X, classes, counted)
        if self.race.seen == before or (self.race.seen % LAP and not self.race.over):
            return None, wrong
        self.race.lap(score)
        return self._end_race(annealer.finished, score) if self.race.over else None, wrong

    def _learn_alone(
        self, X: NDArray[Any], classes: Classes, counted: Array, present: NDArray[np.bool_]
    ) -> Array | None:
        """Between races: whoever answers is tested and learns, the others only keep up."""
        answer: Array | None = None
        for name, each in ((NEIGHBOURS, self.neighbours), (MEANS, self.means)):
            if each is None:
                continue
            if self.speaker == name:
                answer = each.learn(X, None, classes, counted, 0, len(X), answer=True)
            else:
                each.keep(X, classes, counted)
        if self.tunings:
            replies = [
                tuning.learn(X, None, classes, counted, 0, len(X), answer=True)
                for tuning in self.tunings
            ]
            answer = np.asarray(
                sum(share * reply for share, reply in zip(self.shares, replies, strict=True))
            )
        if answer is None:
            return None
        wrong = np.asarray(answer.argmax(axis=1) != classes, dtype=float)
        return np.where(counted > 0, wrong, np.nan)[present]

    def _end_race(self, finished: bool, score: Score | None) -> Level | None:
        assert self.race is not None
        race, companions = self.race, self.companions
        best, scored, calibration = race.finish(score)
        runners: list[Runner] = [*companions[: race.companions], *race.runners]
        self.candidates = tuple(
            Candidate(runner.n_codevectors, *runner.fits, runner.steps, *values)
            for runner, values in zip(runners, scored.tolist(), strict=True)
        )
        self.chosen = self.candidates[best]
        self.voters = (Voter(**vars(self.chosen), share=1.0),)
        self.calibration, self.tempering = calibration, 1.0
        winner = runners[best]
        self._renew_companions(runners, scored[:, 0])
        self.race = None
        self.tunings, self.shares, self.speaker = [], np.empty(0), TUNED
        if isinstance(winner, Nearest):
            self.speaker = MEANS if winner.samples is None else NEIGHBOURS
            if winner is not self.neighbours and winner is not self.means:
                self._replace(winner)
            return None
        if not winner.rate and finished:
            return winner.start.level
        self.tunings, self.shares = [winner], np.ones(1)
        return None

    def _renew_companions(self, runners: Sequence[Runner], scores: Array) -> None:
        """A twin that forgot what was before the change takes the place of a worse companion."""
        for k, each in enumerate(runners):
            if not isinstance(each, Nearest) or each in (self.neighbours, self.means):
                continue
            old = self.means if each.samples is None else self.neighbours
            place = next((i for i, other in enumerate(runners) if other is old), None)
            if place is None or scores[k] > scores[place]:
                self._replace(each)

    def _replace(self, nearest: Nearest) -> None:
        if nearest.samples is None:
            self.means = nearest
        else:
            self.neighbours = nearest

    def model(self) -> Vote | None:
        """The model that answers; None where that is the annealer's."""
        voters = tuple(
            model for model in (each.model() for each in self.speakers) if model is not None
        )
        if not voters:
            return None
        shares = np.ones(1) if len(voters) == 1 else self.shares
        return Vote(voters, shares, self.calibration)


def _tried(path: AnnealingPath, last: bool) -> list[int]:
    tried = sizes(path, GROWTH)
    return tried[-1:] if last else tried


def _rehearsal(n: int) -> NDArray[np.int64]:
    """In which order so many samples are presented again and again."""
    if not n:
        return np.empty(0, dtype=np.int64)
    rng = np.random.default_rng(n)
    passes = -(-REHEARSED // n)
    return np.concatenate([rng.permutation(n) for _ in range(passes)]).astype(np.int64)


def class_factors(annealer: Annealer, log_prior: Array) -> Array:
    """How much a sample of each class counts, so that classes are as likely as asked."""
    weight = seen_weights(annealer)
    return np.asarray(np.exp(log_prior) * weight.sum() / weight)


def seen_weights(annealer: Annealer) -> Array:
    """Weight of the samples of every class; one more of each while there is one without any."""
    weight = np.array([state.total_weight for state in annealer.classes])
    return weight if (weight > 0).all() else weight + 1


def reach(weights: Array | None, begin: int, end: int, left: int) -> int:
    """Where so many rows that count are past, or the end."""
    if weights is None:
        return min(end, begin + left)
    counted = np.flatnonzero(weights[begin:end])
    return end if len(counted) < left else begin + int(counted[left - 1]) + 1
