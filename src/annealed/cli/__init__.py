"""The command line: reads arguments, calls the library, prints. Nothing else in annealed prints.

One module for each command; importing it is what makes it known.
"""

from annealed.cli import datasets, fit, inspect, predict, report, reproduce, stream
from annealed.cli.application import app, main

__all__ = ["app", "datasets", "fit", "inspect", "main", "predict", "report", "reproduce", "stream"]
