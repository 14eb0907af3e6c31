"""The model in use: which it is, why, and what it says of the rows given."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from annealed.divergences import Array
from annealed.report.cards import CardInputs, tell_apart, write_cards
from annealed.report.contents import (
    Answers,
    Certainty,
    ClassAnswers,
    ClusterShown,
    HeldOut,
    LevelShown,
    ModelShown,
    NodeIndex,
    NodeShown,
    Outline,
    Plausible,
    Relevance,
    VoterShown,
)
from annealed.report.inputs import ModelInUse, PageInputs
from annealed.views.colours import MOST_BRANCHES

if TYPE_CHECKING:
    from annealed.path import AnnealingPath
    from annealed.report.tree import Tree
    from annealed.views.projection import Plane

# Parts of [0, 1] by which stated and true certainty are compared.
BINS = 10
# Features told of each cluster, and of a classifier those that count most.
CLUSTER_FEATURES, RELEVANCES = 3, 12
# Outlines are drawn on a grid of so many places a side, with room for this part of the map around
# the rows, about this part of a cluster's rows, which count for places so far from them.
GRID, ROOM, INSIDE, REACH = 64, 0.1, 0.97, 1.2


@dataclass(frozen=True, eq=False)
class Shown:
    """Rows that the page shows, as the model takes them, in original units and on the map."""

    X: Array
    plane: Plane
    places: Array
    cards: CardInputs


def describe_model(
    inputs: PageInputs, use: ModelInUse, shown: Shown, nodes: list[NodeShown]
) -> ModelShown:
    """All there is to tell; codevectors that are no level's are added to ``nodes``."""
    k = level_of(inputs.path, use)
    level, model = inputs.path[k], use.model
    exactly = level.n_codevectors == len(use.codevectors) and np.allclose(
        level.codevectors, use.codevectors
    )
    codevectors = None if exactly else _show_codevectors(inputs, use, shown, nodes)
    return ModelShown(
        level=k,
        n_codevectors=len(use.codevectors),
        words=_beside_the_slider(use, level.n_codevectors, exactly=exactly),
        codevectors=codevectors,
        about=_about(inputs, use),
        voters=[VoterShown(float(v.share), int(v.n_codevectors), int(v.steps)) for v in use.voters],
        held_out=_held_out(model),
        answers=None if model is None else _answers(inputs, model),
        relevances=_relevances(model),
        clusters=[] if inputs.class_names else _clusters(inputs, use, shown),
        plausible=_plausible(model),
        outlines=_outlines(use, shown),
    )


def level_of(path: AnnealingPath, use: ModelInUse) -> int:
    """The level a model is or comes from; of several that vote, the one with the largest share."""
    K, T = int(np.count_nonzero(use.membership == 0)), path.temperatures
    same = np.flatnonzero(np.abs(T / max(use.temperature, 1e-300) - 1) < 1e-9)
    if len(same) and path[int(same[0])].n_codevectors == K:
        return int(same[0])
    fewest = path[0].n_codevectors
    reachable = fewest <= K <= fewest + len(path.ordered_splits)
    if reachable:
        return int(np.flatnonzero(T == path.codebook(K).temperature)[0])
    return int(np.abs(path.n_codevectors - K).argmin())


# -- which it is -----------------------------------------------------------------------------------


def _beside_the_slider(use: ModelInUse, K_of_level: int, *, exactly: bool) -> str:
    K = len(use.codevectors)
    if exactly:
        return "This level is the model in use."
    if len(use.voters) > 1:
        return (
            f"Shown are the {K} codevectors of the model in use: {len(use.voters)} levels that "
            "vote, of which the mark on the slider shows the one with the largest share."
        )
    comes = "comes from the level marked on the slider"
    if K_of_level > K:
        comes += f", with {K_of_level - K} of its splits undone"
    return f"Shown are the codevectors of the model in use (K = {K}). It {comes}."


def _about(inputs: PageInputs, use: ModelInUse) -> list[str]:
    """What answers, and why, in words for someone who has never seen the method."""
    if inputs.class_names:
        return _about_classifier(inputs, use)
    return _about_clusters(use)


def _about_classifier(inputs: PageInputs, use: ModelInUse) -> list[str]:
    K, each = len(use.codevectors), np.bincount(use.classes, minlength=len(inputs.class_names))
    counts = ", ".join(
        f"{n} for {name}" for n, name in zip(each.tolist(), inputs.class_names, strict=True)
    )
    words = [f"A row gets the class of the codevectors it is nearest to: {K} in all ({counts})."]
    if len(inputs.class_names) > MOST_BRANCHES:
        words = [f"A row gets the class of the codevectors it is nearest to: {K} in all."]
    if len(use.voters) > 1:
        words.append(
            f"They belong to {len(use.voters)} levels that answer together, coarse ones and fine "
            "ones (where rows are few also those of annealings that lacked a part of them): the "
            "probability of a class is the mean of what they say, weighted by their shares."
        )
    elif use.voters and use.voters[0].steps:
        words.append(
            "The level was chosen, and fine-tuned, as rows held out asked for it: codevectors have "
            "moved from where annealing left them to where they tell classes apart."
        )
    return words


def _about_clusters(use: ModelInUse) -> list[str]:
    K, clusters, model = len(use.codevectors), use.n_clusters, use.model
    some = f"{clusters} cluster{'s' * (clusters != 1)}"
    words = []
    if K > clusters:
        words.append(
            f"{some}, made of {K} codevectors: those between which samples lie densely belong "
            "together, so a cluster may have any shape."
        )
    asked = getattr(model, "n_clusters", None)
    plausible = getattr(model, "plausible_n_clusters_", None)
    if isinstance(asked, int | np.integer):
        words.append(f"{some}, as was asked for.")
    elif plausible is not None and asked == "auto":
        words += _why(clusters, plausible, by_borders=use.joined)
    elif not words:
        words.append(f"{some}: every codevector of the level is one.")
    return words


def _why(clusters: int, plausible: Any, *, by_borders: bool) -> list[str]:
    margin = plausible.margin
    if clusters == 1:
        words = [
            "One cluster: nowhere do samples thin out, and no other number lasts, more than they "
            "would in data without any clusters."
        ]
    elif by_borders:
        words = [
            f"Why {clusters}: between any two of them samples thin out more than chance would do. "
            f"The least sure of these borders is seen with {margin:.1f} standard errors to spare; "
            "there is no other border as sure."
        ]
    else:
        words = [
            f"Why {clusters}: while the temperature falls, {clusters} codevectors stay enough for "
            f"longer than they would in data without clusters (by {margin:.2f} in log T, a factor "
            f"of {np.exp(margin):.2f})."
        ]
    if len(plausible.n_clusters) > 1:
        other = int(plausible.n_clusters[1])
        close = by_borders and margin < 1
        words.append(
            f"That is not sure: {other} is nearly as plausible."
            if close
            else f"The next best answer would be {other}."
        )
    return words


# -- its codevectors -------------------------------------------------------------------------------


def _show_codevectors(
    inputs: PageInputs, use: ModelInUse, shown: Shown, nodes: list[NodeShown]
) -> LevelShown:
    """A stop of its own beside the ladder, and places beside the tree for its codevectors."""
    original = inputs.original(use.codevectors)
    places = shown.plane.place(original if shown.plane.original else use.codevectors)
    tree = shown.cards.tree
    own = _add_nodes(inputs, use, tree, nodes)
    X = shown.X
    divergences = inputs.divergences(X, use.codevectors) if len(X) else np.zeros((0, 0))
    cells = use.codevector_of(X) if len(X) else None
    level = replace(inputs.path[0], weights=use.weights)
    others = _others(use)
    cards = write_cards(shown.cards, level, own, original, divergences, cells, others)
    held = _held_out(use.model)
    score = None if held is None else held.accuracy if held.score is None else held.score
    return LevelShown(
        temperature=use.temperature,
        n_codevectors=len(use.codevectors),
        samples=int(inputs.path[-1].samples),
        distortion=None,
        entropy=None,
        free_energy=None,
        score=score if inputs.score_name else None,
        x=places[:, 0].tolist(),
        y=places[:, 1].tolist(),
        weights=use.weights.tolist(),
        nodes=own,
        cards=cards,
        cells="" if cells is None else base64.b64encode(cells.astype("<u2").tobytes()).decode(),
    )


def _others(use: ModelInUse) -> list[list[int]]:
    """Codevectors of the same voter that speak for another class, or belong to another cluster."""
    kind = use.classes if use.classes.any() else use.clusters
    return [
        np.flatnonzero((use.membership == use.membership[i]) & (kind != kind[i])).tolist()
        for i in range(len(kind))
    ]


def _add_nodes(
    inputs: PageInputs, use: ModelInUse, tree: Tree, nodes: list[NodeShown]
) -> list[NodeIndex]:
    first, names = len(nodes), _name_codevectors(inputs, use)
    branch = use.classes if inputs.class_names else use.clusters
    several = bool(inputs.class_names) or use.n_clusters <= MOST_BRANCHES
    for i, name in enumerate(names):
        class_index = int(use.classes[i])
        place = None if use.nodes is None else tree.index.get((class_index, use.nodes[i]))
        nodes.append(
            NodeShown(
                name=name,
                class_index=class_index,
                branch=int(branch[i]) if several else -1,
                parent=place,
                height=tree.heights[place] if place is not None else float(i),
                in_use=True,
            )
        )
    return list(range(first, len(nodes)))


def _name_codevectors(inputs: PageInputs, use: ModelInUse) -> list[str]:
    """By class or cluster, numbered as in the model's own arrays."""
    if inputs.class_names:
        names = [f"{inputs.class_names[c]}, codevector {i}" for i, c in enumerate(use.classes)]
    elif use.joined:
        names = [
            f"cluster {c}, codevector {i}" if c >= 0 else f"no cluster, codevector {i}"
            for i, c in enumerate(use.clusters)
        ]
    else:
        names = [f"cluster {c}" for c in use.clusters]
    if len(use.voters) > 1:
        names = [
            f"{name} (voter {v})" for name, v in zip(names, use.membership.tolist(), strict=True)
        ]
    return names


# -- what it says ----------------------------------------------------------------------------------


def _held_out(model: Any) -> HeldOut | None:
    chosen = getattr(model, "chosen_", None)
    if chosen is None or not np.isfinite(chosen.accuracy):
        return None
    scored = getattr(model, "scoring", None) is not None and np.isfinite(chosen.score)
    return HeldOut(
        float(chosen.accuracy), float(chosen.log_loss), float(chosen.score) if scored else None
    )


def _answers(inputs: PageInputs, model: Any) -> Answers | None:
    """What a classifier says of all rows whose class it knows."""
    if inputs.X is None or inputs.classes is None:
        return None
    known = inputs.classes >= 0
    if not known.any():
        return None
    truth, n = inputs.classes[known], len(inputs.class_names)
    posterior = model._posterior_of(inputs.compared(inputs.X[known]))
    said, sure = posterior.argmax(axis=1), posterior.max(axis=1)
    confusion = np.zeros((n, n), dtype=np.int64)
    np.add.at(confusion, (truth, said), 1)
    right, of_class, answered = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    own = posterior[np.arange(len(truth)), truth]
    part = np.minimum((sure * BINS).astype(int), BINS - 1)
    return Answers(
        rows=len(truth),
        accuracy=float((said == truth).mean()),
        log_loss=float(-np.log(np.maximum(own, np.finfo(float).eps)).mean()),
        confusion=confusion.tolist(),
        classes=[
            ClassAnswers(
                int(of_class[c]), _ratio(right[c], answered[c]), _ratio(right[c], of_class[c])
            )
            for c in range(n)
        ],
        calibration=[
            Certainty(
                int((part == b).sum()),
                float(sure[part == b].mean()),
                float((said == truth)[part == b].mean()),
            )
            for b in np.unique(part).tolist()
        ],
    )


def _ratio(a: Any, b: Any) -> float | None:
    return float(a / b) if b else None


def _relevances(model: Any) -> list[Relevance]:
    """Features that count most, where not all count alike."""
    found = getattr(model, "feature_relevances_", None)
    if found is None or np.ptp(found) == 0:
        return []
    most = np.argsort(-found, kind="stable")[:RELEVANCES]
    return [Relevance(int(j), float(found[j])) for j in most]


def _plausible(model: Any) -> list[Plausible]:
    found = getattr(model, "plausible_n_clusters_", None)
    if found is None:
        return []
    pairs = zip(found.n_clusters.tolist(), found.support.tolist(), strict=True)
    return [Plausible(int(K), float(support)) for K, support in pairs if np.isfinite(support)]


def _clusters(inputs: PageInputs, use: ModelInUse, shown: Shown) -> list[ClusterShown]:
    """Every cluster by its mean, beside the mean of the others."""
    member = use.clusters == np.arange(use.n_clusters)[:, None]
    weights = member @ use.weights
    centres = (member * use.weights) @ inputs.original(use.codevectors) / weights[:, None]
    counts = None
    if inputs.X is not None:
        labels = use.codevector_of(inputs.X) if use.model is None else use.model._assign(inputs.X)
        counts = np.bincount(labels[labels >= 0], minlength=use.n_clusters)
    everyone = range(use.n_clusters)
    return [
        ClusterShown(
            weight=float(weights[k]),
            codevectors=int(member[k].sum()),
            rows=None if counts is None else int(counts[k]),
            features=tell_apart(shown.cards, centres, weights, k, [j for j in everyone if j != k])[
                :CLUSTER_FEATURES
            ],
        )
        for k in everyone
    ]


# -- outlines on the map ---------------------------------------------------------------------------


def _outlines(use: ModelInUse, shown: Shown) -> list[Outline]:
    """Around the rows of every cluster that is made of several codevectors."""
    if not use.joined or not len(shown.X) or not 1 < use.n_clusters <= MOST_BRANCHES:
        return []
    labels = use.clusters[use.codevector_of(shown.X)]
    low, high = shown.places.min(axis=0), shown.places.max(axis=0)
    room = np.where(high > low, ROOM * (high - low), 0.5)
    low, high = low - room, high + room
    at = (shown.places - low) / (high - low)
    return [
        _outline(k, at[labels == k], low, high) for k in np.unique(labels[labels >= 0]).tolist()
    ]


def _outline(cluster: int, at: Array, low: Array, high: Array) -> Outline:
    """Of one cluster, whose rows are ``at`` places between 0 and 1."""
    # As wide as rows of a cluster are apart, but not finer than the grid can show.
    width = max(REACH / GRID, 0.4 * float(np.mean(at.std(axis=0))) * len(at) ** (-1 / 6))
    grid = (np.arange(GRID) + 0.5) / GRID
    columns, rows = (np.exp(-0.5 * ((at[:, [j]] - grid) / width) ** 2) for j in (0, 1))
    density = rows.T @ columns
    contour = float(np.quantile(_at_rows(density, at), 1 - INSIDE)) / density.max()
    values = np.round(255 * density / density.max()).astype(np.uint8)
    ends = np.column_stack([low + grid[0] * (high - low), low + grid[-1] * (high - low)])
    return Outline(
        cluster=cluster,
        size=GRID,
        x=(float(ends[0, 0]), float(ends[0, 1])),
        y=(float(ends[1, 0]), float(ends[1, 1])),
        values=base64.b64encode(values.tobytes()).decode(),
        contour=max(255 * contour, 1.0),
    )


def _at_rows(density: Array, at: Array) -> NDArray[Any]:
    place = np.clip((at * GRID).astype(int), 0, GRID - 1)
    return np.asarray(density[place[:, 1], place[:, 0]])
