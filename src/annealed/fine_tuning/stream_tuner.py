"""Who answers in a stream: every plausible way runs, and the latest samples decide.

Three kinds of candidates are tested on each new sample and then learn it (test-then-train): the
latest samples themselves as codevectors, the running class means (both from the first sample on:
`nearest`), and levels as annealed and fine-tuned (`newcomers`). The levels come from the annealing
of the stream or, while it is short or has just changed, from an annealing of the samples that are
kept. Whoever does best on the latest few hundred samples answers (`race`). Races are held ever more
rarely as a stream goes on, at the end of every ladder, and when the stream has changed; between
them the winner learns alone. Everything is counted in samples, so how calls cut the stream cannot
be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.annealer import Annealer
from annealed.annealing.rows import reach
from annealed.divergences import Array
from annealed.fine_tuning.class_weights import class_factors
from annealed.fine_tuning.held_out import Selection
from annealed.fine_tuning.methods import Tuning
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.newcomers import (
    Starts,
    TuningOptions,
    anneal_latest,
    better_anew,
    forgetful,
    tuned_levels,
)
from annealed.fine_tuning.race import LAP, LENGTH, LONGER, Contestant, Race
from annealed.fine_tuning.scoring import Candidate, Score
from annealed.fine_tuning.vote import Vote, Voter, check_shares
from annealed.path import Level
from annealed.stored import Amount, Classes, Count, Positive, Since, State, Vector, among, require

# Samples before the first race with levels; each next one waits until twice as many have come, but
# no longer than so many.
EARLIEST = 100
LONGEST_WAIT = 20_000
# Runners of a race that go on into one that begins before it is over.
CARRIED = 4
# Samples that an alarm says to be new: fewer do not start anything.
FEWEST = 50


# No race by itself: after `fit`, whose choice stands until the stream changes.
NEVER = 2**61

TUNED, NEIGHBOURS, MEANS = "tuned", "neighbours", "means"
ANNEALED_LEVEL = "annealed level"


class Answering(NamedTuple):
    """Who answers in a stream.

    who : "class means", "latest samples", "annealed level", "fine-tuned level of 12 codevectors" or
        "vote of 8 levels"
    since : samples of the stream that had been learnt when it began to answer
    """

    who: str
    since: Count


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
    earlier: int = 0  # samples of the stream that these do not count
    due: Positive = EARLIEST
    factor: Vector = field(default_factory=lambda: np.empty(0))  # how much a class's sample counts
    speaker: Annotated[str, among(TUNED, NEIGHBOURS, MEANS)] = TUNED  # between races
    tunings: list[Tuning] = field(default_factory=list)  # by falling share
    shares: Vector = field(default_factory=lambda: np.empty(0))
    # Power of the posterior and its doubt; and, where a plain level tracks, its T to predict at
    # over T.
    calibration: float = 1.0
    doubt: Annotated[Amount, Since("0.2", 0.0)] = 0.0
    tempering: float = 1.0
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    voters: tuple[Voter, ...] = ()
    answering: Answering = field(default_factory=lambda: Answering(ANNEALED_LEVEL, 0))

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever is fine-tuned is of the classes that it weighs, and has a share."""
        race, tunings = state["race"], state["tunings"]
        companions = [part for part in (state["neighbours"], state["means"]) if part is not None]
        for part in (*([] if race is None else race.runners), *companions, *tunings):
            require(part.n_classes == len(state["factor"]), "a fine-tuning is of other classes")
        require(race is None or race.companions <= len(companions), "a race has other runners")
        learnt = state["since"] + state["earlier"]
        require(state["answering"].since <= learnt, "who answers has not begun to")
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
        tuner.calibration, tuner.doubt = selection.calibration
        tuner.tempering = selection.tempering
        tuner.candidates, tuner.chosen = selection.candidates, selection.chosen
        tuner.voters = selection.voters
        tuner._note_who_answers()
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
        """Whether what answers learns the samples to come: levels as annealed cannot."""
        return not self.tunings or any(tuning.rate for tuning in self.tunings)

    def leave_to_first(self, temperature: float) -> None:
        """Let the voter with the largest share answer alone, a level of this T that is tracked."""
        self.tempering = self.tunings[0].start.level.temperature / temperature
        self.tunings, self.shares = [], np.empty(0)
        self.voters = tuple(replace(voter, share=1.0) for voter in self.voters[:1])
        self._note_who_answers()

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
    def contestants(self) -> list[Contestant]:
        """Everyone in the race that is on."""
        if self.race is None:
            return []
        return [*self.companions[: self.race.companions], *self.race.runners]

    @property
    def speakers(self) -> list[Contestant]:
        """Who answers, several by their shares; nobody where the annealer does."""
        if self.race is not None and self.race.leader is not None:
            return [self.contestants[self.race.leader]]
        if self.race is None and self.speaker != TUNED:
            return [getattr(self, self.speaker)]
        return list(self.tunings)

    @property
    def tested(self) -> list[Contestant]:
        """Who is tested on a sample before learning it."""
        return self.speakers if self.race is None else self.contestants

    @property
    def shares_told(self) -> Array:
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

    @property
    def seen(self) -> int:
        """Samples of the stream."""
        return self.since + self.earlier

    def _note_who_answers(self) -> None:
        """Whoever answers may have changed."""
        who = _name(self.speakers)
        if who != self.answering.who:
            self.answering = Answering(who, self.seen)

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
        self.calibration, self.doubt, self.tempering = 1.0, 0.0, 1.0
        self.due = self.since + EARLIEST
        self._note_who_answers()

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
        kept = None if ended else self._kept_starts(annealer, self.since)
        if kept is not None or ended or self.options.method is not None:
            self.begin_race(annealer, log_prior(), score, kept, final=ended)

    def _kept_starts(self, annealer: Annealer, samples: int) -> Starts | None:
        """An annealing of the latest samples; None where the stream's own has more to tell."""
        if self.neighbours is None or self.options.last or self.options.method is None:
            return None
        if samples > self.options.samples and annealer.path():
            return None
        return anneal_latest(self.neighbours, annealer, samples)

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
        runners: list[Contestant] = []
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
        if since_change and self.neighbours is not None:
            old = self.model()
            if old is not None and better_anew(self.neighbours, old, since_change):
                leader = len(self.companions) + len(runners)
            runners += forgetful(self.neighbours, since_change)
        self.factor = class_factors(annealer, log_prior)
        if source.path:
            latest = None
            if self.neighbours is not None:
                known = self.options.samples if since_change is None else since_change
                latest = self.neighbours.latest(known)
            runners += tuned_levels(
                annealer.divergence, source, log_prior, self.options, latest, plain=kept is None
            )
        if not runners and not self.companions:
            return
        if leader is None and self.companions and not annealer.finished:
            leader = 0
        self.tunings, self.shares, self.speaker = [], np.empty(0), TUNED  # all are in the race now
        length = LENGTH if self.neighbours is not None else LONGER
        self.race = Race(len(log_prior), runners, len(self.companions), barred, length)
        self.race.leader = leader
        self.calibration, self.doubt = 1.0, 0.0
        self.candidates, self.chosen, self.voters = (), None, ()  # until it is over
        self._note_who_answers()

    def restart_after_drift(
        self, annealer: Annealer, log_prior: Array, score: Score | None, samples: int
    ) -> None:
        """The stream has changed some samples ago: who knows only these joins the race."""
        self.earlier += self.since - samples
        self.since, self.due = samples, EARLIEST
        while self.due <= self.since:
            self.due *= 2
        if self.options.method is None and not self.companions:
            return  # levels as they are have had their day
        kept = None if samples < FEWEST else self._kept_starts(annealer, samples)
        self.begin_race(annealer, log_prior, score, kept, since_change=samples)

    def next_decision(self, weights: Array | None, begin: int, end: int) -> int:
        """How far rows can be learnt before something has to be decided."""
        left = 1 if self.meets_companions else self.left
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
            self._note_who_answers()

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
        losses = np.full(len(X), np.nan)
        taking_part = self.companions[: self.race.companions]
        losses[counted > 0] = self.race.run(taking_part, X, classes, counted)
        wrong = losses[present]
        for each in self.companions[self.race.companions :]:
            each.keep(X, classes, counted)
        if not (counted > 0).any():
            return None, wrong
        return self.close_lap(annealer, score), wrong

    def close_lap(self, annealer: Annealer, score: Score | None) -> Level | None:
        """If a lap has ended with the last sample, say who leads, or who has won.

        A level that won as it was annealed is returned, to be tracked.
        """
        race = self.race
        if race is None or (race.seen % LAP and not race.over):
            return None
        race.lap(score)
        plain = self._end_race(annealer.finished, score) if race.over else None
        self._note_who_answers()
        return plain

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
        runners: list[Contestant] = [*companions[: race.companions], *race.runners]
        self.candidates = tuple(
            Candidate(runner.n_codevectors, *runner.fits, runner.steps, *values)
            for runner, values in zip(runners, scored.tolist(), strict=True)
        )
        self.chosen = self.candidates[best]
        self.voters = (Voter(**vars(self.chosen), share=1.0),)
        (self.calibration, self.doubt), self.tempering = calibration, 1.0
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

    def _renew_companions(self, runners: Sequence[Contestant], scores: Array) -> None:
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
        return Vote(voters, shares, self.calibration, self.doubt)


def _name(speakers: Sequence[Contestant]) -> str:
    """What those that answer are called; where nobody does, the annealer's level is asked."""
    if not speakers:
        return ANNEALED_LEVEL
    if len(speakers) > 1:
        return f"vote of {len(speakers)} levels"
    only = speakers[0]
    if isinstance(only, Nearest):
        return "class means" if only.samples is None else "latest samples"
    return f"fine-tuned level of {only.n_codevectors} codevectors" if only.rate else ANNEALED_LEVEL
