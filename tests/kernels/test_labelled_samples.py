"""One labelled sample and all it concerns: cpp/stream.hpp."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import divergence_for, rows_for

from annealed.kernels import CompiledKernel, ReferenceKernel
from annealed.kernels.protocol import ENDED, WRONG

D, CLASSES, N = 3, 2, 80
LEVEL = {
    "T": 0.5, "small_step": 0.0, "a": 1.0, "b": 0.9, "alpha_min": 0.0, "first_axis": 10,
    "second_axis": 20, "at_least": 1000, "at_most": 2000, "patience": 5, "by_roles": True, "n": 0.0,
}  # fmt: skip


class Parts:
    """Levels, a soft LVQ, neighbours and means, all just begun."""

    def __init__(self, name="squared_euclidean", rate=0.05):
        rng = np.random.default_rng(0)
        self.kernel = kernel = CompiledKernel(divergence_for(name, rng, D))
        self.X = X = np.ascontiguousarray(rows_for(name, rng, N, D))
        self.y = rng.integers(0, CLASSES, N).astype(np.int32)
        self.w = rng.choice([0.5, 1.0, 2.0], N)
        low, high = kernel.divergence.bounds(X[0])
        start = np.clip(X[:4], low, high)
        self.levels = [
            kernel.begin_level(
                start[2 * c : 2 * c + 2], np.full(2, 0.5), np.ones((2, D)), np.zeros(2), LEVEL,
                low, high,
            )
            for c in range(CLASSES)
        ]  # fmt: skip
        soft = {"rate": rate, "batch": 4, "temperatures": True, "relevances": True}
        self.soft = kernel.begin_soft_lvq(
            start, np.zeros(4), np.zeros(4), np.zeros(D), np.array([0, 2, 4]), np.ones(D),
            soft | {"T": 0.5, "recent": 0.01}, low, high,
        )  # fmt: skip
        near = {"rate": 0.05, "batch": 4, "recency": 0.05, "relevances": True}
        self.neighbours, self.means = (
            kernel.begin_nearest(start[0], room, CLASSES, near | {"means": means}, low, high)
            for room, means in ((20, False), (CLASSES, True))
        )
        self.answers = [np.zeros((N, CLASSES), dtype=np.float32) for _ in range(2)]
        self.classes, self.counted = np.zeros(N, dtype=np.int32), np.zeros(N)
        self.factor = np.array([0.5, 1.5])

    def stream(self, shares=(1.0, 0.0), race=True, T=0.0, keys=None):
        return self.kernel.begin_stream(
            self.kernel.sample_format(keys), self.levels, np.array([3.0, 5.0]), T,
            [self.soft, self.neighbours], np.array(shares), [self.means], self.factor,
            self.answers if race else [], self.classes if race else self.classes[:0],
            self.counted if race else self.counted[:0],
        )  # fmt: skip


@pytest.mark.parametrize("name", ["squared_euclidean", "i_divergence", "logistic", "mahalanobis"])
def test_one_call_does_what_everyone_does_alone(name):
    together, alone = Parts(name), Parts(name)
    stream, X, y, w = together.stream(), together.X, together.y, together.w
    told = [stream.learn(X[k], int(y[k]), float(w[k]), k) for k in range(N)]
    some = np.array(told) >= 0  # the edge of a domain is looked at more closely
    assert some.sum() > N / 4
    X, y, w = X[some], y[some], w[some]
    counted = w * alone.factor[y]
    alone.kernel.learn(alone.levels, X, None, y, w, 0, len(X))
    soft = alone.soft.learn(X, None, y, counted, 0, len(X), True, True)
    near = alone.neighbours.learn(X, None, y, counted, 0, len(X), True)
    alone.means.learn(X, None, y, counted, 0, len(X), False, False)
    for replies, noted in zip((soft, near), together.answers, strict=True):
        np.testing.assert_array_equal(noted[some], replies.astype(np.float32))
    assert [bool(each & WRONG) for each in told if each >= 0] == (soft.argmax(1) != y).tolist()
    np.testing.assert_array_equal(together.classes[some], y)
    np.testing.assert_array_equal(together.counted[some], counted)
    for one, other in zip(
        (*together.levels, together.soft, together.neighbours, together.means),
        (*alone.levels, alone.soft, alone.neighbours, alone.means),
        strict=True,
    ):
        one, other = one.state(), other.state()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)


def test_who_has_a_share_answers_and_asking_changes_nothing():
    parts = Parts()
    stream = parts.stream((0.25, 0.75), race=False)
    for k in range(40):
        stream.learn(parts.X[k], int(parts.y[k]), 1.0, 0)
    before = parts.soft.state(), parts.neighbours.state()
    each = [parts.stream(shares, race=False).answer(parts.X[50]) for shares in ((1.0, 0), (0, 1.0))]
    told = stream.answer(parts.X[50])
    np.testing.assert_array_equal(told, 0.25 * each[0] + 0.75 * each[1])
    assert stream.likeliest(parts.X[50]) == told.argmax()
    for was, run in zip(before, (parts.soft, parts.neighbours), strict=True):
        now = run.state()
        for key in was:
            np.testing.assert_array_equal(was[key], now[key])
    # What is learnt is told by what was answered before.
    y = int(told.argmax())
    assert stream.learn(parts.X[50], 1 - y, 1.0, 0) & WRONG
    reply = parts.soft.learn(parts.X[51:52], None, parts.y[51:52], None, 0, 1, True, True)
    assert reply.shape == (1, CLASSES)


@pytest.mark.parametrize("race", [False, True])
@pytest.mark.parametrize("shares", [(0.25, 0.75), (0.0, 0.0)])
def test_rows_are_learnt_as_single_samples(race, shares):
    T = 0.0 if any(shares) else 0.5
    one, rows = Parts(), Parts()
    weights = np.where(np.arange(N) % 7 == 3, 0.0, one.w)
    stream, told = one.stream(shares, race, T), np.full(N, np.nan)
    for at, k in enumerate(np.flatnonzero(weights)):
        told[k] = stream.learn(one.X[k], int(one.y[k]), float(weights[k]), at) & WRONG
    blocks, begin, at = [], 0, 0
    stream = rows.stream(shares, race, T)
    while begin < N:
        end = min(begin + 23, N)
        begin, wrong = stream.learn_rows(rows.X, rows.y, weights, begin, end, at)
        at += int((~np.isnan(wrong)).sum())
        blocks.append(wrong)
    np.testing.assert_array_equal(np.concatenate(blocks), told)
    for mine, theirs in zip(one.answers, rows.answers, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(one.classes, rows.classes)
    np.testing.assert_array_equal(one.counted, rows.counted)
    for mine, theirs in ((one.soft, rows.soft), (one.means, rows.means)):
        mine, theirs = mine.state(), theirs.state()
        for key in mine:
            np.testing.assert_array_equal(mine[key], theirs[key])


def test_where_nobody_has_a_share_the_levels_answer():
    parts = Parts()
    parts.kernel.learn(parts.levels, parts.X, None, parts.y, None, 0, N)
    stream = parts.stream((0.0, 0.0), race=False, T=0.5)
    read = [parts.kernel.read(level) for level in parts.levels]
    prior = np.array([3.0, 5.0]) + np.bincount(parts.y)
    mu = np.concatenate([state["mu"] for state in read])
    rho = np.concatenate([
        n * state["r"] / state["r"].sum() for n, state in zip(prior, read, strict=True)
    ])  # fmt: skip
    expected = parts.kernel.associate(
        parts.X[:9], mu, np.log(rho), 0.5, np.array([0, 0, 1, 1]), CLASSES
    )[0]
    np.testing.assert_allclose([stream.answer(x) for x in parts.X[:9]], expected, rtol=1e-9)
    assert parts.stream((0.0, 0.0), race=False).answer(parts.X[0]) is None
    assert parts.stream((0.0, 0.0), race=False).likeliest(parts.X[0]) == -1


@pytest.mark.parametrize(
    "sample",
    [
        None, 5, "abc", [1.0, 2.0], [1.0, 2.0, "x"], {"a": 1.0}, [1.0, 2.0, np.nan],
        np.ones(3, dtype=np.float32), np.ones(6)[::2], np.ones((1, 3)), np.ones(4),
        [1.0, 2.0, 1e308],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_out_of_the_ordinary_is_left_alone(sample):
    parts = Parts()
    stream, before = parts.stream(keys=("a", "b", "c")), parts.neighbours.state()
    assert stream.learn(sample, 0, 1.0, 0) == -1
    assert stream.likeliest(sample) == -1 and stream.answer(sample) is None
    assert parts.neighbours.state()["seen"] == before["seen"] == 0


def test_samples_come_as_arrays_lists_and_dicts():
    parts = Parts()
    stream = parts.stream(keys=("a", "b", "c"))
    for k, form in enumerate([
        lambda x: x, list, tuple, lambda x: {"c": x[2], "a": x[0], "b": x[1]},
        lambda x: memoryview(x),
    ]):  # fmt: skip
        assert stream.learn(form(parts.X[k]), int(parts.y[k]), 1.0, k) >= 0
    twin = Parts()
    twin.neighbours.learn(twin.X, None, twin.y, twin.factor[twin.y], 0, 5)
    np.testing.assert_array_equal(parts.neighbours.state()["mu"], twin.neighbours.state()["mu"])


def test_the_end_of_a_level_is_told_and_weights_are_checked():
    parts = Parts()
    stream = parts.stream()
    for w in (0.0, -1.0, np.nan, np.inf):
        assert stream.learn(parts.X[0], 0, w, 0) == -1
    parts.factor[0] = 0.0
    assert parts.stream().learn(parts.X[0], 0, 1.0, 0) == -1  # counts for nobody: looked at
    ended = CompiledKernel(parts.kernel.divergence).begin_warm_up(D, 1)
    parts.levels[1] = ended
    assert parts.stream().learn(parts.X[0], 1, 1.0, 0) & ENDED


def test_parts_that_do_not_fit_are_refused():
    parts = Parts()
    stream = parts.stream()
    with pytest.raises(ValueError, match="class that does not exist"):
        stream.learn(parts.X[0], CLASSES, 1.0, 0)
    with pytest.raises(ValueError, match="no room"):
        stream.learn(parts.X[0], 0, 1.0, N)
    with pytest.raises(IndexError, match="no room"):
        stream.learn_rows(parts.X, parts.y, None, 0, 10, N - 9)
    stream.learn_rows(parts.X, parts.y, np.append(np.zeros(9), np.ones(N - 9)), 0, 10, N - 1)
    with pytest.raises(IndexError, match="class that does not exist"):
        stream.learn_rows(parts.X, parts.y + 1, None, 0, N, 0)
    with pytest.raises(ValueError, match="do not fit"):
        parts.stream((1.0,))
    for name, other in (
        ("factor", np.ones(3)),
        ("counted", np.zeros(N - 1)),
        ("answers", parts.answers[:1]),
        ("answers", [np.zeros((N, 3), dtype=np.float32)] * 2),
        ("levels", parts.levels[:1]),
    ):
        wrong = Parts()
        setattr(wrong, name, other)
        with pytest.raises(ValueError, match="do not fit"):
            wrong.stream()
    reference = ReferenceKernel(parts.kernel.divergence)
    assert reference.sample_format(None) is None  # every sample is looked at
    assert reference.begin_stream(parts.kernel.sample_format(None)) is None
