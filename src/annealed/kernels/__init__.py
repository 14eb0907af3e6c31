"""Kernels: what happens to a codebook when samples arrive, and what it says about samples.

`protocol` says what a kernel is. `compiled` is the C++ one, for the divergences that are built in;
`reference` the NumPy one, for any. `block` learns blocks of samples by matrix products, in whatever
arrays rows come (`array_rows`).
"""

from annealed.kernels.array_rows import ArrayRows, given_back, is_foreign, to_host
from annealed.kernels.block import BlockKernel
from annealed.kernels.choice import WORK_PER_CALL, kernel_for, work_per_call
from annealed.kernels.compiled import (
    CompiledKernel,
    column_ranges,
    measure_level,
)
from annealed.kernels.places import Places
from annealed.kernels.protocol import Kernel
from annealed.kernels.reference import ReferenceKernel
from annealed.kernels.run_owner import RunOwner
from annealed.kernels.shared_rows import SharedRows
from annealed.kernels.sparse_rows import SparseRows, dense, dense_blocks, welcomes_sparse

__all__ = [
    "WORK_PER_CALL", "ArrayRows", "BlockKernel", "CompiledKernel", "Kernel", "Places",
    "ReferenceKernel", "RunOwner", "SharedRows", "SparseRows", "column_ranges", "dense",
    "dense_blocks", "given_back", "is_foreign", "kernel_for", "measure_level", "to_host",
    "welcomes_sparse", "work_per_call",
]  # fmt: skip
