"""The compiled kernel is the printed rule: equal to the NumPy reference in every respect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from annealed.divergences import Mahalanobis, get_divergence
from annealed.kernels import CompiledKernel, ReferenceKernel
from annealed.kernels.reference.level import step_size

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality

KERNELS = CompiledKernel, ReferenceKernel
COMPILED = ["squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito", "logistic"]


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


def level_settings(T, n, **changes):
    base = {
        "T": T, "small_step": 0.01 * T, "a": 1.0, "b": 0.9, "alpha_min": 0.0, "n": float(n),
        "first_axis": 20, "second_axis": 40, "at_least": 10**9, "at_most": 10**9, "patience": 5,
    }  # fmt: skip
    return base | changes


def start(kernel, X, K, rng, settings_):
    low, high = kernel.divergence.bounds(X.mean(axis=0))
    # No two in one place: below the critical temperature nothing but rounding would part them.
    rows = X[rng.choice(len(X), K, replace=False)]
    mu = np.clip(rows * 0.5 + X.mean(axis=0) * 0.5, low, high)
    rho = rng.dirichlet(np.ones(K))
    axis = rng.normal(size=mu.shape)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    return kernel.begin_level(mu, rho, axis, settings_, low, high)


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 11),
    d=st.integers(1, 9),
    log_T=st.floats(-4, 4),
    weighted=st.booleans(),
    single=st.booleans(),
)
def test_a_level_equals_the_reference(name, seed, K, d, log_T, weighted, single):
    d = max(d, 2) if name == "kullback_leibler" else d
    states = []
    for made in KERNELS:
        rng = np.random.default_rng(seed)
        X = rows_for(name, rng, 150, d)
        if single and name != "kullback_leibler":
            X = X.astype(np.float32)
        divergence = divergence_for(name, rng, d)
        inside = X if divergence.matrix is None else X @ divergence.matrix
        T = math.exp(log_T) * divergence.unit(
            X.mean(axis=0, dtype=float), inside.var(axis=0, dtype=float)
        )
        w = rng.choice([0.0, 0.3, 1.0, 2.5], size=150) if weighted else None
        kernel = made(divergence)
        run = start(kernel, X, K, rng, level_settings(T, K))
        assert kernel.learn([run], X, None, None, w, 0, 150) == 150
        states.append(kernel.read(run))
    mine, printed = states
    scale = np.abs(printed["mu"]).max()
    # Weights of 1e-300 underflow differently; such codevectors are idle by any measure.
    alive = printed["r"] > 1e-30
    np.testing.assert_allclose(
        mine["mu"][alive], printed["mu"][alive], rtol=1e-9, atol=1e-9 * scale
    )
    np.testing.assert_allclose(mine["r"] * mine["g"], printed["r"], rtol=1e-9, atol=1e-12)
    assert mine["count"] == printed["count"]
    assert mine["streak"] == printed["streak"]
    assert mine["n"] == pytest.approx(printed["n"])
    for name_ in ("weight", "distortion", "entropy"):
        assert mine[name_] == pytest.approx(printed[name_], rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(mine["p"], printed["p"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mine["y2"], printed["y2"], rtol=1e-6, atol=1e-6 * (1 + T))


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(15)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(1, 9), d=st.integers(1, 9))
def test_reading_equals_the_reference(name, seed, K, d):
    d = max(d, 2) if name == "kullback_leibler" else d
    rng = np.random.default_rng(seed)
    X = rows_for(name, rng, 40, d)
    divergence = divergence_for(name, rng, d)
    low, high = divergence.bounds(X.mean(axis=0))
    mu = np.clip(rows_for(name, rng, K, d), low, high)
    log_weight = np.log(rng.dirichlet(np.ones(K)))
    group = rng.integers(3, size=K)
    w = rng.uniform(0, 2, size=40)
    compiled, reference = (made(divergence) for made in KERNELS)
    for T in (0.0, 0.1, 10.0):
        mine = compiled.associate(X, mu, log_weight, T, group, 3)
        printed = reference.associate(X, mu, log_weight, T, group, 3)
        for one, other in zip(mine, printed, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
        np.testing.assert_array_equal(
            compiled.assign(X, mu, log_weight, T), reference.assign(X, mu, log_weight, T)
        )
    np.testing.assert_allclose(
        compiled.divergences(X, mu), divergence.pairwise(X, mu), rtol=1e-8, atol=1e-9
    )
    mine, printed = (kernel.hard_sums(X, mu, w) for kernel in (compiled, reference))
    for one, other in zip(mine, printed, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("w", [0.25, 0.5, 2.0, 3.7, 40.0])
def test_a_weight_is_worth_that_many_presentations(w):
    """Over whole weights the frozen step is the product of the single ones."""
    for n in (0.0, 7.0, 1e3, 1e7):
        settings_ = level_settings(1.0, n)
        alpha = step_size(settings_, n, w) if n < 1e6 else None
        d, rng = 3, np.random.default_rng(0)
        kernel = CompiledKernel(get_divergence("squared_euclidean"))
        X = rng.normal(size=(1, d))
        free = np.full(d, -np.inf), np.full(d, np.inf)
        run = kernel.begin_level(np.zeros((1, d)), np.ones(1), np.ones((1, d)), settings_, *free)
        kernel.learn([run], X, None, None, np.array([w]), 0, 1)
        moved = (run.state()["mu"] / X)[0, 0]  # with one codevector the step is alpha itself
        if alpha is not None:
            assert moved == pytest.approx(alpha, rel=1e-6)
        if w == int(w):
            kept = math.prod(1 - 1 / (1 + 0.9 * (n + k)) for k in range(1, int(w) + 1))
            assert moved == pytest.approx(1 - kept, rel=1e-7)


def test_a_codevector_without_weight_near_the_sample_does_no_harm():
    """The nearest codevector may have faded to nothing: associations stay finite."""
    mu = np.array([[0.0], [100.0]])
    for made in KERNELS:
        kernel = made(get_divergence("squared_euclidean"))
        run = kernel.begin_level(
            mu, np.array([1e-305, 1.0]), np.ones((2, 1)),
            level_settings(1.0, 2), np.array([-np.inf]), np.array([np.inf]),
        )  # fmt: skip
        kernel.learn([run], np.zeros((5, 1)), None, None, None, 0, 5)
        state = run.state()
        assert np.isfinite(state["mu"]).all()
        assert (state["r"] * state["g"]).sum() == pytest.approx(1.0, abs=1e-6)


def test_data_far_from_the_origin_keeps_its_digits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    results = []
    for offset in (0.0, 1e6):
        free = np.full(4, -np.inf), np.full(4, np.inf)
        run = kernel.begin_level(
            X[:6] + offset,
            np.full(6, 1 / 6),
            np.eye(6, 4) + 0.1,
            level_settings(0.5, 6),
            *free,
        )
        kernel.learn([run], X + offset, None, None, None, 0, 400)
        results.append(run.state()["mu"] - offset)
    np.testing.assert_allclose(results[0], results[1], atol=2e-8)


def test_baseline_and_avx2_builds_agree():
    from annealed.kernels import _core_baseline

    if not _core_baseline.cpu_has_avx2():
        pytest.skip("this machine has no AVX2, so only the baseline build can run")
    from annealed.kernels import _core_avx2

    assert not _core_baseline.uses_avx2
    assert _core_avx2.uses_avx2
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(300, 5))
    mu, low, high = X[:7].copy(), np.full(5, 1e-6), np.full(5, np.inf)
    for name in ("SquaredEuclidean", "IDivergence", "ItakuraSaito"):
        states = []
        for core in (_core_baseline, _core_avx2):
            run = getattr(core, f"{name}Level")(
                mu, np.full(7, 1 / 7), np.ones((7, 5)), level_settings(0.5, 7), low, high, None
            )
            core.learn([run], X, None, None, None, 0, 300)
            states.append(run.state())
        np.testing.assert_allclose(states[0]["mu"], states[1]["mu"], rtol=1e-9)


@pytest.mark.parametrize("name", COMPILED)
def test_at_temperature_zero_equally_near_codevectors_share_by_their_weights(name):
    rng = np.random.default_rng(0)
    divergence = divergence_for(name, rng, 3)
    mu = rng.dirichlet(np.ones(3), size=4)  # inside every domain
    mu = np.concatenate([mu, mu[:1], mu[1:2]])  # 4 is where 0 is, 5 where 1 is
    log_weight = np.array([*np.log([0.3, 0.1, 0.2, 0.1, 0.3]), -np.inf])  # the last is impossible
    group = np.array([0, 1, 2, 3, 4, 5])
    X = np.ascontiguousarray(mu[:4])
    for kernel in (made(divergence) for made in KERNELS):
        shares, _, _ = kernel.associate(X, mu, log_weight, 0.0, group, 6)
        np.testing.assert_allclose(shares[0], [0.5, 0, 0, 0, 0.5, 0])
        np.testing.assert_array_equal(shares[1], [0, 1, 0, 0, 0, 0])
        labels = kernel.assign(X, mu, log_weight, 0.0)
        np.testing.assert_array_equal(labels, [0, 1, 2, 3])
