"""A classifier whose first codevectors are put where the reader wants, for Fig. 1 d.

The estimators start every class at the mean of its first samples, which cannot be outside the data;
the figure asks what would happen if it were.
"""

from __future__ import annotations

from typing import Any

from annealed.annealing import codebook as cold
from annealed.annealing.annealer import Annealer
from annealed.annealing.class_annealer import ClassAnnealer
from annealed.annealing.schedule import Schedule
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators import ODAClassifier


class Misplaced(ClassAnnealer):
    """A class that begins its first level at a given place instead of its mean."""

    def __init__(self, d: int, divergence: BregmanDivergence, warm_up: int, place: Array) -> None:
        super().__init__(d, divergence, warm_up)
        self.place = place

    def enter(self, rung: int, T: float, schedule: Schedule) -> None:
        """Leave the warm-up, then move the one codevector away."""
        super().enter(rung, T, schedule)
        self.begin(cold.single(self.place, self.mean - self.place), rung, T, schedule)


class MisplacedODA(ODAClassifier):
    """`ODAClassifier` that starts with one codevector for each class at the places given."""

    def __init__(self, places: Array, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.places = places

    def _new_annealer(
        self, d: int, divergence: BregmanDivergence, schedule: Schedule, classes: int
    ) -> Annealer:
        annealer = super()._new_annealer(d, divergence, schedule, classes)
        annealer.classes = [
            Misplaced(d, divergence, state.warm_up, place)
            for state, place in zip(annealer.classes, self.places, strict=True)
        ]
        return annealer
