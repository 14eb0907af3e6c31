"""What `annealed merge` does: model files in, one model file out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from annealed.cli.model_inputs import load_fitted
from annealed.cli.summary import (
    about_model,
    print_pairs,
    words_for_choice,
    words_for_levels,
    words_for_size,
)
from annealed.persistence import describe, save
from annealed.tables.model import TabularModel


def merge_files(paths: Sequence[Path], out: Path) -> dict[str, Any]:
    """Write the model that others are merged into; everything there is to say about it."""
    models = [_mergeable(path) for path in paths]
    first = models[0]
    for path, model in zip(paths[1:], models[1:], strict=True):
        try:
            first._check_mergeable(model)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} cannot be merged with {paths[0]}: {error}") from None
    joined = first.merge(*models[1:])
    save(joined, out)
    facts: dict[str, Any] = {"models": [str(path) for path in paths]}
    facts["samples"] = [_samples(model) for model in models]
    return facts | {"target": getattr(joined, "target_name_", None), **about_model(joined),
                    "model": str(out)}  # fmt: skip


def _mergeable(path: Path) -> Any:
    """A model that others can be merged with; ValueError if it is none."""
    model = load_fitted(path)
    if not hasattr(model, "merge"):
        inner = model.estimator_ if isinstance(model, TabularModel) else model
        raise ValueError(
            f"{path} holds a {type(inner).__name__}, which cannot be merged; models of "
            "ODAClustering and ODAClassifier can"
        )
    if isinstance(model, TabularModel) and model.target_name_ is None:
        model.target_name_ = describe(path)["extra"].get("target")  # where a stream keeps it
    return model


def _samples(model: Any) -> float:
    """The weight of all samples that a model has learnt."""
    inner = model.estimator_ if isinstance(model, TabularModel) else model
    return float(sum(state.total_weight for state in inner._learner.annealer.classes))


def print_merged(facts: dict[str, Any], *, as_json: bool) -> None:
    """The summary on standard output."""
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    samples, path = facts["samples"], Path(facts["model"])
    rows = [("merged", f"{len(samples)} models of {sum(samples):,.0f} samples in all")]
    rows += [("", f"{name}: {n:,.0f}") for name, n in zip(facts["models"], samples, strict=True)]
    if "classes" in facts:
        rows.append(("classes", str(len(facts["classes"]))))
    if facts.get("levels"):
        rows.append(("levels", words_for_levels(facts["levels"])))
    rows += words_for_choice(facts)
    rows.append(("model", f"{path}, {words_for_size(path)}"))
    print_pairs(Console(soft_wrap=True, highlight=False), rows)
