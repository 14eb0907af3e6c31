"""A classifier whose first codevectors are put where the reader wants, for Fig. 1 d.

The estimators start every class at the mean of its first samples, which cannot be outside the data;
the figure asks what would happen if it were.
"""

from __future__ import annotations

from typing import Any

from annealed.annealing import codebook
from annealed.annealing.annealer import Annealer
from annealed.annealing.class_annealer import ClassAnnealer
from annealed.annealing.first_split import FirstSplit
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators import ODAClassifier
from annealed.estimators.class_learner import ClassLearner, ClassSettings


class Misplaced(ClassAnnealer):
    """A class that begins its first level at a given place instead of its mean."""

    def __init__(self, d: int, divergence: BregmanDivergence, warm_up: int, place: Array) -> None:
        super().__init__(d, divergence, warm_up)
        self.place = place

    def enter(
        self, rung: int, T: float, schedule: Schedule, first_split: FirstSplit | None = None
    ) -> None:
        """Leave the warm-up, then move the one codevector away."""
        super().enter(rung, T, schedule, first_split)
        self.begin(codebook.single(self.place, self.mean - self.place), rung, T, schedule)


class MisplacedLearner(ClassLearner):
    """A learner whose classes begin at the places given, one after the other."""

    def __init__(self, annealer: Annealer, places: Array) -> None:
        super().__init__(annealer)
        self.places = places

    def add_class(self, label: Any, settings: ClassSettings) -> None:
        """A class that nobody has seen before."""
        super().add_class(label, settings)
        classes = self.annealer.classes
        mean, place = classes[-1], self.places[len(classes) - 1]
        classes[-1] = Misplaced(mean.d, mean.divergence, mean.warm_up, place)


class MisplacedODA(ODAClassifier):
    """`ODAClassifier` that starts with one codevector for each class at the places given."""

    def __init__(self, places: Array, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.places = places

    def _new_learner(
        self, d: int, divergence: BregmanDivergence, schedule: Schedule
    ) -> ClassLearner:
        return MisplacedLearner(Annealer(d, divergence, schedule), self.places)
