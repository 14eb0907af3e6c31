"""The algorithms the paper compares with, as estimators on the same kernels."""

from annealed.baselines.lvq import LVQClassifier
from annealed.baselines.stochastic_vq import StochasticVQ

__all__ = ["LVQClassifier", "StochasticVQ"]
