"""Which kernel a divergence is measured by, and how much to ask of it at a time."""

from __future__ import annotations

from annealed.divergences import BregmanDivergence
from annealed.kernels.compiled import CompiledKernel
from annealed.kernels.protocol import Kernel
from annealed.kernels.reference import ReferenceKernel

# Multiplications to ask of a kernel in one call, so that Ctrl-C is heard in time.
WORK_PER_CALL = 20_000_000


def kernel_for(divergence: BregmanDivergence) -> Kernel:
    """The compiled kernel where the divergence is compiled, otherwise the NumPy one.

    Making one takes no time worth mentioning: whoever needs it now and then need not keep it.
    """
    if divergence.kernel is None:
        return ReferenceKernel(divergence)
    return CompiledKernel(divergence)
