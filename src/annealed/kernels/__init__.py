"""Kernels: what happens to a codebook when samples arrive, and what it says about samples.

`protocol` says what a kernel is. `compiled` is the C++ one, for the divergences that are built in;
`reference` the NumPy one, for any.
"""

from __future__ import annotations

from annealed.divergences import BregmanDivergence
from annealed.kernels.compiled import CompiledKernel
from annealed.kernels.protocol import Kernel
from annealed.kernels.reference import ReferenceKernel


def kernel_for(divergence: BregmanDivergence) -> Kernel:
    """The compiled kernel where the divergence is compiled, otherwise the NumPy one.

    Making one takes no time worth mentioning: whoever needs it now and then need not keep it.
    """
    if divergence.kernel is None:
        return ReferenceKernel(divergence)
    return CompiledKernel(divergence)


__all__ = ["CompiledKernel", "Kernel", "ReferenceKernel", "kernel_for"]
