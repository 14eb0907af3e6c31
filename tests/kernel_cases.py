"""What tests of kernels share: both of them, every divergence, and rows that each can measure."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np

from annealed.divergences import BregmanDivergence, Mahalanobis, get_divergence
from annealed.kernels import CompiledKernel, ReferenceKernel

KERNELS = CompiledKernel, ReferenceKernel
COMPILED = ["squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito", "logistic"]
# Burg entropy once more, as a user would write it: only positive rows, no Hessian given.
BURG = BregmanDivergence(
    phi=lambda x: -np.log(x).sum(axis=1), gradient=lambda x: -1 / x, domain=(0, np.inf), name="burg"
)


def runnable_cores() -> list[ModuleType]:
    """The builds of the core that this machine can run, the plainest first."""
    baseline = import_module("annealed.kernels._core_baseline")
    cores = [baseline]
    if baseline.cpu_has_avx2():
        cores.append(import_module("annealed.kernels._core_avx2"))
    if baseline.cpu_has_avx512():
        cores.append(import_module("annealed.kernels._core_avx512"))
    return cores


def rows_for(name, rng, n, d):
    """Rows inside the domain; a few on its boundary where the divergence welcomes them."""
    if name in ("squared_euclidean", "mahalanobis"):
        return rng.normal(size=(n, d))
    if name == "logistic":
        rows = rng.uniform(size=(n, d))
        return np.where(rng.uniform(size=(n, d)) < 0.1, np.round(rows), rows)
    if name == "kullback_leibler":
        rows = rng.gamma(1.0, size=(n, d)) * (rng.uniform(size=(n, d)) > 0.1) + 1e-3
        return rows / rows.sum(axis=1, keepdims=True)
    if name == "i_divergence":
        return rng.poisson(3.0, size=(n, d)).astype(float)
    return rng.gamma(2.0, size=(n, d)) + 1e-3


def divergence_for(name, rng, d):
    if name != "mahalanobis":
        return get_divergence(name)
    root = rng.normal(size=(d, d))
    return Mahalanobis(root @ root.T + np.eye(d))
