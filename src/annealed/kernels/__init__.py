"""Kernels: what happens to a codebook when samples arrive, and what it says about samples.

A kernel is a module with ``begin``/``learn`` (a level advances in place, sample by sample) and
``associate`` (and its cheaper relatives, which only read); ``begin_winner``/``compete`` do for
winner-takes-all learning what the first two do for a level. `online` is the compiled one,
`reference` the NumPy one that also runs divergences made by users.
"""

from __future__ import annotations

from types import ModuleType

from annealed.divergences import BregmanDivergence
from annealed.kernels import online, reference


def kernel_for(divergence: BregmanDivergence) -> ModuleType:
    """The compiled kernel where the divergence is compiled, otherwise the NumPy one."""
    return reference if divergence.kernel is None else online


__all__ = ["kernel_for", "online", "reference"]
