"""The density of a codebook, at its codevectors and halfway between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import runnable_cores
from thoroughness import examples

from annealed.kernels import measure_density


@examples(20)
@given(seed=st.integers(0, 1000), n=st.integers(1, 40), d=st.integers(1, 5))
def test_densities_are_those_of_the_formula(seed, n, d):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 2)
    widths, mass, squared = rng.uniform(0.5, 2, (3, n))
    first, second = rng.integers(n, size=(2, 9))
    distances = ((points[:, None] - points) ** 2).sum(axis=2)
    found = measure_density(distances, first, second, widths, mass, squared)
    middles = (points[first] + points[second]) / 2
    for place, here in ((points, found[0]), (middles, found[2])):
        exponent = -((place[:, None] - points) ** 2).sum(axis=2) / widths
        np.testing.assert_allclose(here, np.logaddexp.reduce(exponent + np.log(mass), axis=1),
                                   rtol=1e-9, atol=1e-9)  # fmt: skip
    exponent = -2 * distances / widths + np.log(squared)
    np.testing.assert_allclose(
        found[1], np.logaddexp.reduce(exponent, axis=1), rtol=1e-9, atol=1e-9
    )


def test_densities_are_the_same_bits_in_any_number_of_threads():
    rng = np.random.default_rng(0)
    points, n = rng.normal(size=(301, 2)), 301
    distances = ((points[:, None] - points) ** 2).sum(axis=2)
    given_ = distances, *rng.integers(n, size=(2, 900)), *rng.uniform(0.5, 2, (3, n))
    for core in runnable_cores():
        found = [[part.tobytes() for part in core.measure_density(*given_, n)] for n in (1, 2, 5)]
        assert found[0] == found[1] == found[2]


def test_middles_and_widths_must_fit():
    square, none, ones = np.zeros((3, 3)), np.zeros(0, dtype=np.int64), np.ones(3)
    with pytest.raises(ValueError, match="a middle is of no codevector"):
        measure_density(square, np.array([0]), np.array([3]), ones, ones, ones)
    with pytest.raises(ValueError, match="do not fit each other"):
        measure_density(square, none, none, np.ones(2), ones, ones)
