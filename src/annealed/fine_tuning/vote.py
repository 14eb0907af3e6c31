"""Several levels that answer together: each says how likely the classes are, the mean decides.

One level is chosen on a few hundred rows, which is noisy; the path has all levels. They vote: the
class probabilities are a mean over them, weighted by shares that make the rows held out as likely
as possible. Such shares are those of a mixture whose parts are known, found by expectation and
maximisation (Dempster, Laird and Rubin 1977). Voters are taken in one by one, the one first that
adds most, as long as it adds enough. Where rows are few, whom they prefer is chance in part: shares
are then means over resamples of the rows (bagging, Breiman 1996). A model that answers alone is a
vote with one voter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.fine_tuning.model import NO_CALIBRATION, Calibration, Integers, TunedModel
from annealed.fine_tuning.scoring import Candidate
from annealed.path import Level, check_level
from annealed.stored import Amount, Since, State, Vector, require

# No more voters than these, and none with a smaller share: reading a model takes time, too.
MOST_VOTERS = 8
SMALLEST_SHARE = 0.02
# One more voter must make the rows together more likely by a factor exp of this (Akaike would ask
# for 1); it is tried with these shares.
LEAST_GAIN = 0.5
TRIED = 0.05, 0.2, 0.5
# Rows that voters are taken to share alike before any is seen; and rounds of fitting.
ROWS_SHARED = 8.0
ROUNDS = 30


@dataclass(frozen=True)
class Voter(Candidate):
    """A candidate that takes part in the answer.

    Attributes
    ----------
    share : float
        Its part of the class probabilities; those of all voters sum to one.
    """

    share: Amount


@dataclass(frozen=True, eq=False)
class Vote:
    """The model that answers: p(c|x) = sum_v share_v p_v(c|x), calibrated.

    Voters stand by falling share. The power ``calibration`` and the ``doubt`` are those of
    `Calibration`: they change no decision.
    """

    voters: tuple[TunedModel, ...]
    shares: Vector
    calibration: float = 1.0
    doubt: Annotated[Amount, Since("0.2", 0.0)] = 0.0

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Every voter has a share, and is of the same features."""
        voters, shares = state["voters"], state["shares"]
        require(len(voters) == len(shares) > 0, "a vote has shares of other voters")
        check_shares(shares)
        d = voters[0].level.codevectors.shape[1]
        same = all(voter.level.codevectors.shape[1] == d for voter in voters)
        require(same, "voters are of different features")

    @classmethod
    def of_one(cls, model: TunedModel, calibration: Calibration = NO_CALIBRATION) -> Vote:
        """A model that answers alone."""
        return cls((model,), np.ones(1), *calibration)

    @property
    def leading(self) -> TunedModel:
        """The voter with the largest share."""
        return self.voters[0]

    @property
    def level(self) -> Level:
        """The codevectors of all voters, one after the other, weights times shares."""
        if len(self.voters) == 1:
            return self.leading.level
        levels = [voter.level for voter in self.voters]
        logs = [np.log(max(level.temperature, 1e-300)) for level in levels]

        def stacked(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(level, name) for level in levels])

        return replace(
            levels[0],
            temperature=float(np.exp(self.shares @ logs)),
            codevectors=stacked("codevectors"),
            weights=stacked("weights") * self.shares[self.membership],
            classes=stacked("classes"),
            nodes=stacked("nodes"),
            parents=stacked("parents"),
            distortion=np.nan,
            entropy=np.nan,
            score=np.nan,
        )

    @property
    def membership(self) -> Integers:
        """The voter of each codevector of `level`."""
        return np.repeat(
            np.arange(len(self.voters)), [voter.level.n_codevectors for voter in self.voters]
        )

    @property
    def n_classes(self) -> int:
        """Classes it knows."""
        return int(self.leading.level.classes.max()) + 1

    @property
    def relevances(self) -> Array | None:
        """How much features count, on average over the voters; None for all alike."""
        if all(voter.relevances is None for voter in self.voters):
            return None
        d = self.leading.level.codevectors.shape[1]
        each = [np.ones(d) if v.relevances is None else v.relevances for v in self.voters]
        return np.asarray(self.shares @ np.array(each))

    def possible(self, classes: int) -> NDArray[np.bool_]:
        """Which of so many classes have any weight."""
        found = np.zeros(classes, dtype=bool)
        for voter in self.voters:
            found[voter.level.classes[voter.bias > -np.inf]] = True
        return found

    def posterior(self, divergence: BregmanDivergence, X: NDArray[Any], classes: int) -> Array:
        """p(c|x) of every row, in the numbering of the levels' classes."""
        answers = (voter.posterior(divergence, X, classes) for voter in self.voters)
        calibration = Calibration(self.calibration, self.doubt)
        return mean_answer(answers, self.shares, calibration, self.possible(classes))


def mean_answer(
    answers: Any,
    shares: Array,
    calibration: Calibration = NO_CALIBRATION,
    possible: NDArray[np.bool_] | None = None,
) -> Array:
    """The answer of voters with these shares, given that of each."""
    mean = sum(share * answer for share, answer in zip(shares.tolist(), answers, strict=True))
    # Rounding may leave a sure class at 1 + 4e-16, which metrics refuse.
    return np.minimum(calibration(np.asarray(mean), possible), 1.0)


def check_shares(shares: Array) -> None:
    """Raise MalformedError unless shares are positive and sum to one."""
    require(
        (shares > 0).all() and (not len(shares) or abs(shares.sum() - 1) < 1e-6),
        "the shares of voters do not sum to one",
    )


def check_voters(owner: str, vote: Vote, d: int | None, n_classes: int) -> None:
    """Raise MalformedError unless all voters are of these features and classes."""
    for voter in vote.voters:
        check_level(owner, voter.level, d, n_classes)


def fit_shares(own: Array, emphasis: Array, sizes: Integers) -> tuple[Integers, Array]:
    """Who votes, by falling share, and the shares that make rows most likely.

    Parameters
    ----------
    own : array of shape (n_rows, n_candidates)
        Probability every candidate gives to the class each row has.
    emphasis : array of shape (n_resamples, n_rows)
        How much each row counts; shares are means over the resamples.
    sizes : array of shape (n_candidates,)
        Codevectors of every candidate. One with twice as many is taken for half as likely before
        any row is seen: it can say more, so it looks good by chance more often.
    """
    shares, prior = np.zeros(own.shape[1]), -np.log(sizes)
    for weights in emphasis:
        voters, of_voters = _most_likely(own, weights * (len(own) / weights.sum()), prior)
        shares[voters] += of_voters / len(emphasis)
    order = np.argsort(-shares, kind="stable")[:MOST_VOTERS]
    order = order[shares[order] >= SMALLEST_SHARE]
    return order, shares[order] / shares[order].sum()


def _most_likely(own: Array, emphasis: Array, prior: Array) -> tuple[list[int], Array]:
    """Voters, taken in one by one, and their shares; ``prior`` are log probabilities."""
    prior = prior - prior.max()
    likelihood = emphasis @ np.log(own)
    voters, shares = [int((likelihood + prior).argmax())], np.ones(1)
    best = float(likelihood[voters[0]])
    while len(voters) < MOST_VOTERS:
        mean = own[:, voters] @ shares
        # Who would add most, tried with a few shares.
        gains = np.array([emphasis @ np.log((1 - a) * mean[:, None] + a * own) for a in TRIED])
        gains += prior
        tried, newcomer = (int(k) for k in np.unravel_index(gains.argmax(), gains.shape))
        if newcomer in voters or gains[tried, newcomer] < best + LEAST_GAIN:
            break
        voters.append(newcomer)
        start = np.append((1 - TRIED[tried]) * shares, TRIED[tried])
        shares = _mixture(own[:, voters], emphasis, start)
        best = float(emphasis @ np.log(own[:, voters] @ shares))
    return voters, shares


def _mixture(own: Array, emphasis: Array, shares: Array) -> Array:
    """Shares of parts of a mixture by expectation and maximisation, from a first guess."""
    k = own.shape[1]
    for _ in range(ROUNDS):
        joint = own * shares
        part = (emphasis / joint.sum(axis=1)) @ joint
        shares = (part + ROWS_SHARED / k) / (len(own) + ROWS_SHARED)
    return shares
