"""A page that explores an annealing, as one HTML file that needs no network.

`explore` makes it of a path, an estimator or a pipeline. It needs plotly and Jinja2:
``pip install 'annealed[report]'``.
"""

from annealed.report.page import Page, explore, import_tools

__all__ = ["Page", "explore", "import_tools"]
