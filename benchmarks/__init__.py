"""Benchmarks: every comparison in one run, on one core.

Run them with ``python -m benchmarks`` (all) or ``python -m benchmarks speed quality`` (some);
``--quick`` takes fewer seeds and shorter timings, to see that everything works. `quality` reads
some of its data sets from the folder that the environment variable ``ANNEALED_DATA`` names, and
takes ``--sets pima,wine`` (only these) and ``--folder DIR`` (also NPZ files with X and y there);
`cluster` takes ``--gigabytes 5``.

Importing this package binds the process, and every process it starts, to one core and one thread.
That has to happen before NumPy is imported, hence here. `threads` and `cluster` let themselves
loose again.
"""

from __future__ import annotations

import os

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
):
    os.environ[_variable] = "1"
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
if CORES:
    os.sched_setaffinity(0, {max(CORES)})
