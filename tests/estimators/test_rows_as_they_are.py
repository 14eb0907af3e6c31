"""Rows are read where they lie: float32 and memory maps are not copied."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from annealed import ODAClassifier, ODAClustering


@pytest.fixture
def on_disk(tmp_path):
    """100,000 rows of 128 float32 features (51 MB), four clusters, in a file."""
    rng = np.random.default_rng(0)
    X = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(100_000, 128))
    centres = rng.uniform(-6, 6, size=(4, 128)).astype(np.float32)
    for begin in range(0, len(X), 10_000):
        rows = np.arange(begin, begin + 10_000)
        X[rows] = centres[rows % 4] + rng.standard_normal(size=(10_000, 128), dtype=np.float32)
    X.flush()
    return np.memmap(tmp_path / "rows", dtype=np.float32, mode="r", shape=X.shape)


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_maps_of_single_precision_are_drawn_from_and_not_copied(on_disk):
    model = ODAClustering(4, shape="round", compute_labels=False, random_state=0)
    assert peak_of(lambda: model.fit(on_disk)) < 0.5 * on_disk.nbytes
    assert not hasattr(model, "labels_")
    assert peak_of(lambda: model.predict(on_disk)) < 0.1 * on_disk.nbytes
    np.testing.assert_array_equal(np.bincount(model.predict(on_disk)), [25_000] * 4)


def test_single_precision_loses_nothing_but_what_rows_have_lost(on_disk):
    X = np.array(on_disk[:2000])
    for make in (
        lambda rows: ODAClustering(4, random_state=0).fit(rows),
        lambda rows: ODAClassifier(random_state=0).fit(rows, np.arange(2000) % 4),
    ):
        single, double = make(X), make(X.astype(float))
        np.testing.assert_allclose(single.codevectors_, double.codevectors_, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            single.predict_proba(X), double.predict_proba(X.astype(float)), atol=1e-6
        )
