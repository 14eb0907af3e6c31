"""What all commands share: the application, errors in one line, options with one meaning.

Exit status: 0 all went well, 1 the world was in the way (a file is missing, a disk is full),
2 something is wrong with the arguments or the data.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import rich  # noqa: F401  commands print with its parts: if it is missing, that is known now
import typer
from typer.core import TyperGroup

# A mistake of the user's, as with every other command line tool.
USAGE = 2

# The commands as `annealed --help` lists them: in the order one meets them.
ORDER = (
    "fit", "predict", "evaluate", "inspect", "report", "stream", "merge", "datasets", "reproduce",
)  # fmt: skip


class InOrder(TyperGroup):
    """Commands in our order, not in that of imports."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="annealed",
    cls=InOrder,
    help="Online deterministic annealing from the command line.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Online deterministic annealing from the command line."""
    if show_version:
        from importlib.metadata import version

        print(f"annealed {version('annealed')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run a command; a mistake in the arguments is told in one line too."""
    try:
        code = app(prog_name="annealed", standalone_mode=False)
    except Exception as error:
        # The class of these errors has moved with the versions of typer; this method has not.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "") or "annealed"
        complain(f"{error.format_message()} (`{command} --help` lists what there is)")
        code = getattr(error, "exit_code", USAGE)
    sys.exit(code if isinstance(code, int) else 0)


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Say in one line what went wrong, unless ``--debug`` asks for the traceback."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with _one_line_warnings():
                command(*args, **kwargs)
        except BrokenPipeError:  # whoever read our output has had enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except (OSError, ValueError, ImportError, MemoryError) as error:
            if kwargs.get("debug"):
                raise
            complain(_in_words(error))
            raise typer.Exit(USAGE if isinstance(error, ValueError) else 1) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None

    return guarded


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Say each warning once, in one line and without the place in our code it comes from."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            complain(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


def _in_words(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory; learn from fewer rows (--max-rows)"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def in_options(message: str) -> str:
    """A message of the library with its parameters as options of the command line."""
    return re.sub(r"divergence='(\w+)'", r"--divergence \1", message)


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"annealed: {' '.join(message.split())}", file=sys.stderr)
