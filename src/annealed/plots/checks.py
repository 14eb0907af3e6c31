"""What is asked of an estimator or a path before it is drawn."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from annealed.path import AnnealingPath
from annealed.views.lineage import leading_voter


def require_fitted(estimator: Any, attribute: str = "path_") -> None:
    """Raise NotFittedError before a fit, and TypeError if there is nothing of that kind to draw."""
    if hasattr(type(estimator), attribute):
        return
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute} to draw: of a pipeline give its last "
            "step, of a TabularModel its estimator_"
        )


def require_levels(path: AnnealingPath) -> None:
    """Raise ValueError if the path has nothing to draw."""
    if not len(path):
        raise ValueError("no level is finished yet, so there is no path to draw")


def about_model_in_use(estimator: Any) -> dict[str, Any]:
    """What ``from_path`` of a display is told about the model of a fitted estimator.

    A path is cut in one place: of several levels that vote, that of the largest share.
    """
    shown = leading_voter(estimator)
    return {
        "class_names": getattr(estimator, "classes_", None),
        "current": (estimator.temperature_, len(estimator.codevectors_[shown])),
        "nodes": estimator.nodes_[shown],
        "clusters": joined_clusters(estimator),
    }


def joined_clusters(estimator: Any) -> Any:
    """Clusters of the codevectors of a fitted estimator; None where each is its own."""
    clusters = getattr(estimator, "codevector_clusters_", None)
    joined = clusters is not None and estimator.n_clusters_ < len(clusters)
    return clusters if joined else None
