"""Build the wheels and the source distribution into dist/, and try each wheel as a user would.

``python .ci/wheels.py PYTHON ...`` takes the names of interpreters (``python3.11``); those that are
not here are said so and left out. It runs in an environment with the dependency group `wheels`.

Wheels are compiled by zig for glibc 2.17, so that they install on every Linux that has a Python we
support. One serves Python 3.11, one, of the stable ABI, every later Python. Each is then installed
by every interpreter that may use it, in a fresh environment with nothing but that environment on
its PATH (no compiler) and nothing compiled by pip, and runs the first block of README.md and the
kernels' tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
PLATFORM = "manylinux_2_17_x86_64"
LARGEST = 5_000_000  # bytes of a wheel
STABLE_FROM = (3, 12)  # tool.scikit-build.wheel.py-api


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine."""

    path: Path
    version: tuple[int, int]

    @property
    def wheel_tag(self) -> str:
        """How the wheel begins that it uses."""
        if self.version >= STABLE_FROM:
            return "cp{}{}-abi3".format(*STABLE_FROM)
        return "cp{0}{1}-cp{0}{1}".format(*self.version)


def run(*command: object, **options: object) -> None:
    """Run a command, showing what it prints only if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(words)}: exit status {done.returncode}")


def interpreter(name: str) -> Interpreter | None:
    """The interpreter of that name, on the PATH or among pyenv's; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    places = [shutil.which(name), *sorted(pyenv.glob(f"*/bin/{name}"), reverse=True)]
    for place in filter(None, places):
        ask = [str(place), "-c", "import sys; print(*sys.version_info[:2])"]
        answer = subprocess.run(ask, capture_output=True, text=True)
        if answer.returncode == 0:  # a shim of pyenv may stand for nothing
            major, minor = map(int, answer.stdout.split())
            return Interpreter(Path(place), (major, minor))
    return None


def build_sdist() -> Path:
    """dist/annealed-*.tar.gz."""
    run(TOOLS / "python", "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    return next(DIST.glob("*.tar.gz"))


def build_wheel(sdist: Path, python: Interpreter, folder: Path) -> Path:
    """The wheel of that interpreter, from the source distribution, tagged for old systems."""
    environment = folder / f"build-{python.wheel_tag}"
    run(python.path, "-m", "venv", environment)
    compiler = {"CXX": str(ROOT / ".ci" / "zig-c++"), "ZIG_PYTHON": sys.executable}
    raw = folder / f"raw-{python.wheel_tag}"
    pip = (environment / "bin" / "python", "-m", "pip")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", raw, sdist, env=os.environ | compiler)
    (built,) = raw.glob("*.whl")
    # A repair with nothing to repair: it checks the platform and writes it into the name.
    tools = {"PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
    repair = ("auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", DIST)
    run(TOOLS / repair[0], *repair[1:], built, env=os.environ | tools)
    (wheel,) = DIST.glob(f"*-{python.wheel_tag}-*.whl")
    return wheel


def check_files(sdist: Path, wheels: list[Path]) -> None:
    """What the field's own checkers say, and the size."""
    run(TOOLS / "twine", "check", "--strict", sdist, *wheels)
    run(TOOLS / "check-wheel-contents", *wheels)
    for wheel in wheels:
        if "abi3" in wheel.name:
            run(TOOLS / "abi3audit", "--strict", wheel)
        size = wheel.stat().st_size
        if PLATFORM not in wheel.name or size > LARGEST:
            sys.exit(f"{wheel.name}, {size} bytes: not for {PLATFORM}, or above {LARGEST} bytes")
        print(f"{wheel.name}: {size / 1e6:.1f} MB, checked by twine and check-wheel-contents")


def first_block() -> str:
    """The first block of Python in README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(r"^```python\n(.*?)^```", text, flags=re.M | re.S)[1]


def try_wheel(wheel: Path, python: Interpreter, folder: Path) -> None:
    """Install it where there is no compiler, and use it."""
    environment = folder / "use-{}.{}".format(*python.version)
    run(python.path, "-m", "venv", environment)
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    bare |= {"PATH": str(environment / "bin"), "CC": "/nonexistent", "CXX": "/nonexistent"}
    inside = environment / "bin" / "python"
    pip = (inside, "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    run(*pip, f"annealed @ {wheel.as_uri()}", env=bare)
    run(inside, "-c", first_block(), cwd=folder, env=bare)
    run(*pip, "pytest", "hypothesis", env=bare)
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(inside, *tests, ROOT / "tests" / "kernels", cwd=ROOT, env=bare)
    print("Python {}.{}: installed without a compiler, used, tested".format(*python.version))


def main(names: list[str]) -> None:
    """Build, check, try."""
    found = {name: interpreter(name) for name in names}
    missing = [name for name, python in found.items() if python is None]
    pythons = [python for python in found.values() if python is not None]
    if missing:
        print(f"Not on this machine, and so not tried: {', '.join(missing)}")
    if not pythons:
        sys.exit(
            f"None of {', '.join(names)} is here: name others, make wheels PYTHONS='python3 ...'"
        )
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sdist = build_sdist()
        tags = {python.wheel_tag: python for python in reversed(pythons)}
        wheels = {tag: build_wheel(sdist, python, folder) for tag, python in tags.items()}
        check_files(sdist, list(wheels.values()))
        for python in pythons:
            try_wheel(wheels[python.wheel_tag], python, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
