"""Two models of two streams into one."""

import pickle

import numpy as np
import pytest
from predicates import valid_model
from sklearn.metrics import adjusted_rand_score

from annealed import ODAClassifier, ODAClustering

pytestmark = pytest.mark.quality
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])


def stream(places, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    k = rng.choice(places, n)
    return CENTRES[k] + rng.normal(size=(n, 2)), k


def test_clusters_of_both_are_found_at_their_weights():
    X, k = stream([0, 1], 1500)
    Z, m = stream([2, 3], 500, seed=1)
    here = ODAClustering(4, random_state=0).partial_fit(X)
    there = ODAClustering(4, random_state=0).partial_fit(Z)
    before = [pickle.dumps(model) for model in (here, there)]
    joined = here.merge(there)
    assert [pickle.dumps(model) for model in (here, there)] == before
    assert valid_model(joined)
    distance = np.linalg.norm(joined.cluster_centers_[:, None] - CENTRES, axis=2)
    assert distance.min(axis=0).max() < 0.5
    shares = np.bincount(np.concatenate([k, m])) / 2000
    np.testing.assert_allclose(joined.weights_[distance.argmin(axis=0)], shares, atol=0.03)
    assert joined._learner.annealer.classes[0].total_weight == pytest.approx(2000)


def test_a_merged_classifier_knows_the_classes_of_both_and_goes_on():
    (X, y), (Z, z) = stream([0, 1, 2]), stream([1, 2, 3], seed=1)
    names = np.array(["a", "b", "c", "d"])
    here = ODAClassifier(random_state=0).partial_fit(X, names[y])
    there = ODAClassifier(random_state=0).partial_fit(Z, names[z])
    joined = here.merge(there)
    assert joined.classes_.tolist() == ["a", "b", "c", "d"]
    test, k = stream([0, 1, 2, 3], seed=2)
    # Neighbours lie eight standard deviations apart, so next to nothing is wrong.
    assert joined.score(test, names[k]) > 0.99
    assert joined.partial_fit(test, names[k]).score(test, names[k]) > 0.99
    joined.learn_one([0.0, 0.0], "a")


@pytest.mark.parametrize("n", [200, 3000])
def test_merged_classifiers_of_streams_are_as_good_as_one_of_both(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n + 1000, 2))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)  # four quarters: means tell nothing
    here = ODAClassifier(random_state=0).partial_fit(X[:n], y[:n])
    there = ODAClassifier(random_state=1).partial_fit(X[n : 2 * n], y[n : 2 * n])
    joined, test = here.merge(there), (X[2 * n :], y[2 * n :])
    assert joined.score(*test) > min(here.score(*test), there.score(*test)) - 0.01 > 0.88
    weights = [state.total_weight for state in joined._learner.annealer.classes]
    np.testing.assert_allclose(weights, np.bincount(y[: 2 * n])[joined._learner.labels])


@pytest.mark.parametrize("n", [200, 5000])
def test_merged_clusters_of_streams_are_no_more_than_there_are(n):
    rng = np.random.default_rng(0)
    centres = 6 * rng.normal(size=(6, 4))
    k = rng.integers(6, size=2 * n)
    X = centres[k] + rng.normal(size=(2 * n, 4))
    here, there = (ODAClustering(random_state=0).partial_fit(part) for part in np.split(X, 2))
    joined = here.merge(there)
    assert joined.n_clusters_ == 6 and adjusted_rand_score(k, joined.predict(X)) > 0.98
    assert joined._learner.annealer.classes[0].total_weight == pytest.approx(2 * n)


def test_several_are_merged_at_once():
    parts = [ODAClustering(4, random_state=0).fit(stream([k], 500, seed=k)[0]) for k in range(4)]
    joined = parts[0].merge(*parts[1:])
    distance = np.linalg.norm(joined.cluster_centers_[:, None] - CENTRES, axis=2)
    assert distance.min(axis=0).max() < 0.5
    np.testing.assert_allclose(joined.weights_, 0.25, atol=0.03)
    assert joined._learner.annealer.classes[0].total_weight == pytest.approx(2000)


def test_what_cannot_be_merged_is_refused():
    X, y = stream([0, 1], 200)
    with pytest.raises(ValueError, match="texts in one model and numbers in another: 0, 1 and '0'"):
        ODAClassifier().partial_fit(X, y).merge(ODAClassifier().partial_fit(X, y.astype(str)))
    model = ODAClustering(2, shape="round").fit(X)
    with pytest.raises(TypeError, match="ODAClassifier"):
        model.merge(ODAClassifier(K_max=4).fit(X, y))
    with pytest.raises(ValueError, match="2 and 1 features"):
        model.merge(ODAClustering(2, shape="round").fit(X[:, :1]))
    with pytest.raises(ValueError, match="divergences"):
        model.merge(ODAClustering(2, shape="round", divergence="i_divergence").fit(np.abs(X)))
    one, other = ODAClustering(2, shape="round"), ODAClustering(2, shape="round")
    for row in X.tolist():
        one.learn_one(dict(zip("ab", row, strict=True)))
        other.learn_one(dict(zip("ac", row, strict=True)))
    with pytest.raises(ValueError, match="'a', 'b' and 'a', 'c'"):
        one.merge(other)
