"""Online deterministic annealing: clusters and classifiers that grow only as far as the data asks.

After C. N. Mavridis and J. S. Baras, "Online Deterministic Annealing for Classification and
Clustering", IEEE Transactions on Neural Networks and Learning Systems, 2022.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from annealed import datasets
    from annealed.baselines import DeterministicAnnealing, LVQClassifier, StochasticVQ
    from annealed.divergences import BregmanDivergence, Mahalanobis
    from annealed.drift import DriftDetector
    from annealed.estimators import ODAClassifier, ODAClustering, paper_settings
    from annealed.path import AnnealingPath
    from annealed.persistence import ModelFileError, load, save
    from annealed.tables.model import TabularModel
    from annealed.tables.preprocessing import TablePreprocessor
else:
    # The same to Python, which imports what is asked for when it is first asked for: scikit-learn
    # and NumPy take a second or two, and `annealed --help` can do without.
    _NAMES_IN = {
        "baselines": ("DeterministicAnnealing", "LVQClassifier", "StochasticVQ"),
        "datasets": (),
        "divergences": ("BregmanDivergence", "Mahalanobis"),
        "drift": ("DriftDetector",),
        "estimators": ("ODAClassifier", "ODAClustering", "paper_settings"),
        "path": ("AnnealingPath",),
        "persistence": ("ModelFileError", "load", "save"),
        "tables": ("TablePreprocessor", "TabularModel"),
    }

    def __getattr__(name: str) -> Any:
        if name in _NAMES_IN:
            return import_module(f"annealed.{name}")
        for module, names in _NAMES_IN.items():
            if name in names:
                found = getattr(import_module(f"annealed.{module}"), name)
                globals()[name] = found  # from now on it is found without this function
                return found
        raise AttributeError(f"module 'annealed' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_NAMES_IN})
