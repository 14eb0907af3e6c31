"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import thoroughness  # noqa: F401  (loads the profile of Hypothesis)


def pytest_addoption(parser):
    parser.addoption(
        "--data-folder",
        help="folder with the data sets that cannot be generated (default: the environment "
        "variable ANNEALED_DATA, else ../shared/data beside the project)",
    )


@pytest.fixture(scope="session")
def data_folder(request):
    """Where the files of the data sets are looked for; it need not exist."""
    given = request.config.getoption("--data-folder") or os.environ.get("ANNEALED_DATA")
    return Path(given or Path(__file__).parents[2] / "shared" / "data").expanduser()


@pytest.fixture
def blobs():
    """Three well separated blobs in the plane: X of shape (240, 2) and labels 0, 1, 2."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 80)
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[y] + rng.normal(size=(240, 2))
    order = rng.permutation(240)
    return X[order], y[order]


class Done(NamedTuple):
    """What a process would have left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capsysbinary):
    """The command within this process, which spares the seconds that imports take."""
    from annealed.__main__ import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annealed", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsysbinary.readouterr()
        return Done(exit.value.code or 0, out.decode(), err.decode())

    return run
