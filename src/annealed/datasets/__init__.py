"""The data sets of the paper, and a few beside them, each by its name.

`load` generates a set, takes it from scikit-learn, reads it from a folder of yours or asks OpenML,
in this order. `available` says what is here and how to get the rest, `at_prevalence` draws a sample
in which the positive class is as rare as it is in the world.
"""

from annealed.datasets.loading import Availability, available, load
from annealed.datasets.sampling import at_prevalence

__all__ = ["Availability", "at_prevalence", "available", "load"]
