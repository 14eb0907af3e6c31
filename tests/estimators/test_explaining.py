"""Explanations of rows: shares add up to the answer, features to the difference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError

from annealed import Mahalanobis, ODAClassifier

pytestmark = pytest.mark.quality
SHORT = {"gamma": 0.6, "K_max": 20, "random_state": 0}
DIVERGENCES = {
    "squared_euclidean": "squared_euclidean",
    "i_divergence": "i_divergence",
    "mahalanobis": Mahalanobis(np.eye(3) + 0.3),
}


def rows(n=300):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return np.exp(rng.normal(size=(n, 3)) * 0.4 + y[:, None] * [0.5, 0, 0.2]), np.array(
        ["a", "b", "c"]
    )[y]


@pytest.fixture(params=list(DIVERGENCES), scope="module")
def model(request):
    X, y = rows()
    frame = pd.DataFrame(X, columns=["cm", "kg", "s"])
    return ODAClassifier(divergence=DIVERGENCES[request.param], **SHORT).fit(frame, y), frame


def test_shares_of_codevectors_are_the_answer_before_calibration(model):
    model, X = model
    K = len(model.codevectors_)
    table = pd.DataFrame(model.explain(X[:20], n_codevectors=K))
    assert len(table) == 20 * K
    np.testing.assert_allclose(table.groupby("row").share.sum(), 1.0)
    of_class = table.pivot_table("share", "row", "codevector_label", aggfunc="sum")
    vote = model._answering()
    raised = of_class.to_numpy() ** vote.calibration
    expected = raised / raised.sum(axis=1, keepdims=True)
    expected = (1 - vote.doubt) * expected + vote.doubt / raised.shape[1]
    np.testing.assert_allclose(model.predict_proba(X[:20]), expected, atol=1e-9)
    first = table.groupby("row").first()
    np.testing.assert_array_equal(first.label, model.predict(X[:20]))
    np.testing.assert_allclose(first.probability, model.predict_proba(X[:20]).max(axis=1))
    for line in table.itertuples():
        assert model.codevector_labels_[line.codevector] == line.codevector_label
        assert model.codevector_voters_[line.codevector] == line.voter


def test_features_add_up_to_what_moved_the_row(model):
    model, X = model
    vote = model._answering()
    for reason in model.explain(X[:10], n_codevectors=1, n_features=3):
        voter = vote.voters[reason.voter]
        d = model.transform(X[reason.row : reason.row + 1])[0]
        mine = model.codevector_voters_ == reason.voter
        sharp = 1 if voter.sharpness is None else voter.sharpness
        scaled = d[mine] * sharp / voter.level.temperature
        i = reason.codevector - int(np.argmax(mine))
        others = model.codevector_labels_[mine] != reason.codevector_label
        rival = np.flatnonzero(others)[(voter.bias - scaled)[others].argmax()]
        total = sum(nats for _, nats in reason.features)
        assert total == pytest.approx(scaled[rival] - scaled[i], abs=1e-6)
        assert {name for name, _ in reason.features} == {"cm", "kg", "s"}


def test_one_row_one_dict_and_words():
    X, y = rows()
    model = ODAClassifier(**SHORT).fit(pd.DataFrame(X, columns=["cm", "kg", "s"]), y)
    from_dict = model.explain({"kg": X[0, 1], "cm": X[0, 0], "s": X[0, 2]})
    assert from_dict == model.explain(X[0]) and len(from_dict) == 3
    assert str(from_dict[0]).startswith(f"row 0: {from_dict[0].label} (")


def test_features_in_other_units_are_named_by_what_tells():
    X, y = load_wine(return_X_y=True)
    model = ODAClassifier(random_state=0).fit(X, y)
    assert model.feature_units_ == "standardised"
    named = {name for reason in model.explain(X[:50]) for name, _ in reason.features}
    assert len(named) > 3  # not proline alone


def test_what_cannot_be_asked_is_refused():
    X, y = rows()
    with pytest.raises(NotFittedError):
        ODAClassifier().explain(X)
    model = ODAClassifier(**SHORT).fit(X, y)
    with pytest.raises(ValueError, match="n_codevectors must be a whole number"):
        model.explain(X, n_codevectors=0)
    one = ODAClassifier(**SHORT).fit(X, np.zeros(len(X)))
    assert {nats for r in one.explain(X[:2]) for _, nats in r.features} == {0.0}
