"""What `annealed fit` says at its end, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from annealed.cli.summary import (
    about_model,
    columns_of_model,
    print_columns,
    print_pairs,
    tells_nothing,
    words_for_choice,
    words_for_levels,
    words_for_size,
)
from annealed.cli.training import Trained


def facts_of_fit(trained: Trained, file: Path | None) -> dict[str, Any]:
    """Everything `annealed fit` has to say."""
    step = trained.model.preprocessor_
    return {
        "data": str(trained.options.data),
        "rows": trained.rows,
        "rows_learnt": trained.learnt,
        "rows_held_out": trained.tested,
        "rows_without_target": trained.without_target,
        "sampled": trained.sampled,
        "target": trained.options.target,
        "columns": columns_of_model(step, trained.missing),
        "standardized": bool(step.standardize),
        "features": len(trained.model.feature_names_out_),
        **about_model(trained.model),
        "class_shares": trained.class_shares or None,
        "scoring": trained.options.scoring,
        "score": trained.scores or None,
        "seconds": round(trained.seconds, 3),
        "model": None if file is None else str(file),
        "notes": trained.notes,
    }


def print_fit(trained: Trained, file: Path | None, *, as_json: bool) -> None:
    """The summary on standard output."""
    facts = facts_of_fit(trained, file)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=True, highlight=False)
    print_columns(console, facts["columns"], facts["standardized"])
    console.print()
    print_pairs(console, _rows_of_fit(trained, facts))
    for note in trained.notes:
        console.print(Text(f"note: {note}"))
    if file is None:
        console.print(Text("The model was not kept: --model FILE saves it."))


def _rows_of_fit(trained: Trained, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    options, score = trained.options, facts["score"]
    columns = facts["columns"]
    used = sum(not tells_nothing(entry) for entry in columns)
    share = f"{used}" if used == len(columns) else f"{used} of {len(columns)}"
    rows = [("data", f"{options.data}, {trained.rows:,} rows, {share} columns used")]
    learnt = f"{trained.learnt:,} rows"
    if trained.sampled:
        learnt += f", drawn at random from {trained.rows:,} (--max-rows)"
    if trained.without_target:
        learnt += f"; {trained.without_target:,} have no {options.target!r} and were left out"
    rows += (
        [("learnt from", learnt), ("levels", words_for_levels(facts["levels"]))]
        if facts.get("levels")
        else [("learnt from", learnt)]
    )
    if options.target is not None:
        shares = list(trained.class_shares.items())
        some = ", ".join(f"{label} {100 * share:.1f} %" for label, share in shares[:6])
        rows.append(("classes", f"{len(shares)}: {some}" + (", ..." if len(shares) > 6 else "")))
    rows += words_for_choice(facts)
    if score:
        where = (
            f"{trained.tested:,} rows held out" if trained.tested
            else "rows held out while choosing, a little too good"
        )  # fmt: skip
        most = 100 * max(trained.class_shares.values())
        rows.append(
            ("accuracy", f"{100 * score['accuracy']:.1f} % on {where} "
             f"(always the most common class: {most:.1f} %)")
        )  # fmt: skip
        rows.append(("log loss", f"{score['log_loss']:.4f}"))
        if options.scoring is not None:
            rows.append(
                (options.scoring, f"{score[options.scoring]:.4f}, what the level was chosen by")
            )
    rows.append(("time", f"{trained.seconds:.1f} s"))
    if facts["model"]:
        rows.append(("model", f"{facts['model']}, {words_for_size(Path(facts['model']))}"))
    return rows
