"""Units of features: rows decide, what is scaled stays as it is, codevectors are as given."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from predicates import same_model, valid_model
from scipy.integrate import trapezoid
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.preprocessing import StandardScaler

import annealed
from annealed import ODAClassifier
from annealed.estimators import classifier
from annealed.fine_tuning.units import SQUASHED, STANDARDISED, Units, choose_units
from annealed.stored import MalformedError

pytestmark = pytest.mark.quality
SHORT = {"gamma": 0.6, "K_max": 20, "random_state": 0}


def labelled(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


def in_other_units():
    """The last feature tells nothing, and is a million times as large."""
    X, y = labelled()
    return X * [1, 1, 1, 1e6], y


def heavy_tailed():
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(600, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


CASES = {STANDARDISED: in_other_units, SQUASHED: heavy_tailed}


@pytest.mark.parametrize("kind", list(CASES))
def test_units_and_tails_do_no_harm(kind):
    X, y = CASES[kind]()
    model = ODAClassifier(**SHORT).fit(X[:400], y[:400])
    assert model.feature_units_ == kind
    assert valid_model(model)
    assert model.score(X[400:], y[400:]) > 0.93  # without other units 0.5 and 0.9


@pytest.mark.parametrize("data", [load_wine, load_digits])
def test_data_that_is_scaled_stays_as_it_is(data):
    X, y = data(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:400]
    model = ODAClassifier(**SHORT).fit(X, y[:400])
    assert model.feature_units_ == "given"
    # Whether units were asked for or not: the same model to the last bit.
    without = ODAClassifier(**SHORT, divergence=annealed.Mahalanobis(np.eye(X.shape[1])))
    assert without.fit(X, y[:400]).feature_units_ == "given"


def test_wine_in_its_own_units_is_as_good_as_standardised():
    X, y = load_wine(return_X_y=True)
    test = np.arange(len(X)) % 3 == 0
    model = ODAClassifier(random_state=0).fit(X[~test], y[~test])
    assert model.feature_units_ == STANDARDISED
    assert model.score(X[test], y[test]) > 0.93


@pytest.mark.parametrize(("share", "cell"), [(0.001, 999.0), (0.005, -9999.0)])
def test_a_few_cells_far_out_do_little_harm(share, cell):
    rng = np.random.default_rng(0)
    X, y = make_classification(1500, 10, n_informative=5, random_state=0)
    Z = np.where(rng.uniform(size=X.shape) < share, cell, X)
    clean, wild = (
        ODAClassifier(random_state=0).fit(rows[:1000], y[:1000]).score(rows[1000:], y[1000:])
        for rows in (X, Z)
    )
    assert wild > clean - 0.06  # up to one row in twenty has such a cell


def test_other_divergences_and_streams_take_features_as_they_are():
    X, y = in_other_units()
    assert ODAClassifier(**SHORT).partial_fit(X, y).feature_units_ == "given"
    model = ODAClassifier(divergence="i_divergence", **SHORT).fit(np.exp(X / [1, 1, 1, 1e6]), y)
    assert model.feature_units_ == "given"


@pytest.mark.parametrize("kind", list(CASES))
def test_everything_shown_is_in_the_units_given(kind):
    X, y = CASES[kind]()
    model = ODAClassifier(**SHORT).fit(X, y)
    low, high = np.quantile(X, [0, 1], axis=0)
    levels = [level.codevectors for level in model.path_]
    # As annealed they are means of rows, in whatever units; a mean lies between the rows.
    assert all(((mu >= low) & (mu <= high)).all() for mu in levels)
    spread = np.quantile(X, 0.9, axis=0) - np.quantile(X, 0.1, axis=0)
    last = levels[-1].max(axis=0) - levels[-1].min(axis=0)
    assert (last > 0.1 * spread).all()
    units = model._learner.units
    inside = model._learner.annealer.path()[-1].codevectors
    np.testing.assert_allclose(units.to(levels[-1]), inside, atol=1e-9)
    np.testing.assert_array_equal(model.at(n_codevectors=3).codevectors_.shape, (3, 4))


@pytest.mark.parametrize("kind", list(CASES))
def test_rows_go_there_and_back(kind):
    X, y = CASES[kind]()
    units = choose_units(X, y.astype(np.int32), None, np.random.default_rng(0))
    assert units.name == kind
    np.testing.assert_allclose(units.back(units.to(X)), X, rtol=1e-9, atol=1e-9)
    step = 1e-6 * units.scale
    slope = np.log((units.to(X + step) - units.to(X)) / step).sum(axis=1)
    np.testing.assert_allclose(units.log_slope(X), slope, atol=1e-2)


def test_a_density_in_other_units_integrates_to_one(monkeypatch):
    units = Units(SQUASHED, np.array([1.0]), np.array([0.5]), np.array([2.0]))
    monkeypatch.setattr(classifier, "choose_units", lambda *given: units)
    rng = np.random.default_rng(0)
    X, y = rng.standard_cauchy(size=(400, 1)), np.arange(400) % 2
    model = ODAClassifier(**SHORT).fit(X, y)
    grid = np.sinh(np.linspace(-14, 14, 20001))[:, None]
    assert trapezoid(np.exp(model.score_samples(grid)), grid[:, 0]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("kind", list(CASES))
def test_files_streams_and_merging_know_the_units(kind, tmp_path):
    X, y = CASES[kind]()
    model = ODAClassifier(**SHORT).fit(X[:300], y[:300])
    annealed.save(model, tmp_path / "units.oda")
    back = annealed.load(tmp_path / "units.oda")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    whole, single = deepcopy(model).partial_fit(X[300:400], y[300:400]), back
    for x, label in zip(X[300:400], y[300:400], strict=True):
        single.learn_one(x, label)
    assert same_model(whole, single)
    assert whole.score(X[400:], y[400:]) > 0.9
    one = list(single.predict_proba_one(X[500]).values())
    np.testing.assert_allclose(one, whole.predict_proba(X[500:501])[0], atol=1e-12)
    other = ODAClassifier(**SHORT).fit(X[300:], y[300:])
    assert model.merge(other).score(X, y) > 0.85


def test_units_of_other_features_are_refused():
    X, y = in_other_units()
    learner = ODAClassifier(**SHORT).fit(X, y)._learner
    learner.units = Units(STANDARDISED, *(np.ones(3) for _ in range(3)))
    with pytest.raises(MalformedError, match="units are of other features"):
        type(learner).check_stored(vars(learner))


@pytest.mark.parametrize(
    "X",
    [np.zeros((50, 3)), np.full((50, 1), 1e60), np.eye(50)[:, :3] * [1, 1e9, 1e-9]],
    ids=["constant", "huge", "sparse"],
)
def test_odd_features_give_a_valid_model(X):
    assert valid_model(ODAClassifier(**SHORT).fit(X, np.arange(50) % 2))
