"""Draw samples in which the positive class is as rare as it is in the world."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
# Of the 284,807 transactions of the full credit card file, 492 are fraud.
FRAUD_PREVALENCE = 492 / 284_807


def at_prevalence(
    X: ArrayLike,
    y: ArrayLike,
    n_samples: int = 15_000,
    *,
    prevalence: float = FRAUD_PREVALENCE,
    random_state: int | np.random.RandomState | None = 0,
) -> tuple[Array, Labels]:
    """Draw rows so that the positive class has a given share, in random order.

    Made for "creditcard", whose subset has fraud 8.6 times as often as the full file. By default
    15,000 rows at the full file's 0.1727 %, that is 26 frauds. Rows are drawn without replacement
    within each class; draws of different seeds overlap.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,)
        Labels 0 and 1.
    n_samples : int, default=15_000
    prevalence : float, default=492 / 284_807
        Share of the ones, rounded to whole rows and at least one.
    random_state : int, RandomState instance or None, default=0

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from annealed import datasets
    >>> X, y = datasets.load("moons", return_X_y=True)
    >>> few, labels = datasets.at_prevalence(X, y, 500, prevalence=0.02)
    >>> few.shape, int(labels.sum())
    ((500, 2), 10)
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("y must hold 0 and 1 only")
    if not 0 < prevalence < 1:
        raise ValueError(f"prevalence must lie between 0 and 1, got {prevalence}")
    ones = max(1, round(prevalence * n_samples))
    rng = check_random_state(random_state)
    drawn = []
    for label, wanted in ((0, n_samples - ones), (1, ones)):
        of_class = np.flatnonzero(labels == label)
        if wanted > len(of_class):
            raise ValueError(
                f"{n_samples} rows at a prevalence of {prevalence:.4g} take {wanted} of class "
                f"{label}, but there are {len(of_class)}"
            )
        drawn.append(rng.permutation(of_class)[:wanted])
    order = rng.permutation(np.concatenate(drawn))
    return rows[order], labels[order].astype(np.int64)
