"""Run all benchmarks, or those named: ``python -m benchmarks [--quick] [speed scaling ...]``."""

from __future__ import annotations

import argparse
from importlib import import_module

NAMES = ("speed", "baselines", "scaling", "clusters", "quality")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=", ".join(NAMES) + " (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and shorter timings")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        import_module(f"benchmarks.{name}").main(quick=options.quick)
        print(flush=True)


if __name__ == "__main__":
    main()
