"""The paper's figures and its table, from one command; see `annealed.experiments.runner`."""

from annealed.experiments.runner import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
