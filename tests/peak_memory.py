"""The most memory that a process of its own has had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KNOWN = sys.platform == "linux"  # which alone has /proc/self/status


def peak():
    """Of this process, in kilobytes.

    Not `ru_maxrss`, with which a child begins where its parent was: it would hide what the child
    takes.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def in_a_process(*arguments, cwd=None):
    """What a program prints that may import this module: ``-c`` and its text, or its path."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=cwd, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
