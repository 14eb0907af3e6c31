"""The block engine: levels learn blocks of samples by matrix products, wherever their rows lie.

`sums` is all of its mathematics that touches rows; `level` a temperature level; `dual` what is
asked of a divergence.
"""

from annealed.kernels.block.kernel import BlockKernel

__all__ = ["BlockKernel"]
