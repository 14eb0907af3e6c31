"""Pictures of an annealing. They need matplotlib: ``pip install 'annealed[plot]'``."""

from annealed.plots.bifurcation import BifurcationDisplay
from annealed.plots.codebook import CodebookDisplay
from annealed.plots.codevectors import CodevectorDisplay
from annealed.plots.tradeoff import TradeoffDisplay
from annealed.plots.tree import SplitTreeDisplay

__all__ = [
    "BifurcationDisplay",
    "CodebookDisplay",
    "CodevectorDisplay",
    "SplitTreeDisplay",
    "TradeoffDisplay",
]
