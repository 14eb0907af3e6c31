"""What the estimators of winner-takes-all learning share: they read a competition."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from annealed.baselines.competition import Competition
from annealed.divergences import Array, BregmanDivergence
from annealed.estimators.codevectors import CodevectorEstimator


class WinnerEstimator(CodevectorEstimator):
    """An estimator whose codevectors compete for every sample."""

    _competition: Competition

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_competition")

    @property
    def _fitted_divergence(self) -> BregmanDivergence:
        return self._competition.divergence

    @property
    def codevectors_(self) -> Array:
        """mu_i, shape (K, n_features)."""
        check_is_fitted(self)
        return self._competition.codebook()[0]
