"""Every parameter and every fitted attribute of the public estimators is documented."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import annealed
from annealed import TabularModel
from annealed.tables.model import DELEGATED

ESTIMATORS = [
    annealed.DeterministicAnnealing,
    annealed.LVQClassifier,
    annealed.ODAClassifier,
    annealed.ODAClustering,
    annealed.StochasticVQ,
    annealed.TablePreprocessor,
    annealed.TabularModel,
]
OTHERS = [annealed.BregmanDivergence, annealed.DriftDetector, annealed.Mahalanobis]


def documented(kind, section):
    """The names in a section of the docstring of a class, as numpydoc writes them."""
    lines = inspect.cleandoc(kind.__doc__).splitlines()
    begin = lines.index(section) + 2
    underlines = [k for k in range(begin, len(lines)) if lines[k] and not lines[k].strip("-")]
    end = underlines[0] - 1 if underlines else len(lines)
    entries = [line for line in lines[begin:end] if line and not line.startswith(" ")]
    return {name.strip() for entry in entries for name in entry.split(" : ")[0].split(",")}


def fitted_attributes(model):
    """What ends in an underscore and can be read."""
    names = {name for name in dir(model) if name.endswith("_") and not name.startswith("_")}
    return {name for name in names if hasattr(model, name)}


def test_every_public_class_is_looked_at():
    classes = {
        found for name in annealed.__all__ if inspect.isclass(found := getattr(annealed, name))
    }
    rest = {annealed.AnnealingPath, annealed.ModelFileError}  # made by us, not by a user
    assert classes == {*ESTIMATORS, *OTHERS} | rest


@pytest.mark.parametrize("kind", ESTIMATORS + OTHERS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_documented(kind):
    assert documented(kind, "Parameters") == {*inspect.signature(kind).parameters}


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_fitted_attribute_is_documented(kind, blobs):
    X, y = blobs[0][::6], blobs[1][::6]
    model = kind()
    quick = {"random_state": 0, "gamma": 0.6}
    model.set_params(**{name: quick[name] for name in quick if name in model.get_params()})
    assert fitted_attributes(model.fit(X, y)) - documented(kind, "Attributes") == set()


def test_every_attribute_of_a_model_of_tables_is_documented(blobs):
    """It clusters too, and hands on what its estimator has."""
    told = documented(TabularModel, "Attributes")
    assert fitted_attributes(TabularModel().fit(blobs[0][::6])) - told == set()
    assert {*DELEGATED} - told == set()


def test_a_parameter_that_is_not_documented_is_noticed():
    class Kind:
        """Something.

        Parameters
        ----------
        a, b : int
            Two.

        Attributes
        ----------
        c_
        """

        def __init__(self, a, b, c):
            self.c_ = np.sum([a, b, c])

    assert {*inspect.signature(Kind).parameters} - documented(Kind, "Parameters") == {"c"}
    assert fitted_attributes(Kind(1, 2, 3)) == documented(Kind, "Attributes")
