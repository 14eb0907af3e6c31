"""Online deterministic annealing: clusters and classifiers that grow only as far as the data asks.

After C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.
"""

from annealed import datasets
from annealed.baselines import DeterministicAnnealing, LVQClassifier, StochasticVQ
from annealed.divergences import BregmanDivergence, Mahalanobis
from annealed.drift import DriftDetector
from annealed.estimators import ODAClassifier, ODAClustering, paper_settings
from annealed.path import AnnealingPath
from annealed.persistence import ModelFileError, load, save
from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor

__version__ = "0.1.0"
__all__ = [
    "AnnealingPath",
    "BregmanDivergence",
    "DeterministicAnnealing",
    "DriftDetector",
    "LVQClassifier",
    "Mahalanobis",
    "ModelFileError",
    "ODAClassifier",
    "ODAClustering",
    "StochasticVQ",
    "TablePreprocessor",
    "TabularModel",
    "datasets",
    "load",
    "paper_settings",
    "save",
]
