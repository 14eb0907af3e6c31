"""What all benchmarks share: the header, interleaved timing, plain-text tables."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import sklearn  # noqa: F401  (loads BLAS and OpenMP, so that their threads can be reported)
from threadpoolctl import (  # type: ignore[import-untyped]
    threadpool_info,
    threadpool_limits,
)

PACKAGES = (
    "annealed",
    "numpy",
    "scipy",
    "scikit-learn",
    "river",
    "online-deterministic-annealing",
    "numba",
    "genieclust",
    "dask",
)
NOT_INSTALLED = "not installed"


def kept(file: Path, key: str, measure: Callable[[], Sequence[float]]) -> list[float]:
    """Figures of a peer as they were measured before, else now: peers take most of the time.

    ``key`` names the peer's version and all that its figures depend on.
    """
    known = json.loads(file.read_text()) if file.exists() else {}
    if key not in known:
        known[key] = list(measure())
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(known, indent=1))
    figures: list[float] = known[key]
    return figures


# -- the machine -------------------------------------------------------------------------------


def one_thread() -> AbstractContextManager[Any]:
    """Hold every thread pool that is loaded to one thread, in case the environment did not."""
    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def cpu_name() -> str:
    """Name of the processor as the system gives it."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    if "model name" not in found:
        return platform.processor() or platform.machine()
    # Virtual machines often hide the name itself.
    finer = [f"{key} {found[key]}" for key in ("cpu family", "model", "stepping") if key in found]
    return f"{found['model name']} ({', '.join(finer)})"


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of the core in use, {"L1": ..., "L2": ..., "L3": ...}."""
    sizes: dict[str, int] = {}
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    for index in sorted(Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*")):
        with suppress(OSError, ValueError):
            if (index / "type").read_text().strip() != "Instruction":
                size = (index / "size").read_text().strip()
                factor = {"K": 1 << 10, "M": 1 << 20}[size[-1]]
                sizes["L" + (index / "level").read_text().strip()] = int(size[:-1]) * factor
    return sizes or {"L1": 32 << 10, "L2": 512 << 10, "L3": 32 << 20}


def versions() -> dict[str, str]:
    """Installed version of every package that takes part."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = NOT_INSTALLED
    return found


def header(title: str) -> None:
    """Print what is measured, on what, with what."""
    build = import_module("annealed.kernels.compiled").core.__name__
    caches = ", ".join(f"{level} {size >> 10} KiB" for level, size in cache_sizes().items())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pools = {f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()}
    print("=" * 100)
    print(title)
    print("=" * 100)
    print(f"cpu       {cpu_name()}; {caches}")
    print(f"cores     {cores} of {os.cpu_count()}; threads: {', '.join(sorted(pools))}")
    print(f"system    {platform.platform()}")
    print(f"kernel    {build}")
    print("versions  " + ", ".join(f"{name} {version}" for name, version in versions().items()))
    print("times     processor time, medians over rounds in which all take turns")
    print(f"at        {time.strftime('%Y-%m-%d %H:%M:%S %Z')}")


# -- timing ------------------------------------------------------------------------------------
# Times are processor time of this process. On one core and one thread that is the time on the
# clock less what other processes took, so that a busy machine disturbs the ratios less.


@dataclass(frozen=True)
class Contender:
    """Something to be timed: one call, and how many samples it handles."""

    call: Callable[[], object]
    samples: int = 1


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _seconds_of(call: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        call()
    return time.process_time() - start


def cost_per_sample(
    contenders: Mapping[str, Contender],
    budget: float = 0.1,
    rounds: int = 7,
    pick: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Nanoseconds per sample of each, the median over rounds (or what else ``pick`` takes).

    Contenders take turns in every round, each for about ``budget`` seconds (at least one call), so
    that whatever else the machine does meets all of them alike. Two calls before that are not
    counted: they compile and warm caches.
    """
    calls = {}
    for name, contender in contenders.items():
        contender.call()
        once = max(seconds(contender.call), 1e-9)
        calls[name] = max(1, round(budget / once))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name].append(_seconds_of(contender.call, calls[name]))
    return {
        name: 1e9 * pick(spent) / (calls[name] * contenders[name].samples)
        for name, spent in times.items()
    }


def median_seconds(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median time of each call; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: statistics.median(spent) for name, spent in times.items()}


# -- printing ----------------------------------------------------------------------------------


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: text to the left, numbers to the right; a column title may have two lines."""
    cells = [[str(cell) for cell in row] for row in rows]
    heads = [column.split("\n") for column in columns]
    height = max(len(head) for head in heads)
    heads = [[""] * (height - len(head)) + head for head in heads]
    width = [
        max(len(text) for text in [*heads[c], *(row[c] for row in cells)])
        for c in range(len(columns))
    ]

    def line(row: Sequence[str]) -> str:
        first, *rest = row
        padded = [first.ljust(width[0])]
        padded += [cell.rjust(width[c + 1]) for c, cell in enumerate(rest)]
        return "  ".join(padded).rstrip()

    print(f"\n{title}")
    for k in range(height):
        print(line([head[k] for head in heads]))
    print("  ".join("-" * w for w in width))
    for row in cells:
        print(line(row), flush=True)


def verdict(met: bool) -> str:
    """Whether a bar is met, in words that stand out."""
    return "met" if met else "MISSED"


def number(value: float, digits: int = 3) -> str:
    """A number with that many significant digits and no exponent."""
    if value != value:
        return "-"
    magnitude = abs(value)
    decimals = 0
    while decimals < 6 and magnitude < 10 ** (digits - 1 - decimals):
        decimals += 1
    return f"{value:.{decimals}f}" if magnitude else "0"
