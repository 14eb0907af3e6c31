"""Winner takes all: the compiled kernel is the NumPy one, and codevectors stay where they may."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import BURG, COMPILED, KERNELS, divergence_for, rows_for, runnable_cores
from sklearn.datasets import make_moons
from thoroughness import examples

from annealed import LVQClassifier
from annealed.kernels import CompiledKernel, kernel_for

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality
RULES = ["vq", "lvq1", "glvq"]


def winner_settings(rule, **changes):
    base = {"rule": rule, "a": 1.0, "b": 0.9, "alpha_min": 0.0, "n": 0.0, "scale": 1.0}
    return base | changes


def start(kernel, X, K, rule, **changes):
    low, high = kernel.divergence.bounds(X.mean(axis=0, dtype=float))
    mu = np.clip(X[:K] * 0.5 + X.mean(axis=0) * 0.5, low, high).astype(float)
    classes = (np.arange(K) % 3).astype(np.int32)
    return kernel.begin_winner(mu, classes, winner_settings(rule, **changes), low, high)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(10)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 11),
    d=st.integers(1, 9),
    weighted=st.booleans(),
    single=st.booleans(),
)
def test_the_compiled_winner_equals_the_reference(name, rule, seed, K, d, weighted, single):
    d = max(d, 2) if name == "kullback_leibler" else d
    states = []
    for made in KERNELS:
        rng = np.random.default_rng(seed)
        X = rows_for(name, rng, 120, d)
        if single and name != "kullback_leibler":
            X = X.astype(np.float32)
        divergence = divergence_for(name, rng, d)
        y = rng.integers(0, 4, size=120).astype(np.int32)  # class 3 has no codevector
        w = rng.choice([0.0, 0.3, 1.0, 2.5], size=120) if weighted else None
        kernel = made(divergence)
        run = start(kernel, X, K, rule, n=5.0, scale=0.5)
        run.learn(X, None, y, w, 0, 120)
        states.append(kernel.read(run))
    mine, printed = states
    scale = np.abs(printed["mu"]).max()
    np.testing.assert_allclose(mine["mu"], printed["mu"], rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(mine["updates"], printed["updates"], rtol=1e-12)
    assert mine["count"] == printed["count"]
    for name_ in ("seen", "distortion", "errors"):
        assert mine[name_] == pytest.approx(printed[name_], rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
@examples(10)
@given(cuts=st.lists(st.integers(0, 400), max_size=10))
def test_blocks_of_rows_cannot_be_seen(rule, cuts):
    """A large codebook is measured for four rows at once: no bit depends on which four."""
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(400, 70))
    y = rng.integers(0, 3, size=400).astype(np.int32)
    for name in ("squared_euclidean", "i_divergence"):
        kernel = CompiledKernel(divergence_for(name, rng, 70))
        states = []
        for edges in ([0, 400], [0, *sorted(cuts), 400], range(401)):
            run = start(kernel, X, 37, rule)
            for a, b in itertools.pairwise(edges):
                run.learn(X, None, y, None, a, b)
            states.append(run.state())
        for other in states[1:]:
            np.testing.assert_array_equal(states[0]["mu"], other["mu"])
            assert states[0]["distortion"] == other["distortion"]


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis", "burg"])
@examples(15)
@given(
    seed=st.integers(0, 2**32 - 1),
    rule=st.sampled_from(RULES),
    b=st.sampled_from([1e-3, 0.9]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_no_codevector_ever_leaves_the_domain(name, seed, rule, b, scale):
    """However long the steps, and with rows on the boundary."""
    rng = np.random.default_rng(seed)
    X = rows_for("itakura_saito" if name == "burg" else name, rng, 200, 4)
    divergence = BURG if name == "burg" else divergence_for(name, rng, 4)
    y = rng.integers(0, 3, size=200).astype(np.int32)
    low, high = divergence.bounds(X.mean(axis=0))
    kernel = kernel_for(divergence)
    run = start(kernel, X, 6, rule, b=b, scale=scale)
    for k in range(0, 200, 20):
        run.learn(X, None, y, None, k, k + 20)
        mu = kernel.read(run)["mu"]
        assert np.isfinite(mu).all()
        assert ((mu >= low) & (mu <= high)).all()
        assert ((mu > divergence.low) & (mu < divergence.high)).all()
        if divergence.simplex:
            np.testing.assert_allclose(mu.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", COMPILED)
def test_attraction_never_goes_past_the_sample_and_repulsion_goes_away_from_it(name):
    """In the dual variable attraction would: mu exp(alpha (x - mu)/mu) for x far above mu."""
    rng = np.random.default_rng(0)
    divergence = divergence_for(name, rng, 3)
    kernel = CompiledKernel(divergence)
    for _ in range(50):
        X = rows_for(name, rng, 30, 3)
        low, high = divergence.bounds(X.mean(axis=0))
        mu, x = np.clip(X[:1], low, high), X[1:2]
        for c, attracted in ((0, True), (1, False)):
            run = kernel.begin_winner(
                mu, np.array([c], np.int32), winner_settings("lvq1"), low, high
            )
            run.learn(x, None, np.zeros(1, np.int32), None, 0, 1)
            moved = run.state()["mu"]
            before, after = (kernel.divergences(x, m)[0, 0] for m in (mu, moved))
            if attracted:
                assert ((moved >= np.minimum(mu, x) - 1e-5) & (moved <= np.maximum(mu, x))).all()
                assert after <= before
            else:
                assert after >= before * (1 - 1e-9)


def test_builds_for_different_instructions_agree_on_the_winner():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0.05, 0.95, size=(300, 30)), rng.integers(0, 3, size=300).astype(np.int32)
    classes, low, high = np.arange(70, dtype=np.int32) % 3, np.full(30, 1e-6), np.full(30, 1 - 1e-6)
    for name in ("SquaredEuclidean", "IDivergence", "ItakuraSaito", "Logistic"):
        for rule in RULES:
            states = []
            for core in runnable_cores():
                run = getattr(core, f"{name}Winner")(
                    X[:70], classes, winner_settings(rule), False, low, high, None
                )
                run.learn(X, None, y, None, 0, 300)
                states.append(run.state())
            for state in states[1:]:
                np.testing.assert_allclose(state["mu"], states[0]["mu"], rtol=1e-8, atol=1e-12)
                assert state["errors"] == states[0]["errors"]


def test_fine_tuning_can_run_the_kernel_from_codevectors_it_has():
    X, y = make_moons(500, noise=0.15, random_state=0)
    divergence = divergence_for("squared_euclidean", None, 2)
    kernel = CompiledKernel(divergence)
    model = LVQClassifier(5, init="random", n_passes=1, alpha=(1e6, 1.0), random_state=3).fit(X, y)
    mu, classes = model.codevectors_, model.codevector_labels_.astype(np.int32)
    low, high = divergence.bounds(X.mean(axis=0))
    rng, errors = np.random.default_rng(0), []
    for rule in ("lvq1", "glvq"):
        run = kernel.begin_winner(
            mu, classes, winner_settings(rule, a=10.0, b=0.1, scale=0.1), low, high
        )
        before = 0.0
        for _ in range(10):
            order = rng.permutation(500)
            run.learn(X, order, y.astype(np.int32), None, 0, 500)
            errors.append(run.errors - before)
            before = run.errors
        assert errors[-1] < errors[-10]
        assert not np.array_equal(kernel.read(run)["mu"], mu)
