"""How cost grows: with K, with d, with the number of rows; whole fits, start-up and memory.

- One step of the kernel against K and against d, every codevector moving, and the exponents of a
  power law fitted to the table (1 is linear; below it while the fixed cost of a step still shows,
  above it where the codebook leaves a cache).
- `fit` against the number of rows, the structure of the data fixed. `predict`, which checks the
  rows and computes their labels, must grow with their number; the rest of `fit` should not.
- A million rows, nobody telling how many clusters, beside k-means that is told.
- A whole path down to K = 40 on 5000 points, against one ``KMeans(40, n_init=10)``.
- Importing and fitting digits in a fresh process, against scikit-learn's KMeans. On the clock,
  since reading files is part of it.
- Memory: the peak of a fit of a million rows of 16 features in a fresh process, beyond what the
  process held when the fit began (data and imports).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.utils import check_array

from annealed import ODAClustering
from benchmarks.data import eight_in_sixteen, fifteen_on_grid, gaussians, uniform_square
from benchmarks.harness import (
    cost_per_sample,
    header,
    median_seconds,
    number,
    one_thread,
    seconds,
    table,
    verdict,
)
from benchmarks.kernel import endless_level, learner

MEMORY_BAR = 64.0  # MB
START_BAR = 1.5

# -- one step ----------------------------------------------------------------------------------


def step_cost(
    shapes: list[tuple[int, int]], budget: float, rounds: int
) -> list[tuple[float, float]]:
    """Nanoseconds of a step that moves all codevectors, without and with split statistics."""
    contenders = {}
    for K, d in shapes:
        rng = np.random.default_rng(0)
        X, mu = rng.normal(size=(max(200, 400_000 // d), d)), rng.normal(size=(K, d))
        for statistics_too in (False, True):
            level = endless_level(mu, np.full(K, 1 / K), 100.0 * d, statistics=statistics_too)
            contenders[f"{K} {d} {statistics_too}"] = learner(level, X)
    ns = cost_per_sample(contenders, budget, rounds)
    return [(ns[f"{K} {d} False"], ns[f"{K} {d} True"]) for K, d in shapes]


def exponent(sizes: list[int], cost: list[float]) -> float:
    """Slope of log cost against log size."""
    return float(np.polyfit(np.log(sizes), np.log(cost), 1)[0])


def grow(budget: float, rounds: int) -> None:
    """Cost of a step against K and against d."""
    sizes = {"K": [8, 16, 32, 64, 128, 256, 512], "d": [2, 4, 8, 16, 32, 64, 128, 256, 512]}
    fixed = {"K": 16, "d": 32}
    for axis, values in sizes.items():
        shapes = [(n, fixed["K"]) if axis == "K" else (fixed["d"], n) for n in values]
        cost = step_cost(shapes, budget, rounds)
        rows: list[list[object]] = []
        for k, n in enumerate(values):
            doubled = [number(cost[k][j] / cost[k - 1][j]) if k else "-" for j in range(2)]
            rows.append([n, doubled[0], doubled[1], *(f"{ns:,.0f}" for ns in cost[k])])
        other = "d = 16" if axis == "K" else "K = 32"
        table(
            f"One step against {axis} ({other}), all codevectors moving: growth from row to row "
            "(linear: 2), and ns",
            [axis, "growth\ntracking", "growth\nin level", "ns\ntracking", "ns\nin level"],
            rows,
        )
        half = len(values) // 2
        for j, name in enumerate(("tracking", "in level")):
            column = [pair[j] for pair in cost]
            print(
                f"exponent in {axis}, {name}: {exponent(values, column):.2f}; upper half "
                f"{exponent(values[half:], column[half:]):.2f}"
            )


# -- whole fits --------------------------------------------------------------------------------


def rows_against_time(sizes: list[int], rounds: int) -> None:
    """`fit` at fixed structure, 10 thousand to a million rows."""
    lines: list[list[object]] = []
    first: dict[str, float] = {}
    for n in sizes:
        X = eight_in_sixteen(0, samples=n)
        given, auto = ODAClustering(8, random_state=0), ODAClustering(random_state=0)
        time = median_seconds(
            {
                "given": partial(given.fit, X),
                "auto": partial(auto.fit, X),
                "labels": partial(given.predict, X),
                "checks": partial(check_array, X),
            },
            rounds,
        )
        rest = {name: time[name] - time["labels"] for name in ("given", "auto")}
        first = first or rest
        lines.append(
            [f"{n:,}"]
            + [number(rest[name] / first[name]) for name in rest]
            + [number(time[name]) for name in ("given", "auto", "labels", "checks")]
            + [number(value) for value in rest.values()]
            + [auto.n_clusters_, given.path_[-1].samples]
        )
    table(
        "fit against rows: 8 Gaussians in 16 dimensions, seconds. First how the part beyond the "
        "labels grows",
        ["rows", "growth\nK = 8", "growth\nauto", "fit\nK = 8", "fit\nauto", "labels\n(predict)",
         "of which\nchecks", "beyond labels\nK = 8", "beyond labels\nauto", "K\n(auto)",
         "samples\nused (K = 8)"],
        lines,
    )  # fmt: skip


def beside_k_means(rows: int, rounds: int) -> None:
    """Nobody says how many clusters, beside what is told."""
    X = eight_in_sixteen(0, samples=rows)
    models = {
        "ODAClustering()": ODAClustering(random_state=0),
        "ODAClustering(8)": ODAClustering(8, random_state=0),
        "MiniBatchKMeans(8)": MiniBatchKMeans(8, random_state=0),
        "MiniBatchKMeans(8, n_init=10)": MiniBatchKMeans(8, n_init=10, random_state=0),
        "KMeans(8)": KMeans(8, random_state=0),
        "KMeans(8, n_init=10)": KMeans(8, n_init=10, random_state=0),
    }
    time = median_seconds({name: partial(model.fit, X) for name, model in models.items()}, rounds)
    distortion = {}
    for name, model in models.items():
        nearest = model.cluster_centers_[model.predict(X)]
        distortion[name] = float(np.square(X - nearest).sum(axis=1).mean())
    best = min(distortion.values())
    table(
        f"{rows:,} rows of 8 Gaussians in 16 dimensions, beside k-means that is told 8: seconds of "
        "one core",
        ["", "seconds", "K", "distortion\nover the best"],
        [
            [name, number(time[name]), len(model.cluster_centers_), number(distortion[name] / best)]
            for name, model in models.items()
        ],
    )


def whole_path(rounds: int) -> None:
    """Down to K = 40 on 5000 points."""
    rng = np.random.default_rng(0)
    sets = {
        "uniform square": uniform_square(0, samples=5000),
        "15 Gaussians, plane": fifteen_on_grid(0, spacing=8),
        "40 Gaussians, d = 2": gaussians(rng.uniform(-20, 20, size=(40, 2)), 5000, rng),
        "40 Gaussians, d = 16": gaussians(rng.uniform(-6, 6, size=(40, 16)), 5000, rng),
    }
    lines = []
    for name, X in sets.items():
        ours = ODAClustering(None, K_max=40, T_min=1e-9, random_state=0)
        exact = ODAClustering(40, K_max=40, random_state=0)
        theirs = KMeans(40, n_init=10, random_state=0)
        time = median_seconds(
            {
                "ours": partial(ours.fit, X),
                "exact": partial(exact.fit, X),
                "theirs": partial(theirs.fit, X),
            },
            rounds,
        )
        ratios = [time[which] / time["theirs"] for which in ("ours", "exact")]
        lines.append(
            [name]
            + [text for ratio in ratios for text in (number(ratio), verdict(ratio < 1))]
            + [number(time[which]) for which in ("ours", "exact", "theirs")]
            + [ours.n_clusters_, len(ours.path_), ours.path_[-1].samples]
        )
    table(
        "Whole path down to K = 40 on 5000 points, against KMeans(40, n_init=10), seconds.\n"
        "n_clusters=None ends before K would exceed 40; n_clusters=40 gives exactly that",
        ["data", "None /\nKMeans", "below 1", "40 /\nKMeans", "below 1", "None\ns", "40\ns",
         "KMeans\ns", "K reached\n(None)", "levels", "samples"],
        lines,
    )  # fmt: skip


# -- fresh processes ---------------------------------------------------------------------------

_START = """
import json, sys, time
start = time.perf_counter()
import numpy as np
X = np.load(sys.argv[1])
{0}
imported = time.perf_counter()
model = {1}.fit(X)
end = time.perf_counter()
print(json.dumps([end - start, imported - start, end - imported]))
"""
_MEMORY = """
import json, sys
import numpy as np
{0}
rng = np.random.default_rng(0)
X = np.empty((int(sys.argv[1]), 16))
centres, y = rng.uniform(-6, 6, size=(8, 16)), np.empty(len(X), dtype=np.int64)
for at in range(0, len(X), 10_000):
    y[at : at + 10_000] = member = rng.integers(8, size=len(X[at : at + 10_000]))
    X[at : at + 10_000] = centres[member] + rng.normal(size=(len(member), 16))
warm = {1}.fit(X[:2000], y[:2000])  # what a first fit imports is not what a fit needs
def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
before = status("VmRSS")
model = {1}.fit(X, y)
print(json.dumps([(status("VmHWM") - before) / 1024, (status("VmRSS") - before) / 1024]))
"""
_OURS, _THEIRS = "from annealed import {0}", "from sklearn.cluster import {0}"


def fresh_process(code: str, argument: str) -> list[float]:
    """Run code in a new interpreter; the list of numbers it prints."""
    run = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(f"the process failed:\n{run.stderr}")
    numbers: list[float] = json.loads(run.stdout.splitlines()[-1])
    return numbers


def start_up(rounds: int) -> None:
    """Import and first fit of digits."""
    programs = {
        "KMeans(10)": (_THEIRS.format("KMeans"), "KMeans(10, random_state=0)"),
        "ODAClustering(10)": (_OURS.format("ODAClustering"), "ODAClustering(10, random_state=0)"),
        "ODAClustering()": (_OURS.format("ODAClustering"), "ODAClustering(random_state=0)"),
    }
    times: dict[str, list[list[float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.npy"
        np.save(path, load_digits().data)
        for turn in range(rounds + 1):
            for name, program in programs.items():
                spent = fresh_process(_START.format(*program), str(path))
                if turn:  # the first one fills the caches of the file system
                    times[name].append(spent)
    median = {
        name: [statistics.median(column) for column in zip(*runs, strict=True)]
        for name, runs in times.items()
    }
    reference = median["KMeans(10)"][0]
    lines = []
    for name, (total, imports, fit) in median.items():
        ratio = total / reference
        met = "" if name.startswith("KMeans") else verdict(ratio <= START_BAR)
        lines.append([name, number(ratio), met, number(total), number(imports), number(fit)])
    table(
        f"Import and first fit of digits in a fresh process, seconds on the clock (at most "
        f"{START_BAR} times KMeans)",
        ["", "ratio", "bar", "total", "import", "fit"],
        lines,
    )


def memory(rows: int) -> None:
    """Peak beyond the data of a large fit."""
    if not Path("/proc/self/clear_refs").exists():
        print("\nMemory: needs Linux's /proc, not measured here")
        return
    programs = {
        "ODAClustering()": (_OURS.format("ODAClustering"), "ODAClustering(random_state=0)"),
        "ODAClustering(8)": (_OURS.format("ODAClustering"), "ODAClustering(8, random_state=0)"),
        "ODAClustering(8, polish)": (
            _OURS.format("ODAClustering"),
            "ODAClustering(8, polish=True, random_state=0)",
        ),
        "ODAClassifier()": (_OURS.format("ODAClassifier"), "ODAClassifier(random_state=0)"),
        "KMeans(8, n_init=1)": (_THEIRS.format("KMeans"), "KMeans(8, n_init=1, random_state=0)"),
        "MiniBatchKMeans(8)": (
            _THEIRS.format("MiniBatchKMeans"),
            "MiniBatchKMeans(8, random_state=0)",
        ),
    }
    lines = []
    for name, program in programs.items():
        peak, kept = fresh_process(_MEMORY.format(*program), str(rows))
        met = "" if "KMeans" in name else verdict(peak <= MEMORY_BAR)
        lines.append([name, f"{peak:.1f}", met, f"{kept:.1f}"])
    table(
        f"Memory of fitting {rows:,} rows of 16 features ({rows * 128 / 2**20:.0f} MB) beyond the "
        f"data, MB (at most {MEMORY_BAR:.0f})",
        ["", "peak", "bar", "kept (labels)"],
        lines,
    )


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("scaling: K, d, rows, whole paths, start-up, memory")
    with one_thread():
        seconds(lambda: ODAClustering(8, random_state=0).fit(eight_in_sixteen(0)))  # warm
        grow(*((0.01, 3) if quick else (0.03, 7)))
        sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000]
        rows_against_time(sizes[:3] if quick else sizes, 1 if quick else 3)
        beside_k_means(*((100_000, 1) if quick else (1_000_000, 3)))
        whole_path(1 if quick else 5)
    start_up(1 if quick else 5)
    memory(100_000 if quick else 1_000_000)


if __name__ == "__main__":
    main()
