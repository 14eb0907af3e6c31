"""What every path and every fitted model must satisfy, whatever the data."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import numpy as np


def valid_level(level, n_classes):
    """Shapes agree, nothing is nan, weights sum to one within each class."""
    K = level.n_codevectors
    assert level.codevectors.ndim == 2 and len(level.codevectors) == K
    assert level.weights.shape == level.classes.shape == level.nodes.shape == (K,)
    assert level.parents.shape == (K,)
    assert np.isfinite(level.codevectors).all()
    assert (level.weights > 0).all()
    assert set(level.classes.tolist()) == set(range(n_classes)), "a class has no codevector"
    np.testing.assert_allclose(
        np.bincount(level.classes, weights=level.weights, minlength=n_classes), 1.0, rtol=1e-9
    )
    nodes = list(zip(level.classes.tolist(), level.nodes.tolist(), strict=True))
    assert len(set(nodes)) == K, "two codevectors share a place in the tree"
    return True


def valid_path(path, n_classes=1):
    """Temperatures fall, parents exist, splits form a binary tree, every K is on the path."""
    assert len(path) > 0
    T = path.temperatures
    assert (T > 0).all() and (np.diff(T) < 0).all()
    assert path.n_codevectors[0] == n_classes
    assert (path[0].parents == -1).all()
    for level in path:
        assert valid_level(level, n_classes)
    for before, level in pairwise(path):
        assert ((level.parents >= 0) & (level.parents < before.n_codevectors)).all()
        np.testing.assert_array_equal(before.classes[level.parents], level.classes)
        assert level.samples > before.samples
    assert valid_tree(path, n_classes)
    for K in range(n_classes, path[-1].n_codevectors + 1):
        level = path.codebook(K)
        assert level.n_codevectors == K
        assert valid_level(level, n_classes)
    return True


def valid_energies(path):
    """D, H and F are those of K codevectors: H is at most log K, and F = D - T H."""
    for level in path:
        assert level.distortion >= 0
        assert -1e-9 <= level.entropy <= np.log(level.n_codevectors) + 1e-9
        assert level.free_energy == level.distortion - level.temperature * level.entropy
    return True


def valid_tree(path, n_classes):
    """Lasting splits make a binary tree, parents before children, cooling downwards."""
    assert len(path.splits) == path[-1].n_codevectors - n_classes
    assert {id(s) for s, _ in path.ordered_splits} == {id(s) for s in path.splits}
    born = {(c, 0) for c in range(n_classes)}
    mother = {}
    for split in path.events:
        for child in split.children:
            assert (split.class_index, child) not in mother, "a codevector with two parents"
            mother[split.class_index, child] = split.class_index, split.parent
    inner = [(s.class_index, s.parent) for s in path.splits]
    assert len(set(inner)) == len(inner), "a codevector that split twice and lasted"
    counted = [T for _, T in path.ordered_splits]
    assert (np.diff(counted) <= 0).all()
    for split, T in path.ordered_splits:
        node = split.class_index, split.parent
        while node not in born:  # up through splits of which only one side lives on
            assert node in mother, "a child before its parent"
            node = mother[node]
        assert split.critical_temperature > 0 and T > 0
        assert 0 <= split.level < len(path)
        born |= {(split.class_index, child) for child in split.children}
    leaves = set(zip(path[-1].classes.tolist(), path[-1].nodes.tolist(), strict=True))
    assert not leaves & set(inner)
    return True


def valid_model(est):
    """The public attributes agree with each other and with the path."""
    classes = getattr(est, "classes_", None)
    n_classes = 1 if classes is None else len(set(est.codevector_labels_.tolist()))
    K, d = est.codevectors_.shape
    assert d == est.n_features_in_
    assert est.weights_.shape == (K,)
    assert est.temperature_ >= 0
    assert len(est.get_feature_names_out()) == K
    assert np.isfinite(est.codevectors_).all()
    if classes is None:
        assert est.n_clusters_ == K == len(est.cluster_centers_)
        np.testing.assert_allclose(est.weights_.sum(), 1.0, rtol=1e-9)
    else:
        assert est.codevector_labels_.shape == (K,)
        for label in set(est.codevector_labels_.tolist()):
            assert label in classes
            of_class = est.codevector_labels_ == label
            np.testing.assert_allclose(est.weights_[of_class].sum(), 1.0, rtol=1e-9)
        if hasattr(est, "candidates_"):
            assert valid_choice(est)
    if len(est.path_):
        assert valid_path(est.path_, n_classes)
    return True


def valid_choice(est):
    """What was chosen is the size of the model and its voters are; relevances have mean one."""
    relevances = est.feature_relevances_
    assert relevances.shape == (est.n_features_in_,)
    assert (relevances > 0).all()
    np.testing.assert_allclose(relevances.mean(), 1.0, rtol=1e-9)
    if est.chosen_ is None:
        assert est.candidates_ == est.voters_ == ()
        if (
            est._learner.tuner is None or not est._learner.tuner.racing
        ):  # else whoever leads the race answers
            np.testing.assert_array_equal(relevances, 1.0)
        return True
    assert valid_voters(est)
    if not est.chosen_.relevances or est.chosen_.steps == 0:
        np.testing.assert_array_equal(relevances, 1.0)
    for one in (est.chosen_, *est.candidates_):
        assert np.isfinite(one.score)
        assert 0 <= one.accuracy <= 1 + 1e-9
        assert one.log_loss >= 0
        assert one.steps >= 0
    return True


def same_path(first, second, **tolerance):
    """Two paths are equal: to the last bit, or within ``rtol``/``atol`` if given."""
    np.testing.assert_array_equal(first.n_codevectors, second.n_codevectors)
    assert [s.children for s in first.events] == [s.children for s in second.events]
    for one, other in zip(first, second, strict=True):
        for name in ("classes", "nodes", "parents", "samples"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("temperature", "codevectors", "weights", "distortion", "entropy"):
            _close(getattr(one, name), getattr(other, name), **tolerance)
    return True


def same_model(first, second, **tolerance):
    """Two fitted estimators are equal: to the last bit, or within ``rtol``/``atol`` if given."""
    assert same_path(first.path_, second.path_, **tolerance)
    for name in ("temperature_", "codevectors_", "weights_"):
        _close(getattr(first, name), getattr(second, name), **tolerance)
    return True


def same_tuner(first, second):
    """Two classifiers stand alike in their race, or fine-tune alike after it: to the last bit."""
    one, other = first._learner.tuner, second._learner.tuner
    assert first._learner.record == second._learner.record
    if one is None or other is None:
        assert one is other
        return True
    for name in ("candidates", "chosen", "voters", "since", "due", "ladders", "calibration",
                 "doubt", "tempering", "speaker", "earlier", "answering"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(one.shares, other.shares)
    assert (one.race is None) == (other.race is None)
    runs = []
    for tutor in (one, other):
        runs.append([each.run.state() for each in (*tutor.all_tunings, *tutor.all_nearest)])
    for mine, yours in zip(*runs, strict=True):
        assert mine.keys() == yours.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], yours[name])
    if one.race is not None:
        assert (one.race.seen, one.race.leader) == (other.race.seen, other.race.leader)
        for mine, yours in zip(one.race.answers, other.race.answers, strict=True):
            np.testing.assert_array_equal(mine, yours)
    return True


def valid_voters(est):
    """Each of the candidates that predict has its codevectors and its share."""
    shares = [voter.share for voter in est.voters_]
    assert 1 <= len(shares) <= 8
    assert min(shares) >= 0.02 and shares == sorted(shares, reverse=True)
    np.testing.assert_allclose(sum(shares), 1.0, rtol=1e-9)
    sizes = [voter.n_codevectors for voter in est.voters_]
    assert np.bincount(est.codevector_voters_).tolist() == sizes
    # An annealing without some of the rows may end with fewer codevectors.
    candidates = [asdict(one) | {"n_codevectors": 0} for one in est.candidates_]
    for voter in est.voters_:
        named = asdict(voter) | {"n_codevectors": 0}
        del named["share"]
        if voter.steps:  # as annealed, whatever would have been fitted
            assert named in candidates
    assert sum(sizes) == est.chosen_.n_codevectors
    return True


def _close(one, other, **tolerance):
    if tolerance:
        np.testing.assert_allclose(one, other, **tolerance)
    else:
        np.testing.assert_array_equal(one, other)
