"""The sums of the block engine on a GPU: digits and time of a full soft pass, by PyTorch.

``python benchmarks/device.py`` needs NumPy and PyTorch with CUDA, and of the package only the file
src/annealed/kernels/block/sums.py: nothing has to be built or installed. For each size it prints

- the median time of a pass over all rows in chunks (associations, and the sums of p and p z), in
  float32 and with TF32 products, and of the same with what is seen along split axes;
- beside it the least time that plain PyTorch took before (two products and a softmax, the same
  chunks), measured here again;
- the largest error of the sums of a chunk against float64.

With ``--cpu`` it runs small sizes on the processor, to see that it works.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

SIZES = (
    (1 << 24, 2, 32),
    (1 << 24, 32, 64),
    (1 << 23, 64, 256),
    (1 << 22, 128, 1024),
    (1 << 20, 768, 1024),
)
SMALL = ((1 << 14, 2, 32), (1 << 13, 32, 64), (1 << 12, 64, 256))
# Numbers of the array of rows and codevectors that is made at a time, as in the package.
AT_A_TIME = 1 << 26
ROUNDS = 7


def load_sums() -> ModuleType:
    """The file itself: importing the package would want its compiled core."""
    path = Path(__file__).parents[1] / "src" / "annealed" / "kernels" / "block" / "sums.py"
    spec = importlib.util.spec_from_file_location("sums", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sums"] = module
    spec.loader.exec_module(module)
    return module


class StandardTorch:
    """PyTorch under the names of the array API, as far as `sums` asks for them."""

    clip = staticmethod(torch.clamp)

    @staticmethod
    def max(x: Any, axis: int, keepdims: bool) -> Any:
        return torch.amax(x, dim=axis, keepdim=keepdims)

    @staticmethod
    def sum(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return torch.sum(x) if axis is None else torch.sum(x, dim=axis, keepdim=keepdims)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)  # the others have the same name and arguments


TORCH = StandardTorch()


def plain_pass(X: Any, slope: Any, bias: Any, chunk: int) -> tuple[Any, Any]:
    """Two products and a softmax, as one would write them."""
    p_sum, pz = 0.0, 0.0
    for rows in X.split(chunk):
        p = torch.softmax(torch.addmm(bias, rows, slope.T), dim=1)
        p_sum, pz = p_sum + p.sum(dim=0), pz + p.T @ rows
    return p_sum, pz


def our_pass(sums: ModuleType, X: Any, frozen: Any, chunk: int, own: Any = None) -> Any:
    """The sums of the block engine, half of the rows to turn axes and half to measure."""
    total = None
    for k, rows in enumerate(X.split(chunk)):
        options: dict[str, Any] = {}
        if own is not None:
            half = len(rows) // 2
            here = own[k * chunk : k * chunk + len(rows)]
            options = {"own": here, "observed": True, "turning": half, "measuring": half}
        found = sums.block_sums(TORCH, rows, frozen, **options)
        total = found if total is None else total + found
    return total


def milliseconds(call: Callable[[], Any], device: str) -> float:
    """Median time of a call; one before that does not count."""
    times = []
    for _ in range(ROUNDS + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def worst(found: Any, exact: Any) -> float:
    """The largest error of any sum, relative to the largest of its kind."""
    errors = [
        float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-300))
        for a, b in zip(found, exact, strict=True)
        if a is not None
    ]
    return max(errors)


def measure(sums: ModuleType, n: int, d: int, K: int, device: str) -> list[str]:
    """One line of the table."""
    generator = torch.Generator(device=device).manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, device=device, generator=generator)

    centres = normal(K, d)
    X = 0.5 * normal(n, d)
    X += centres[torch.arange(n, device=device) % K]
    T = 0.5 * d  # associations are shared by several codevectors: no sum is next to nothing
    slope, bias = 2 * centres / T, -(centres**2).sum(dim=1) / T
    axis = normal(K, d) / d**0.5
    frozen = sums.Frozen(slope, bias, axis, (axis * centres).sum(dim=1))
    bare = sums.Frozen(slope, bias)
    own = (X**2).sum(dim=1) / T
    chunk = max(AT_A_TIME // K, 512)
    line = [f"{n / 1e6:.1f}M, {d}, {K}"]
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        line += [
            f"{milliseconds(call, device):.1f}"
            for call in (
                lambda: plain_pass(X, slope, bias, chunk),
                lambda: our_pass(sums, X, bare, chunk),
                lambda: our_pass(sums, X, frozen, chunk, own),
            )
        ]
        few = X[: min(n, 4096)]
        double = sums.Frozen(*(each.double() for each in frozen))
        options = {"own": own[: len(few)], "observed": True, "turning": len(few) // 2}
        exact = sums.block_sums(
            TORCH, few.double(), double, **options | {"own": options["own"].double()}
        )
        line.append(f"{worst(sums.block_sums(TORCH, few, frozen, **options), exact):.1e}")
    return line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cpu", action="store_true", help="small sizes, on the processor")
    device = "cpu" if parser.parse_args().cpu else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --cpu shows that the script works")
    name = torch.cuda.get_device_name() if device == "cuda" else "processor"
    print(f"A full soft pass over N rows, ms (medians of {ROUNDS}); {name}, PyTorch "
          f"{torch.__version__}")  # fmt: skip
    each = ["plain", "sums", "and axes", "error"]
    print(
        "| N, d, K | " + " | ".join(f"{kind} {c}" for kind in ("fp32", "tf32") for c in each) + " |"
    )
    print("|---" * 9 + "|")
    sums = load_sums()
    for n, d, K in SMALL if device == "cpu" else SIZES:
        print("| " + " | ".join(measure(sums, n, d, K, device)) + " |", flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
