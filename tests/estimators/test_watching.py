"""What can be watched in a stream: alarms, who answers, the running score."""

from itertools import pairwise

import numpy as np
import pytest

import annealed
from annealed import ODAClassifier, ODAClustering, TabularModel
from annealed.drift import MOST_ALARMS, StreamRecord

PLACES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


def labelled(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return PLACES[y] + rng.normal(size=(n, 2)), y


@pytest.fixture(scope="module")
def changing():
    """Labels change places after 3000 of 5000 samples."""
    X, y = labelled(5000)
    return X, np.where(np.arange(5000) < 3000, y, (y + 1) % 3)


@pytest.fixture(scope="module")
def watched(changing):
    """The classifier, who answered before each block of 50, and whether answers were right."""
    model, answering, right = ODAClassifier(random_state=0), [], []
    for x, label in zip(*changing, strict=True):
        if len(right) and len(right) % 50 == 0:
            answering.append(model.answering_)
        right.append(model.predict_one(x) == label)
        model.learn_one(x, int(label))
    return model, answering, np.array(right)


def test_alarms_have_times(watched):
    model, _, _ = watched
    assert model.n_alarms_ == len(model.alarms_) == 1
    assert 3000 < model.alarms_[0] <= 3200


def test_who_answers_and_since_when(watched):
    _, answering, _ = watched
    assert answering[0] == ("latest samples", 0)
    since = [each.since for each in answering]
    assert since == sorted(since)
    for k, each in enumerate(answering):
        assert each.since <= 50 * (k + 1)
    # A name stands for as long as it says.
    for before, after in pairwise(answering):
        assert (before.who == after.who) == (before.since == after.since)
    assert len({each.who for each in answering}) > 1


def test_the_running_score_is_that_of_predict_then_learn(watched):
    model, _, right = watched
    score = model.running_score_
    assert score.samples in (4950, 5000)  # whether anybody answered before the first sample
    assert score.overall == pytest.approx(right[-score.samples :].mean(), abs=0.003)
    assert score.recent == pytest.approx(right[-1000:].mean(), abs=0.1)
    assert score.recent > score.overall - 0.2


def test_blocks_tell_the_same_as_single_samples(changing, watched):
    X, y = changing
    model = ODAClassifier(random_state=0)
    for start in range(0, len(X), 701):
        model.partial_fit(X[start : start + 701], y[start : start + 701])
    assert told(model) == told(watched[0])


def told(model):
    model = getattr(model, "estimator_", model)
    who = getattr(model, "answering_", None)
    return model.alarms_.tolist(), model.n_alarms_, model.running_score_, who


@pytest.mark.parametrize("n", [60, 3030, 3500])
def test_files_hold_what_was_noticed(changing, tmp_path, n):
    X, y = changing
    whole = ODAClassifier(random_state=0).partial_fit(X[:n], y[:n])
    annealed.save(whole, tmp_path / "model.oda")
    loaded = annealed.load(tmp_path / "model.oda")
    assert told(loaded) == told(whole)
    for model in (whole, loaded):
        model.partial_fit(X[n:], y[n:])
    assert told(loaded) == told(whole)


def test_after_fit_a_vote_answers_until_the_stream_changes(changing):
    X, y = changing
    model = ODAClassifier(random_state=0).fit(X[:500], y[:500])
    before = model.answering_
    assert before.since == 0
    assert before.who.startswith(("vote of", "fine-tuned level", "annealed level"))
    assert np.isnan(model.running_score_.overall) and model.n_alarms_ == 0
    model.partial_fit(X[500:], y[500:])
    assert 2500 < model.alarms_[0] <= 2700  # of the stream, which began after `fit`
    assert model.answering_.since >= model.alarms_[0]
    assert model.at(n_codevectors=3).answering_ == ("annealed level", 0)


def test_nobody_listens(changing):
    X, y = changing
    model = ODAClassifier(random_state=0, drift_detector=None).partial_fit(X, y)
    assert len(model.alarms_) == 0
    assert model.running_score_.samples == 0 and np.isnan(model.running_score_.recent)
    assert model.answering_.who


def test_levels_that_answer_as_they_are_have_a_score(changing):
    X, y = changing
    model = ODAClassifier(level="last", fine_tune=None, random_state=0).partial_fit(X, y)
    assert model.answering_ == ("annealed level", 0)
    assert model.running_score_.overall > 0.7
    assert 3000 < model.alarms_[0] < 3300


def test_clusters_that_appear_are_an_alarm(tmp_path):
    rng = np.random.default_rng(0)
    X = PLACES[np.r_[rng.integers(0, 2, 1500), rng.integers(0, 3, 1000)]] * 3
    X = X + rng.normal(size=X.shape)
    one, cut = ODAClustering(random_state=0), ODAClustering(random_state=0)
    for x in X:
        one.learn_one(x)
    cut.partial_fit(X[:1111])
    annealed.save(cut, tmp_path / "cut.oda")
    cut = annealed.load(tmp_path / "cut.oda").partial_fit(X[1111:])
    assert one.alarms_.tolist() == cut.alarms_.tolist()
    assert one.n_alarms_ == 1 and 1500 < one.alarms_[0] <= 2000
    before = one.n_alarms_
    one.reheat().partial_fit(np.concatenate([X[1500:], X[1500:] + 30]))
    assert one.n_alarms_ > before
    assert one.alarms_[-1] > 2500 + 1000  # samples are counted on


def test_a_clustering_with_a_detector_has_a_score():
    X, _ = labelled(2000)
    model = ODAClustering(random_state=0, drift_detector="auto").partial_fit(X)
    assert model.running_score_.samples > 1500
    assert model.running_score_.recent == pytest.approx(model.score(X), rel=0.5)


def test_tables_pass_it_on(changing):
    X, y = changing
    model = TabularModel(ODAClassifier(random_state=0)).partial_fit(X, y)
    assert model.alarms_.tolist() == model.estimator_.alarms_.tolist()
    assert model.answering_ == model.estimator_.answering_
    assert model.running_score_ == model.estimator_.running_score_
    assert model.n_alarms_ == 1


def test_the_latest_alarms_are_kept():
    record = StreamRecord()
    for k in range(MOST_ALARMS + 5):
        record = record.with_alarm(k)
    assert record.n_alarms == MOST_ALARMS + 5
    assert record.alarms == tuple(range(5, MOST_ALARMS + 5))
    assert record.with_losses(50, 0, 0.0) == record._replace(heard=50)
