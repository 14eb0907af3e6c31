"""Reading a codebook: the compiled kernel says what the NumPy one says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import COMPILED, KERNELS, divergence_for, rows_for
from thoroughness import examples

from annealed.divergences import get_divergence
from annealed.kernels import CompiledKernel

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


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
    # At T = 0 rounding decides between codevectors that are equally near to a row.
    near = np.sort(divergence.pairwise(X, mu), axis=1)
    clear = near[:, 1] - near[:, 0] > 1e-9 * (1 + near[:, 0]) if K > 1 else np.ones(40, dtype=bool)
    for T in (0.0, 0.1, 10.0):
        told = clear if T == 0 else slice(None)
        mine = compiled.associate(X, mu, log_weight, T, group, 3)
        printed = reference.associate(X, mu, log_weight, T, group, 3)
        for one, other in zip(mine, printed, strict=True):
            np.testing.assert_allclose(one[told], other[told], rtol=1e-8, atol=1e-9)
        np.testing.assert_array_equal(
            compiled.assign(X, mu, log_weight, T)[told],
            reference.assign(X, mu, log_weight, T)[told],
        )
        if T > 0:  # equal shares are told apart by rounding
            for kernel in (compiled, reference):
                answer = kernel.assign_groups(X, mu, log_weight, T, group, 3)
                shares = mine[0][np.arange(40), answer]
                np.testing.assert_allclose(shares, mine[0].max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(
        compiled.divergences(X, mu), divergence.pairwise(X, mu), rtol=1e-8, atol=1e-9
    )
    mine, printed = (kernel.hard_sums(X, mu, w) for kernel in (compiled, reference))
    for one, other in zip(mine, printed, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@examples(30)
@given(
    seed=st.integers(0, 2**32 - 1), K=st.integers(1, 40), d=st.integers(1, 20),
    groups=st.integers(1, 9), T=st.sampled_from([0.01, 1.0, 30.0]),
    origin=st.sampled_from([0.0, 1e3, 1e7]),
)  # fmt: skip
def test_the_likeliest_group_has_the_largest_share_also_far_from_the_origin(
    seed, K, d, groups, T, origin
):
    rng = np.random.default_rng(seed)
    X, mu = origin + rng.normal(size=(60, d)), origin + rng.normal(size=(K, d))
    log_weight, group = np.log(rng.dirichlet(np.ones(K))), rng.integers(groups, size=K)
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    shares = kernel.associate(X, mu, log_weight, T, group, groups)[0]
    answer = kernel.assign_groups(X, mu, log_weight, T, group, groups)
    assert (shares[np.arange(60), answer] >= shares.max(axis=1) - 1e-12).all()


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1), K=st.integers(1, 50), d=st.integers(1, 40),
    scale=st.sampled_from([1e-150, 1e-25, 1.0, 1e20, 1e140]), far=st.sampled_from([0, 1e3, 1e7]),
    T=st.sampled_from([0.0, 1e-6, 0.01, 1.0, 1e4]), spread=st.sampled_from([1e-3, 1.0, 1e6]),
)  # fmt: skip
def test_labels_are_those_of_differences_at_any_scale_and_origin(seed, K, d, scale, far, T, spread):
    rng = np.random.default_rng(seed)
    mu, X = rng.normal(size=(K, d)), spread * rng.normal(size=(40, d))
    X[:20] = mu[rng.integers(K, size=20)] + 1e-4 * X[:20]
    log_weight = np.log(rng.dirichlet(np.ones(K)))
    log_weight[1:][rng.uniform(size=K - 1) < 0.1] = -np.inf
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    X, mu, T = scale * (X + far), scale * (mu + far), scale * scale * T
    d_ = kernel.divergences(X, mu)
    exponent = log_weight - d_ / T if T > 0 else np.where(log_weight > -np.inf, -d_, -np.inf)
    labels = kernel.assign(X, mu, log_weight, T)
    best = exponent.max(axis=1)
    assert (exponent[np.arange(40), labels] >= best - 1e-15 * np.abs(best)).all()


@pytest.mark.parametrize("T", [1e4, 1e6, 1e7])
@pytest.mark.parametrize("d", [100, 784, 3000])
def test_labels_are_those_of_differences_where_they_differ_by_little(d, T):
    rng = np.random.default_rng(0)
    mu, X = rng.normal(size=(30, d)), rng.normal(size=(500, d))
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    log_weight = np.full(30, -np.log(30))
    labels = kernel.assign(X, mu, log_weight, T)
    np.testing.assert_array_equal(labels, kernel.divergences(X, mu).argmin(axis=1))


def test_labels_of_codevectors_whose_squares_are_too_small_or_too_large():
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    mu = np.array([[-1e-155], [0.0], [1e-155]])
    assert kernel.assign(np.full((1, 1), 1e-150), mu, np.zeros(3), 1e-307) == 2
    rng = np.random.default_rng(0)
    mu = rng.normal(size=(336, 3))
    X = np.full((4, 3), 1e10)
    d = kernel.divergences(X, mu)
    labels = kernel.assign(X, mu, np.zeros(336), 1e-29)
    np.testing.assert_array_equal(d[np.arange(4), labels], d.min(axis=1))


def test_groups_are_of_a_temperature_above_0():
    kernel = CompiledKernel(get_divergence("squared_euclidean"))
    one, group = np.zeros((1, 1)), np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="temperature above 0"):
        kernel.assign_groups(one, one, np.zeros(1), 0.0, group, 1)


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
