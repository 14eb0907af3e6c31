"""`annealed datasets`: what data is here, what is missing, how to get it."""

from __future__ import annotations

import json
from dataclasses import asdict

from annealed.cli.application import Debug, Json, app, one_line_errors
from annealed.cli.options import DataHome, check_data_home


@app.command()
@one_line_errors
def datasets(
    data_home: DataHome = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the data sets: what is here, what is missing, how to get it."""
    check_data_home(data_home)

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from annealed import datasets as data

    found = data.available(data_home)
    if as_json:
        print(json.dumps([asdict(one) for one in found.values()], indent=2))
        return
    console = Console()
    table = Table("data set", "here", "source", box=None, pad_edge=False)
    for one in found.values():
        here = Text("yes" if one.present else "no", style="" if one.present else "bold")
        table.add_row(one.name, here, Text(one.source, overflow="fold"))
    console.print(table)
    for one in found.values():
        if not one.present:
            console.print(Text(f"\n{one.name}: {one.how}"), soft_wrap=True)
