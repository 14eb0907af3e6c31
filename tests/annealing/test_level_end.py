"""What a level has measured of its codevectors, from its sums."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from annealed.kernels import measure_level

positive = st.floats(1e-3, 1e3)
perhaps = st.one_of(st.just(0.0), positive)


@st.composite
def levels(draw):
    """Sums of some codevectors, of which a few have seen nothing, and what was known before."""
    K = draw(st.integers(1, 6))
    samples = draw(arrays(float, (K, 5, 2), elements=st.floats(-10, 10)))  # p up to a sign, and y
    p, y = np.abs(samples[..., 0]), samples[..., 1]
    p[p < 1e-6] = 0.0  # its square would be lost beside it
    p[draw(arrays(bool, K))] = 0.0
    state = {"p": p.sum(1), "p2": (p**2).sum(1)}
    state |= {f"y{k if k > 1 else ''}": (p * y**k).sum(1) for k in (1, 2, 4)}
    state |= {"mass": p.sum(1), "spread": (p * y**2).sum(1)}
    known = draw(arrays(bool, K))
    critical, error = (
        np.where(known, draw(arrays(float, K, elements=positive)), np.nan) for _ in range(2)
    )
    mass = np.where(known, draw(arrays(float, K, elements=positive)), 0.0)
    return p, y, state, critical, error, mass, draw(perhaps)


@given(levels())
def test_variances_along_the_axis_with_half_of_what_was_known(level):
    p, y, state, critical, error, mass, again = level
    found, errors, masses, distortion = measure_level(state, critical, error, mass, again)
    for i in range(len(p)):
        here, known = p[i].sum(), np.isfinite(critical[i])
        before = 0.5 * mass[i] if known else 0.0
        assert masses[i] == here + before
        if not here:
            assert np.isnan(distortion[i])
            np.testing.assert_allclose(found[i], critical[i], rtol=1e-12)
            if not again:
                np.testing.assert_allclose(errors[i], error[i], rtol=1e-12)
            continue
        share = p[i] / here
        variance = share @ (y[i] - share @ y[i]) ** 2
        of_variance = np.sqrt(
            max(share @ y[i] ** 4 - (share @ y[i] ** 2) ** 2, 0.0) * (share @ share)
        )
        scale = 1e-9 * (1 + np.abs(y[i]).max() ** 2)
        expected = (here * variance + (before * critical[i] if known else 0.0)) / (here + before)
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=scale)
        parts = here * of_variance, before * error[i] if known else 0.0
        expected = max(np.hypot(*parts) / (here + before), np.sqrt(again) * of_variance)
        # The square root of a difference of two nearly equal numbers.
        np.testing.assert_allclose(
            errors[i], expected, rtol=1e-6, atol=1e-6 * (1 + y[i].max() ** 2) * (1 + again)
        )
        np.testing.assert_allclose(distortion[i], share @ y[i] ** 2, rtol=1e-9, atol=scale)
