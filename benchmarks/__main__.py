"""Run all benchmarks, or those named: ``python -m benchmarks [--quick] [speed scaling ...]``."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

NAMES = (
    "answers",
    "speed",
    "baselines",
    "scaling",
    "clusters",
    "wide",
    "shapes",
    "quality",
    "honesty",
    "drift",
    "streams",
    "threads",
    "cluster",
    "engines",
    "sparse_counts",
)


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=", ".join(NAMES) + " (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and shorter timings")
    parser.add_argument("--sets", metavar="NAME,...", help="quality: only these data sets")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="quality: also the NPZ files (X, y) in here"
    )
    parser.add_argument(
        "--gigabytes", type=float, metavar="N", help="cluster: rows to generate (default: 20)"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    names = options.names or NAMES
    of_quality = {}
    if options.sets is not None or options.folder is not None:
        if "quality" not in names:
            parser.error("--sets and --folder are options of quality, which is not to be run")
        of_quality = {"sets": _chosen(parser, options.sets), "folder": options.folder}
    of_cluster = {}
    if options.gigabytes is not None:
        if "cluster" not in names:
            parser.error("--gigabytes is an option of cluster, which is not to be run")
        of_cluster = {"gigabytes": options.gigabytes}
    for name in names:
        extra = {"quality": of_quality, "cluster": of_cluster}.get(name, {})
        import_module(f"benchmarks.{name}").main(quick=options.quick, **extra)
        print(flush=True)


def _chosen(parser: argparse.ArgumentParser, given: str | None) -> list[str] | None:
    """Names of data sets from the command line; an empty text chooses none."""
    if given is None:
        return None
    known = import_module("benchmarks.labelled").SETS
    chosen = [name for name in given.split(",") if name]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        parser.error(f"no data set is called {', '.join(unknown)}; there are {', '.join(known)}")
    return chosen


if __name__ == "__main__":
    main()
