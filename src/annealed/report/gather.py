"""From a path to what the page shows."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.report.cards import CardInputs, write_cards
from annealed.report.contents import Chosen, Contents, LevelShown, Plateaus, RowsShown
from annealed.report.inputs import ModelInUse, PageInputs
from annealed.report.tree import Tree
from annealed.views.lineage import find_heads
from annealed.views.names import name_clusters
from annealed.views.projection import Plane, choose_plane

if TYPE_CHECKING:
    from annealed.path import AnnealingPath, Level

# Rows shown on the map, and among which the nearest ones are looked for.
MOST_ROWS = 5000
# Values of K of which the page shows how long they last.
MOST_PLATEAUS = 30


def gather(inputs: PageInputs, seed: int) -> Contents:
    """Everything the page shows; ``seed`` decides which rows where there are many."""
    path = inputs.path
    rng = np.random.default_rng(seed)
    numbers = np.arange(0) if inputs.X is None else _sample(len(inputs.X), rng)
    last = path[-1].codevectors
    X = last[:0] if inputs.X is None else inputs.X[numbers]
    values = inputs.original(X) if len(X) else np.zeros((0, len(inputs.features)))
    seen = (X, values) if len(X) else (last, inputs.original(last))
    plane = choose_plane(*seen, inputs.features)
    tree = Tree(path, _place(inputs, plane, last)[:, 0])
    branches, branch_names = _find_branches(inputs, tree)
    spread = seen[1].std(axis=0)
    compared = CardInputs(tree, values, np.where(spread > 0, spread, np.inf))
    return Contents(
        title=inputs.title,
        summary=_summarise(inputs),
        features=inputs.features,
        classes=inputs.class_names,
        branches=branch_names,
        axes=plane.axes,
        projected=plane.projected,
        score_name=inputs.score_name,
        levels=[_show_level(inputs, plane, compared, X, k) for k in range(len(path))],
        nodes=tree.shown(branches, inputs.class_names),
        lines=tree.lines(),
        rows=_show_rows(inputs, plane, X, values, numbers, rng) if len(X) else None,
        chosen=None if inputs.use is None else _show_chosen(inputs, plane, inputs.use),
        plateaus=_show_plateaus(inputs),
    )


def _sample(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers, in order: all of them, or as many as are shown."""
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(rng.choice(n, MOST_ROWS, replace=False))


def _place(inputs: PageInputs, plane: Plane, rows: Array) -> Array:
    return plane.place(inputs.original(rows) if plane.original else rows)


def _summarise(inputs: PageInputs) -> str:
    path = inputs.path
    K, last = path[0].n_codevectors, path[-1].n_codevectors
    parts = [] if inputs.X is None else [f"{inputs.drawn_from or len(inputs.X):,} samples"]
    parts += [f"{len(inputs.features):,} feature{'s' * (len(inputs.features) != 1)}"]
    parts += [f"{len(inputs.class_names)} classes"] if inputs.class_names else []
    parts += [
        f"{len(path)} level{'s' * (len(path) != 1)}, from {K} codevector{'s' * (K != 1)} to {last}"
    ]
    return " · ".join(parts)


# -- colours -----------------------------------------------------------------------------------


def _find_branches(inputs: PageInputs, tree: Tree) -> tuple[list[int], list[str]]:
    """The branch of every node of the tree, and what branches are called."""
    if inputs.class_names:
        return [c for c, _ in tree.keys], inputs.class_names
    nodes = None if inputs.use is None else inputs.use.nodes
    heads, clusters = find_heads(inputs.path, nodes=nodes)
    names = (
        name_clusters(len(heads)) if clusters else [f"branch {i + 1}" for i in range(len(heads))]
    )
    return tree.branches([tree.index[0, head] for head in heads]), names


# -- levels ------------------------------------------------------------------------------------


def _show_level(
    inputs: PageInputs, plane: Plane, compared: CardInputs, X: Array, k: int
) -> LevelShown:
    level = inputs.path[k]
    original = inputs.original(level.codevectors)
    places = plane.place(original if plane.original else level.codevectors)
    nodes = compared.tree.nodes_of(k)
    divergences = inputs.divergence.pairwise(X, level.codevectors) if len(X) else np.zeros((0, 0))
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
        cards=write_cards(compared, level, nodes, original, divergences, cells),
        cells="" if cells is None else base64.b64encode(cells.astype("<u2").tobytes()).decode(),
    )


def _assign(level: Level, divergences: Array) -> NDArray[np.int64]:
    """The codevector each row is associated with most: argmax of rho_i exp(-d(x, mu_i)/T)."""
    energy = divergences - level.temperature * level.log_weights
    return np.asarray(energy.argmin(axis=1))


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- the rest ----------------------------------------------------------------------------------


def _show_rows(
    inputs: PageInputs,
    plane: Plane,
    X: Array,
    values: Array,
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
) -> RowsShown:
    places = plane.place(values if plane.original else X)
    if plane.flat:
        places[:, 1] = rng.uniform(-1, 1, len(places))
    labels, classes = inputs.labels, inputs.classes
    return RowsShown(
        total=inputs.drawn_from or (0 if inputs.X is None else len(inputs.X)),
        drawn=inputs.drawn_from is not None,
        numbers=numbers.tolist(),
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        labels=None if labels is None else [labels[i] for i in numbers.tolist()],
        classes=None if classes is None else classes[numbers].tolist(),
    )


def _show_chosen(inputs: PageInputs, plane: Plane, use: ModelInUse) -> Chosen:
    """Which level the model in use is of, and in which way it is not just that level."""
    path, K = inputs.path, len(use.codevectors)
    k = _level_in_use(path, use)
    level = path[k]
    moved = np.zeros((0, 2))
    if level.n_codevectors == K and np.allclose(level.codevectors, use.codevectors):
        words = "This level is the model in use."
    else:
        moved = _place(inputs, plane, use.codevectors)
        words = f"The model in use has K = {K} and comes from this level"
        if level.n_codevectors != K:
            undone = level.n_codevectors - K
            words += f", with {undone} of its splits undone" if undone > 0 else ""
        words += "; its codevectors, where they ended up, are the crosses on the map."
    if use.voters > 1:
        words = (
            f"The model in use is a vote of {use.voters} levels; shown is the one with the largest "
            f"share, {use.share:.0%}. {words}"
        )
    return Chosen(k, K, words, moved[:, 0].tolist(), moved[:, 1].tolist())


def _level_in_use(path: AnnealingPath, use: ModelInUse) -> int:
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


def _show_plateaus(inputs: PageInputs) -> Plateaus | None:
    found = inputs.persistence
    if found is None:
        return None
    reach = min(len(found.plateau), max(MOST_PLATEAUS, found.n_clusters + 2))
    return Plateaus(
        lasts=found.plateau[:reach].tolist(),
        required=[_known(bar) for bar in found.required[:reach].tolist()],
        n_clusters=int(found.n_clusters),
    )
