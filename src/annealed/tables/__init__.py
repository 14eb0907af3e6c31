"""Tables of any make: as columns, as vectors, as files, and the model that learns from them.

`columns` reads them, `preprocessing` turns them into vectors, `model` puts that before an
estimator; `files` are tables on disk and in pipes.
"""

from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor

__all__ = ["TablePreprocessor", "TabularModel"]
