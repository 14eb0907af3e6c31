"""Choosing and fine-tuning a level in a stream: candidates race on the samples to come.

When every class has gone down the ladder, levels of several sizes, as annealed and fine-tuned, are
tested on each new sample and then learn it (test-then-train). After a while the best one stays and
goes on learning. Everything is counted in samples, so how calls cut the stream cannot be seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.annealer import Annealer
from annealed.divergences import Array
from annealed.finetune import Classes, Fits, SoftTuning, TunedModel, Tuning, as_annealed
from annealed.path import Level
from annealed.selection import Candidate, Judge, Score, Selection, sizes

# Samples on which candidates are compared; and those a fine-tuning learns before its answers count.
LENGTH = 2000
HEAD_START = 200


class Tutor:
    """Fine-tuning in a stream: a race first, then its winner.

    Parameters
    ----------
    annealer : Annealer
        As it stands when the race begins.
    log_prior : ndarray of shape (n_classes,)
    factor : ndarray of shape (n_classes,)
        How much a sample of each class counts.
    last : bool
        Only the coldest level takes part.
    method : subclass of Tuning or None
        How to fine-tune; None for not at all.
    fits : tuple of Fits
        What fine-tuning may fit.
    """

    def __init__(
        self,
        annealer: Annealer,
        log_prior: Array,
        factor: Array,
        *,
        last: bool,
        method: type[Tuning] | None,
        fits: tuple[Fits, ...],
    ) -> None:
        self._set(None, factor)
        divergence, path, geometry = annealer.divergence, annealer.path(), annealer.geometry()
        for K in sizes(path)[-1:] if last else sizes(path):
            start = as_annealed(path.codebook(K), log_prior)
            self.runners.append(SoftTuning(divergence, start, len(log_prior), geometry, Fits(), 0))
            if method is not None:
                self.runners += [
                    method(divergence, start, len(log_prior), geometry, each) for each in fits
                ]
        self.answers += [[] for _ in self.runners]

    @classmethod
    def graduated(cls, selection: Selection, factor: Array) -> Tutor:
        """A tutor whose choice was made elsewhere."""
        tutor = object.__new__(cls)
        tutor._set(selection.tuning, factor, selection.calibration, selection.tempering)
        tutor.candidates, tutor.chosen = selection.candidates, selection.chosen
        return tutor

    def _set(
        self,
        tuning: Tuning | None,
        factor: Array,
        calibration: float = 1.0,
        tempering: float = 1.0,
    ) -> None:
        self.tuning, self.factor = tuning, factor
        # Power of the posterior; and, where a plain level tracks, its T to predict at over T.
        self.calibration, self.tempering = calibration, tempering
        self.candidates: tuple[Candidate, ...] = ()
        self.chosen: Candidate | None = None
        self.seen = 0  # samples of the race
        self.runners: list[Tuning] = []
        self.answers: list[list[Array]] = []
        self.classes: list[Classes] = []
        self.counted: list[Array] = []  # how much each sample of the race counts

    @property
    def racing(self) -> bool:
        """Whether the race is still on."""
        return bool(self.runners)

    def copy(self) -> Tutor:
        """A twin that can go on by itself."""
        twin = object.__new__(Tutor)
        twin.__dict__.update(self.__dict__)
        twin.tuning = None if self.tuning is None else self.tuning.copy()
        twin.runners = [runner.copy() for runner in self.runners]
        twin.answers = [list(answers) for answers in self.answers]
        twin.classes, twin.counted = list(self.classes), list(self.counted)
        return twin

    def horizon(self, weights: Array | None, begin: int, end: int) -> int:
        """How far rows can be learnt before the race ends, or all of them."""
        if not self.racing:
            return end
        left = LENGTH - self.seen
        if weights is None:
            return min(end, begin + left)
        counted = np.flatnonzero(weights[begin:end])
        return end if len(counted) <= left else begin + int(counted[left - 1]) + 1

    def learn(
        self,
        X: NDArray[Any],
        classes: Classes,
        weights: Array | None,
        begin: int,
        end: int,
    ) -> None:
        """Learn rows begin..end, at most up to the horizon."""
        X, classes, n = X[begin:end], classes[begin:end], end - begin
        counted = self.factor[classes]
        if weights is not None:
            counted = counted * weights[begin:end]
        present = counted > 0  # of the others, soft LVQ says nothing
        if self.tuning is not None:
            self.tuning.learn(X, None, classes, counted, 0, n)
        if not self.racing:
            return
        for runner, answers in zip(self.runners, self.answers, strict=True):
            replies = runner.learn(X, None, classes, counted, 0, n, answer=True)
            answers.append(replies[present].astype(np.float32))
        self.classes.append(classes[present])
        self.counted.append(counted[present])
        self.seen += len(self.classes[-1])

    @property
    def over(self) -> bool:
        """Whether the race has had all its samples."""
        return self.racing and self.seen >= LENGTH

    def finish(self, score: Score | None) -> Level | None:
        """End the race. A level that won as it was annealed is returned, to be tracked."""
        classes = np.concatenate(self.classes)[HEAD_START:]
        judge = Judge(classes, np.concatenate(self.counted)[HEAD_START:], score)
        answers = [np.concatenate(each)[HEAD_START:].astype(float) for each in self.answers]
        marks = [judge(each) for each in answers]
        best = int(np.argmax([score for score, _, _ in marks]))
        candidates = tuple(
            Candidate(runner.start.level.n_codevectors, *runner.fits, runner.steps, *mark)
            for runner, mark in zip(self.runners, marks, strict=True)
        )
        winner = self.runners[best]
        calibration = judge.calibration(judge.some(answers[best]))
        self._set(winner if winner.rate else None, self.factor, calibration)
        self.candidates, self.chosen = candidates, candidates[best]
        return None if winner.rate else winner.start.level

    def model(self) -> TunedModel | None:
        """The model that has won and gone on learning; None before, or if a plain level won."""
        if self.tuning is None:
            return None
        return replace(self.tuning.model(), calibration=self.calibration)
