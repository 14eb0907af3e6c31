"""A codebook between two levels: what is kept, what merges, what splits.

Every function here returns a new codebook; nothing is changed in place. One class at a time:
codevectors of different classes never meet (see docs/notation.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels import kernel_for
from annealed.stored import Directions, Indices, Matrix, State, Vector, one_length, one_width

Nodes = NDArray[np.int64]

# Rows of a matrix of costs that are found at a time: few temporary arrays of all pairs.
ROWS_OF_COSTS = 64


@dataclass(frozen=True, eq=False)
class Codebook:
    """Codevectors of one class with everything a level knows about them.

    mu : (K, d), the codevectors
    rho : (K,), their weights, summing to one
    axis : (K, d), unit vectors along which each would split
    memory : (K,), the length of the sum of p y (x - mu) that each axis rests on
    before : (K, d), the axis it was before it last turned (zero: none)
    critical : (K,), the temperature below which each is unstable (nan before it is measured)
    error : (K,), the standard error of ``critical``
    mass : (K,), the association mass ``critical`` rests on
    distortion : (K,), the mean divergence of its samples from it (nan before it is measured)
    node : (K,), the place of each in the tree of splits
    resting_axis, resting_memory, resting_before : in `fit` the axis that the other half of the rows
        turns, until `exchanged` takes it up
    """

    mu: Matrix
    rho: Vector
    axis: Directions
    memory: Vector
    before: Directions
    critical: Vector
    error: Vector
    mass: Vector
    distortion: Vector
    node: Indices
    resting_axis: Directions
    resting_memory: Vector
    resting_before: Directions

    @classmethod
    def check_stored(cls, state: State) -> None:
        """Everything is known of every codevector."""
        one_length("a codebook", *state.values())
        mu = state["mu"]
        names = ("axis", "before", "resting_axis", "resting_before")
        one_width("a codebook", mu.shape[1], mu, *(state[name] for name in names))

    def __len__(self) -> int:
        return len(self.mu)

    def take(self, index: NDArray[np.int64]) -> Codebook:
        """The codevectors at these places."""
        return Codebook(*[values[index] for values in _parts(self)])


# All of a codebook, in order.
_parts: Callable[[Codebook], tuple[NDArray[Any], ...]] = attrgetter(
    *(part.name for part in fields(Codebook))
)


def zero_for_nan(values: Array) -> Array:
    """What is not known yet as 0."""
    return np.where(np.isnan(values), 0.0, values)


def single(
    mu: Array,
    axis: Array,
    memory: float = 0.0,
    distortion: float = np.nan,
    resting_axis: Array | None = None,
    resting_memory: float = 0.0,
) -> Codebook:
    """One codevector, the root of the tree."""
    axes = np.array([axis, axis if resting_axis is None else resting_axis])
    length = np.sqrt((axes**2).sum(axis=1, keepdims=True))
    axes = np.where(length > 0, axes / np.where(length > 0, length, 1.0), 1 / np.sqrt(len(mu)))
    unknown, nowhere = np.full(1, np.nan), np.zeros((1, len(mu)))
    return Codebook(
        mu=mu[None, :],
        rho=np.ones(1),
        axis=axes[:1],
        memory=np.full(1, memory),
        before=nowhere,
        critical=unknown,
        error=unknown,
        mass=np.zeros(1),
        distortion=np.full(1, distortion),
        node=np.zeros(1, dtype=np.int64),
        resting_axis=axes[1:],
        resting_memory=np.full(1, resting_memory),
        resting_before=nowhere,
    )


def bare(mu: Array, rho: Array, node: Nodes) -> Codebook:
    """Codevectors of which nothing but position, weight and place in the tree is known."""
    unknown, nowhere = np.full(len(mu), np.nan), np.zeros_like(mu)
    none = np.zeros(len(mu))
    return Codebook(
        mu=mu,
        rho=rho,
        axis=nowhere,
        memory=none,
        before=nowhere,
        critical=unknown,
        error=unknown,
        mass=none,
        distortion=unknown,
        node=node,
        resting_axis=nowhere,
        resting_memory=none,
        resting_before=nowhere,
    )


def exchanged(book: Codebook) -> Codebook:
    """The axes that rested taken up, and those that were turned laid aside."""
    return replace(
        book,
        axis=book.resting_axis,
        memory=book.resting_memory,
        before=book.resting_before,
        resting_axis=book.axis,
        resting_memory=book.memory,
        resting_before=book.before,
    )


def to_be_kept(book: Codebook) -> Codebook:
    """The codebook as a path keeps it, for those who go back to it.

    Axes in single precision, and none of before their last turn, which was for the splits that
    followed: large codebooks in many dimensions would take up two and a half times as much.
    """
    axis, resting = book.axis.astype(np.float32), book.resting_axis.astype(np.float32)
    return replace(book, axis=axis, before=axis, resting_axis=resting, resting_before=resting)


def to_be_learnt(book: Codebook) -> Codebook:
    """The codebook as a level begins with it, also one that was kept."""
    if book.axis.dtype == float:
        return book
    axis, resting = book.axis.astype(float), book.resting_axis.astype(float)
    return replace(book, axis=axis, before=axis, resting_axis=resting, resting_before=resting)


def prune(book: Codebook, epsilon_r: float) -> Codebook:
    """Drop idle codevectors (rho < epsilon_r), never the last one."""
    keep = np.flatnonzero(book.rho >= epsilon_r)
    if len(keep) == len(book):
        return book
    if len(keep) == 0:
        keep = np.array([book.rho.argmax()])
    kept = book.take(keep)
    return replace(kept, rho=kept.rho / kept.rho.sum())


def pooled(book: Codebook, first: Nodes, second: Nodes, divergence: BregmanDivergence) -> Codebook:
    """Pairs of codevectors joined, each into one that takes the heavier's place.

    No codevector is in two pairs. The mean is weighted by rho. The critical temperature of a pair
    is that of the samples of both about their common mean: the pooled variance plus that of the
    two positions.
    """
    pair = np.stack([first, second], axis=1)
    heavier = book.rho[second] > book.rho[first]
    pair[heavier] = pair[heavier, ::-1]
    weight = book.rho[pair]
    rho = weight.sum(axis=1)
    share = weight / rho[:, None]
    mu = (share[:, :, None] * book.mu[pair]).sum(axis=1)
    mass = book.mass[pair].sum(axis=1)
    # The variance along the axis of the heavier one, in the units of u = H a / sqrt(<a, H a>).
    kept, gone = pair.T
    axis = book.axis[kept]
    product = divergence.hessian_product(mu, axis)
    length = np.sqrt(np.maximum((axis * product).sum(axis=1, keepdims=True), 1e-300))
    offsets = ((book.mu[pair] - mu[:, None, :]) * product[:, None, :]).sum(axis=2) / length
    critical, error = book.critical[pair], book.error[pair]
    critical = (share * (np.where(np.isnan(critical), 0.0, critical) + offsets**2)).sum(axis=1)
    error = np.sqrt(((share * np.where(np.isnan(error), 0.0, error)) ** 2).sum(axis=1))
    rest = np.ones(len(book), dtype=bool)
    rest[gone] = False
    joined = book.take(np.flatnonzero(rest))
    place = (np.cumsum(rest) - 1)[kept]
    joined.mu[place], joined.rho[place], joined.mass[place] = mu, rho, mass
    joined.distortion[place] = (share * book.distortion[pair]).sum(axis=1)
    joined.critical[place], joined.error[place] = np.where(mass > 0, critical, np.nan), error
    return joined


def reduced(book: Codebook, K: int, divergence: BregmanDivergence) -> Codebook:
    """K codevectors: pairs are joined, each time the one whose joining costs least distortion.

    Of the joined ones no more is known than where they are and how heavy.
    """
    kernel, mu, rho = kernel_for(divergence), book.mu.copy(), book.rho.copy()
    rest = np.ones(len(book), dtype=bool)

    def cost(i: Nodes) -> Array:
        """Distortion it costs to join these with each of the others; infinite with itself."""
        distance = kernel.divergences(mu, mu[i]).T
        # The squared Euclidean one is the same both ways, to the last bit.
        same = divergence.kernel == "squared_euclidean" and divergence.matrix is None
        distance = distance + (distance if same else kernel.divergences(mu[i], mu))
        weight = rho[i, None] * rho / np.maximum(rho[i, None] + rho, 1e-300)
        joining = np.where(rest, weight * distance, np.inf)
        joining[np.arange(len(i)), i] = np.inf
        return joining

    costs = np.empty((len(book), len(book)))
    for begin in range(0, len(book), ROWS_OF_COSTS):
        some = np.arange(begin, min(begin + ROWS_OF_COSTS, len(book)))
        costs[some] = cost(some)
    for _ in range(len(book) - K):
        i, j = np.unravel_index(costs.argmin(), costs.shape)
        kept, gone = (i, j) if rho[i] >= rho[j] else (j, i)
        total = rho[kept] + rho[gone]
        mu[kept], rho[kept] = (rho[kept] * mu[kept] + rho[gone] * mu[gone]) / total, total
        rest[gone] = False
        costs[gone], costs[:, gone] = np.inf, np.inf
        costs[kept] = costs[:, kept] = cost(np.array([kept]))[0]
    places = np.flatnonzero(rest)
    kept_book, unknown = book.take(places), np.full(len(places), np.nan)
    return replace(
        kept_book,
        mu=mu[places],
        rho=rho[places],
        critical=unknown,
        error=unknown,
        mass=np.zeros(len(places)),
    )


def split(
    book: Codebook,
    chosen: NDArray[np.int64],
    T: float,
    divergence: BregmanDivergence,
    low: Array,
    high: Array,
    next_node: int,
) -> Codebook:
    """Replace each chosen codevector by two, a step to either side along its axis.

    Near a critical temperature the pair of a Gaussian settles at d(mu, twin) = (T_c - T)/2 from
    their parent (expand the fixed point of eq. (mu_star) to third order), so that is where the two
    are put; samples then move them.
    Node ``next_node + 2 k`` and the one after it are the children of the k-th chosen codevector.
    """
    K, n = len(book), len(chosen)
    rest = np.ones(K, dtype=bool)
    rest[chosen] = False
    book = book.take(np.concatenate([np.flatnonzero(rest), np.repeat(chosen, 2)]))
    # Every second one of the last stands for its parent still.
    parents, children = slice(K - n, None, 2), slice(K - n, None)
    mu, axis = book.mu[parents].copy(), book.axis[parents]
    norm = (axis * divergence.hessian_product(mu, axis)).sum(axis=1)
    gap = np.maximum(zero_for_nan(book.critical[parents]) - T, 1e-3 * T)
    step = _inside(mu, np.sqrt(gap / norm)[:, None] * axis, low, high, divergence)
    book.mu[K - n :: 2] -= step
    book.mu[K - n + 1 :: 2] += step
    axes = np.concatenate([axis, book.resting_axis[parents]])
    before = np.concatenate([book.before[parents], book.resting_before[parents]])
    axes = _next_axes(np.concatenate([mu, mu]), axes, before, divergence)
    book.axis[children], book.resting_axis[children] = np.repeat(axes.reshape(2, n, -1), 2, axis=1)
    book.rho[children] /= 2
    for nothing in (book.memory, book.resting_memory, book.mass):
        nothing[children] = 0.0
    book.critical[children] = book.error[children] = np.nan
    book.node[children] = next_node + np.arange(2 * n)
    return book


def _next_axes(mu: Array, axis: Array, old: Array, divergence: BregmanDivergence) -> Array:
    """The axes that halves of codevectors start with.

    A child splits next along the same axis again or across it, so it starts between the two.
    "Across" is the direction the last power-iteration step turned to: the part of the axis across
    the one before it, as long as the axis, both by H(mu).
    """
    Ha, H_old = divergence.hessian_product(mu, axis), divergence.hessian_product(mu, old)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (axis * H_old).sum(axis=1, keepdims=True)
        share = share / (old * H_old).sum(axis=1, keepdims=True)
        across, H_across = axis - share * old, Ha - share * H_old
        length = (across * H_across).sum(axis=1, keepdims=True)
        turned = across * np.sqrt((axis * Ha).sum(axis=1, keepdims=True) / length)
        between = axis + np.where(np.isfinite(turned), turned, 0.0)
        unit = between / np.sqrt((between**2).sum(axis=1, keepdims=True))
    return np.where(np.isfinite(unit), unit, axis)


def side_by_side(book: Codebook, step: Array) -> Codebook:
    """Each codevector twice, at mu - step and mu + step, with half its weight: 0, 0', 1, 1', ..."""
    twice = book.take(np.repeat(np.arange(len(book)), 2))
    sign = np.tile([-1.0, 1.0], len(book))[:, None]
    return replace(
        twice,
        mu=twice.mu + sign * np.repeat(step, 2, axis=0),
        rho=twice.rho / 2,
        mass=twice.mass / 2,
    )


def perturb(
    book: Codebook, size: float, divergence: BregmanDivergence, low: Array, high: Array
) -> Codebook:
    """The paper's perturbed pairs: mu_i becomes {mu_i - delta, mu_i + delta} along its axis."""
    norm = (book.axis * divergence.hessian_product(book.mu, book.axis)).sum(axis=1)
    step = size * np.sqrt(2 / norm)[:, None] * book.axis
    return side_by_side(book, _inside(book.mu, step, low, high, divergence))


def _inside(
    mu: Array, step: Array, low: Array, high: Array, divergence: BregmanDivergence
) -> Array:
    """Steps so short in every feature that mu - step and mu + step stay inside the domain.

    Not as a whole: among thousands of words there are some that a codevector has next to none of,
    and it could not split at all. What sums to one goes on doing so.
    """
    room = 0.5 * np.minimum(mu - low, high - mu)
    step = np.clip(step, -room, room)
    if divergence.simplex:
        step = step - mu * (step.sum(axis=1, keepdims=True) / mu.sum(axis=1, keepdims=True))
    return np.asarray(step)
