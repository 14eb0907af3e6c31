"""What `annealed evaluate` does: rows of a file in, figures about a model out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from sklearn.metrics import adjusted_rand_score

from annealed.cli.model_inputs import (
    columns_to_read,
    load_fitted,
    matrix_of,
    open_data,
    scorer_named,
)
from annealed.cli.summary import print_pairs
from annealed.estimators.classifier import GivenPosteriors
from annealed.persistence import describe
from annealed.tables.columns import is_missing, text_of_cell
from annealed.tables.files import TableError, TableFile
from annealed.tables.model import TabularModel
from annealed.tables.targets import ClassIndex

# Parts of [0, 1] by which stated and true certainty are compared.
BINS = 10
# Classes in a confusion matrix for people, and values beside clusters; JSON has all.
MOST_SHOWN = 12

Facts = dict[str, Any]


def print_evaluation(
    model: Path, data: Path, target: str | None, scoring: str | None, *, as_json: bool
) -> None:
    """Everything there is to say on standard output."""
    facts = facts_of_evaluation(model, data, target, scoring)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=True, highlight=False)
    if "classes" in facts:
        _print_classes(console, facts)
    else:
        _print_clusters(console, facts)


def facts_of_evaluation(model: Path, data: Path, target: str | None, scoring: str | None) -> Facts:
    """Everything `annealed evaluate` has to say."""
    fitted = load_fitted(model)
    file = open_data(data)
    classes = getattr(fitted, "classes_", None)
    if target is None:  # a stream keeps it beside its model
        target = getattr(fitted, "target_name_", None) or describe(model)["extra"].get("target")
    if target is not None:
        file.check_columns([target])
    if scoring is not None and classes is None:
        raise ValueError(f"--scoring is for classifiers, and {model} holds a clustering")
    if classes is None:
        return _clusters(fitted, file, target)
    if target is None:
        raise ValueError(f"{model} does not say what its target was called; name it: --target")
    scorer = None if scoring is None else scorer_named(scoring)
    facts, labels, posteriors = _classes(fitted, file, target, keep=scorer is not None)
    if scorer is not None:
        if facts["rows_of_unknown_classes"]:
            raise ValueError(
                f"{data}: {facts['rows_of_unknown_classes']} rows are of classes the model does "
                f"not know, and --scoring {scoring} says nothing of them; leave it out"
            )
        try:
            value = float(scorer(GivenPosteriors(classes, posteriors), posteriors, labels))
        except ValueError as error:
            raise ValueError(f"--scoring {scoring} does not fit these classes: {error}") from None
        facts["scoring"] = {"name": scoring, "value": value}
    return facts


def _batches(
    fitted: Any, file: TableFile, target: str | None
) -> Iterator[tuple[Any, list[Any] | None]]:
    """Rows as the model takes them, and the cells of the target."""
    columns, kinds = columns_to_read(fitted, file)
    if target in columns:
        raise ValueError(f"the model was learnt from {target!r}: it cannot be the target too")
    wanted = columns if target is None else [*columns, target]
    for _, table in file.batches(wanted, kinds):
        cells = None if target is None else table.column(target).to_pylist()
        features = table.select(columns)
        yield features if isinstance(fitted, TabularModel) else matrix_of(features), cells


# -- classes -------------------------------------------------------------------------------------


def _classes(
    fitted: Any, file: TableFile, target: str, *, keep: bool
) -> tuple[Facts, NDArray[Any], NDArray[Any]]:
    """Figures of a classifier; where they are kept, also all labels and posteriors."""
    classes = fitted.classes_
    index_of = ClassIndex(classes, file.decimal)
    K = len(classes)
    confusion = np.zeros((K + 1, K), dtype=np.int64)  # the last row: of classes it does not know
    bins = np.zeros((3, BINS))  # rows, their certainty, how many of them are right
    missing, loss = 0, 0.0
    probable = hasattr(fitted, "predict_proba")
    kept: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for rows, cells in _batches(fitted, file, target):
        assert cells is not None
        there = np.array([not is_missing(cell) for cell in cells], dtype=bool)
        missing += int((~there).sum())
        truth = np.array([index_of(cell) for cell in cells])[there]
        if not there.any():
            continue
        if probable:
            shares = fitted.predict_proba(rows)[there]
            answers = shares.argmax(axis=1)
            sure = shares.max(axis=1)
            known = truth >= 0
            own = shares[np.flatnonzero(known), truth[known]]
            loss -= float(np.log(np.maximum(own, np.finfo(float).eps)).sum())
            places = np.minimum((sure * BINS).astype(int), BINS - 1)
            for into, what in zip(bins, (np.ones(len(sure)), sure, answers == truth), strict=True):
                np.add.at(into, places, what)
            if keep:
                kept.append((truth, shares))
        else:
            answers = np.searchsorted(classes, fitted.predict(rows)[there])
        np.add.at(confusion, (truth, answers), 1)  # -1 is the last row
    n = int(confusion.sum())
    if not n:
        raise TableError(f"{file.path}: no row has a class in {target!r}")
    if keep and not probable:
        raise ValueError("the model has no probabilities, which --scoring asks for; leave it out")
    facts = _facts_of_classes(classes, confusion, missing)
    facts = {"data": str(file.path), "target": target, **facts}
    if probable:
        rows_known = int(confusion[:K].sum())
        facts["log_loss"] = loss / rows_known if rows_known else None
        facts["calibration_error"] = float(np.abs(bins[1] - bins[2]).sum() / n)
    truth = np.concatenate([part[0] for part in kept]) if kept else np.zeros(0, dtype=int)
    posteriors = np.concatenate([part[1] for part in kept]) if kept else np.zeros((0, K))
    return facts, classes[truth], posteriors


def _facts_of_classes(classes: NDArray[Any], confusion: NDArray[Any], missing: int) -> Facts:
    K = len(classes)
    right, n = np.diagonal(confusion[:K]), confusion.sum()
    of_class, said = confusion[:K].sum(axis=1), confusion.sum(axis=0)
    recall = [_ratio(a, b) for a, b in zip(right, of_class, strict=True)]
    precision = [_ratio(a, b) for a, b in zip(right, said, strict=True)]
    f1 = [_ratio(2 * a, b + c) for a, b, c in zip(right, of_class, said, strict=True)]
    seen = [value for value in recall if value is not None]
    return {
        "rows": int(n),
        "rows_without_target": missing,
        "rows_of_unknown_classes": int(confusion[K].sum()),
        "accuracy": float(right.sum() / n),
        "most_common": float(of_class.max() / n),
        "balanced_accuracy": float(np.mean(seen)) if seen else None,
        "classes": [
            {
                "class": label, "rows": int(of_class[k]), "precision": precision[k],
                "recall": recall[k], "f1": f1[k],
            }
            for k, label in enumerate(classes.tolist())
        ],
        "confusion": confusion[:K].tolist(),
    }  # fmt: skip


def _ratio(a: Any, b: Any) -> float | None:
    return float(a / b) if b else None


def _print_classes(console: Console, facts: Facts) -> None:
    rows = [("data", f"{facts['data']}, {facts['rows']:,} rows with {facts['target']!r}")]
    if facts["rows_without_target"]:
        rows.append(("left out", f"{facts['rows_without_target']:,} rows without it"))
    if facts["rows_of_unknown_classes"]:
        unknown = f"{facts['rows_of_unknown_classes']:,} rows, which count as errors"
        rows.append(("classes the model does not know", unknown))
    most = f"always the most common class: {100 * facts['most_common']:.1f} %"
    rows.append(("accuracy", f"{100 * facts['accuracy']:.1f} % ({most})"))
    if facts["balanced_accuracy"] is not None:
        rows.append(("balanced accuracy", f"{100 * facts['balanced_accuracy']:.1f} %"))
    if facts.get("log_loss") is not None:
        rows.append(("log loss", f"{facts['log_loss']:.4f}"))
        off = 100 * facts["calibration_error"]
        rows.append(("calibration", f"stated and true certainty are {off:.1f} points apart"))
    if "scoring" in facts:
        rows.append((facts["scoring"]["name"], f"{facts['scoring']['value']:.4f}"))
    print_pairs(console, rows)
    console.print()
    table = Table("class", "rows", "precision", "recall", "F1", box=None, pad_edge=False)
    for entry in facts["classes"]:
        figures = [_per_cent(entry[name]) for name in ("precision", "recall", "f1")]
        table.add_row(Text(str(entry["class"])), f"{entry['rows']:,}", *figures)
    console.print(table)
    if len(facts["classes"]) > MOST_SHOWN:
        console.print(Text("The confusion matrix is in --json."))
        return
    console.print()
    names = [Text(str(entry["class"])) for entry in facts["classes"]]
    table = Table(_heading("is \\ answered"), *map(Column, names), box=None, pad_edge=False)
    for name, counts in zip(names, facts["confusion"], strict=True):
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)


def _heading(name: str) -> Column:
    """Of a column; names are shown as they are, whatever rich would read in them."""
    return Column(Text(name))


def _per_cent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


# -- clusters ------------------------------------------------------------------------------------


def _clusters(fitted: Any, file: TableFile, target: str | None) -> Facts:
    inner = fitted.estimator_ if isinstance(fitted, TabularModel) else fitted
    # Baselines have a cluster for every codevector, and no word for it.
    K = int(getattr(inner, "n_clusters_", len(fitted.codevectors_)))
    counts = np.zeros(K + 1, dtype=np.int64)  # the last: of rows in no cluster
    divergence, density = 0.0, 0.0
    dense = hasattr(fitted, "score_samples")
    own: list[NDArray[Any]] = []
    values: list[str] = []
    for rows, cells in _batches(fitted, file, target):
        labels = fitted.predict(rows)
        np.add.at(counts, labels, 1)  # -1 is the last
        divergence += float(fitted.transform(rows).min(axis=1).sum())
        if dense:
            density += float(fitted.score_samples(rows).sum())
        if cells is not None:
            own.append(labels)
            values += [text_of_cell(cell) or "" for cell in cells]
    n = int(counts.sum())
    if not n:
        raise TableError(f"{file.path} has names of columns, but no rows")
    facts: Facts = {
        "data": str(file.path),
        "rows": n,
        "clusters": counts[:K].tolist(),
        "rows_in_no_cluster": int(counts[K]),
        "mean_divergence": divergence / n,
        "mean_log_density": density / n if dense else None,
    }
    if target is not None:
        labels = np.concatenate(own)
        names, places = np.unique(values, return_inverse=True)
        beside = np.zeros((K + 1, len(names)), dtype=np.int64)
        np.add.at(beside, (labels, places), 1)
        facts |= {
            "target": target,
            "values": names.tolist(),
            "beside": beside[:K].tolist(),
            "adjusted_rand": float(adjusted_rand_score(places, labels)),
        }
    return facts


def _print_clusters(console: Console, facts: Facts) -> None:
    rows = [
        ("data", f"{facts['data']}, {facts['rows']:,} rows"),
        ("mean divergence", f"{facts['mean_divergence']:.4g} to the nearest codevector"),
    ]
    if facts["mean_log_density"] is not None:
        rows.append(("mean log density", f"{facts['mean_log_density']:.4g}"))
    few = len(facts.get("values", ())) <= MOST_SHOWN
    if "adjusted_rand" in facts:
        rows.append((f"beside {facts['target']!r}", f"Rand index {facts['adjusted_rand']:.3f}, "
                     "adjusted: 1 the same groups, 0 by chance"))  # fmt: skip
        if not few:
            rows.append(("", f"{len(facts['values'])} values; --json has the table"))
    print_pairs(console, rows)
    console.print()
    values = facts.get("values", []) if few else []
    table = Table("cluster", "rows", "share", *map(_heading, values), box=None, pad_edge=False)
    if facts["rows_in_no_cluster"]:
        console.print(f"{facts['rows_in_no_cluster']:,} rows are in no cluster.\n")
    for k, count in enumerate(facts["clusters"]):
        beside = [f"{cell:,}" for cell in facts["beside"][k]] if values else []
        table.add_row(str(k), f"{count:,}", _per_cent(count / facts["rows"]), *beside)
    console.print(table)
