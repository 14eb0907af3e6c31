"""Levels learnt a block at a time: with one sample in a block they are the printed rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import COMPILED, divergence_for, rows_for
from test_levels import level_settings, start
from thoroughness import examples

from annealed.kernels import BlockKernel, CompiledKernel, ReferenceKernel
from annealed.kernels.protocol import MEASURES, TURNS

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 11),
    d=st.integers(1, 9),
    log_T=st.floats(-4, 4),
    weighted=st.booleans(),
    roles=st.sampled_from([None, True, False]),
)
def test_a_block_of_one_sample_is_the_online_rule(name, seed, K, d, log_T, weighted, roles):
    d = max(d, 2) if name == "kullback_leibler" else d
    states = []
    for largest in (1, None):
        rng = np.random.default_rng(seed)
        X = rows_for(name, rng, 150, d)
        divergence = divergence_for(name, rng, d)
        inside = X if divergence.matrix is None else X @ divergence.matrix
        T = math.exp(log_T) * divergence.unit(X.mean(axis=0), inside.var(axis=0))
        w = rng.choice([0.0, 0.3, 1.0, 2.5], size=150) if weighted else None
        some = None if roles is None else rng.choice([TURNS, MEASURES, 3], 150).astype(np.uint8)
        kernel = ReferenceKernel(divergence)
        if largest is not None:
            kernel = BlockKernel(CompiledKernel, divergence, largest)
        settings = level_settings(T, K, by_roles=bool(roles), at_least=5)
        run = start(kernel, X, K, rng, settings | {"patience": 10**6})
        assert kernel.learn([run], X, None, None, w, 0, 150, some) == 150
        states.append(kernel.read(run))
    mine, printed = states
    scale = np.abs(printed["mu"]).max()
    alive = printed["r"] > 1e-30
    np.testing.assert_allclose(
        mine["mu"][alive], printed["mu"][alive], rtol=1e-9, atol=1e-9 * scale
    )
    np.testing.assert_allclose(mine["r"], printed["r"], rtol=1e-9, atol=1e-12)
    assert mine["count"] == printed["count"]
    assert mine["streak"] == printed["streak"]
    assert mine["n"] == pytest.approx(printed["n"])
    for name_ in ("weight", "distortion", "entropy"):
        assert mine[name_] == pytest.approx(printed[name_], rel=1e-9, abs=1e-9 * (1 + T))
    for name_ in ("p", "p2", "mass", "spread", "y", "y2", "y4"):
        np.testing.assert_allclose(
            mine[name_], printed[name_], rtol=1e-6, atol=1e-9 * (1 + np.abs(printed[name_]).max())
        )
    np.testing.assert_allclose(
        mine["turned"], printed["turned"], atol=1e-8 * (1e-9 + np.abs(printed["turned"]).max())
    )
