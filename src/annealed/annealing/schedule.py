"""Every number that decides the course of an annealing, in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from annealed.stored import Amount, Count, Positive, Rule, Since, among

# T_max = "auto" is this much above an estimate of T_c = lambda_max(H C) that errs upwards, and at
# most so many units of temperature, U = trace(H C), where one codevector is stable for certain.
# T_min = "auto" is a share of the latter. The paper's are multiples of Delta_S d.
ABOVE_FIRST_SPLIT = 1.05
HOTTEST = 1.25
COLDEST = 4e-4
PAPER_HOTTEST, PAPER_COLDEST = 100.0, 0.001
# A ladder that must grow to a given K goes on below T_min, but not below this share of T_max.
COLDEST_TO_GROW = 1e-9


@dataclass(frozen=True)
class Schedule:
    """Every number that decides how a class is annealed.

    Thresholds epsilon_c and epsilon_n are multiples of T, delta of its square root. With
    ``paper`` they are, like T_max and T_min, multiples of Delta_S d instead, the paper's units.
    """

    split: str = "variance"
    T_max: Amount | None = None
    T_min: Amount | None = None
    gamma: Annotated[float, Rule(lambda v: 0 < v < 1, "between 0 and 1")] = 0.9
    K_max: Positive = 100
    K_per_class: Count = 0  # K_max is at least this many for every class
    wanted: Positive | None = None  # go on, below T_min if need be, until there are this many
    growth: Positive = 1  # and on, to this many times as many
    epsilon_c: float = 0.01
    epsilon_n: float = 0.1
    epsilon_r: float = 1e-7
    delta: float = 0.1
    alpha: tuple[float, float] = (1.0, 0.9)
    alpha_min: Amount = 0.0
    samples_per_codevector: Count = 100
    # Whether every cluster is to be found, also where many appear at one temperature: then levels
    # near a transition are longer in many dimensions, and T is held while something is overdue.
    thorough: bool = True
    # In `fit`, where codevectors are to be joined: a level of more takes no more samples than one
    # of so many, and there are more than so many only while they are well placed.
    K_sampled: Positive | None = None
    K_anyway: Positive | None = None
    patience: Positive = 5
    paper: bool = False
    splitting: bool = True
    # How levels learn: a sample at a time, or blocks of them (`annealed.kernels.block`).
    engine: Annotated[str, among("online", "block"), Since("0.2", "online")] = "online"

    def sampled(self, K: int) -> int:
        """As how many codevectors K of them count when a level is told how many samples to take."""
        return K if self.K_sampled is None else min(K, self.K_sampled)

    @property
    def looks_along_axes(self) -> bool:
        """Whether codevectors split by the variance along their axes, in units without scale."""
        return self.split == "variance" and not self.paper

    @property
    def room(self) -> int:
        """The most codevectors there may be on the way.

        Where clusters appear all at once some of them are there twice at first, so on the way to a
        given K there is room for more, whatever K_max.
        """
        if self.wanted is None:
            return self.K_max
        return max(2 * self.wanted + 4, min(self.K_max, self.growth * self.wanted))

    def towards(self, K: int, growth: int = 1) -> Schedule:
        """The same on the way to a given number of codevectors."""
        return replace(self, wanted=K, growth=growth)


def in_paper_units(schedule: Schedule, scale: float) -> Schedule:
    """The paper's "Parameters": everything but gamma and epsilon_r in multiples of Delta_S d."""
    return replace(
        schedule,
        T_max=PAPER_HOTTEST * scale if schedule.T_max is None else schedule.T_max,
        T_min=PAPER_COLDEST * scale if schedule.T_min is None else schedule.T_min,
        epsilon_c=schedule.epsilon_c * scale,
        epsilon_n=schedule.epsilon_n * scale,
        delta=schedule.delta * scale,
    )
