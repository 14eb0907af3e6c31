"""Streams of clusters: adjusted Rand index of what is said of each sample before it is learnt.

Four that stay as they are (8 blobs in 2 and in 16 dimensions, 20 Gaussians in 64, two moons) and
three that change: clusters that move at constant speed on lines of their own and pass each other,
clusters that all drift the same way, and one that appears and one that vanishes. `ODAClustering` is
told nothing; MiniBatchKMeans and those of river's that ask for a number are told the true one.
Ours and MiniBatchKMeans answer in blocks of 50 samples, river's one by one, each for at most a
minute a stream: who is slower is scored on the samples it came to.

The index is taken of every 500 samples and averaged. The bars: after 1,000 samples within .05 of
what `fit` on the same 1,000 makes of other rows; on streams that stay no later loss of more than
.05 on those rows; on those that change, on average, at or above everyone else. Then speed once
settled.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from annealed import ODAClustering
from benchmarks.harness import header, one_thread, table, verdict

SAMPLES, QUICK_SAMPLES = 20_000, 5_000
SEEDS, QUICK_SEEDS = 3, 1
BLOCK, WINDOW, EARLY, OTHER_ROWS = 50, 500, 1000, 2000
PATIENCE = 60.0  # seconds
Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Stream = Callable[[int, int], tuple[Rows, Labels]]


# -- streams ---------------------------------------------------------------------------------------


def blobs(k: int, d: int, size: float = 10.0) -> Stream:
    """Round clusters anywhere in a box."""

    def draw(n: int, seed: int) -> tuple[Rows, Labels]:
        rng = np.random.default_rng(seed)
        centres = rng.uniform(-size, size, (k, d))
        y = rng.integers(0, k, n)
        return centres[y] + rng.normal(size=(n, d)), y

    return draw


def moons(n: int, seed: int) -> tuple[Rows, Labels]:
    """Two bent clusters."""
    X, y = make_moons(n, noise=0.08, random_state=seed)
    return X, y


def passing(n: int, seed: int) -> tuple[Rows, Labels]:
    """Six clusters, each on its own line through a box, a width in 10,000 samples; they bounce."""
    rng = np.random.default_rng(seed)
    start, way = rng.uniform(-10, 10, (6, 2)), rng.normal(size=(6, 2))
    way *= 20 / 10_000 / np.linalg.norm(way, axis=1, keepdims=True)
    y = rng.integers(0, 6, n)
    place = start[y] + way[y] * np.arange(n)[:, None]
    return 10 - np.abs((place + 10) % 40 - 20) + 0.7 * rng.normal(size=(n, 2)), y


def drifting(n: int, seed: int) -> tuple[Rows, Labels]:
    """Six clusters in four dimensions that go the same way, their own spread in 500 samples."""
    X, y = blobs(6, 4, 6.0)(n, seed)
    way = np.random.default_rng(seed + 100).normal(size=4)
    return X + np.arange(n)[:, None] / 500 * way / np.linalg.norm(way), y


def coming_and_going(n: int, seed: int) -> tuple[Rows, Labels]:
    """Five clusters; after a third there is a sixth, after another third the first is gone."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((6, 2))
    while np.sort(np.linalg.norm(centres[:, None] - centres, axis=2), axis=1)[:, 1].min() < 5:
        centres = rng.uniform(-10, 10, (6, 2))
    y, when = rng.integers(0, 5, n), np.arange(n) * 3 // n
    y[(when > 0) & (rng.random(n) < 1 / 6)] = 5
    gone = (when == 2) & (y == 0)
    y[gone] = rng.integers(1, 6, gone.sum())
    return centres[y] + 0.8 * rng.normal(size=(n, 2)), y


STAYING: dict[str, Stream] = {
    "8 blobs, 2-D": blobs(8, 2),
    "8 blobs, 16-D": blobs(8, 16),
    "20 Gaussians, 64-D": blobs(20, 64, 3.0),
    "two moons": moons,
}
CHANGING: dict[str, Stream] = {
    "passing each other": passing,
    "drifting": drifting,
    "coming and going": coming_and_going,
}


# -- those who answer ------------------------------------------------------------------------------


def in_blocks(model: Any, X: Rows) -> Iterator[Labels]:
    """What a model says of every block before it learns it; nothing is known of the first."""
    for k in range(0, len(X), BLOCK):
        part = X[k : k + BLOCK]
        yield model.predict(part) if k else np.zeros(len(part), dtype=np.int64)
        model.partial_fit(part)


def one_by_one(model: Any, X: Rows) -> Iterator[Labels]:
    """The same for river's."""
    begin = time.process_time()
    for x in X.tolist():
        if time.process_time() - begin > PATIENCE:
            return
        sample = dict(enumerate(x))
        try:
            said = model.predict_one(sample)
        except (KeyError, ValueError):  # some cannot answer before they have learnt enough
            said = 0
        yield np.array([0 if said is None else said])
        model.learn_one(sample)


def peers(K: int, seed: int) -> dict[str, Callable[[Rows], Iterator[Labels]]]:
    """The others, as they are made, with the true number where they ask for one."""
    from river import cluster

    made = {
        "DBSTREAM": lambda: cluster.DBSTREAM(),
        "DenStream": lambda: cluster.DenStream(),
        "CluStream": lambda: cluster.CluStream(n_macro_clusters=K, seed=seed),
        "STREAMKMeans": lambda: cluster.STREAMKMeans(n_clusters=K, seed=seed),
    }
    river = {name: lambda X, new=new: one_by_one(new(), X) for name, new in made.items()}
    return {
        "MiniBatchKMeans": lambda X: in_blocks(MiniBatchKMeans(K, random_state=seed, n_init=3), X),
        **river,
    }


def over_time(y: Labels, said: Labels) -> float:
    """Mean index of windows."""
    edges = range(0, len(y), WINDOW)
    return float(
        np.mean([adjusted_rand_score(y[k : k + WINDOW], said[k : k + WINDOW]) for k in edges])
    )


def followed(stream: Stream, n: int, seed: int) -> tuple[float, float, float, float]:
    """Ours: mean over time; early beside `fit`; the largest loss after that; samples a second.

    The two in between are of other rows of the stream.
    """
    X, y = stream(n + OTHER_ROWS, seed)
    X, y, other, truth = X[:n], y[:n], X[n:], y[n:]
    model, said, seconds, scores = ODAClustering(random_state=seed), [], 0.0, []
    for k in range(0, n, BLOCK):
        begin, part = time.process_time(), X[k : k + BLOCK]
        said.append(model.predict(part) if k else np.zeros(len(part), dtype=np.int64))
        model.partial_fit(part)
        seconds += time.process_time() - begin
        if k + BLOCK >= EARLY and (k + BLOCK) % EARLY == 0:
            scores.append(adjusted_rand_score(truth, model.predict(other)))
    fitted = ODAClustering(random_state=seed).fit(X[:EARLY])
    beside = scores[0] - adjusted_rand_score(truth, fitted.predict(other))
    loss = float((np.maximum.accumulate(scores) - scores).max())
    return over_time(y, np.concatenate(said)), beside, loss, n / seconds


def speed(n: int) -> tuple[float, float]:
    """Samples a second in blocks of 1,000, and microseconds of `learn_one`, once settled."""
    X, _ = blobs(5, 10)(n, 0)
    model = ODAClustering(random_state=0).partial_fit(X[:3000])
    begin = time.process_time()
    for k in range(3000, n, 1000):
        model.partial_fit(X[k : k + 1000])
    blocks = (n - 3000) / (time.process_time() - begin)
    begin = time.process_time()
    for x in X[:5000]:
        model.learn_one(x)
    return blocks, 1e6 * (time.process_time() - begin) / 5000


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("clustering streams: adjusted Rand index before learning")
    n, seeds = (QUICK_SAMPLES, QUICK_SEEDS) if quick else (SAMPLES, SEEDS)
    lines, changing, bars = [], [], []
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, stream in (STAYING | CHANGING).items():
            ours = np.array([followed(stream, n, seed) for seed in range(seeds)])
            found = {"ODAClustering": (ours[:, 0].mean(), ours[:, 3].mean())}
            for peer in peers(1, 0):
                scores, learnt, begin = [], 0, time.process_time()
                for seed in range(seeds):
                    X, y = stream(n + OTHER_ROWS, seed)
                    said = np.concatenate(list(peers(int(y.max()) + 1, seed)[peer](X[:n])))
                    learnt += len(said)
                    scores.append(over_time(y[: len(said)], said))
                rate = learnt / (time.process_time() - begin)
                found[peer] = float(np.mean(scores)), rate
            cells = [f"{score:.3f} ({rate:,.0f}/s)" for score, rate in found.values()]
            lines.append([name, *cells])
            print(*lines[-1], sep="  ", flush=True)
            if name in CHANGING:
                changing.append([score for score, _ in found.values()])
            else:
                beside, loss = ours[:, 1].min(), ours[:, 2].max()
                bars.append(
                    [name, f"{beside:+.3f}", verdict(beside >= -0.05), f"{loss:.3f}",
                     verdict(loss <= 0.05)]
                )  # fmt: skip
        blocks, one = speed(100_000)
    mean = np.mean(changing, axis=0)
    lines.append(["mean of those that change", *(f"{score:.3f}" for score in mean)])
    table("Mean over time (samples a second)", ["stream", "ODAClustering", *peers(1, 0)], lines)
    print("At or above everyone where streams change:", verdict(mean[0] >= mean.max()))
    table(
        "On other rows, the worst of all seeds",
        ["stream", "after 1,000\nless fit", "", "largest loss\nlater", ""],
        bars,
    )
    print(f"blocks of 1,000: {blocks:,.0f} samples/s {verdict(blocks >= 300_000)}")
    print(f"learn_one: {one:.2f} microseconds")


if __name__ == "__main__":
    main()
