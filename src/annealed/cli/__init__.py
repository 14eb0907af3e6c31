"""The command line: reads arguments, calls the library, prints. Nothing else in annealed prints.

One module for each command, and importing it makes the command known. It holds the arguments and
their checks and imports nothing slow: `--help` and a mistake in the arguments are answered at once.
What a command does is in a module named after that (fit: training, predict: predicting, ...), which
the command imports once its arguments are accepted.
"""

from annealed.cli import (
    datasets,
    evaluate,
    fit,
    inspect,
    merge,
    predict,
    report,
    reproduce,
    stream,
)
from annealed.cli.application import app, main

__all__ = [
    "app",
    "datasets",
    "evaluate",
    "fit",
    "inspect",
    "main",
    "merge",
    "predict",
    "report",
    "reproduce",
    "stream",
]
