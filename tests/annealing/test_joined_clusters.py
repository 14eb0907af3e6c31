"""Clusters of any shape: borders in the density of a codebook, and what the estimator says."""

import numpy as np
import pytest
from predicates import valid_path
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from thoroughness import tries

import annealed
from annealed import ODAClustering
from annealed.annealing.borders import Cut, cuts, halved, loose, support_between
from annealed.annealing.joined_clusters import PlausibleNumbers, cells

ROWS = tries(500, 800)


def two_lines(gap, n=60):
    """Codevectors on two parallel lines."""
    x = np.linspace(0, 6, n // 2)
    return np.concatenate([np.c_[x, 0 * x], np.c_[x, 0 * x + gap]])


def test_a_border_is_seen_where_the_density_falls_and_samples_say_so():
    points, weights = two_lines(1.0), np.full(60, 1 / 60)
    apart = cuts(points, weights, 0.08, 1000.0)
    assert apart[0].support > 3
    np.testing.assert_array_equal(apart[0].clusters, np.repeat([0, 1], 30))
    assert cuts(points, weights, 0.08, 20.0)[0].support < 0  # a third of a sample for each
    assert cuts(two_lines(0.2), weights, 0.08, 1000.0)[0].support < 0  # no valley


def test_support_grows_with_the_samples_and_does_not_depend_on_the_unit():
    points, weights = two_lines(1.0), np.full(60, 1 / 60)
    support = [cuts(points, weights, 0.08, n)[0].support for n in (300.0, 1000.0, 3000.0)]
    assert support == sorted(support)
    scaled = cuts(7 * points + 3, weights, 49 * 0.08, 1000.0)[0].support
    assert scaled == pytest.approx(support[1], rel=1e-6)


def test_the_heavier_side_keeps_its_number():
    points = np.concatenate([two_lines(1.0), [[3.0, 9.0], [3.1, 9.0]]])
    weights = np.full(62, 1 / 62)
    first, second = cuts(points, weights, 0.08, 3000.0)[:2]
    changed = first.clusters != second.clusters
    assert set(second.clusters[changed]) == {2} and len(set(first.clusters[changed])) == 1


def test_halves_are_round_and_as_many_as_asked_for():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(50, 3)), np.full(50, 0.02)
    for K in (2, 5, 50):
        clusters = halved(points, weights, np.zeros(50, dtype=np.int64), K)
        np.testing.assert_array_equal(np.unique(clusters), np.arange(K))


def test_what_lies_far_from_its_cluster_is_loose():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(100, 2)), [[30.0, 0.0], [0.0, 30.0]]])
    apart = loose(points, np.full(102, 1 / 102), 0.2, 102.0, 10)
    assert apart[100:].all() and apart[:100].mean() < 0.2


@pytest.mark.parametrize(
    ("make", "K"),
    [
        (lambda seed: make_moons(ROWS, noise=0.05, random_state=seed), 2),
        (lambda seed: make_circles(800, noise=0.05, factor=0.5, random_state=seed), 2),
        (
            lambda seed: make_blobs(
                ROWS,
                centers=[[0, 0], [7, 0], [3, 6]],
                cluster_std=[1, 2.2, 0.5],
                random_state=seed,
            ),
            3,
        ),
    ],
    ids=["moons", "circles", "spreads"],
)
def test_clusters_are_found_whatever_their_shape_and_spread(make, K):
    agreement = []
    for seed in range(1, 1 + tries(2, 10)):
        X, y = make(seed)
        agreement.append(adjusted_rand_score(y, ODAClustering(random_state=seed).fit(X).labels_))
    assert np.median(agreement) > 0.9
    given = ODAClustering(K, random_state=0).fit(X)
    assert given.n_clusters_ == K and adjusted_rand_score(y, given.labels_) > 0.9


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0])
def test_unequal_weights_make_no_clusters(sigma):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(600, 3)), rng.lognormal(sigma=sigma, size=600)
    assert ODAClustering(random_state=0).fit(X, sample_weight=weights).n_clusters_ == 1
    X[:200] += 12.0
    X[200:400] -= 12.0
    found = ODAClustering(random_state=0).fit(X, sample_weight=weights).n_clusters_
    assert found == 3 or sigma > 2  # there a row or two outweigh all others


def test_where_no_cluster_is_large_enough_all_are_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(340, 2)) + 9 * np.repeat(
        [[0, 0], [1, 0], [0, 1], [1, 1]], (100,) * 3 + (40,), 0
    )
    for size, sizes in ((30, [100, 100, 100, 40]), (50, [100, 100, 100]), (150, [340])):
        labels = ODAClustering(min_cluster_size=size, random_state=0).fit(X).labels_
        assert sorted(np.bincount(labels[labels >= 0]), reverse=True) == sizes


def in_threes(radius, rng):
    """Nine groups in threes, so far apart, with a standard deviation of one."""
    group = np.repeat(np.arange(9), 120)

    def around(k):
        return np.c_[np.cos(2 * np.pi * k / 3), np.sin(2 * np.pi * k / 3)]

    centres = around(group // 3) * radius + around(group % 3) * 5
    return centres + rng.normal(size=(len(group), 2)), group


@pytest.mark.parametrize("radius", [40, 100, 400, 5000])
def test_groups_within_groups_far_apart_are_found(radius):
    X, y = in_threes(radius, np.random.default_rng(0))
    model = ODAClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 9 and adjusted_rand_score(y, model.labels_) > 0.98
    assert valid_path(model.path_)


def test_one_row_far_out_does_not_hide_the_groups():
    X, y = make_blobs(900, centers=3, n_features=4, cluster_std=1, random_state=1)
    X[0] = 1e4
    model = ODAClustering(random_state=0).fit(X)
    assert adjusted_rand_score(y[1:], model.labels_[1:]) > 0.98


def test_more_than_a_hundred_groups_of_the_plane_are_found():
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2)
    X, y = make_blobs(40 * 144, centers=9.0 * grid, cluster_std=1, random_state=0)
    model = ODAClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 144 and adjusted_rand_score(y, model.labels_) > 0.98


def test_iris_has_two_or_three():
    X = load_iris().data
    found = [ODAClustering(random_state=seed).fit(X).n_clusters_ for seed in range(tries(2, 5))]
    assert set(found) <= {2, 3}


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=(ROWS, 2)),
        lambda rng: rng.normal(size=(ROWS, 16)),
        lambda rng: rng.uniform(size=(ROWS, 2)),
        lambda rng: rng.laplace(size=(ROWS, 2)),
    ],
    ids=["plane", "16-D", "square", "laplace"],
)
def test_data_without_structure_has_no_border(draw):
    found = []
    for seed in range(tries(2, 20)):
        X = draw(np.random.default_rng(seed))
        model = ODAClustering(random_state=seed).fit(X)
        found.append(model.n_clusters_)
    assert np.mean([K > 1 for K in found]) <= 0.34


def test_far_points_do_not_decide():
    rng = np.random.default_rng(0)
    X, y = make_blobs(1000, centers=5, n_features=3, random_state=1)
    far = X.mean(axis=0) + 20 * X.std() * rng.uniform(-1, 1, size=(10, 3))
    for n_clusters in ("auto", 5):
        model = ODAClustering(n_clusters, random_state=0).fit(np.concatenate([X, far]))
        assert model.n_clusters_ == 5
        assert adjusted_rand_score(y, model.labels_[:1000]) > 0.95


@pytest.fixture(scope="module")
def moons():
    X, _ = make_moons(800, noise=0.05, random_state=1)
    return X, ODAClustering(random_state=0).fit(X)


def test_probabilities_are_sums_over_a_clusters_codevectors(moons):
    X, model = moons
    clusters = model.codevector_clusters_
    assert len(clusters) == len(model.codevectors_) > model.n_clusters_ == 2
    proba = model.predict_proba(X)
    assert proba.shape == (800, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    single = model.at(n_codevectors=len(model.path_[-1].codevectors)).predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], single[:, clusters == 1].sum(axis=1), atol=1e-12)


def test_centres_and_distances_of_joined_clusters(moons):
    X, model = moons
    own = model.codevector_clusters_ == 0
    mean = np.average(model.codevectors_[own], axis=0, weights=model.weights_[own])
    np.testing.assert_allclose(model.cluster_centers_[0], mean)
    distance = ((X[:5, None] - model.codevectors_[own]) ** 2).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(model.transform(X[:5])[:, 0], distance)


def test_any_number_of_clusters_without_refitting(moons):
    X, model = moons
    before = model.at(n_clusters=2).predict(X)
    for K in (3, 4, 7):
        now = model.at(n_clusters=K).predict(X)
        assert len(np.unique(now)) == K
        kept = now < before.max() + 1  # whoever is in no new cluster keeps its number
        np.testing.assert_array_equal(now[kept], before[kept])
        before = now
    assert model.at(n_clusters=1).n_clusters_ == 1
    with pytest.raises(ValueError, match="n_clusters"):
        model.at(n_clusters=0)
    with pytest.raises(ValueError, match="no model with 5000 clusters"):
        model.at(n_clusters=5000)
    with pytest.raises(ValueError, match="one of"):
        model.at(n_clusters=2, n_codevectors=3)


def test_plausible_numbers_begin_with_the_answer(moons):
    _, model = moons
    found = model.plausible_n_clusters_
    assert found.best == model.n_clusters_ == 2
    assert found.margin == model.n_clusters_margin_ > 0 > found.support[1:].max()
    assert "2:" in repr(found)
    assert (
        ODAClustering(shape="round", random_state=0)
        .fit(make_blobs(500, centers=4, cluster_std=0.4, random_state=0)[0])
        .plausible_n_clusters_.best
        == 4
    )


def test_support_of_a_number_is_that_of_its_weakest_part():
    cuts = [Cut(5.0, np.array([0, 0, 0, 1])), Cut(2.0, np.array([0, 0, 2, 1]))]
    found = PlausibleNumbers.by_borders([*cuts, Cut(-1.0, np.array([0, 3, 2, 1, 0]))])
    assert found.n_clusters.tolist() == [3, 2, 1]
    assert found.support.tolist() == [1.0, -2.0, -5.0]
    # Nothing is left to divide: the last number is as sure as its borders.
    found = PlausibleNumbers.by_borders([*cuts, Cut(1.0, np.array([0, 3, 2, 1]))])
    assert found.n_clusters.tolist() == [4, 3, 2, 1]
    assert found.support.tolist() == [1.0, -1.0, -2.0, -5.0]


def test_small_groups_and_far_points_are_no_clusters():
    rng = np.random.default_rng(0)
    X, _ = make_blobs(
        [300, 300, 12], centers=[[0, 0], [10, 0], [5, 9]], shuffle=False, random_state=0
    )
    X = np.concatenate([X, [[40.0, 40.0], [-40.0, 3.0]], rng.normal(size=(1, 2))])
    assert set(ODAClustering(random_state=0).fit(X).labels_) == {0, 1, 2}
    model = ODAClustering(min_cluster_size=30, random_state=0).fit(X)
    assert model.n_clusters_ == 2 and set(model.labels_) == {-1, 0, 1}
    assert (model.labels_[600:614] == -1).all()
    assert (model.labels_[:600] >= 0).mean() > 0.8
    assert model.predict_one(X[612]) == -1 and model.predict_proba(X).shape == (615, 2)
    with pytest.raises(ValueError, match="min_cluster_size"):
        ODAClustering(min_cluster_size=1).fit(X)


def bent_line(n, seed):
    """One cluster, an S."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.5 * np.pi, 1.5 * np.pi, n)
    return np.c_[np.sin(t), np.sign(t) * (np.cos(t) - 1)] + 0.1 * rng.normal(size=(n, 2))


@pytest.mark.parametrize("n", [8000, 30_000])
@pytest.mark.parametrize(
    "make, K",
    [
        (lambda n, seed: make_moons(n, noise=0.05, random_state=seed)[0], 2),
        (lambda n, seed: make_circles(n, noise=0.05, factor=0.5, random_state=seed)[0], 2),
        (bent_line, 1),
    ],
)
def test_more_rows_do_not_make_more_clusters_of_thin_ones(make, K, n):
    """How codevectors happen to lie along them is no border, and no number that persists."""
    seeds = range(tries(3, 10))
    found = [ODAClustering(random_state=seed).fit(make(n, seed)).n_clusters_ for seed in seeds]
    assert sum(k == K for k in found) >= 0.6 * len(found), found  # nine of ten, mostly; once none


def test_the_places_of_codevectors_are_chance_too():
    """A row of them, some closer together than others, is one cluster however many samples."""
    rng = np.random.default_rng(0)
    points = np.c_[np.cumsum(rng.uniform(0.6, 1.4, 200)), np.zeros(200)]
    weights = np.full(200, 1 / 200)
    for samples in (1e3, 1e5, 1e7):
        assert cuts(points, weights, 2.0, samples)[0].support <= 0
    apart = points + np.where(np.arange(200) < 100, 0.0, 6.0)[:, None] * [1, 0]
    support = [cuts(apart, weights, 2.0, samples)[0].support for samples in (1e3, 1e4, 1e5)]
    assert 0 < support[0] < support[1] < support[2]  # an empty border is no matter of places


def test_a_stream_joins_what_it_has_learnt(tmp_path):
    X, y = make_moons(120_000, noise=0.05, random_state=0)
    model = ODAClustering(random_state=0)
    for rows in np.split(X, 12):
        model.partial_fit(rows)
    assert model.n_clusters_ == 2 and adjusted_rand_score(y[:999], model.predict(X[:999])) > 0.99
    x = dict(enumerate(X[5]))
    model.learn_one(x)
    np.testing.assert_allclose(
        list(model.predict_proba_one(x).values()), model.predict_proba(X[5:6])[0], atol=1e-9
    )
    annealed.save(model, tmp_path / "moons.oda")
    again = annealed.load(tmp_path / "moons.oda")
    np.testing.assert_array_equal(again.predict_proba(X[:99]), model.predict_proba(X[:99]))
    np.testing.assert_array_equal(again.codevector_clusters_, model.codevector_clusters_)
    assert again.n_clusters_margin_ == model.n_clusters_margin_
    np.testing.assert_array_equal(
        again.partial_fit(X[:500]).codevectors_, model.partial_fit(X[:500]).codevectors_
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_a_given_number_without_sure_borders_is_met_by_so_many_codevectors(seed):
    # Twenty Gaussians that overlap: no borders, or with seed 2 those that chance draws, along which
    # the distortion was 1.02 of k-means'. Cells are as good as those of k-means.
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=0.8, size=(20, 16))
    y = rng.choice(20, size=6000, p=np.full(20, 0.05))
    X = centres[y] + rng.normal(size=(6000, 16))
    model = ODAClustering(20, random_state=seed).fit(X)
    assert len(model.codevectors_) == model.n_clusters_ == 20
    assert model.path_[-1].n_codevectors == 20
    k_means = KMeans(20, n_init=3, random_state=0).fit(X)
    distortion = -model.score(X) * len(X)
    assert distortion < 1.01 * k_means.inertia_
    assert valid_path(model.path_)


def test_codevectors_that_cannot_be_placed_are_not_grown_to_be_joined():
    # Thirty Gaussians in 128 dimensions, 100 rows each: of sixty codevectors none would be known
    # well enough to tell a density, so the path ends with thirty.
    rng = np.random.default_rng(0)
    y = rng.integers(30, size=3000)
    X = rng.normal(scale=0.6, size=(30, 128))[y] + rng.normal(size=(3000, 128))
    model = ODAClustering(30, random_state=0).fit(X)
    assert model.path_.n_codevectors.max() < 100  # what it takes to join
    assert adjusted_rand_score(y, model.labels_) > 0.99


def test_few_rows_that_touch_are_told_by_what_persists():
    # 178 wines: one border that chance might draw, but three groups that last (18 of 20 seeds by
    # that alone). The density does not contradict them, as it does the round parts of a ring.
    wine = load_wine()
    X = StandardScaler().fit_transform(wine.data)
    for seed in range(3):
        model = ODAClustering(random_state=seed).fit(X)
        assert model.n_clusters_ == 3
        assert adjusted_rand_score(wine.target, model.labels_) > 0.85


def test_parts_of_a_ring_are_contradicted_by_the_density():
    X, _ = make_circles(800, noise=0.05, factor=0.5, random_state=0)
    model = ODAClustering(shape="round", n_clusters=None, random_state=0).fit(X)
    level, few = model.path_[-1], model.path_.codebook(6)
    own = cells(level, few, model._fitted_divergence)
    mean = X.mean(axis=0)
    inner = (((level.codevectors - mean) ** 2).sum(axis=1) < 0.75**2).astype(np.int64)
    against = support_between(level, model._fitted_divergence, mean, 800.0, own)
    in_favour = support_between(level, model._fitted_divergence, mean, 800.0, inner)
    assert against < -2 < 0 < in_favour
