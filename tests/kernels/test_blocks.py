"""Levels learnt a block at a time: with one sample in a block they are the printed rule."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import BURG, COMPILED, divergence_for, rows_for
from test_levels import level_settings, start
from thoroughness import examples, tries

from annealed.divergences import get_divergence
from annealed.kernels import BlockKernel, CompiledKernel, ReferenceKernel, SharedRows
from annealed.kernels.block.sums import Frozen, Sums, block_sums
from annealed.kernels.protocol import MEASURES, TURNS
from annealed.kernels.shared_rows import work

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality

ROWS = tries(60, 150)  # which the rule as it is printed takes one by one


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 11),
    d=st.integers(1, 9),
    log_T=st.floats(-4, 4),
    weighted=st.booleans(),
    roles=st.sampled_from([None, True, False]),
)
def test_a_block_of_one_sample_is_the_online_rule(name, seed, K, d, log_T, weighted, roles):
    d = max(d, 2) if name == "kullback_leibler" else d
    states = []
    for largest in (1, None):
        rng = np.random.default_rng(seed)
        X = rows_for(name, rng, ROWS, d)
        divergence = divergence_for(name, rng, d)
        inside = X if divergence.matrix is None else X @ divergence.matrix
        T = math.exp(log_T) * divergence.unit(X.mean(axis=0), inside.var(axis=0))
        w = rng.choice([0.0, 0.3, 1.0, 2.5], size=ROWS) if weighted else None
        some = None if roles is None else rng.choice([TURNS, MEASURES, 3], ROWS).astype(np.uint8)
        kernel = ReferenceKernel(divergence)
        if largest is not None:
            kernel = BlockKernel(CompiledKernel, divergence, largest)
        settings = level_settings(T, K, by_roles=bool(roles), at_least=5)
        run = start(kernel, X, K, rng, settings | {"patience": 10**6})
        assert kernel.learn([run], X, None, None, w, 0, ROWS, some) == ROWS
        states.append(kernel.read(run))
    mine, printed = states
    scale = np.abs(printed["mu"]).max()
    alive = printed["r"] > 1e-30
    np.testing.assert_allclose(
        mine["mu"][alive], printed["mu"][alive], rtol=1e-9, atol=1e-9 * scale
    )
    np.testing.assert_allclose(mine["r"], printed["r"], rtol=1e-9, atol=1e-12)
    assert mine["count"] == printed["count"]
    assert mine["streak"] == printed["streak"]
    assert mine["n"] == pytest.approx(printed["n"])
    for name_ in ("weight", "distortion", "entropy"):
        assert mine[name_] == pytest.approx(printed[name_], rel=1e-9, abs=1e-9 * (1 + T))
    for name_ in ("p", "p2", "mass", "spread", "y", "y2", "y4"):
        np.testing.assert_allclose(
            mine[name_], printed[name_], rtol=1e-6, atol=1e-9 * (1 + np.abs(printed[name_]).max())
        )
    np.testing.assert_allclose(
        mine["turned"], printed["turned"], atol=1e-8 * (1e-9 + np.abs(printed["turned"]).max())
    )


def many(seed, n=3000, d=6, K=12, **changes):
    """Rows and a level that they are to be learnt by."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(scale=3.0, size=(8, d))[rng.integers(8, size=n)]
    settings = level_settings(2.0, K, first_axis=700, second_axis=1400, **changes)
    return rng, X, settings


def assert_same_state(mine, other):
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        assert np.asarray(value).tobytes() == np.asarray(other[name]).tobytes(), name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cuts_cannot_be_seen(dtype):
    """However rows are cut into calls, and wherever the state is taken to another run."""
    rng, X, settings = many(0, at_least=2000, small_step=0.5)
    X = X.astype(dtype)
    w = rng.choice([0.0, 0.5, 1.0, 3.0], len(X))
    roles = rng.choice([TURNS, MEASURES], len(X)).astype(np.uint8)
    kernel = BlockKernel(CompiledKernel, get_divergence("squared_euclidean"))
    whole = start(kernel, X, 12, np.random.default_rng(1), settings)
    stop = kernel.learn([whole], X, None, None, w, 0, len(X), roles)
    assert whole.done and stop < len(X)
    cuts = [0, *np.sort(rng.integers(stop, size=40)).tolist(), *range(stop - 7, stop + 1)]
    run = start(kernel, X, 12, np.random.default_rng(1), settings)
    for begin, end in itertools.pairwise(sorted(cuts)):
        kernel.read(run)
        kernel.learn([run], X, None, None, w, begin, end, roles)
        again = start(kernel, X, 12, np.random.default_rng(1), settings)
        again.restore(run.state())
        run = again
    assert_same_state(run.state(), whole.state())
    assert_same_state(kernel.read(run), kernel.read(whole))


def test_classes_are_learnt_side_by_side_as_alone():
    """Up to the row with which the first of them ends its level."""
    rng, X, settings = many(0, at_least=500, small_step=np.inf)
    classes = rng.choice(3, len(X), p=[0.2, 0.3, 0.5]).astype(np.int32)
    kernel = BlockKernel(CompiledKernel, get_divergence("squared_euclidean"))
    runs = [start(kernel, X, 5, np.random.default_rng(c), settings) for c in range(3)]
    stop = kernel.learn(runs, X, None, classes, None, 0, len(X))
    assert [run.done for run in runs] == [False, False, True]
    assert (classes[:stop] == 2).sum() == 500 and classes[stop - 1] == 2
    for c, run in enumerate(runs):
        alone = start(kernel, X, 5, np.random.default_rng(c), settings)
        own = np.flatnonzero(classes[:stop] == c)
        kernel.learn([alone], X, own, None, None, 0, len(own))
        assert_same_state(run.state(), alone.state())


def test_a_warm_up_ends_where_it_should_among_levels():
    rng, X, settings = many(0)
    classes = (np.arange(len(X)) % 2).astype(np.int32)
    kernel = BlockKernel(CompiledKernel, get_divergence("squared_euclidean"))
    warm_up, level = kernel.begin_warm_up(6, 100), start(kernel, X, 5, rng, settings)
    assert kernel.learn([warm_up, level], X, None, classes, None, 0, len(X)) == 199
    assert warm_up.done and warm_up.count == 100 and level.count == 99
    np.testing.assert_allclose(kernel.read(warm_up)["mean"], X[:199:2].mean(axis=0))


@pytest.mark.parametrize("name", ["squared_euclidean", "mahalanobis"])
@pytest.mark.parametrize("dtype, digits", [(np.float64, 1e-7), (np.float32, 2e-5)])
def test_rows_far_from_the_origin_keep_their_digits(name, dtype, digits):
    _, X, settings = many(0)
    X = (X * 1024).round() / 1024  # which are the same numbers a long way off
    offset = 2.0**20 if dtype == np.float64 else 2.0**10
    found = []
    for shift in (0.0, offset):
        kernel = BlockKernel(
            CompiledKernel, divergence_for(name, np.random.default_rng(0), X.shape[1])
        )
        free = np.full(6, -np.inf), np.full(6, np.inf)
        run = kernel.begin_level(
            X[:12] + shift, np.full(12, 1 / 12), np.eye(12, 6) + 0.1, np.zeros(12), settings, *free
        )
        kernel.learn([run], (X + shift).astype(dtype), None, None, None, 0, len(X))
        found.append(kernel.read(run))
    near, far = found
    np.testing.assert_allclose(far["mu"] - offset, near["mu"], atol=digits)
    np.testing.assert_allclose(far["y2"] / far["p"], near["y2"] / near["p"], rtol=100 * digits)
    assert far["distortion"] == pytest.approx(near["distortion"], rel=10 * digits)


def test_single_precision_loses_less_than_a_hundred_thousandth():
    _, X, settings = many(0, d=40)
    kernel = BlockKernel(CompiledKernel, get_divergence("squared_euclidean"))
    X = X.astype(np.float32)
    states = []
    for scale, dtype in ((1.0, np.float64), (1.0, np.float32), (2.0**-60, np.float32)):
        settings_ = settings | {"T": 2.0 * scale**2}
        run = start(kernel, X.astype(float) * scale, 12, np.random.default_rng(1), settings_)
        run.turned *= scale  # the start is that of a scale of 1
        kernel.learn([run], (X * scale).astype(dtype), None, None, None, 0, len(X))
        states.append(kernel.read(run))
    double, single, tiny = states
    # How much is lost depends on the order in which the machine's BLAS adds.
    np.testing.assert_allclose(single["mu"], double["mu"], atol=1e-5 * np.abs(X).max())
    np.testing.assert_allclose(single["y2"], double["y2"], rtol=1e-3)
    assert single["distortion"] == pytest.approx(double["distortion"], rel=1e-5)
    np.testing.assert_allclose(tiny["mu"] * 2.0**60, single["mu"], rtol=1e-12)


def test_blocks_come_to_where_single_samples_do():
    """The trajectory differs, the fixed point does not."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=3.0, size=(8, 6))
    X = centres[rng.integers(8, size=40_000)] + rng.normal(size=(40_000, 6))
    settings = level_settings(2.0, 8, first_axis=20_000, second_axis=25_000)
    free, found = (np.full(6, -np.inf), np.full(6, np.inf)), []
    for kernel in (
        CompiledKernel(get_divergence("squared_euclidean")),
        BlockKernel(CompiledKernel, get_divergence("squared_euclidean")),
    ):
        run = kernel.begin_level(
            centres + 0.5, rng.dirichlet(np.ones(8)), np.eye(8, 6) + 0.1, np.zeros(8), settings,
            *free,
        )  # fmt: skip
        kernel.learn([run], X, None, None, None, 0, len(X))
        state = kernel.read(run)
        found.append((state, state["r"] * state["g"]))
    (online, weights), (block, others) = found
    np.testing.assert_allclose(others, weights, atol=0.002)
    np.testing.assert_allclose(block["mu"], online["mu"], atol=0.02)
    np.testing.assert_allclose(block["y2"] / block["p"], online["y2"] / online["p"], rtol=0.02)
    for name in ("distortion", "entropy"):
        assert block[name] == pytest.approx(online[name], rel=0.01)


def test_a_divergence_of_ones_own_learns_in_blocks():
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(600, 3)) + 0.05
    settings = level_settings(0.5, 4, first_axis=200, second_axis=400)
    found = []
    for make, divergence in (
        (ReferenceKernel, BURG),
        (CompiledKernel, get_divergence("itakura_saito")),
    ):
        kernel = BlockKernel(make, divergence)
        run = start(kernel, X, 4, np.random.default_rng(1), settings)
        kernel.learn([run], X, None, None, None, 0, len(X))
        found.append(kernel.read(run))
    for name in ("mu", "mass", "spread", "y2"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-5)


# -- sums ------------------------------------------------------------------------------------------


def a_block(rng, n=300, d=5, K=7):
    frozen = Frozen(*(rng.normal(size=size) for size in ((K, d), (K,), (K, d), (K,))))
    asked = {"own": rng.uniform(size=n), "observed": True, "turning": 120, "measuring": 90}
    return rng.normal(size=(n, d)), frozen, rng.uniform(0.5, 2.0, n), asked


def test_sums_can_be_added():
    """So that parts of a block may be computed anywhere."""
    z, frozen, w, asked = a_block(np.random.default_rng(0))
    whole = block_sums(np, z, frozen, w, **asked)
    cut, own = 100, asked["own"]
    parts = [
        block_sums(np, z[:cut], frozen, w[:cut], **asked | {"own": own[:cut], "turning": cut}),
        block_sums(
            np,
            z[cut:],
            frozen,
            w[cut:],
            **asked | {"own": own[cut:], "turning": 20, "measuring": 0},
        ),
    ]
    for name, a, b in zip(Sums._fields, whole, parts[0] + parts[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)


def test_sums_are_those_of_the_formulas():
    z, frozen, w, asked = a_block(np.random.default_rng(0))
    found = block_sums(np, z, frozen, w, **asked)
    s = z @ frozen.slope.T + frozen.bias
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    y = z @ frozen.axis.T - frozen.foot
    wp = w[:, None] * np.where(p > 1e-7, p, 0.0)
    np.testing.assert_allclose(found.p, w @ p, rtol=1e-12)
    np.testing.assert_allclose(found.pz, (w[:, None] * p).T @ z, atol=1e-12)
    np.testing.assert_allclose(found.entropy, -(wp * np.log(p)).sum(), rtol=1e-12)
    np.testing.assert_allclose(
        found.own - found.scores, (wp * (asked["own"][:, None] - s)).sum(axis=0), rtol=1e-12
    )
    np.testing.assert_allclose(found.turned, (wp * y)[:120].T @ z[:120], atol=1e-12)
    np.testing.assert_allclose(found.axis_y4, (wp * y**4)[90:].sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("asked", [True, False])
def test_sums_keep_to_the_array_api_standard(asked):
    xp = pytest.importorskip("array_api_strict")
    z, frozen, w, options = a_block(np.random.default_rng(0))
    options = options if asked else {}
    mine = block_sums(np, z, frozen, w, **options)
    given = {k: xp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    other = block_sums(xp, xp.asarray(z), Frozen(*map(xp.asarray, frozen)), xp.asarray(w), **given)
    for name, a, b in zip(Sums._fields, mine, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(np.asarray(b), a, rtol=1e-12, atol=1e-12, err_msg=name)


def test_sums_need_nothing_of_the_package():
    """A cluster's workers, or a machine with a GPU, need this file alone."""
    tree = ast.parse(Path(inspect.getfile(block_sums)).read_text())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert imported == {"__future__", "typing"}


# -- rows that others have too -------------------------------------------------------------------


def misplaced(array):
    """The same numbers at an odd address, as they come out of a message."""
    raw = np.empty(array.nbytes + 1, dtype=np.uint8)
    there = raw[1:].view(array.dtype).reshape(array.shape)
    there[...] = array
    return there


@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_may_be_summed_up_elsewhere(name, weighted):
    """By who has the pieces and gets what it is given in a message: it is the same level."""
    n, d, K, asked = 600, 4, 5, []
    states = []
    for each, message in ((None, None), (50, lambda a: a), (50, misplaced)):
        rng = np.random.default_rng(7)
        X = rows_for(name, rng, n, d)
        divergence = divergence_for(name, rng, d)
        inside = X if divergence.matrix is None else X @ divergence.matrix
        T = 0.5 * divergence.unit(X.mean(axis=0), inside.var(axis=0))
        w = rng.choice([0.0, 0.5, 2.0], size=n) if weighted else None
        roles = rng.choice([TURNS, MEASURES], n).astype(np.uint8)

        def add_up(function, given, parts, X=X, each=each, message=message):
            given = pickle.loads(pickle.dumps(given))
            some = (None if array is None else message(array) for array in given.frozen)
            given = replace(given, frozen=Frozen(*some), c=message(given.c))
            asked.append(sum(len(places) for _, (places, *_) in parts))
            sums = [function(given, X[each * k : each * (k + 1)], *args) for k, args in parts]
            return tuple(sum(sums[1:], sums[0]))

        kernel = BlockKernel(CompiledKernel, divergence)
        run = start(kernel, X, K, rng, level_settings(T, K, by_roles=True, at_least=400))
        rows = X if each is None else SharedRows(X, each, work(15, K, d), add_up)
        order = rng.permutation(n)
        kernel.learn([run], rows, order, None, w, 0, n, roles)
        states.append(kernel.read(run))
    assert min(asked) >= 15 and len(set(asked)) > 3  # smaller blocks are not handed over
    here, elsewhere, by_message = states
    for key in ("mu", "r", "axis", "mass", "spread", "p", "p2", "y2", "y4", "turned"):
        np.testing.assert_allclose(elsewhere[key], here[key], rtol=1e-9, atol=1e-12, err_msg=key)
        assert by_message[key].tobytes() == elsewhere[key].tobytes(), key
