"""Levels that vote: shares are those of the likeliest mixture, and everything knows of them."""

from __future__ import annotations

import itertools
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicates import same_model, same_tuner, valid_model
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.metrics import log_loss
from thoroughness import examples, tries

import annealed
from annealed import ODAClassifier
from annealed.fine_tuning import candidates
from annealed.fine_tuning.scoring import Scorer, doubt_of
from annealed.fine_tuning.vote import MOST_VOTERS, SMALLEST_SHARE, fit_shares

pytestmark = pytest.mark.quality
ALIKE = np.full(22, 10)  # candidates with as many codevectors each
SHORT = {"gamma": 0.6, "K_max": 30, "random_state": 0}


@cache
def rows(n=500):
    X, y = make_classification(2 * n, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    return X[:n], np.array(["a", "b", "c"])[y[:n]], X[n:], np.array(["a", "b", "c"])[y[n:]]


@cache
def fitted(level="vote"):
    X, y, _, _ = rows()
    return ODAClassifier(level=level, **SHORT).fit(X, y)


# -- shares ----------------------------------------------------------------------------------------


def likelihood(own, weights, shares):
    return weights @ np.log(own @ shares)


@examples(20)
@given(seed=st.integers(0, 2**31))
def test_shares_are_close_to_the_most_likely_ones(seed):
    rng = np.random.default_rng(seed)
    own, weights = rng.uniform(0.05, 1, size=(800, 3)), rng.uniform(0, 2, size=800)
    voters, shares = fit_shares(own, weights[None, :], ALIKE[:3])
    assert (np.diff(shares) <= 0).all() and (shares >= SMALLEST_SHARE).all()
    assert shares.sum() == pytest.approx(1)
    found = likelihood(own[:, voters], weights, shares)
    steps = np.linspace(0, 1, 21)
    grid = [(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b <= 1 + 1e-9]
    best = max(likelihood(own, weights, np.clip(each, 1e-9, 1)) for each in grid)
    assert found > best - 0.01 * len(own)


def test_who_is_always_surer_has_the_most_and_who_never_is_has_none():
    rng = np.random.default_rng(0)
    good = rng.uniform(0.8, 0.9, 400)
    own = np.column_stack([0.1 * good, good, *(0.2 * good for _ in range(20))])
    voters, shares = fit_shares(own, np.ones((1, 400)), ALIKE)
    assert voters[0] == 1 and shares[0] > 0.85 and len(voters) <= MOST_VOTERS


def test_of_candidates_that_say_the_same_one_answers():
    own = np.tile(np.linspace(0.2, 0.9, 50)[:, None], (1, 5))
    voters, shares = fit_shares(own, np.ones((1, 50)), ALIKE[:5])
    assert len(voters) == 1 and shares.tolist() == [1.0]


def test_who_has_more_codevectors_must_say_more():
    own = np.full((100, 2), 0.8)
    sizes = np.array([5, 50])
    for nats, first in ((1.0, 0), (4.0, 1)):  # ten times as many: log 10 = 2.3
        own[:, 1] = 0.8 * np.exp(nats / 100)
        voters, shares = fit_shares(own, np.ones((1, 100)), sizes)
        assert voters.tolist() == [first] and shares.tolist() == [1.0]


def test_one_row_does_not_decide_by_itself():
    """Surer on every row but one, of which it was sure and wrong."""
    y = np.zeros(150, dtype=np.int32)
    careful, sure = (np.column_stack([p, 1 - p]) for p in (np.full(150, 0.8), np.full(150, 0.99)))
    sure[0] = 1e-9, 1 - 1e-9
    judge = Scorer(y, np.ones(150), None, doubt_of(150))
    assert judge(sure)[2] < judge(careful)[2] / 3
    unlikely = 150 * (judge(sure)[2] + np.log(0.99) * 149 / 150)
    assert unlikely < np.log(2 * 152) + 1  # by what 150 rows can tell, not log(1e9)


# -- what a user sees ------------------------------------------------------------------------------


def test_probabilities_are_the_calibrated_mean_of_the_voters():
    model, X = fitted(), rows()[2]
    assert valid_model(model)
    assert len(model.voters_) > 1
    vote = model._answering()
    mean = 0
    for voter, share in zip(vote.voters, [v.share for v in model.voters_], strict=True):
        d = (((X[:, None] - voter.level.codevectors) ** 2) * (
            1 if voter.relevances is None else voter.relevances
        )).sum(axis=2)  # fmt: skip
        sharpness = 1 if voter.sharpness is None else voter.sharpness
        logits = voter.bias - d * sharpness / voter.level.temperature
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = mean + share * (p @ (voter.level.classes[:, None] == np.arange(3)))
    raised = mean**vote.calibration
    expected = (1 - vote.doubt) * raised / raised.sum(axis=1, keepdims=True) + vote.doubt / 3
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)


def test_attributes_say_what_decides():
    model, X = fitted(), rows()[2]
    vote = model._answering()
    for v, voter in enumerate(vote.voters):
        mine = model.codevector_voters_ == v
        np.testing.assert_array_equal(model.codevectors_[mine], voter.level.codevectors)
        labels = model.classes_[voter.level.classes]
        np.testing.assert_array_equal(model.codevector_labels_[mine], labels)
        assert (model.weights_[mine].sum()) == pytest.approx(3 * vote.shares[v])
    assert model.transform(X).shape == (len(X), len(model.codevectors_))
    assert model.get_feature_names_out().shape == (len(model.codevectors_),)


def test_one_level_is_one_word_away():
    one = fitted("auto")
    assert len(one.voters_) == 1 and one.voters_[0].share == 1
    assert set(one.codevector_voters_) == {0}
    assert len(one.codevectors_) == one.chosen_.n_codevectors


def test_a_model_at_a_level_does_not_vote():
    small = fitted().at(n_codevectors=5)
    assert small.voters_ == () and set(small.codevector_voters_) == {0}
    assert len(small.codevectors_) == 5


def test_shares_over_resamples_are_the_mean_of_theirs():
    """Every row prefers one of two candidates: who has how much hangs on which rows are met."""
    rng = np.random.default_rng(0)
    own = np.where(rng.random((90, 2)) < 0.5, 0.9, 0.3)
    own[:, 1] = 1.2 - own[:, 0]
    weights = rng.exponential(size=(40, 90))
    each = np.zeros((40, 2))
    for mine, resample in zip(each, weights, strict=True):
        voters, shares = fit_shares(own, resample[None, :], ALIKE[:2])
        mine[voters] = shares
    voters, shares = fit_shares(own, weights, ALIKE[:2])
    np.testing.assert_allclose(shares, each.mean(axis=0)[voters], atol=0.02)


def test_a_vote_loses_nothing_beside_one_level():
    """Log loss over twelve draws .1395 beside .1406; a mean of two differs by .006 by chance."""
    X, y = load_digits(return_X_y=True)
    losses = {"vote": [], "auto": []}
    for seed in range(tries(2, 6)):
        rows = np.random.default_rng(seed).permutation(len(X))
        learn, test = rows[:300], rows[300:]
        for level, found in losses.items():
            model = ODAClassifier(level=level, random_state=seed).fit(X[learn], y[learn])
            found.append(log_loss(y[test], model.predict_proba(X[test])))
    assert np.mean(losses["vote"]) < np.mean(losses["auto"]) + 0.015, losses


def test_the_record_is_corrected_for_having_chosen_the_best():
    """Labels by chance: the best of many looks better than chance, what is reported does not."""
    rng = np.random.default_rng(0)
    reported, best, X_new = [], [], rng.normal(size=(2000, 5))
    y_new = rng.integers(2, size=2000)
    for seed in range(16):
        X, y = rng.normal(size=(100, 5)), rng.permutation(np.arange(100) % 2)
        model = ODAClassifier(level="auto", **SHORT | {"random_state": seed}).fit(X, y)
        reported.append(model.chosen_.accuracy - model.score(X_new, y_new))
        best.append(model.voters_[0].accuracy - model.score(X_new, y_new))
    assert np.mean(reported) < 0.5 * np.mean(best), (reported, best)


def test_there_are_more_codevectors_where_rows_pay_for_them():
    """Two hundred clusters of ten classes: a hundred codevectors cannot be enough."""
    rng = np.random.default_rng(0)
    centres, member = rng.uniform(-3, 3, size=(200, 10)), rng.integers(200, size=6500)
    X, y = centres[member] + 0.7 * rng.normal(size=(6500, 10)), member % 10
    free = ODAClassifier(random_state=0).fit(X[:4500], y[:4500])
    bound = ODAClassifier(K_max=100, random_state=0).fit(X[:4500], y[:4500])
    assert max(level.n_codevectors for level in free.path_) > 150
    assert free.score(X[4500:], y[4500:]) > bound.score(X[4500:], y[4500:]) + 0.05
    few = ODAClassifier(random_state=0).fit(X[:1000], y[:1000])
    assert max(level.n_codevectors for level in few.path_) <= 100


def test_more_codevectors_are_tried_where_no_level_tells_the_classes_apart():
    """A hundred squares of two colours: a level of fewer codevectors than squares knows nothing."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, size=(4000, 2))
    y = np.floor(X).sum(axis=1) % 2
    model = ODAClassifier(random_state=0).fit(X[:3000], y[:3000])
    assert model.score(X[3000:], y[3000:]) > 0.8  # .88 with 170 codevectors, .5 with 97
    noise = rng.integers(2, size=3000)
    assert len(ODAClassifier(random_state=0).fit(X[:3000], noise).path_[-1].codevectors) <= 100


# -- files, merging, streams, pictures ------------------------------------------------------------


def test_a_file_keeps_the_vote(tmp_path):
    model, X = fitted(), rows()[2]
    annealed.save(model, tmp_path / "vote.oda")
    back = annealed.load(tmp_path / "vote.oda")
    assert back.voters_ == model.voters_
    np.testing.assert_array_equal(back.codevector_voters_, model.codevector_voters_)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    X, y, _, _ = rows()
    for each in (back, further := deepcopy(model)):
        each.partial_fit(X[:100], y[:100])
    assert same_model(back, further) and same_tuner(back, further)


@pytest.mark.parametrize("shares", [[0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]])
def test_shares_that_do_not_sum_to_one_are_refused(tmp_path, shares):
    model = deepcopy(fitted())
    tuner = model._learner.tuner
    tuner.tunings, tuner.shares = tuner.tunings[:2], np.array(shares)
    annealed.save(model, tmp_path / "bad.oda")
    with pytest.raises(annealed.ModelFileError, match="shares of voters"):
        annealed.load(tmp_path / "bad.oda")


def test_models_that_vote_can_be_merged():
    X, y, X_new, y_new = rows()
    parts = [
        ODAClassifier(**SHORT).fit(X[half], y[half]) for half in (slice(250), slice(250, None))
    ]
    joined = parts[0].merge(parts[1])
    assert valid_model(joined)
    assert joined.score(X_new, y_new) > min(m.score(X_new, y_new) for m in parts) - 0.1


def test_voters_go_on_learning_one_by_one_as_in_portions():
    _, y, X_new, _ = rows()
    whole, single = deepcopy(fitted()), deepcopy(fitted())
    whole.partial_fit(X_new[:60], y[:60])
    for x, label in zip(X_new[:60], y[:60], strict=True):
        single.learn_one(x, label)
    assert same_model(whole, single) and same_tuner(whole, single)
    assert whole.voters_ == fitted().voters_
    assert not np.array_equal(whole.codevectors_, fitted().codevectors_)
    answers = [list(single.predict_proba_one(x).values()) for x in X_new[60:70]]
    np.testing.assert_allclose(answers, whole.predict_proba(X_new[60:70]), atol=1e-12)


@pytest.mark.parametrize("kept", [0, 20_000])
def test_what_was_tested_is_what_is_learnt_again(kept, monkeypatch):
    """Whether candidates are kept or not: all, some or none of them."""
    monkeypatch.setattr(candidates, "KEPT", kept)
    X, y, X_new, _ = rows()
    model = ODAClassifier(**SHORT).fit(X, y)
    assert same_model(model, fitted()) and same_tuner(model, fitted())
    np.testing.assert_array_equal(model.predict_proba(X_new), fitted().predict_proba(X_new))


def test_a_vote_of_levels_as_annealed_leaves_a_stream_to_the_first(monkeypatch):
    monkeypatch.setattr(candidates, "FIRST_TEST", 10**9)  # nothing is fine-tuned
    X, y, _, _ = rows()
    model = ODAClassifier(**SHORT).fit(X, y)
    assert len(model.voters_) > 1 and all(voter.steps == 0 for voter in model.voters_)
    first = model.voters_[0].n_codevectors
    model.partial_fit(X[:50], y[:50])
    assert len(model.voters_) == 1 and len(model.codevectors_) == first
    before = model.codevectors_
    model.partial_fit(X[:50], y[:50])
    assert not np.array_equal(before, model.codevectors_)


def test_a_vote_notices_drift_and_races():
    X, y, _, _ = rows()
    model = ODAClassifier(drift_detector="auto", **SHORT).fit(X, y)
    order = np.tile(np.arange(len(X)), 12)
    turned = np.array(["b", "c", "a"])[np.searchsorted(["a", "b", "c"], y)]
    model.partial_fit(np.tile(X, (3, 1)), np.tile(y, 3))
    assert len(model.voters_) > 1
    model.partial_fit(X[order], turned[order])
    assert model.score(X, turned) > 0.6
    assert len(model.voters_) <= 1


def test_displays_show_the_largest_share_and_all_codevectors():
    pytest.importorskip("matplotlib").use("agg")
    from annealed.plots import BifurcationDisplay, CodevectorDisplay

    model = fitted()
    path = BifurcationDisplay.from_estimator(model)
    assert path.current[1] == model.voters_[0].n_codevectors
    cases = CodevectorDisplay.from_estimator(model)
    assert len(cases.codevectors) == len(model.codevectors_)
    assert model._repr_html_()


def test_it_is_no_worse_than_one_level_on_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    test = np.arange(len(X)) % 3 == 0
    for level in ("vote", "auto"):
        model = ODAClassifier(level=level, random_state=0).fit(X[~test], y[~test])
        assert model.score(X[test], y[test]) > 0.95
