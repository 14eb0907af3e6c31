"""Pictures of an annealing. They need matplotlib: ``pip install 'annealed[plot]'``."""

from annealed.plots.bifurcation import BifurcationDisplay

__all__ = ["BifurcationDisplay"]
