"""Learning classes: each annealed by itself, a level chosen and fine-tuned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from annealed.annealing.annealer import Annealer
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array
from annealed.estimators.learner import Index, Learner, LearnerSettings
from annealed.estimators.priors import ClassPriors
from annealed.fine_tuning.class_weights import class_factors, seen_weights
from annealed.fine_tuning.held_out import Choice, anneal_and_choose
from annealed.fine_tuning.methods import CHANGING_WINDOW, TUNINGS, WinnerTuning
from annealed.fine_tuning.model import NO_CALIBRATION, Calibration, Fits, as_annealed
from annealed.fine_tuning.nearest import Nearest
from annealed.fine_tuning.newcomers import TuningOptions
from annealed.fine_tuning.race import LAP, Contestant
from annealed.fine_tuning.scoring import Score
from annealed.fine_tuning.stream_tuner import ANNEALED_LEVEL, Answering, StreamTuner
from annealed.fine_tuning.tunable import LabelledRows
from annealed.fine_tuning.units import Units
from annealed.fine_tuning.vote import Vote, check_voters
from annealed.kernels import WORK_PER_CALL, dense
from annealed.kernels.protocol import SampleFormat, StreamRun
from annealed.path import AnnealingPath, Level, check_level
from annealed.stored import State, Stored, one_width, require

# More codevectors are tried where the coldest level has such a share of the answer, or where the
# answer tells less than such a part of what there is to tell of the classes; where there are so
# many rows for each; and where K^2 d, which annealing takes time for, is at most so much a row.
LARGE_SHARE = 1 / 3
LITTLE = 0.05
ROWS_PER_CODEVECTOR = 10
WORK_PER_ROW = 2000
# What tells little has to gain so many standard errors by it.
STANDARD_ERRORS = 3.0
# Rows on which the accuracy of every level is measured where none are held out.
SCORED_ROWS = 500


@dataclass(frozen=True, kw_only=True)
class ClassSettings(LearnerSettings):
    """The same of a classifier.

    score : of posteriors, by the user's scorer; None for the default
    method, last : how to fine-tune (one of `TUNINGS`, None for not at all), and whether only the
        coldest level may answer
    samples : how many of the latest samples of a stream are kept
    vote : whether several levels may answer together
    grows : whether there may be more codevectors than the schedule has room for, if rows ask for it
    """

    priors: ClassPriors
    score: Score | None
    method: str | None
    last: bool
    vote: bool
    grows: bool
    samples: int

    @property
    def chooses(self) -> bool:
        """Whether there is a level to choose or to fine-tune."""
        return not self.last or self.method is not None


class Stream(NamedTuple):
    """All that learns rows, as long as nothing has to be decided.

    tells : whether it tells how who answers did
    at_once : rows to learn in one call
    """

    run: StreamRun
    tells: bool
    at_once: int


@dataclass(eq=False)
class ClassLearner(Learner[ClassSettings]):
    """Learns several classes, chooses among levels and fine-tunes.

    labels : of the classes, in the order they appeared, by which they are numbered here
    tuner : chooses and fine-tunes, if anyone does
    level_scores : of the levels of the path, where they were measured
    units : in which everything here is, the annealer included; None for those given
    """

    labels: list[Any] = field(default_factory=list)
    tuner: StreamTuner | None = None
    level_scores: list[float] | None = None
    units: Units | None = None
    _stream: Annotated[Stream | None, Stored.NEVER] = None  # while rows are being learnt

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Whatever answers is of the annealer's features and classes."""
        annealer, tuner, watch = state["annealer"], state["tuner"], state["watch"]
        n, units = len(annealer.classes), state["units"]
        require(units is None or len(units.centre) == annealer.d, "units are of other features")
        require(n == len(state["labels"]), "the model is of other classes")
        if state["fixed"] is not None:
            check_level("the model", state["fixed"], annealer.d, n)
        if tuner is not None:
            tunings = tuner.all_tunings
            require(not tunings or len(tuner.factor) == n, "fine-tuning is of other classes")
            for tuning in tunings:
                one_width("fine-tuning", annealer.d, tuning.start.level.codevectors)
            for nearest in tuner.all_nearest:
                one_width("what is kept", annealer.d, nearest.start)
        if watch is not None and watch.model is not None:
            require(type(watch.model) is Vote, "a watch is of no classifier")
            check_voters("the model that is watched", watch.model, annealer.d, n)

    def copy(self) -> Self:
        """A twin that can go on by itself."""
        twin = super().copy()
        twin.labels = list(self.labels)
        twin.tuner = None if self.tuner is None else self.tuner.copy()
        return twin

    def fixed_at(self, level: Level) -> Self:
        """A twin that answers with a level of the path and cannot learn further."""
        twin = super().fixed_at(level)
        twin.tuner = None
        return twin

    def to_continue(self, settings: ClassSettings) -> Self:
        """A twin that goes on learning; ValueError if there is to be no more of that."""
        twin = super().to_continue(settings)
        if not settings.chooses:
            twin.tuner = None
        elif twin.tuner is None:
            twin.tuner = self._new_tuner(settings)
        elif not twin.tuner.follows:
            level = twin.annealed_level()
            twin.annealer.track(level)
            twin.tuner.leave_to_first(level.temperature)
        twin.level_scores = None
        return twin

    # -- learning ------------------------------------------------------------------------------

    def add_class(self, label: Any, settings: ClassSettings) -> None:
        """A class nobody has seen before."""
        self.annealer.add_class()
        self.labels.append(label)
        if self.tuner is not None:
            self.tuner.add_class(class_factors(self.annealer, self.log_prior(settings)))

    def anneal(
        self,
        rows: NDArray[Any],
        index: Index,
        weights: Array | None,
        rng: np.random.Generator,
        schedule: Schedule,
        settings: ClassSettings,
    ) -> None:
        """Learn rows over and over, down to the end of the ladder; choose and fine-tune levels."""
        rows = self.in_units(rows)
        choice = None
        if settings.chooses:
            seen = np.bincount(index, weights, minlength=len(self.labels)).astype(float)
            log_prior = settings.priors.log(self.labels, seen)
            labelled = LabelledRows(rows, index, weights, log_prior)
            choice = self._choice(self.annealer, labelled, rng, settings)
            if choice is not None and settings.grows:
                choice = self._grown(choice, schedule, labelled, rng, settings)
        else:
            self.annealer.anneal(rows, index, weights, rng, settings.listen)
        if choice is None:
            self.level_scores = self._measured(rows, index, rng, settings)
            return
        selection = choice.on_all_rows(rng)
        self.level_scores = selection.level_scores
        self.annealer = selection.annealer
        if selection.plain is not None:
            self.annealer.track(selection.plain)
        self.tuner = StreamTuner.from_selection(
            self._options(settings), selection, self.annealer, self.log_prior(settings)
        )

    def _choice(
        self,
        annealer: Annealer,
        labelled: LabelledRows,
        rng: np.random.Generator,
        settings: ClassSettings,
    ) -> Choice | None:
        return anneal_and_choose(
            annealer, labelled, rng, last=settings.last, vote=settings.vote,
            method=None if settings.method is None else TUNINGS[settings.method],
            fits=self._fits(settings), score=settings.score, listen=settings.listen,
        )  # fmt: skip

    def _grown(
        self,
        choice: Choice,
        schedule: Schedule,
        labelled: LabelledRows,
        rng: np.random.Generator,
        settings: ClassSettings,
    ) -> Choice:
        """Anneal with twice the codevectors as long as rows held out ask for it and gain by it.

        They ask where much of the answer is the coldest level's, which the bound has ended, and
        where none tells the classes apart: they may differ in details that are finer than all.
        """
        (n, d), K_max = labelled.X.shape, self.annealer.K_max
        uncertain = float(entr(np.exp(labelled.log_prior)).sum())

        def tells(choice: Choice) -> bool:
            return choice.expected.log_loss < (1 - LITTLE) * uncertain

        while (
            (choice.share_of_coldest >= LARGE_SHARE or not tells(choice))
            and choice.most_codevectors > K_max / 2
            and n >= ROWS_PER_CODEVECTOR * 2 * K_max
            and (2 * K_max) ** 2 * d <= WORK_PER_ROW * n
        ):
            K_max *= 2
            wider = replace(schedule, K_max=K_max)
            annealer = Annealer(d, self.divergence, wider)
            for _ in self.labels:
                annealer.add_class()
            found = self._choice(annealer, labelled, rng, replace(settings, listen=None))
            if found is None:
                break
            # Two means of rows that are right or not differ by chance by this, or less.
            chance = 0.0 if tells(found) else STANDARD_ERRORS * (0.5 / found.rows) ** 0.5
            if found.expected.score <= choice.expected.score + chance:
                break
            choice = found
        return choice

    def learn(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: ClassSettings,
    ) -> None:
        """Learn rows begin..end, given in the units given, each once."""
        try:
            super().learn(self.in_units(rows), index, weights, begin, end, settings)
        finally:
            self._stream = None

    def _absorb(
        self,
        rows: NDArray[Any],
        index: Index | None,
        weights: Array | None,
        begin: int,
        end: int,
        settings: ClassSettings,
    ) -> Array | None:
        assert index is not None
        annealer, tuner = self.annealer, self.tuner
        if tuner is None:
            annealer.absorb(rows, index, weights, settings.listen, begin, end)
            return None
        losses: list[Array] = []
        while begin < end:
            if tuner.is_due(annealer):
                tuner.prepare(annealer, lambda: self.log_prior(settings), settings.score)
                self._stream = None
            stop = tuner.next_decision(weights, begin, end)
            stream = self._stream
            if stream is None and stop - begin > 1:
                stream = self._stream = self._new_stream(settings)
            if stream is not None:
                begin, told = self._learn_in_one_go(
                    stream, rows, index, weights, begin, stop, settings
                )
                losses.append(told)
                continue
            stop = annealer.absorb(rows, index, weights, settings.listen, begin, stop, pause=True)
            here = slice(begin, stop)
            plain, wrong = tuner.learn(
                rows[here], index[here], None if weights is None else weights[here],
                annealer, settings.score,
            )  # fmt: skip
            if wrong is None:
                present = stop - here.start
                if weights is not None:
                    present = int(np.count_nonzero(weights[here]))
                wrong = np.full(present, np.nan)
            losses.append(wrong)
            if plain is not None:
                annealer.track(plain)
            begin = stop
        return np.concatenate(losses) if losses else None

    def _new_stream(self, settings: ClassSettings) -> Stream | None:
        """Everyone that the next rows concern; None where the kernel has no such thing."""
        sample_format = self.annealer.kernel.sample_format(None)
        if sample_format is None:
            return None
        run = self.begin_stream(sample_format, settings)
        tuner = self.tuner
        if run is None or tuner is None or not (tuner.factor > 0).all():
            return None
        work = sum(each.work_per_row for each in tuner.tested)
        at_once = min(self.annealer.rows_at_once, max(1, WORK_PER_CALL // max(work, 1)))
        return Stream(run, self.tells_losses(settings), at_once)

    def _learn_in_one_go(
        self,
        stream: Stream,
        rows: NDArray[Any],
        index: Index,
        weights: Array | None,
        begin: int,
        end: int,
        settings: ClassSettings,
    ) -> tuple[int, Array]:
        """Learn rows, at most up to the end of a level or of a lap.

        How far it came, and whether who answers was wrong about each row that counts, where that
        is known.
        """
        annealer, tuner = self.annealer, self.tuner
        assert tuner is not None
        race = tuner.race
        stop, wrong = stream.run.learn_rows(
            rows, index, weights, begin, min(end, begin + stream.at_once),
            0 if race is None else race.seen,
        )  # fmt: skip
        wrong = wrong[: stop - begin]
        if weights is not None:
            wrong = wrong[weights[begin:stop] > 0]
        if any(state.run.done for state in annealer.classes):
            self._stream = None
        annealer.close_levels()
        if settings.listen is not None:
            settings.listen(annealer)
        tuner.since += len(wrong)
        if race is not None:
            race.seen += len(wrong)
        if len(wrong):
            self.close_lap(settings)
        if race is not None and (tuner.race is not race or race.seen % LAP == 0):
            self._stream = None
        return stop, wrong if stream.tells else np.full(len(wrong), np.nan)

    def close_lap(self, settings: ClassSettings) -> None:
        """If a lap of a race has ended with the last sample, say who leads, or who has won."""
        assert self.tuner is not None
        plain = self.tuner.close_lap(self.annealer, settings.score)
        if plain is not None:
            self.annealer.track(plain)

    def begin_stream(
        self, sample_format: SampleFormat, settings: ClassSettings
    ) -> StreamRun | None:
        """Everyone that the next samples concern; None if something has to be decided first."""
        annealer, tuner = self.annealer, self.tuner
        tested: list[Contestant] = []
        kept: list[Nearest] = []
        shares, factor, race = np.empty(0), np.empty(0), None
        if tuner is not None:
            if tuner.is_due(annealer) or tuner.meets_companions:
                return None
            race, factor, tested, shares = tuner.race, tuner.factor, tuner.tested, tuner.shares_told
            if any(isinstance(each, WinnerTuning) for each in tested):
                return None  # which answers by the long way only
            kept = [each for each in tuner.companions if each not in tested]
        return annealer.kernel.begin_stream(
            sample_format,
            [state.run for state in annealer.classes],
            np.array([state.weight for state in annealer.classes], dtype=float),
            0.0 if shares.any() else self._plain_temperature(settings),
            [each.run for each in tested],
            shares,
            [each.run for each in kept],
            factor,
            [] if race is None else race.answers,
            np.zeros(0, dtype=np.int32) if race is None else race.classes,
            np.zeros(0) if race is None else race.counted,
        )

    def _plain_temperature(self, settings: ClassSettings) -> float:
        """T at which levels that track answer themselves; 0 where they do not.

        Classes are then as likely as they were seen.
        """
        annealer = self.annealer
        if self.fixed is not None or not annealer.finished or not settings.priors.as_seen:
            return 0.0
        T = min(state.temperature for state in annealer.classes)
        return T if self.tuner is None else T * self.tuner.tempering

    def _levels_tell(self, settings: ClassSettings) -> bool:
        """Whether levels answer themselves, and learning tells how they did."""
        tuner = self.tuner
        return (
            tuner is not None
            and not (tuner.speakers or tuner.meets_companions)
            and not any(isinstance(each, WinnerTuning) for each in tuner.contestants)
            and self._plain_temperature(settings) > 0
            and self.annealer.kernel.sample_format(None) is not None
        )

    def tells_losses(self, settings: ClassSettings) -> bool:
        """Whether learning a sample tells how the model that answers did on it."""
        told = self.tuner is not None and self.tuner.tells_losses
        return told or self._levels_tell(settings)

    def reheat(self, temperature: float, settings: ClassSettings) -> None:
        """Go back up the ladder."""
        self._start_again(temperature, settings, 0)

    def _start_again(self, temperature: float, settings: ClassSettings, samples: int) -> None:
        self._stream = None
        if self.tuner is not None:
            self.tuner = self.tuner.copy()
            self.tuner.restart_after_drift(
                self.annealer, self.log_prior(settings), settings.score, samples
            )
        self.annealer.reheat(temperature)
        self.level_scores = None

    def _watched(self, settings: ClassSettings) -> Vote | None:
        if self.tells_losses(settings):
            return None
        return self.answering(settings)

    def _losses(self, model: Vote, rows: NDArray[Any], index: Index | None) -> NDArray[Any]:
        # A class that is new since the model was looked at is a loss like any other.
        posterior = model.posterior(self.divergence, rows, model.n_classes)
        return np.asarray(posterior.argmax(axis=1) != index, dtype=float)

    def samples_kept(self) -> tuple[Array, NDArray[np.int64], Array] | None:
        """The latest samples of a stream, by which neighbours answer."""
        neighbours = None if self.tuner is None else self.tuner.neighbours
        if neighbours is None or neighbours.samples is None or self.units is not None:
            return None
        rows, classes, weights = neighbours.latest(neighbours.samples)
        if not self.tells_all(len(rows), neighbours.samples, float(weights.sum())):
            return None
        return rows, classes.astype(np.int64), weights

    # -- units ---------------------------------------------------------------------------------

    def in_units(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows in the units they are compared in."""
        return rows if self.units is None else self.units.to(dense(rows))

    def as_given(self, level: Level) -> Level:
        """A level with its codevectors in the units given."""
        if self.units is None:
            return level
        return replace(level, codevectors=self.units.back(level.codevectors))

    # -- answering -----------------------------------------------------------------------------

    def possible(self, settings: ClassSettings) -> NDArray[np.bool_]:
        """Which classes have any weight."""
        return self.log_prior(settings) > -np.inf

    def log_prior(self, settings: ClassSettings) -> Array:
        """Log probability of the classes, in the order they appeared."""
        return settings.priors.log(self.labels, seen_weights(self.annealer))

    def tuned(self) -> Vote | None:
        """The fine-tuned model that answers, if one does."""
        return None if self.fixed is not None or self.tuner is None else self.tuner.model()

    @property
    def _samples_learnt(self) -> int:
        return super()._samples_learnt if self.tuner is None else self.tuner.seen

    @property
    def who_answers(self) -> Answering:
        """Who answers, and since which sample."""
        if self.fixed is not None or self.tuner is None:
            return Answering(ANNEALED_LEVEL, 0)
        return self.tuner.answering

    def annealed_level(self) -> Level:
        """The level that answers, as annealed; of several the one with the largest share."""
        tuned = self.tuned()
        path = self.annealer.path() if tuned is not None else None
        if tuned is not None and path and len(self.annealer.classes) == path[-1].classes.max() + 1:
            K = tuned.leading.level.n_codevectors  # of samples that are kept there may be many more
            return path.codebook(min(max(K, path[0].n_codevectors), path[-1].n_codevectors))
        return self.annealer.model() if self.fixed is None else self.fixed

    def answering(self, settings: ClassSettings) -> Vote:
        """The model that answers."""
        tuned = self.tuned()
        if tuned is not None:
            return tuned
        level, calibration = self.annealed_level(), NO_CALIBRATION
        if self.tuner is not None and self.fixed is None:
            calibration = Calibration(self.tuner.calibration, self.tuner.doubt)
            level = replace(level, temperature=level.temperature * self.tuner.tempering)
        return Vote.of_one(as_annealed(level, self.log_prior(settings)), calibration)

    def path(self, classes: NDArray[Any]) -> AnnealingPath:
        """Every finished level, classes numbered by their place among all classes."""
        order = np.searchsorted(classes, np.array(self.labels))
        path = self.annealer.path().relabelled(order, self.level_scores)
        if self.units is None:
            return path
        levels = [self.as_given(level) for level in path]
        return AnnealingPath(levels, path.events, path.end_temperature)

    # -- fine-tuning ---------------------------------------------------------------------------

    def _fits(self, settings: ClassSettings) -> tuple[Fits, ...]:
        """What fine-tuning may fit."""
        if settings.method != "soft_lvq":
            return (Fits(),)
        if not self.divergence.weighable:
            return Fits(), Fits(temperatures=True)
        return Fits(), Fits(relevances=True), Fits(temperatures=True, relevances=True)

    def _options(self, settings: ClassSettings) -> TuningOptions:
        return TuningOptions(
            settings.last, settings.method, self._fits(settings), CHANGING_WINDOW, settings.samples
        )

    def _new_tuner(self, settings: ClassSettings) -> StreamTuner:
        tuner = StreamTuner(self._options(settings))
        if self.labels:
            tuner.factor = class_factors(self.annealer, self.log_prior(settings))
        return tuner

    def _measured(
        self,
        rows: NDArray[Any],
        index: Index,
        rng: np.random.Generator,
        settings: ClassSettings,
    ) -> list[float]:
        """Accuracy of every level on some of the rows."""
        some = np.sort(rng.permutation(len(rows))[:SCORED_ROWS])
        log_prior = self.log_prior(settings)
        scores = []
        for level in self.annealer.path():
            model = as_annealed(level, log_prior)
            posterior = model.posterior(self.divergence, rows[some], len(log_prior))
            scores.append(float((posterior.argmax(axis=1) == index[some]).mean()))
        return scores
