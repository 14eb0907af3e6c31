"""Threads: as many as scikit-learn would use, and no bit depends on how many."""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import COMPILED, divergence_for, rows_for
from sklearn.datasets import load_digits, make_blobs, make_moons
from thoroughness import examples
from threadpoolctl import threadpool_info, threadpool_limits

from annealed import ODAClassifier, ODAClustering, threads
from annealed.annealing.n_clusters import KINDS
from annealed.kernels import CompiledKernel, column_ranges
from annealed.kernels.compiled import core
from annealed.threads import go_on, in_one_thread, in_threads, n_threads, with_one_blas_thread


@contextlib.contextmanager
def allowed(n):
    """As if scikit-learn used n threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_allowed", lambda: n)
        yield


def same_bits(answers):
    """Whether what 1, 2, ... threads answer is one and the same."""
    first, *others = answers
    for other in others:
        for one, same in zip(first, other, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(same).tobytes()


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("name", [*COMPILED, "mahalanobis"])
@examples(6)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 40),
    d=st.integers(2, 20),
    single=st.booleans(),
    weighted=st.booleans(),
)
def test_reading_gives_the_same_bits_in_any_number_of_threads(name, seed, K, d, single, weighted):
    rng = np.random.default_rng(seed)
    rows = 4 * 2**20 // (K * (d + 8)) + int(rng.integers(100))  # enough for four threads
    assert core.threads_for(rows * K * (d + 8), 3) == 3
    X = np.tile(rows_for(name, rng, 500, d), (rows // 500 + 1, 1))[:rows]
    X = X.astype(np.float32) if single else X
    divergence = divergence_for(name, rng, d)
    low, high = divergence.bounds(X.mean(axis=0, dtype=float))
    mu = np.clip(rows_for(name, rng, K, d), low, high)
    log_weight = np.log(rng.dirichlet(np.ones(K)))
    group, classes = rng.integers(3, size=K), rng.integers(3, size=rows).astype(np.int32)
    group[: min(K, 3)] = np.arange(min(K, 3))
    weights = rng.uniform(0, 2, size=rows) if weighted else None
    relevance = rng.uniform(0.5, 2, size=d) if weighted and name != "mahalanobis" else None
    kernel, found = CompiledKernel(divergence), []
    for n in (1, 2, 3):
        with allowed(n):
            found.append(
                [
                    kernel.divergences(X, mu, relevance),
                    kernel.assign(X, mu, log_weight, 0.5),
                    kernel.assign(X, mu, log_weight, 0.0),
                    *kernel.associate(X, mu, log_weight, 0.5, group, 3),
                    kernel.losses(X, classes, mu, log_weight, 0.5, group, np.array([0.5, 2.0])),
                    *kernel.hard_sums(X, mu, weights),
                    *column_ranges(X),
                ]
            )
    same_bits(found)


@pytest.mark.parametrize("d", [1, 3, 8, 31])
def test_rows_read_together_give_the_bits_of_rows_read_alone(d):
    rng = np.random.default_rng(d)
    X, mu, weight = rng.normal(size=(37, d)), rng.normal(size=(11, d)), np.zeros(11)
    kernel = CompiledKernel(divergence_for("squared_euclidean", rng, d))
    alone = [kernel.divergences(X[k : k + 1], mu)[0] for k in range(37)]
    np.testing.assert_array_equal(kernel.divergences(X, mu), alone)
    labels = [kernel.assign(X[k : k + 1], mu, weight, 1.0)[0] for k in range(37)]
    np.testing.assert_array_equal(kernel.assign(X, mu, weight, 1.0), labels)


@pytest.mark.quality
@examples(20)
@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 30),
    d=st.integers(1, 12),
    offset=st.sampled_from([0.0, 1e3, 1e8, -1e12]),
    T=st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e6]),
    alike=st.booleans(),
)
def test_labels_by_products_are_those_of_differences(seed, K, d, offset, T, alike):
    rng = np.random.default_rng(seed)
    mu = offset + rng.normal(size=(K, d))
    if alike:  # codevectors that are equal, or nearly, and rows in the middle between two
        mu[rng.integers(K, size=K // 2)] = mu[0]
        mu[rng.integers(K)] = mu[0] * (1 + 1e-15)
    X = offset + rng.normal(size=(200, d))
    X[:60] = (mu[rng.integers(K, size=60)] + mu[rng.integers(K, size=60)]) / 2
    weight = rng.integers(4, size=K) / 4.0 - 1.0
    if K > 2:
        weight[rng.integers(K)] = -np.inf
    kernel = CompiledKernel(divergence_for("squared_euclidean", rng, d))
    distances = kernel.divergences(X, mu)
    if T > 0:
        expected = (weight + (-1 / T) * distances).argmax(axis=1)
    else:
        possible = np.where(np.isfinite(weight), distances, np.inf)
        nearest = possible.min(axis=1, keepdims=True)
        expected = np.where(possible == nearest, weight, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(kernel.assign(X, mu, weight, T), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranges_of_columns_are_those_of_numpy(dtype, order):
    X = np.asarray(np.random.default_rng(0).normal(size=(90_000, 7)), dtype=dtype, order=order)
    for rows in (X, X[::3], X[:, ::2]):
        lowest, highest, finite = column_ranges(rows)
        np.testing.assert_array_equal(lowest, rows.min(axis=0))
        np.testing.assert_array_equal(highest, rows.max(axis=0))
        assert finite
    for wrong in (np.nan, np.inf, -np.inf):
        X[80_001, 4] = wrong
        assert not column_ranges(X)[2]


def test_small_inputs_are_read_by_one_thread():
    assert core.threads_for(1000 * 10 * 20, 64) == 1
    assert core.threads_for(2.0**40, 64) == 64
    assert core.threads_for(2.0**40, 0) == 1


def test_other_estimators_limits_are_ours_too():
    with threadpool_limits(1):
        assert n_threads() == 1
    with threadpool_limits(1, user_api="openmp"):
        assert n_threads() == 1


def test_the_environment_limits_threads():
    told = "from annealed.threads import n_threads; print(n_threads())"
    for n in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-c", told],
            env={**__import__("os").environ, "OMP_NUM_THREADS": n},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == n


def _labels(model, X):
    with allowed(2):
        return model.predict(X)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_reads_in_threads_as_its_parent_did():
    X = np.random.default_rng(0).normal(size=(200_000, 4))
    model = ODAClustering(5, shape="round", random_state=0).fit(X[:500])
    before = _labels(model, X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_labels, (model, X)), before)


# -- learning ----------------------------------------------------------------------------------


def _state(model, X):
    return [*(level.codevectors for level in model.path_), *_answers(model, X)]


def _answers(model, X):
    return [model.codevectors_, model.predict_proba(X), model.predict(X)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: (ODAClustering(random_state=0), make_moons(1500, noise=0.05, random_state=0)[0]),
        lambda: (
            ODAClustering(random_state=0, shape="round"),  # asks surrogates
            make_blobs(800, 5, centers=4, random_state=1)[0],
        ),
        lambda: (
            ODAClustering(3, polish=True, random_state=0),
            make_blobs(900, centers=3, random_state=0)[0],
        ),
    ],
    ids=["any shape", "round", "polished"],
)
def test_clusters_are_the_same_bits_in_any_number_of_threads(make):
    found = []
    for n in (1, 2, 3):
        with allowed(n):
            model, X = make()
            found.append(_state(model.fit(X), X))
    same_bits(found)


def test_surrogates_are_judged_the_same_in_any_number_of_threads():
    X = make_blobs(800, 5, centers=4, random_state=1)[0]
    found = []
    for n in (1, 2, 3):
        with allowed(n):
            persistence = ODAClustering(shape="round", random_state=0).fit(X)._persistence
        assert np.isfinite(persistence.expected).any(), KINDS  # surrogates were asked
        found.append([persistence.expected, persistence.required])
    same_bits(found)


def test_classifiers_are_the_same_bits_in_any_number_of_threads():
    X, y = load_digits(return_X_y=True)
    X, y = X[:700], y[:700]
    found = []
    for n in (1, 2, 3):
        with allowed(n):
            found.append(_state(ODAClassifier(random_state=0).fit(X, y), X))
    same_bits(found)


@pytest.mark.parametrize("engine", ["online", "block"])
def test_callbacks_are_called_by_the_thread_that_fits_and_change_nothing(engine):
    X, y = load_digits(return_X_y=True)
    X, y, heard, found = X[:300], y[:300], [], []
    with allowed(3):
        for callbacks in ([], [lambda _: heard.append(threading.get_ident())]):
            model = ODAClassifier(engine=engine, random_state=0, callbacks=callbacks).fit(X, y)
            found.append(_state(model, X))
    assert set(heard) == {threading.get_ident()}
    assert len(heard) >= len(model.path_)
    same_bits(found)


def _blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_in_a_fit_and_as_many_as_before_afterwards():
    seen = []
    with threadpool_limits(2, user_api="blas"):
        before = _blas()
        X = make_blobs(300, random_state=0)[0]
        ODAClustering(random_state=0, callbacks=[lambda level: seen.append(_blas())]).fit(X)
        assert _blas() == before
    assert seen and all(set(blas) <= {1} for blas in seen)


def test_of_two_fits_at_once_the_last_to_end_gives_blas_back():
    with threadpool_limits(2, user_api="blas"):
        before = _blas()
        first, second = (
            with_one_blas_thread(_blas),
            with_one_blas_thread(lambda: (first(), _blas())),
        )
        while_both, while_one = second()
        assert set(while_both) | set(while_one) <= {1}
        assert _blas() == before


# -- pieces ------------------------------------------------------------------------------------


def test_pieces_come_back_in_their_order():
    assert in_threads(lambda k: k**2, range(50), threads=3) == [k**2 for k in range(50)]
    assert in_threads(lambda k: k, [], threads=3) == []


def test_pieces_are_done_in_several_threads_and_use_one_each():
    meeting = threading.Barrier(3, timeout=60)  # all three have to be there

    def piece(_):
        meeting.wait()
        mine = n_threads()
        meeting.wait()  # whoever is done leaves its part to the others
        return mine, threading.get_ident()

    with allowed(7):
        found = in_threads(piece, range(3), threads=3)
        assert n_threads() == 7
    assert [n for n, _ in found] == [1, 1, 1]
    assert len({thread for _, thread in found}) == 3


def test_pieces_that_are_fewer_share_the_threads_out_to_pieces_of_their_own():
    meeting = threading.Barrier(4, timeout=60)

    def piece(_):
        def part(_):
            meeting.wait()
            mine = n_threads()
            meeting.wait()
            return mine

        before, of_parts = n_threads(), in_threads(part, range(2))
        meeting_of_pieces.wait()
        return before, of_parts

    meeting_of_pieces = threading.Barrier(2, timeout=60)
    with allowed(5):
        assert in_threads(piece, range(2)) == [(2, [1, 1])] * 2
        assert n_threads() == 5


def test_the_last_pieces_get_the_threads_of_those_that_are_done():
    meeting = threading.Barrier(3, timeout=60)

    def piece(k):
        meeting.wait()
        mine = n_threads()
        meeting.wait()
        deadline = time.monotonic() + 60
        while k == 0 and n_threads() < 6 and time.monotonic() < deadline:
            time.sleep(0.001)
        return mine, n_threads() if k == 0 else None

    with allowed(6):
        assert in_threads(piece, range(3)) == [(2, 6), (2, None), (2, None)]


@pytest.mark.parametrize("function", [go_on, lambda: in_threads(lambda _: go_on(), range(2))])
def test_a_piece_that_fails_ends_the_others(function):
    begun = threading.Event()

    def piece(k):
        if k == 0:
            begun.wait(60)
            raise ValueError("the first one")
        begun.set()
        while True:  # goes on for ever, unless somebody tells it
            function()

    with allowed(4), pytest.raises(ValueError, match="the first one"):
        in_threads(piece, range(2))
    assert n_threads() >= 1
    go_on()  # nothing is left behind


def test_work_that_nobody_waits_for_has_no_result():
    begun, wrong = threading.Event(), []

    def piece(k):
        if k == 0:
            begun.wait(60)
            raise ValueError("the first one")

        def alone():
            begun.set()
            while True:
                go_on()

        wrong.append(in_one_thread(alone))

    with pytest.raises(ValueError, match="the first one"):
        in_threads(piece, range(2), threads=2)
    assert not wrong


def test_what_numpy_is_told_holds_in_pieces():
    with np.errstate(divide="raise"):
        assert in_threads(lambda _: np.geterr()["divide"], range(8), threads=2) == ["raise"] * 8
