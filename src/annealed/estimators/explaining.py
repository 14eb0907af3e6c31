"""Why a row is what it is: the codevectors that decided, and the features that moved it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.estimators.class_learner import ClassLearner, ClassSettings
from annealed.fine_tuning.model import TunedModel
from annealed.fine_tuning.vote import Vote
from annealed.kernels import kernel_for


class Reason(NamedTuple):
    """One line of an explanation.

    Attributes
    ----------
    row : int
        The row that is explained, by its place among those given.
    label : label
        The class it is predicted to be.
    probability : float
        The probability of that class.
    voter, codevector : int
        A codevector that decided, an index into ``codevectors_``, and the voter it belongs to.
    codevector_label : label
        The class it speaks for.
    share : float
        Its part of the answer before calibration. The shares of all codevectors sum to one, those
        of a class to the mean of what the voters give to it.
    features : tuple of (name, float)
        What moved the row towards this codevector rather than to the nearest one, of the same
        voter, that speaks for another class: by feature how many nats, the largest first. Negative
        ones held it back.
    """

    row: int
    label: Any
    probability: float
    voter: int
    codevector: int
    codevector_label: Any
    share: float
    features: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        moved = ", ".join(f"{name} {nats:+.2f}" for name, nats in self.features)
        return (
            f"row {self.row}: {self.label} ({self.probability:.0%}); {self.share:.0%} from "
            f"codevector {self.codevector} of voter {self.voter} ({self.codevector_label}): {moved}"
        )


def explain_rows(
    learner: ClassLearner,
    settings: ClassSettings,
    rows: NDArray[Any],
    posterior: Array,
    classes: NDArray[Any],
    names: list[str],
    n_codevectors: int,
    n_features: int,
) -> list[Reason]:
    """Reasons for every row, those of the largest shares first."""
    vote = learner.answering(settings)
    labels = np.array(learner.labels)
    shares = codevector_shares(learner, vote, rows)
    own, membership = labels[vote.level.classes], vote.membership
    start = np.searchsorted(membership, np.arange(len(vote.voters)))
    reasons = []
    for r, row in enumerate(np.asarray(rows, dtype=float)):
        best = int(posterior[r].argmax())
        for i in np.argsort(-shares[r], kind="stable")[:n_codevectors].tolist():
            v = int(membership[i])
            nats = _pull(
                learner, vote.voters[v], row, i - int(start[v]), shares[r, membership == v]
            )
            strongest = np.argsort(-np.abs(nats), kind="stable")[:n_features].tolist()
            reasons.append(
                Reason(
                    r, classes[best], float(posterior[r, best]), v, i, own[i],
                    float(shares[r, i]), tuple((names[j], float(nats[j])) for j in strongest),
                )
            )  # fmt: skip
    return reasons


def codevector_shares(learner: ClassLearner, vote: Vote, rows: NDArray[Any]) -> Array:
    """The part of every codevector in the answer for every row, before calibration."""
    return np.hstack(
        [s * _associations(learner, v, rows) for s, v in zip(vote.shares, vote.voters, strict=True)]
    )


def _associations(learner: ClassLearner, voter: TunedModel, rows: NDArray[Any]) -> Array:
    """p_i of every row and codevector, summing to one."""
    K = voter.level.n_codevectors
    each, _, _ = kernel_for(learner.divergence).associate(
        rows, voter.level.codevectors, voter.bias, voter.level.temperature,
        np.arange(K), K, voter.sharpness, voter.relevances,
    )  # fmt: skip
    return each


def _pull(learner: ClassLearner, voter: TunedModel, x: Array, i: int, shares: Array) -> Array:
    """By feature, d_j(x, rival)/T_rival - d_j(x, mu_i)/T_i, the rival being of another class."""
    level = voter.level
    others = np.flatnonzero(level.classes != level.classes[i])
    if not len(others):
        return np.zeros(len(x))
    rival = int(others[shares[others].argmax()])
    sharpness = np.ones(level.n_codevectors) if voter.sharpness is None else voter.sharpness
    relevances = np.ones(len(x)) if voter.relevances is None else voter.relevances
    return np.asarray(
        relevances
        * (
            _by_feature(learner, x, level.codevectors[rival]) * sharpness[rival]
            - _by_feature(learner, x, level.codevectors[i]) * sharpness[i]
        )
        / level.temperature
    )


def _by_feature(learner: ClassLearner, x: Array, mu: Array) -> Array:
    """What each feature adds to the divergence of a row from a codevector."""
    divergence = learner.divergence
    if divergence.matrix is not None:  # (x - mu)' A (x - mu), A = L L', each feature its own term
        gap = x - mu
        return np.asarray(gap * (divergence.matrix @ (divergence.matrix.T @ gap)))
    # How much less it would be if the feature were the codevector's: its term, where terms add up.
    kernel, replaced = kernel_for(divergence), np.tile(x, (len(x), 1))
    np.fill_diagonal(replaced, mu)
    whole = kernel.divergences(x[None], mu[None])[0, 0]
    return np.asarray(whole - kernel.divergences(replaced, mu[None])[:, 0])
