"""The bifurcation diagram: where the codevectors are, and where they split, as T falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from annealed.divergences import Array
from annealed.path import AnnealingPath, Integers, Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PathCollection

# Okabe and Ito's colours, which people with any kind of colour vision tell apart, less the yellow
# and black: the one is lost on white, the other among the grey of what branches share.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
SHARED = "#8c8c8c"
# Beyond two rounds of the palette, the second darker, colours no longer tell branches apart.
MOST_BRANCHES = 2 * len(PALETTE)
WIDEST = 7.0  # points, for a codevector of weight one

Node = tuple[int, int]  # class and number within the class


class BifurcationDisplay:
    """Bifurcation diagram of an annealing, hot on the left and cold on the right.

    Every codevector that lasts to the coldest level is a line, as thick as its weight. Use
    `from_estimator` or `from_path`; the parameters here are what those compute.

    Parameters
    ----------
    path : AnnealingPath
    positions : list of ndarray of shape (K,)
        For each level, where its codevectors stand on the vertical axis.
    position_name : str
        What the vertical axis shows.
    branches : list of ndarray of shape (K,)
        For each level, the branch of every codevector; -1 for one that several branches share.
    branch_names : sequence of str
        Names of the branches, for the legend.
    current : Level, optional
        The level in use, to be marked.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of LineCollection
        One for each branch, after one for what they share.
    splits_ : PathCollection
        A point for each split, at its critical temperature.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws into files, needs no screen
    >>> from annealed import ODAClustering
    >>> from annealed.plots import BifurcationDisplay
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(1000, centers=5, cluster_std=0.6, random_state=3)
    >>> model = ODAClustering(random_state=0).fit(X)
    >>> display = BifurcationDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'temperature T (hot to cold)'
    """

    def __init__(
        self,
        path: AnnealingPath,
        *,
        positions: list[Array],
        position_name: str,
        branches: list[Integers],
        branch_names: Sequence[str],
        current: Level | None = None,
    ) -> None:
        self.path = path
        self.positions = positions
        self.position_name = position_name
        self.branches = branches
        self.branch_names = branch_names
        self.current = current

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, feature: int | str | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the path of a fitted estimator and mark the level it predicts with.

        Parameters
        ----------
        estimator : ODAClustering or ODAClassifier
            Fitted. Of a pipeline, give the last step.
        feature : int or str, optional
            The feature on the vertical axis, by index or name. Left out, the direction along which
            the coldest codevectors differ most: their first principal component.
        ax : matplotlib Axes, optional
            Where to draw; left out, a new figure.

        Returns
        -------
        BifurcationDisplay
        """
        return cls.from_path(
            estimator.path_,
            feature=feature,
            feature_names=getattr(estimator, "feature_names_in_", None),
            class_names=getattr(estimator, "classes_", None),
            n_codevectors=len(estimator.codevectors_),
            temperature=estimator.temperature_ or None,
            ax=ax,
        )

    @classmethod
    def from_path(
        cls,
        path: AnnealingPath,
        *,
        feature: int | str | None = None,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[Any] | None = None,
        n_codevectors: int | None = None,
        temperature: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw a path.

        Parameters
        ----------
        path : AnnealingPath
        feature, ax
            As in `from_estimator`.
        feature_names, class_names : sequence, optional
            Names for features, and for the classes that codevectors carry.
        n_codevectors : int, optional
            Mark the model with that many codevectors, and colour its branches.
        temperature : float, optional
            Where to mark it, if not at the coldest level that has that many.

        Returns
        -------
        BifurcationDisplay
        """
        if not len(path):
            raise ValueError("no level is finished yet: there is no path to draw")
        positions, position_name = _positions(path, feature, feature_names)
        current = None
        if n_codevectors is not None:
            current = path.codebook(n_codevectors)
        if temperature is not None:
            current = path.at_temperature(temperature) if current is None else replace(current, temperature=temperature)
        ...
