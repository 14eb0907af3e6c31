"""Bregman divergences: what they are (base), and those that are compiled (built_in)."""

from annealed.divergences.base import (
    LARGEST,
    SMALLEST_UNIT,
    Array,
    BregmanDivergence,
    Geometry,
    check_matrix,
)
from annealed.divergences.built_in import (
    BUILT_IN,
    IDivergence,
    ItakuraSaito,
    KullbackLeibler,
    Logistic,
    Mahalanobis,
    Separable,
    SquaredEuclidean,
    get_divergence,
)

__all__ = [
    "BUILT_IN", "LARGEST", "SMALLEST_UNIT", "Array", "BregmanDivergence", "Geometry",
    "IDivergence", "ItakuraSaito", "KullbackLeibler", "Logistic", "Mahalanobis", "Separable",
    "SquaredEuclidean", "check_matrix", "get_divergence",
]  # fmt: skip
