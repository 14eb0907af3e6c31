"""Bregman divergences: the built-in ones against their definition, domains, and users' own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from predicates import same_model, same_path, valid_model
from scipy.special import xlogy

from annealed import BregmanDivergence, Mahalanobis, ODAClassifier, ODAClustering
from annealed.divergences import BUILT_IN, get_divergence
from annealed.kernels import kernel_for

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality

# phi, its gradient and its second derivative, written down again: name -> (phi, gradient, hessian)
DEFINITIONS = {
    "squared_euclidean": (lambda x: (x**2).sum(axis=1), lambda x: 2 * x, lambda x: 2 + 0 * x),
    "i_divergence": (lambda x: xlogy(x, x).sum(axis=1), lambda x: np.log(x) + 1, lambda x: 1 / x),
    "itakura_saito": (lambda x: -np.log(x).sum(axis=1), lambda x: -1 / x, lambda x: x**-2.0),
    "logistic": (
        lambda x: (xlogy(x, x) + xlogy(1 - x, 1 - x)).sum(axis=1),
        lambda x: np.log(x / (1 - x)),
        lambda x: 1 / (x * (1 - x)),
    ),
}
DEFINITIONS["kullback_leibler"] = DEFINITIONS["i_divergence"]
DOMAINS = {
    "squared_euclidean": (-np.inf, np.inf),
    "i_divergence": (0.0, np.inf),
    "kullback_leibler": (0.0, np.inf),
    "itakura_saito": (0.0, np.inf),
    "logistic": (0.0, 1.0),
}
RANGES = {
    "squared_euclidean": (-50.0, 50.0),
    "i_divergence": (1e-3, 50.0),
    "kullback_leibler": (1e-3, 1.0),
    "itakura_saito": (1e-2, 50.0),
    "logistic": (1e-3, 1 - 1e-3),
}
NAMES = pytest.mark.parametrize("name", BUILT_IN)


def rows(name, n, d):
    low, high = RANGES[name]
    X = arrays(float, (n, d), elements=st.floats(low, high))
    return X.map(lambda x: x / x.sum(axis=1, keepdims=True)) if name == "kullback_leibler" else X


def definition(name, X, mu):
    """d(x, mu) = phi(x) - phi(mu) - <grad phi(mu), x - mu>."""
    phi, gradient, _ = DEFINITIONS[name]
    theta = gradient(mu)
    return phi(X)[:, None] - phi(mu) - X @ theta.T + (theta * mu).sum(axis=1)


def data(name, n=200, seed=0):
    """Rows of two clouds inside the domain."""
    rng = np.random.default_rng(seed)
    if name == "kullback_leibler":
        return rng.dirichlet(np.ones(3), n)
    if name == "logistic":
        return rng.beta(2, 2, (n, 3))
    X = rng.gamma(2.0, size=(n, 3)) + 5.0 * (rng.uniform(size=(n, 1)) < 0.5)
    return X - 4 if name == "squared_euclidean" else X


# -- built in -------------------------------------------------------------------------------------


def test_the_five_named_divergences_are_built_in():
    assert set(BUILT_IN) == set(DEFINITIONS)


@NAMES
@given(draw=st.data())
def test_divergence_equals_its_definition(name, draw):
    d = draw.draw(st.integers(1, 4))
    X, mu = draw.draw(rows(name, 5, d)), draw.draw(rows(name, 3, d))
    divergence = get_divergence(name)
    expected = definition(name, X, mu)
    scale = 1e-11 * (
        1 + np.abs(X).max() ** 2 + np.abs(DEFINITIONS[name][1](mu)).max() * np.abs(X).max()
    )
    np.testing.assert_allclose(divergence.pairwise(X, mu), expected, rtol=1e-9, atol=scale)
    compiled = kernel_for(divergence).divergences(X, mu)
    np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=scale)


@NAMES
@given(draw=st.data())
def test_divergence_is_zero_only_between_equals(name, draw):
    X, mu = draw.draw(rows(name, 4, 3)), draw.draw(rows(name, 4, 3))
    D = get_divergence(name).pairwise(np.concatenate([X, mu]), mu)
    assert (D >= -1e-9).all()
    np.testing.assert_allclose(np.diag(D[4:]), 0.0, atol=1e-9)
    far = np.abs(X[:, None] - mu).max(axis=2) > 0.1
    assert (D[:4][far] > 0).all()


@NAMES
@given(draw=st.data())
def test_gradient_and_hessian_are_the_derivatives_of_phi(name, draw):
    X = draw.draw(rows(name, 4, 3))
    divergence = get_divergence(name)
    phi, gradient, hessian = DEFINITIONS[name]
    np.testing.assert_allclose(divergence.phi(X), phi(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(divergence.gradient(X), gradient(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(divergence.hessian_diagonal(X), hessian(X), rtol=1e-12)
    a = np.array([[1.0, -2.0, 0.5]] * 4)
    np.testing.assert_allclose(divergence.hessian_product(X, a), hessian(X) * a, rtol=1e-12)


@NAMES
@given(draw=st.data())
def test_the_mean_is_the_best_codevector(name, draw):
    X, other = draw.draw(rows(name, 6, 2)), draw.draw(rows(name, 5, 2))
    mean = X.mean(axis=0, keepdims=True)
    D = get_divergence(name).pairwise(X, np.concatenate([mean, other])).mean(axis=0)
    assert (D[0] <= D[1:] + 1e-9 * (1 + np.abs(D[1:]))).all()


@NAMES
def test_transform_gives_the_divergences_to_the_codevectors(name):
    X = data(name)
    for shape in ("round", "any"):
        est = ODAClustering(4, shape=shape, divergence=name, random_state=0).fit(X)
        to_codevectors = definition(name, X, est.codevectors_)
        nearest = [to_codevectors[:, est.codevector_clusters_ == k].min(axis=1) for k in range(4)]
        np.testing.assert_allclose(
            est.transform(X), np.stack(nearest, axis=1), rtol=1e-8, atol=1e-9
        )


@NAMES
def test_every_divergence_clusters_and_classifies(name):
    X = data(name)
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    for split in ("variance", "perturb"):
        assert valid_model(
            ODAClustering(None, divergence=name, split=split, K_max=15, random_state=0).fit(X)
        )
        est = ODAClassifier(divergence=name, split=split, K_max=10, random_state=0).fit(X, y)
        assert valid_model(est)
        assert est.score(X, y) > 0.9


@NAMES
def test_T_max_is_above_the_first_critical_temperature(name):
    X = data(name, 2000)
    path = (
        ODAClustering(None, divergence=name, random_state=0, K_max=4, samples_per_codevector=2000)
        .fit(X)
        .path_
    )
    H = np.diag(DEFINITIONS[name][2](X.mean(axis=0, keepdims=True))[0])
    critical = np.linalg.eigvals(H @ np.cov(X.T)).real.max()
    assert path[0].temperature > critical
    assert path[0].n_codevectors == 1
    np.testing.assert_allclose(path.ordered_splits[0][1], critical, rtol=0.15)


# -- domains --------------------------------------------------------------------------------------


@NAMES
def test_domain_is_the_one_of_phi(name):
    divergence = get_divergence(name)
    assert (divergence.low, divergence.high) == DOMAINS[name]


@pytest.mark.parametrize(
    "name, boundary",
    [("i_divergence", 0), ("kullback_leibler", 0), ("logistic", 0), ("logistic", 1)],
)
@pytest.mark.parametrize("split", ["variance", "perturb"])
def test_rows_on_the_boundary_are_welcome(name, boundary, split):
    X = data(name)
    X[::3, 0] = boundary
    if name == "kullback_leibler":
        X /= X.sum(axis=1, keepdims=True)
    est = ODAClustering(None, divergence=name, split=split, random_state=0, K_max=20).fit(X)
    assert valid_model(est)
    assert np.isfinite(est.transform(X)).all()
    assert np.isfinite(est.predict_proba(X)).all()
    assert np.isfinite(est.score(X))
    np.testing.assert_allclose(
        est.transform(X)[::3], definition(name, X[::3], est.codevectors_), rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize(
    "name, value", [("i_divergence", 0.0), ("logistic", 0.0), ("logistic", 1.0)]
)
def test_column_that_never_leaves_the_boundary_keeps_codevectors_inside(name, value):
    X = data(name)
    X[:, 1] = value
    est = ODAClustering(None, divergence=name, random_state=0, K_max=10).fit(X)
    assert valid_model(est)
    inside = np.abs(est.codevectors_[:, 1] - value)
    assert (inside > 0).all() and (inside < 1e-4).all()
    X[0, 1] = 0.5  # something never seen there has a finite, large divergence
    assert np.isfinite(est.transform(X)).all()
    assert np.isfinite(est.predict_proba(X)).all()


@pytest.mark.parametrize(
    "name, value", [("i_divergence", 0.0), ("logistic", 0.0), ("logistic", 1.0)]
)
def test_data_entirely_on_the_boundary_gives_finite_models(name, value):
    X = np.full((150, 2), value)
    X[::10] = 1.0 - value
    y = np.arange(150) % 2
    for est in (
        ODAClustering(2, divergence=name, random_state=0).fit(X),
        ODAClassifier(divergence=name, random_state=0).fit(X, y),
    ):
        assert np.isfinite(est.codevectors_).all()
        assert np.isfinite(est.transform(X)).all()
        np.testing.assert_allclose(est.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_class_of_nothing_but_zeros_has_a_codevector_inside_the_domain(verb):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.poisson(3.0, (400, 3)) * y[:, None]
    est = getattr(ODAClassifier(divergence="i_divergence", random_state=0), verb)(X, y)
    assert (est.codevectors_ > 0).all()
    assert np.isfinite(est.predict_proba(X)).all()
    assert est.score(X, y) > 0.98


def test_first_row_of_zeros_in_a_stream_is_welcome():
    est = ODAClustering(None, divergence="i_divergence").partial_fit(np.zeros((1, 3)))
    X = np.array([[1.0, 0.0, 2.0]])
    assert est.predict(X).shape == (1,)
    assert np.isfinite(est.predict_proba(X)).all()


@NAMES
def test_a_stream_of_one_row_can_be_read_in_every_way(name):
    X = data(name)
    est = ODAClustering(None, divergence=name).partial_fit(X[:1])
    assert np.isfinite(est.transform(X)).all()
    np.testing.assert_array_equal(est.predict(X), 0)


def test_counts_with_zeros_find_their_topics():
    rng = np.random.default_rng(0)
    rates = np.array([[9.0, 0.05, 1.0], [0.05, 9.0, 1.0]])
    y = rng.integers(0, 2, 600)
    X = rng.poisson(rates[y])
    labels = ODAClustering(2, divergence="i_divergence", random_state=0).fit_predict(X)
    assert max((labels == y).mean(), (labels != y).mean()) > 0.99


def test_nothing_is_clipped():
    X = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    X[5] = [1.0, 0.0, 0.0]
    est = ODAClustering(1, divergence="kullback_leibler", random_state=0).fit(X)
    np.testing.assert_allclose(est.transform(X[5:6])[0], -np.log(est.codevectors_[:, 0]), rtol=1e-6)


# -- Mahalanobis ----------------------------------------------------------------------------------


def random_matrix(seed, d):
    B = np.random.default_rng(seed).normal(size=(d, d))
    return B @ B.T + 0.1 * np.eye(d)


@pytest.mark.parametrize("split", ["variance", "perturb"])
@pytest.mark.parametrize("seed", range(3))
def test_mahalanobis_is_squared_euclid_on_transformed_data(split, seed):
    X = np.random.default_rng(seed).normal(size=(300, 3))
    A = random_matrix(seed, 3)
    Z = X @ np.linalg.cholesky(A)
    params = {"n_clusters": None, "split": split, "random_state": seed, "K_max": 15}
    skewed = ODAClustering(divergence=Mahalanobis(A), **params).fit(X)
    plain = ODAClustering(**params).fit(Z)
    np.testing.assert_array_equal(skewed.path_.n_codevectors, plain.path_.n_codevectors)
    for one, other in zip(skewed.path_, plain.path_, strict=True):
        np.testing.assert_allclose(one.temperature, other.temperature, rtol=1e-9)
        np.testing.assert_allclose(
            one.codevectors @ np.linalg.cholesky(A), other.codevectors, atol=1e-6
        )
        np.testing.assert_allclose(one.distortion, other.distortion, rtol=1e-6)
    np.testing.assert_array_equal(skewed.predict(X), plain.predict(Z))
    np.testing.assert_allclose(skewed.transform(X), plain.transform(Z), rtol=1e-6, atol=1e-9)


def test_mahalanobis_classifies_as_squared_euclid_on_transformed_data(blobs):
    X, y = blobs
    A = random_matrix(1, 2)
    Z = X @ np.linalg.cholesky(A)
    # As annealed: fine-tuning may weigh the features of Z, not those of a Mahalanobis divergence.
    as_annealed = {"level": "last", "fine_tune": None, "random_state": 0}
    skewed = ODAClassifier(divergence=Mahalanobis(A), **as_annealed).fit(X, y)
    plain = ODAClassifier(**as_annealed).fit(Z, y)
    np.testing.assert_allclose(skewed.predict_proba(X), plain.predict_proba(Z), atol=1e-6)


@given(seed=st.integers(0, 1000), d=st.integers(1, 5))
def test_mahalanobis_equals_its_definition(seed, d):
    rng = np.random.default_rng(seed)
    A, X, mu = random_matrix(seed, d), rng.normal(size=(6, d)), rng.normal(size=(4, d))
    difference = X[:, None] - mu
    expected = np.einsum("nki,ij,nkj->nk", difference, A, difference)
    divergence = Mahalanobis(A)
    np.testing.assert_allclose(divergence.pairwise(X, mu), expected, rtol=1e-9)
    compiled = kernel_for(divergence).divergences(X, mu)
    np.testing.assert_allclose(compiled, expected, rtol=1e-9)


def test_mahalanobis_of_the_identity_is_squared_euclid(blobs):
    params = {"n_clusters": None, "random_state": 0, "K_max": 15}
    one = ODAClustering(divergence=Mahalanobis(np.eye(2)), **params).fit(blobs[0])
    assert same_path(one.path_, ODAClustering(**params).fit(blobs[0]).path_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "matrix, message",
    [
        ([[1.0, 0.0]], "square"),
        ([1.0, 2.0], "square"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[0.0, 0.0], [0.0, 1.0]], "positive definite"),
        ([[np.nan, 0.0], [0.0, 1.0]], "symmetric|NaN|finite"),
        ([[np.inf, 0.0], [0.0, 1.0]], "finite|infinity|positive definite"),
    ],
)
def test_matrix_that_is_no_metric_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        Mahalanobis(matrix)


def test_changing_the_matrix_afterwards_does_not_change_the_divergence():
    A = np.eye(2)
    divergence = Mahalanobis(A)
    A[:] = 7.0
    X = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(divergence.pairwise(X, 0 * X), 1.0)


# -- a user's own ---------------------------------------------------------------------------------


def own(name, hessian=True):
    phi, gradient, second = DEFINITIONS[name]
    return BregmanDivergence(
        phi, gradient, DOMAINS[name], hessian=second if hessian else None, name=f"own {name}"
    )


COMPILED = pytest.mark.parametrize(
    "name", ["squared_euclidean", "i_divergence", "itakura_saito", "logistic"]
)
QUICK = {"K_max": 8, "gamma": 0.8, "samples_per_codevector": 20, "random_state": 0}


@COMPILED
@pytest.mark.parametrize("split", ["variance", "perturb"])
def test_own_divergence_gives_the_model_of_the_built_in_one(name, split):
    X = data(name, 80)
    one = ODAClustering(None, divergence=own(name), split=split, **QUICK).fit(X)
    other = ODAClustering(None, divergence=name, split=split, **QUICK).fit(X)
    assert one.n_clusters_ > 3
    assert same_model(one, other, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-5)


@COMPILED
def test_own_divergence_gives_the_classifier_of_the_built_in_one(name):
    X = data(name, 120)
    y = np.arange(120) % 2
    one, other = (
        ODAClassifier(divergence=d, level="last", fine_tune=None, K_max=10, random_state=0).fit(
            X, y
        )
        for d in (own(name), name)
    )
    assert same_model(one, other, rtol=1e-6, atol=1e-6)


@COMPILED
def test_own_divergence_gives_the_stream_of_the_built_in_one(name):
    X = data(name, 900)
    one, other = (
        ODAClustering(None, divergence=d, **QUICK).partial_fit(X[:500]).partial_fit(X[500:])
        for d in (own(name), name)
    )
    assert len(one.path_) > 3
    assert same_model(one, other, rtol=1e-6, atol=1e-6)


@COMPILED
def test_own_divergence_without_hessian_gives_the_model_of_the_built_in_one(name):
    X = data(name, 80)
    one, other = (
        ODAClustering(None, divergence=d, T_max=20.0, T_min=0.5, **QUICK).fit(X)
        for d in (own(name, hessian=False), name)
    )
    assert same_path(one.path_, other.path_, rtol=1e-5, atol=1e-5)


@COMPILED
@given(draw=st.data())
def test_hessian_by_differences_agrees(name, draw):
    X = draw.draw(rows(name, 4, 3))
    a = draw.draw(arrays(float, (4, 3), elements=st.floats(-1, 1)))
    divergence, second = own(name, hessian=False), DEFINITIONS[name][2]
    expected = second(X) * a
    scale = 1e-5 * (np.abs(expected).max() + np.abs(second(X)).max() * np.abs(a).max() + 1e-12)
    # The step suits the largest feature; beside one 5000 times smaller 2e-3 is what is left.
    np.testing.assert_allclose(divergence.hessian_product(X, a), expected, rtol=2e-3, atol=scale)
    np.testing.assert_allclose(divergence.hessian_diagonal(X), second(X), rtol=2e-3)


@given(seed=st.integers(0, 1000))
def test_hessian_by_differences_sees_cross_terms(seed):
    A = random_matrix(seed, 3)
    quadratic = BregmanDivergence(lambda x: ((x @ A) * x).sum(axis=1), lambda x: 2 * x @ A)
    rng = np.random.default_rng(seed)
    mu, a = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(quadratic.hessian_product(mu, a), 2 * a @ A, rtol=1e-5, atol=1e-6)


def test_own_divergence_with_cross_terms_gives_the_model_of_mahalanobis():
    A = random_matrix(0, 2)
    quadratic = BregmanDivergence(lambda x: ((x @ A) * x).sum(axis=1), lambda x: 2 * x @ A)
    X = np.random.default_rng(0).normal(size=(80, 2))
    one, other = (
        ODAClustering(None, divergence=d, T_max=20.0, T_min=0.5, **QUICK).fit(X)
        for d in (quadratic, Mahalanobis(A))
    )
    assert same_path(one.path_, other.path_, rtol=1e-5, atol=1e-5)


def quartic(x):
    return (x**4 + x**2).sum(axis=1)


def quartic_gradient(x):
    return 4 * x**3 + 2 * x


def test_a_divergence_nobody_built_in_clusters():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.1, (60, 2)) for m in (-1, 0, 1)])
    est = ODAClustering(
        3, shape="round", divergence=BregmanDivergence(quartic, quartic_gradient), random_state=0
    ).fit(X)
    np.testing.assert_allclose(np.sort(est.cluster_centers_[:, 0]), [-1, 0, 1], atol=0.1)
    assert valid_model(est)


def fits(divergence, X):
    return ODAClustering(None, divergence=divergence, **QUICK | {"K_max": 3}).fit(X)


PLANE = np.random.default_rng(0).normal(size=(100, 2))
NOT_CONVEX = {
    "concave": (lambda x: -(x**2).sum(axis=1), lambda x: -2 * x),
    "wave": (lambda x: np.cos(3 * x).sum(axis=1), lambda x: -3 * np.sin(3 * x)),
    "saddle": (lambda x: x[:, 0] ** 2 - x[:, 1] ** 2, lambda x: 2 * x * [1, -1]),
    "two wells": (lambda x: (x**4 - 4 * x**2).sum(axis=1), lambda x: 4 * x**3 - 8 * x),
    "linear": (lambda x: x.sum(axis=1), lambda x: np.ones_like(x)),
    "constant": (lambda x: np.zeros(len(x)), lambda x: np.zeros_like(x)),
    "flat in one feature": (lambda x: x[:, 0] ** 2, lambda x: 2 * x * [1, 0]),
}


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_phi_that_is_not_strictly_convex_is_refused(name):
    with pytest.raises(ValueError, match="not strictly convex"):
        fits(BregmanDivergence(*NOT_CONVEX[name]), PLANE)


WRONG_GRADIENTS = {
    "half": lambda x: x,
    "twice": lambda x: 4 * x,
    "sign": lambda x: -2 * x,
    "zero": lambda x: 0 * x,
    "one column": lambda x: 2 * x * [1, 0],
    "offset": lambda x: 2 * x + 1,
}


@pytest.mark.parametrize("name", WRONG_GRADIENTS)
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_wrong_gradient_is_refused(name, shift):
    if name == "offset" and shift:
        pytest.skip("an error of 1 in a slope of 2000 is within the check's tolerance")

    def phi(x):
        return (x**2).sum(axis=1)

    with pytest.raises(ValueError, match="gradient"):
        fits(BregmanDivergence(phi, WRONG_GRADIENTS[name]), PLANE + shift)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_right_gradient_is_accepted_at_any_scale(scale, shift):
    fits(own("squared_euclidean"), (PLANE[:40] + shift) * scale)


@pytest.mark.parametrize(
    "phi, gradient, message",
    [
        (lambda x: x**2, lambda x: 2 * x, "shape"),
        (lambda x: float((x**2).sum()), lambda x: 2 * x, "shape"),
        (lambda x: (x**2).sum(axis=1), lambda x: 2 * x.sum(axis=1), "shape"),
        (lambda x: (x**2).sum(axis=1), lambda x: 2 * x[:, :1], "shape|gradient"),
        (lambda x: (np.where(x > 2, np.nan, x) ** 2).sum(axis=1), lambda x: 2 * x, "nan"),
    ],
    ids=["phi per feature", "phi of all", "gradient per row", "gradient of one feature", "nan"],
)
def test_functions_of_the_wrong_shape_are_refused(phi, gradient, message):
    X = PLANE.copy()
    X[3] = 3.0
    with pytest.raises(ValueError, match=message):
        fits(BregmanDivergence(phi, gradient), X)


def test_own_domain_is_checked_naming_the_column():
    inside = BregmanDivergence(*DEFINITIONS["logistic"][:2], domain=(0.0, 1.0), name="mine")
    X = np.random.default_rng(0).uniform(0.1, 0.9, (100, 2))
    est = fits(inside, X)
    X[3, 1] = 1.25
    with pytest.raises(ValueError, match=r"column 1.*1\.25.*mine"):
        est.predict(X)
    with pytest.raises(ValueError, match=r"column 1.*1\.25.*mine"):
        est.partial_fit(X)


def test_own_divergence_welcomes_the_boundary_where_phi_is_finite():
    X = np.random.default_rng(0).poisson(1.0, (120, 2)).astype(float)
    assert (X == 0).any()
    one, other = (
        ODAClustering(None, divergence=d, **QUICK).fit(X)
        for d in (own("i_divergence"), "i_divergence")
    )
    assert same_path(one.path_, other.path_, rtol=1e-6, atol=1e-6)


def test_own_divergence_refuses_the_boundary_where_phi_is_infinite():
    X = np.random.default_rng(0).gamma(2.0, size=(100, 2))
    X[7, 0] = 0.0
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="row 7"):
        fits(own("itakura_saito"), X)


@pytest.mark.parametrize("arguments", [(1, 2), ("phi", np.log), (np.log, None)])
def test_phi_and_gradient_must_be_callable(arguments):
    with pytest.raises(TypeError, match="callable"):
        BregmanDivergence(*arguments)


@pytest.mark.parametrize("domain", [(1, 0), (0, 0), (np.nan, 1)])
def test_domain_must_be_an_interval(domain):
    with pytest.raises(ValueError, match="domain"):
        BregmanDivergence(quartic, quartic_gradient, domain)
