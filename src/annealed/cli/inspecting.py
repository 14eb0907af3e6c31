"""What `annealed inspect` does: what a model file holds, as text or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from annealed.cli.summary import (
    about_model,
    columns_of_model,
    print_columns,
    print_pairs,
    words_for_choice,
    words_for_levels,
    words_for_size,
)
from annealed.persistence import describe, load
from annealed.tables.model import TabularModel


def print_model(model: Path, *, as_json: bool) -> None:
    """Everything there is to say on standard output."""
    facts = facts_of_model(model)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=True, highlight=False)
    print_pairs(console, _rows(facts, model))
    if facts.get("columns"):
        console.print()
        print_columns(console, facts["columns"], facts["standardized"])
    if facts.get("levels"):
        console.print()
        _print_levels(console, facts)


def facts_of_model(path: Path) -> dict[str, Any]:
    """Everything `annealed inspect` has to say."""
    fitted = load(path)
    inner = fitted.estimator_ if isinstance(fitted, TabularModel) else fitted
    facts: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size}
    facts["written_with"] = describe(path)["libraries"]
    facts["parameters"] = _changed(inner)
    if not fitted.__sklearn_is_fitted__():
        return facts | {"type": type(fitted).__name__, "fitted": False}
    facts |= about_model(fitted)
    facts["features"] = int(inner.n_features_in_)
    if isinstance(fitted, TabularModel):
        step = fitted.preprocessor_
        facts["target"] = fitted.target_name_
        facts["columns"] = columns_of_model(step, {})
        facts["standardized"] = bool(step.standardize)
    else:
        names = getattr(fitted, "feature_names_in_", None)
        facts["column_names"] = None if names is None else [str(name) for name in names]
    if facts.get("levels"):
        facts["samples"] = facts["levels"][-1]["samples"]
    return facts


def _changed(estimator: Any) -> dict[str, Any]:
    """Parameters that are not the default, as texts where JSON has no word for them."""
    default = type(estimator)().get_params(deep=False)
    own = estimator.get_params(deep=False)
    plain = (bool, int, float, str, type(None))
    return {
        name: value if isinstance(value, plain) else str(value)
        for name, value in own.items()
        if str(value) != str(default.get(name))
    }


def _rows(facts: dict[str, Any], path: Path) -> list[tuple[str, str]]:
    rows = [("file", f"{path}, {words_for_size(path)}"), ("type", facts["type"])]
    if facts.get("fitted") is False:
        rows.append(("state", "has not learnt anything yet"))
    else:
        if "classes" in facts:
            some = ", ".join(str(label) for label in facts["classes"][:8])
            more = ", ..." if len(facts["classes"]) > 8 else ""
            target = f" of {facts['target']!r}" if facts.get("target") else ""
            rows.append(("classes", f"{len(facts['classes'])}{target}: {some}{more}"))
        if facts.get("levels"):
            rows.append(("levels", words_for_levels(facts["levels"])))
            rows.append(("samples", f"{facts['samples']:,} presented while annealing"))
        rows += words_for_choice(facts)
        rows.append(("features", str(facts["features"])))
    changed = ", ".join(f"{name}={value!r}" for name, value in facts["parameters"].items())
    rows.append(("parameters", changed or "all default"))
    versions = facts["written_with"] or {}
    rows.append(("written with", ", ".join(f"{name} {v}" for name, v in versions.items())))
    return rows


def _print_levels(console: Console, facts: dict[str, Any]) -> None:
    """The levels on which the number of codevectors changed."""
    table = Table("level", "T", "K", "samples", "D", box=None, pad_edge=False)
    scored = any(level["score"] is not None for level in facts["levels"]) and "classes" in facts
    if scored:
        table.add_column("score")
    before = None
    for k, level in enumerate(facts["levels"]):
        if level["codevectors"] == before:
            continue
        before = level["codevectors"]
        cells = [
            str(k), f"{level['temperature']:.4g}", str(before), f"{level['samples']:,}",
            f"{level['distortion']:.4g}",
        ]  # fmt: skip
        if scored:
            cells.append("" if level["score"] is None else f"{level['score']:.4f}")
        table.add_row(*map(Text, cells))
    console.print(table)
