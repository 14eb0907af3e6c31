"""Candidates that were chosen, learnt once more from all rows.

That is another annealing, which may end in another solution: it is compared with the models that
were tested, and where it falls behind them one of them answers instead.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from annealed.divergences import Array
from annealed.fine_tuning.candidates import Chosen, KeptTunings
from annealed.fine_tuning.methods import Tuning
from annealed.fine_tuning.model import Integers
from annealed.fine_tuning.scoring import per_row
from annealed.fine_tuning.tunable import TunablePath
from annealed.fine_tuning.vote import MOST_VOTERS, SMALLEST_SHARE, mean_answer
from annealed.threads import in_threads

# The model repeated on all rows is compared with those tested on at most so many rows that both
# have learnt. It may be worse by so many standard errors: chance alone exceeds them once in 700.
COMPARED_ROWS = 4000
STANDARD_ERRORS = 3.0


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

    @property
    def mean_gain(self) -> float:
        """Mean score on rows it has learnt."""
        rows, emphasis = self.tunable.shuffled.rows[:COMPARED_ROWS], self.tunable.labelled.emphasis
        return float(np.average(self.gains(rows), weights=emphasis[rows]))

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
