"""Rows in chunks: arrays of Dask into everything that learns and reads."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import peak_memory
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from thoroughness import examples

from annealed import ODAClassifier, ODAClustering
from annealed.estimators import chunked_rows

dask = pytest.importorskip("dask", exc_type=ImportError)
da = pytest.importorskip("dask.array", exc_type=ImportError)

CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
QUICK = ODAClassifier(level="last", fine_tune=None, random_state=0)


def rows_of(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    k = rng.integers(3, size=n)
    return CENTRES[k] + rng.normal(size=(n, 2)), k


X, Y = rows_of()
CHUNKED, LABELS = da.from_array(X, chunks=(400, 1)), da.from_array(Y, chunks=700)


def same_model(one, other):
    return one.codevectors_.tobytes() == other.codevectors_.tobytes()


def nobody(*_, **__):
    raise AssertionError("something was computed")


@pytest.fixture
def few_drawn(monkeypatch):
    """At most 600 rows are drawn, and of a class at least 50."""
    monkeypatch.setattr(chunked_rows, "MOST_DRAWN", 600)
    monkeypatch.setattr(chunked_rows, "ROWS_OF_A_CLUSTER", 1)
    monkeypatch.setattr(chunked_rows, "LEAST_OF_A_CLASS", 50)


# -- the same as rows in memory ------------------------------------------------------------------


def test_few_rows_are_learnt_as_if_they_were_in_memory():
    weights = np.linspace(0.5, 1.5, len(X))
    clusters = ODAClustering(3, random_state=0).fit(X, sample_weight=weights)
    for given_weights in (weights, da.from_array(weights, chunks=100)):
        chunked = ODAClustering(3, random_state=0).fit(CHUNKED, sample_weight=given_weights)
        assert same_model(chunked, clusters) and not hasattr(chunked, "labels_")
    model = clone(QUICK).fit(X, Y)
    for labels in (LABELS, Y, Y.tolist()):
        assert same_model(clone(QUICK).fit(CHUNKED, labels), model)
    names = da.from_array(np.array(["a", "b", "c"])[Y], chunks=300)
    assert clone(QUICK).fit(CHUNKED, names).classes_.tolist() == ["a", "b", "c"]


def test_a_stream_of_chunks_is_the_stream_of_its_rows():
    clusters = ODAClustering(random_state=0).partial_fit(CHUNKED)
    assert same_model(clusters, ODAClustering(random_state=0).partial_fit(X))
    model = ODAClassifier(random_state=0).partial_fit(CHUNKED, LABELS, classes=[0, 1, 2, 3])
    twin = ODAClassifier(random_state=0).partial_fit(X, Y, classes=[0, 1, 2, 3])
    assert model.predict_proba(CHUNKED).compute().tobytes() == twin.predict_proba(X).tobytes()
    before = pickle.dumps(clusters)
    broken = da.concatenate([CHUNKED, da.full((10, 2), np.nan, chunks=(10, 2))])
    with pytest.raises(ValueError, match="NaN"):
        clusters.partial_fit(broken)
    assert pickle.dumps(clusters) == before


@pytest.fixture(scope="module")
def models():
    names = np.array(["a", "b", "c"])[Y]
    return (
        ODAClustering(random_state=0).fit(X),
        ODAClassifier(random_state=0).fit(X, names),
        ODAClustering(3, polish=True, random_state=0).fit(X),
    )


@pytest.mark.parametrize("chunks", [((400, 400, 400, 300), 1), (1500, 2), (97, 2), ((0, 1500), 2)])
def test_answers_are_lazy_arrays_of_what_rows_in_memory_get(models, chunks):
    rows = da.from_array(X, chunks=1500).rechunk(chunks)
    clusters, classes, polished = models
    for model in (clusters, classes, polished):
        for name in ("predict", "predict_proba", "transform", "score_samples"):
            expected = getattr(model, name)(X)
            with dask.config.set(scheduler=nobody):
                found = getattr(model, name)(rows)
            assert found.shape == expected.shape and found.dtype == expected.dtype
            assert found.compute(scheduler="synchronous").tobytes() == expected.tobytes()
    labels = clone(clusters).fit_predict(rows)
    assert labels.compute().tobytes() == clusters.labels_.tobytes()
    assert clusters.score(rows) == pytest.approx(clusters.score(X), rel=1e-12)
    names = np.array(["a", "b", "c"])[Y]
    assert classes.score(rows, names) == classes.score(X, names)
    weights = np.linspace(0.0, 1.0, len(X))
    for model, labels in ((clusters, None), (classes, names)):
        weighted = model.score(rows, labels, sample_weight=weights)
        assert weighted == pytest.approx(model.score(X, labels, sample_weight=weights), rel=1e-12)


def test_answers_are_those_of_the_model_as_it_was():
    model = ODAClustering(random_state=0).partial_fit(X[:600])
    before = model.predict_proba(X)
    found = model.predict_proba(CHUNKED)
    for row in X[600:900] + 3:
        model.learn_one(row)
    model.partial_fit(X + 5)
    assert found.compute().tobytes() == before.tobytes()


def test_tasks_have_names_that_people_can_read():
    from dask.callbacks import Callback
    from dask.utils import key_split

    model = QUICK.fit(X, Y)
    for name in ("predict", "predict_proba", "score_samples"):
        tasks = getattr(model, name)(CHUNKED).dask.to_dict()
        assert f"annealed-{name.replace('_', '-')}" in {key_split(key) for key in tasks}
    seen = set()

    def note(key, graph, state):
        seen.add(key_split(key))

    with dask.config.set(scheduler="synchronous"), Callback(pretask=note):
        QUICK.fit(CHUNKED, LABELS).score(CHUNKED, LABELS)
        ODAClustering(3, random_state=0).partial_fit(CHUNKED)
    assert {"annealed-classes", "annealed-draw", "annealed-score", "annealed-score-sum"} <= seen
    assert "annealed-chunk" in seen


# -- many rows -----------------------------------------------------------------------------------


def drawn_of(rows, labels=None):
    rng = np.random.default_rng(7)
    return rows.draw(600, lambda: rng, rows.beside(labels, "y"), rows.nothing())


@examples(6)
@given(
    chunks=st.lists(st.integers(1, 700), min_size=1, max_size=6),
    scheduler=st.sampled_from(["synchronous", "threads"]),
)
def test_the_rows_drawn_do_not_depend_on_chunks_or_who_runs_them(chunks, scheduler):
    lengths = np.minimum(np.diff([0, *np.cumsum(chunks).clip(max=1500), 1500]), 1500)
    rows = da.from_array(X, chunks=(tuple(int(n) for n in lengths if n), 2))
    labels = da.from_array(Y, chunks=500)
    chunked = chunked_rows.ChunkedRows(rows)
    with dask.config.set(scheduler=scheduler):
        some, of_classes = drawn_of(chunked), drawn_of(chunked, labels)
    once = chunked_rows.ChunkedRows(da.from_array(X, chunks=1500))
    np.testing.assert_array_equal(some.rows, drawn_of(once).rows)
    assert len(np.unique(some.rows, axis=0)) == 600 and some.total == 1500
    again = drawn_of(once, Y)
    np.testing.assert_array_equal(of_classes.rows, again.rows)
    np.testing.assert_array_equal(of_classes.labels, again.labels)


def test_rows_are_drawn_uniformly_and_count_as_all(few_drawn):
    many = da.from_array(np.arange(20_000.0)[:, None], chunks=3000)
    drawn = drawn_of(chunked_rows.ChunkedRows(many))
    # The mean of 600 of 20,000 has a standard error of 232.
    assert abs(drawn.rows.mean() - 10_000) < 4 * 232
    wide = da.from_array(rows_of(20_000, seed=1)[0], chunks=3000)
    model = ODAClustering(random_state=0).fit(wide)
    assert model.n_clusters_ == 3
    assert model._learner.annealer.classes[0].total_weight == pytest.approx(20_000)
    again = ODAClustering(random_state=0).fit(wide.rechunk(777))
    assert same_model(again, model)
    assert not same_model(ODAClustering(random_state=1).fit(wide), model)


def test_a_rare_class_is_learnt_and_stays_rare(few_drawn):
    rng = np.random.default_rng(3)
    kind = np.zeros(30_000, dtype=int)
    kind[rng.choice(30_000, 60, replace=False)] = 1  # of which 600 drawn alike would have one
    rows = CENTRES[kind] + rng.normal(size=(30_000, 2))
    model = ODAClassifier(random_state=0).fit(da.from_array(rows, chunks=4000), kind)
    assert model.classes_.tolist() == [0, 1]
    assert (model.predict(rows[kind == 1]) == 1).mean() > 0.95
    weights = [state.total_weight for state in model._learner.annealer.classes]
    assert weights == pytest.approx([29_940, 60], rel=1e-6)


def test_a_smallest_cluster_is_one_of_all_rows(few_drawn):
    rng = np.random.default_rng(0)
    few = np.vstack([CENTRES[rng.integers(2, size=11_400)], np.tile(CENTRES[2], (600, 1))])
    rows = da.from_array(rng.permutation(few) + rng.normal(size=(12_000, 2)), chunks=2000)
    for size, clusters in ((300, 3), (1500, 2)):
        model = ODAClustering(min_cluster_size=size, random_state=0).fit(rows)
        assert model.n_clusters_ == clusters


def test_more_clusters_take_more_rows_and_more_features_fewer():
    assert chunked_rows.rows_to_draw(8, None) == 200_000
    assert chunked_rows.rows_to_draw(8, 1000) == 1_000_000
    assert chunked_rows.rows_to_draw(1000, None) == 20_000


def test_chunks_of_unknown_length_are_counted():
    model = ODAClustering(random_state=0).fit(X)
    unknown, labels = CHUNKED[CHUNKED[:, 0] > -99], LABELS.rechunk(400)[CHUNKED[:, 0] > -99]
    assert np.isnan(unknown.shape[0])
    assert same_model(ODAClustering(random_state=0).fit(unknown), model)
    np.testing.assert_array_equal(model.predict(unknown).compute(), model.predict(X))
    classes = QUICK.fit(unknown, labels)
    assert classes.score(unknown, labels) == classes.score(X, Y)
    assert classes.score(unknown, Y) == classes.score(X, Y)


def test_what_does_not_fit_is_said():
    model = ODAClustering(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but ODAClustering is expecting 2"):
        model.predict(da.zeros((10, 3)))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        ODAClustering().fit(da.zeros(10))
    for engine in ("online", "block"):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            ODAClustering(engine=engine).fit(da.zeros((0, 3)))
    with pytest.raises(ValueError, match="X has 1500 rows, but y has 1400"):
        QUICK.fit(CHUNKED, LABELS[:1400])
    with pytest.raises(ValueError, match="X has 1500 rows, but sample_weight has 3"):
        ODAClustering().fit(CHUNKED, sample_weight=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="y contains NaN"):
        QUICK.fit(CHUNKED, da.where(LABELS == 1, np.nan, LABELS))
    with pytest.raises(ValueError, match="requires y to be passed"):
        ODAClassifier().fit(CHUNKED, None)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(CHUNKED * np.nan).compute()
    frame = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    with pytest.raises(TypeError, match=r"X is a DataFrame of Dask, not an array"):
        ODAClustering().fit(frame.from_dask_array(CHUNKED, columns=["a", "b"]))


# -- blocks, and polish, over the rows where they lie ---------------------------------------------

BLOCKS = ODAClustering(3, shape="round", gamma=0.5, engine="block", random_state=0)


@pytest.fixture
def worth_little(monkeypatch):
    """Blocks of some hundred rows are worth a task."""
    monkeypatch.setattr(chunked_rows, "WORTH_TASKS", 100_000)
    monkeypatch.setattr(chunked_rows, "MOST_DRAWN", 1400)


def names_of_tasks(scheduler, call):
    from dask.callbacks import Callback
    from dask.utils import key_split

    seen = []
    with dask.config.set(scheduler=scheduler), Callback(pretask=lambda k, *_: seen.append(k)):
        call()
    return [key_split(key) for key in seen]


def test_large_blocks_are_tasks_and_small_ones_are_not(worth_little, monkeypatch):
    model = clone(BLOCKS)
    names = names_of_tasks("threads", lambda: model.fit(CHUNKED))
    assert names.count("annealed-piece") == chunked_rows.PIECES
    steps = names.count("annealed-codebook") or names.count("annealed-block-sum")
    assert steps >= 10 and names.count("annealed-block-sum") == steps
    assert 2 * steps < names.count("annealed-block") <= chunked_rows.PIECES * steps
    monkeypatch.setattr(chunked_rows, "WORTH_TASKS", 10**12)
    here = clone(BLOCKS)
    assert "annealed-block" not in names_of_tasks("threads", lambda: here.fit(CHUNKED))
    # The sums of blocks are the same but for rounding.
    np.testing.assert_allclose(model.codevectors_, here.codevectors_, rtol=1e-9, atol=1e-9)
    assert not same_model(model, here)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_blocks_do_not_depend_on_chunks_or_who_runs_them(worth_little, dtype):
    rows, weights = (4 * X).astype(dtype), np.linspace(0.0, 2.0, len(X))

    def fitted(chunks, scheduler):
        with dask.config.set(scheduler=scheduler):
            return clone(BLOCKS).fit(da.from_array(rows, chunks=chunks), sample_weight=weights)

    model = fitted(1500, "synchronous")
    for chunks in ((400, 1), (97, 2), ((0, 1, 1499), 2)):
        assert same_path(fitted(chunks, "threads"), model)
    alone = clone(BLOCKS).fit(rows[:1400].astype(float), sample_weight=weights[:1400])
    assert model.n_clusters_ == alone.n_clusters_ == 3


def same_path(one, other):
    return same_model(one, other) and all(
        a.codevectors.tobytes() == b.codevectors.tobytes() and a.distortion == b.distortion
        for a, b in zip(one.path_, other.path_, strict=True)
    )


@pytest.mark.parametrize("weights", [None, np.linspace(0.0, 2.0, len(X))])
@pytest.mark.parametrize("engine", ["online", "block"])
def test_a_polish_is_one_of_all_rows(few_drawn, engine, weights):
    model = ODAClustering(3, polish=True, engine=engine, random_state=0)
    names = names_of_tasks("threads", lambda: model.fit(CHUNKED, sample_weight=weights))
    assert names.count("annealed-polish") % CHUNKED.numblocks[0] == 0
    assert "annealed-polish-sum" in names
    # As Lloyd's algorithm ends in one process, with all rows.
    w, nearest = np.ones(len(X)) if weights is None else weights, model.predict(X)
    for k in range(3):
        own = nearest == k
        mean = np.average(X[own], axis=0, weights=w[own])
        np.testing.assert_allclose(model.cluster_centers_[k], mean, rtol=1e-12)
        assert model.weights_[k] == pytest.approx(w[own].sum() / w.sum(), rel=1e-12)
    assert model.score(X, sample_weight=weights) == pytest.approx(model._model.score, rel=1e-12)


def test_a_polish_looks_at_rows_that_were_not_drawn(few_drawn):
    model = ODAClustering(3, polish=True, random_state=0).fit(CHUNKED)
    drawn = model._drawn(CHUNKED, None, None).rows
    broken = np.where(np.isin(X[:, :1], drawn[:, 0]), X, np.nan)
    with pytest.raises(ValueError, match="Input X contains NaN or infinity"):
        clone(model).fit(da.from_array(broken, chunks=500))


# -- processes -----------------------------------------------------------------------------------


def rows_with_a_death(block, marker, block_info=None):
    """Random rows; whoever makes those of the third chunk first is killed."""
    (k, _) = block_info[None]["chunk-location"]
    if k == 2 and marker is not None:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return rows_of(500, seed=k)[0]


def chunked_rows_with_a_death(marker):
    shape = da.zeros((4000, 2), chunks=(500, 2))
    return shape.map_blocks(rows_with_a_death, marker=marker, dtype=float, meta=np.empty((0, 2)))


def test_a_worker_that_is_killed_changes_no_bit(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", exc_type=ImportError)
    rows = chunked_rows_with_a_death(None)
    monkeypatch.setattr(chunked_rows, "MOST_DRAWN", 2000)
    alone = ODAClustering(3, random_state=0).fit(rows)
    labels, score = alone.predict(rows).compute(), alone.score(rows)
    monkeypatch.setattr(chunked_rows, "WORTH_TASKS", 100_000)
    blocks = clone(BLOCKS).fit(rows)
    # Workers import what is here by the name of this file, and once for all of them: they are
    # forked from a process that has done so.
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)
    multiprocessing.set_forkserver_preload(["distributed", __name__])
    monkeypatch.setattr("distributed.utils._forkserver_preload_set", True, raising=False)
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        marker = tmp_path / "somebody died"
        mortal = chunked_rows_with_a_death(str(marker))
        assert same_model(clone(alone).fit(mortal), alone)
        assert marker.exists()
        assert alone.predict(mortal).compute().tobytes() == labels.tobytes()
        assert alone.score(mortal) == score
        # Blocks: one of the workers, with the pieces it has, is killed on the way down.
        killed = []

        def kill_one(level):
            if level.n_codevectors == 2 and not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], signal.SIGKILL)

        mortal = clone(blocks).set_params(callbacks=[kill_one]).fit(rows)
        assert killed and same_path(mortal, blocks)


PEAK = """
import dask, dask.array as da
from peak_memory import peak
from annealed import ODAClustering
from annealed.estimators import chunked_rows

chunked_rows.MOST_DRAWN = 20_000

def all_of_it(rows):
    model = ODAClustering(2, shape="round", gamma=0.5, random_state=0).fit(rows)
    return model.score(rows), model.predict(rows).mean().compute()

with dask.config.set(scheduler="synchronous"):
    all_of_it(da.random.default_rng(0).normal(size=(50_000, 20), chunks=(25_000, 20)))
    before = peak()
    all_of_it(da.random.default_rng(0).normal(size=(500_000, 20), chunks=(25_000, 20)))
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(not peak_memory.KNOWN, reason="only Linux tells")
def test_chunks_are_never_all_in_memory():
    """Of 80 MB of rows, in chunks of 4 MB, at most 40 MB are in memory at any moment."""
    assert float(peak_memory.in_a_process("-c", PEAK)) < 40


def test_dask_is_not_imported_for_rows_in_memory():
    program = "import sys, numpy, annealed; annealed.ODAClustering(2).fit_predict(numpy.eye(9))"
    done = subprocess.run([sys.executable, "-c", f"{program}; print('dask' in sys.modules)"],
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.stdout == "False\n", done.stderr
