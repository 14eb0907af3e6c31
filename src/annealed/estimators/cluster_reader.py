"""What a model of one class says about rows, however it was annealed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from annealed.annealing.joined_clusters import PlausibleNumbers, assigned
from annealed.annealing.n_clusters import Persistence
from annealed.divergences import Array
from annealed.estimators.base import AnnealingEstimator
from annealed.estimators.chunked_rows import ChunkedRows, by_chunk, in_chunks
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
    def codevector_clusters_(self) -> NDArray[np.int64]:
        """Number of the cluster of every codevector, -1 for those in none."""
        return self._model.codevector_clusters

    @property
    def cluster_centers_(self) -> Array:
        """Mean of every cluster, a row each: of its codevectors, by weight."""
        model = self._model
        if model.clusters is None:
            return model.codevectors
        member = (model.clusters == np.arange(model.n_clusters)[:, None]) * model.weights
        return np.asarray(member @ model.codevectors / member.sum(axis=1, keepdims=True))

    @property
    def n_clusters_(self) -> int:
        """Number of clusters of the current model."""
        return self._model.n_clusters

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    @by_chunk
    @consistent
    def transform(self, X: ArrayLike) -> Array:
        """Divergences of every row to every cluster, shape (n_samples, n_clusters_).

        To the nearest codevector of each.
        """
        rows, model = self._rows_to_read(X), self._model
        distances = kernel_for(self._fitted_divergence).divergences(rows, model.codevectors)
        if model.clusters is None:
            return distances
        nearest = np.full((len(rows), model.n_clusters), np.inf)
        for k in range(model.n_clusters):
            distances[:, model.clusters == k].min(axis=1, out=nearest[:, k])
        return nearest

    @property
    def plausible_n_clusters_(self) -> PlausibleNumbers | None:
        """Numbers of clusters with their support, the most plausible first; None if not known."""
        check_is_fitted(self)
        found: PlausibleNumbers | None = self._learner.plausible
        return found

    @property
    def _persistence(self) -> Persistence | None:
        """Plateaus of every K beside those of structureless data, for pictures and pages."""
        check_is_fitted(self)
        found: Persistence | None = self._learner.persistence
        return found

    @property
    def n_clusters_margin_(self) -> float:
        """How sure "auto" is of ``n_clusters_``: its support, nan if the number was given."""
        found = self.plausible_n_clusters_ if self.n_clusters == "auto" else None
        return np.nan if found is None else found.margin

    def _assign(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        return assigned(self._model, self._fitted_divergence, rows)

    @by_chunk
    @consistent
    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Number of the likeliest cluster of every row (the nearest after a polish).

        -1 for rows that lie in no cluster of ``min_cluster_size``.
        """
        return self._assign(self._rows_to_read(X))

    @by_chunk
    @consistent
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of every cluster, shape (n_samples, n_clusters_).

        The sum of the associations p(mu_i | x) of its codevectors. What is missing to one belongs
        to codevectors in no cluster.
        """
        return self._associate_clusters(self._rows_to_read(X))

    def _associate_clusters(self, rows: NDArray[Any]) -> Array:
        model = self._model
        return self._associate(rows, model, model.groups)[0][:, : model.n_clusters]

    def _codevector_shares(self, rows: NDArray[Any]) -> Array:
        """p(mu_i | x) of every row and codevector."""
        model = self._model
        return self._associate(rows, model, np.arange(model.n_codevectors))[0]

    @consistent
    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean distortion E[sum_i p(mu_i | x) d(x, mu_i)] of the rows."""
        if in_chunks(X):
            chunks, reader = ChunkedRows(X), self._for_reading(X, whole=False)
            beside = chunks.beside(sample_weight, "sample_weight")
            total, mass = chunks.sums(distortion_of, reader, "score", beside)
            if not mass > 0:
                raise ValueError("all sample weights are zero: there is nothing to score")
            return -float(total / mass)
        rows, model = self._rows_to_read(X), self._model
        weights = checked_weights(sample_weight, len(rows))
        distortion = self._associate(rows, model, one_group(model))[2]
        return -float(np.average(distortion, weights=weights))

    @by_chunk
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


def distortion_of(model: ClusterReader, rows: NDArray[Any], weights: Any) -> tuple[float, float]:
    """The distortion of some rows by their weights, and these: sums."""
    mass = float(len(rows) if weights is None else np.sum(weights, dtype=float))
    if mass == 0:
        return 0.0, 0.0
    return -mass * model.score(rows, sample_weight=weights), mass


def one_group(model: Level) -> NDArray[np.int64]:
    """All codevectors taken together."""
    return np.zeros(model.n_codevectors, dtype=np.int64)
