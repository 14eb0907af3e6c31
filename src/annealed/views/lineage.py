"""Who comes from whom: which branch of the tree of splits a codevector belongs to.

Numbers only: pictures, pages and the sketch for notebooks all start from here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers
from annealed.views.colours import MOST_BRANCHES, PALETTE
from annealed.views.names import name_classes, name_clusters

Node = TypeVar("Node", bound=Hashable)


def find_branches(
    path: AnnealingPath,
    *,
    class_names: Sequence[Any] | None = None,
    n_codevectors: int = 0,
    nodes: Sequence[int] | None = None,
    clusters: Integers | None = None,
) -> tuple[list[Integers], list[str]]:
    """For every level, the branch of each codevector (-1: several are still one); their names.

    Branches are classes if there are several (without names if too many for colours). Otherwise
    they are the codevectors of the model in use, given by their ``nodes`` in the tree or by their
    number, if there are colours for as many; else the parts the first splits make, without names.
    Of a model whose codevectors are joined, ``clusters`` says how: branches are then its clusters.
    """
    n_classes = max(int(level.classes.max()) for level in path) + 1
    if n_classes > 1:
        names = name_classes(class_names, n_classes)
        return [level.classes for level in path], names if n_classes <= MOST_BRANCHES else []
    if clusters is not None and nodes is not None and int(clusters.max()) < MOST_BRANCHES:
        traced = trace_clusters(path, dict(zip(map(int, nodes), clusters.tolist(), strict=True)))
        return traced, name_clusters(int(clusters.max()) + 1)
    heads, in_use = find_heads(path, n_codevectors=n_codevectors, nodes=nodes)
    return trace_branches(path, heads), name_clusters(len(heads)) if in_use else []


def trace_clusters(path: AnnealingPath, cluster_of: Mapping[int, int]) -> list[Integers]:
    """For every level, the cluster of what comes of each codevector (-1: of several, or none)."""
    mother = {child: split.parent for split in path.events for child in split.children}
    known = {int(n) for level in path for n in level.nodes}
    found = branches_of_clusters(known, cluster_of, mother)
    return [np.array([found[n] for n in level.nodes.tolist()], dtype=np.int64) for level in path]


def branches_of_clusters(
    nodes: Iterable[Node], cluster_of: Mapping[Node, int], mother: Mapping[Node, Node]
) -> dict[Node, int]:
    """For each node the cluster of what comes of it, given those of some (-1: none or several)."""
    below: dict[Node, set[int]] = {}
    for node, cluster in cluster_of.items():
        for above in ancestors(node, mother):
            below.setdefault(above, set()).add(cluster)
    return {
        node: next(iter(below[node])) if len(below.get(node, ())) == 1 else -1 for node in nodes
    }


def find_heads(
    path: AnnealingPath, *, n_codevectors: int = 0, nodes: Sequence[int] | None = None
) -> tuple[list[int], bool]:
    """The nodes of a path of one class whose branches have a colour each.

    They are the codevectors of the model in use, given by their ``nodes`` in the tree or by their
    number, if there are colours for as many; else the parts the first splits make. The second
    value says which: True for the model in use.
    """
    most = 1 + len(path.splits)
    known = {int(node) for level in path for node in level.nodes}
    if nodes is not None and 1 < len(nodes) <= MOST_BRANCHES and known.issuperset(nodes):
        return [int(node) for node in nodes], True
    in_use = 1 < n_codevectors <= min(MOST_BRANCHES, most)
    parts = n_codevectors if in_use else min(len(PALETTE), most)
    return path.codebook(parts).nodes.tolist(), in_use


def trace_branches(path: AnnealingPath, heads: Sequence[int]) -> list[Integers]:
    """For every level of a path of one class, under which head each codevector stands (-1: none).

    A head stands for its ancestors too as long as no other head descends from them.
    """
    mother = {child: split.parent for split in path.events for child in split.children}
    branch = branch_of_nodes({int(n) for level in path for n in level.nodes}, heads, mother)
    return [np.array([branch[n] for n in level.nodes.tolist()], dtype=np.int64) for level in path]


def branch_of_nodes(
    nodes: Iterable[Node], heads: Sequence[Node], mother: Mapping[Node, Node]
) -> dict[Node, int]:
    """For every node, under which of the heads it stands.

    A head stands for its ancestors too as long as no other head descends from them (-1: then
    several heads are still one).
    """
    below: dict[Node, int] = {}
    for head in heads:
        for node in ancestors(head, mother):
            below[node] = below.get(node, 0) + 1
    place: dict[Node, int] = {}
    for i, head in enumerate(heads):
        place.update({node: i for node in ancestors(head, mother) if below[node] == 1})
    return {
        node: next((place[above] for above in ancestors(node, mother) if above in place), -1)
        for node in nodes
    }


def ancestors(node: Node, mother: Mapping[Node, Node]) -> Iterator[Node]:
    """The node itself, its mother, her mother, ..."""
    yield node
    while node in mother:
        node = mother[node]
        yield node


def spread_leaves(
    roots: Iterable[Node], children: Callable[[Node], Sequence[Node]]
) -> dict[Node, float]:
    """A place for every node of some trees: leaves at 0, 1, 2, ..., others amid their children."""
    order, stack = [], list(roots)[::-1]
    while stack:
        order.append(stack.pop())
        stack += children(order[-1])[::-1]
    places: dict[Node, float] = {}
    leaves = (node for node in order if not children(node))
    places.update((leaf, float(x)) for x, leaf in enumerate(leaves))
    for node in reversed(order):  # children before their mothers
        if node not in places:
            around = [places[child] for child in children(node)]
            places[node] = sum(around) / len(around)
    return places


def lasting_codevectors(path: AnnealingPath) -> list[NDArray[np.bool_]]:
    """For every level, which codevectors live on to the coldest one."""
    lasting = [np.ones(path[-1].n_codevectors, dtype=bool)]
    for k in range(len(path) - 1, 0, -1):
        mothers = path[k].parents[lasting[-1]]
        lasting.append(np.isin(np.arange(path[k - 1].n_codevectors), mothers))
    return lasting[::-1]


def follow_up(
    path: AnnealingPath, positions: list[Array], level: int, index: int, temperature: float
) -> float:
    """Where the codevector ``index`` of a level, or what it comes from, stood at a temperature."""
    k, i = level, index
    while k > 0 and path[k - 1].temperature <= temperature and path[k].parents[i] >= 0:
        i, k = int(path[k].parents[i]), k - 1
    if k == 0 or path[k].temperature >= temperature or path[k].parents[i] < 0:
        return float(positions[k][i])
    between = np.log([path[k].temperature, path[k - 1].temperature])
    ends = positions[k][i], positions[k - 1][int(path[k].parents[i])]
    return float(np.interp(np.log(temperature), between, ends))


def in_use(path: AnnealingPath, current: tuple[float, int] | None) -> tuple[float, int] | None:
    """T and K of the model in use, T being that of a level.

    A polish or fine-tuning leaves a temperature of its own; the level it started from is meant.
    """
    if current is None or np.isclose(path.temperatures, current[0], rtol=1e-9, atol=0).any():
        return current
    K = current[1]
    reachable = 0 <= K - len(np.unique(path[0].classes)) <= len(path.ordered_splits)
    return (path.codebook(K) if reachable else path[-1]).temperature, K


def leading_voter(estimator: Any) -> slice:
    """Which of its codevectors a path is to show where several levels vote: the largest share's.

    A path can be cut in one place only. Where one level answers, they are all of them.
    """
    voters = getattr(estimator, "codevector_voters_", None)
    return slice(None) if voters is None else slice(int(np.count_nonzero(np.equal(voters, 0))))
