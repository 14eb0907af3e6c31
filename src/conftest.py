"""Modules whose doctests need a package that is not here are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("river") else ["annealed/river.py"]
