"""Annealing: from samples to the path of levels (Algorithm 1)."""
