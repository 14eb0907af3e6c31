"""Sparse counts: words of documents, as a matrix that would not fit in memory if it were dense.

Documents of some topics: each topic prefers words of its own, all share a common vocabulary by
Zipf's law. `ODAClustering` with the I-divergence, which is that of counts, by blocks and one sample
after the other, and with the squared Euclidean one on rows of length one, beside MiniBatchKMeans on
those, all told the number of topics.
Each in a process of its own: processor time, peak memory beyond the imports in multiples of the
rows (as CSR) and of what they would take up dense, and the adjusted Rand index with the topics.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.harness import header, number, table

TOPICS = 20
MODELS = (
    ("i_divergence", "block"),
    ("i_divergence", "online"),
    ("squared_euclidean", "block"),
    ("MiniBatchKMeans", ""),
)

CHILD = """
import re, sys, time
import numpy as np
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize
from annealed import ODAClustering
def peak():  # not ru_maxrss, which a process begins with its parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
folder, name, engine, k = *sys.argv[1:4], int(sys.argv[4])
before = peak()
rows, topics = sparse.load_npz(folder + "/rows.npz"), np.load(folder + "/topics.npy")
if name == "MiniBatchKMeans":
    model = MiniBatchKMeans(k, n_init=3, random_state=0)
else:
    model = ODAClustering(k, divergence=name, engine=engine, shape="round", random_state=0)
if name != "i_divergence":
    rows = normalize(rows, copy=False)
begin = time.process_time()
labels = model.fit(rows).labels_
print(time.process_time() - begin, peak() - before, adjusted_rand_score(topics, labels))
"""


def documents(n: int, words: int, length: int, seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Counts of words, so many of them a document, half of them of its topic's own."""
    rng = np.random.default_rng(seed)
    common = 1 / np.arange(1, words + 1)
    common /= common.sum()
    own = [rng.permutation(words)[: words // 50] for _ in range(TOPICS)]
    topics = rng.integers(TOPICS, size=n)
    found = rng.choice(words, size=(n, length), p=common)
    for topic, preferred in enumerate(own):
        here = np.flatnonzero(topics == topic)
        found[here, : length // 2] = rng.choice(preferred, size=(len(here), length // 2))
    rows = np.repeat(np.arange(n), length)
    counts = sparse.coo_array((np.ones(n * length), (rows, found.ravel())), shape=(n, words))
    return sparse.csr_array(counts), topics


def main(*, quick: bool = False) -> None:
    """Run and print."""
    header("sparse counts: documents of topics")
    n, words = (2_000, 3_000) if quick else (50_000, 30_000)
    counts, topics = documents(n, words, 70, 0)
    size = counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        sparse.save_npz(Path(folder) / "rows.npz", sparse.csr_matrix(counts), compressed=False)
        np.save(Path(folder) / "topics.npy", topics)
        for name, engine in MODELS:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", CHILD, folder, name, engine, str(TOPICS)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            spent, memory, index = map(float, done.stdout.split())
            lines.append(
                [name, engine, number(spent), f"{memory / 1e6:.0f}", number(memory / size),
                 number(memory / (8 * n * words)), f"{index:.3f}"]
            )  # fmt: skip
    filled = 100 * counts.nnz / (n * words)
    table(
        f"{n:,} documents of {words:,} words, {filled:.2f} % filled, {size / 1e6:.0f} MB, into "
        f"{TOPICS}",
        ["", "engine", "s", "memory\nMB", "over rows", "over dense", "adjusted\nRand"],
        lines,
    )


if __name__ == "__main__":
    main()
