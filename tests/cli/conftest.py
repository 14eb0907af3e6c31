"""What tests of commands share."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from annealed.__main__ import main


class Done(NamedTuple):
    """What a process would have left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capsysbinary):
    """The command within this process, which spares the seconds that imports take."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annealed", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsysbinary.readouterr()
        return Done(exit.value.code or 0, out.decode(), err.decode())

    return run
