"""`annealed merge`: models of streams of their own into one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import annealed
from annealed import DeterministicAnnealing, ODAClustering, TabularModel

pytest.importorskip("typer", exc_type=ImportError)
pytest.importorskip("rich", exc_type=ImportError)
pytest.importorskip("pyarrow", exc_type=ImportError)

CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def write_rows(path, classes, seed):
    """A CSV file of rows of some of three classes."""
    rng = np.random.default_rng(seed)
    k = rng.choice(classes, 600)
    rows = CENTRES[k] + rng.normal(size=(600, 2))
    lines = [f"{x:.4f},{y:.4f},{'abc'[label]}\n" for (x, y), label in zip(rows, k, strict=True)]
    path.write_text("east,north,place\n" + "".join(lines))
    return path


@pytest.fixture
def streams(run, tmp_path):
    """Checkpoints of two streams; each has seen two of three classes."""
    for name, classes in (("first", [0, 1]), ("second", [1, 2])):
        data = write_rows(tmp_path / f"{name}.csv", classes, len(name))
        done = run(
            "stream", data, "--target", "place", "--checkpoint", tmp_path / f"{name}.oda", "--quiet"
        )
        assert done.returncode == 0, done.stderr
    return tmp_path


def test_streams_of_two_workers_become_one_model(run, streams):
    out = streams / "all.oda"
    parts = streams / "first.oda", streams / "second.oda"
    done = run("merge", *parts, "--out", out, "--json")
    assert done.returncode == 0 and done.stderr == ""
    facts = json.loads(done.stdout)
    assert facts["classes"] == ["a", "b", "c"] and facts["target"] == "place"
    assert facts["samples"] == pytest.approx([600, 600])
    test = write_rows(streams / "test.csv", [0, 1, 2], 9)
    score = json.loads(run("evaluate", out, test, "--json").stdout)
    # Neighbours lie nine standard deviations apart.
    assert score["accuracy"] > 0.98
    words = run("merge", *parts, "--out", out).stdout
    assert "2 models of 1,200 samples in all" in words and "classes" in words
    assert annealed.load(out).partial_fit([{"east": 0.0, "north": 0.0}], ["a"])


def test_what_cannot_be_merged_is_said_with_the_file(run, streams):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    others = {
        "arrays": ODAClustering(2, random_state=0).fit(rows),
        "columns": TabularModel(ODAClustering(2, random_state=0)).fit({"east": rows[:, 0]}),
        "clusters": TabularModel(ODAClustering(2, random_state=0)).fit(
            {"east": rows[:, 0], "north": rows[:, 1]}
        ),
        "batch": DeterministicAnnealing(2, random_state=0).fit(rows),
        "new": ODAClustering(),
    }
    for name, model in others.items():
        annealed.save(model, streams / f"{name}.oda")
    for name, words in {
        "arrays": "arrays.oda cannot be merged with {first}: TabularModel can be merged",
        "columns": "the models are of columns 'east', 'north' and 'east'",
        "clusters": "ODAClassifier can be merged with another ODAClassifier only",
        "batch": "batch.oda holds a DeterministicAnnealing, which cannot be merged",
        "new": "new.oda holds a model that has not learnt anything yet",
    }.items():
        first, out = streams / "first.oda", streams / "all.oda"
        done = run("merge", first, streams / f"{name}.oda", "--out", out)
        assert done.returncode == 2, name
        assert words.format(first=first) in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and not out.exists()
    done = run("merge", streams / "first.oda", "--out", streams / "all.oda")
    assert done.returncode == 2 and "two or more" in done.stderr
    done = run("merge", streams / "first.oda", streams / "second.oda", "--out",
               streams / "second.oda")  # fmt: skip
    assert done.returncode == 2 and "--out names" in done.stderr
    done = run("merge", streams / "first.oda", streams / "absent.oda", "--out", streams / "all.oda")
    assert done.returncode == 1 and "absent.oda" in done.stderr


def test_a_file_that_was_drawn_from_counts_as_all_its_rows(run, tmp_path):
    for name, rows in (("few", "100"), ("all", "600")):
        data = write_rows(tmp_path / f"{name}.csv", [0, 1], 1)
        model = tmp_path / f"{name}.oda"
        done = run("fit", data, "--drop", "place", "--n-clusters", "2", "--max-rows", rows,
                   "--model", model, "--quiet")  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = run("merge", *tmp_path.glob("*.oda"), "--out", tmp_path / "both.oda", "--json")
    assert json.loads(done.stdout)["samples"] == pytest.approx([600, 600])
