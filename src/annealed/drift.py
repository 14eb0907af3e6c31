"""Noticing that a stream has changed: the model's losses on samples to come have risen.

A loss is what the model gets wrong before it learns the sample: 1 for a wrong class, the divergence
to the nearest codevector in clustering.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from annealed.stored import Amount, Count, Finite, Matrix, State, StoredAs, between, require

# Losses are summed in blocks; so many blocks are remembered, and at least so many are needed on the
# older side of a change.
BLOCK = 50
# Samples that a recent score is about, and the latest alarms whose times are kept.
SCORED_LATELY = 1000
MOST_ALARMS = 1000
REMEMBERED = 200
OLDER = 4
# Blocks from which on their own variance and memory tell anything, and all there is to tell.
TELLING, LONG = 12, 48
# Blocks after an alarm in which no other is believed.
RESTING = 10


class Detector(Protocol):
    """What is asked of a detector: river's interface."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value raised an alarm."""

    def update(self, x: float) -> Any:
        """Take one value in."""


@dataclass(eq=False, repr=False)
class DriftDetector:
    """Raise an alarm when the mean of the values has risen beyond chance.

    Values are summed in blocks of 50. After each block the newest 1, 2, 4, ... blocks are compared
    with all that are older; what differs by more than ``threshold`` standard errors is a change,
    and what is older than it is forgotten. A rise is an alarm, a fall is not. (The idea of
    comparing all cuts of a window is ADWIN's, Bifet and Gavalda 2007.)

    Losses that come in runs are no change: where blocks vary by more than their values let expect,
    or one block tells of the next, the standard error is that of the blocks. And where losses are
    rare their sums are skewed: what is compared is the deviance of counts (McCullagh and Nelder
    1989), whose tails are right for rare and for frequent losses.

    Parameters
    ----------
    threshold : float, default=4.3
        In standard errors.

    Raises
    ------
    ValueError
        The threshold is not a number above 0.

    Examples
    --------
    >>> from annealed import DriftDetector
    >>> detector = DriftDetector()
    >>> alarms = [k for k in range(4000) if detector.update(float(k % 5 == 0 or k > 3000))]
    >>> 3000 < alarms[0] < 3100
    True
    """

    threshold: Amount = 4.3
    drift_detected: bool = field(init=False)
    # Of the block under way.
    count: Annotated[int, between(0, BLOCK)] = field(init=False)
    total: float = field(init=False)
    squares: float = field(init=False)
    blocks: Matrix = field(init=False)  # sums of values and of their squares
    # How much more blocks vary than independent values would: a running mean that survives changes.
    excess: Amount = field(init=False)

    def __post_init__(self) -> None:
        threshold = self.threshold
        if not isinstance(threshold, (int, float, np.number)) or not 0 < threshold < np.inf:
            raise ValueError(f"threshold must be a number above 0, got {threshold!r}")
        self.drift_detected = False
        self.count, self.total, self.squares = 0, 0.0, 0.0
        self.blocks, self.excess = np.empty((0, 2)), 1.0

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Two sums of each block, and no more blocks than are remembered."""
        require(state["blocks"].shape[1] == 2, "a drift detector has no sums")
        require(len(state["blocks"]) <= REMEMBERED, "a drift detector remembers too much")

    def update(self, x: float) -> bool:
        """Take one value in; whether it raised an alarm."""
        self.count += 1
        self.total += x
        self.squares += x * x
        self.drift_detected = False
        if self.count == BLOCK:
            self._end_block()
        return self.drift_detected

    def update_all(self, values: Sequence[float]) -> bool:
        """Take several values in, one after the other; whether one of them raised an alarm."""
        begin, heard = 0, False
        while begin < len(values):
            some = values[begin : begin + BLOCK - self.count]
            total, squares = self.total, self.squares
            for x in some:
                total += x
                squares += x * x
            begin += len(some)
            self.count += len(some)
            self.total, self.squares, self.drift_detected = total, squares, False
            if self.count == BLOCK:
                self._end_block()
                heard = heard or self.drift_detected
        return heard

    def _end_block(self) -> None:
        block = np.array([[self.total, self.squares]])
        self.blocks = np.concatenate([self.blocks[-REMEMBERED + 1 :], block])
        self.count, self.total, self.squares = 0, 0.0, 0.0
        self.drift_detected = self._compare()

    def _compare(self) -> bool:
        n = len(self.blocks)
        if n <= OLDER:
            return False
        sums = np.cumsum(self.blocks, axis=0)
        total, squares = sums[-1].tolist()
        mean = total / (n * BLOCK)
        if mean <= 0:
            return False
        # One error in a block of none is no certainty: half a success and half a failure more.
        of_values = (squares + 0.5) / (n * BLOCK) - mean**2
        whole = bool((self.blocks[:, 0] == self.blocks[:, 1]).all())
        # How much more values vary than draws of 0 and 1, if they are that, or than counts.
        dispersion = max(1.0 if whole else of_values / mean, 1e-300)
        # No deviance exceeds twice Pearson's statistic (KL divergence <= chi squared), which takes
        # no logarithm: most cuts need none.
        variance = mean * (1 - mean) if whole else mean
        least = self.threshold**2 * dispersion * variance / 2
        beyond, cut, rise = 0.0, 0, False
        newest = 1
        while newest <= n - OLDER:
            older, k, m = float(sums[n - newest - 1, 0]), newest * BLOCK, (n - newest) * BLOCK
            newer = total - older
            square = 0.0
            if (newer - k * mean) ** 2 * (1 / k + 1 / m) > least:
                square = _deviance(newer, k, older, m, mean, whole) / dispersion
            # Sums in fact vary at least as much as independent ones: most cuts are none.
            if square > self.threshold**2:
                here = self._surprise(square, newest, of_values) - self.threshold**2
                if here > beyond:
                    beyond, cut, rise = here, newest, newer / k > older / m
            newest *= 2
        if not cut:
            if n >= LONG:
                here = self._excess_of_blocks(1, squares / (n * BLOCK) - mean**2)
                self.excess += (here - self.excess) / REMEMBERED
            return False
        self.blocks = self.blocks[-cut:]
        return rise

    def _surprise(self, square: float, newest: int, of_values: float) -> float:
        """What a difference between both sides of a cut comes to, as the square of a normal value.

        Given as that of independent values.
        """
        n, excess = len(self.blocks), self.excess
        if n >= TELLING:
            excess = max(self._excess_of_blocks(newest, of_values), excess)
        if excess == 1:
            return square
        # The unit itself is an estimate, from about so many independent blocks, and large values
        # are less rare: as Student's t, turned into a normal value.
        blocks = n / excess
        return blocks * math.log1p(square / excess / blocks)

    def _excess_of_blocks(self, newest: int, of_values: float) -> float:
        """How much more means of blocks vary than if values were independent; at least 1."""
        n = len(self.blocks)
        # Of block sums around the mean of their own side, and how one tells of the next: believed
        # where it exceeds two standard errors of what chance makes of independent values.
        values, older = self.blocks[:, 0], n - newest
        rest = values - np.add.reduce(values[:older]) / older
        rest[older:] = values[older:] - np.add.reduce(values[older:]) / newest
        total = float(rest @ rest)
        if not total > 0 < of_values:
            return 1.0
        ratio, lagged = total / (n - 2) / BLOCK / of_values, float(rest[1:] @ rest[:-1]) / total
        if ratio < 1 + 2 * math.sqrt(2 / n):
            ratio = 1.0
        # The long-run variance of a series whose memory fades so much from block to block.
        lagged = min(lagged + 1 / n, 0.95) if lagged > 2 / math.sqrt(n) else 0.0
        return ratio * (1 + lagged) / (1 - lagged)

    @property
    def since_change(self) -> int:
        """Values since the last change that was noticed, or since the first value remembered."""
        return len(self.blocks) * BLOCK + self.count


def _deviance(newer: float, k: int, older: float, m: int, mean: float, whole: bool) -> float:
    """Of two sums over so many values each, if they are of one mean; about z squared.

    Of losses that are 0 or 1 (``whole``), otherwise of counts.
    """
    log, found = math.log, 0.0
    if newer > 0:
        found += newer * log(newer / (k * mean))
    if older > 0:
        found += older * log(older / (m * mean))
    if whole and mean < 1:
        if newer < k:
            found += (k - newer) * log((k - newer) / (k * (1 - mean)))
        if older < m:
            found += (m - older) * log((m - older) / (m * (1 - mean)))
    return 2 * found


class RunningScore(NamedTuple):
    """How samples of a stream fared before they were learnt, as of the last multiple of 50.

    samples : how many were scored
    overall : mean over all of them
    recent : over the latest, older ones fading: half of it is of the last 700
    """

    samples: int
    overall: float
    recent: float


class StreamRecord(NamedTuple):
    """What has been noticed in a stream so far.

    heard : samples that were listened to
    scored : of them, those whose loss is known
    overall, recent : mean loss of these, and of the latest, older ones fading
    alarms : samples that had been learnt at each of the latest alarms
    n_alarms : how many there were in all
    """

    heard: Count = 0
    scored: Count = 0
    overall: Finite = 0.0
    recent: Finite = 0.0
    alarms: tuple[Count, ...] = ()
    n_alarms: Count = 0

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Nothing is counted that was not heard."""
        require(state["scored"] <= state["heard"], "samples were scored that were not heard")
        n = min(state["n_alarms"], MOST_ALARMS)
        require(len(state["alarms"]) == n, "alarms were not counted")

    def with_losses(self, samples: int, known: int, total: float) -> StreamRecord:
        """After some more samples; ``total`` is the loss of those for which it is known."""
        heard = self.heard + samples
        if not known:
            return self._replace(heard=heard)
        scored, mean = self.scored + known, total / known
        return self._replace(
            heard=heard,
            scored=scored,
            overall=self.overall + (mean - self.overall) * known / scored,
            recent=self.recent + (mean - self.recent) * known / min(scored, SCORED_LATELY),
        )

    def with_alarm(self, samples: int) -> StreamRecord:
        """After an alarm, when so many samples had been learnt."""
        alarms = (*self.alarms, samples)[-MOST_ALARMS:]
        return self._replace(alarms=alarms, n_alarms=self.n_alarms + 1)


@dataclass(eq=False, repr=False)
class Watch:
    """A detector, and the model whose losses it hears.

    The model is looked at when a block of samples begins, so that how calls cut a stream cannot be
    seen. Detectors that also notice improvements are believed only where losses have risen, and
    after an alarm none is for a while: the new model has to be learnt first.
    """

    detector: Annotated[Detector, StoredAs(DriftDetector)]
    model: Any = None  # which kind, the estimator knows
    left: Annotated[int, between(1, BLOCK + 1)] = BLOCK
    heard: bool = False  # an alarm in this block
    total: float = 0.0  # of the losses in this block
    unknown: Annotated[int, between(0, BLOCK + 1)] = 0  # samples of this block without a loss
    means: tuple[float, ...] = ()  # of the blocks since the last alarm, the latest few

    def __post_init__(self) -> None:
        self.detector = copy.deepcopy(self.detector)

    def check_storable(self) -> None:
        """Raise ValueError for a detector of another package, whose state only it knows."""
        if type(self.detector) is not DriftDetector:
            raise ValueError(
                f"the drift detector is a {type(self.detector).__name__} of another package, whose "
                'state a model file cannot hold: use drift_detector="auto", or pickle'
            )

    def copy(self) -> Watch:
        """A twin that can go on by itself."""
        twin = object.__new__(Watch)
        twin.__dict__.update(self.__dict__)
        twin.detector = copy.deepcopy(self.detector)
        return twin

    def observe(self, samples: int, losses: Iterable[float] | NDArray[Any]) -> None:
        """Samples that count, at most as many as are left of the block, and their losses."""
        given = np.asarray(losses, dtype=float).tolist()
        self.unknown += samples - len(given)
        if type(self.detector) is not DriftDetector:
            self.left -= samples - len(given)
            for loss in given:
                self.hear(loss)
            return
        self.left -= samples
        for loss in given:
            self.total += loss
        self.heard = self.detector.update_all(given) or self.heard

    def hear(self, loss: float) -> None:
        """One sample that counts, and its loss."""
        self.left -= 1
        self.total += loss
        detector = self.detector
        detector.update(loss)
        if detector.drift_detected:
            self.heard = True

    @property
    def since_change(self) -> int:
        """Samples since the change that the detector has noticed; a guess, if it does not say."""
        return int(getattr(self.detector, "since_change", 2 * BLOCK))

    def end_block(self) -> bool:
        """Whether the stream has changed, by what was heard in the block that ends here."""
        before, now = self.means, self.total / BLOCK
        alarm = self.heard and len(before) >= RESTING and now > sum(before) / len(before)
        self.means = () if alarm else (*before, now)[-REMEMBERED:]
        return alarm

    def begin_block(self, model: Any) -> None:
        """The next block, on which this model is tested."""
        self.left, self.heard, self.total, self.unknown = BLOCK, False, 0.0, 0
        self.model = model
