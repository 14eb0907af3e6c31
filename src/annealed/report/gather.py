"""From a path to what the page shows."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.report.cards import Surroundings, write_cards
from annealed.report.contents import Chosen, Contents, LevelShown, NodeIndex, Plateaus, Rows
from annealed.report.source import Source, Use
from annealed.report.tree import Tree
from annealed.views.colours import PALETTE
from annealed.views.plane import Plane, choose_plane

if TYPE_CHECKING:
    from annealed.path import AnnealingPath, Level

# Rows shown on the map, and among which the nearest ones are looked for.
MOST_ROWS = 5000
# Clusters with a colour of their own.
MOST_BRANCHES = 2 * len(PALETTE)
# Values of K of which the page shows how long they last.
MOST_PLATEAUS = 30


def gather(source: Source, seed: int) -> Contents:
    """Everything the page shows of a source; ``seed`` decides which rows where there are many."""
    path = source.path
    rng = np.random.default_rng(seed)
    numbers = np.arange(0) if source.X is None else _sample(len(source.X), rng)
    last = path[-1].codevectors
    X = last[:0] if source.X is None else source.X[numbers]
    values = source.original(X) if len(X) else np.zeros((0, len(source.features)))
    seen = (X, values) if len(X) else (last, source.original(last))
    plane = choose_plane(*seen, source.features)
    tree = Tree(path, _place(source, plane, last)[:, 0])
    heads, branch_names = _heads(source, tree)
    branches = tree.branches(heads) if not source.class_names else [c for c, _ in tree.keys]
    spread = seen[1].std(axis=0)
    around = Surroundings(tree, values, np.where(spread > 0, spread, np.inf))
    return Contents(
        title=source.title,
        summary=_summarise(source),
        features=source.features,
        classes=source.class_names,
        branches=source.class_names or branch_names,
        axes=plane.axes,
        projected=plane.projected,
        score_name=source.score_name,
        levels=[_show_level(source, plane, around, X, k) for k in range(len(path))],
        nodes=tree.shown(branches, source.class_names),
        twigs=tree.twigs(),
        rows=_show_rows(source, plane, X, values, numbers, rng) if len(X) else None,
        chosen=None if source.use is None else _show_chosen(source, plane, source.use),
        plateaus=_show_plateaus(source),
    )


def _sample(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers, in order: all of them, or as many as are shown."""
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(rng.choice(n, MOST_ROWS, replace=False))


def _place(source: Source, plane: Plane, rows: Array) -> Array:
    return plane.place(source.original(rows) if plane.original else rows)


def _summarise(source: Source) -> str:
    path = source.path
    K, last = path[0].n_codevectors, path[-1].n_codevectors
    parts = [] if source.X is None else [f"{source.drawn_from or len(source.X):,} samples"]
    parts += [f"{len(source.features):,} feature{'s' * (len(source.features) != 1)}"]
    parts += [f"{len(source.class_names)} classes"] if source.class_names else []
    parts += [
        f"{len(path)} level{'s' * (len(path) != 1)}, from {K} codevector{'s' * (K != 1)} to {last}"
    ]
    return " · ".join(parts)


# -- colours -----------------------------------------------------------------------------------


def _heads(source: Source, tree: Tree) -> tuple[list[NodeIndex], list[str]]:
    """The parts of the tree that have a colour each: clusters in use, or what splits first."""
    path = source.path
    most = 1 + len(path.splits)
    if source.class_names:
        return [], []
    K = 0 if source.use is None else len(source.use.codevectors)
    if source.use is not None and 1 < K <= min(MOST_BRANCHES, most):
        level = path.codebook(K)
        far = ((level.codevectors[:, None] - source.use.codevectors[None]) ** 2).sum(axis=2)
        # A polish may have started from another cut of the tree: then these are not its clusters.
        if (far.argmin(axis=1) == np.arange(K)).all():
            return _nodes(tree, level), [f"cluster {i}" for i in range(K)]
    level = path.codebook(min(len(PALETTE), most))
    return _nodes(tree, level), [f"branch {i + 1}" for i in range(level.n_codevectors)]


def _nodes(tree: Tree, level: Level) -> list[NodeIndex]:
    return [
        tree.index[key] for key in zip(level.classes.tolist(), level.nodes.tolist(), strict=True)
    ]


# -- levels ------------------------------------------------------------------------------------


def _show_level(source: Source, plane: Plane, around: Surroundings, X: Array, k: int) -> LevelShown:
    level = source.path[k]
    original = source.original(level.codevectors)
    places = plane.place(original if plane.original else level.codevectors)
    nodes = around.tree.nodes_of(k)
    divergences = source.divergence.pairwise(X, level.codevectors) if len(X) else np.zeros((0, 0))
    cells = _assign(level, divergences) if len(X) else None
    return LevelShown(
        temperature=level.temperature,
        n_codevectors=level.n_codevectors,
        samples=int(level.samples),
        distortion=_known(level.distortion),
        entropy=_known(level.entropy),
        free_energy=_known(level.free_energy),
        score=_known(level.score),
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        weights=level.weights.tolist(),
        nodes=nodes,
        cards=write_cards(around, level, nodes, original, divergences, cells),
        cells="" if cells is None else base64.b64encode(cells.astype("<u2").tobytes()).decode(),
    )


def _assign(level: Level, divergences: Array) -> NDArray[np.int64]:
    """The codevector each row is associated with most: argmax of rho_i exp(-d(x, mu_i)/T)."""
    with np.errstate(divide="ignore"):
        energy = divergences - level.temperature * np.log(level.weights)
    return np.asarray(energy.argmin(axis=1))


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- the rest ----------------------------------------------------------------------------------


def _show_rows(
    source: Source,
    plane: Plane,
    X: Array,
    values: Array,
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
) -> Rows:
    places = plane.place(values if plane.original else X)
    if plane.flat:
        places[:, 1] = rng.uniform(-1, 1, len(places))
    labels, classes = source.labels, source.classes
    return Rows(
        total=source.drawn_from or (0 if source.X is None else len(source.X)),
        drawn=source.drawn_from is not None,
        numbers=numbers.tolist(),
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        labels=None if labels is None else [labels[i] for i in numbers.tolist()],
        classes=None if classes is None else classes[numbers].tolist(),
    )


def _show_chosen(source: Source, plane: Plane, use: Use) -> Chosen:
    """Which level the model in use is of, and in which way it is not just that level."""
    path, K = source.path, len(use.codevectors)
    k = _level_in_use(path, use)
    level = path[k]
    moved = np.zeros((0, 2))
    if level.n_codevectors == K and np.allclose(level.codevectors, use.codevectors):
        words = "This level is the model in use."
    else:
        moved = _place(source, plane, use.codevectors)
        words = f"The model in use has K = {K} and comes from this level"
        if level.n_codevectors != K:
            undone = level.n_codevectors - K
            words += f", with {undone} of its splits undone" if undone > 0 else ""
        words += "; its codevectors, where they ended up, are the crosses on the map."
    return Chosen(k, K, words, moved[:, 0].tolist(), moved[:, 1].tolist())


def _level_in_use(path: AnnealingPath, use: Use) -> int:
    """The level a model is or comes from."""
    K, T = len(use.codevectors), path.temperatures
    same = np.flatnonzero(np.abs(T / max(use.temperature, 1e-300) - 1) < 1e-9)
    if len(same) and path[int(same[0])].n_codevectors == K:
        return int(same[0])
    fewest = path[0].n_codevectors
    reachable = fewest <= K <= fewest + len(path.ordered_splits)
    if reachable:
        return int(np.flatnonzero(T == path.codebook(K).temperature)[0])
    return int(np.abs(path.n_codevectors - K).argmin())


def _show_plateaus(source: Source) -> Plateaus | None:
    found = source.persistence
    if found is None:
        return None
    reach = min(len(found.plateau), max(MOST_PLATEAUS, found.n_clusters + 2))
    return Plateaus(
        lasts=found.plateau[:reach].tolist(),
        required=[_known(bar) for bar in found.required[:reach].tolist()],
        n_clusters=int(found.n_clusters),
    )
