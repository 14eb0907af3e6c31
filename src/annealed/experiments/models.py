"""The classifiers of the experiments: ours in three recipes, and the references."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from annealed.estimators import ODAClassifier, paper_settings
from annealed.experiments.configuration import Settings

Build = Callable[[int], Any]  # from a seed

PAPER, PLAIN, FULL = "ODA, paper's settings", "ODA, no fine-tuning", "ODA, full"
RECIPES = {
    PAPER: "the paper's literal settings, on raw features as they come: "
    "ODAClassifier(**paper_settings(), level='last', fine_tune=None)",
    PLAIN: "our defaults without fine-tuning, on standardised features: "
    "ODAClassifier(level='last', fine_tune=None)",
    FULL: "our defaults in full, on standardised features: ODAClassifier()",
}


def ours(recipe: str, divergence: str = "squared_euclidean", **changes: Any) -> Build:
    """A recipe of ours; anything but the squared Euclidean divergence sees features as they are."""

    def build(seed: int) -> Any:
        last: dict[str, Any] = {"level": "last", "fine_tune": None}
        given = {PAPER: {**paper_settings(), **last}, PLAIN: last, FULL: {}}[recipe]
        model = ODAClassifier(divergence=divergence, random_state=seed, **(given | changes))
        if recipe == PAPER:
            return model
        if divergence != "squared_euclidean":
            return make_pipeline(MinMaxScaler(clip=True), model)
        return make_pipeline(StandardScaler(), model)

    return build


def references(settings: Settings) -> dict[tuple[str, str], Build]:
    """Builds of (model, scaling): "raw" or "standardised".

    A forest asks in which order values lie and does not notice scaling, so it comes once.
    """
    hidden, passes = settings["nn_neurons"], settings["nn_passes"]
    trees, step = settings["rf_trees"], settings["nn_step"]

    def network(seed: int) -> Any:
        return MLPClassifier((hidden,), max_iter=passes, learning_rate_init=step, random_state=seed)

    return {
        # The solver that was scikit-learn's default when the paper was written; it does not
        # converge on raw features.
        ("SVM", "raw"): lambda seed: LinearSVC(dual=True, random_state=seed),
        ("SVM", "standardised"): lambda seed: make_pipeline(StandardScaler(), LinearSVC()),
        ("NN", "raw"): network,
        ("NN", "standardised"): lambda seed: make_pipeline(StandardScaler(), network(seed)),
        ("RF", "raw"): lambda seed: RandomForestClassifier(trees, random_state=seed),
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """All on one thread, so that times compare algorithms and not how busy the machine is."""
    with threadpool_limits(1):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of models that have not converged: the page says which do not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
