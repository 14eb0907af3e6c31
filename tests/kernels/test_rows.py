"""Rows that cross into a kernel: what is not there is refused, before anything is learnt."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import KERNELS

from annealed.divergences import SquaredEuclidean

N, D, K = 20, 3, 4
X = np.random.default_rng(0).normal(size=(N, D))
CLASSES = (np.arange(N) % 2).astype(np.int32)
FREE = np.full(D, -np.inf), np.full(D, np.inf)
STEPS = {"a": 1.0, "b": 0.9, "alpha_min": 0.0, "n": 1.0}
LEVEL = STEPS | {
    "T": 1.0, "small_step": 0.0, "first_axis": 0, "second_axis": 0, "at_least": 10**9,
    "at_most": 10**9, "patience": 5, "by_roles": True,
}  # fmt: skip
SOFT = {
    "rate": 0.05, "batch": 1, "temperatures": False, "relevances": False, "T": 1.0, "recent": 0.0,
}  # fmt: skip


def warm_up(kernel):
    run = kernel.begin_warm_up(D, 10**9)
    return run, lambda *rows: kernel.learn([run], *rows)


def level(kernel):
    axis = np.eye(K, D) + 0.1
    run = kernel.begin_level(X[:K], np.full(K, 1 / K), axis, np.zeros(K), LEVEL, *FREE)
    return run, lambda *rows: kernel.learn([run, run], *rows)


def soft_lvq(kernel):
    first_of = np.array([0, 2, K])
    run = kernel.begin_soft_lvq(
        X[:K], np.zeros(K), np.zeros(K), np.zeros(D), first_of, np.ones(D), SOFT, *FREE
    )
    return run, run.learn


def winner(kernel):
    settings = STEPS | {"rule": "lvq1", "scale": 1.0}
    run = kernel.begin_winner(X[:K], CLASSES[:K], settings, *FREE)
    return run, run.learn


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param(SquaredEuclidean())


@pytest.fixture(params=[warm_up, level, soft_lvq, winner])
def begun(kernel, request):
    """A run, and how it learns."""
    return request.param(kernel)


def same(state, other):
    return state.keys() == other.keys() and all(
        np.array_equal(state[name], other[name]) for name in state
    )


def classes_for(begun):
    return np.zeros(N, np.int32) if "squares" in begun[0].state() else CLASSES


@pytest.mark.parametrize("row", [-1, N, 2**62, -(2**63)])
@pytest.mark.parametrize("place", [0, 5, 9])
def test_an_order_that_names_a_row_that_is_not_there_is_refused(begun, row, place):
    run, learn = begun
    before, order = run.state(), np.arange(10)
    order[place] = row
    with pytest.raises(IndexError, match="order names"):
        learn(X, order, classes_for(begun), None, 0, 10)
    assert same(run.state(), before), "something was learnt"


def test_only_the_part_of_an_order_that_is_asked_for_has_to_be_there(begun):
    run, learn = begun
    before, order = run.state(), np.arange(10)
    order[[0, 9]] = -1, N
    learn(X, order, classes_for(begun), None, 1, 9)
    assert not same(run.state(), before)


@pytest.mark.parametrize("begin, end", [(-1, 5), (0, N + 1), (7, 3), (-5, -1)])
@pytest.mark.parametrize("ordered", [False, True])
def test_rows_beyond_the_array_are_refused(begun, begin, end, ordered):
    run, learn = begun
    before, order = run.state(), np.arange(N) if ordered else None
    with pytest.raises(IndexError, match="rows asked for are not in the array"):
        learn(X, order, classes_for(begun), None, begin, end)
    assert same(run.state(), before), "something was learnt"


def test_a_row_of_weight_nought_has_to_be_there_too(begun):
    _, learn = begun
    with pytest.raises(IndexError):
        learn(X, np.array([0, N]), classes_for(begun), np.zeros(N), 0, 2)


def test_a_level_begun_by_another_kernel_is_refused(kernel):
    other = next(made for made in KERNELS if not isinstance(kernel, made))
    run, _ = level(other(SquaredEuclidean()))
    with pytest.raises(TypeError):
        kernel.learn([run], X, None, None, None, 0, N)
