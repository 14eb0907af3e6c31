"""Borders between codevectors: the compiled search finds what the formulas in plain NumPy say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import runnable_cores
from plain_borders import PlainDensity, plain_cuts
from thoroughness import examples

from annealed.annealing.borders import cuts, places
from annealed.kernels import Places


def codebook(seed, n, d, groups):
    """Codevectors in some groups, their weights, a narrowest kernel and a number of samples."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, d)) * rng.uniform(1, 8)
    points = centres[rng.integers(groups, size=n)] + rng.normal(size=(n, d))
    return points, rng.dirichlet(np.full(n, 3.0)), rng.uniform(0.01, 1), 10 ** rng.uniform(1.5, 5)


SIZES = {"seed": st.integers(0, 2**32 - 1), "d": st.integers(1, 5), "groups": st.integers(1, 4)}


@examples(30)
@given(n=st.integers(2, 40), **SIZES)
def test_cuts_are_those_of_the_formulas(seed, n, d, groups):
    given_ = codebook(seed, n, d, groups)
    found, plain = cuts(*given_, least=-1.0), plain_cuts(*given_, least=-1.0)
    assert len(found) == len(plain)
    for mine, (support, clusters) in zip(found, plain, strict=True):
        assert mine.support == pytest.approx(support, rel=1e-6, abs=1e-6)
        np.testing.assert_array_equal(mine.clusters, clusters)


@examples(30)
@given(n=st.integers(3, 40), K=st.integers(2, 3), **SIZES)
def test_the_support_of_given_borders_is_that_of_the_formulas(seed, n, d, groups, K):
    given_ = codebook(seed, n, d, groups)
    clusters = np.random.default_rng(seed).permutation(np.arange(n) % K)
    expected = PlainDensity(*given_).support_between(clusters)
    assert places(*given_).support_between(clusters) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(seed=st.integers(0, 99), exponent=st.sampled_from([-150, -3, 0, 3, 150]))
def test_neither_unit_nor_origin_matters(seed, exponent):
    points, weights, narrowest, samples = codebook(seed, 30, 2, 3)
    unit = 2.0**exponent
    plain = cuts(points, weights, narrowest, samples)
    moved = cuts(unit * points, weights, unit**2 * narrowest, samples)
    for one, other in zip(plain, moved, strict=True):
        assert one.support == other.support
        np.testing.assert_array_equal(one.clusters, other.clusters)
    far = cuts(points + 2.0**20, weights, narrowest, samples)
    assert [cut.support for cut in far] == pytest.approx(
        [cut.support for cut in plain], rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("spread", [1e-2, 1e-5, 1e-8])
def test_tight_clusters_far_apart_are_seen_as_they_are(spread):
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(4), 12, axis=0)[:, :3]
    points, weights = centres + spread * rng.normal(size=(48, 3)), np.full(48, 1 / 48)
    found = [cut.support for cut in cuts(points, weights, (spread / 2) ** 2, 3000.0)]
    assert len(found) > 3 and all(support > 0 for support in found[:3])
    within = [
        cuts(some, weights[:12], (spread / 2) ** 2, 3000.0)[0].support
        for some in np.split(points, 4)
    ]
    assert found[3] == pytest.approx(max(within), rel=1e-6)


def test_codevectors_of_no_weight_count_as_those_of_next_to_none():
    points, _, narrowest, samples = codebook(0, 30, 50, 2)
    points[-1] += 100.0
    supports = []
    for least in (0.0, 1e-300):
        weights = np.append(np.full(29, 1 / 29), least)
        supports.append([cut.support for cut in cuts(points, weights, narrowest, samples)])
    assert supports[0] == pytest.approx(supports[1], abs=0.5)


def test_a_search_ends_where_nothing_can_be_parted():
    points = np.random.default_rng(0).normal(size=(6, 2)) * 0.01
    assert len(cuts(points, np.full(6, 1 / 6), 10.0, 1e3, least=-5.0)) < 6


def test_borders_are_the_same_bits_in_any_number_of_threads():
    points, weights, narrowest, samples = codebook(0, 301, 3, 4)
    here = places(points, weights, narrowest, samples)
    given_ = here.distances, here.weights, here.dimensions, here.narrowest, here.samples
    clusters = np.arange(301) % 5
    for core in runnable_cores():
        found = [
            (
                [part.tobytes() for part in core.cuts(*given_, -1.0, n)],
                core.support_between(*given_, clusters, n),
                core.loose(*given_, 20.0, n).tobytes(),
            )
            for n in (1, 2, 5)
        ]
        assert found[0] == found[1] == found[2]


def test_what_does_not_fit_is_refused():
    here = places(*codebook(0, 5, 2, 1))
    with pytest.raises(ValueError, match="clusters do not fit"):
        here.support_between(np.zeros(4, dtype=np.int64))
    with pytest.raises(ValueError, match="does not exist"):
        here.support_between(np.array([0, 1, 2, 3, 5]))
    with pytest.raises(ValueError, match="positive"):
        Places(np.ones((3, 3)), np.ones(3), 1, 1e-310, 9.0).cuts(0.0)
    with pytest.raises(ValueError, match="do not fit each other"):
        Places(np.zeros((3, 2)), np.ones(3), 2, 1.0, 9.0).cuts(0.0)
