"""scikit-learn estimators over the annealer."""

from annealed.estimators.base import paper_settings
from annealed.estimators.classifier import ODAClassifier
from annealed.estimators.clustering import ODAClustering

__all__ = ["ODAClassifier", "ODAClustering", "paper_settings"]
