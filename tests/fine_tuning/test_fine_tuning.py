"""Level choice and fine-tuning: the gradient is right, the choice is safe, streams can be cut."""

from __future__ import annotations

import itertools
import pickle
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import KERNELS
from predicates import same_model, same_tuner, valid_model
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import accuracy_score, f1_score, log_loss, make_scorer
from thoroughness import crossed, examples, tries

from annealed import BregmanDivergence, Mahalanobis, ODAClassifier
from annealed.divergences import Geometry, SquaredEuclidean, get_divergence
from annealed.fine_tuning import held_out
from annealed.fine_tuning.methods import (
    TUNINGS,
    GeneralizedTuning,
    SoftTuning,
    Tuning,
    WinnerTuning,
)
from annealed.fine_tuning.model import FACTORS, Calibration, Fits, as_annealed
from annealed.fine_tuning.race import LENGTH, SURVIVORS
from annealed.fine_tuning.scoring import Scorer
from annealed.kernels import CompiledKernel, ReferenceKernel
from annealed.path import Level

# Arithmetic of our own: left out where other versions of the dependencies are tried.
pytestmark = pytest.mark.quality

BUILT_IN = [
    "squared_euclidean", "i_divergence", "kullback_leibler", "itakura_saito", "logistic",
    "mahalanobis",
]  # fmt: skip
WEIGHABLE = ["squared_euclidean", "i_divergence", "itakura_saito", "logistic"]
PLAIN = Fits()
METHODS = [SoftTuning, WinnerTuning, GeneralizedTuning]
# A short ladder: what is shown here does not depend on where the annealing ends.
FEW_LEVELS = {"gamma": 0.45, "random_state": 0}
SHORT = {
    "drift_detector": None,
    "gamma": 0.5,
    "samples_per_codevector": 5,
    "K_max": 12,
    "random_state": 0,
}

seeds = st.integers(0, 2**32 - 1)


# -- a codebook with classes, and rows to fine-tune it on ------------------------------------------


def half_of_the_squares(X):
    return 0.5 * (X**2).sum(axis=1)


def divergence_for(name, rng, d):
    if name == "half":
        return BregmanDivergence(half_of_the_squares, np.array, name="half")
    if name != "mahalanobis":
        return get_divergence(name)
    root = rng.normal(size=(d, d))
    return Mahalanobis(root @ root.T / d + np.eye(d))


def rows_for(name, rng, n, d):
    if name in ("squared_euclidean", "mahalanobis", "half"):
        return rng.normal(size=(n, d))
    if name == "logistic":
        return rng.uniform(0.02, 0.98, size=(n, d))
    rows = rng.gamma(2.0, size=(n, d)) + 0.05
    return rows / rows.sum(axis=1, keepdims=True) if name == "kullback_leibler" else rows


class Case:
    """Rows with classes and weights, a codebook to start from, and its geometry."""

    def __init__(self, name, seed, d=4, sizes=(2, 3), n=100, log_T=0.0, weighted=True):
        rng = np.random.default_rng(seed)
        d = max(d, 2) if name == "kullback_leibler" else d
        self.n_classes = len(sizes)
        self.divergence = divergence_for(name, rng, d)
        self.X = rows_for(name, rng, n, d)
        self.y = rng.integers(self.n_classes, size=n).astype(np.int32)
        self.w = rng.choice([0.0, 0.3, 1.0, 2.5], size=n) if weighted else None
        matrix, mean = self.divergence.matrix, self.X.mean(axis=0)
        inside = self.X if matrix is None else self.X @ matrix
        self.geometry = Geometry(
            self.divergence.step_unit(mean, inside.std(axis=0)), *self.divergence.bounds(mean)
        )
        K = sum(sizes)
        T = np.exp(log_T) * self.divergence.unit(mean, inside.var(axis=0))
        classes = np.repeat(np.arange(self.n_classes), sizes)
        weights = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
        level = Level(
            temperature=float(T), codevectors=rows_for(name, rng, K, d), weights=weights,
            classes=classes, nodes=np.arange(K), parents=np.full(K, -1), samples=n,
            distortion=np.nan, entropy=np.nan, score=np.nan,
        )  # fmt: skip
        self.start = as_annealed(level, np.log(rng.dirichlet(np.full(self.n_classes, 5.0))))
        self.sharpness = rng.normal(scale=0.3, size=K)
        self.relevance = rng.normal(scale=0.3, size=d)

    def soft_run(self, made, fits=PLAIN, **settings_):
        """A kernel's soft LVQ with temperatures and relevances that are not all alike."""
        level = self.start.level
        base = {"rate": 0.05, "batch": 8, "recent": 0.0, "T": level.temperature}
        return made(self.divergence).begin_soft_lvq(
            level.codevectors, self.start.bias,
            self.sharpness * fits.temperatures, self.relevance * fits.relevances,
            np.searchsorted(level.classes, np.arange(self.n_classes + 1)), self.geometry.unit,
            base | fits._asdict() | settings_, self.geometry.low, self.geometry.high,
        )  # fmt: skip

    def tuning(self, method=SoftTuning, fits=PLAIN, rate=0.05):
        return method(self.divergence, self.start, self.n_classes, self.geometry, fits, rate)

    def learn(self, tuning, begin=0, end=None, **options):
        end = len(self.X) if end is None else end
        return tuning.learn(self.X, None, self.y, self.w, begin, end, **options)


def fits_of(name):
    possible = [Fits(), Fits(temperatures=True)]
    if name in WEIGHABLE:
        possible += [Fits(relevances=True), Fits(True, True)]
    return st.sampled_from(possible)


def same_state(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    return True


def fed_in_pieces(learn, n, cuts):
    for a, b in itertools.pairwise([0, *sorted(c for c in cuts if c <= n), n]):
        learn(a, b)


# -- the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
@examples(20)
@given(
    data=st.data(), seed=seeds, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    d=st.integers(1, 9), log_T=st.floats(-2, 2), weighted=st.booleans(), single=st.booleans(),
)  # fmt: skip
def test_compiled_soft_lvq_equals_the_reference(
    name, data, seed, sizes, d, log_T, weighted, single
):
    fits = data.draw(fits_of(name))
    case = Case(name, seed, d, sizes, log_T=log_T, weighted=weighted)
    if single:
        case.X = case.X.astype(np.float32)
    states, answers = [], []
    for made in KERNELS:
        run = case.soft_run(made, fits)
        rows = (case.X, None, case.y, case.w, 0, len(case.X))
        answers.append(run.learn(*rows, answer=True))
        assert run.updates == (100 if case.w is None else np.count_nonzero(case.w)) // 8
        states.append(made(case.divergence).read(run))
    np.testing.assert_allclose(*answers, rtol=1e-9, atol=1e-9)
    scale = np.abs(case.X).max()
    np.testing.assert_allclose(states[0]["mu"], states[1]["mu"], rtol=1e-9, atol=1e-9 * scale)
    for part in ("bias", "sharpness", "relevance"):
        np.testing.assert_allclose(states[0][part], states[1][part], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BUILT_IN)
@examples(10)
@given(
    seed=seeds, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), d=st.integers(1, 9),
    log_T=st.floats(-3, 2), sharp=st.booleans(), weighed=st.booleans(),
)  # fmt: skip
def test_reading_with_temperatures_and_relevances_equals_the_reference(
    name, seed, sizes, d, log_T, sharp, weighed
):
    case = Case(name, seed, d, sizes, n=40, log_T=log_T)
    level = case.start.level
    sharpness = np.exp(case.sharpness) if sharp else None
    relevance = np.exp(case.relevance) if weighed and name in WEIGHABLE else None
    factors = np.array([0.1, 1.0, 7.0])
    codebook = level.codevectors, case.start.bias, level.temperature, level.classes
    kernels = [made(case.divergence) for made in KERNELS]
    mine, printed = (
        (
            *k.associate(case.X, *codebook, case.n_classes, sharpness, relevance),
            k.losses(case.X, case.y, *codebook, factors),
        )
        for k in kernels
    )
    for one, other in zip(mine, printed, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    if relevance is not None:
        np.testing.assert_allclose(
            *(k.divergences(case.X, level.codevectors, relevance) for k in kernels),
            rtol=1e-8,
            atol=1e-9,
        )


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_gradient_is_the_derivative_of_the_log_posterior(name):
    """In theta = grad phi(mu), the bias, log 1/T_i and log lambda_j, by central differences."""
    case = Case(name, 1, d=3, sizes=(2, 1, 3), n=30)
    fits = Fits(temperatures=True, relevances=name in WEIGHABLE)
    run = case.soft_run(ReferenceKernel, fits, batch=10**6)
    values = {k: v.copy() for k, v in run.value.items()}
    run.learn(case.X, None, case.y, case.w, 0, 30)
    # A Mahalanobis divergence is learnt in the coordinates x L, as a squared Euclidean one.
    matrix = case.divergence.matrix
    divergence = case.divergence if matrix is None else SquaredEuclidean()
    rows = case.X if matrix is None else case.X @ matrix

    def objective(mu, bias, sharpness, relevance):
        posterior = ReferenceKernel(divergence).associate(
            rows, mu, bias, case.start.level.temperature, case.start.level.classes,
            case.n_classes, np.exp(sharpness), np.exp(relevance),
        )[0]  # fmt: skip
        return case.w @ np.log(posterior[np.arange(30), case.y])

    def derivative(part, place):
        sides = []
        for sign in (1, -1):
            step = np.zeros_like(values[part])
            step[place] = sign * 1e-5
            old = values[part]
            new = divergence.moved(old, step) if part == "mu" else old + step
            sides.append(objective(**(values | {part: new})))
        return (sides[0] - sides[1]) / 2e-5

    parts = ["mu", "bias", "sharpness"] + ["relevance"] * fits.relevances
    for part in parts:
        places = list(np.ndindex(values[part].shape))
        measured = np.array([derivative(part, place) for place in places])
        # Samples that concern a codevector by less than 1e-6 are left out: at most 30 of them.
        np.testing.assert_allclose(run.gradient[part].ravel(), measured, rtol=1e-4, atol=1e-4)
        assert np.abs(measured).max() > 0.01, "nothing was measured"


@examples(10)
@given(seed=seeds, cuts=st.lists(st.integers(0, 100), max_size=8), save=st.integers(0, 100))
@pytest.mark.parametrize("made", KERNELS)
def test_soft_lvq_in_any_chunks_and_restored_mid_batch_is_bit_identical(made, seed, cuts, save):
    case = Case("i_divergence", seed, d=5, sizes=(3, 4))
    whole, cut, saved = (case.soft_run(made, Fits(True, True)) for _ in range(3))
    order = np.random.default_rng(seed).permutation(100)
    rows = case.X, order, case.y, case.w
    answers = whole.learn(*rows, 0, 100, True)
    pieces = []
    fed_in_pieces(lambda a, b: pieces.append(cut.learn(*rows, a, b, True)), 100, cuts)
    assert same_state(whole.state(), cut.state())
    np.testing.assert_array_equal(answers, np.concatenate(pieces))
    saved.learn(*rows, 0, save)
    restored = case.soft_run(made, Fits(True, True))
    restored.restore(pickle.loads(pickle.dumps(saved.state())))
    restored.learn(*rows, save, 100)
    assert same_state(whole.state(), restored.state())


@pytest.mark.parametrize("name", ["squared_euclidean", "itakura_saito"])
@pytest.mark.parametrize("fits", [PLAIN, Fits(True, True)], ids=["plain", "all fitted"])
def test_soft_lvq_is_the_same_bits_in_any_number_of_threads(name, fits):
    # Large enough that three threads are worth their while, at each step and in all.
    case = Case(name, 0, d=40, sizes=(50, 110, 41), n=500)
    states = []
    for threads in (1, 2, 3):
        run = case.soft_run(CompiledKernel, fits)
        answers = [
            run.learn(case.X, None, case.y, case.w, *cut, answer, answer, threads)
            for cut, answer in [((0, 203), True), ((203, 500), False)]
        ]
        states.append(CompiledKernel(case.divergence).read(run) | {"answers": answers[0]})
    assert not np.array_equal(states[0]["mu"], case.start.level.codevectors), "nothing was learnt"
    assert same_state(states[0], states[1])
    assert same_state(states[0], states[2])


# -- fine-tuning -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [*BUILT_IN, "half"])
def test_codevectors_never_leave_the_domain(name, method):
    """A step of two standard deviations each time, and samples far from where they belong."""
    for seed, fits in itertools.product(range(3), (Fits(), Fits(True, name in WEIGHABLE))):
        case = Case(name, seed, d=3, n=640, log_T=-1.0)
        tuning = case.tuning(method, fits, rate=2.0)
        case.learn(tuning)
        model = tuning.model()
        mu = model.level.codevectors
        assert not np.array_equal(mu, case.start.level.codevectors), "nothing moved"
        assert np.isfinite(mu).all()
        assert ((mu > case.divergence.low) & (mu < case.divergence.high)).all()
        case.divergence.check(mu)  # on the simplex, too, where rows are
        if case.divergence.simplex:
            np.testing.assert_allclose(mu.sum(axis=1), 1.0, rtol=1e-9)
        np.testing.assert_allclose(np.bincount(model.level.classes, model.level.weights), 1.0)
        posterior = tuning.answers(case.X)
        assert (posterior >= 0).all()
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("name", [*BUILT_IN, "half"])
@examples(10)
@given(data=st.data(), seed=seeds, sizes=st.lists(st.integers(1, 4), min_size=2, max_size=3))
def test_the_model_of_soft_lvq_says_what_its_answers_were(name, data, seed, sizes):
    """Relevances of mean one, one T, codevectors back on the simplex: only another writing."""
    fits = data.draw(fits_of(name))
    case = Case(name, seed, d=4, sizes=sizes, n=120)
    tuning = case.tuning(fits=fits, rate=0.2)
    for stop in (0, 60, 120):
        case.learn(tuning, max(stop - 60, 0), stop)
        model = tuning.model()
        said = model.posterior(case.divergence, case.X, case.n_classes)
        np.testing.assert_allclose(tuning.answers(case.X), said, rtol=0, atol=1e-9)
    assert (model.sharpness is not None) == fits.temperatures
    assert (model.relevances is not None) == fits.relevances
    if fits.relevances:
        assert model.relevances.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["squared_euclidean", "kullback_leibler", "mahalanobis", "half"])
@pytest.mark.parametrize("method", METHODS)
@examples(5)
@given(seed=seeds, cuts=st.lists(st.integers(0, 90), max_size=6), save=st.integers(0, 90))
def test_fine_tuning_cut_copied_or_pickled_goes_on_identically(method, name, seed, cuts, save):
    case = Case(name, seed, d=3, n=90, sizes=(1, 2))
    fits = Fits(temperatures=method is SoftTuning)
    whole, cut, first = (case.tuning(method, fits) for _ in range(3))
    answers = case.learn(whole, answer=True)
    pieces = []
    fed_in_pieces(lambda a, b: pieces.append(case.learn(cut, a, b, answer=True)), 90, cuts)
    np.testing.assert_array_equal(answers, np.concatenate(pieces))
    case.learn(first, 0, save)
    before = first.run.state()
    twin, pickled = first.copy(), pickle.loads(pickle.dumps(first))
    for tuning in (twin, pickled):
        case.learn(tuning, save)
        assert same_state(tuning.run.state(), whole.run.state())
        assert tuning.steps == whole.steps == cut.steps > 0
    assert same_state(first.run.state(), before), "a twin that is not by itself"
    assert same_state(cut.run.state(), whole.run.state())


def test_a_rate_of_zero_tests_and_learns_nothing():
    case = Case("squared_euclidean", 0)
    tuning = case.tuning(rate=0.0)
    answers = case.learn(tuning, answer=True)
    seen = case.w > 0
    said = case.start.posterior(case.divergence, case.X, case.n_classes)
    np.testing.assert_allclose(answers[seen], said[seen], atol=1e-12)
    assert tuning.steps == 0 and tuning.model() is case.start


# -- fit -------------------------------------------------------------------------------------------


def moons(n=300, seed=0, noise=0.3):
    return make_moons(n, noise=noise, random_state=seed)


@cache
def fitted(fine_tune="soft_lvq", level="vote"):
    return ODAClassifier(fine_tune=fine_tune, level=level, **FEW_LEVELS).fit(*moons())


@pytest.mark.parametrize(
    ("fine_tune", "factor"),
    [("soft_lvq", 2.0**-20), ("soft_lvq", 2.0**30), ("lvq", 0.25), ("glvq", 0.25)],
)
def test_data_times_a_power_of_two_gives_the_same_probabilities_to_the_bit(fine_tune, factor):
    X, y = moons()
    plain = fitted(fine_tune=fine_tune)
    scaled = ODAClassifier(fine_tune=fine_tune, **FEW_LEVELS).fit(X * factor, y)
    assert plain.chosen_ == scaled.chosen_
    np.testing.assert_array_equal(plain.predict_proba(X), scaled.predict_proba(X * factor))
    np.testing.assert_array_equal(plain.codevectors_ * factor, scaled.codevectors_)


@pytest.mark.parametrize("fine_tune", [*TUNINGS, None])
def test_the_same_random_state_reproduces_the_model_to_the_bit(fine_tune):
    X, y = moons()
    one = fitted(fine_tune=fine_tune)
    other, third = (
        ODAClassifier(fine_tune=fine_tune, **FEW_LEVELS | {"random_state": seed}).fit(X, y)
        for seed in (0, 1)
    )
    assert same_model(one, other)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), third.predict_proba(X))


@pytest.mark.parametrize("level", ["auto", "last"])
@pytest.mark.parametrize("fine_tune", [*TUNINGS, None])
def test_predictions_are_consistent_and_reading_changes_nothing(level, fine_tune):
    X, _ = moons()
    model = fitted(level=level, fine_tune=fine_tune)
    assert valid_model(model)
    before = pickle.dumps(model)
    wide = np.vstack([X, 1e3 * X, 1e-3 * X])
    P = model.predict_proba(wide)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(wide), model.classes_[P.argmax(axis=1)])
    np.testing.assert_array_equal(pickle.loads(before).predict_proba(wide), P)
    assert pickle.dumps(model) == before


DATA = {
    "moons": lambda: moons(200),
    "blobs": lambda: make_blobs(240, centers=5, cluster_std=3.0, n_features=4, random_state=1),
    "digits": lambda: tuple(a[:300] for a in load_digits(return_X_y=True)),
}


@pytest.mark.parametrize(("data", "fine_tune"), crossed(list(DATA), list(TUNINGS)))
def test_no_candidate_scores_below_its_level_as_annealed(data, fine_tune):
    X, y = DATA[data]()
    annealed = ODAClassifier(fine_tune=None, level="auto", **FEW_LEVELS, K_max=30).fit(X, y)
    tuned = ODAClassifier(fine_tune=fine_tune, level="auto", **FEW_LEVELS, K_max=30).fit(X, y)
    assert all(one.steps == 0 for one in annealed.candidates_)
    assert {c.n_codevectors for c in tuned.candidates_} == {
        c.n_codevectors for c in annealed.candidates_
    }
    best = {c.n_codevectors: c.score for c in annealed.candidates_}
    for one in tuned.candidates_:  # the same rows held out: nobody ends below its own start
        assert one.score >= best[one.n_codevectors]
    assert tuned.voters_[0].score >= annealed.voters_[0].score == max(best.values())


@pytest.mark.parametrize("level", ["vote", "auto", "last"])
def test_fine_tuning_that_destroys_is_not_kept(level, monkeypatch):
    """With absurd steps every candidate is best as annealed, on the same rows as without."""
    X, y = moons(150, noise=0.2)  # so few that all of them decide the temperature
    annealed = ODAClassifier(fine_tune=None, random_state=0).fit(X, y)
    monkeypatch.setattr(Tuning.__init__, "__defaults__", (100.0, 4000))
    # The coldest of a hundred codevectors for as many rows would be sure of itself to a fault,
    # and hardly better by its log loss than no model at all.
    K_max = 20 if level == "last" else "auto"
    model = ODAClassifier(level=level, K_max=K_max, random_state=0).fit(X, y)
    assert model.chosen_.steps == 0
    if level != "last":
        scores = {c.n_codevectors: c.score for c in annealed.candidates_}
        assert all(c.steps == 0 for c in model.candidates_)
        assert all(c.score == scores[c.n_codevectors] for c in model.candidates_)
    K = model.voters_[0].n_codevectors
    chosen = model._learner.annealer.path().codebook(K)
    np.testing.assert_array_equal(model.codevectors_[:K], chosen.codevectors)
    if level == "vote":
        return
    # Of its own temperature or one at which it is surer of the rows, but for a calibration.
    assert np.isclose(FACTORS, chosen.temperature / model.temperature_, rtol=1e-9).any()
    cooled = replace(chosen, temperature=chosen.temperature * model._learner.tuner.tempering)
    posterior = as_annealed(cooled, model._learner.log_prior(model._settings())).posterior(
        SquaredEuclidean(), X, 2
    )
    np.testing.assert_array_equal(model.predict(X), posterior.argmax(axis=1))


@pytest.mark.parametrize("fine_tune", [*TUNINGS, None])
def test_every_level_can_be_reached_and_answers_as_annealed(fine_tune, monkeypatch):
    X, y = moons()
    plain = fitted(level="last", fine_tune=None)
    monkeypatch.setattr(held_out, "falls_behind", lambda *_: False)  # the path is that of all rows
    model = ODAClassifier(fine_tune=fine_tune, **FEW_LEVELS).fit(X, y)
    path = model.path_
    assert len(path) == len(plain.path_) > 5
    for level in path:
        assert 0 <= level.score <= 1
        here, there = (m.at(temperature=level.temperature) for m in (model, plain))
        np.testing.assert_array_equal(here.codevectors_, level.codevectors)
        np.testing.assert_array_equal(here.feature_relevances_, np.ones(2))
        np.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X))
    for K in range(2, path[-1].n_codevectors + 1):
        assert len(model.at(n_codevectors=K).codevectors_) == K


def test_a_level_picked_in_a_stream_keeps_the_names_of_the_classes():
    """Whatever order they came in."""
    X, y = make_blobs(900, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    for names in itertools.permutations("abc"):
        labels = np.array(names)[y]
        model = ODAClassifier(**SHORT).partial_fit(X, labels)
        assert model.at(n_codevectors=3).score(X, labels) > 0.98
        assert set(model.at(n_codevectors=3).codevector_labels_) == set("abc")


def test_level_last_takes_the_coldest():
    X, y = moons()
    for fine_tune in TUNINGS:
        model = fitted(level="last", fine_tune=fine_tune)
        assert {c.n_codevectors for c in model.candidates_} == {model.path_[-1].n_codevectors}
        assert len(model.codevectors_) == model.path_[-1].n_codevectors
    plain = fitted(level="last", fine_tune=None)
    assert plain.candidates_ == () and plain.chosen_ is None
    np.testing.assert_allclose(  # weights of a codebook that tracks are normalised once more
        plain.predict_proba(X),
        plain.at(n_codevectors=plain.path_[-1].n_codevectors).predict_proba(X),
        atol=1e-12,
    )
    assert plain.score(X, y) > 0.9


# -- what fine-tuning is good for ------------------------------------------------------------------


def noisy_columns(n, seed, noise=20):
    """Moons in two columns, and others that say nothing."""
    X, y = make_moons(n, noise=0.15, random_state=seed)
    return np.hstack([X, np.random.default_rng(seed).normal(size=(n, noise))]), y


@pytest.mark.quality
def test_relevances_find_the_features_that_matter():
    X, y = noisy_columns(600, 0)
    X_new, y_new = noisy_columns(5000, 1)
    tuned = ODAClassifier(random_state=0).fit(X, y)
    annealed = ODAClassifier(fine_tune=None, random_state=0).fit(X, y)
    assert tuned.chosen_.relevances
    relevances = tuned.feature_relevances_
    assert relevances.shape == (22,) and (relevances > 0).all()
    assert relevances.mean() == pytest.approx(1.0)
    assert relevances[:2].min() > relevances[2:].max()
    # Twenty columns of noise cost the annealed model about 13 points.
    assert tuned.score(X_new, y_new) > annealed.score(X_new, y_new) + 0.05
    np.testing.assert_array_equal(annealed.feature_relevances_, np.ones(22))


def gaussians(n, seed):
    """Two Gaussians that overlap, and p(1|x)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + np.where(y, 0.75, -0.75)[:, None]
    return X, y, 1 / (1 + np.exp(-1.5 * X.sum(axis=1)))


def calibration_error(y, p, bins=15):
    """Expected calibration error: how far probabilities and frequencies are apart."""
    which = np.minimum((p * bins).astype(int), bins - 1)
    gaps = np.bincount(which, y - p, minlength=bins)
    return np.abs(gaps).sum() / len(y)


@pytest.mark.quality
def test_probabilities_are_close_to_bayes():
    X_new, y_new, bayes = gaussians(20000, 99)
    losses, errors = [], []
    for seed in range(5):
        X, y, _ = gaussians(1000, seed)
        models = (
            ODAClassifier(random_state=seed),
            ODAClassifier(level="last", fine_tune=None, random_state=seed),
        )
        P = [model.fit(X, y).predict_proba(X_new)[:, 1] for model in models]
        losses.append([log_loss(y_new, p) / log_loss(y_new, bayes) for p in P])
        errors.append([calibration_error(y_new, p) for p in P])
    (tuned, plain), (off, plain_off) = np.transpose(losses), np.transpose(errors)
    # Over 24 seeds: fine-tuned 1.022 times Bayes' log loss (at most 1.084), the coldest level 1.20
    # (1.11 to 1.32). Calibration errors: fine-tuned .026 (at most .062; a mean of five varies by
    # .006), the coldest level .032 (.019 to .053), and Bayes' own .009.
    assert tuned.max() < 1.2 and tuned.mean() < 1.06, tuned
    assert tuned.mean() < plain.mean() - 0.03, (tuned, plain)
    assert off.max() < 0.08 and off.mean() < 0.04, off
    assert off.mean() < plain_off.mean() + 0.01, (off, plain_off)


def test_calibration_finds_the_power_that_fits_and_changes_no_decision():
    """Probabilities that are too sure, or not sure enough, by a known power."""
    rng = np.random.default_rng(0)
    right = rng.dirichlet(np.ones(3), size=20000)
    y = np.array([rng.choice(3, p=p) for p in right])
    judge = Scorer(y, np.ones(len(y)), None)
    for power in (0.4, 1.0, 4.0):
        # 20000 rows tell the power to about 1 %.
        found = judge.calibration(Calibration(power)(right))
        assert found.power == pytest.approx(1 / power, rel=0.05)
        assert 0 < found.doubt < 0.005  # nothing was beyond all doubt, nor out of the blue
    X, _ = moons()
    for fine_tune in ("soft_lvq", None):
        model = deepcopy(fitted(fine_tune))
        tuner, P = model._learner.tuner, model.predict_proba(X)
        calibration = Calibration(tuner.calibration, tuner.doubt)
        assert calibration.power != 1 and 0 < calibration.doubt < 0.1
        tuner.calibration, tuner.doubt = 1.0, 0.0
        np.testing.assert_allclose(calibration(model.predict_proba(X)), P, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])


def test_no_class_of_a_row_is_impossible():
    """A model that is sure beyond measure, and wrong in one row of a hundred."""
    rng = np.random.default_rng(0)
    answers = np.full((5000, 4), 1e-40)
    y = rng.integers(4, size=5000)
    answers[np.arange(5000), y] = 1.0
    y[:50] = (y[:50] + 1) % 4
    judge = Scorer(y, np.ones(len(y)), None)
    calibration = judge.calibration(answers)
    assert 0.008 < calibration.doubt < 0.014  # a fourth of .0133 is right; the power takes a part
    right_class = calibration(answers)[np.arange(5000), y]
    # As sure as the rows are: 99 % of them of one class, 1 % of the three others.
    assert -np.log(right_class).mean() < -0.99 * np.log(0.99) - 0.01 * np.log(0.01 / 3) + 0.002


# -- scoring, class weights, priors ----------------------------------------------------------------


def rare(n, seed):
    """One row in fifteen is of class 1, which lies inside the other."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=n) < 1 / 15).astype(int)
    X = rng.normal(size=(n, 2)) * np.where(y, 0.7, 1.5)[:, None] + np.where(y, 1.0, 0.0)[:, None]
    return X, y


def test_a_scorer_by_name_and_as_a_callable_decide_alike():
    X, y = rare(tries(150, 250), 0)
    heard = []

    def f1(estimator, rows, labels):
        heard.append(f1_score(labels, estimator.predict(rows)))
        assert estimator.predict_proba(rows).shape == (len(labels), 2)
        return heard[-1]

    models = [
        ODAClassifier(scoring=scoring, **SHORT).fit(X, y)
        for scoring in ("f1", f1, make_scorer(f1_score))
    ]
    for model in models:
        assert model.candidates_ == models[0].candidates_
        np.testing.assert_array_equal(model.predict_proba(X), models[0].predict_proba(X))
    assert max(heard) > 0
    for one in models[0].candidates_:  # an F1 but for what tells equals apart
        assert min(abs(one.score + 1e-6 * one.log_loss - value) for value in heard) < 1e-12
        assert -1e-4 < one.score <= 1
    default = ODAClassifier(**SHORT).fit(X, y)
    assert default.candidates_ != models[0].candidates_


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "neg_brier_score"])
def test_scorers_of_probabilities_are_given_what_they_accept(scoring):
    """They refuse 1 + 2e-16, and warn of sums that are 1 in single precision only."""
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], p=[0.8, 0.1, 0.1], size=400)
    X = rng.normal(size=(400, 4)) + 3.0 * (y[:, None] == np.array(["b", "c", "", ""]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ODAClassifier(scoring=scoring, **SHORT).fit(X, y)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_scorer_hears_the_labels_of_the_user(verb):
    X, y = stream(5000 if verb == "partial_fit" else 300)
    assert y[0] == "z"
    labels = set()

    def score(estimator, rows, truth):
        labels.update(truth)
        labels.update(estimator.predict(rows))
        assert list(estimator.classes_) == ["m", "z"]
        return accuracy_score(truth, estimator.predict(rows))

    model = ODAClassifier(scoring=score, **SHORT)
    getattr(model, verb)(X, y)
    assert labels == {"m", "z"}
    for one in model.candidates_:
        assert one.score == pytest.approx(one.accuracy, abs=1e-5)
    assert model.score(X, y) > 0.75  # Bayes: 0.82


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_an_unknown_scorer_is_an_error(verb):
    with pytest.raises(ValueError, match="scoring"):
        getattr(ODAClassifier(scoring="nonsense"), verb)(*moons(50))


def recalls(model, X, y):
    right = model.predict(X) == y
    return np.array([right[y == c].mean() for c in (0, 1)])


@pytest.mark.parametrize(("verb", "fine_tune"), crossed(["fit", "partial_fit"], [*TUNINGS, None]))
def test_class_weights_and_priors_raise_the_recall_of_a_rare_class(fine_tune, verb):
    X, y = rare(5000 if verb == "partial_fit" else 600, 0)
    X_new, y_new = rare(2000, 1)
    settings_ = SHORT | {"fine_tune": fine_tune}
    found = {}
    for name, extra in {
        "plain": {},
        "balanced": {"class_weight": "balanced"},
        "weights": {"class_weight": {1: 14.0}},  # as many as balanced
        "priors": {"priors": [0.5, 0.5]},
    }.items():
        model = ODAClassifier(**settings_, **extra)
        getattr(model, verb)(X, y)
        assert model.chosen_ is not None
        assert valid_model(model)
        found[name] = recalls(model, X_new, y_new)
    for name in ("balanced", "weights", "priors"):
        # Bayes' recall of the rare class: 0.1 as it is, 0.9 with equal priors.
        assert found[name][1] > found["plain"][1] + 0.3, (name, found)
        assert found[name].mean() > 0.72, (name, found)


WITHOUT_WEIGHT = {
    "weight": {"class_weight": {2: 0.0}},
    "prior": {"priors": [0.5, 0.5, 0.0]},
}


@pytest.mark.parametrize(
    ("how_and_verb", "fine_tune"),
    crossed(
        list(itertools.product(WITHOUT_WEIGHT, ["fit", "partial_fit"])),
        [*TUNINGS, None],
    ),
)
def test_a_class_without_weight_is_never_predicted_and_does_no_harm(how_and_verb, fine_tune):
    """Its bias is -inf: the others are fine-tuned and calibrated all the same."""
    how, verb = WITHOUT_WEIGHT[how_and_verb[0]], how_and_verb[1]
    X, y = make_blobs(
        5000 if verb == "partial_fit" else 300, centers=[[0, 0], [2, 0], [1, 2]], random_state=0
    )
    model = ODAClassifier(**SHORT, **how, fine_tune=fine_tune)
    getattr(model, verb)(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(P).all() and (P[:, 2] == 0).all()
    if verb == "fit":  # in a stream samples or means may answer, of classes with any weight
        assert valid_model(model)
    assert all(np.isfinite([c.score, c.accuracy, c.log_loss]).all() for c in model.candidates_)
    if fine_tune == "soft_lvq":
        assert any(c.steps > 0 for c in model.candidates_)
    others = y < 2
    # Bayes is right about 84 of 100 and has a log loss of 0.35.
    assert (P.argmax(axis=1) == y)[others].mean() > 0.8
    assert log_loss(y[others], P[others][:, :2]) < 0.45


# -- streams ---------------------------------------------------------------------------------------


def stream(n=8600, classes=2, seed=0):
    """Classes that overlap, named so that they do not come in sorted order."""
    X, y = make_blobs(
        n, centers=[[0, 0], [1.5, 1], [3, -1]][:classes], n_features=2, random_state=seed
    )
    y[[0, np.flatnonzero(y == 1)[0]]] = 1, y[0]
    return X, np.array(["m", "z", "a"])[y]


def fed(model, X, y, cuts=(), w=None, reads=False):
    for a, b in itertools.pairwise([0, *sorted(c for c in cuts if c < len(X)), len(X)]):
        if a < b and (w is None or w[a:b].any()):  # rows without any weight are refused
            model.partial_fit(X[a:b], y[a:b], sample_weight=None if w is None else w[a:b])
            if reads:
                model.predict_proba(X[:3])
    return model


def race_begins(X, y, **parameters):
    """How many rows of the stream are learnt when the race at the end of the ladder begins."""
    model = ODAClassifier(**parameters)
    for k in range(0, len(X), 100):
        model.partial_fit(X[k : k + 100], y[k : k + 100])
        if model._learner.tuner.ladders:
            assert model._learner.tuner.racing
            return k
    raise AssertionError("the stream is too short for a race")


@cache
def whole_stream(fine_tune, level, weighted):
    X, y = stream()
    w = stream_weights() if weighted else None
    model = fed(ODAClassifier(**SHORT, fine_tune=fine_tune, level=level), X, y, w=w)
    raced = level == "auto" or fine_tune is not None
    assert (model.chosen_ is not None) == raced, "the race is not over"
    return model


def stream_weights():
    return np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], size=8600)


@pytest.mark.parametrize("level", ["auto", "last"])
@examples(4)
@given(
    cuts=st.lists(st.integers(0, 8000), max_size=12), weighted=st.booleans(),
    fine_tune=st.sampled_from(["soft_lvq", "soft_lvq", "lvq", "glvq", None]),
)  # fmt: skip
def test_any_chunking_of_a_race_and_what_follows_is_bit_identical(level, cuts, weighted, fine_tune):
    X, y = stream()
    w = stream_weights() if weighted else None
    whole = whole_stream(fine_tune, level, weighted)
    model = ODAClassifier(**SHORT, fine_tune=fine_tune, level=level)
    cut = fed(model, X, y, cuts, w, reads=True)
    assert same_model(whole, cut)
    assert same_tuner(whole, cut)
    np.testing.assert_array_equal(whole.predict_proba(X[:200]), cut.predict_proba(X[:200]))


@pytest.mark.parametrize("fine_tune", tries(["soft_lvq", None], [*TUNINGS, None]))
def test_a_model_pickled_or_copied_in_the_race_goes_on_identically(fine_tune):
    X, y = stream()
    parameters = SHORT | {"fine_tune": fine_tune}
    middle = race_begins(X, y, **parameters) + LENGTH // 2 + 3
    half = fed(ODAClassifier(**parameters), X[:middle], y[:middle])
    assert half._learner.tuner.racing and half._learner.tuner.ladders == 1
    before = half.predict_proba(X[:50])
    for twin in (pickle.loads(pickle.dumps(half)), deepcopy(half)):
        fed(twin, X[middle:], y[middle:])
        whole = whole_stream(fine_tune, "auto", False)
        assert same_model(whole, twin) and same_tuner(whole, twin)
    np.testing.assert_array_equal(half.predict_proba(X[:50]), before)


def test_an_error_at_the_end_of_the_race_leaves_the_model_as_it_was():
    X, y = stream()
    middle = race_begins(X, y, **SHORT) + LENGTH // 2
    broken = [True]

    def score(estimator, rows, labels):
        if broken and len(labels) >= LENGTH // 2:  # not those on the way
            raise RuntimeError("no score today")
        return accuracy_score(labels, estimator.predict(rows))

    model = fed(ODAClassifier(**SHORT, scoring=score), X[:middle], y[:middle])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no score today"):
            model.partial_fit(X[middle:], y[middle:])
    broken.clear()
    fed(model, X[middle:], y[middle:])
    whole = fed(ODAClassifier(**SHORT, scoring=score), X, y)
    assert whole.chosen_ is not None
    assert same_model(whole, model) and same_tuner(whole, model)


def test_after_the_race_the_best_candidate_predicts_and_goes_on_learning():
    X, y = stream()
    model = whole_stream("soft_lvq", "auto", False)
    assert valid_model(model)
    assert not model._learner.tuner.racing
    assert model.chosen_ in model.candidates_
    # The one that answered before stays unless it is clearly beaten.
    assert model.chosen_.score > max(c.score for c in model.candidates_) - 0.05
    assert 2 < len(model.candidates_) <= SURVIVORS + 6  # companions, leader and twins besides
    assert np.isnan([level.score for level in model.path_]).all()
    further = fed(deepcopy(model), X[:500], y[:500])
    assert further.candidates_ == model.candidates_
    assert not np.array_equal(further.predict_proba(X), model.predict_proba(X))


def test_a_race_that_fine_tuning_spoils_is_not_won_by_it(monkeypatch):
    monkeypatch.setattr(Tuning.__init__, "__defaults__", (100.0, 4000))
    X, y = stream()
    model = fed(ODAClassifier(**SHORT), X, y)
    assert model._learner.tuner.tunings == []
    assert len(model.codevectors_) == model.chosen_.n_codevectors
    assert valid_model(model)
    further = fed(deepcopy(model), X[:300], y[:300])  # it goes on
    assert not np.array_equal(further.codevectors_, model.codevectors_)


@examples(3)
@given(cuts=st.lists(st.integers(0, 17000), max_size=8))
def test_a_class_that_comes_after_the_race_starts_another(cuts):
    X, y = stream(17000, classes=3)
    late = np.flatnonzero(y == "a")
    X, y = np.delete(X, late[late < 7500], 0), np.delete(y, late[late < 7500])
    first = int(np.flatnonzero(y == "a")[0])
    before = fed(ODAClassifier(**SHORT), X[:first], y[:first])
    assert before.chosen_ is not None
    old = np.isin(y[:first], ["m", "z"])
    assert old.all()
    score = before.score(X[:first], y[:first])
    model = fed(deepcopy(before), X[first : first + 50], y[first : first + 50])
    assert model.chosen_ is None and model.candidates_ == ()  # back to the levels as annealed
    assert model.score(X[:first], y[:first]) > score - 0.05
    whole = fed(deepcopy(model), X[first + 50 :], y[first + 50 :])
    assert whole.chosen_ is not None and set(whole.codevector_labels_) == {"a", "m", "z"}
    assert valid_model(whole)
    cut = fed(ODAClassifier(**SHORT), X, y, cuts, reads=True)
    assert same_model(whole, cut) and same_tuner(whole, cut)
    np.testing.assert_array_equal(whole.predict_proba(X[:200]), cut.predict_proba(X[:200]))


@pytest.mark.parametrize("fine_tune", [*TUNINGS, None])
@examples(3)
@given(cuts=st.lists(st.integers(0, 500), max_size=6), weighted=st.booleans())
def test_a_fitted_model_goes_on_in_a_stream_however_it_is_cut(fine_tune, cuts, weighted):
    X, y = stream(900)
    w = stream_weights()[:500] if weighted else None
    start = ODAClassifier(**SHORT, fine_tune=fine_tune).fit(X[500:], y[500:])
    whole = fed(deepcopy(start), X[:500], y[:500], w=w)
    cut = fed(deepcopy(start), X[:500], y[:500], cuts, w, reads=True)
    assert same_model(whole, cut) and same_tuner(whole, cut)
    assert whole.chosen_ == start.chosen_
    assert not np.array_equal(whole.predict_proba(X), start.predict_proba(X))
    assert whole.score(X, y) > start.score(X, y) - 0.03


@pytest.mark.quality
def test_a_fine_tuned_stream_is_as_good_as_the_annealed_one_on_digits():
    X, y = load_digits(return_X_y=True)
    scores = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        test, learn = order[:500], np.tile(order[500:], 15)
        for fine_tune in ("soft_lvq", None):
            model = ODAClassifier(
                gamma=0.6, samples_per_codevector=10, fine_tune=fine_tune, random_state=0,
                recent_samples=0,  # rows that come again and again would find themselves
            )  # fmt: skip
            P = fed(model, X[learn], y[learn]).predict_proba(X[test])
            assert model.chosen_ is not None
            scores.append([accuracy_score(y[test], P.argmax(axis=1)), log_loss(y[test], P)])
    tuned, annealed = np.mean(scores[::2], axis=0), np.mean(scores[1::2], axis=0)
    # Of the order of 97.2 against 97.3 of 100 right; with samples that are kept both 98.2.
    assert tuned[0] > annealed[0] - 0.01 and tuned[0] > 0.96, scores
    assert tuned[1] < 2 * annealed[1], scores


# -- whatever the data -----------------------------------------------------------------------------


def rows_of_two_classes(name, n=80):
    rng = np.random.default_rng(0)
    X = rows_for(name, rng, n, 3)
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    return X, np.where(rng.uniform(size=n) < 0.1, 1 - y, y)


@pytest.mark.parametrize(
    ("name", "fine_tune", "level"),
    crossed([*BUILT_IN, "half"], [*TUNINGS, None], ["auto", "last"]),
)
def test_every_divergence_with_every_fine_tuning_gives_a_valid_model(
    name, fine_tune, level, monkeypatch
):
    X, y = rows_of_two_classes(name)
    divergence = divergence_for(name, np.random.default_rng(0), 3)
    parameters = SHORT
    if name == "half":  # NumPy takes its time
        parameters = SHORT | {"gamma": 0.3, "K_max": 4}
        X, y = X[:40], y[:40]
        monkeypatch.setattr("annealed.fine_tuning.candidates.SURVIVORS", {12: 2, 24: 1})
        monkeypatch.setattr("annealed.fine_tuning.candidates.MOST_STEPS", 24)
        monkeypatch.setattr("annealed.fine_tuning.candidates.MOST_PASSES", 1)
    model = ODAClassifier(divergence=divergence, fine_tune=fine_tune, level=level, **parameters)
    model.fit(X, y)
    assert valid_model(model)
    divergence.check(model.codevectors_)
    assert model.score(X, y) > 0.7
    K = len(model.codevectors_)
    model.partial_fit(X, y)
    assert valid_model(model) and len(model.codevectors_) == K


THIRTY = "thirty classes of five rows"
DEGENERATE = {
    "two rows": (np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1]),
    "two rows of one class": (np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 0]),
    "one class": (np.random.default_rng(0).normal(size=(40, 2)), np.zeros(40, dtype=int)),
    "classes of one row": (np.random.default_rng(0).normal(size=(6, 2)), np.arange(6)),
    "one class of one row": (np.random.default_rng(0).normal(size=(41, 2)), [1] + [0] * 40),
    "identical rows": (np.ones((30, 2)), [0, 1] * 15),
    "one class of identical rows": (
        np.vstack([np.ones((20, 2)), np.random.default_rng(0).normal(size=(20, 2))]),
        [0] * 20 + [1] * 20,
    ),
    "constant features": (
        np.hstack([np.random.default_rng(0).normal(size=(60, 1)), np.full((60, 3), 7.0)]),
        [0, 1] * 30,
    ),
    THIRTY: (
        np.random.default_rng(0).normal(size=(150, 3)) + 9.0 * np.repeat(np.arange(30), 5)[:, None],
        np.repeat(np.arange(30), 5),
    ),
    "float32": (moons(100)[0].astype(np.float32), moons(100)[1]),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "data, fine_tune",
    [
        *crossed([data for data in DEGENERATE if data != THIRTY], [*TUNINGS, None]),
        (THIRTY, "soft_lvq"),  # which takes its time
    ],
)
def test_degenerate_data_gives_a_valid_model(data, fine_tune):
    X, y = DEGENERATE[data]
    y = np.asarray(y)
    model = ODAClassifier(fine_tune=fine_tune, **FEW_LEVELS).fit(X, y)
    assert valid_model(model)
    assert list(model.classes_) == sorted(set(y.tolist()))
    P = model.predict_proba(X)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-9)
    if data in ("two rows", THIRTY, "classes of one row"):
        assert model.score(X, y) == 1.0
    if data == THIRTY:  # K_max="auto": ten for each class
        assert model._learner.annealer.K_max == 300
        assert max(c.n_codevectors for c in model.candidates_) > 100
    again = ODAClassifier(fine_tune=fine_tune, **FEW_LEVELS).partial_fit(X, y).partial_fit(X, y)
    assert np.isfinite(again.predict_proba(X)).all()
    model.partial_fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


# -- what is returned is what was tested -------------------------------------------------------


def xor_rows(seed):
    """Two of ten features matter, and neither says anything by itself."""
    X = np.random.default_rng(seed).normal(size=(5000, 10))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("seed", [0, 4, 13])
def test_a_refit_that_falls_into_another_solution_is_not_returned(seed):
    # Annealings of the same rows end right (.99) or half right (.75), by chance: seed 0 was .9980
    # on rows held out and .7407 on fresh ones. 3 points are three standard errors of 1000 rows
    # held out at 90 %.
    X, y = xor_rows(seed)
    fresh, truth = xor_rows(seed + 1000)
    model = ODAClassifier(random_state=seed).fit(X, y)
    assert model.score(fresh, truth) > model.chosen_.accuracy - 0.03
    assert len(model.codevectors_) == model.chosen_.n_codevectors
    assert model.at(n_codevectors=model.voters_[0].n_codevectors).predict(X[:5]).shape == (5,)


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "params, wanted",
    [({}, 0.7), ({"level": "last", "fine_tune": None}, 0.7), ({"class_weight": "balanced"}, 0.5)],
)
def test_features_that_say_nothing_give_the_prior(verb, params, wanted):
    X, y = np.full((100, 2), 3.0), np.repeat(["a", "b"], [70, 30])
    model, tolerance = ODAClassifier(random_state=0, **params), 1e-7
    if verb == "partial_fit":  # the latest count more, and one class after the other is a change
        X, y = np.tile(X, (5, 1)), np.random.default_rng(0).permutation(np.tile(y, 5))
        tolerance = 0.05
    getattr(model, verb)(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X[:2]), [[wanted, 1 - wanted]] * 2, atol=tolerance
    )
    assert model.predict_proba_one([3.0, 3.0]) == pytest.approx(
        {"a": wanted, "b": 1 - wanted}, abs=tolerance
    )
