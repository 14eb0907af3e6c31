"""From a path to what the page shows."""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.report.cards import CardInputs, write_cards
from annealed.report.contents import Contents, LevelShown, Plateaus, RowsShown
from annealed.report.in_use import Shown, describe_model
from annealed.report.inputs import PageInputs, likeliest
from annealed.report.tree import Tree
from annealed.views.colours import MOST_BRANCHES
from annealed.views.lineage import branches_of_clusters, find_heads
from annealed.views.names import name_clusters
from annealed.views.projection import Plane, choose_plane

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
    nodes = tree.shown(branches, inputs.class_names)
    places = _place_rows(plane, X, values, rng)
    shown = Shown(X, plane, places, compared)
    in_use = None if inputs.use is None else describe_model(inputs, inputs.use, shown, nodes)
    return Contents(
        title=inputs.title,
        summary=_summarise(inputs),
        features=inputs.features,
        shares=inputs.shares,
        classes=inputs.class_names,
        branches=branch_names,
        axes=plane.axes,
        projected=plane.projected,
        score_name=inputs.score_name,
        levels=[_show_level(inputs, plane, compared, X, k) for k in range(len(path))],
        nodes=nodes,
        lines=tree.lines(),
        rows=_show_rows(inputs, places, numbers) if len(X) else None,
        in_use=in_use,
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
    use = inputs.use
    nodes = None if use is None or use.nodes is None else use.nodes[use.leading]
    if use is not None and nodes is not None and use.joined and use.n_clusters <= MOST_BRANCHES:
        found = branches_of_clusters(
            range(len(tree.keys)),
            {tree.index[0, node]: c for node, c in zip(nodes, use.clusters.tolist(), strict=True)},
            tree.mother,
        )
        return [found[node] for node in range(len(tree.keys))], name_clusters(use.n_clusters)
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
    divergences = inputs.divergences(X, level.codevectors) if len(X) else np.zeros((0, 0))
    cells = likeliest(level, divergences) if len(X) else None
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


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- the rest ----------------------------------------------------------------------------------


def _place_rows(plane: Plane, X: Array, values: Array, rng: np.random.Generator) -> Array:
    """Where rows are on the map; along a line they are spread to be seen."""
    places = plane.place(values if plane.original else X)
    if plane.flat:
        places[:, 1] = rng.uniform(-1, 1, len(places))
    return places


def _show_rows(inputs: PageInputs, places: Array, numbers: NDArray[np.int64]) -> RowsShown:
    labels, classes = inputs.labels, inputs.classes
    return RowsShown(
        total=inputs.drawn_from or (0 if inputs.X is None else len(inputs.X)),
        numbers=inputs.row_numbers[numbers].tolist(),
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        labels=None if labels is None else [labels[i] for i in numbers.tolist()],
        classes=None if classes is None else classes[numbers].tolist(),
    )


def _show_plateaus(inputs: PageInputs) -> Plateaus | None:
    found = inputs.persistence
    if found is None or (inputs.use is not None and inputs.use.joined):  # borders have decided
        return None
    reach = min(len(found.plateau), max(MOST_PLATEAUS, found.n_clusters + 2))
    return Plateaus(
        lasts=found.plateau[:reach].tolist(),
        required=[_known(bar) for bar in found.required[:reach].tolist()],
        n_clusters=int(found.n_clusters),
    )
