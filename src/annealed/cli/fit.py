"""`annealed fit`: a model from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import (
    Categorical,
    Columns,
    Data,
    Divergence,
    DivergenceName,
    Drop,
    ModelOut,
    NClusters,
    Preprocess,
    Quiet,
    Seed,
    Target,
    check_apart,
    check_writable,
    names_in_option,
    number_of_clusters,
)

# As `annealed.tables.files.MOST_ROWS`.
MOST_ROWS = 200_000
# Of the rows, held out to test a classifier.
TEST_SHARE = 0.2


@app.command()
@one_line_errors
def fit(
    data: Data,
    target: Target = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: Categorical = None,
    preprocess: Annotated[
        Preprocess,
        typer.Option(
            help="auto: numbers are standardised, texts become indicators, missing cells are "
            "filled. none: numbers as they are.",
        ),
    ] = Preprocess.AUTO,
    model: ModelOut = None,
    report: Annotated[
        Path | None, typer.Option(help="Interactive page to write, for example out.html.")
    ] = None,
    n_clusters: NClusters = "auto",
    divergence: Divergence = DivergenceName.SQUARED_EUCLIDEAN,
    scoring: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What a classifier's level is chosen by, any score of scikit-learn's, for example "
            "f1_macro (default: accuracy less half the log loss).",
        ),
    ] = None,
    test: Annotated[
        float, typer.Option(help="Share of the rows held out to test a classifier; 0: none.")
    ] = TEST_SHARE,
    max_rows: Annotated[
        int,
        typer.Option(
            min=1, help="Most rows to learn from; of a larger file so many are drawn at random."
        ),
    ] = MOST_ROWS,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a classifier (with --target) or a clustering from a table in a file."""
    if not 0 <= test < 1:
        raise ValueError(f"--test is a share of the rows, from 0 to less than 1, not {test:g}")
    if scoring is not None and target is None:
        raise ValueError("--scoring is for classifiers; without --target leave it out")
    clusters = number_of_clusters(n_clusters, target)
    check_apart({"--model": model, "--report": report}, [data])
    for file in (model, report):
        if file is not None:
            check_writable(file)

    from annealed.cli.fit_summary import print_fit
    from annealed.cli.model_page import write_page
    from annealed.cli.progress import Progress
    from annealed.cli.training import FitOptions, train
    from annealed.persistence import save
    from annealed.report import import_tools

    if report is not None:
        import_tools()  # say what is missing before any work is done
    options = FitOptions(
        data=data, target=target, columns=names_in_option(columns), drop=names_in_option(drop),
        categorical=names_in_option(categorical), preprocess=preprocess.value, n_clusters=clusters,
        divergence=divergence.value, scoring=scoring, test=test, max_rows=max_rows, seed=seed,
    )  # fmt: skip
    with Progress(quiet=quiet) as progress:
        trained = train(options, progress)
        if model is not None:
            progress.phase("writing the model")
            save(trained.model, model)
        if report is not None:
            progress.phase("writing the page")
            write_page(trained.model, data, report, title=data.name, seed=seed)
    if not quiet:
        print_fit(trained, model, as_json=as_json)
