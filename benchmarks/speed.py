"""Cost of learning one sample, beside other online learners and beside the machine's limit.

`partial_fit` is measured on a model whose path has ended: K codevectors that track, at the
temperature at which the K-th appeared. Its cost is given twice: in calls of many rows, and in calls
of 1024 rows, where checking the input and the copy that keeps a failed call harmless weigh more.

Two further costs come from the kernel itself. *In level*: the same codevectors at the same
temperature inside a level that is still to end, with the statistics of splits. *All move*: tracking
at a temperature so high that every codevector moves with every sample; the kernel leaves out those
that would move by less than their rounding, so this is the worst case, and the one compared with
the limit (see `benchmarks.limits`).

Peers, all with K codevectors on the same rows: the authors' package (`train_step` of its class
with perturbation and merging off and convergence never reached), river's `KMeans.learn_one` (hard
assignment, rows as dicts), scikit-learn's `MiniBatchKMeans.partial_fit` (hard, 1024 rows a call).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from annealed import ODAClustering
from benchmarks.data import Rows
from benchmarks.harness import (
    NOT_INSTALLED,
    Contender,
    cost_per_sample,
    header,
    number,
    one_thread,
    table,
    verdict,
)
from benchmarks.kernel import endless_level, learner
from benchmarks.limits import Peaks, measured_peaks

SHAPES = ((8, 2), (32, 2), (100, 2), (16, 30), (100, 30), (32, 128), (100, 784))
BATCH = 1024
OURS, OURS_1024, IN_LEVEL, ALL_MOVE = "ours", "ours, 1024 rows", "in level", "all move"
AUTHORS, RIVER, MINI_BATCH = "authors", "river", "MiniBatchKMeans"


@dataclass(frozen=True)
class Bars:
    """How many times cheaper than the authors and river, how many times dearer than sklearn."""

    authors: float
    river: float
    mini_batch: float


def bars(K: int, d: int) -> Bars:
    """What issue 2 asks for at this size."""
    return Bars(
        authors=1000 if d <= 30 else 400,
        river=100,
        mini_batch=1.25 if (K, d) == (100, 784) else 1.0,
    )


# -- ours --------------------------------------------------------------------------------------


def tracking_model(K: int, X: Rows) -> ODAClustering:
    """A model whose path ended as soon as it had K codevectors."""
    widest = float(np.linalg.eigvalsh(np.atleast_2d(np.cov(X[:1000].T)))[-1])  # half of T_c
    model = ODAClustering(
        K,
        K_max=K,
        T_min=widest,  # the ladder goes on below it until K is reached
        gamma=0.8,
        samples_per_codevector=5,
        recent_samples=0,  # what is kept would be annealed again now and then
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the levels are meant to be short
        model.fit(X[: max(1000, 5 * K)])
    if model.n_clusters_ != K:
        raise RuntimeError(f"the model has {model.n_clusters_} codevectors instead of {K}")
    return model


def our_contenders(model: ODAClustering, X: Rows) -> dict[str, Contender]:
    """`partial_fit` and the kernel below it."""
    batches = itertools.cycle([X[at : at + BATCH] for at in range(0, len(X) - BATCH + 1, BATCH)])
    hot = 100 * float(X[:1000].var(axis=0).sum())
    mu, rho, T = model.codevectors_, model.weights_, model.temperature_
    return {
        OURS: Contender(partial(model.partial_fit, X), len(X)),
        OURS_1024: Contender(lambda: model.partial_fit(next(batches)), BATCH),
        IN_LEVEL: learner(endless_level(mu, rho, T, statistics=True), X),
        ALL_MOVE: learner(endless_level(mu, rho, hot, statistics=False), X),
    }


# -- peers -------------------------------------------------------------------------------------


def mini_batch(model: ODAClustering, X: Rows) -> Contender:
    """scikit-learn's MiniBatchKMeans after a first `partial_fit`."""
    batches = itertools.cycle([X[at : at + BATCH] for at in range(0, len(X) - BATCH + 1, BATCH)])
    peer = MiniBatchKMeans(model.n_clusters_, batch_size=BATCH, n_init=1, random_state=0)
    peer.partial_fit(next(batches))
    return Contender(lambda: peer.partial_fit(next(batches)), BATCH)


def river(model: ODAClustering, X: Rows) -> Contender | None:
    """river's KMeans, one dict at a time."""
    try:
        from river import cluster
    except ImportError:
        return None
    peer: Any = cluster.KMeans(n_clusters=model.n_clusters_, seed=0)
    names = range(X.shape[1])
    rows = itertools.cycle([dict(zip(names, x.tolist(), strict=True)) for x in X[:200]])
    return Contender(lambda: peer.learn_one(next(rows)))


def authors(model: ODAClustering, X: Rows) -> Contender | None:
    """The authors' class with our codevectors in it, one `train_step` at a time.

    Its temperature is given as lambda with T = lambda/(1 - lambda). ``lvq=[2]`` is its soft update
    without perturbation and merging; a zero ``em_convergence`` is never reached.
    """
    try:
        ODA = import_module("online_deterministic_annealing.oda").ODA
    except ImportError:
        return None
    T, K = model.temperature_, model.n_clusters_
    response = np.zeros(1)  # its samples carry one, which clustering leaves out of the distance
    rows = itertools.cycle([[x.copy()] for x in X[:200]])
    with contextlib.redirect_stdout(io.StringIO()):
        peer = ODA(
            train_data_x=[next(rows)],
            train_data_y=[response],
            train_labels=[0],
            Kmax=[10 * K],
            Tmax=[T / (1 + T)],
            Tmin=[0.0],
            lvq=[2],
            em_convergence=[0.0],
            verbose=0,
        )
    codevectors, responses = list(model.codevectors_.copy()), [response.copy() for _ in range(K)]
    peer.overwrite_codevectors(
        codevectors, responses, [0] * K, [[]] * K, [None] * K, [None] * K, model.weights_.tolist()
    )
    if peer.K != K:
        raise RuntimeError(f"the authors' model has {peer.K} codevectors instead of {K}")
    return Contender(lambda: peer.train_step(next(rows), response, 0))


# -- the tables --------------------------------------------------------------------------------


def costs(K: int, d: int, budget: float, rounds: int) -> dict[str, float]:
    """Nanoseconds per sample of everyone, in turns."""
    rows = max(5 * BATCH, min(100_000, 1_000_000 // d))
    X = np.random.default_rng(0).normal(size=(rows, d))
    model = tracking_model(K, X)
    contenders: dict[str, Contender] = our_contenders(model, X)
    for name, build in ((AUTHORS, authors), (RIVER, river), (MINI_BATCH, mini_batch)):
        contender = build(model, X)
        if contender is not None:
            contenders[name] = contender
    return cost_per_sample(contenders, budget, rounds)


def ratio_row(K: int, d: int, ns: dict[str, float]) -> list[object]:
    """Ratios to every peer beside what is asked."""
    asked = bars(K, d)
    row: list[object] = [f"{K}, {d}"]
    for name, bar in ((AUTHORS, asked.authors), (RIVER, asked.river)):
        if name in ns:
            ratio = ns[name] / ns[OURS]
            row += [number(ratio), number(bar), verdict(ratio >= bar)]
        else:
            row += [NOT_INSTALLED, number(bar), "-"]
    row.append(asked.mini_batch)
    for name in (OURS, OURS_1024):
        ratio = ns[name] / ns[MINI_BATCH]
        row += [number(ratio), verdict(ratio <= asked.mini_batch)]
    return row


def cost_row(K: int, d: int, ns: dict[str, float]) -> list[object]:
    """Nanoseconds of everyone."""
    everyone = (OURS, OURS_1024, IN_LEVEL, ALL_MOVE, AUTHORS, RIVER, MINI_BATCH)
    cells = [f"{ns[name]:,.0f}" if name in ns else NOT_INSTALLED for name in everyone]
    return [f"{K}, {d}", *cells]


def limit_row(K: int, d: int, ns: dict[str, float], peaks: Peaks) -> list[object]:
    """The worst case beside the limits."""
    sweep, ahead = peaks.limit(K, d, look_ahead=False), peaks.limit(K, d, look_ahead=True)
    fractions = [number(limit / ns[ALL_MOVE], 2) for limit in (sweep, ahead)]
    absolute = [f"{value:,.0f}" for value in (sweep, ahead, ns[ALL_MOVE], ns[OURS])]
    return [f"{K}, {d}", *fractions, number(ns[ALL_MOVE] / ns[MINI_BATCH]), *absolute]


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("speed: one sample of partial_fit, K codevectors in d dimensions")
    budget, rounds = (0.02, 3) if quick else (0.1, 7)
    with one_thread():
        peaks = measured_peaks()
        results = {(K, d): costs(K, d, budget, rounds) for K, d in SHAPES}
        peaks = peaks.or_better(measured_peaks())
    table(
        "How many times cheaper than the authors' package and river (bar: at least), and how many\n"
        "times the cost of MiniBatchKMeans with 1024 rows a call (bar: at most)",
        ["K, d", "authors\n/ ours", "bar", "", "river\n/ ours", "bar", "", "bar",
         "ours /\nMiniBatch", "", "ours 1024 rows\n/ MiniBatch", ""],
        [ratio_row(K, d, ns) for (K, d), ns in results.items()],
    )  # fmt: skip
    table(
        "Nanoseconds per sample",
        ["K, d", "ours", "ours,\n1024 rows", "in level", "all move", "authors", "river",
         "MiniBatchKMeans\n1024 rows"],
        [cost_row(K, d, ns) for (K, d), ns in results.items()],
    )  # fmt: skip
    print(f"\nPeaks of this core, now: {peaks}")
    table(
        "Fraction of the machine's limit reached when all codevectors move (1 is the limit), and\n"
        "the two limits: one sweep per sample, and blocks of 16 samples looked ahead",
        ["K, d", "of the limit,\none sweep", "of the limit,\nlook-ahead", "all move /\nMiniBatch",
         "one sweep\nns", "look-ahead\nns", "all move\nns", "partial_fit\nns"],
        [limit_row(K, d, ns, peaks) for (K, d), ns in results.items()],
    )  # fmt: skip


if __name__ == "__main__":
    main()
