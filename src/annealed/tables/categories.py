"""The texts of one column as indicators: a place for each category, and how much they weigh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from annealed.tables.columns import Codes, Column, Floats

# Beyond the limit on categories one needs a place of its own only if it is this common.
LEAST_SHARE = 0.001


class Categories:
    """The categories of a column, each with its indicator.

    A missing cell (None) is a category like others. Those that have no place share the indicator
    "other", or, where there is none, have all indicators zero.

    All indicators are scaled alike so that together they have variance one, as a standardised
    number has: with shares p_k their variance is 1 - sum_k p_k^2. Of two categories this makes
    exactly a standardised number.

    Parameters
    ----------
    labels : sequence of str or None
        Categories in the order of their indicators.
    room : int
        How many there may be; new ones take what is left as they appear.
    other : bool
        Whether there is an indicator for all others.
    counts : ndarray of shape (room + other,), optional
        How often each was seen.
    unseen : int
        How many cells had no indicator at all.
    """

    def __init__(
        self,
        labels: Sequence[str | None],
        room: int,
        other: bool,
        counts: Codes | None = None,
        unseen: int = 0,
    ) -> None:
        self.labels, self.room, self.other, self.unseen = list(labels), room, other, unseen
        self.place = {label: k for k, label in enumerate(self.labels)}
        self.counts = np.zeros(self.width, dtype=np.int64) if counts is None else counts

    @classmethod
    def learnt(cls, column: Column, most: int) -> Self:
        """The categories of a whole column: all of them, or the most frequent ones."""
        counts = np.bincount(column.values + 1, minlength=len(column.labels) + 1)
        found: list[tuple[str | None, int]] = [
            (label, int(n)) for label, n in zip(column.labels, counts[1:], strict=True) if n
        ]
        if counts[0]:
            found.append((None, int(counts[0])))
        rare = len(found) > most
        if rare:
            least = max(2.0, LEAST_SHARE * len(column.values))
            found = sorted(found, key=lambda pair: (-pair[1], pair[0] is None, pair[0] or ""))
            found = [pair for pair in found[:most] if pair[1] >= least]
        labels = sorted((label for label, _ in found), key=lambda label: (label is None, label))
        return cls(labels, len(labels), rare)

    @classmethod
    def merged(cls, parts: Sequence[Categories], most: int) -> Self:
        """The categories of one column that several have learnt, each its own part of the rows.

        Where there are too many, the most frequent keep a place. One that had none of its own in a
        part stays among the others of that part.
        """
        seen: dict[str | None, int] = {}
        for part in parts:
            for label, count in zip(part.labels, part.counts.tolist(), strict=False):
                seen[label] = seen.get(label, 0) + count
        room = max(*(part.room for part in parts), min(len(seen), most))
        often = set(sorted(seen, key=lambda label: -seen[label])[:room])
        labels = [label for label in seen if label in often]
        other = len(labels) < len(seen) or any(part.other for part in parts)
        merged = cls(labels, room, other, unseen=sum(part.unseen for part in parts))
        for part in parts:
            places = merged.places_from(part)
            known = places >= 0
            np.add.at(merged.counts, places[known], part.counts[known])
        return merged

    def places_from(self, part: Categories) -> Codes:
        """Where each indicator of a part of the rows is here; -1 for one that nothing has taken."""
        unused = [-1] * (part.room - len(part.labels))
        places = [*map(self.place_of, part.labels), *unused]
        return np.array([*places, self.room] if part.other else places, dtype=np.int64)

    def copy(self) -> Categories:
        """A twin that can go on by itself."""
        return Categories(self.labels, self.room, self.other, self.counts.copy(), self.unseen)

    @property
    def width(self) -> int:
        """Number of indicators."""
        return self.room + self.other

    @property
    def total(self) -> int:
        """Cells seen that have an indicator."""
        return int(self.counts.sum())

    @property
    def scale(self) -> float:
        """What every indicator is multiplied with, 1 while there is one category only."""
        total, counts = self.total, self.counts
        if total >= 2**31:  # the sum of squares might be more than 64 bits hold
            counts = counts.astype(object)
        variety = total**2 - int((counts * counts).sum())
        return total / math.sqrt(variety) if variety > 0 else 1.0

    def names(self, column: str) -> list[str]:
        """A name for every indicator."""
        names = [f"{column} missing" if k is None else f"{column}={k}" for k in self.labels]
        names += [f"{column} unused {k}" for k in range(len(self.labels), self.room)]
        return [*names, f"{column} other"] if self.other else names

    # -- reading and learning ------------------------------------------------------------------

    def place_of(self, label: str | None, *, learn: bool = False) -> int:
        """The indicator of a category, -1 if it has none; learning, a new one may take a place."""
        place = self.place.get(label)
        if place is not None:
            return place
        if learn and len(self.labels) < self.room:
            self.place[label] = len(self.labels)
            self.labels.append(label)
            return self.place[label]
        return self.room if self.other else -1

    def places(self, column: Column, *, learn: bool = False) -> Codes:
        """The indicator of every cell. New categories are met in the order of their rows."""
        codes, first = np.unique(column.values, return_index=True)
        found = np.full(len(column.labels) + 1, -1, dtype=np.int64)  # the last for -1, missing
        for code in codes[np.argsort(first)]:
            label = None if code < 0 else column.labels[code]
            found[code] = self.place_of(label, learn=learn)
        places: Codes = found[column.values]
        return places

    def learn(self, places: Codes) -> None:
        """Count cells by their indicators."""
        seen = places[places >= 0]
        self.counts = self.counts + np.bincount(seen, minlength=self.width)
        self.unseen += len(places) - len(seen)

    def indicators(self, places: Codes, scale: float | Floats = 1.0) -> Floats:
        """A row of indicators for every cell, one of them ``scale``, the others zero."""
        result = np.zeros((len(places), self.width))
        rows = np.flatnonzero(places >= 0)
        result[rows, places[rows]] = np.broadcast_to(scale, len(places))[rows]
        return result

    def running_scale(self, places: Codes) -> Floats:
        """Learn cells one after the other; the scale after each.

        In whole numbers, so that no cut of the stream into calls can be seen: sum_k n_k^2 grows by
        2 n_k + 1 with a cell of category k.
        """
        known = places >= 0
        before = self.counts[places] + _rank(places)
        squares = np.where(known, 2 * before + 1, 0).cumsum() + int((self.counts**2).sum())
        total = known.cumsum() + self.total
        variety = total * total - squares
        self.learn(places)
        safe = np.maximum(variety, 1)
        return np.where(variety > 0, total / np.sqrt(safe), 1.0)

    # -- state ---------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything but the counts, as plain values."""
        return {
            "labels": list(self.labels), "room": self.room, "other": self.other,
            "unseen": self.unseen,
        }  # fmt: skip


def _rank(places: Codes) -> NDArray[np.int64]:
    """For every cell, how many before it have the same place."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(places)])
    rank = np.empty(len(places), dtype=np.int64)
    rank[order] = np.arange(len(places)) - np.repeat(starts, sizes)
    return rank
