"""Build the wheel of an editable install into a folder: ``python editable_wheel.py FOLDER``.

What pip does for ``pip install --editable``, except that the result is kept, so that any number of
environments can install it, and the environment it is built in too, so that the next build compiles
only what has changed. Run it from the project's folder, in an environment made for it.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path


def install(requirements: list[str]) -> None:
    """Into this environment."""
    if requirements:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*pip, *requirements], check=True)


def main(folder: Path) -> None:
    """Leave one wheel in the folder."""
    system = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    install(system["requires"])
    backend = importlib.import_module(system["build-backend"])
    install(backend.get_requires_for_build_editable())  # such as cmake, where there is none
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    backend.build_editable(str(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
