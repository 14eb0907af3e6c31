"""Options and fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # tests import `predicates`

settings.register_profile(
    "annealed", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("annealed")


def _default_data_folder():
    if "ANNEALED_DATA" in os.environ:
        return os.environ["ANNEALED_DATA"]
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return str(beside) if beside.is_dir() else None


def pytest_addoption(parser):
    parser.addoption(
        "--data-folder",
        default=_default_data_folder(),
        help="folder with the paper's data sets (default: $ANNEALED_DATA, else ../shared/data)",
    )


@pytest.fixture(scope="session")
def data_folder(request):
    """Folder of the real data sets; tests that need it are skipped where there is none."""
    folder = request.config.getoption("--data-folder")
    if folder is None:
        pytest.skip("no data folder: give --data-folder or set ANNEALED_DATA")
    folder = Path(folder)
    assert folder.is_dir(), f"--data-folder {folder} does not exist"
    return folder


@pytest.fixture
def blobs():
    """Three well separated blobs in the plane: X of shape (240, 2) and labels 0, 1, 2."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 80)
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[y] + rng.normal(size=(240, 2))
    order = rng.permutation(240)
    return X[order], y[order]
