"""Digests of what a dozen models answer, to the last bit.

For changes that are to change nothing: run it on the commit before and after, on one machine, and
compare. It uses public names only.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_moons

import annealed
from annealed import (
    BregmanDivergence,
    DeterministicAnnealing,
    LVQClassifier,
    Mahalanobis,
    ODAClassifier,
    ODAClustering,
    StochasticVQ,
    TabularModel,
)

DIVERGENCES = ("i_divergence", "kullback_leibler", "itakura_saito", "logistic")


def digest(*parts: Any) -> str:
    """Sixteen letters that stand for arrays, numbers and texts."""
    summary = hashlib.blake2b(digest_size=8)
    for part in parts:
        value = np.asarray(part)
        summary.update(repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
    return summary.hexdigest()


def answers_of(model: Any, X: Any) -> tuple[Any, ...]:
    """Everything a model says about itself and about rows."""
    parts = [model.predict(X)]
    for name in ("predict_proba", "transform", "score_samples"):
        if hasattr(model, name):
            parts.append(getattr(model, name)(X))
    for name in ("codevectors_", "weights_", "temperature_", "n_clusters_", "n_clusters_margin_"):
        if hasattr(model, name):
            parts.append(getattr(model, name))
    path = getattr(model, "path_", None)
    for level in () if path is None else path:
        parts += [level.temperature, level.codevectors, level.weights, level.parents]
    return tuple(parts)


def loaded_again(model: Any) -> Any:
    """The model from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.oda"
        annealed.save(model, file)
        return annealed.load(file)


def in_pieces(model: Any, X: Any, y: Any = None) -> Any:
    """A stream in calls of uneven length, saved and loaded in the middle."""
    edges = [0, 1, 90, 100, 1000, 1001, len(X) // 2, len(X)]
    for a, b in itertools.pairwise(edges):
        model.partial_fit(X[a:b], *(() if y is None else (y[a:b],)))
        if b == len(X) // 2:
            model = loaded_again(model)
    return model


def one_by_one(model: Any, X: Any, y: Any) -> Any:
    """The same, sample by sample."""
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(x, label)
    return model


def models() -> Iterator[tuple[str, Callable[[], tuple[Any, ...]]]]:
    """Names, and what gives the answers."""
    blobs, of_blobs = make_blobs(20_000, centers=6, cluster_std=0.7, random_state=0)
    moons, of_moons = make_moons(6000, noise=0.2, random_state=0)
    wine, cultivar = load_wine(return_X_y=True)
    wine = (wine - wine.mean(axis=0)) / wine.std(axis=0)
    digits, of_digits = load_digits(return_X_y=True)
    iris = load_iris(as_frame=True).frame.assign(target=lambda t: t["target"].map(str))
    positive = np.abs(blobs[:3000]) + 0.1
    share = positive / (positive.max() * 1.01)
    cosh = BregmanDivergence(phi=lambda x: np.cosh(x).sum(axis=1), gradient=np.sinh, name="cosh")

    def clustering(*given: Any, **more: Any) -> ODAClustering:
        return ODAClustering(*given, random_state=0, **more)

    def classifier(**more: Any) -> ODAClassifier:
        return ODAClassifier(random_state=0, **more)

    yield "clustering, fit", lambda: answers_of(clustering().fit(blobs), blobs[:500])
    yield (
        "clustering, fit, polished",
        lambda: answers_of(clustering(9, polish=True).fit(blobs), blobs[:500]),
    )
    yield (
        "clustering, fit, perturbed pairs",
        lambda: answers_of(clustering(None, split="perturb", K_max=30).fit(blobs), blobs[:500]),
    )
    yield (
        "clustering, stream",
        lambda: answers_of(
            in_pieces(clustering(drift_detector="auto"), np.tile(blobs, (4, 1))), blobs[:500]
        ),
    )
    for name in DIVERGENCES:
        X = share if name == "logistic" else positive
        X = X / X.sum(axis=1, keepdims=True) if name == "kullback_leibler" else X
        y = (X[:, 0] > np.median(X[:, 0])).astype(int)

        def both(name: str = name, X: Any = X, y: Any = y) -> tuple[Any, ...]:
            first = answers_of(clustering(divergence=name).fit(X), X[:200])
            second = answers_of(classifier(divergence=name).fit(X, y), X[:200])
            return (*first, *second)

        yield f"both, fit, {name}", both
    yield (
        "clustering, fit, Mahalanobis",
        lambda: answers_of(
            clustering(5, divergence=Mahalanobis(np.array([[2.0, 0.5], [0.5, 1.0]]))).fit(blobs),
            blobs[:500],
        ),
    )
    yield (
        "clustering, fit, divergence of one's own",
        lambda: answers_of(clustering(2, divergence=cosh, K_max=4).fit(moons[:200]), moons[:200]),
    )
    yield "classifier, fit, wine", lambda: answers_of(classifier().fit(wine, cultivar), wine)
    yield (
        "classifier, fit, digits",
        lambda: answers_of(classifier().fit(digits, of_digits), digits[:300]),
    )
    yield (
        "classifier, fit, lvq, weights",
        lambda: answers_of(
            classifier(fine_tune="lvq", class_weight="balanced").fit(
                moons, of_moons, sample_weight=np.linspace(0, 2, len(moons))
            ),
            moons[:300],
        ),
    )
    yield (
        "classifier, stream",
        lambda: answers_of(
            in_pieces(classifier(), np.tile(moons, (5, 1)), np.tile(of_moons, 5)), moons[:300]
        ),
    )
    yield (
        "classifier, stream with drift",
        lambda: answers_of(
            in_pieces(
                classifier(drift_detector="auto"),
                np.concatenate([moons, moons[:, ::-1]] * 2),
                np.tile(of_moons, 4),
            ),
            moons[:300],
        ),
    )
    yield (
        "classifier, one by one",
        lambda: answers_of(one_by_one(classifier(), moons[:4000], of_moons[:4000]), moons[:300]),
    )
    yield (
        "clustering, merged",
        lambda: answers_of(
            clustering(3).partial_fit(blobs[:9000]).merge(clustering(3).partial_fit(blobs[9000:])),
            blobs[:300],
        ),
    )
    yield (
        "table",
        lambda: answers_of(TabularModel(ODAClassifier(random_state=0)).fit(iris, "target"), iris),
    )
    yield (
        "table, clusters",
        lambda: (
            TabularModel(ODAClustering(3, random_state=0))
            .fit(pd.DataFrame(wine))
            .predict(pd.DataFrame(wine)),
        ),
    )
    yield (
        "batch annealing",
        lambda: answers_of(
            DeterministicAnnealing(random_state=0, K_max=10).fit(blobs[:2000]), blobs[:300]
        ),
    )
    yield "stochastic VQ", lambda: answers_of(StochasticVQ(random_state=0).fit(blobs), blobs[:300])
    yield "LVQ", lambda: answers_of(LVQClassifier(random_state=0).fit(blobs, of_blobs), blobs[:300])


def main(quick: bool = False) -> None:
    """Print a digest for every model."""
    for name, answers in models():
        print(f"{digest(*answers())}  {name}", flush=True)
