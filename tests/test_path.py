"""The annealing path: its levels, its tree, and a model for every K."""

from __future__ import annotations

from itertools import cycle, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicates import same_path, valid_energies, valid_model, valid_path
from sklearn.datasets import load_digits, load_iris
from thoroughness import crossed, examples, tries

from annealed import AnnealingPath, ODAClassifier, ODAClustering

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality

SPLITS = pytest.mark.parametrize("split", ["variance", "perturb"])


@st.composite
def small_data(draw, positive=False):
    """A few dozen rows: Gaussian clouds, lattices with repeated rows, heavy tails, lines."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 80)), draw(st.integers(1, 5))
    shape = draw(st.sampled_from(["gaussian", "clouds", "lattice", "heavy", "line"]))
    X = rng.normal(size=(n, d))
    if shape == "clouds":
        X += rng.normal(scale=10, size=(4, d))[rng.integers(0, 4, n)]
    elif shape == "lattice":
        X = rng.integers(0, 3, (n, d)).astype(float)
    elif shape == "heavy":
        X = rng.standard_t(1.5, size=(n, d))
    elif shape == "line":
        X = np.outer(rng.normal(size=n), rng.normal(size=d))
    X[0] = X.max() + 1.0  # never all rows identical
    X = np.abs(X) + 0.01 if positive else X * draw(st.sampled_from([1.0, 1e-3, 1e4]))
    return X


# -- invariants -----------------------------------------------------------------------------------


@given(X=small_data(), split=st.sampled_from(["variance", "perturb"]), seed=st.integers(0, 100))
def test_path_of_any_clustering_is_valid(X, split, seed):
    est = ODAClustering(
        None, split=split, random_state=seed, K_max=15, gamma=0.8, samples_per_codevector=20
    ).fit(X)
    assert valid_model(est)
    assert est.path_.n_codevectors.max() <= 15


@given(
    X=small_data(positive=True),
    divergence=st.sampled_from(["i_divergence", "itakura_saito", "logistic", "kullback_leibler"]),
    split=st.sampled_from(["variance", "perturb"]),
)
def test_path_of_any_divergence_is_valid(X, divergence, split):
    if divergence == "logistic":
        X = X / X.max()
    if divergence == "kullback_leibler":
        X = np.column_stack([X, np.ones(len(X))])
        X = X / X.sum(axis=1, keepdims=True)
    est = ODAClustering(
        None, divergence=divergence, split=split, random_state=0, K_max=12, gamma=0.8,
        samples_per_codevector=20,
    ).fit(X)  # fmt: skip
    assert valid_model(est)
    low, high = est.codevectors_.min(), est.codevectors_.max()
    assert low > 0 and (divergence != "logistic" or high < 1)


@given(
    X=small_data(),
    n_classes=st.integers(1, 4),
    split=st.sampled_from(["variance", "perturb"]),
    seed=st.integers(0, 100),
)
@examples(10)
def test_path_of_any_classifier_is_valid(X, n_classes, split, seed):
    y = np.arange(len(X)) % min(n_classes, len(X))
    est = ODAClassifier(split=split, random_state=seed, K_max=20).fit(X, y)
    assert np.bincount(est.codevector_voters_).max() <= 20
    assert set(est.codevector_labels_.tolist()) == set(y.tolist())
    if len(est.path_):  # empty when every class is a single point
        assert valid_path(est.path_, len(set(y.tolist())))


@given(X=small_data(), cuts=st.lists(st.integers(1, 400), max_size=5), repeat=st.integers(5, 12))
def test_path_of_any_stream_is_valid_at_any_time(X, cuts, repeat):
    est = ODAClustering(None, random_state=0, K_max=10, gamma=0.7, samples_per_codevector=10)
    for chunk in np.split(np.tile(X, (repeat, 1)), sorted(cuts)):
        if len(chunk):
            est.partial_fit(chunk)
            assert valid_model(est)


@SPLITS
def test_path_of_real_data_is_valid(split):
    X, y = load_iris(return_X_y=True)
    assert valid_model(ODAClustering(None, split=split, random_state=0).fit(X))
    assert valid_model(ODAClassifier(split=split, random_state=0).fit(X, y))


def test_temperatures_fall_by_gamma():
    X = np.random.default_rng(0).normal(size=(200, 2))
    path = ODAClustering(None, gamma=0.7, random_state=0, K_max=20).fit(X).path_
    np.testing.assert_allclose(path.temperatures[1:] / path.temperatures[:-1], 0.7)


def test_path_lies_between_the_temperatures_asked_for():
    X = np.random.default_rng(0).normal(size=(200, 2))
    path = ODAClustering(None, T_max=50.0, T_min=1.0, random_state=0).fit(X).path_
    assert path[0].temperature == 50.0
    assert path[-1].temperature >= 1.0
    assert path[-1].temperature * 0.9 < 1.0


def test_above_T_max_there_is_one_codevector_at_the_mean():
    X = np.random.default_rng(0).normal(3.0, 1.0, size=(2000, 2))
    first = (
        ODAClustering(None, random_state=0, samples_per_codevector=20_000, K_max=2).fit(X).path_[0]
    )
    assert first.n_codevectors == 1
    np.testing.assert_allclose(first.codevectors[0], X.mean(axis=0), atol=0.05)
    assert first.temperature > 2 * np.linalg.eigvalsh(np.cov(X.T))[-1]


# -- every K --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("K", "split"),
    tries(
        list(zip([1, 2, 3, 4, 5, 7, 10, 14, 19, 24, 30], cycle(["variance", "perturb"]))),
        list(product(range(1, 31), ["variance", "perturb"])),
    ),
)
def test_integer_gives_exactly_that_many_clusters(K, split):
    X = np.random.default_rng(K).uniform(size=(300, 2))
    est = ODAClustering(K, split=split, random_state=K).fit(X)
    assert est.n_clusters_ == K
    assert len(np.unique(est.cluster_centers_, axis=0)) == K


@pytest.mark.parametrize(("K", "split"), crossed([2, 3, 7, 10, 25], ["variance", "perturb"]))
def test_integer_gives_exactly_that_many_clusters_of_digits(K, split):
    X = load_digits().data[:500]
    assert ODAClustering(K, split=split, random_state=0).fit(X).n_clusters_ == K


@given(
    X=small_data(),
    fraction=st.floats(0, 1),
    split=st.sampled_from(["variance", "perturb"]),
    polish=st.booleans(),
)
@examples(60)
def test_integer_gives_exactly_that_many_clusters_of_any_data(X, fraction, split, polish):
    distinct = len(np.unique(X, axis=0))
    K = 1 + int(fraction * (min(distinct, 30) - 1))
    est = ODAClustering(
        K, split=split, polish=polish, random_state=0, gamma=0.8, samples_per_codevector=20
    ).fit(X)
    assert est.n_clusters_ == K


@SPLITS
@pytest.mark.parametrize("kept, samples", [(0, 60_000), (500, 1000)])
def test_integer_gives_exactly_that_many_clusters_in_a_stream(split, kept, samples):
    X = np.random.default_rng(0).uniform(size=(samples, 2))
    est = ODAClustering(7, split=split, recent_samples=kept, random_state=0).partial_fit(X)
    assert est.n_clusters_ == 7
    est.partial_fit(X + 0.5)
    assert est.n_clusters_ == 7


@SPLITS
def test_every_K_has_a_model_on_the_path(split):
    X = np.random.default_rng(0).normal(size=(400, 3))
    path = ODAClustering(None, split=split, random_state=0, K_max=40).fit(X).path_
    coldest = path[-1].n_codevectors
    assert coldest > 20
    for K in range(1, coldest + 1):
        level = path.codebook(K)
        assert level.n_codevectors == K
        np.testing.assert_allclose(level.weights.sum(), 1.0)
        assert len(np.unique(level.codevectors, axis=0)) == K


def test_models_of_growing_K_cut_from_one_level_differ_by_one_bifurcation():
    X = np.random.default_rng(0).normal(size=(400, 2))
    path = ODAClustering(None, random_state=0, K_max=60).fit(X).path_
    compared = 0
    for K in range(2, path[-1].n_codevectors + 1):
        fewer, more = path.codebook(K - 1), path.codebook(K)
        if fewer.temperature == more.temperature:
            distance = np.abs(fewer.codevectors[:, None] - more.codevectors).max(axis=2)
            assert (distance.min(axis=1) < 1e-12).sum() == K - 2
            compared += 1
    assert compared > 5


def persistent_paths(split):
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[np.repeat([0, 1, 2], 80)]
    X = X + rng.normal(size=X.shape)
    return [
        ODAClustering(None, split=split, random_state=seed, K_max=12).fit(X).path_
        for seed in range(6)
    ]


@SPLITS
def test_model_of_a_K_that_comes_back_is_the_coldest_one(split):
    """K may go 3, 4, 3 when a split is taken back; the model with 3 is the last of them."""
    for path in persistent_paths(split):
        coldest = [level for level in path if level.n_codevectors == 3][-1]
        assert path.codebook(3).temperature == coldest.temperature


def test_a_K_that_is_not_on_the_path_is_refused():
    X = np.random.default_rng(0).normal(size=(200, 2))
    path = ODAClustering(None, random_state=0, K_max=10).fit(X).path_
    coldest = path[-1].n_codevectors
    for K in (0, -1, coldest + 1):
        with pytest.raises(ValueError, match=f"1 to {coldest}"):
            path.codebook(K)


def test_at_temperature_takes_the_coldest_level_not_below():
    X = np.random.default_rng(0).normal(size=(200, 2))
    path = ODAClustering(None, random_state=0, K_max=10).fit(X).path_
    for level in path:
        assert path.at_temperature(level.temperature) is level
        assert path.at_temperature(level.temperature * 0.99) is level
    assert path.at_temperature(1e9) is path[0]
    assert path.at_temperature(1e-9) is path[-1]
    for T in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="temperature"):
            path.at_temperature(T)


# -- energies -------------------------------------------------------------------------------------


@SPLITS
def test_free_energy_is_distortion_less_temperature_times_entropy(split):
    X = np.random.default_rng(0).normal(size=(300, 2))
    for level in ODAClustering(None, split=split, random_state=0, K_max=15).fit(X).path_:
        assert level.free_energy == level.distortion - level.temperature * level.entropy


@given(X=small_data(), split=st.sampled_from(["variance", "perturb"]), seed=st.integers(0, 100))
@examples(15)
def test_entropy_of_a_level_is_at_most_log_K(X, split, seed):
    est = ODAClustering(
        None, split=split, random_state=seed, K_max=10, gamma=0.8, samples_per_codevector=20
    ).fit(X)
    assert valid_energies(est.path_)


def test_energies_are_known_while_a_class_warms_up():
    X = np.random.default_rng(0).normal(size=(300, 2))
    est = ODAClassifier(random_state=0).partial_fit(X, np.arange(300) % 10 == 0)
    assert len(est.path_) > 0
    assert valid_energies(est.path_)


@SPLITS
def test_distortion_and_entropy_of_a_level_are_those_of_its_model(split):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    est = ODAClustering(
        None, split=split, random_state=0, K_max=12, samples_per_codevector=3000
    ).fit(X)
    for level in est.path_:
        d = ((X[:, None] - level.codevectors) ** 2).sum(axis=2)
        log_p = np.log(level.weights) - d / level.temperature
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(level.distortion, (p * d).sum(axis=1).mean(), rtol=0.1)
        entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1).mean()
        # Near a split the codevectors still move while the level is measured.
        np.testing.assert_allclose(level.entropy, entropy, rtol=0.25, atol=0.02)


def test_distortion_falls_down_the_path():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    path = ODAClustering(None, random_state=0, K_max=30, samples_per_codevector=2000).fit(X).path_
    D = np.array([level.distortion for level in path])
    assert (D[1:] < D[:-1] * 1.15).all()  # D of a level is a mean of 1000 K samples: 3 % at K = 1
    assert D[-1] < 0.5 * D[0]


def test_score_of_a_level_is_minus_distortion_in_clustering_and_accuracy_in_classification(blobs):
    X, y = blobs
    for level in ODAClustering(None, random_state=0, K_max=10).fit(X).path_:
        assert level.score == -level.distortion
    scores = [level.score for level in ODAClassifier(random_state=0).fit(X, y).path_]
    assert all(0 <= score <= 1 for score in scores)
    assert scores[-1] > 0.98


# -- lineage --------------------------------------------------------------------------------------


def test_a_split_that_is_taken_back_leaves_a_codevector_with_a_parent():
    """When two siblings join again, the one they become comes from the heavier of them."""
    taken_back = 0
    for seed in range(8):
        X = np.random.default_rng(seed).uniform(size=(300, 2))
        path = ODAClustering(16, random_state=seed).fit(X).path_
        taken_back += len(path.events) - len(path.splits)
        for level in path[1:]:
            assert (level.parents >= 0).all()
    assert taken_back > 0


def test_a_codevector_that_did_not_split_keeps_its_node(blobs):
    path = ODAClustering(None, random_state=0, K_max=12).fit(blobs[0]).path_
    children = {child for split in path.events for child in split.children}
    for before, level in pairwise(path):
        for node, parent in zip(level.nodes.tolist(), level.parents.tolist(), strict=True):
            assert node == before.nodes[parent] or node in children


@SPLITS
def test_splits_separate_the_blobs_before_anything_else(split, blobs):
    path = ODAClustering(None, split=split, random_state=0, K_max=12).fit(blobs[0]).path_
    three = path.codebook(3).codevectors
    true = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    nearest = ((true[:, None] - three) ** 2).sum(axis=2).min(axis=1)
    assert nearest.max() < 0.5
    critical = [T for _, T in path.ordered_splits]
    assert critical[1] > 5 * critical[2], "no gap between the blobs and what is inside them"


def test_the_same_seed_gives_the_same_path_and_another_seed_another(blobs):
    one, two, other = (
        ODAClustering(None, random_state=seed, K_max=20).fit(blobs[0]).path_ for seed in (1, 1, 2)
    )
    assert same_path(one, two)
    assert not np.array_equal(one[0].codevectors, other[0].codevectors)


def test_persistence_has_one_stretch_for_every_K(blobs):
    path = ODAClustering(None, random_state=0, K_max=20).fit(blobs[0]).path_
    stretch = path.persistence()
    assert stretch.shape == (path[-1].n_codevectors,)
    assert (stretch >= 0).all()
    assert stretch.argmax() + 1 == 3


# -- as a sequence and as a table -----------------------------------------------------------------


def test_path_is_a_sequence_of_levels(blobs):
    path = ODAClustering(None, random_state=0, K_max=10).fit(blobs[0]).path_
    assert isinstance(path, AnnealingPath)
    assert list(path) == list(path.levels)
    assert path[-1] is path[len(path) - 1]
    assert [level.n_codevectors for level in path[2:5]] == path.n_codevectors[2:5].tolist()
    assert f"{len(path)} levels" in repr(path)
    with pytest.raises(IndexError):
        path[len(path)]


def test_to_frame_has_one_row_per_level(blobs):
    path = ODAClustering(None, random_state=0, K_max=10).fit(blobs[0]).path_
    frame = path.to_frame()
    assert len(frame) == len(path)
    np.testing.assert_array_equal(frame["temperature"], path.temperatures)
    np.testing.assert_array_equal(frame["n_codevectors"], path.n_codevectors)
    for column in ("samples", "distortion", "entropy", "free_energy", "score"):
        np.testing.assert_array_equal(frame[column], [getattr(level, column) for level in path])


def test_path_is_empty_while_a_stream_warms_up():
    est = ODAClustering(None).partial_fit(np.random.default_rng(0).normal(size=(10, 2)))
    assert len(est.path_) == 0
    assert len(est.path_.to_frame()) == 0
    assert est.path_.splits == ()
    assert "no level" in repr(est.path_)
    assert len(est.path_.persistence()) == 0
    with pytest.raises(ValueError, match="no "):
        est.path_.codebook(1)


def test_path_before_is_kept_when_the_stream_goes_on():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    est = ODAClustering(None, random_state=0, K_max=5).partial_fit(X[:2000])
    early = est.path_
    est.partial_fit(X[2000:])
    assert len(est.path_) >= len(early) > 0
    for before, after in zip(early, est.path_, strict=False):
        np.testing.assert_array_equal(before.codevectors, after.codevectors)
