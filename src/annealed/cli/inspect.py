"""`annealed inspect`: what a model file holds."""

from __future__ import annotations

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import Model


@app.command()
@one_line_errors
def inspect(model: Model, as_json: Json = False, debug: Debug = False) -> None:
    """Say what a model is: type, columns, classes, levels, parameters, versions, size."""
    from annealed.cli.inspecting import print_model

    print_model(model, as_json=as_json)
