"""Peaks joined over saddles: the compiled loop does what one in Python does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from annealed.kernels import join_peaks


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), more=st.integers(0, 60))
def test_peaks_are_joined_over_the_highest_saddles(seed, n, more):
    rng = np.random.default_rng(seed)
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    pairs = np.sort(np.concatenate([chain, rng.integers(n, size=(more, 2))]), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).reshape(-1, 2)
    first, second = (np.ascontiguousarray(each) for each in pairs.T)
    peaks, order = rng.integers(5, size=n).astype(float), rng.permutation(len(pairs))
    low, high, used = join_peaks(peaks, first, second, order)
    # The edges are those of a minimum spanning tree by rank.
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    graph = csr_array((rank, (first.astype(np.int32), second.astype(np.int32))), shape=(n, n))
    tree = order[np.sort(minimum_spanning_tree(graph).data).astype(np.int64) - 1]
    np.testing.assert_array_equal(used, tree)
    member = np.arange(n)
    for a, b, edge in zip(high, low, used, strict=True):
        ends = {member[first[edge]], member[second[edge]]}
        assert ends == {a, b} and peaks[a] >= peaks[b]
        member[member == b] = a
    assert len(set(member.tolist())) == 1


def test_edges_that_lead_nowhere_are_refused():
    ends = np.array([0, 1]), np.array([1, 2])
    with pytest.raises(ValueError, match="nowhere"):
        join_peaks(np.zeros(2), *ends, np.arange(2))
    with pytest.raises(ValueError, match="nowhere"):
        join_peaks(np.zeros(3), *ends, np.array([0, 2]))
