"""`annealed stream`: learn from records as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import (
    Categorical,
    Columns,
    Divergence,
    DivergenceName,
    Drop,
    ModelOut,
    NClusters,
    Quiet,
    Seed,
    Target,
    check_apart,
    check_writable,
    names_in_option,
    number_of_clusters,
)

# Rows between lines of figures, unless it is said.
METRICS_EVERY = 1000


@app.command()
@one_line_errors
def stream(
    source: Annotated[
        str, typer.Argument(metavar="FILE | -", help="CSV or JSON lines; - is standard input.")
    ] = "-",
    target: Target = None,
    columns: Columns = None,
    drop: Drop = None,
    categorical: Categorical = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File that holds the state. If it is there, the stream goes on where it stood; "
            "source and options must be the same."
        ),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="Rows between checkpoints, at least.")] = 10_000,
    new_rows: Annotated[
        bool,
        typer.Option(
            "--new-rows",
            help="The source begins where the checkpoint ended: skip none of its rows. Only once: "
            "to start again on that source, leave it out.",
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Wait for more at the end of FILE, and for a file that replaces it, as tail -F "
            "does.",
        ),
    ] = False,
    predictions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE | -",
            help="Write a line for every row: its number, what was predicted before it was learnt, "
            "and how surely. A FILE goes on where the checkpoint stands. On standard output rows "
            "since the last checkpoint may come again after a kill; their numbers tell.",
        ),
    ] = None,
    model: ModelOut = None,
    drift: Annotated[
        bool | None,
        typer.Option(
            "--drift/--no-drift",
            help="Listen to errors, and begin again when they rise beyond chance; left out, with a "
            "target. Clusters are annealed again without it when their stream changes.",
            show_default=False,
        ),
    ] = None,
    n_clusters: NClusters = "auto",
    divergence: Divergence = DivergenceName.SQUARED_EUCLIDEAN,
    seed: Seed = 0,
    skip_bad_rows: Annotated[
        bool,
        typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read; count them."),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="FILE | -",
            help="Write figures as JSON lines: accuracy, codevectors, who answers and since when, "
            "alarms. A FILE goes on where the checkpoint stands.",
        ),
    ] = None,
    metrics_every: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Rows between lines of figures, 1000 with --metrics. Without it they are printed "
            "to standard error; 0, or left out: never.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn from CSV or JSON lines as they come, and survive being killed.

    Each row is predicted before it is learnt. With --checkpoint the state is written as it goes;
    started again on the same source the command skips what it has learnt, and figures, model and
    predictions are the same as if it had never stopped. Another source is refused.
    """
    if follow and source == "-":
        raise ValueError("--follow is for files; standard input is read until it ends anyway")
    if follow and Path(source).suffix == ".gz":
        raise ValueError("--follow cannot follow a compressed file")
    if new_rows and checkpoint is None:
        raise ValueError("--new-rows says where a checkpoint goes on; give --checkpoint FILE too")
    clusters = number_of_clusters(n_clusters, target)
    if predictions == metrics == "-":
        raise ValueError("--predictions and --metrics cannot both be standard output")
    if metrics_every is None:
        metrics_every = 0 if metrics is None else METRICS_EVERY
    elif metrics is not None and not metrics_every:
        raise ValueError("--metrics-every 0 says that --metrics has nothing to write")
    answers, figures = (
        None if place in (None, "-") else Path(str(place)) for place in (predictions, metrics)
    )
    check_apart({"--checkpoint": checkpoint, "--predictions": answers, "--metrics": figures,
                 "--model": model}, [None if source == "-" else Path(source)])  # fmt: skip
    for file in (checkpoint, answers, figures, model):
        if file is not None:
            check_writable(file)

    from annealed.cli.stream_run import print_summary, run_stream
    from annealed.cli.stream_session import StreamOptions
    from annealed.persistence import save
    from annealed.tables.files.table_file import need_pyarrow

    options = StreamOptions(
        source=source, follow=follow, checkpoint=checkpoint, every=every, new_rows=new_rows,
        predictions=predictions, metrics=metrics, target=target, columns=names_in_option(columns),
        drop=names_in_option(drop), categorical=names_in_option(categorical), n_clusters=clusters,
        divergence=divergence.value, drift=target is not None if drift is None else drift,
        seed=seed, skip_bad=skip_bad_rows, metrics_every=metrics_every, quiet=quiet,
        as_json=as_json,
    )  # fmt: skip
    need_pyarrow(Path(options.name))
    session = run_stream(options)
    if model is not None and session.model is not None:
        save(session.model, model)
    if not quiet:
        print_summary(session)
