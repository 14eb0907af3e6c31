"""Rows that lie in chunks: arrays of Dask, of which no process ever holds all.

- What learns draws the rows it needs, by the seed alone: the same rows whatever the chunks, and
  whatever runs the tasks (threads, processes, a cluster). For the block engine they also stay where
  they were drawn, in pieces that do not depend on the chunks either, and large blocks are summed up
  there.
- What reads answers chunk by chunk, when it is asked for: a lazy array in, a lazy array out.
- What is a sum over rows is summed within chunks, and the sums are added in a tree of fixed shape.

Tasks run wherever Dask runs them at the moment: on the scheduler of a ``distributed.Client``, or
in threads. A task depends on nothing but its chunk and what it was given, so one that is lost with
its worker is done again with the same result. Dask is imported only here, and only once there is
an array of it.
"""

from __future__ import annotations

import functools
import itertools
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from annealed.annealing.rows import MOST_CELLS_DRAWN, MOST_DRAWN
from annealed.divergences import Array
from annealed.kernels import SharedRows
from annealed.threads import in_one_thread

# How many sums are added in one task.
ADDED_AT_ONCE = 8
# Pieces that drawn rows are cut into for the block engine: as many as sums are added in one task.
PIECES = 8
# The work of a block (`annealed.kernels.shared_rows.work`) from which on workers sum it up: some
# tenths of a second of a core, where the tasks of a block take some 40 ms more on the clock.
WORTH_TASKS = 1 << 32
# Rows drawn of a class at least, as far as it has them: a rare one must be learnt too.
LEAST_OF_A_CLASS = 1000
# Samples that the last levels to a given K take of every cluster (`level_length.SAMPLES_TO_CLOSE`).
ROWS_OF_A_CLUSTER = 1000


def in_chunks(rows: Any) -> bool:
    """Whether rows are a collection of Dask, which is not imported to find out."""
    made_in = type(rows).__module__.partition(".")[0]
    return made_in in ("dask", "dask_expr") and hasattr(rows, "__dask_graph__")


def rows_to_draw(d: int, n_clusters: int | None) -> int:
    """As many rows of d features as `fit` learns something new from.

    Levels together present fewer samples than `MOST_DRAWN`, save those that close in on a given
    number of clusters. There are fewer where they would not fit into memory.
    """
    most = max(MOST_DRAWN, ROWS_OF_A_CLUSTER * (n_clusters or 0))
    return min(most, max(MOST_CELLS_DRAWN // d, ROWS_OF_A_CLUSTER))


class Drawn(NamedTuple):
    """Rows that were drawn, in the order in which they lie in the chunks.

    labels, weights : of the rows, where there are any
    total : of how many rows they were drawn; their own number if they are all
    sums : `Chunks.sums` of a function over all rows these were drawn from, with their weights
    pieces : the rows again, in tasks that are done, if they were asked for
    """

    rows: Any
    labels: NDArray[Any] | None
    weights: Array | None
    total: int
    sums: Callable[[Callable[..., tuple[Any, ...]], Any, str], tuple[Any, ...]]
    pieces: Pieces | None = None

    def shared(self, rows: NDArray[Any]) -> Any:
        """The rows, as they were checked: those that lie in pieces can be summed up there."""
        if self.pieces is None:
            return rows
        return SharedRows(rows, self.pieces.each, WORTH_TASKS, self.pieces.add_up)


class Pieces:
    """Rows in pieces of so many ``each``, the results of tasks.

    A piece that is lost with its worker is made again from the chunks.
    """

    def __init__(self, tasks: Sequence[Any], each: int) -> None:
        self.tasks, self.each = tasks, each
        self.steps = itertools.count()
        self.token = uuid.uuid4().hex  # sums of another fit have other names

    def add_up(
        self,
        function: Callable[..., tuple[Any, ...]],
        given: Any,
        parts: list[tuple[int, tuple[Any, ...]]],
    ) -> tuple[Any, ...]:
        """Sums over some rows of pieces; see `annealed.kernels.shared_rows.SharedRows`."""
        from dask import delayed

        token = f"{self.token}-{next(self.steps)}"
        sent = delayed(given, name=f"annealed-codebook-{token}", traverse=False)
        call = delayed(_sums_of_piece, pure=False, traverse=False)
        tasks = [
            call(function, sent, self.tasks[k], beside, dask_key_name=f"annealed-block-{token}-{k}")
            for k, beside in parts
        ]
        found = computed(sum_of(tasks, "block", token))
        assert found is not None
        return tuple(found)


class Chunks:
    """Rows that lie in chunks, whatever these are: arrays, or frames of pandas.

    Parameters
    ----------
    blocks : list of dask.delayed.Delayed
        The chunks, each a task.
    token : str
        Tells these rows from others.
    lengths : sequence of numbers, optional
        How many rows each has, nan where that is not known.
    """

    def __init__(self, blocks: list[Any], token: str, lengths: Sequence[float]) -> None:
        self.blocks, self.token, self._lengths = blocks, token, lengths

    @functools.cached_property
    def lengths(self) -> list[int]:
        """Rows of every chunk; they are counted if Dask does not know them."""
        known = self._lengths
        if any(math.isnan(rows) for rows in known):
            import dask

            known = dask.compute(*self.tasks(len, "count", self.blocks))
        return [int(rows) for rows in known]

    def tasks(
        self, function: Callable[..., Any], name: str, *arguments: Sequence[Any]
    ) -> list[Any]:
        """A task for every chunk, with a name for people; arguments have an entry for each."""
        from dask import delayed
        from dask.base import tokenize

        token = tokenize(self.token, function, name, arguments)
        call = delayed(function, pure=False, traverse=False)
        return [
            call(*each, dask_key_name=f"annealed-{name}-{token}-{k}")
            for k, each in enumerate(zip(*arguments, strict=True))
        ]

    def nothing(self) -> list[None]:
        """What lies beside every chunk where there are no labels or weights."""
        return [None] * len(self.blocks)

    def in_turn(self, labels: list[Any], weights: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
        """Chunk after chunk, with its labels and weights; one at a time is computed."""
        import dask

        for task in self.tasks(_together, "chunk", self.blocks, labels, weights):
            (found,) = dask.compute(task)
            if len(found[0]):
                yield found

    def draw(
        self,
        most: int,
        new_rng: Callable[[], np.random.Generator],
        labels: list[Any],
        weights: list[Any],
        in_pieces: bool = False,
    ) -> Drawn:
        """All rows, or ``most`` drawn at random without replacement; of a rare class more.

        Those of a class of which more were drawn than its share count for less. ``new_rng`` is
        called only if there is anything to draw. With ``in_pieces`` the rows stay where they were
        drawn, too.
        """
        import dask

        if any(part is not None for part in labels):
            groups, counts = _joined_counts(dask.compute(*self.tasks(_count, "classes", labels)))
        else:
            groups, counts = np.array([None]), np.array(self.lengths)[:, None]
        wanted: Sequence[Any] = [EVERYTHING] * len(self.blocks)
        own = counts.sum(axis=0)
        total, factor = int(own.sum()), np.ones(len(groups))
        if total > most:
            drawn = _shares_drawn(own, most)
            wanted = _ranks(groups, counts, drawn, new_rng())
            if (drawn > np.ceil(most * (own / total))).any():
                factor = (own / total) / (drawn / drawn.sum())
        tasks = self.tasks(_take, "draw", self.blocks, labels, weights, wanted)
        asked = [k for k, some in enumerate(wanted) if some]
        tasks, pieces = [tasks[k] for k in asked], None
        if in_pieces and total:
            drawn_of = [_length(wanted[k], int(counts[k].sum())) for k in asked]
            pieces = self._pieces(tasks, drawn_of)
            tasks = list(pieces.tasks)
        found = dask.compute(*tasks)
        rows, own_labels, own_weights = map(_joined, zip(*found, strict=True))
        if (factor != 1).any():
            rare = factor[np.searchsorted(groups, own_labels)]
            own_weights = rare if own_weights is None else rare * own_weights
        return Drawn(
            rows, own_labels, own_weights, total,
            lambda function, given, name: self.sums(function, given, name, weights), pieces,
        )  # fmt: skip

    def _pieces(self, tasks: list[Any], lengths: list[int]) -> Pieces:
        """What tasks have drawn, so many rows each, in pieces that do not depend on the chunks."""
        import dask
        from dask import delayed

        ends = np.cumsum(lengths)
        begins, n = ends - lengths, int(ends[-1])
        each, token = -(-n // PIECES), uuid.uuid4().hex
        call = delayed(_piece, pure=False, traverse=False)
        pieces: list[Any] = []
        for begin in range(0, n, each):
            end = min(begin + each, n)
            there = np.flatnonzero((begins < end) & (ends > begin)).tolist()
            cuts = [
                slice(max(begin - int(begins[k]), 0), min(end, int(ends[k])) - int(begins[k]))
                for k in there
            ]
            key = f"annealed-piece-{token}-{len(pieces)}"
            pieces.append(call([tasks[k] for k in there], cuts, dask_key_name=key))
        return Pieces(dask.persist(*pieces), each)

    def sums(
        self, function: Callable[..., tuple[Any, ...]], given: Any, name: str, *beside: list[Any]
    ) -> tuple[Any, ...]:
        """Sums over all rows of what a function gives for the rows of a chunk: numbers or arrays.

        Parameters
        ----------
        function : callable
            Called with ``given``, the rows of a chunk, and what lies beside them.
        given : object
            The same for all chunks; every worker gets it once.
        name : str
            What tasks are called.
        *beside : list
            Labels or weights, an entry for each chunk.
        """
        from dask.base import tokenize

        n = len(self.blocks)
        level = self.tasks(
            _sums_of, name, [function] * n, [one_task(given)] * n, self.blocks, *beside
        )
        found = computed(sum_of(level, name, tokenize([task.key for task in level])))
        if found is None:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return tuple(found)


class ChunkedRows(Chunks):
    """Rows of a two-dimensional array of Dask; every chunk has whole rows.

    Parameters
    ----------
    array : dask.array.Array of shape (n_samples, n_features)
    """

    def __init__(self, array: Any) -> None:
        if not hasattr(array, "map_blocks"):
            raise TypeError(
                f"X is a {type(array).__name__} of Dask, not an array; give its numbers "
                "(X.to_dask_array()), or the whole of it to TabularModel"
            )
        if array.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: rows and "
                "features make two"
            )
        self.array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        self.d = int(array.shape[1])
        blocks = list(self.array.to_delayed().ravel())
        super().__init__(blocks, self.array.name, self.array.chunks[0])

    def beside(self, values: Any, words: str) -> list[Any]:
        """What belongs to the rows (labels, weights), chunk by chunk; None for every chunk of None.

        ValueError if there are more or fewer than rows, as far as it is known yet.
        """
        if values is None:
            return self.nothing()
        values = values.to_dask_array() if hasattr(values, "to_dask_array") else values
        if not in_chunks(values):
            values = np.asarray(values)
            self._check_length(len(values), words)
            return np.split(values, np.cumsum(self.lengths)[:-1])
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(f"{words} should be a 1d array, got one of {values.ndim} dimensions")
        unknown = any(math.isnan(n) for n in (*values.chunks[0], *self.array.chunks[0]))
        if not unknown:
            self._check_length(values.shape[0], words)
            values = values.rechunk((self.array.chunks[0],))
        elif values.numblocks[0] != self.array.numblocks[0]:
            raise ValueError(
                f"X has {self.array.numblocks[0]} chunks and {words} {values.numblocks[0]}, of "
                "lengths that are not known; call compute_chunk_sizes() on both"
            )
        return list(values.to_delayed().ravel())

    def _check_length(self, n: int, words: str) -> None:
        if n != sum(self.lengths):
            raise ValueError(f"X has {sum(self.lengths)} rows, but {words} has {n}")

    def answers(self, model: Any, method: str) -> Any:
        """What a method of a model says of every row, as an array of Dask: nothing is done yet."""
        example = getattr(model, method)(_example(model, self.array.dtype))
        more: dict[str, Any] = {"drop_axis": 1}
        if example.ndim == 2:
            more = {"chunks": (self.array.chunks[0], (example.shape[1],))}
        from dask.base import tokenize

        return self.array.map_blocks(
            answer,
            model=one_task(model),
            method=method,
            like=example[:0],
            name=f"annealed-{method.replace('_', '-')}-{tokenize(self.token, model)}",
            dtype=example.dtype,
            meta=example[:0],
            **more,
        )


# Stands for all rows of a chunk, or of a class in it.
EVERYTHING = "everything"


def by_chunk(read: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that says something of every row answer rows in chunks with a lazy array.

    It answers with the model as it stands now, whatever that learns until the answer is computed.
    """

    @functools.wraps(read)
    def reading(self: Any, X: Any) -> Any:
        if not in_chunks(X):
            return read(self, X)
        model = self._for_reading(X, whole=read.__name__ == "score_samples")
        return ChunkedRows(X).answers(model, read.__name__)

    return reading


def one_task(value: Any) -> Any:
    """What all tasks are given, as a task of its own: it is sent to a worker once."""
    from dask import delayed
    from dask.base import tokenize

    return delayed(value, name=f"annealed-model-{tokenize(value)}", traverse=False)


def sum_of(tasks: list[Any], name: str, token: str) -> Any:
    """A task that gives the sum of what others do, which are added in a tree of fixed shape."""
    from dask import delayed

    height = 0
    while len(tasks) > 1:
        tasks = [
            delayed(_added, pure=False)(
                tasks[k : k + ADDED_AT_ONCE],
                dask_key_name=f"annealed-{name}-sum-{token}-{height}-{k}",
            )
            for k in range(0, len(tasks), ADDED_AT_ONCE)
        ]
        height += 1
    return tasks[0]


def computed(task: Any) -> Any:
    """What a task gives."""
    import dask

    (found,) = dask.compute(task)
    return found


def _example(model: Any, dtype: Any) -> NDArray[Any]:
    """A row that the model can read."""
    numbers = dtype if np.dtype(dtype).kind == "f" else np.float64
    return np.asarray(model.codevectors_[:1], dtype=numbers)


# -- what is done with one chunk; functions of a module, which every process finds ---------------


def _as_rows(rows: Any) -> Any:
    """Frames as they are, everything else as an array."""
    return rows if hasattr(rows, "iloc") else np.asarray(rows)


def _together(rows: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    rows = _as_rows(rows)
    for part, words in ((labels, "y"), (weights, "sample_weight")):
        if part is not None and len(part) != len(rows):
            raise ValueError(f"a chunk of X has {len(rows)} rows, but that of {words} {len(part)}")
    return (
        rows,
        None if labels is None else np.asarray(labels),
        None if weights is None else np.asarray(weights),
    )


def _count(labels: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = np.asarray(labels)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("Input y contains NaN.")
    return np.unique(labels, return_counts=True)


def _take(rows: Any, labels: Any, weights: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """The rows of a chunk that are wanted: by their place among those of their class."""
    rows, labels, weights = _together(rows, labels, weights)
    if isinstance(wanted, str):
        return rows, labels, weights
    places = [
        ranks if labels is None else np.flatnonzero(labels == label)[ranks]
        for label, ranks in wanted
    ]
    at = np.sort(np.concatenate(places))
    return (
        rows.iloc[at] if hasattr(rows, "iloc") else rows[at],
        None if labels is None else labels[at],
        None if weights is None else weights[at],
    )


def _length(wanted: Any, rows: int) -> int:
    """How many rows `_take` takes of a chunk that has so many."""
    return rows if isinstance(wanted, str) else sum(len(ranks) for _, ranks in wanted)


def _piece(parts: Sequence[tuple[Any, Any, Any]], cuts: Sequence[slice]) -> tuple[Any, Any, Any]:
    """Rows of several chunks, cut out of what was taken of each, with labels and weights."""
    cut = [
        tuple(None if each is None else each[cut] for each in part)
        for part, cut in zip(parts, cuts, strict=True)
    ]
    rows, labels, weights = map(_joined, zip(*cut, strict=True))
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    return rows, labels, weights


def _joined(parts: Sequence[Any]) -> Any:
    if parts[0] is None:
        return None
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


def answer(rows: Any, model: Any, method: str, like: NDArray[Any]) -> NDArray[Any]:
    """What a method of a model says of the rows of a chunk; ``like`` it where there are none."""
    rows = _as_rows(rows)
    if not len(rows):
        return like
    found: NDArray[Any] = in_one_thread(getattr(model, method), rows)
    return found


def _sums_of(
    function: Callable[..., tuple[Any, ...]], given: Any, rows: Any, *beside: Any
) -> tuple[Any, ...] | None:
    rows = _as_rows(rows)
    if not len(rows):
        return None
    for part in beside:
        if part is not None and len(part) != len(rows):
            raise ValueError(f"a chunk has {len(rows)} rows, but {len(part)} labels or weights")
    return in_one_thread(function, given, rows, *beside)


def _sums_of_piece(
    function: Callable[..., tuple[Any, ...]], given: Any, piece: Any, beside: tuple[Any, ...]
) -> tuple[Any, ...]:
    return in_one_thread(function, given, piece[0], *beside)


def _added(parts: Sequence[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    there = [part for part in parts if part is not None]
    if not there:
        return None
    return tuple(functools.reduce(_plus, each) for each in zip(*there, strict=True))


def _plus(one: Any, other: Any) -> Any:
    """The sum, where None is nothing."""
    return other if one is None else one if other is None else np.add(one, other)


# -- which rows are drawn ------------------------------------------------------------------------


def _joined_counts(
    found: Sequence[tuple[NDArray[Any], NDArray[np.int64]]],
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All classes, and how many rows of each every chunk has."""
    classes = np.unique(np.concatenate([labels for labels, _ in found]))
    counts = np.zeros((len(found), len(classes)), dtype=np.int64)
    for chunk, (labels, rows) in zip(counts, found, strict=True):
        chunk[np.searchsorted(classes, labels)] = rows
    return classes, counts


def _shares_drawn(own: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """How many rows to draw of every class."""
    share = np.ceil(most * (own / own.sum())).astype(np.int64)
    least = min(LEAST_OF_A_CLASS, most // len(own))
    drawn: NDArray[np.int64] = np.minimum(own, np.maximum(share, least))
    return drawn


def _ranks(
    groups: NDArray[Any],
    counts: NDArray[np.int64],
    drawn: NDArray[np.int64],
    rng: np.random.Generator,
) -> list[list[tuple[Any, NDArray[np.int64]]]]:
    """For every chunk the classes of which rows are wanted, and which: their places in the class.

    Places are drawn among all rows of a class, before it is asked in which chunk they lie.
    """
    wanted: list[list[tuple[Any, NDArray[np.int64]]]] = [[] for _ in counts]
    for label, own, n in zip(groups.tolist(), counts.T, drawn.tolist(), strict=True):
        places = np.sort(rng.choice(int(own.sum()), n, replace=False))
        ends = np.cumsum(own)
        cuts = np.searchsorted(places, ends)
        for k, (begin, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
            if begin < end:
                wanted[k].append((label, places[begin:end] - (ends[k] - own[k])))
    return wanted
