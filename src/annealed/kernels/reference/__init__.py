"""The paper's learning rule as it is printed, in NumPy, one sample at a time.

It is the oracle the compiled kernel is tested against, and the engine for divergences that users
make. Every header in cpp/ with a formula has its literal twin here, of the same name.
"""

from annealed.kernels.reference.kernel import ReferenceKernel

__all__ = ["ReferenceKernel"]
