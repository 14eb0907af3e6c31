"""Online deterministic annealing."""
