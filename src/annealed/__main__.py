"""The command `annealed`, also `python -m annealed`.

This file imports nothing that may be missing, so that it can say what to install.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Start the command line, or say which extra it needs."""
    try:
        _start()
    except KeyboardInterrupt:  # while modules are imported; commands say it themselves
        print("annealed: interrupted", file=sys.stderr)
        sys.exit(130)


def _start() -> None:
    try:
        from annealed import cli
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(
            f"annealed: the command line needs {error.name}, which is not installed: "
            "pip install 'annealed[cli]'"
        )
    cli.main()


if __name__ == "__main__":
    main()
