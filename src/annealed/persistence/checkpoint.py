"""A model file that a stream goes on writing to."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from annealed.divergences import BregmanDivergence
from annealed.persistence.locking import Lock, check_writable, remove_leftovers
from annealed.persistence.models import read_model, write_model


class Checkpoint:
    """One model file that belongs to this process while it is open.

    Opening it raises OSError if another process has it open, or if nothing could be written there,
    before any data is consumed. What is saved replaces what was there, whole or not at all, so
    that after a crash at any moment the file holds the last state that was saved. A checkpoint is
    an ordinary model file: `annealed.load` opens it.

    Parameters
    ----------
    path : str or path-like

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from annealed import ODAClustering, load
    >>> from annealed.persistence import Checkpoint
    >>> rows = np.random.default_rng(0).normal(size=(500, 2))
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "stream.oda")
    >>> with Checkpoint(path) as checkpoint:
    ...     model, consumed = ODAClustering(random_state=0), 0
    ...     found = checkpoint.load()
    ...     if found is not None:
    ...         model, consumed = found[0], found[1]["consumed"]
    ...     checkpoint.save(model.partial_fit(rows), consumed=consumed + len(rows))
    >>> with Checkpoint(path) as checkpoint:
    ...     checkpoint.load()[1]
    {'consumed': 500}
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock(self.path)

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            remove_leftovers(self.path)
            check_writable(self.path)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def load(
        self, divergence: BregmanDivergence | None = None
    ) -> tuple[Any, dict[str, Any]] | None:
        """The model last saved and what was saved with it; None if there is no file yet.

        Parameters
        ----------
        divergence : BregmanDivergence, optional
            As in `annealed.load`.
        """
        if not self.path.exists():
            return None
        return read_model(self.path, divergence)

    def save(self, model: Any, **extra: Any) -> None:
        """Replace what was saved before.

        Parameters
        ----------
        model : estimator
        **extra : numbers, text, None, lists and dicts of them
            What is needed to go on from here: how many samples were consumed, for example.
        """
        if not self._lock.held:
            raise ValueError("this checkpoint is not open: use it in a with statement")
        write_model(model, self.path, extra)
