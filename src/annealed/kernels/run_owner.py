"""What classes share that hold a run of a kernel: how it is copied and stored."""

from __future__ import annotations

from typing import Any

from annealed.divergences import BregmanDivergence
from annealed.kernels.choice import kernel_for


class RunOwner:
    """Holds a run, which is neither copied nor stored itself: its state is.

    Whoever derives from it has ``divergence``, ``kernel`` and ``run`` (which may be None), and says
    how a run begins: ``_new_run``.
    """

    divergence: BregmanDivergence
    kernel: Any
    run: Any

    def _new_kernel(self) -> Any:
        return kernel_for(self.divergence)

    def _new_run(self) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["run"] = None if self.run is None else self.run.state()
        del state["kernel"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state["run"]
        self.__dict__.update(state)
        self.kernel = self._new_kernel()
        if saved is not None:
            self.run = self._new_run()
            self.run.restore(saved)
