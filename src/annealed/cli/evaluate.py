"""`annealed evaluate`: how well a model does on the rows of a file."""

from __future__ import annotations

from typing import Annotated

import typer

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import Data, Model


@app.command()
@one_line_errors
def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(
            help="The column with the classes (default: the one the model was learnt with). A "
            "clustering is compared with it."
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="One more score, any of scikit-learn's, for example f1_macro."
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare the answers of a model with the classes in a file; or see how clusters fit it."""
    from annealed.cli.evaluating import print_evaluation

    print_evaluation(model, data, target, scoring, as_json=as_json)
