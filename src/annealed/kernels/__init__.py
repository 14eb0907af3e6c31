"""Kernels: what happens to a codebook when samples arrive, and what it says about samples.

`protocol` says what a kernel is. `compiled` is the C++ one, for the divergences that are built in;
`reference` the NumPy one, for any.
"""

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


__all__ = ["WORK_PER_CALL", "CompiledKernel", "Kernel", "ReferenceKernel", "kernel_for"]
