"""How many threads there may be, and work that falls into independent pieces shared out to them.

There are as many as scikit-learn's own compiled estimators would use at the moment: the cores,
unless ``OMP_NUM_THREADS``, `threadpoolctl.threadpool_limits` or joblib, which sets the former for
its worker processes, say fewer. If there are fewer pieces, or only fewer left, each may share out
its own work to its part of them. No result depends on their number: pieces share nothing that
changes, and what they give is put together in their order.

Threads live as long as a call. None is left for a forked process to miss.

The matrices of a fit are small: BLAS, whose threads wait for each other by spinning, is slower with
several, and what it rounds depends on how many. It is given one for the time of a fit, as k-means
of scikit-learn does.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import joblib
import numpy as np
import sklearn  # noqa: F401  (loads the OpenMP that is asked below)
from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

# Multiplications that are worth a thread of their own, as cpp/threads.hpp has it.
WORTH_A_THREAD = 1 << 20


class _Here(threading.local):
    """What a thread is doing: the pieces it has a part in, if any."""

    pieces: _Pieces | None = None


_here = _Here()


class Abandoned(BaseException):
    """Raised in a piece that nobody waits for any more: another one failed, or Ctrl-C."""


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks for libraries, which takes milliseconds


@functools.cache
def _openmp() -> list[Any]:
    return list(_controller().select(user_api="openmp").lib_controllers)


@functools.cache
def _cores() -> int:
    return int(joblib.cpu_count(only_physical_cores=True))


def _allowed() -> int:
    """What scikit-learn would use: as many as its OpenMP may, but no more than there are cores."""
    allowed = min((int(pool.num_threads) for pool in _openmp()), default=1)
    if os.environ.get("OMP_NUM_THREADS"):  # whoever sets it means it
        return allowed
    return min(allowed, _cores())


def n_threads() -> int:
    """How many threads work may be shared out to; within a piece of such work, its part of them."""
    return max(_allowed(), 1) if _here.pieces is None else _here.pieces.threads_each


def threads_for(multiplications: float) -> int:
    """The same for so much work: one where there is little, without asking, which takes longer."""
    return 1 if multiplications < 2 * WORTH_A_THREAD else n_threads()


def go_on() -> None:
    """Raise `Abandoned` if this is a piece that nobody waits for any more.

    Long pieces ask now and then, so that Ctrl-C need not wait for their end.
    """
    if _here.pieces is not None and _here.pieces.abandoned:
        raise Abandoned


class _Pieces:
    """Pieces that are left, and what became of the others.

    ``threads`` is how many they all may have.
    """

    def __init__(self, function: Callable[[Any], Any], pieces: list[Any], threads: int = 1) -> None:
        self.function, self.threads = function, threads
        self.at_work, self.guard = 0, threading.Lock()
        self.results: list[Any] = [None] * len(pieces)
        self.left = deque(enumerate(pieces))
        self.failures: dict[int, BaseException] = {}
        self.part_of = _here.pieces
        self.given_up = False

    @property
    def threads_each(self) -> int:
        """What a piece may share out its own work to: who finds no more pieces leaves its part."""
        workers = min(self.at_work + len(self.left), self.threads)
        return self.threads // max(workers, 1)

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for them any more."""
        return self.given_up or (self.part_of is not None and self.part_of.abandoned)

    def work(self) -> None:
        """Do pieces until there are none left."""
        before, _here.pieces = _here.pieces, self
        self._come_or_go(1)
        try:
            while not self.abandoned:
                try:
                    k, piece = self.left.popleft()
                except IndexError:
                    return
                try:
                    self.results[k] = self.function(piece)
                except Abandoned:
                    return
                except BaseException as failure:
                    self.failures[k], self.given_up = failure, True
        finally:
            self._come_or_go(-1)
            _here.pieces = before

    def _come_or_go(self, change: int) -> None:
        with self.guard:
            self.at_work += change


def in_threads(
    function: Callable[[Piece], Result], pieces: Iterable[Piece], *, threads: int | None = None
) -> list[Result]:
    """The function of every piece, in their order.

    It must not matter in which order and at which time pieces are done. The calling thread does
    its part. An error, or Ctrl-C, abandons the rest and is raised here.

    Parameters
    ----------
    function : callable
    pieces : iterable
    threads : int, optional
        How many there may be; `n_threads` if left out.
    """
    pieces = list(pieces)
    most = n_threads() if threads is None else threads
    threads = min(most, len(pieces))
    if threads <= 1:
        return [function(piece) for piece in pieces]
    shared = _Pieces(function, pieces, most)
    told = np.geterr()

    def work_as_told() -> None:
        with np.errstate(**told):  # before NumPy 2 it is not part of the context
            shared.work()

    others = []
    for _ in range(threads - 1):
        context = contextvars.copy_context()
        other = threading.Thread(target=context.run, args=(work_as_told,), daemon=True)
        try:
            other.start()
        except RuntimeError:  # the system has no more of them: those there are will do
            break
        others.append(other)
    try:
        shared.work()
    finally:
        shared.given_up = shared.given_up or bool(shared.left)
        for other in others:
            other.join()
    if shared.failures:
        raise shared.failures[min(shared.failures)]
    if shared.abandoned:  # with all that these are a part of
        raise Abandoned
    return shared.results


def in_one_thread(function: Callable[Parameters, Result], *args: Any) -> Result:
    """The function's result, found by this thread alone: others of ours are at work elsewhere."""
    alone = _Pieces(lambda _: function(*args), [None])  # type: ignore[call-arg]
    alone.work()
    if alone.failures:
        raise alone.failures[0]
    if alone.abandoned:
        raise Abandoned
    result: Result = alone.results[0]
    return result


class _OneBlasThread:
    """Holds BLAS to one thread while anybody is within; the last to leave gives back what was."""

    def __init__(self) -> None:
        self.guard, self.within = threading.Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.guard:
            if not self.within:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.within += 1

    def __exit__(self, *_: object) -> None:
        with self.guard:
            self.within -= 1
            if not self.within:
                self.limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


def with_one_blas_thread(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Let a function run while BLAS has one thread."""

    @functools.wraps(function)
    def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with _one_blas_thread:
            return function(*args, **kwargs)

    return limited
