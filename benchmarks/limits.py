"""Peaks of this machine, measured, and the least time they leave one exact online step.

A step handles one sample x against K codevectors in d dimensions: d(x, mu_i), weights
e_i = exp(-d_i/T), their sum, and mu_i += c_i (x - mu_i). Whatever the layout, it cannot be faster
than the model here, in which three things add up:

- work on the codebook, the larger of its arithmetic and its traffic.

  *One sweep*, reading and writing the codebook for every sample: 3 operations per entry (two fused
  multiply-adds and a subtraction) at the measured rate of fused multiply-adds, or 2 x 8 K d bytes
  at the measured bandwidth of the cache that holds the codebook.

  *Look-ahead*, the stricter one: samples are taken in blocks of 16, whose mutual distances make the
  sequential part scalar, so the codebook is read and written once a block; and subtractions run
  beside the multiply-adds, as they do on machines with pipes of their own for additions. That
  leaves 2 operations per entry, or 2 x 8 K d / 16 bytes.

- 20 operations per codevector, its exponential and the quotient c_i, at the same rate.

- a chain in which each operation waits for the one before and which no width shortens: distance,
  minimum over all, exponential, sum over all, quotient, update. 40 operations, each with the
  measured latency of a dependent multiplication.

Peaks come from NumPy on the same core in the same run: a matrix product (multiply-adds), an
in-place product by a number (load and store), a product over a vector (latency). Where a call costs
more than the work, costs are differences between two sizes, so that the call itself drops out. A
peak is the best of many short rounds, not their median.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.harness import Contender, cache_sizes, cost_per_sample

OPERATIONS_PER_CODEVECTOR = 20
DEPENDENT_OPERATIONS = 40
BLOCK = 16


@dataclass(frozen=True)
class Peaks:
    """What the machine can do at best, on one core in float64.

    flops : floating-point operations per second of a matrix product (a multiply-add counts two)
    latency : seconds of one multiplication that waits for another
    bandwidth : {bytes of a cache: bytes loaded and stored per second out of it}, smallest first
    """

    flops: float
    latency: float
    bandwidth: dict[int, float]

    def bytes_per_second(self, size: int) -> float:
        """Bandwidth of the smallest cache that holds this many bytes."""
        held = [speed for cache, speed in self.bandwidth.items() if size <= cache]
        return held[0] if held else list(self.bandwidth.values())[-1]

    def limit(self, K: int, d: int, *, look_ahead: bool) -> float:
        """Least nanoseconds of one step, as modelled in this module's docstring."""
        rate = self.flops / 2
        entries = K * d
        arithmetic = (2 if look_ahead else 3) * entries / rate
        traffic = 2 * 8 * entries / (BLOCK if look_ahead else 1)
        memory = traffic / self.bytes_per_second(8 * entries)
        fixed = DEPENDENT_OPERATIONS * self.latency
        return 1e9 * (max(arithmetic, memory) + OPERATIONS_PER_CODEVECTOR * K / rate + fixed)

    def or_better(self, other: Peaks) -> Peaks:
        """The better of two measurements of the same machine, peak by peak."""
        return Peaks(
            flops=max(self.flops, other.flops),
            latency=min(self.latency, other.latency),
            bandwidth={
                size: max(speed, other.bandwidth[size]) for size, speed in self.bandwidth.items()
            },
        )

    def __str__(self) -> str:
        caches = zip(cache_sizes(), self.bandwidth.values(), strict=True)
        speeds = ", ".join(f"{cache} {speed / 1e9:.0f}" for cache, speed in caches)
        return (
            f"{self.flops / 1e9:.1f} GFLOP/s in a matrix product, {1e9 * self.latency:.2f} ns per "
            f"dependent multiplication, load + store GB/s: {speeds}"
        )


def measured_peaks(rounds: int = 40) -> Peaks:
    """Measure them now."""
    rng = np.random.default_rng(0)
    caches = cache_sizes()
    n = 512
    A, B, C = rng.normal(size=(n, n)), rng.normal(size=(n, n)), np.empty((n, n))
    contenders = {"matmul": Contender(partial(np.matmul, A, B, out=C))}
    chain = np.ones(20_000)
    contenders |= {
        f"chain {part}": Contender(partial(np.multiply.reduce, chain[:part]))
        for part in (10_000, 20_000)
    }
    for level, size in caches.items():
        values = np.ones(size // 2 // 8)  # half of the cache: the rest is somebody's
        for part in (len(values) // 2, len(values)):
            view = values[:part]
            contenders[f"{level} {part}"] = Contender(partial(np.multiply, view, 1.0, out=view))
    cost = cost_per_sample(contenders, budget=0.004, rounds=rounds, pick=min)
    bandwidth = {}
    for level, size in caches.items():
        half, full = size // 2 // 8 // 2, size // 2 // 8
        per_value = (cost[f"{level} {full}"] - cost[f"{level} {half}"]) / (full - half)
        bandwidth[size] = 16 / max(1e-9 * per_value, 1e-12)
    return Peaks(
        flops=2 * n**3 / (1e-9 * cost["matmul"]),
        latency=1e-9 * (cost["chain 20000"] - cost["chain 10000"]) / 10_000,
        bandwidth=bandwidth,
    )
