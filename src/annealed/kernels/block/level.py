"""One temperature level, a block of samples at a time.

Associations stand still for a block. A block of total weight W is worth W presentations: with
alpha = 1 - prod (1 - alpha_{n+k}), k = 1..W,

    rho_i   += alpha (mean p_i - rho_i)
    sigma_i += alpha (mean p_i x - sigma_i),    mu_i = sigma_i/rho_i

so that with one sample in a block it is the rule of `annealed.kernels.reference.online` itself. A
block holds as many samples as move the codebook by about `SHARE` at their step size. It ends early
where axes turn and where a level may end. Its rows are summed up in chunks of a fixed size, counted
from where the block began, as they come; those of a chunk that is not full wait. How calls cut the
stream cannot be seen. Rows that lie elsewhere too (`SharedRows`) are summed up there, if there are
enough of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from annealed.divergences import Array, BregmanDivergence
from annealed.kernels.array_rows import (
    NUMBERS_AT_A_TIME,
    ArrayRows,
    Place,
    place_of,
    rows_at,
)
from annealed.kernels.block.dual import Dual
from annealed.kernels.block.frozen_level import CHUNK, Chunk, FrozenLevel, on_host, piece_sums
from annealed.kernels.block.sums import NO_WEIGHT, Frozen, Sums
from annealed.kernels.protocol import (
    MEASURES,
    TURNS,
    Integers,
    Kernel,
    Roles,
    Rows,
    RunSettings,
    SampleFormat,
    State,
)
from annealed.kernels.shared_rows import SharedRows
from annealed.kernels.sparse_rows import SparseRows
from annealed.threads import go_on, in_threads, n_threads

# What a block may move the codebook by, and the most rows it has.
SHARE = 0.25
LARGEST_BLOCK = 1 << 14
# Times an axis turns before it is measured along, a step of power iteration each.
TURNS_OF_A_LEVEL = 3
BOTH = TURNS | MEASURES


def log_gamma_ratio(z: float, s: float) -> float:
    """log Gamma(z) - log Gamma(z + s), by Stirling's series beyond z = 32 (cpp/level.hpp)."""
    shift = 0.0
    while z < 32:
        shift += math.log1p(s / z)
        z += 1
    y = z + s

    def tail(t: float) -> float:
        i = 1 / t
        i2 = i * i
        return i * (1 / 12 - i2 * (1 / 360 - i2 * (1 / 1260 - i2 / 1680)))

    return shift - (z - 0.5) * math.log1p(s / z) - s * math.log(y) + s + (tail(z) - tail(y))


def step_size(settings: RunSettings, n: float, w: float) -> float:
    """The step worth w presentations after n of them: 1 - prod (1 - alpha_{n+k}), k = 1..w."""
    a, b, alpha_min = settings["a"], settings["b"], settings["alpha_min"]
    if w == 1:
        return float(max(1 / (a + b * (n + 1)), alpha_min))
    z, s = n + 1 + (a - 1) / b, 1 / b
    kept = log_gamma_ratio(z + w, s) - log_gamma_ratio(z, s)
    return max(-math.expm1(kept), -math.expm1(w * math.log1p(-alpha_min)))


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples in the order they came: those ``rows`` of X."""

    X: Rows
    rows: Integers
    weights: Array | None  # of all rows of X
    roles: Roles | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def w(self) -> Array | None:
        """Their weights."""
        return None if self.weights is None else self.weights[self.rows]

    @property
    def part(self) -> Roles | None:
        """Their roles."""
        return None if self.roles is None else self.roles[self.rows]

    @property
    def weight(self) -> float:
        """All of them together."""
        return float(len(self) if self.weights is None else self.weights[self.rows].sum())

    def kept(self) -> Samples:
        """The same in arrays of their own."""
        own = np.arange(len(self.rows))
        return Samples(ArrayRows.of(rows_at(self.X, self.rows, copy=True)), own, self.w, self.part)


def chunk_of(parts: Sequence[Samples], place: Place) -> Chunk:
    """Samples, there, one part after the other."""
    x = _joined([rows_at(part.X, part.rows) for part in parts], place)
    if len(parts) == 1:
        return Chunk(x, parts[0].w, parts[0].part)
    w, roles = None, None
    if any(part.weights is not None for part in parts):
        w = np.concatenate([np.ones(len(p)) if p.weights is None else p.w for p in parts])
    if any(part.roles is not None for part in parts):
        roles = np.concatenate([_both(len(p)) if p.roles is None else p.part for p in parts])
    return Chunk(x, w, roles)


def _joined(parts: Sequence[Rows], place: Place) -> Rows:
    """Rows of some arrays, there, one after the other; sparse ones stay sparse."""
    if any(isinstance(part, SparseRows) for part in parts):
        return SparseRows.joined(parts)
    x = [place.take(part) for part in parts]
    if len(x) == 1:
        return x[0]
    return np.concatenate(x) if place.xp is np else place.xp.concat(x, axis=0)


def _sums_elsewhere(samples: Samples, found: FrozenLevel) -> Sums:
    """What samples say, summed up where their rows lie too."""
    return Sums(*samples.X.sums(piece_sums, found, samples.rows, samples.w, samples.part))


def _both(n: int) -> Roles:
    return np.full(n, BOTH, dtype=np.uint8)


class BlockLevel:
    """One temperature level; arrays are NumPy's, in the coordinates of the kernel."""

    def __init__(
        self,
        divergence: BregmanDivergence,
        measure: Kernel,
        mu: Array,
        rho: Array,
        axis: Array,
        memory: Array,
        settings: RunSettings,
        low: Array,
        high: Array,
        largest: int,
    ) -> None:
        self.dual, self.measure, self.settings = Dual(divergence), measure, settings
        self.low, self.high, self.largest = low, high, largest
        self.mu, self.rho, self.axis = mu.copy(), rho.copy(), axis.copy()
        self.u = np.zeros_like(self.mu)
        self.n, self.seen = float(settings["n"]), 0.0
        self.count, self.streak, self.done = 0, 0, False
        self.turned = self.axis * memory[:, None]
        self._clear_sums()
        self._waiting: list[Samples] = []
        self._begin_block()

    def _clear_sums(self) -> None:
        K = len(self.mu)
        self.p, self.p2 = np.zeros(K), np.zeros(K)
        self.y, self.y2, self.y4 = np.zeros(K), np.zeros(K), np.zeros(K)
        self.mass, self.spread = np.zeros(K), np.zeros(K)
        self.weight = self.distortion = self.entropy = 0.0

    # -- blocks --------------------------------------------------------------------------------

    def _begin_block(self) -> None:
        """Turn axes if it is time for that, and say where the block ends."""
        self._steer()
        size = max(int(SHARE / step_size(self.settings, self.n, 1)), 1)
        self.block_begin = self.count
        self.block_end = min([self.count + min(size, self.largest), *self._events()])
        self.block_weight, self.single = 0.0, False
        self.block_p, self.block_pz = np.zeros(len(self.mu)), np.zeros_like(self.mu)
        self.block_py = np.zeros(len(self.mu))
        self.block_pyz = np.zeros_like(self.mu) if self._looks else np.zeros((0, 0))
        self._found: dict[Place, FrozenLevel] = {}

    def _events(self) -> Iterator[int]:
        """Samples after which axes turn or the level may end, of those to come."""
        first, second = self.settings["first_axis"], self.settings["second_axis"]
        each = max((second - first) // TURNS_OF_A_LEVEL, 1)
        turn = first + (max(self.count - first, 0) // each + 1) * each
        for event in (
            first, second if turn > second > first else turn, second,
            self.settings["at_least"], self.settings["at_most"],
        ):  # fmt: skip
            if event > self.count:
                yield event

    def _steer(self) -> None:
        since = self.count - self.settings["first_axis"]
        stretch = self.settings["second_axis"] - self.settings["first_axis"]
        if self.count == self.settings["second_axis"]:
            self._clear_sums()
        if since < 0 or since > stretch:
            return
        if since == 0:
            self._aim()
        if since == stretch or (since and since % max(stretch // TURNS_OF_A_LEVEL, 1) == 0):
            self._turn()

    @property
    def _looks(self) -> bool:
        """Whether rows of this block look along the axes."""
        return bool(self.block_begin >= self.settings["first_axis"])

    @property
    def room(self) -> int:
        """Rows up to the end of the block."""
        return self.block_end - self.count

    def take(self, X: Rows, rows: Integers, weights: Array | None, roles: Roles | None) -> None:
        """Learn rows of X, no more than there is room for; all arrays are of the rows of X."""
        if self.count == self.block_begin:
            dense = not isinstance(X, SparseRows)
            self.single = self.dual.quadratic and X.dtype == np.float32 and dense
        place = place_of(X, self.single)
        if isinstance(X, SharedRows) and (
            self._waiting or not X.worth_sharing(len(rows), len(self.mu))
        ):
            X = X.array
        samples = Samples(X, rows, weights, roles)
        shared = isinstance(X, SharedRows)
        chunks = [[samples]] if shared else self._chunks(samples, place)
        self.count += len(samples)
        self.seen += samples.weight
        self._learn(chunks, place)
        if self.count == self.block_end:
            self._settle(chunks[-1])
            self._begin_block()

    def _chunks(self, samples: Samples, place: Place) -> list[list[Samples]]:
        """Chunks that are full, each of one or several parts; the rest waits."""
        size = CHUNK if place.xp is np else max(NUMBERS_AT_A_TIME // len(self.mu), CHUNK)
        size -= size % CHUNK
        chunks: list[list[Samples]] = []
        waiting, begin = sum(len(part) for part in self._waiting), 0
        while begin < len(samples):
            full = min(size, self.block_end - (self.count + begin - waiting))
            here = replace(samples, rows=samples.rows[begin : begin + full - waiting])
            begin += len(here)
            if waiting + len(here) == full:
                chunks.append([*self._waiting, here])
                self._waiting, waiting = [], 0
            else:
                self._waiting.append(here.kept())
        return chunks

    def _learn(self, chunks: list[list[Samples]], place: Place) -> None:
        """Add what chunks say to the sums of the block and the level, in their order."""
        if not chunks:
            return
        found = self._find(place)

        def sums(parts: list[Samples]) -> tuple[float, Sums]:
            go_on()
            if isinstance(parts[0].X, SharedRows):
                return parts[0].weight, _sums_elsewhere(parts[0], found)
            chunk = chunk_of(parts, place)
            return chunk.weight, found.sums(chunk, place)

        threads = n_threads() if place.xp is np and self.dual.shares_threads else 1
        for at in range(0, len(chunks), threads):
            for weight, said in in_threads(sums, chunks[at : at + threads], threads=threads):
                self._add(weight, said, found.unit)

    def _find(self, place: Place) -> FrozenLevel:
        """The codebook as the block finds it, there."""
        known = self._found.get(place)
        if known is not None:
            return known
        T = self.settings["T"]
        c, from_c = self.dual.centre(self.rho @ self.mu / self.rho.sum(), self.mu, self.single)
        # In single precision lengths are counted in powers of two near sqrt(T), so that their
        # fourth powers are neither too large nor too small.
        unit = 2.0 ** round(0.5 * math.log2(T)) if self.single else 1.0
        slope, offset = self.dual.slopes(self.mu, c)
        slope *= unit / T
        frozen = Frozen(
            place.put(slope),
            place.put(self._log_rho() - offset / T),
            place.put(self.u) if self._looks else None,
            place.put((self.u * from_c).sum(axis=1) / unit) if self._looks else None,
        )
        self._found[place] = FrozenLevel(
            self.dual, frozen, c, unit, T,
            looks=self._looks,
            observes=bool(self.block_begin >= self.settings["second_axis"]),
            by_roles=bool(self.settings["by_roles"]),
        )  # fmt: skip
        return self._found[place]

    def _log_rho(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.rho), NO_WEIGHT)

    def _add(self, weight: float, sums: Sums, unit: float) -> None:
        said = on_host(sums)
        self.block_weight += weight
        self.block_p += said.p
        self.block_pz += said.pz
        if said.turned is not None:
            self.block_py += said.turned_by
            self.block_pyz += said.turned
        if said.mass is None:
            return
        mass = said.mass.astype(float)
        spread = said.own.astype(float) - said.scores + self._log_rho() * mass
        spread = np.maximum(self.settings["T"] * spread, 0.0)
        self.mass += mass
        self.spread += spread
        self.weight += weight
        self.distortion += float(spread.sum())
        self.entropy += float(said.entropy)
        if said.axis_p is None:
            return
        self.p += said.axis_p
        self.p2 += said.axis_p2
        self.y += unit * said.axis_y.astype(float)
        self.y2 += unit**2 * said.axis_y2.astype(float)
        self.y4 += unit**4 * said.axis_y4.astype(float)

    def _settle(self, last: list[Samples] | None) -> None:
        """A block is over, with its last chunk: the codevectors move, and axes hear of it."""
        settings, weight = self.settings, self.block_weight
        (found,) = list(self._found.values())[-1:] or [self._find(Place(np, np.dtype(float)))]
        small = None
        if last is not None and self.count > settings["at_least"] - settings["patience"]:
            small = self._steps_of(last)
        # Sums of w p (x - mu) and of w p y (x - mu).
        from_c = self.mu - self.dual.inside(found.c[None, :])
        moved = found.unit * self.block_pz
        moved -= self.block_p[:, None] * from_c
        if self._looks:
            self.turned += found.unit**2 * self.block_pyz
            self.turned -= (found.unit * self.block_py)[:, None] * from_c
        share = step_size(settings, self.n, weight) / weight
        self.n += weight
        self.rho = np.maximum(self.rho + share * (self.block_p - weight * self.rho), 0.0)
        step = np.divide(share, self.rho, out=np.zeros_like(self.rho), where=self.rho > 0)
        moved *= step[:, None]
        self.mu += moved
        np.clip(self.mu, self.low, self.high, out=self.mu)
        if small is not None:
            self._count_small(*small)
        self.done = (
            self.count >= settings["at_least"] and self.streak >= settings["patience"]
        ) or self.count >= settings["at_most"]

    def _steps_of(self, last: list[Samples]) -> tuple[Array, Array]:
        """alpha p_i and d(x, mu_i) of the last rows of a block, in the difference form."""
        some: list[Samples] = []
        for part in reversed(last):
            left = self.settings["patience"] - sum(len(one) for one in some)
            some = [replace(part, rows=part.rows[max(len(part) - left, 0) :]), *some]
        chunk = chunk_of(some, Place(np, np.dtype(float)))
        x = self.dual.inside(chunk.x)
        w = np.ones(len(x)) if chunk.w is None else chunk.w
        d = self.measure.divergences(x, self.mu)
        exponent = self._log_rho() - d / self.settings["T"]
        p = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        n = self.n + self.block_weight - np.cumsum(w[::-1])[::-1]
        alpha = [
            step_size(self.settings, a, b) for a, b in zip(n.tolist(), w.tolist(), strict=True)
        ]
        return np.array(alpha)[:, None] * p, d

    def _count_small(self, moved: Array, d: Array) -> None:
        step = np.divide(moved, self.rho, out=np.zeros_like(moved), where=self.rho > 0)
        for largest in (step**2 * d).max(axis=1).tolist():
            self.streak = self.streak + 1 if largest < self.settings["small_step"] else 0

    # -- axes ----------------------------------------------------------------------------------

    def _aim(self) -> None:
        """u = H a / sqrt(<a, H a>): the variance of <u, x - mu> is the critical temperature."""
        product = self.dual.hessian_product(self.mu, self.axis)
        norm = np.sqrt((self.axis * product).sum(axis=1, keepdims=True))
        self.u = np.divide(product, norm, out=np.zeros_like(product), where=norm > 0)

    def _turn(self) -> None:
        norm = np.sqrt((self.turned**2).sum(axis=1))
        seen = norm > 0
        self.axis[seen] = self.turned[seen] / norm[seen, None]
        self._aim()

    # -- state ---------------------------------------------------------------------------------

    _arrays = (
        "mu", "axis", "u", "p", "p2", "y", "y2", "y4", "mass", "spread", "turned", "block_p",
        "block_pz", "block_py", "block_pyz",
    )  # fmt: skip
    _numbers = (
        "n", "seen", "count", "streak", "done", "weight", "distortion", "entropy", "block_weight",
        "block_begin", "block_end", "single",
    )  # fmt: skip

    def state(self) -> State:
        state: State = {name: getattr(self, name).copy() for name in self._arrays}
        state |= {name: getattr(self, name) for name in self._numbers}
        state |= {"r": self.rho.copy(), "g": 1.0}
        dtype = np.dtype(np.float32 if self.single else np.float64)
        rest = Chunk(np.empty((0, self.mu.shape[1]), dtype), None, None)
        if self._waiting:
            rest = chunk_of(self._waiting, Place(np, dtype))
        return state | {
            "sparse": isinstance(rest.x, SparseRows),
            "pending": np.array(rest.x),
            "pending_weights": np.ones(len(rest)) if rest.w is None else np.array(rest.w),
            "pending_roles": _both(len(rest)) if rest.roles is None else np.array(rest.roles),
        }

    def restore(self, state: State) -> None:
        K, d = self.mu.shape
        self.block_begin = state["block_begin"]
        shapes = {name: np.shape(getattr(self, name)) for name in self._arrays} | {"r": (K,)}
        shapes["block_pyz"] = (K, d) if self._looks else (0, 0)
        for name, shape in shapes.items():
            if np.shape(state[name]) != shape:
                raise ValueError(f"a level of {K} codevectors in {d} dimensions has another {name}")
        x, w, roles = (
            np.array(state[name]) for name in ("pending", "pending_weights", "pending_roles")
        )
        if x.shape != (len(w), d) or roles.shape != w.shape or roles.dtype != np.uint8:
            raise ValueError("samples that are pending do not fit the level")
        for name in self._arrays:
            setattr(self, name, np.array(state[name], dtype=float))
        for name in self._numbers:
            setattr(self, name, state[name])
        self.rho = np.array(state["r"], dtype=float) * state["g"]
        if not self.block_begin <= self.count - len(w) <= self.count < self.block_end:
            raise ValueError("samples that are pending do not fit their block")
        self._found, self._waiting = {}, []
        if len(w):
            rows = np.arange(len(w))
            X = SparseRows.joined([x]) if state["sparse"] else x
            self._waiting = [Samples(X, rows, None if (w == 1).all() else w, roles)]

    def read(self) -> State:
        if self.count == self.block_begin:
            return self._state_read()
        twin = object.__new__(BlockLevel)
        twin.__dict__.update(self.__dict__)
        for name in (*self._arrays, "rho"):
            setattr(twin, name, getattr(self, name).copy())
        twin._found = {}
        if twin._waiting:
            dtype = np.dtype(np.float32 if self.single else np.float64)
            parts, twin._waiting = twin._waiting, []
            twin._learn([parts], Place(np, dtype))
        twin._settle(None)
        return twin._state_read()

    def _state_read(self) -> State:
        """What others look at."""
        state: State = {name: getattr(self, name).copy() for name in self._arrays[:11]}
        state |= {name: getattr(self, name) for name in self._numbers[:8]}
        return state | {"r": self.rho.copy(), "g": 1.0}

    # -- one sample at a time: each is looked at -------------------------------------------------

    def feed(self, x: Any, sample_format: SampleFormat, w: float, /) -> bool:
        return False

    def feed_and_keep(
        self, x: Any, sample_format: SampleFormat, w: float, rows: Array, at: int, /
    ) -> bool:
        return False

    def associations(self, *_: Any) -> None:
        return None
