"""Builds of the core for different instructions: what one saves another goes on with."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import runnable_cores

D, K, CLASSES = 5, 11, 3
FREE = np.full(D, -np.inf), np.full(D, np.inf)


def labelled_rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(303, D)), rng.integers(0, CLASSES, size=303).astype(np.int32)


def nearest(core, means):
    room = CLASSES if means else K
    settings = {"rate": 0.05, "batch": 4, "recency": 0.05, "means": means, "relevances": True}
    return core.SquaredEuclideanNearest(np.zeros(D), room, CLASSES, settings, *FREE, None)


def soft_lvq(core):
    settings = {
        "rate": 0.01, "batch": 4, "temperatures": True, "relevances": True, "T": 0.5, "recent": 0.0,
    }  # fmt: skip
    mu = np.random.default_rng(1).normal(size=(K, D))
    return core.SquaredEuclideanSoftLVQ(
        mu, np.zeros(K), np.zeros(K), np.zeros(D), np.array([0, 4, 8, K]), np.ones(D), settings,
        *FREE, None,
    )  # fmt: skip


@pytest.mark.parametrize("saved_by", runnable_cores(), ids=lambda core: core.instructions)
@pytest.mark.parametrize("read_by", runnable_cores(), ids=lambda core: core.instructions)
@pytest.mark.parametrize(
    "begin",
    [soft_lvq, lambda core: nearest(core, False), lambda core: nearest(core, True)],
    ids=["soft_lvq", "nearest", "means"],
)
def test_what_one_build_saves_another_goes_on_with(begin, saved_by, read_by):
    X, y = labelled_rows()
    run, other = begin(saved_by), begin(read_by)
    run.learn(X, None, y, None, 0, 150)  # in the middle of a batch
    other.restore(run.state())
    for one in (run, other):
        one.learn(X, None, y, None, 150, 303)
    mine, its = run.read(), other.read()
    assert mine.keys() == its.keys()
    for name in mine:
        np.testing.assert_allclose(its[name], mine[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_saved_run_of_other_lanes_must_fit():
    for core in runnable_cores():
        state = soft_lvq(core).state()
        for lanes in (3, 4 if state["lanes"] == 8 else 8):
            with pytest.raises(ValueError, match="another shape"):
                soft_lvq(core).restore(state | {"lanes": lanes})
