"""`annealed stream` for long: 10 million rows through a pipe, and 50 kills in 200,000 rows.

The first: memory within 5 % between the second and the last million rows, the cost of a row at a
fixed K within 25 % (median of three stretches of each). The second: the program is killed with
SIGKILL at 50 random moments and started again on the same file; the checkpoint at the end must
equal, byte for byte, that of a run that was never killed.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import header, table, verdict

COMMAND = [sys.executable, "-m", "annealed", "stream"]
ROWS, QUICK_ROWS, FEATURES, CLUSTERS = 10_000_000, 400_000, 16, 20
KILLED_ROWS, KILLS, QUICK_KILLS = 200_000, 50, 5


def block_of_rows(n: int, seed: int) -> bytes:
    """CSV of n rows of 16 features around 20 centres, and a label of five."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(CLUSTERS, FEATURES)) * 3
    place = rng.integers(0, CLUSTERS, n)
    X = centres[place] + rng.normal(size=(n, FEATURES))
    lines = [
        ",".join(f"{value:.3f}" for value in row) + f",{'abcde'[k % 5]}\n"
        for row, k in zip(X.tolist(), place.tolist(), strict=True)
    ]
    return "".join(lines).encode()


def names() -> bytes:
    """The line of names."""
    return (",".join([*(f"f{j}" for j in range(FEATURES)), "label"]) + "\n").encode()


def resident(pid: int) -> float:
    """MB a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def long_stream(rows: int) -> list[dict[str, float]]:
    """Figures as a process reads rows from a pipe: rows, MB, processor seconds."""
    chunk = min(25_000, rows // 40)
    blocks = [block_of_rows(chunk, seed) for seed in range(1, 6)]  # over and over
    process = subprocess.Popen(
        [*COMMAND, "-", "--target", "label", "--quiet"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(names())
    found: list[dict[str, float]] = []
    for k in range(rows // chunk):
        process.stdin.write(blocks[k % len(blocks)])
        done = (k + 1) * chunk
        if done % (rows // 40) == 0:
            process.stdin.flush()
            found.append(
                {"rows": done, "MB": resident(process.pid), "s": processor_seconds(process.pid)}
            )
    process.stdin.close()
    assert process.wait() == 0
    return found


def stretches(found: list[dict[str, float]], begin: int, end: int) -> tuple[float, float]:
    """Median memory, and median microseconds per row, between two numbers of rows."""
    inside = [one for one in found if begin <= one["rows"] <= end]
    costs = [
        1e6 * (b["s"] - a["s"]) / (b["rows"] - a["rows"]) for a, b in itertools.pairwise(inside)
    ]
    return statistics.median(one["MB"] for one in inside), statistics.median(costs)


def killed(rows: int, kills: int) -> tuple[bool, int, int]:
    """Whether the checkpoint is the same; how often it was killed, how many runs it took."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        source, whole, path = (Path(folder) / name for name in ("rows.csv", "whole", "killed"))
        source.write_bytes(names() + block_of_rows(rows, 1))
        options = ["--target", "label", "--every", "5000", "--quiet"]
        begin = time.perf_counter()
        command: list[Any] = [*COMMAND, source, *options, "--checkpoint"]
        subprocess.run([*command, whole], check=True)
        span = time.perf_counter() - begin
        struck = runs = 0
        while struck < kills:
            process = subprocess.Popen([*command, path])
            runs += 1
            try:
                process.wait(timeout=rng.uniform(0.0, 1.0) * span)
                path.unlink()  # it came to its end: once more from the start
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                struck += 1
        subprocess.run([*command, path], check=True)
        return path.read_bytes() == whole.read_bytes(), struck, runs


def main(quick: bool = False) -> None:
    """Measure and print."""
    header("streams: a long one, and one that is killed")
    rows = QUICK_ROWS if quick else ROWS
    begin = time.perf_counter()
    found = long_stream(rows)
    seconds = time.perf_counter() - begin
    million = rows // 10
    second = stretches(found, million, 2 * million)
    last = stretches(found, rows - million, rows)
    memory, cost = last[0] / second[0], last[1] / second[1]
    table(
        "A process that reads rows from a pipe",
        ["", "second\ntenth", "last\ntenth", "ratio", "bar", ""],
        [
            ["MB held", f"{second[0]:.0f}", f"{last[0]:.0f}", f"{memory:.3f}", "1 +- 0.05",
             verdict(abs(memory - 1) <= 0.05)],
            ["processor µs a row", f"{second[1]:.2f}", f"{last[1]:.2f}", f"{cost:.2f}",
             "1 +- 0.25", verdict(abs(cost - 1) <= 0.25)],
        ],
    )  # fmt: skip
    print(f"{rows:,} rows in {seconds:.0f} s: {rows / seconds:,.0f} rows a second")
    print("MB held:", *(round(one["MB"]) for one in found), flush=True)
    same, struck, runs = killed(KILLED_ROWS, QUICK_KILLS if quick else KILLS)
    print(f"killed {struck} times in {runs} runs; the same to the last byte: {verdict(same)}")


if __name__ == "__main__":
    main()
