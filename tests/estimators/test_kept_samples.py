"""Streams of clusters that keep their newest samples: an answer early, kept, and in time."""

import io
import itertools
from copy import deepcopy

import numpy as np
import pytest
from predicates import same_model
from sklearn.metrics import adjusted_rand_score
from thoroughness import tries

import annealed
from annealed import ODAClustering
from annealed.divergences import get_divergence
from annealed.estimators.cluster_learner import ClusterLearner
from annealed.estimators.kept_samples import BLOCK, KeptSamples

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality


def blobs(n, centres, seed=0, shares=None):
    rng = np.random.default_rng(seed)
    centres = np.asarray(centres, dtype=float)
    y = rng.choice(len(centres), n, p=shares)
    return centres[y] + rng.normal(size=(n, centres.shape[1])), y


def corners(d=6, k=4, size=6.0):
    return size * np.eye(d)[:k]


def before_learning(model, X, block=50):
    """What the model says of every row before it learns it."""
    said = [model.partial_fit(X[:block]).predict(X[:block])]
    for k in range(block, len(X), block):
        said.append(model.predict(X[k : k + block]))
        model.partial_fit(X[k : k + block])
    return np.concatenate(said)


@pytest.fixture
def annealings(monkeypatch):
    """How many samples were kept whenever they were annealed."""
    counts, anneal = [], ClusterLearner._anneal_again

    def counted(self, kept, *rest):
        counts.append(kept.count)
        anneal(self, kept, *rest)

    monkeypatch.setattr(ClusterLearner, "_anneal_again", counted)
    return counts


# -- early, and kept -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"shape": "round"}, {"n_clusters": 4}, {"n_clusters": 4, "shape": "round"}]
)
def test_a_stream_answers_after_a_hundred_samples_and_keeps_its_answer(settings, annealings):
    X, y = blobs(tries(2500, 12_000), corners())
    said = before_learning(ODAClustering(random_state=0, **settings), X)
    for k in range(250, len(X), 250):
        assert adjusted_rand_score(y[k : k + 250], said[k : k + 250]) > 0.95
    assert adjusted_rand_score(y[250:], said[250:]) > 0.98  # numbers of clusters stay, too
    assert annealings == [125, 250, 500, 1000, 2000]  # and none of them without a reason


@pytest.mark.parametrize("n", [125, 1000])
def test_samples_that_are_kept_are_annealed_as_fit_would(n):
    X, _ = blobs(n, corners(k=3))
    stream = ODAClustering(random_state=0).partial_fit(X)
    fitted = ODAClustering(random_state=0).fit(X)
    assert stream.path_.n_codevectors.tolist() == fitted.path_.n_codevectors.tolist()
    np.testing.assert_array_equal(stream.path_[-1].codevectors, fitted.path_[-1].codevectors)
    assert adjusted_rand_score(stream.predict(X), fitted.predict(X)) == 1


def test_bent_clusters_are_found_early():
    from sklearn.datasets import make_moons

    X, y = make_moons(1000, noise=0.06, random_state=0)
    model = ODAClustering(random_state=0).partial_fit(X[:500])
    assert adjusted_rand_score(y[500:], model.predict(X[500:])) > 0.95


# -- cuts, files ---------------------------------------------------------------------------------


def test_any_cut_single_samples_and_files_give_the_same_bits():
    X, _ = blobs(3200, corners(), shares=[0.4, 0.3, 0.2, 0.1])
    X[1700:] += 3.0  # a change, so that samples are forgotten
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    weights[0] = 1.0  # a first row of no weight alone would be nothing to learn from
    blank = ODAClustering(random_state=0, recent_samples=600)
    whole = deepcopy(blank).partial_fit(X, sample_weight=weights)
    cut = deepcopy(blank)
    edges = [0, 1, 8, 124, 128, 400, 405, 1000, 1733, 2900]
    for begin, end in itertools.pairwise(edges):
        cut.partial_fit(X[begin:end], sample_weight=weights[begin:end])
        file = io.BytesIO()
        annealed.save(cut, file)
        file.seek(0)
        cut = annealed.load(file)
    for x, w in zip(X[edges[-1] :], weights[edges[-1] :], strict=True):
        cut.learn_one(x, w=w)
    assert same_model(whole, cut)
    files = [io.BytesIO(), io.BytesIO()]
    for model, file in zip((whole, cut), files, strict=True):
        annealed.save(model, file)
    assert files[0].getvalue() == files[1].getvalue()


def test_no_more_samples_are_held_than_asked_for_and_none_where_none_are():
    X, _ = blobs(3000, corners())
    sizes = []
    for recent_samples in (0, 500):
        model = ODAClustering(random_state=0, recent_samples=recent_samples).partial_fit(X)
        kept = model._learner.kept
        assert (0 if kept is None else len(kept.rows)) == recent_samples
        file = io.BytesIO()
        annealed.save(model, file)
        sizes.append(file.getvalue().count(X[-1].tobytes()))
    assert sizes[0] == 0 < sizes[1]  # the newest sample is in the file
    for settings in ({"n_clusters": None}, {"n_clusters": 600}, {"thresholds": "paper"}):
        assert ODAClustering(**settings).partial_fit(X[:10])._learner.kept is None


def test_as_few_as_could_never_be_compared_are_refused():
    with pytest.raises(ValueError, match="'recent_samples' parameter"):
        ODAClustering(recent_samples=100).partial_fit(np.zeros((1, 2)))


# -- streams that change -------------------------------------------------------------------------


def test_clusters_that_move_are_followed_without_being_told():
    n, start = 9000, np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X, y = blobs(n, start)
    X += 30 * np.linspace(0, 1, n)[:, None] * [1.0, 0.5]
    score = {
        kept: adjusted_rand_score(
            y[3000:], before_learning(ODAClustering(random_state=0, recent_samples=kept), X)[3000:]
        )
        for kept in (0, 2000)
    }
    assert score[0] < 0.7 < 0.97 < score[2000]


def test_a_cluster_that_appears_is_found_and_one_that_vanishes_dropped():
    n, kept = tries((1000, 500), (2500, 2000))
    centres = corners(k=5, size=8.0)
    parts = [
        blobs(n, centres, 0, [0.3, 0.3, 0.2, 0.2, 0]),
        blobs(n, centres, 1, [0.2, 0.2, 0.2, 0.2, 0.2]),
        blobs(n, centres, 2, [0, 0.25, 0.25, 0.25, 0.25]),
    ]
    model, found = ODAClustering(random_state=0, recent_samples=kept), []
    for X, _ in parts:
        model.partial_fit(X)
        found.append((model.n_clusters_, model.predict(centres)))
    assert [K for K, _ in found] == [4, 5, 4]
    np.testing.assert_array_equal(found[1][1][:4], found[0][1][:4])  # who stays keeps its number
    assert found[1][1][4] == 4
    gone = found[1][1][0]
    expected = np.where(found[1][1] == 4, gone, found[1][1])  # the last takes the number left free
    np.testing.assert_array_equal(found[2][1][1:], expected[1:])


def test_after_a_change_only_what_is_still_near_is_kept():
    X, _ = blobs(2000, corners(k=2, size=20.0))
    kept = KeptSamples.new(2000, 125, X.shape[1], seed=0)
    for k in range(0, 2000 - BLOCK, 125):
        kept.add(X[k : k + 125], None)
        kept.look_again()
    newest = blobs(BLOCK, corners(k=3, size=20.0)[1:], 1)[0]  # one is gone, one is new
    kept.add(newest[:125], None)
    kept.look_again()
    kept.add(newest[125:], None)
    kept.forget_what_is_gone(get_divergence("squared_euclidean"))
    rows, _ = kept.in_order()
    older = rows[:-BLOCK]
    np.testing.assert_array_equal(rows[-BLOCK:], newest)
    assert not (older[:, 0] > 10).any()
    assert (older[:, 1] > 10).sum() > 0.9 * (X[:-BLOCK, 1] > 10).sum()


def test_neighbours_in_time_that_are_alike_are_no_change(annealings):
    rng = np.random.default_rng(0)
    # Clusters come in turns of some tens of samples.
    y = np.repeat(rng.integers(0, 4, 800), rng.integers(10, 40, 800))[: tries(6000, 16_000)]
    X = corners()[y] + rng.normal(size=(len(y), 6))
    model = ODAClustering(random_state=0).partial_fit(X)
    assert model.n_clusters_ == 4 and annealings == [125, 250, 500, 1000, 2000]


def test_fit_first_then_a_stream_that_changes(annealings):
    X, y = blobs(3000, corners())
    model = ODAClustering(random_state=0).fit(X)
    assert model._learner.kept is None  # who never streams keeps none
    model.partial_fit(blobs(3000, corners(), 1)[0])
    assert not annealings
    model.partial_fit(X + 40.0)
    assert annealings and model.n_clusters_ == 4
    assert adjusted_rand_score(y, model.predict(X + 40.0)) > 0.95


# -- what else models can do ---------------------------------------------------------------------


def test_reheating_forgets_and_goes_on_answering():
    X, _ = blobs(1000, corners(k=3))
    model = ODAClustering(random_state=0).partial_fit(X)
    model.reheat()
    assert model.n_clusters_ == 3 and model._learner.kept.count == 0
    model.partial_fit(X[:300] @ np.roll(np.eye(6), 3, axis=1))
    assert model.n_clusters_ == 3
    centres = model.cluster_centers_
    assert (np.abs(centres[:, :3]) < 1).all() and (centres[:, 3:].max(axis=1) > 5).all()


def test_models_made_of_others_hold_no_samples():
    X, _ = blobs(500, corners(k=3))
    model = ODAClustering(random_state=0).partial_fit(X)
    other = ODAClustering(random_state=0).partial_fit(X[:, ::-1])
    merged = model.merge(other)
    assert merged._learner.kept is None and merged.n_clusters_ == 6
    assert model.at(n_clusters=2)._learner.kept is None


def test_samples_that_are_all_alike_wait_for_one_that_differs(annealings):
    model = ODAClustering(random_state=0, recent_samples=500).partial_fit(np.ones((3000, 2)))
    assert model.n_clusters_ == 1
    X, _ = blobs(5000, [[1, 1], [9, 9]])
    assert model.partial_fit(X).n_clusters_ == 2
    assert len(annealings) < 12


def test_the_number_that_is_kept_can_be_changed_on_the_way():
    X, y = blobs(2000, corners())
    model = ODAClustering(random_state=0).partial_fit(X[:1000])
    model.set_params(recent_samples=0).partial_fit(X[1000:1500])
    assert model._learner.kept is None and model.n_clusters_ == 4
    model.set_params(recent_samples=500).partial_fit(X[1500:])
    assert model._learner.kept.count == 500
    assert adjusted_rand_score(y, model.predict(X)) > 0.95


def test_a_stream_goes_on_where_it_becomes_too_quiet_for_its_coldest_temperature():
    rng = np.random.default_rng(0)
    loud = rng.normal(size=(3000, 2)) + 9 * rng.integers(0, 2, (3000, 1))
    model = ODAClustering(T_min=1.0, random_state=0).partial_fit(loud)
    assert model.n_clusters_ == 2
    model.partial_fit(0.01 * rng.normal(size=(20_000, 2)))
    assert model.n_clusters_ >= 1 and np.isfinite(model.codevectors_).all()
    with pytest.raises(ValueError, match="T_min"):
        ODAClustering(T_min=1.0, random_state=0).partial_fit(0.01 * loud)
