"""What decides, in plain arrays: enough to predict with a model file in any language.

The state of a model is made to go on learning from, not to be read by others. Beside it every file
holds the model that answers now, of which p_i(x) ~ exp(b_i - s_i d(x, mu_i)/T) is all there is to
know (docs/model-files.md). `annealed.load` does not look at it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from annealed.estimators import ODAClassifier
from annealed.estimators.base import AnnealingEstimator
from annealed.tables.model import TabularModel


def answer_of(estimator: Any) -> dict[str, Any]:
    """Codevectors, and everything else that predictions of a fitted estimator follow from.

    Returns
    -------
    dict
        "divergence"; "codevectors" mu; "temperature" T (0: the nearest codevector decides); and,
        where they are not 0, 1, 1, 1: "bias" b, "sharpness" s, "relevances" of the features,
        "calibration", the power that probabilities of classes are raised to. "classes" are indices
        into the labels of a classifier, or numbers of the clusters that codevectors are joined in
        (one more than the last for those in none).
    """
    if isinstance(estimator, TabularModel):  # in the coordinates that its preprocessing gives
        return answer_of(estimator.estimator_)
    answer: dict[str, Any] = {"divergence": estimator._fitted_divergence, "temperature": 0.0}
    if isinstance(estimator, ODAClassifier):
        model = estimator._answering()
        place = np.searchsorted(estimator.classes_, np.array(estimator._learner.labels))
        return answer | {
            "codevectors": model.level.codevectors,
            "classes": place[model.level.classes],
            "temperature": float(model.level.temperature),
            "bias": model.bias,
            "sharpness": model.sharpness,
            "relevances": model.relevances,
            "calibration": float(model.calibration),
        }
    answer["codevectors"] = estimator.codevectors_
    if isinstance(estimator, AnnealingEstimator):
        answer["bias"] = estimator._model.log_weights
        answer["temperature"] = float(estimator.temperature_)
        if estimator._model.clusters is not None:
            answer["classes"] = estimator._model.groups
    elif hasattr(estimator, "classes_"):
        labels = estimator.codevector_labels_
        answer["classes"] = np.searchsorted(estimator.classes_, labels)
    return answer
