"""What follows a level: another round at its temperature, the next one down, or the end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from annealed.annealing import codebook
from annealed.annealing.class_annealer import CLOSING, FINAL, SETTLING, ClassAnnealer, ClassLevel
from annealed.annealing.level_length import well_placed
from annealed.annealing.schedule import COLDEST_TO_GROW

if TYPE_CHECKING:
    from annealed.annealing.annealer import Annealer

Integers = NDArray[np.int64]

# T is held for this share of the codevectors or more: fewer will find their place on the next
# level, and a round costs samples for all.
WORTH_HOLDING = 0.05
# Below this share of the variance within it a cell has begun to split: at the whole of it where the
# variance is the same in all directions, else before.
SPLIT_BY_THEN = 0.6
# A ladder to a given K grows so many times as many where more than K are asked for.
GROWN_PAST = 2
# And ends when associations are hard, H(Q|X) at most this many nats; each of its last levels has
# this share of the temperature of the one before.
HARD = 0.05
CLOSING_SHARE = {"online": 0.75, "block": 0.36}


def end_level(annealer: Annealer, state: ClassAnnealer) -> None:
    """Close the level that a class has converged on, and begin what follows."""
    schedule, rung = annealer.schedule, state.rung
    assert rung is not None
    if state.run.count >= state.run_settings["at_most"]:
        annealer.unconverged.append((state.temperature, int(state.run.count)))
    level, together = state.close(schedule)
    K = len(level.book)
    others = sum(other.size(rung) for other in annealer.classes if other is not state)
    if others + K > annealer.K_max:
        _end(annealer, state, rung - 1, state.temperature)
        return
    overdue = _overdue(annealer, state, level, together, others)
    if len(overdue):
        T = annealer.temperature(rung)
        state.held = K
        state.begin(state.divided(level.book, overdue, rung, T), rung, T, schedule)
        return
    T = annealer.temperature(rung + 1)
    unstable = state.unstable(level.book, T, T, schedule)
    if _too_fine_to_join(annealer, state, level):
        schedule = annealer.schedule = replace(schedule, growth=1)
    if _has_grown(annealer, state, level, unstable):
        _close_given_K(annealer, state, level, unstable)
        return
    state.keep(rung, level)
    more = _still_to_grow(annealer, level) or _still_coarse(annealer, state, level)
    if rung >= annealer.last_rung and more:
        annealer.last_rung = rung + 1
    allowed = _allowed(annealer, unstable, others + K)
    full = _is_full(annealer, K, len(unstable)) or _finer_than_known(annealer, state, level)
    if rung >= annealer.last_rung or full or len(allowed) < min(len(unstable), 1):
        _end_here(annealer, state, level, unstable)
    else:
        state.held = state.fixed = 0
        state.begin(state.divided(level.book, allowed, rung + 1, T), rung + 1, T, schedule)


def _overdue(
    annealer: Annealer, state: ClassAnnealer, level: ClassLevel, together: set[int], others: int
) -> Integers:
    """What is unstable at this temperature and should have split on the level before.

    Where clusters are many and dimensions too, all of them want to appear at nearly one
    temperature: the halves of an unstable codevector are more unstable than it was. Cooling on
    after one split would leave them behind, so T is held. What has just come together again is
    left alone.
    """
    schedule, T, K = annealer.schedule, state.temperature, len(level.book)
    fresh = K > state.held and state.rung != state.first_rung  # where there is one codevector
    thorough = schedule.thorough and schedule.looks_along_axes
    if not thorough or state.fixed or not fresh:
        return np.empty(0, dtype=np.int64)
    # The largest of K standard errors that chance makes is about sqrt(2 log K).
    errors = max(math.sqrt(2 * math.log(K)), 1.0)
    overdue = state.unstable(level.book, T, T / schedule.gamma, schedule, errors)
    again = np.isin(level.book.node[overdue], list(together))
    overdue = _allowed(annealer, overdue[~again], others + K)
    return overdue if len(overdue) >= WORTH_HOLDING * K else overdue[:0]


def _allowed(annealer: Annealer, unstable: Integers, K: int) -> Integers:
    """Which of the unstable codevectors may split, hottest first, when there are K.

    All or none, but of those on the way to a given number as many as there is room for.
    """
    room = max(annealer.K_max - K, 0)
    if annealer.schedule.wanted is None and len(unstable) > room:
        return unstable[:0]
    return unstable[:room]


def _end_here(
    annealer: Annealer, state: ClassAnnealer, level: ClassLevel, unstable: Integers
) -> None:
    """The level a class has just finished is the last of the ladder."""
    assert state.rung is not None
    below = annealer.temperature(state.rung + 1)
    hottest = float(np.nanmax(level.book.critical[unstable], initial=below))
    _end(annealer, state, state.rung, min(hottest, state.temperature))


def _end(annealer: Annealer, state: ClassAnnealer, rung: int, temperature: float) -> None:
    """End the ladder, or go back up it to a given K."""
    schedule = annealer.schedule
    beyond = schedule.wanted is not None and schedule.growth > 1 and schedule.looks_along_axes
    if beyond and annealer.choose is not None and annealer.choose.prefers_round(annealer):
        annealer.schedule = replace(schedule, growth=1)
        if _back_to_given_K(annealer, state):
            return
    annealer.end_ladder(rung, temperature)


def _still_coarse(annealer: Annealer, state: ClassAnnealer, level: ClassLevel) -> bool:
    """Whether cells have not begun to split at T, as they would at a colder one.

    The end of a ladder is a share of the variance of all samples. What is in groups far apart, or
    beside a single sample far out, has a variance below that: its own splits are still to come.
    """
    schedule = annealer.schedule
    whole = schedule.thorough and schedule.looks_along_axes
    if not whole or schedule.T_min is not None or schedule.wanted is not None:
        return False
    assert annealer.top is not None
    scatter = 2 * level.distortion / state.dimensions  # the mean eigenvalue of H C within a cell
    hottest = float(state.unstable_below(level.book).max())
    coarse = state.temperature > SPLIT_BY_THEN * scatter
    return coarse and hottest > COLDEST_TO_GROW * annealer.top


def _finer_than_known(annealer: Annealer, state: ClassAnnealer, level: ClassLevel) -> bool:
    """Whether codevectors that are there to be joined are so many that chance places them."""
    enough, K = annealer.schedule.K_anyway, len(level.book)
    if enough is None or state.rows is None or K < enough:
        return False
    return not well_placed(level.distortion, state.rows / K, state.temperature)


def _too_fine_to_join(annealer: Annealer, state: ClassAnnealer, level: ClassLevel) -> bool:
    """Whether a given K, just reached, is as fine as codevectors can be placed.

    Their halves, from which clusters would be joined, appear at the hottest critical temperature.
    """
    schedule, K, choose = annealer.schedule, len(level.book), annealer.choose
    if schedule.wanted is None or schedule.growth == 1 or K < schedule.wanted:
        return False
    if state.rows is None or choose is None or not choose.may_be_round:
        return False
    hottest = float(state.unstable_below(level.book).max())
    return not well_placed(level.distortion, state.rows / (2 * K), hottest)


# -- on the way to a given K --------------------------------------------------------------------


def _is_full(annealer: Annealer, K: int, unstable: int) -> bool:
    """Whether K codevectors are as many as there may be on the way to a given number.

    Where that is no more than twice as many, those that would split next are as good as there.
    """
    schedule = annealer.schedule
    if schedule.wanted is None:
        return False
    if schedule.K_max <= GROWN_PAST * schedule.wanted:
        return K + unstable >= GROWN_PAST * schedule.wanted
    return K >= schedule.room


def _still_to_grow(annealer: Annealer, level: ClassLevel) -> bool:
    """A wanted number of codevectors is not reached, but can be."""
    wanted = annealer.schedule.wanted
    if wanted is None or len(level.book) >= wanted:
        return False
    assert annealer.top is not None
    return bool(np.nanmax(level.book.critical, initial=0.0) > COLDEST_TO_GROW * annealer.top)


def _has_grown(
    annealer: Annealer, state: ClassAnnealer, level: ClassLevel, unstable: Integers
) -> bool:
    """Whether a ladder to a given number of codevectors has come far enough.

    It has where there are as many and nothing asks for more. Where more is asked for, the wanted
    number is one of many along the way, and the first codevectors to split are not the best: half
    as many again are grown, then those joined that lie closest.
    """
    schedule, K = annealer.schedule, len(level.book)
    if schedule.wanted is None or not schedule.looks_along_axes or schedule.growth > 1:
        return False
    if state.fixed:
        return True
    # What is unstable would split next: of the last few no level needs to be waited for.
    enough = K + len(unstable) >= GROWN_PAST * schedule.wanted
    return K >= schedule.wanted and (not len(unstable) or enough)


def _back_to_given_K(annealer: Annealer, state: ClassAnnealer) -> bool:
    """Go back to where the ladder had come far enough for the given K, if it ever had."""
    for rung in sorted(state.levels):
        level, T = state.levels[rung], annealer.temperature(rung + 1)
        unstable = state.unstable(level.book, T, T, annealer.schedule)
        if _has_grown(annealer, state, level, unstable):
            state.levels = {k: level for k, level in state.levels.items() if k < rung}
            state.splits = [split for split in state.splits if split.level <= rung]
            state.rung, state.temperature = rung, annealer.temperature(rung)
            _close_given_K(annealer, state, level, unstable)
            return True
    return False


def _close_given_K(
    annealer: Annealer, state: ClassAnnealer, level: ClassLevel, unstable: Integers
) -> None:
    """Join down to the wanted number and settle; then a few last levels with it.

    Clusters that appear at a temperature far above that of the noise within them are soft there.
    The first of the last levels stands where all of them are still stable; then it gets colder in
    large steps until associations are hard, as whoever asks for K clusters expects them.
    """
    schedule, rung = annealer.schedule, state.rung
    assert rung is not None and schedule.wanted is not None
    if len(level.book) > schedule.wanted:
        state.fixed = SETTLING
        joined = codebook.reduced(level.book, schedule.wanted, annealer.divergence)
        state.begin(joined, rung, state.temperature, schedule)
        return
    state.keep(rung, level)
    hottest = float(state.unstable_below(level.book).max())
    coldest = rung
    if state.fixed not in (CLOSING, FINAL) and hottest > 0:
        coldest = annealer.rung_above(hottest)
    if coldest <= rung and state.fixed != FINAL and level.entropy > HARD:
        coldest = annealer.rung_above(CLOSING_SHARE[state.engine] * state.temperature)
    coldest = min(coldest, annealer.bottom)
    if coldest <= rung and state.fixed == CLOSING and state.engine == "block":
        state.fixed = FINAL
        state.begin(level.book, rung, state.temperature, schedule)
        return
    if coldest <= rung:
        _end_here(annealer, state, level, unstable)
        return
    state.fixed = CLOSING
    state.begin(level.book, coldest, annealer.temperature(coldest), schedule)
    annealer.last_rung = max(annealer.last_rung, coldest)
