"""The card of a codevector: its siblings, what tells it from them, the samples nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from annealed.divergences import Array
from annealed.report.contents import Card, FeatureDifference, NearestSample, NodeIndex
from annealed.report.tree import Tree
from annealed.views.lineage import ancestors

if TYPE_CHECKING:
    from annealed.path import Integers, Level

# Features on a card, nearest samples, and how many of the features are told of each of these.
FEATURES, NEAREST, VALUES = 8, 3, 3


@dataclass(frozen=True, eq=False)
class CardInputs:
    """What the cards of all levels are written from: the tree, samples, spread of each feature.

    ``values`` and ``spread`` are in original units; without samples ``values`` has no rows.
    """

    tree: Tree
    values: Array
    spread: Array


def write_cards(
    inputs: CardInputs,
    level: Level,
    nodes: list[NodeIndex],
    original: Array,
    divergences: Array,
    cells: Integers | None,
    compared: list[list[int]] | None = None,
) -> list[Card]:
    """The cards of a level.

    Parameters
    ----------
    inputs : CardInputs
    level : Level
    nodes : list of int
        Places of its codevectors in the tree.
    original : ndarray of shape (K, n_features)
        Its codevectors in original units.
    divergences : ndarray of shape (n, K)
        Of every sample shown to every codevector.
    cells : ndarray of shape (n,) or None
        The codevector each sample shown belongs to.
    compared : list of lists of int, optional
        With which others each is compared; left out, with its siblings.
    """
    groups = [[] for _ in nodes] if compared is not None else find_siblings(inputs.tree, nodes)
    nearest = _nearest(divergences) if len(divergences) else [[] for _ in nodes]
    counts = None if cells is None else np.bincount(cells, minlength=len(nodes))
    cards = []
    for i, siblings in enumerate(groups):
        others, members = "siblings", siblings
        if compared is not None:
            members = compared[i]
            others = "others" if members else "none"
        elif not siblings and len(nodes) > 1:
            others, members = "classes", [j for j in range(len(nodes)) if j != i]
        elif not siblings:
            others = "none"
        features = tell_apart(inputs, original, level.weights, i, members)
        first = [one.feature for one in features[:VALUES]]
        cards.append(
            Card(
                siblings=[nodes[j] for j in siblings],
                others=others,
                features=features,
                nearest=[
                    NearestSample(
                        row,
                        float(max(divergences[row, i], 0.0)),
                        inputs.values[row, first].tolist(),
                    )
                    for row in nearest[i]
                ],
                rows=None if counts is None else int(counts[i]),
            )
        )
    return cards


def _nearest(divergences: Array) -> list[list[int]]:
    """For each codevector the samples nearest to it, nearest first."""
    by_codevector = np.ascontiguousarray(divergences.T)
    few = min(NEAREST, by_codevector.shape[1])
    found = np.sort(np.argpartition(by_codevector, few - 1, axis=1)[:, :few], axis=1)
    far = np.take_along_axis(by_codevector, found, axis=1)
    order = np.argsort(far, axis=1, kind="stable")
    nearest: list[list[int]] = np.take_along_axis(found, order, axis=1).tolist()
    return nearest


def find_siblings(tree: Tree, nodes: list[NodeIndex]) -> list[list[int]]:
    """For each codevector of a level the indices of its siblings.

    They are what has become of the other side of the split it comes from; where that has vanished,
    of the split before, and so on up. Codevectors of other classes are no siblings.
    """
    below: dict[NodeIndex, list[int]] = {}
    for i, node in enumerate(nodes):
        for ancestor in ancestors(node, tree.mother):
            below.setdefault(ancestor, []).append(i)
    siblings = []
    for i, node in enumerate(nodes):
        families = (below[ancestor] for ancestor in ancestors(node, tree.mother))
        family = next((family for family in families if len(family) > 1), [i])
        siblings.append([j for j in family if j != i])
    return siblings


def tell_apart(
    inputs: CardInputs, original: Array, weights: Array, i: int, members: list[int]
) -> list[FeatureDifference]:
    """The features in which codevector i differs most from others, by the spread of each."""
    own = original[i]
    if not members:
        return [
            FeatureDifference(j, float(own[j]), None, None) for j in range(min(FEATURES, len(own)))
        ]
    mean = np.average(original[members], axis=0, weights=weights[members])
    differs = (own - mean) / inputs.spread
    most = np.argsort(-np.abs(differs), kind="stable")[:FEATURES]
    return [
        FeatureDifference(int(j), float(own[j]), float(mean[j]), float(differs[j])) for j in most
    ]
