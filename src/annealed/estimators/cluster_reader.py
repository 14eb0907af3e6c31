"""What a model of one class says about rows, however it was annealed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from annealed.annealing.n_clusters import Persistence, PersistentK
from annealed.divergences import Array
from annealed.estimators.base import AnnealingEstimator
from annealed.estimators.codevectors import checked_weights, consistent
from annealed.kernels import kernel_for
from annealed.path import Level


class ClusterReader(ClusterMixin, AnnealingEstimator):
    """What a model of one class says about rows, however it was annealed."""

    @property
    def _model(self) -> Level:
        check_is_fitted(self)
        level: Level = self._learner.answering()
        return level

    @property
    def cluster_centers_(self) -> Array:
        """The codevectors, under the name k-means users expect."""
        return self.codevectors_

    @property
    def n_clusters_(self) -> int:
        """Number of codevectors of the current model."""
        return self._model.n_codevectors

    @property
    def persistence_(self) -> Persistence | None:
        """Plateaus of every K beside those of structureless data, once "auto" has chosen."""
        check_is_fitted(self)
        annealer = self._learner.annealer
        choose = None if annealer.chosen is None else annealer.choose
        return choose.persistence if isinstance(choose, PersistentK) else None

    @property
    def n_clusters_margin_(self) -> float:
        """How far the plateau of the chosen K stands above the bar, in log T."""
        return np.nan if self.persistence_ is None else self.persistence_.margin

    def _assign(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        model = self._model
        return kernel_for(self._fitted_divergence).assign(
            rows, model.codevectors, model.log_weights, model.temperature
        )

    @consistent
    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Index of the likeliest codevector of every row (the nearest after a polish)."""
        return self._assign(self._rows_to_read(X))

    @consistent
    def predict_proba(self, X: ArrayLike) -> Array:
        """Associations p(mu_i | x), shape (n_samples, n_clusters_)."""
        return self._associate_codevectors(self._rows_to_read(X))

    def _associate_codevectors(self, rows: NDArray[Any]) -> Array:
        model = self._model
        return self._associate(rows, model, np.arange(model.n_codevectors))[0]

    @consistent
    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean distortion E[sum_i p(mu_i | x) d(x, mu_i)] of the rows."""
        rows, model = self._rows_to_read(X), self._model
        weights = checked_weights(sample_weight, len(rows))
        distortion = self._associate(rows, model, one_group(model))[2]
        return -float(np.average(distortion, weights=weights))

    @consistent
    def score_samples(self, X: ArrayLike) -> Array:
        """Log density of every row under the Gibbs mixture sum_i rho_i exp(-d(x, mu_i)/T).

        For the squared Euclidean and Mahalanobis divergences it is normalised: a mixture of
        Gaussians of variance T/2. For the others the constant that would make it integrate to one
        depends on mu and has no closed form; it is left out, so values compare samples under one
        model, not models with each other. After a polish T is that of the level it started from.
        """
        rows, model = self._rows_to_read(X), self._model
        T = model.temperature or self._learner.annealer.model().temperature
        log_total = self._associate(rows, model, one_group(model), T)[1]
        return self._log_density(log_total, T)

    def _associate(
        self, rows: NDArray[Any], model: Level, group: NDArray[np.int64], T: float | None = None
    ) -> tuple[Array, Array, Array]:
        T = model.temperature if T is None else T
        return kernel_for(self._fitted_divergence).associate(
            rows, model.codevectors, model.log_weights, T, group, int(group.max()) + 1
        )


def one_group(model: Level) -> NDArray[np.int64]:
    """All codevectors taken together."""
    return np.zeros(model.n_codevectors, dtype=np.int64)
