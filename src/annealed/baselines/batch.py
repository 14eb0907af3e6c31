"""Rose's deterministic annealing: all rows at once, splits at their exact critical temperatures.

At a temperature T the two equations of the mass-constrained algorithm are iterated to their fixed
point (K. Rose, Proc. IEEE 86(11), 1998),

    p_i(x) = rho_i exp(-d(x, mu_i)/T) / sum_j rho_j exp(-d(x, mu_j)/T)
    rho_i  = E[p_i(x)],    mu_i = E[p_i(x) x] / rho_i      (a mean, for every Bregman divergence),

neither of which raises -T E log sum_i rho_i exp(-d(x, mu_i)/T) = D + T I(x; mu). Codevector i is
unstable below T_c = lambda_max(H(mu_i) C_i), C_i the covariance of the rows weighted by p_i (his
Theorem 1; 2 lambda_max(C_i) for the squared Euclidean divergence): there it becomes two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from annealed.annealing import codebook
from annealed.annealing.codebook import Codebook
from annealed.annealing.schedule import COLDEST, COLDEST_TO_GROW, HOTTEST, Schedule
from annealed.divergences import Array, BregmanDivergence, SquaredEuclidean
from annealed.kernels import kernel_for
from annealed.path import AnnealingPath, Family, Level, Split, check_level, check_splits
from annealed.stored import Amount, Count, Matrix, Positive, State, require

# A codevector splits at T when its T_c exceeds T by this part: closer to T_c its two sides would
# stand so close together that iterating to their fixed point takes for ever.
MARGIN = 0.005
# Two codevectors closer than this part of T are one. Sides of a split that has just happened rest
# 2 (T_c - T) apart (third-order expansion for a Gaussian), at least ten times as far.
TOGETHER = 1e-3
# A codevector that is still on its way to rest looks less stable than it is, so before anything
# splits the fixed point is found to this part of the tolerance.
FINER = 1e-3
# Codevectors of less weight are dropped; rows of less association do not count for a covariance.
IDLE, NEGLIGIBLE = 1e-7, 1e-12
# Up to this many features the covariance is written down, beyond it is only multiplied with.
DENSE = 16


@dataclass(eq=False, repr=False)
class BatchAnnealer:
    """Deterministic annealing of one class.

    Parameters
    ----------
    divergence : BregmanDivergence
    schedule : Schedule
        T_max, T_min, gamma, K_max and the number of codevectors wanted; nothing else is looked at.
    tol : float
        A temperature is done when no codevector moves by more than a divergence of tol T.
    max_iter : int
        Iterations at one temperature after which it is done regardless.
    """

    divergence: BregmanDivergence
    schedule: Schedule
    tol: Amount
    max_iter: Positive
    levels: list[Level] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    next_node: Positive = 1
    iterations: Count = 0
    unconverged: list[float] = field(default_factory=list)  # T at which max_iter was reached
    end_temperature: Amount | None = None
    told: float = math.inf  # T of the coldest level a listener has been handed
    chosen: Level | None = None
    # In coordinates where phi is half of Euclid's curvature.
    covariance: Matrix = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def check_stored(cls, state: State) -> None:
        """There are levels, all of one class and one number of features."""
        check_splits(state["splits"])
        levels = [*state["levels"], *([] if state["chosen"] is None else [state["chosen"]])]
        require(levels, "an annealing has no level")
        for level in levels:
            check_level("a level", level, levels[0].codevectors.shape[1], 1)

    def copy(self) -> BatchAnnealer:
        """A twin that stays as it is while this one goes on."""
        twin = copy.copy(self)
        twin.levels, twin.splits = list(self.levels), list(self.splits)
        return twin

    def path(self) -> AnnealingPath:
        """Every level, hottest first."""
        return AnnealingPath(self.levels, self.splits, self.end_temperature)

    def model(self) -> Level:
        """The level that was chosen, the coldest one if none was."""
        return self.levels[-1] if self.chosen is None else self.chosen

    # -- annealing -----------------------------------------------------------------------------

    def anneal(
        self,
        X: NDArray[Any],
        weights: Array | None,
        listen: Callable[[BatchAnnealer], None] | None = None,
        choose: Callable[[BatchAnnealer], Level] | None = None,
    ) -> None:
        """Cool from one codevector to the end of the ladder."""
        data = _Data(X, weights, self.divergence)
        self.covariance = data.covariance()
        unit = data.unit()
        self.divergence.check_spread(unit, data.X.min(axis=0), data.X.max(axis=0))
        T = HOTTEST * unit if self.schedule.T_max is None else self.schedule.T_max
        book = codebook.single(data.clipped(data.mean), np.zeros(len(data.mean)))
        if not unit > 0:  # identical rows: nothing to anneal, one codevector without temperature
            self.chosen = self._level(book, 0.0, data, None)
            return
        top, T_min = T, COLDEST * T if self.schedule.T_min is None else self.schedule.T_min
        if not T_min < T:
            raise ValueError(
                f"T_min = {T_min:g} must lie below T_max = {T:g}, which the data decides: "
                "annealing goes from hot to cold"
            )
        rung = 0
        while True:
            book = self._settle(book, T, data)
            if rung:
                grown = self._grow(book, T, data)
                if grown is None:
                    break
                book = grown
            self.levels.append(self._level(book, T, data, self.levels[-1] if rung else None))
            if listen is not None:
                listen(self)
            rung += 1
            T = top * self.schedule.gamma**rung
            if self._ends(book, T, T_min, top, data):
                break
        if choose is not None:
            self.chosen = self._at_rest(choose(self), data)

    def _ends(self, book: Codebook, T: float, T_min: float, top: float, data: _Data) -> bool:
        """Whether there is no level at T."""
        wanted = self.schedule.wanted
        if wanted is not None and len(book) >= self.schedule.room:
            return True
        if T >= T_min * (1 - 1e-9):
            return False
        if wanted is None or len(book) >= wanted:
            return True
        spread = data.traces(book, data.shares(book, T / self.schedule.gamma)[0])
        return bool(spread.max() <= COLDEST_TO_GROW * top)

    def _settle(self, book: Codebook, T: float, data: _Data, finer: float = 1.0) -> Codebook:
        """Iterate both equations to their fixed point, within ``finer`` times the tolerance.

        Just below a critical temperature they converge as slowly as one likes, so every third
        iteration starts from an extrapolation of the two before (SQUAREM, Varadhan and Roland
        2008), unless that raised what the equations lower.
        """
        here, limit, reach = book, self.iterations + self.max_iter, 4.0
        while self.iterations < limit:
            first, at_start = self._iterate(here, T, data)
            if len(book) == 1 or self._resting(here, first, finer * T):
                here = first
                break
            second, _ = self._iterate(first, T, data)
            far, s = self._extrapolated(here, first, second, T, data, reach)
            here, at_far = self._iterate(far, T, data)
            if at_far <= at_start:
                reach = 4 * reach if s == reach else reach
            else:
                here, reach = second, max(reach / 4, 1.0)
        else:
            if finer == 1:  # within the tolerance it rests, if not within the finer one
                self.unconverged.append(T)
        return codebook.prune(here, IDLE)

    def _iterate(self, book: Codebook, T: float, data: _Data) -> tuple[Codebook, float]:
        """Both equations once; and -T E log sum_i rho_i exp(-d/T) before."""
        self.iterations += 1
        q, energy = data.shares(book, T)
        rho = q.sum(axis=0)
        alive = rho > 0
        means = data.means(q, np.where(alive, rho, 1.0))
        mu = data.clipped(np.where(alive[:, None], means, book.mu))
        return replace(book, mu=mu, rho=rho / rho.sum()), energy

    def _resting(self, before: Codebook, after: Codebook, T: float) -> bool:
        step = after.mu - before.mu
        # d(mu + step, mu) to second order
        size = 0.5 * (step * self.divergence.hessian_product(before.mu, step)).sum(axis=1)
        return not size.max() > self.tol * T

    def _extrapolated(
        self,
        start: Codebook,
        first: Codebook,
        second: Codebook,
        T: float,
        data: _Data,
        reach: float,
    ) -> tuple[Codebook, float]:
        """start + 2 s r + s^2 v, with r the first step and v the change from it to the second.

        And s: the ratio of their lengths, at least 1 (which is the second iterate itself) and at
        most ``reach``.
        """
        r, v = first.mu - start.mu, second.mu - 2 * first.mu + start.mu
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(book.rho) for book in (start, first, second)]
            r_log, v_log = logs[1] - logs[0], logs[2] - 2 * logs[1] + logs[0]
        if not (np.isfinite(r_log).all() and np.isfinite(v_log).all()):
            return second, 1.0

        def size(mu: Array, log_rho: Array) -> float:
            squared = (mu * self.divergence.hessian_product(first.mu, mu)).sum(axis=1) / T
            return float(first.rho @ (squared + log_rho**2))

        length, turn = size(r, r_log), size(v, v_log)
        s = min(max(math.sqrt(length / turn), 1.0), reach) if turn > 0 else reach
        log_rho = logs[0] + 2 * s * r_log + s**2 * v_log
        rho = np.exp(log_rho - log_rho.max())
        mu = data.clipped(start.mu + 2 * s * r + s**2 * v)
        return replace(second, mu=mu, rho=rho / rho.sum()), s

    def _grow(self, book: Codebook, T: float, data: _Data) -> Codebook | None:
        """Split whatever is unstable at T until nothing is; None if there is no room for it."""
        room = self.schedule.room
        settled: set[int] = set()  # nodes whose two sides came together again
        confirmed = False
        while True:
            book = self._measured(book, T, data)
            unstable = np.flatnonzero(np.nan_to_num(book.critical) > (1 + MARGIN) * T)
            unstable = unstable[[int(book.node[i]) not in settled for i in unstable]]
            unstable = unstable[np.argsort(-book.critical[unstable], kind="stable")]
            if self.schedule.wanted is not None:
                unstable = unstable[: max(room - len(book), 0)]
            if not len(unstable):
                return book
            if not confirmed:
                book, back = self._joined(self._settle(book, T, data, FINER), T)
                settled |= back
                confirmed = True
                continue
            confirmed = False
            if len(book) + len(unstable) > room:
                self.end_temperature = min(
                    float(book.critical[unstable].max()), self.levels[-1].temperature
                )
                # Splits of a level that is not kept did not happen.
                level = len(self.levels)
                self.splits = [split for split in self.splits if split.level < level]
                return None
            first = self.next_node
            for k, i in enumerate(unstable.tolist()):
                children = (first + 2 * k, first + 2 * k + 1)
                self.splits.append(
                    Split(0, int(book.node[i]), children, float(book.critical[i]), len(self.levels))
                )
            self.next_node += 2 * len(unstable)
            book = replace(book, axis=self._unhindered(book, T, data))
            book = codebook.split(book, unstable, T, self.divergence, data.low, data.high, first)
            book, back = self._joined(self._settle(book, T, data), T)
            settled |= back

    def _unhindered(self, book: Codebook, T: float, data: _Data) -> Array:
        """Split axes without the features that lie too close to the boundary of the domain.

        The step of a split is shortened until it stays inside; one feature that is almost always
        zero would bring it to nothing.
        """
        norm = (book.axis * self.divergence.hessian_product(book.mu, book.axis)).sum(axis=1)
        gap = np.maximum(np.nan_to_num(book.critical) - T, 0.0)
        step = np.sqrt(gap / np.where(norm > 0, norm, 1.0))[:, None] * np.abs(book.axis)
        room = 0.5 * np.minimum(book.mu - data.low, data.high - book.mu)
        free = np.where(step > room, 0.0, book.axis)
        length = np.sqrt((free**2).sum(axis=1, keepdims=True))
        return np.where(length > 0, free / np.where(length > 0, length, 1.0), book.axis)

    def _joined(self, book: Codebook, T: float) -> tuple[Codebook, set[int]]:
        """Join codevectors that are one at T; and the nodes whose split was taken back."""
        kernel, back = kernel_for(self.divergence), set()
        while len(book) > 1:
            distance = kernel.divergences(book.mu, book.mu)
            np.fill_diagonal(distance, np.inf)
            i, j = sorted(int(k) for k in np.unravel_index(distance.argmin(), distance.shape))
            if distance.min() >= TOGETHER * T:
                break
            pair = tuple(sorted((int(book.node[i]), int(book.node[j]))))
            taken_back = [split for split in self.splits if split.children == pair]
            if taken_back:
                book.node[[i, j]] = taken_back[0].parent
                back.add(taken_back[0].parent)
                if taken_back[0].level == len(self.levels):  # nobody has seen it
                    self.splits.remove(taken_back[0])
            book = codebook.pooled(book, np.array([i]), np.array([j]), self.divergence)
        return book, back

    def _measured(self, book: Codebook, T: float, data: _Data) -> Codebook:
        """The codebook with the critical temperature and axis of all that may be unstable."""
        q, _ = data.shares(book, T)
        critical, axis = np.full(len(book), np.nan), np.zeros_like(book.mu)
        # lambda_max is at most the trace, which costs nothing.
        for i in np.flatnonzero(data.traces(book, q) > T).tolist():
            critical[i], axis[i] = data.instability(book.mu[i], q[:, i])
        return replace(book, critical=critical, axis=axis, node=book.node.copy())

    def _level(self, book: Codebook, T: float, data: _Data, before: Level | None) -> Level:
        distortion, entropy = data.energies(book, T)
        one_class = np.zeros(len(book), dtype=np.int64)
        return Level(
            temperature=T,
            codevectors=book.mu,
            weights=book.rho,
            classes=one_class,
            nodes=book.node,
            parents=Family(self.splits).parents(one_class, book.node, before),
            samples=self.iterations * len(data.X),
            distortion=distortion,
            entropy=entropy,
            score=-distortion,
        )

    def cool_on(self, X: NDArray[Any], weights: Array | None, start: Level) -> Level:
        """A level cooled to a hundredth of its temperature with its size fixed.

        What `Annealer.cool_on` does online. The annealer itself stays as it is.
        """
        twin, data = copy.copy(self), _Data(X, weights, self.divergence)
        twin.iterations, twin.unconverged = 0, []
        book = codebook.bare(start.codevectors, start.weights, start.nodes)
        T = start.temperature
        while T > 1e-2 * start.temperature:
            T *= self.schedule.gamma
            book = twin._settle(book, T, data)
        level = self._level(book, T, data, None)
        return replace(level, samples=start.samples + twin.iterations * len(data.X))

    def _at_rest(self, level: Level, data: _Data) -> Level:
        """A level as chosen; where splits were undone to reach its K, iterated once more."""
        if not math.isnan(level.distortion):
            return level
        book = codebook.bare(level.codevectors, level.weights, level.nodes)
        settled = self._level(self._settle(book, level.temperature, data), level.temperature,
                              data, None)  # fmt: skip
        return settled if settled.n_codevectors == level.n_codevectors else level


class _Data:
    """The rows with their weights, and every sum over them."""

    def __init__(
        self, X: NDArray[Any], weights: Array | None, divergence: BregmanDivergence
    ) -> None:
        present = slice(None) if weights is None else weights > 0
        self.X = np.ascontiguousarray(X[present], dtype=float)
        w = np.ones(len(self.X)) if weights is None else weights[present]
        self.w = w / w.sum()
        self.divergence, self.kernel = divergence, kernel_for(divergence)
        self.mean = self.w @ self.X
        if (self.X == self.X[0]).all():
            self.mean = self.X[0].copy()
        self.low, self.high = divergence.bounds(self.mean)
        # Sums are taken about the mean: far from the origin those of x^2 would cancel.
        self.centred = self.X - self.mean
        # Coordinates of the kernel, in which a Mahalanobis divergence is Euclidean.
        inside = self.centred if divergence.matrix is None else self.centred @ divergence.matrix
        self.squares = inside**2

    def clipped(self, mu: Array) -> Array:
        return np.clip(mu, self.low, self.high)

    def unit(self) -> float:
        """trace(H C) at the mean, or its bound."""
        return self.divergence.unit(self.mean, self.w @ self.squares)

    def covariance(self) -> Array:
        """Covariance where the divergence is the squared Euclidean one to second order."""
        if self.divergence.matrix is None:
            inside = self.clipped(self.mean)[None, :]
            Z = self.centred * np.sqrt(self.divergence.hessian_diagonal(inside)[0] / 2)
        else:
            Z = self.centred @ self.divergence.matrix
        return np.asarray((Z * self.w[:, None]).T @ Z)

    def shares(self, book: Codebook, T: float) -> tuple[Array, float]:
        """w p_i(x), shape (n_samples, K), and -T E log sum_i rho_i exp(-d/T)."""
        p, log_total, _ = self._associate(book, T)
        return p * self.w[:, None], -T * float(self.w @ log_total)

    def _associate(self, book: Codebook, T: float) -> tuple[Array, Array, Array]:
        K = len(book)
        with np.errstate(divide="ignore"):
            log_rho = np.log(book.rho)
        return self.kernel.associate(self.X, book.mu, log_rho, T, np.arange(K), K)

    def means(self, q: Array, rho: Array) -> Array:
        return np.asarray(self.mean + (q.T @ self.centred) / rho[:, None])

    def energies(self, book: Codebook, T: float) -> tuple[float, float]:
        """D and H of eq. (F)."""
        p, _, distortion = self._associate(book, T)
        entropy = -self.w @ (p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)
        return float(self.w @ distortion), max(float(entropy), 0.0)

    def traces(self, book: Codebook, q: Array) -> Array:
        """trace(H(mu_i) C_i), or its bound, of every codevector: none is unstable above it."""
        rho = np.maximum(q.sum(axis=0), 1e-300)[:, None]
        offset = book.mu - self.mean
        matrix = self.divergence.matrix
        offset = offset if matrix is None else offset @ matrix
        variance = np.maximum((q.T @ self.squares) / rho - offset**2, 0.0)
        units = [self.divergence.unit(m, v) for m, v in zip(book.mu, variance, strict=True)]
        return np.array(units)

    def instability(self, mu: Array, q: Array) -> tuple[float, Array]:
        """lambda_max(H(mu) C) and its eigenvector a, C the covariance under q: C H a = lambda a.

        With H = L L' it is the largest eigenvalue of L' C L, w its eigenvector, a = L'^-1 w.
        """
        share = q / q.sum()
        rows = share > NEGLIGIBLE * share.max()
        share, difference = share[rows], self.X[rows] - mu
        L = _root(self.divergence, mu)
        Z = difference * L if L.ndim == 1 else difference @ L
        if min(Z.shape) <= 1 or Z.shape[1] <= DENSE:
            values, vectors = np.linalg.eigh((Z * share[:, None]).T @ Z)
            value, w = float(values[-1]), vectors[:, -1]
        else:
            start = Z[int((share * (Z**2).sum(axis=1)).argmax())]
            if not start.any():
                return 0.0, start
            product = LinearOperator(
                (Z.shape[1], Z.shape[1]), matvec=lambda v: Z.T @ (share * (Z @ v.ravel())),
                dtype=float,
            )  # fmt: skip
            values, vectors = eigsh(product, k=1, v0=start, tol=1e-8)
            value, w = float(values[0]), vectors[:, 0]
        w = w * (1.0 if w[np.abs(w).argmax()] > 0 else -1.0)  # the same sides on every machine
        a = w / L if L.ndim == 1 else np.linalg.solve(L.T, w)
        return value, a / np.sqrt((a**2).sum())


def _root(divergence: BregmanDivergence, mu: Array) -> Array:
    """L with H(mu) = L L', as a vector where H is diagonal."""
    if divergence.matrix is not None:
        return np.asarray(np.sqrt(2) * divergence.matrix)
    if divergence.separable:
        return np.asarray(np.sqrt(divergence.hessian_diagonal(mu[None, :])[0]))
    d = len(mu)
    H = divergence.hessian_product(np.tile(mu, (d, 1)), np.eye(d))
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    # By differences of the gradient H may come out a little indefinite.
    values = np.maximum(values, 1e-12 * values[-1])
    return np.asarray(vectors * np.sqrt(values))


def anneal_batch(X: Array, schedule: Schedule, tol: float, max_iter: int) -> AnnealingPath:
    """The path of rows under the squared Euclidean divergence, for surrogates."""
    annealer = BatchAnnealer(SquaredEuclidean(), schedule, tol, max_iter)
    annealer.anneal(X, None)
    return annealer.path()
