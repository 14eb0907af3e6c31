"""What decides, in plain arrays: enough to predict with a model file in any language.

The state of a model is made to go on learning from, not to be read by others. Beside it every file
holds the model that answers now, of which p_i(x) ~ exp(b_i - s_i d(x, mu_i)/T), of every voter, is
all there is to know (docs/model-files.md). `annealed.load` does not look at it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from annealed.estimators import ODAClassifier
from annealed.estimators.base import AnnealingEstimator
from annealed.fine_tuning.units import SQUASHED, Units
from annealed.tables.model import TabularModel


def answer_of(estimator: Any) -> dict[str, Any]:
    """Codevectors, and everything else that predictions of a fitted estimator follow from.

    Returns
    -------
    dict
        "divergence"; "codevectors" mu; "temperature" T (0: the nearest codevector decides); and,
        where they are not 0, 1, 1: "bias" b, "sharpness" s, "relevances" of the features. "classes"
        are indices into the labels of a classifier, or numbers of the clusters that codevectors are
        joined in (one more than the last for those in none). Of a classifier "voters", the voter of
        each codevector; "shares" of the voters; "relevances" in a row for each; "calibration", the
        power that probabilities of classes are raised to, and "doubt", the share of the answer that
        is then the same for every class; and, where features are compared in other units, "centre"
        and "scale" of z = (x - centre)/scale, and maybe "spread": asinh(z)/spread.
    """
    if isinstance(estimator, TabularModel):  # in the coordinates that its preprocessing gives
        return answer_of(estimator.estimator_)
    answer: dict[str, Any] = {"divergence": estimator._fitted_divergence, "temperature": 0.0}
    if isinstance(estimator, ODAClassifier):
        vote = estimator._answering()
        T = float(vote.level.temperature)
        place = np.searchsorted(estimator.classes_, np.array(estimator._learner.labels))
        level, voters, d = vote.level, vote.voters, estimator.n_features_in_
        sharpness = [
            np.ones(voter.level.n_codevectors) if voter.sharpness is None else voter.sharpness
            for voter in voters
        ]
        if len(voters) > 1:  # of one T for all
            sharpness = [
                each * T / voter.level.temperature
                for each, voter in zip(sharpness, voters, strict=True)
            ]
        relevances = [np.ones(d) if v.relevances is None else v.relevances for v in voters]
        return answer | {
            "codevectors": level.codevectors,
            "classes": place[level.classes],
            "voters": vote.membership,
            "shares": vote.shares,
            "temperature": T,
            "bias": np.concatenate([voter.bias for voter in voters]),
            "sharpness": np.concatenate(sharpness),
            "relevances": np.array(relevances),
            "calibration": float(vote.calibration),
            "doubt": float(vote.doubt),
            **_units_of(estimator._learner.units),
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


def _units_of(units: Units | None) -> dict[str, Any]:
    if units is None:
        return {}
    squashed = {"spread": units.spread} if units.name == SQUASHED else {}
    return {"centre": units.centre, "scale": units.scale, **squashed}
