"""engine="block" beside engine="online": what each finds, and where blocks are worth it.

- Classification (moons, circles, WBCD, PIMA, digits): accuracy on five folds, means over five
  seeds; bar: within half a point.
- Clustering with K given (Gaussians, and the sets of `wide`): distortion of the rows, and the
  adjusted Rand index; bar: mean distortion within 1 %, mean index within .005 or better.
- 200,000 rows of 768 float32, embedding-like, into 500: time beside ``MiniBatchKMeans(500,
  n_init=1)`` in the same run (bar: twice its time), distortion after one pass of Lloyd's algorithm
  of both (bar: 1 %), and peak memory in a process of its own, beyond what importing takes (bar: 1.3
  times the rows).
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from annealed import ODAClassifier, ODAClustering
from benchmarks.clusters import distortion
from benchmarks.data import Rows, eight_in_sixteen, fifteen_on_grid
from benchmarks.harness import header, number, one_thread, seconds, table, verdict
from benchmarks.labelled import FOLDS, Labelled, by_name
from benchmarks.wide import after_a_pass, agreement, embeddings, gaussians

ENGINES = ("online", "block")
POINTS, SHARE, INDEX = 0.5, 0.01, 0.005
TIME, MEMORY = 2.0, 1.3


def classified(data: Labelled, seeds: int) -> list[object]:
    """One line: accuracy and time of both engines on a set."""
    accuracy: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    spent = dict.fromkeys(ENGINES, 0.0)
    for seed in range(seeds):
        X, y = data.make(seed)
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        for train, test in folds.split(X, y):
            scale = StandardScaler().fit(X[train])
            for engine in ENGINES:
                model = ODAClassifier(engine=engine, random_state=seed)
                spent[engine] += seconds(partial(model.fit, scale.transform(X[train]), y[train]))
                accuracy[engine].append(100 * model.score(scale.transform(X[test]), y[test]))
    means = [float(np.mean(accuracy[engine])) for engine in ENGINES]
    return [
        data.name, *(f"{mean:.2f}" for mean in means), f"{means[1] - means[0]:+.2f}",
        verdict(means[1] >= means[0] - POINTS), number(spent["block"] / spent["online"]),
    ]  # fmt: skip


def clustered(name: str, make: Callable[[int], tuple[Rows, Any]], k: int, seeds: int) -> list[Any]:
    """One line: distortion, agreement and time of both engines with K given."""
    ratios, indices = [], []
    spent = dict.fromkeys(ENGINES, 0.0)
    for seed in range(seeds):
        X, y = make(seed)
        found = {}
        for engine in ENGINES:
            model = ODAClustering(k, shape="round", engine=engine, random_state=seed)
            spent[engine] += seconds(partial(model.fit, X))
            index = float("nan") if y is None else agreement(y, model.labels_)
            found[engine] = distortion(X, model.cluster_centers_), index
        ratios.append(found["block"][0] / found["online"][0])
        indices.append([found[engine][1] for engine in ENGINES])
    online, block = np.mean(indices, axis=0)
    mean = float(np.mean(ratios))
    return [
        name, k, f"{mean:.4f}", f"{max(ratios):.4f}", verdict(mean <= 1 + SHARE),
        number(online), number(block),
        "-" if np.isnan(online) else verdict(block >= online - INDEX),
        number(spent["block"] / spent["online"]),
    ]  # fmt: skip


def sets_of_clusters(quick: bool) -> Iterator[tuple[str, Callable[[int], tuple[Rows, Any]], int]]:
    """Names, makers and numbers of clusters."""
    yield "8 Gaussians, 16-D", lambda seed: (eight_in_sixteen(seed), None), 8
    yield "15 Gaussians, plane", lambda seed: (fifteen_on_grid(seed, 5.0), None), 15
    dimensions = (16, 64) if quick else (16, 64, 256, 768)
    for d, k, sd in itertools.product(dimensions, (20, 50), (0.8, 0.6, 0.4)):
        yield f"wide {d}, {sd}", partial(gaussians, d=d, k=k, sd=sd), k
    for k, sd in itertools.product((20, 50), (0.8, 0.6)):
        yield f"wide 64, {sd}, uneven", partial(gaussians, d=64, k=k, sd=sd, uneven=True), k


# -- many rows of many features --------------------------------------------------------------------


CHILD = """
import re, sys
import numpy as np
from annealed import ODAClustering
def peak():  # not ru_maxrss, which a process begins with its parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
rows = np.load(sys.argv[1])
ODAClustering(int(sys.argv[2]), engine=sys.argv[3], random_state=0).fit(rows)
print((peak() - before) / rows.nbytes)
"""


def peak_memory(X: NDArray[np.float32], k: int, engine: str) -> float:
    """Peak memory of a fit in multiples of its rows, which count, less that of the imports."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        done = subprocess.run(
            [sys.executable, "-c", CHILD, path, str(k), engine],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return float(done.stdout)


def large(X: NDArray[np.float32], k: int, engines: tuple[str, ...]) -> list[list[object]]:
    """Lines: each engine beside MiniBatchKMeans."""
    theirs = MiniBatchKMeans(k, n_init=1, random_state=0)
    other = seconds(partial(theirs.fit, X))
    reached = after_a_pass(X, theirs.cluster_centers_)
    lines: list[list[object]] = [
        ["MiniBatchKMeans", number(other), "1", "-", f"{reached:.4f}", "-", "-", "-"]
    ]
    for engine in engines:
        model = ODAClustering(k, engine=engine, random_state=0)
        spent = seconds(partial(model.fit, X))
        mine = after_a_pass(X, model.cluster_centers_)
        memory = peak_memory(X, k, engine)
        lines.append(
            [
                engine, number(spent), number(spent / other), verdict(spent <= TIME * other),
                f"{mine:.4f}", verdict(mine <= (1 + SHARE) * reached), number(memory),
                verdict(memory <= MEMORY),
            ]
        )  # fmt: skip
    return lines


def main(*, quick: bool = False) -> None:
    """Run and print."""
    header("engines: blocks beside single samples")
    seeds = 1 if quick else 5
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table(
            f"Classification: accuracy, means over {seeds} x {FOLDS} folds (bar: {POINTS} points)",
            ["data", "online", "block", "points", "bar", "time over\nonline"],
            (
                classified(data, seeds)
                for data in by_name(("moons", "circles", "wbcd", "pima", "digits"))
            ),
        )
        table(
            f"Clustering, K given: distortion over online's (bar: mean {1 + SHARE}), adjusted Rand "
            "index",
            ["data", "K", "distortion,\nmean", "most", "bar", "index\nonline", "\nblock", "bar",
             "time over\nonline"],
            (clustered(*one, seeds) for one in sets_of_clusters(quick)),
        )  # fmt: skip
        n, d, k = (20_000, 256, 60) if quick else (200_000, 768, 500)
        table(
            f"{n:,} x {d} float32 into {k}: time, distortion after one pass, peak memory over rows",
            ["", "s", "ratio", f"bar {TIME}", "distortion", "bar", "memory", f"bar {MEMORY}"],
            large(embeddings(n, d), k, ("block",) if quick else ("block", "online")),
        )


if __name__ == "__main__":
    main()
