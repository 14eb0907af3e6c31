"""Hard ends: from a codebook of the path to hard clustering (T = 0), as k-means has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Level

# Weight and sum of the rows nearest to each codevector, and their distortion.
HardSums = tuple[Array, Array, float]


def cut_by_distortion(path: AnnealingPath, divergence: BregmanDivergence, K: int) -> Level:
    """The model with K codevectors whose splits explain most distortion, not the hottest ones.

    An outlier has a high critical temperature and little mass. For hard clustering, where mass
    counts, the tree is cut from the top by what each split saves, sum_i rho_i d(mu_i, mean).
    """
    last = path[-1]
    places = {node: i for i, node in enumerate(last.nodes.tolist())}
    weight = {node: last.weights[i] for node, i in places.items()}
    mean = {node: last.codevectors[i] for node, i in places.items()}
    saved: dict[int, tuple[float, tuple[int, int]]] = {}
    for split in reversed(path.events):  # children before their parents
        alive = [child for child in split.children if child in weight]
        if not alive:
            continue
        share = np.array([weight[child] for child in alive])
        rows = np.array([mean[child] for child in alive])
        weight[split.parent], mean[split.parent] = share.sum(), share @ rows / share.sum()
        centre = mean[split.parent][None, :]
        gain = share @ kernel_for(divergence).divergences(rows, centre)[:, 0]
        if len(alive) == 2:
            saved[split.parent] = (float(gain), split.children)
        elif alive[0] in saved:  # the other side vanished: its sister stands for both
            saved[split.parent] = saved[alive[0]]
    inner: set[tuple[int, int]] = set()
    open_nodes = [0] if 0 in saved else []
    while open_nodes and len(inner) < K - 1:
        best = max(open_nodes, key=lambda node: saved[node][0])
        open_nodes.remove(best)
        children = saved[best][1]
        inner.add((0, path.parent_of(children[0])))
        open_nodes += [child for child in children if child in saved]
    return path.joined(last, inner)


def harden(
    divergence: BregmanDivergence,
    start: Level,
    X: NDArray[Any],
    weights: Array | None,
    bounds: tuple[Array, Array] | None = None,
) -> Level:
    """Hard clustering (T = 0) of rows from a codebook until the distortion no longer falls."""
    kernel = kernel_for(divergence)

    def sums(mu: Array) -> HardSums:
        mass, total, _, distortion = kernel.hard_sums(X, mu, weights)
        return mass, total, distortion

    return harden_by(sums, start, len(X), bounds)


def harden_by(
    sums: Callable[[Array], HardSums],
    start: Level,
    rows: int,
    bounds: tuple[Array, Array] | None = None,
    least_gain: float = 0.0,
) -> Level:
    """Hard clustering (T = 0) from a codebook until the distortion no longer falls.

    Codevectors stay within the bounds, if given. The passes over the rows count among the level's
    samples.

    Parameters
    ----------
    sums : callable
        Passes over all rows, wherever they are, and says of codevectors what is nearest to them.
    start : Level
    rows : int
        How many there are.
    bounds : pair of arrays, optional
    least_gain : float, default=0.0
        A pass that the distortion falls by less than this part of it is the last.
    """
    mu, distortion, passes = start.codevectors, np.inf, 0
    while passes < 300:
        passes += 1
        mass, total, now = sums(mu)
        goes_on = now < distortion * (1 - least_gain)
        distortion = min(now, distortion)
        if not goes_on:
            break
        used = mass > 0
        mu = np.where(used[:, None], total / np.where(used, mass, 1.0)[:, None], mu)
        if bounds is not None:
            mu = np.clip(mu, *bounds)
    return replace(
        start,
        codevectors=mu,
        weights=mass / mass.sum(),
        temperature=0.0,
        samples=start.samples + passes * rows,
        distortion=distortion / mass.sum(),
        entropy=0.0,
        score=-distortion / mass.sum(),
    )
