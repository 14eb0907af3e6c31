"""Rows that no process holds: `fit`, labels and `score` of an array of Dask on a cluster.

Rows are generated chunk by chunk wherever a task needs them, and are gone with it, so that there
may be more of them than memory; here on two worker processes of 4 GB. What is printed:

- time of every step on the clock and in the workers' processors, and of generating the rows alone,
  which every step does too; the difference for a row beside one process that does the same to one
  chunk in memory;
- bytes that workers send in a step: rows drawn, models and sums;
- whether labels and score are those of one process;
- the block engine: how many blocks workers summed up, and what a row took of their processors
  beside one process (at most 1.5 times as much is wanted); then a polish with all rows;
- an estimate for 100 workers with as many rows each: work that is shared out takes as long as it
  does here on the clock, and what does not get faster comes to it: the annealing in the process
  that calls `fit`, the scheduler's part of every task, and bytes through one cable of 10 Gbit/s.

dask-ml's KMeans and faiss take part if they are installed: with a part of the rows that stays in
the workers' memory, since KMeans passes over its rows dozens of times.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from annealed import ODAClustering
from annealed.estimators.chunked_rows import Pieces
from annealed.threads import in_threads
from benchmarks import CORES
from benchmarks.harness import NOT_INSTALLED, header, number, seconds, table, verdict

FEATURES, CLUSTERS = 16, 20
WORKERS, MEMORY = 2, "4GB"
CHUNK_BYTES = 64e6
GIGABYTES, QUICK_GIGABYTES = 20.0, 0.2
EMPTY_TASKS = 500
# Rows, features and clusters of the block engine, and blocks that are summed up once more.
BLOCK_ROWS, QUICK_BLOCK_ROWS = 400_000, 50_000
BLOCK_FEATURES, BLOCK_CLUSTERS = 256, 500
REPEATED = 10
BAR = 1.5
# Rows that others are given.
PEER_GIGABYTES = 0.5
# The cluster that is estimated, and bytes a second through the cable of whoever calls.
MANY, CABLE = 100, 1.25e9

Rows = NDArray[np.float64]


def chunk(k: int, n: int, d: int = FEATURES, clusters: int = CLUSTERS) -> Rows:
    """Rows of a chunk, by its number alone."""
    width = 10 if d == FEATURES else 1.4
    centres = np.random.default_rng(0).uniform(-width, width, size=(clusters, d))
    rng = np.random.default_rng([1, k])
    return centres[rng.integers(0, clusters, n)] + rng.normal(size=(n, d))


def make_chunk(block: Any, d: int, clusters: int, block_info: Any = None) -> Rows:
    """The same in a task."""
    place = block_info[None]
    return chunk(place["chunk-location"][0], place["chunk-shape"][0], d, clusters)


def clock(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds on the clock, and what came out."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


class Step(NamedTuple):
    """What a step took: on the clock, in the workers' processors, and bytes that they sent."""

    seconds: float
    work: float
    sent: float
    found: Any


def measured(client: Any, step: Callable[[], Any]) -> Step:
    """Run a step."""
    before = so_far(client)
    seconds, found = clock(step)
    after = so_far(client)
    return Step(seconds, after[0] - before[0], after[1] - before[1], found)


def so_far(client: Any) -> tuple[float, float]:
    """Processor time that workers have used, and bytes that they have sent."""
    told = client.run(
        lambda dask_worker: (time.process_time(), dask_worker.transfer_outgoing_bytes_total)
    ).values()
    return sum(cpu for cpu, _ in told), float(sum(sent for _, sent in told))


def generated(n: int, each: int, d: int = FEATURES, clusters: int = CLUSTERS) -> Any:
    """Rows as an array of Dask, in chunks of so many."""
    import dask.array as da

    lengths = (each,) * (n // each) + ((n % each,) if n % each else ())
    return da.empty((n, 1), chunks=(lengths, 1), dtype=np.uint8).map_blocks(
        make_chunk, d, clusters, chunks=(lengths, (d,)), dtype=float, meta=np.empty((0, d)),
        token="generate",
    )  # fmt: skip


def reduced(array: Any) -> Any:
    """Compute all chunks, and fetch a row of each."""
    return array.map_blocks(_first, dtype=array.dtype, chunks=(1,)).compute()


def steps_on(rows: Any, model: ODAClustering) -> dict[str, Callable[[], Any]]:
    """What is measured, one after the other."""
    import dask.array as da

    return {
        "rows generated": lambda: reduced(rows[:, 0]),
        "fit": lambda: model.fit(rows),
        "labels": lambda: da.bincount(model.predict(rows), minlength=CLUSTERS).compute(),
        "score": lambda: model.score(rows),
    }


def measure(client: Any, gigabytes: float) -> None:
    """All steps on a cluster that is there."""
    import dask.array as da

    n = int(gigabytes * 1e9 / (8 * FEATURES))
    each = min(int(CHUNK_BYTES / (8 * FEATURES)), -(-n // (4 * WORKERS)))
    rows, model = generated(n, each), ODAClustering(CLUSTERS, random_state=0)
    chunks = rows.numblocks[0]
    print(f"\n{n:,} rows of {FEATURES} features, {gigabytes:g} GB, in {chunks} chunks of "
          f"{8e-6 * FEATURES * each:.0f} MB; {WORKERS} workers of {MEMORY}")  # fmt: skip
    for step in steps_on(generated(20_000, 5000), model).values():  # imports, connections
        step()
    nothing = da.empty(EMPTY_TASKS, chunks=1)
    task = measured(client, lambda: reduced(nothing)).seconds / EMPTY_TASKS
    took = {name: measured(client, step) for name, step in steps_on(rows, model).items()}

    some = chunk(0, each)
    alone = {
        "rows generated": seconds(lambda: chunk(0, each)),
        "labels": seconds(lambda: np.bincount(model.predict(some))),
        "score": seconds(lambda: model.score(some)),
    }
    shipped = len(pickle.dumps(model._for_reading(rows, whole=False)))
    drawn = model._drawn(rows, None, None).rows
    annealing = clock(lambda: ODAClustering(CLUSTERS, random_state=0).fit(drawn))[0]
    lines = []
    for name, step in took.items():
        before = 0.0 if name == "rows generated" else took["rows generated"].work
        one = number(1e9 * alone[name] / each) if name in alone else "-"
        lines.append(
            [name, number(step.seconds), number(step.work),
             number(1e9 * max(step.work - before, 0.0) / n), one, f"{step.sent:,.0f}"]
        )  # fmt: skip
    table(
        "Steps; for a row less the generating of it, which every step does too",
        ["", "clock, s", "workers'\nprocessors, s", "the same,\nns a row",
         "one process,\nns a row", "bytes sent\nby workers"],
        lines,
    )  # fmt: skip
    print(f"\nfit drew {len(drawn):,} of {n:,} rows, {drawn.nbytes:,} bytes, and annealed them in "
          f"{number(annealing)} s in one process.\nThe model that a worker gets has {shipped:,} "
          f"bytes. A task that does nothing takes {number(1e3 * task)} ms.")  # fmt: skip
    _check(model, took["labels"].found, took["score"].found, rows.chunks[0])
    _estimate(n, chunks, task, took, {"fit": annealing}, {
        "fit": drawn.nbytes,
        "labels": shipped * MANY + 8 * CLUSTERS * chunks,
        "score": shipped * MANY + 16 * chunks,
    })  # fmt: skip
    _peers(rows[: int(PEER_GIGABYTES * 1e9 / (8 * FEATURES))], some)


class Block(NamedTuple):
    """A block that workers have summed up."""

    pieces: Pieces
    asked: tuple[Any, ...]
    seconds: float

    @property
    def rows(self) -> int:
        """How many it had."""
        return sum(len(beside[0]) for _, beside in self.asked[2])


def measure_blocks(client: Any, n: int) -> None:
    """The block engine, and a polish."""
    each, d, K = -(-n // 20), BLOCK_FEATURES, BLOCK_CLUSTERS
    rows = generated(n, each, d, K)
    print(f'\n{n:,} rows of {d} features in 20 chunks, {K} clusters given, engine="block"')
    blocks: list[Block] = []
    add_up = Pieces.add_up

    def noted(self: Pieces, *asked: Any) -> tuple[Any, ...]:
        spent, found = clock(lambda: add_up(self, *asked))
        blocks.append(Block(self, asked, spent))
        return found

    def model(**more: Any) -> ODAClustering:
        return ODAClustering(K, shape="round", engine="block", random_state=0, **more)

    took = {"rows generated": measured(client, lambda: reduced(rows[:, 0]))}
    with mock.patch.object(Pieces, "add_up", noted):
        took["fit"] = measured(client, lambda: model().fit(rows))
    fitted = took["fit"].found
    took["score"] = measured(client, lambda: fitted.score(rows))
    table(
        "Steps",
        ["", "clock, s", "workers'\nprocessors, s", "bytes sent\nby workers"],
        [[name, number(step.seconds), number(step.work), f"{step.sent:,.0f}"]
         for name, step in took.items()],
    )  # fmt: skip
    _blocks_again(client, blocks, fitted.path_[-1].samples)
    polished = model(polish=True)
    step = measured(client, lambda: polished.fit(rows))
    after, before = number(-polished.score(rows), 6), number(-took["score"].found, 6)
    print(
        f"with polish, of all rows: {number(step.seconds)} s; distortion {after}, without {before}"
    )


def _blocks_again(client: Any, blocks: list[Block], presented: int) -> None:
    """What a row of a block takes on workers and in one process: some blocks once more.

    The process has as many threads as there are workers: cores that work side by side are slower.
    """
    if not blocks:
        print("no block was large enough for tasks")
        return
    import dask

    some = [blocks[k] for k in np.linspace(0, len(blocks) - 1, REPEATED).astype(int)]
    rows = sum(block.rows for block in some)
    step = measured(client, lambda: [block.pieces.add_up(*block.asked) for block in some])
    pieces = [piece[0] for piece in dask.compute(*blocks[0].pieces.tasks)]
    spent = 0.0
    for block in some:
        function, given, parts = block.asked
        began = time.process_time()
        in_threads(
            lambda part, function=function, given=given: function(given, pieces[part[0]], *part[1]),
            parts,
            threads=WORKERS,
        )
        spent += time.process_time() - began
    own, alone = step.work / rows, spent / rows
    in_tasks = sum(block.rows for block in blocks)
    clocked = sum(block.seconds for block in blocks)
    codebook = len(pickle.dumps(some[-1].asked[1]))
    print(f"\n{len(blocks)} blocks were summed up by workers, {in_tasks:,} of {presented:,} rows "
          f"that were presented, in {number(clocked)} s on the clock, "
          f"{number(clocked / len(blocks))} s each.\n"
          f"A codebook that is sent has {codebook:,} bytes; in a block workers send each other "
          f"and back {step.sent / len(some):,.0f} bytes.\n"
          f"A row of a block takes {number(1e6 * own)} us of workers' processors, "
          f"{number(1e6 * alone)} us of one process with {WORKERS} threads: "
          f"{number(own / alone)} times as much, at most {BAR} wanted: "
          f"{verdict(own <= BAR * alone)}")  # fmt: skip


def _first(block: Any) -> Any:
    return block[:1]


def _check(model: ODAClustering, labels: Any, score: float, lengths: tuple[int, ...]) -> None:
    """The same in one process, chunk by chunk; of many chunks a few."""
    counts, total, some = np.zeros(CLUSTERS, dtype=np.int64), 0.0, lengths[:8]
    for k, n in enumerate(some):
        block = chunk(k, n)
        counts += np.bincount(model.predict(block), minlength=CLUSTERS)
        total += n * model.score(block)
    if len(some) == len(lengths):
        near = abs(total / sum(lengths) - score) <= 1e-12 * abs(score)
        same = bool((counts == labels).all())
        print(f"labels as in one process: {verdict(same)}; score to twelve digits: {verdict(near)}")
    else:
        print(f"score {number(score, 6)}; of the first {len(some)} chunks, in one process, "
              f"{number(total / sum(some), 6)}")  # fmt: skip
    least = number(labels.min() / sum(lengths))
    print(f"clusters: {model.n_clusters_} of {CLUSTERS}; smallest share {least}, "
          f"of even ones {number(1 / CLUSTERS)}")  # fmt: skip


def _estimate(
    n: int,
    chunks: int,
    task: float,
    took: dict[str, Step],
    in_one_process: dict[str, float],
    moved: dict[str, float],
) -> None:
    """What 100 workers with as many rows each would take."""
    lines = []
    for name in ("fit", "labels", "score"):
        serial = in_one_process.get(name, 0.0)
        here = took[name].seconds
        shared = max(here - serial - chunks * task, 0.0)
        parts = shared, serial, chunks * task * MANY / WORKERS, moved[name] / CABLE
        rows = n * MANY / WORKERS
        faster = MANY / WORKERS * here / sum(parts)
        lines.append(
            [name, number(here), *map(number, parts), number(sum(parts)),
             number(1e9 * sum(parts) / rows), number(faster)]
        )  # fmt: skip
    table(
        f"Estimate for {MANY} workers and {n * MANY // WORKERS:,} rows, seconds",
        ["", f"{WORKERS} workers,\n{n:,} rows", "shared out", "in one\nprocess", "scheduler",
         "cable", "together", "ns a row", "rows a second,\ntimes as many"],
        lines,
    )  # fmt: skip


def _peers(rows: Any, some: Rows) -> None:
    """Others, where they are installed, with rows that stay in the workers' memory."""
    from distributed import wait

    rows = rows.persist()
    wait(rows)
    lines = []
    for name, more in (("ODAClustering", {}), ("ODAClustering, polish", {"polish": True})):
        model = ODAClustering(CLUSTERS, shape="round", random_state=0, **more)
        spent = clock(lambda model=model: model.fit(rows))[0]
        lines.append(
            [f"{name}, fit", number(spent), number(_hard(model.cluster_centers_, rows), 6)]
        )
    if find_spec("dask_ml") is None:
        lines.append(["dask-ml KMeans", NOT_INSTALLED, ""])
    else:
        from dask_ml.cluster import KMeans  # type: ignore[import-not-found]

        peer = KMeans(CLUSTERS, random_state=0)
        spent = clock(lambda: peer.fit(rows))[0]
        lines.append(
            ["dask-ml KMeans, fit", number(spent), number(_hard(peer.cluster_centers_, rows), 6)]
        )
    if find_spec("faiss") is None:
        lines.append(["faiss", NOT_INSTALLED, ""])
    else:
        import faiss  # type: ignore[import-not-found]

        single = some.astype(np.float32)
        engine = faiss.Kmeans(FEATURES, CLUSTERS, niter=10)
        spent = clock(lambda: engine.train(single))[0]
        lines.append(["faiss, fit of one chunk", number(spent), ""])
        spent = clock(lambda: engine.index.search(single, 1))[0]
        lines.append(
            [f"faiss, labels of one chunk, {number(1e9 * spent / len(some))} ns a row",
             number(spent), ""]
        )  # fmt: skip
    table(
        f"Others, {len(rows):,} rows in the workers' memory",
        ["", "clock, s", "distortion"],
        lines,
    )


def _hard(centres: Rows, rows: Any) -> float:
    """Mean squared distance to the nearest of some centres."""
    nearest = rows.map_blocks(_nearest, centres, drop_axis=1, dtype=float)
    return float(nearest.mean().compute())


def _nearest(block: Rows, centres: Rows) -> Rows:
    from sklearn.metrics import pairwise_distances_argmin_min

    return np.asarray(pairwise_distances_argmin_min(block, centres)[1]) ** 2


def main(*, quick: bool = False, gigabytes: float | None = None) -> None:
    """Run and print."""
    header("Rows in chunks, on a cluster of worker processes")
    print("          but here: on the clock where it says so, once")
    if find_spec("distributed") is None:
        print(f"\ndask and distributed are {NOT_INSTALLED}: pip install 'annealed[dask]'")
        return
    from distributed import Client, LocalCluster

    bound = os.sched_getaffinity(0) if CORES else set()
    if CORES:
        os.sched_setaffinity(0, CORES)
    try:
        with (
            LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            client.run(_import)
            measure_blocks(client, QUICK_BLOCK_ROWS if quick else BLOCK_ROWS)
            measure(client, gigabytes or (QUICK_GIGABYTES if quick else GIGABYTES))
    finally:
        if CORES:
            os.sched_setaffinity(0, bound)


def _import() -> None:
    import annealed.estimators  # noqa: F401  (so that no step pays for it)

    if CORES:  # importing the benchmarks has bound the worker to one of them, the same for all
        os.sched_setaffinity(0, CORES)
