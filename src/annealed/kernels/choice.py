"""Which kernel a divergence is measured by, and how much to ask of it at a time."""

from __future__ import annotations

from annealed.divergences import BregmanDivergence
from annealed.kernels.block import BlockKernel
from annealed.kernels.compiled import CompiledKernel
from annealed.kernels.protocol import Kernel
from annealed.kernels.reference import ReferenceKernel

# Multiplications to ask of a kernel in one call, a tenth of a second: Ctrl-C is heard in time.
WORK_PER_CALL = 100_000_000
# Of blocks, which hear it themselves between one chunk and the next: enough to keep threads busy.
WORK_PER_CALL_OF_BLOCKS = 10_000_000_000


def work_per_call(engine: str) -> int:
    """Multiplications to ask of the levels of an engine in one call."""
    return WORK_PER_CALL_OF_BLOCKS if engine == "block" else WORK_PER_CALL


def kernel_for(divergence: BregmanDivergence, engine: str = "online") -> Kernel:
    """The compiled kernel where the divergence is compiled, otherwise the NumPy one.

    With the engine "block" levels learn blocks of samples; the rest is theirs. Making one takes no
    time worth mentioning: whoever needs it now and then need not keep it.
    """
    make = ReferenceKernel if divergence.kernel is None else CompiledKernel
    return BlockKernel(make, divergence) if engine == "block" else make(divergence)
