"""How much samples of each class count, so that classes are as likely as asked."""

from __future__ import annotations

import numpy as np

from annealed.annealing.annealer import Annealer
from annealed.divergences import Array


def class_factors(annealer: Annealer, log_prior: Array) -> Array:
    """How much a sample of each class counts, so that classes are as likely as asked."""
    weight = seen_weights(annealer)
    return np.asarray(np.exp(log_prior) * weight.sum() / weight)


def seen_weights(annealer: Annealer) -> Array:
    """Weight of the samples of every class; one more of each while there is one without any."""
    weight = np.array([state.total_weight for state in annealer.classes])
    return weight if (weight > 0).all() else weight + 1
