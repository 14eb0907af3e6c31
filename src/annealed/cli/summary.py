"""What commands say about a model, in words and as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from annealed.tables.model import TabularModel
from annealed.tables.preprocessing import TablePreprocessor

MOST_SHOWN = 40  # columns in a table for people; JSON has all


def columns_of_model(step: TablePreprocessor, missing: Mapping[str, int]) -> list[dict[str, Any]]:
    """What every column is and what becomes of it."""
    state = step.to_state()
    numbers = iter(zip(step.mean_, step.scale_, state["fill"], state["m2"], strict=True))
    texts = iter(state["categories"])
    found: list[dict[str, Any]] = []
    for name, kind in zip(state["names"], step.kinds_, strict=True):
        entry: dict[str, Any] = {"name": name, "kind": kind}
        if name in missing:
            entry["missing"] = missing[name]
        if kind == "category":
            known = next(texts)
            entry |= {"categories": known["labels"], "other": known["other"]}
        else:
            mean, scale, fill, m2 = (float(value) for value in next(numbers))
            entry |= {"mean": mean, "scale": scale, "constant": m2 == 0.0}
            entry["missing_filled_with"] = mean if math.isnan(fill) else fill
        found.append(entry)
    return found


def words_for(entry: Mapping[str, Any], standardized: bool) -> str:
    """One column's treatment for people."""
    said, gaps = (
        _words_for_text(entry)
        if entry["kind"] == "category"
        else _words_for_number(entry, standardized)
    )
    if entry.get("missing"):
        said += f"; {entry['missing']:,} missing {gaps}"
    return said


def tells_nothing(entry: Mapping[str, Any]) -> bool:
    """Whether a column has no part in the answer: it is the same everywhere, or hardly repeats."""
    if entry["kind"] == "category":
        return bool(len(entry["categories"]) + entry["other"] <= 1)
    return bool(entry["constant"])


def _words_for_text(entry: Mapping[str, Any]) -> tuple[str, str]:
    names = entry["categories"]
    if not names:
        return "texts that hardly repeat, which tell nothing", ""
    if len(names) == 1 and not entry["other"]:
        return "text, always the same, which tells nothing", ""
    rest = ", the rest as one" if entry["other"] else ""
    return f"text, {len(names)} categories{rest}", "(a category of their own)"


def _words_for_number(entry: Mapping[str, Any], standardized: bool) -> tuple[str, str]:
    kind, mean, scale = entry["kind"], entry["mean"], entry["scale"]
    said = {"number": "number", "boolean": "yes or no", "datetime": "time"}[kind]
    if entry["constant"]:
        return f"{said}, always the same, which tells nothing", ""
    if standardized and kind == "datetime":
        said += f", mean {_moment(mean)}, spread {_duration(scale)}"
    elif standardized:
        said += f", mean {mean:.4g}, spread {scale:.4g}"
    fill = entry["missing_filled_with"]
    return said, f"(filled with {_moment(fill) if kind == 'datetime' else f'{fill:.4g}'})"


def _moment(seconds: float) -> str:
    """A time, which is learnt in seconds since 1970, as people write it."""
    return str(np.datetime64(round(seconds), "s")).replace("T", " ")


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.4g} {unit}"
    return f"{seconds:.4g} seconds"


def about_model(model: Any) -> dict[str, Any]:
    """What a fitted model is, whatever made it."""
    inner = model.estimator_ if isinstance(model, TabularModel) else model
    about: dict[str, Any] = {"type": type(inner).__name__}
    if hasattr(inner, "classes_"):
        about["classes"] = [_plain(label) for label in inner.classes_.tolist()]
    elif hasattr(inner, "n_clusters_"):
        about["clusters"] = int(inner.n_clusters_)
        margin = getattr(inner, "n_clusters_margin_", math.nan)
        if math.isfinite(margin):
            about["clusters_margin"] = float(margin)
    about["codevectors"] = len(inner.codevectors_)
    if hasattr(inner, "temperature_"):
        about["temperature"] = float(inner.temperature_)
    path = getattr(inner, "path_", ())
    if len(path):
        about["levels"] = [
            {
                "temperature": level.temperature,
                "codevectors": level.n_codevectors,
                "samples": level.samples,
                "distortion": level.distortion,
                "score": None if math.isnan(level.score) else level.score,
            }
            for level in path
        ]
    chosen = getattr(inner, "chosen_", None)
    if chosen is not None:
        about["chosen"] = {name: _plain(value) for name, value in asdict(chosen).items()}
        about["voters"] = [
            {name: _plain(value) for name, value in asdict(voter).items()}
            for voter in inner.voters_
        ]
    return about


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- words ---------------------------------------------------------------------------------------


def words_for_levels(levels: list[dict[str, Any]]) -> str:
    """The annealing in a line."""
    first, last = levels[0], levels[-1]
    return (
        f"{len(levels)}, T from {first['temperature']:.3g} to {last['temperature']:.3g}, "
        f"K from {first['codevectors']} to {last['codevectors']}"
    )


def words_for_choice(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which level answers, and how sure that is."""
    at = f" at T = {facts['temperature']:.3g}" if "temperature" in facts else ""
    if "clusters" in facts:
        margin = facts.get("clusters_margin")
        sure = "" if margin is None else (
            f", by a margin of {margin:.2f}" if facts["clusters"] > 1
            else ": no more stand out from what structureless data would show"
        )  # fmt: skip
        return [("clusters", f"K = {facts['clusters']}{at}{sure}")]
    chosen = facts.get("chosen")
    tuned = f", fine-tuned for {chosen['steps']:,} steps" if chosen and chosen["steps"] else ""
    voters = facts.get("voters", [])
    if len(voters) > 1:
        each = ", ".join(f"K = {v['n_codevectors']} ({v['share']:.0%})" for v in voters)
        return [("levels that vote", f"{each}; {facts['codevectors']} codevectors in all")]
    return [("chosen level", f"K = {facts['codevectors']}{at}{tuned}")]


def words_for_size(path: Path) -> str:
    """How large a file is."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def print_columns(console: Console, columns: list[dict[str, Any]], standardized: bool) -> None:
    """A table of the columns."""
    table = Table("column", "treated as", box=None, pad_edge=False)
    for entry in columns[:MOST_SHOWN]:
        table.add_row(Text(entry["name"]), Text(words_for(entry, standardized), overflow="fold"))
    console.print(table)
    if len(columns) > MOST_SHOWN:
        console.print(Text(f"... and {len(columns) - MOST_SHOWN} more (--json lists all)"))


def print_pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """Names and what is said about them."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, words in rows:
        table.add_row(Text(name, style="bold"), Text(words, overflow="fold"))
    console.print(table)
