"""The estimators in river's clothes, for its pipelines, metrics and evaluation (extra `river`).

river's own pieces go before them as before any of its models, for example
``preprocessing.StandardScaler() | annealed.river.ODAClassifier()``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from annealed import estimators
from annealed.tables.model import TabularModel

try:
    from river import base
except ModuleNotFoundError as error:  # pragma: no cover
    raise ModuleNotFoundError(
        f"annealed.river needs {error.name}, which is not installed: pip install 'annealed[river]'",
        name=error.name,
    ) from None


def _named(x: Mapping[Hashable, Any]) -> dict[str, Any]:
    """River's features may be called anything; columns are called by text."""
    return {str(name): value for name, value in x.items()}


class _Adapter:
    """What both share: a `TabularModel` that takes features as they come and go."""

    def __init__(self, estimator: Any = None, *, standardize: bool = False) -> None:
        self.estimator = estimator
        self.standardize = standardize
        # In river everything a model will ever need is made at once.
        self.model = TabularModel(
            self._default() if estimator is None else estimator,
            standardize=standardize,
            unknown="ignore",
        )

    def _default(self) -> Any:
        raise NotImplementedError


class ODAClassifier(_Adapter, base.Classifier):
    """`annealed.ODAClassifier` for river.

    Parameters
    ----------
    estimator : annealed.ODAClassifier or None, default=None
        What learns; None for one with ``random_state=0``.
    standardize : bool, default=False
        Whether features are standardised by their running means and spreads.

    Notes
    -----
    The first sample says what features there are. Those that are missing later are taken for their
    running mean (a text that is missing is a category of its own), those that are new are left out.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing  # doctest: +SKIP
    >>> from annealed.river import ODAClassifier
    >>> model = preprocessing.StandardScaler() | ODAClassifier()  # doctest: +SKIP
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    ... # doctest: +SKIP
    """

    def _default(self) -> Any:
        return estimators.ODAClassifier(random_state=0)

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        # Memory is bounded, but not as early as the check asks: between 1000 and 2000 samples the
        # first races are run, whose candidates and their answers are let go of afterwards.
        return {"check_bounded_memory_growth"}

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample."""
        self.model.learn_one(_named(x), y, w)

    def predict_one(self, x: Mapping[Hashable, Any]) -> Any:
        """The likeliest class; None before the first sample."""
        if not hasattr(self.model, "estimator_"):
            return None
        return self.model.predict_one(_named(x))

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[Any, float]:
        """Probability of every class seen; empty before the first sample."""
        if not hasattr(self.model, "estimator_"):
            return {}
        shares: dict[Any, float] = self.model.predict_proba_one(_named(x))
        return shares


class ODAClustering(_Adapter, base.Clusterer):
    """`annealed.ODAClustering` for river.

    Parameters
    ----------
    estimator : annealed.ODAClustering or None, default=None
        What learns; None for one with ``random_state=0``.
    standardize : bool, default=False
        Whether features are standardised by their running means and spreads.
    """

    def _default(self) -> Any:
        return estimators.ODAClustering(random_state=0)

    def learn_one(self, x: Mapping[Hashable, Any], w: float = 1.0) -> None:
        """Learn one sample."""
        self.model.learn_one(_named(x), None, w)

    def predict_one(self, x: Mapping[Hashable, Any]) -> int:
        """The likeliest cluster, 0 before the first sample."""
        if not hasattr(self.model, "estimator_"):
            return 0
        return int(self.model.predict_one(_named(x)))
