"""A page that explores an annealing.

It needs plotly and Jinja2: ``pip install 'annealed[report]'``. `explore` makes it of a path, an estimator or a pipeline. The page is one HTML file that needs no
network.
"""

from annealed.report.page import Page, explore

__all__ = ["Page", "explore"]
