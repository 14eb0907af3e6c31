"""The physics and the quality: critical temperatures, numbers of clusters, accuracies.

Ranges, not values: each states what it follows from. Nothing is tuned to a data set.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from thoroughness import tries

from annealed import ODAClassifier, ODAClustering, paper_settings

# These test the algorithm, not the libraries under it: left out with the oldest releases.
pytestmark = pytest.mark.quality

# Rows of one cluster or none.
ROWS = tries(1200, 3000)
AS_ANNEALED = {"level": "last", "fine_tune": None}


def eight_gaussians(seed):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-6, 6, size=(8, 16))
    return centres[rng.integers(8, size=4000)] + rng.normal(size=(4000, 16))


def planar_grid(seed, spacing=8.0):
    rng = np.random.default_rng(seed)
    grid = np.array([(i, j) for i in range(5) for j in range(3)], dtype=float)
    centres = (grid + rng.uniform(-0.15, 0.15, size=grid.shape)) * spacing
    return centres[rng.integers(15, size=5000)] + rng.normal(size=(5000, 2))


def gaussian(d):
    return lambda seed: np.random.default_rng(seed).normal(size=(ROWS, d))


def square(seed):
    return np.random.default_rng(seed).uniform(size=(ROWS, 2))


def test_above_T_max_there_is_one_codevector_at_the_mean():
    X = make_blobs(2000, centers=6, random_state=0)[0]
    T = 2.5 * X.var(axis=0).sum()  # the automatic T_max
    model = ODAClustering(None, T_max=100 * T, T_min=1.01 * T, random_state=0).fit(X)
    assert set(model.path_.n_codevectors) == {1}
    # One pass of steps 1/(1 + 0.9 n) over 100 samples: a mean with the error of about 100.
    np.testing.assert_allclose(model.codevectors_[0], X.mean(axis=0), atol=4 * X.std() / 10)


@pytest.mark.parametrize("split", ["variance", "perturb"])
@pytest.mark.parametrize("d", [2, 16])
def test_the_first_split_happens_at_the_critical_temperature(d, split):
    """T_c = 2 lambda_max (Rose 1998); gamma = 0.95 and one standard error delay it a little."""
    deviation = np.linspace(1, 2, d)
    deviation[-1] = 3
    T_c = 2 * 9.0
    first, reported = [], []
    for seed in range(tries(7, 20)):
        X = np.random.default_rng(seed).normal(size=(60000, d)) * deviation
        model = ODAClustering(
            None, split=split, gamma=0.95, samples_per_codevector=400, T_min=0.6 * T_c, K_max=8
        )
        path = model.partial_fit(X).path_
        first.append(path[int(np.argmax(path.n_codevectors > 1))].temperature / T_c)
        reported.append(path.events[0].critical_temperature / T_c)
    assert 0.8 <= np.median(first) <= 1.05
    assert 0.9 <= np.median(reported) <= 1.1


def test_the_critical_temperature_of_other_divergences():
    """lambda_max(H(m) C): for the I-divergence of Poisson counts, variance/mean = 1 per feature."""
    X = np.random.default_rng(0).poisson([4.0, 9.0, 30.0], size=(30000, 3)).astype(float)
    model = ODAClustering(
        None, divergence="i_divergence", gamma=0.95, samples_per_codevector=400, T_min=0.5
    )
    path = model.partial_fit(X).path_
    assert path.events[0].critical_temperature == pytest.approx(1.0, rel=0.15)


@pytest.mark.parametrize(
    ("make", "K"),
    [
        pytest.param(eight_gaussians, 8, id="eight_gaussians"),
        pytest.param(planar_grid, 15, id="planar_grid"),
        pytest.param(gaussian(5), 1, id="gaussian_5"),
        # Every day test_joined_clusters.py has these.
        *tries(
            [],
            [
                pytest.param(gaussian(2), 1, id="gaussian_2"),
                pytest.param(gaussian(16), 1, id="gaussian_16"),
                pytest.param(square, 1, id="square"),
            ],
        ),
    ],
)
def test_the_number_of_clusters_is_found(make, K):
    """Mostly, data and model reseeded (`python -m benchmarks shapes` has more)."""
    seeds, most = tries((3, 2), (10, 8))
    found = [ODAClustering(random_state=seed).fit(make(seed)).n_clusters_ for seed in range(seeds)]
    assert sum(k == K for k in found) >= most, found


def test_how_sure_the_number_is():
    sure = ODAClustering(random_state=0).fit(planar_grid(0, 8.0)).n_clusters_margin_
    unsure = ODAClustering(random_state=0).fit(planar_grid(0, 4.0)).n_clusters_margin_
    assert sure > unsure > 0


def test_a_stream_chooses_the_number_too():
    X = planar_grid(0)
    model = ODAClustering(random_state=0)
    for _ in range(tries(4, 60)):
        model.partial_fit(X)
    assert model.n_clusters_ == 15


@pytest.mark.parametrize(("make", "K"), [(eight_gaussians, 8), (planar_grid, 15)])
def test_polished_distortion_equals_the_best_of_ten_k_means(make, K):
    """At a K that persists the annealed solution is the global one (algorithm.md, section 3)."""
    ratios = []
    for seed in range(tries(2, 10)):
        X = make(seed)
        best = KMeans(K, n_init=10, random_state=seed).fit(X).inertia_
        model = ODAClustering(K, polish=True, random_state=seed).fit(X)
        assert model.n_clusters_ == K
        assert model.temperature_ == 0
        ratios.append(-model.score(X) * len(X) / best)
    assert sum(ratio < 1.001 for ratio in ratios) >= 0.9 * len(ratios), ratios


def test_annealing_finds_the_two_groups_of_iris():
    X = load_iris().data
    model = ODAClustering(2, random_state=0).fit(X)
    assert sorted(np.bincount(model.labels_)) in ([50, 100], [53, 97], [52, 98], [51, 99])


CASES = {
    "moons": (make_moons(1500, noise=0.1, random_state=0), True, 0.995),
    "circles": (make_circles(1500, noise=0.05, factor=0.5, random_state=0), True, 0.995),
    "wbcd": (load_breast_cancer(return_X_y=True), True, 0.95),
    "wine": (load_wine(return_X_y=True), True, 0.94),
    "digits": (load_digits(return_X_y=True), False, 0.965),
}


@pytest.mark.parametrize("split", ["variance", "perturb"])
@pytest.mark.parametrize("name", list(CASES))
def test_accuracy_with_nothing_tuned(name, split):
    """The coldest level with K_max = 100, as annealed."""
    (X, y), standardised, least = CASES[name]
    model = ODAClassifier(level="last", split=split, fine_tune=None, random_state=0)
    if standardised:
        model = make_pipeline(StandardScaler(), model)
    folds = StratifiedKFold(tries(3, 5), shuffle=True, random_state=0)
    assert cross_val_score(model, X, y, cv=folds).mean() >= least


def test_the_papers_settings_run_as_printed():
    X, y = make_moons(1500, noise=0.1, random_state=0)
    model = ODAClassifier(**paper_settings(), **AS_ANNEALED, random_state=0).fit(X, y)
    edge = np.ptp(X, axis=0).max()
    path = model.path_
    # Delta_S d: one class's box is a little smaller than that of both.
    assert path[0].temperature == pytest.approx(100 * edge * 2, rel=0.35)
    assert path[0].temperature / path[1].temperature == pytest.approx(1 / 0.8)
    assert path[0].n_codevectors == 2
    assert model.score(X, y) > 0.9


def test_classification_with_the_i_divergence():
    """The paper's WBCD experiment uses it, zeros included; its own ODA column says 90.7."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.mean(axis=0)
    model = ODAClassifier(divergence="i_divergence", random_state=0)
    folds = StratifiedKFold(tries(2, 5), shuffle=True, random_state=0)
    assert cross_val_score(model, X, y, cv=folds).mean() > 0.907


def test_polish_is_not_led_astray_by_an_outlier():
    """The outlier splits off first, but two groups are what two clusters should be."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1.0, (200, 2)) for m in (-2.5, 2.5)] + [[[30.0, -30.0]]])
    model = ODAClustering(2, polish=True, random_state=0).fit(X)
    best = KMeans(2, n_init=10, random_state=0).fit(X).inertia_
    assert -model.score(X) * len(X) == pytest.approx(best, rel=1e-6)


def test_a_polish_counts_the_samples_it_observes():
    X, _ = make_blobs(400, centers=4, random_state=1)
    plain, hard = (
        ODAClustering(4, shape="round", polish=p, random_state=0).fit(X) for p in (False, True)
    )
    # At least one pass over the rows from each of its two starts, on top of the path and of what
    # cooling on has shown.
    cooled = hard._learner.annealer.cool_on(X, None, np.random.default_rng(0)).samples
    assert cooled > hard.path_[-1].samples >= plain.path_[-1].samples
    assert hard._model.samples >= cooled + 2 * len(X)
