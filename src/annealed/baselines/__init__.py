"""The algorithms the paper compares with, as estimators on the same kernels."""

from annealed.baselines.deterministic_annealing import DeterministicAnnealing
from annealed.baselines.lvq import LVQClassifier
from annealed.baselines.stochastic_vq import StochasticVQ

__all__ = ["DeterministicAnnealing", "LVQClassifier", "StochasticVQ"]
