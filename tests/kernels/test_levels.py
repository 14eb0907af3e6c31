"""Levels: the compiled kernel is the printed rule, equal to the NumPy one in every respect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import COMPILED, KERNELS, divergence_for, rows_for, runnable_cores
from thoroughness import examples

from annealed.divergences import get_divergence
from annealed.kernels import CompiledKernel
from annealed.kernels.protocol import MEASURES, TURNS
from annealed.kernels.reference.level import step_size

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


def level_settings(T, n, **changes):
    base = {
        "T": T, "small_step": 0.01 * T, "a": 1.0, "b": 0.9, "alpha_min": 0.0, "n": float(n),
        "first_axis": 20, "second_axis": 40, "at_least": 10**9, "at_most": 10**9, "patience": 5,
        "by_roles": True,
    }  # fmt: skip
    return base | changes


def start(kernel, X, K, rng, settings_):
    low, high = kernel.divergence.bounds(X.mean(axis=0))
    # No two in one place: below the critical temperature nothing but rounding would part them.
    # Counts are often equal: of few different rows there are fewer codevectors.
    different = np.unique(X, axis=0)
    K = min(K, len(different))
    rows = different[rng.choice(len(different), K, replace=False)]
    mu = np.clip(rows * 0.5 + X.mean(axis=0) * 0.5, low, high)
    rho = rng.dirichlet(np.ones(K))
    axis = rng.normal(size=mu.shape)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    memory = rng.choice([0.0, 1e-3, 1.0], size=K) * X.std() ** 2
    return kernel.begin_level(mu, rho, axis, memory, settings_, low, high)


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 11),
    d=st.integers(1, 9),
    log_T=st.floats(-4, 4),
    weighted=st.booleans(),
    single=st.booleans(),
    roles=st.sampled_from([None, True, False]),
)
def test_a_level_equals_the_reference(name, seed, K, d, log_T, weighted, single, roles):
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
        some = None if roles is None else rng.choice([TURNS, MEASURES, 3], 150).astype(np.uint8)
        kernel = made(divergence)
        run = start(kernel, X, K, rng, level_settings(T, K, by_roles=bool(roles)))
        assert kernel.learn([run], X, None, None, w, 0, 150, some) == 150
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
        run = kernel.begin_level(
            np.zeros((1, d)), np.ones(1), np.ones((1, d)), np.zeros(1), settings_, *free
        )
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
            mu, np.array([1e-305, 1.0]), np.ones((2, 1)), np.zeros(2),
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
            np.zeros(6),
            level_settings(0.5, 6),
            *free,
        )
        kernel.learn([run], X + offset, None, None, None, 0, 400)
        results.append(run.state()["mu"] - offset)
    np.testing.assert_allclose(results[0], results[1], atol=2e-8)


def test_builds_for_different_instructions_agree():
    cores = runnable_cores()
    assert len({core.instructions for core in cores}) == len(cores)
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(300, 5))
    mu, low, high = X[:7].copy(), np.full(5, 1e-6), np.full(5, np.inf)
    for name in ("SquaredEuclidean", "IDivergence", "ItakuraSaito"):
        states = []
        for core in cores:
            run = getattr(core, f"{name}Level")(
                mu, np.full(7, 1 / 7), np.ones((7, 5)), np.zeros(7), level_settings(0.5, 7), low,
                high, None,
            )  # fmt: skip
            core.learn([run], X, None, None, None, 0, 300, None, 1)
            states.append(run.state())
        for state in states[1:]:
            np.testing.assert_allclose(state["mu"], states[0]["mu"], rtol=1e-9)


# Distances are measured by products around the mean of a block, unless a row far away makes them
# too coarse.
@pytest.mark.parametrize(("offset", "outlier"), [(0.0, 1.0), (1e3, 1.0), (1e6, 1.0), (0.0, 1e7)])
def test_the_look_ahead_kernel_follows_the_printed_rule(offset, outlier):
    rng = np.random.default_rng(0)
    K, d, never = 40, 70, int(np.iinfo(np.int64).max)
    X = rng.normal(size=(1003, d))
    X[500] *= outlier
    X += offset
    w = rng.choice([0.5, 1.0, 2.0], size=len(X))
    settings_ = level_settings(
        40.0, K, small_step=0.1, first_axis=never, second_axis=never, at_least=never, at_most=never
    )
    states = []
    for made in KERNELS:
        free = np.full(d, -np.inf), np.full(d, np.inf)
        kernel = made(get_divergence("squared_euclidean"))
        run = kernel.begin_level(
            X[:K] + 0.1, np.full(K, 1 / K), np.zeros((K, d)), np.zeros(K), settings_, *free
        )
        kernel.learn([run], X, None, None, w, 0, len(X))
        states.append(kernel.read(run))
    atol = max(1e-7, 1e-11 * max(offset, outlier))
    np.testing.assert_allclose(states[0]["mu"], states[1]["mu"], rtol=0, atol=atol)
    np.testing.assert_allclose(states[0]["r"] * states[0]["g"], states[1]["r"], atol=1e-10)
    assert states[0]["streak"] == states[1]["streak"]


def test_a_large_codebook_learns_the_same_bits_in_any_number_of_threads():
    """Samples that turn and measure axes, and an unfinished block."""
    rng = np.random.default_rng(0)
    K, d, n = 170, 400, 700
    X, never = rng.normal(size=(n, d)), int(np.iinfo(np.int64).max)
    settings_ = level_settings(
        300.0, K, small_step=0.0, first_axis=100, second_axis=300, at_least=never, at_most=never
    )
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    states, core = [], runnable_cores()[-1]
    for threads in (1, 2, 5):
        run = kernel.begin_level(
            X[:K] + 0.1, np.full(K, 1 / K), np.eye(K, d), np.zeros(K), settings_,
            np.full(d, -np.inf), np.full(d, np.inf),
        )  # fmt: skip
        for begin, end in ((0, 350), (350, n)):
            core.learn([run], X, None, None, None, begin, end, None, threads)
        states.append(kernel.read(run))
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        for name, value in state.items():
            np.testing.assert_array_equal(value, states[0][name], err_msg=name)


@pytest.mark.parametrize(("K", "d"), [(3, 2), (40, 70)])
def test_a_level_that_looks_along_no_axes_counts_all_the_same(K, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(960, d))
    axis = rng.normal(size=(K, d))
    states = []
    for first in (400, int(np.iinfo(np.int64).max)):
        for made in KERNELS:
            kernel = made(get_divergence("squared_euclidean"))
            settings_ = level_settings(0.5 * d, 100.0, first_axis=first, second_axis=800)
            free = np.full(d, -np.inf), np.full(d, np.inf)
            run = kernel.begin_level(X[:K], np.full(K, 1 / K), axis, np.ones(K), settings_, *free)
            kernel.learn([run], X, None, None, None, 0, len(X))
            states.append(kernel.read(run))
    for state in states[1:]:
        for name in ("mu", "mass", "spread", "weight", "distortion", "entropy"):
            np.testing.assert_allclose(state[name], states[0][name], rtol=1e-9, err_msg=name)
    for state in states[2:]:
        np.testing.assert_allclose(state["turned"], axis)
        assert not state["p"].any()


def test_blocks_look_along_the_axes_as_single_samples_do():
    # From where codevectors stood when a block began: sixteen samples of a thousand ago.
    rng = np.random.default_rng(0)
    K, d = 40, 70
    X = rng.normal(size=(6000, d)) * np.linspace(3.0, 0.3, d)
    roles = rng.choice([TURNS, MEASURES], len(X)).astype(np.uint8)
    settings_ = level_settings(60.0, 2000.0, first_axis=1000, second_axis=2000)
    states = []
    for made in KERNELS:
        free = np.full(d, -np.inf), np.full(d, np.inf)
        kernel = made(get_divergence("squared_euclidean"))
        axis = np.random.default_rng(1).normal(size=(K, d))
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        run = kernel.begin_level(X[:K], np.full(K, 1 / K), axis, np.zeros(K), settings_, *free)
        kernel.learn([run], X, None, None, None, 0, len(X), roles)
        states.append(kernel.read(run))
    mine, printed = states
    for name in ("p", "mass", "spread", "weight", "distortion"):
        np.testing.assert_allclose(mine[name], printed[name], rtol=1e-6)
    along = [state["y2"] / state["p"] for state in states]
    np.testing.assert_allclose(*along, rtol=0.02)
    turned = [state["axis"] for state in states]
    assert ((turned[0] * turned[1]).sum(axis=1) > 0.99).all()
