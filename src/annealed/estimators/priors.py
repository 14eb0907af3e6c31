"""How likely the classes are taken to be: as they were seen, as given, or weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from annealed.divergences import Array
from annealed.estimators.codevectors import names_of


@dataclass(frozen=True, eq=False)
class ClassPriors:
    """What the parameters ``priors`` and ``class_weight`` say about the classes.

    classes : all classes, in order
    """

    classes: NDArray[Any]
    priors: ArrayLike | None
    class_weight: Mapping[Any, float] | str | None

    @property
    def as_seen(self) -> bool:
        """Whether classes are as likely as they were seen to be."""
        return self.priors is None and self.class_weight is None

    def log(self, labels: Sequence[Any], weight: Array) -> Array:
        """Log probability of some classes, of whose samples so much weight was seen."""
        if isinstance(self.class_weight, str):  # "balanced"
            weight = np.ones_like(weight)
        if self.priors is not None:
            place = np.searchsorted(self.classes, np.array(labels))
            weight = np.asarray(self.priors, dtype=float)[place]
        if isinstance(self.class_weight, Mapping):
            weight = weight * [self.class_weight.get(label, 1.0) for label in labels]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weight / weight.sum()))

    def check(self) -> None:
        """Raise ValueError if priors or class weights do not fit the classes."""
        if self.priors is not None:
            try:
                priors = np.asarray(self.priors, dtype=float)
            except (TypeError, ValueError):
                raise ValueError(
                    f"priors must be probabilities of the classes "
                    f"{names_of(self.classes.tolist())}, in this order, got {self.priors!r}; "
                    "factors by label go into class_weight"
                ) from None
            if priors.shape != (len(self.classes),):
                raise ValueError(
                    f"priors must have one entry for each of the {len(self.classes)} classes, got "
                    f"shape {priors.shape}"
                )
            if not np.isfinite(priors).all() or (priors < 0).any() or not priors.any():
                raise ValueError(f"priors must be non-negative and not all zero, got {priors}")
        given = self.class_weight
        if given is None or (isinstance(given, str) and given == "balanced"):
            return
        if not isinstance(given, Mapping):
            raise ValueError(
                f"class_weight must be a dict {{label: factor}}, 'balanced' or None, got {given!r}"
            )
        unknown = [label for label in given if label not in self.classes]
        if unknown:
            raise ValueError(
                f"class_weight names {names_of(unknown)}, but the classes are "
                f"{names_of(self.classes.tolist())}"
            )
        if any(not 0 <= factor < np.inf for factor in given.values()):
            raise ValueError(f"class_weight must hold finite non-negative factors, got {given!r}")
