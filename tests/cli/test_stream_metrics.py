"""`annealed stream --metrics`: lines of figures, the same however the command was stopped."""

import json
import os
import sys

import numpy as np
import pytest
from thoroughness import tries

pytest.importorskip("typer")
# A pyarrow that does not fit an old numpy raises more than that it is not there.
pytest.importorskip("pyarrow", exc_type=ImportError)

from annealed.__main__ import main
from annealed.persistence import Checkpoint

ROWS = 2350
CHANGE = 1200


@pytest.fixture
def stream(monkeypatch, capsys):
    def stream(*arguments):
        monkeypatch.setattr(sys, "argv", ["annealed", "stream", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsys.readouterr()
        return exit.value.code or 0, out, err

    return stream


@pytest.fixture
def source(tmp_path):
    """Two classes that change places."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, ROWS)
    X = rng.normal(size=(ROWS, 2)) + 4.0 * y[:, None]
    labels = np.where(np.arange(ROWS) < CHANGE, y, 1 - y)
    rows = [f"{a:.3f},{b:.3f},{'xy'[c]}" for (a, b), c in zip(X.tolist(), labels, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["f0,f1,label", *rows]) + "\n")
    return path


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def options(folder, *more):
    return ("--target", "label", "--checkpoint", folder / "state.oda", "--every", 300,
            "--metrics", folder / "figures.jsonl", "--metrics-every", 200, *more)  # fmt: skip


UNDISTURBED = {}


@pytest.fixture
def whole(stream, source, tmp_path):
    """The figures of a run that nothing disturbed, its checkpoint beside them; run once."""
    folder = tmp_path / "whole"
    folder.mkdir()
    if not UNDISTURBED:
        code, _, err = stream(source, *options(folder))
        assert code == 0, err
        UNDISTURBED.update({path.name: path.read_bytes() for path in folder.iterdir()})
    for name, content in UNDISTURBED.items():
        (folder / name).write_bytes(content)
    return folder / "figures.jsonl"


def test_figures_tell_how_the_stream_goes(whole):
    lines = lines_of(whole)
    assert [line["rows"] for line in lines] == [*range(200, ROWS, 200), ROWS]
    for line in lines:
        assert set(line) == {
            "rows", "bad_rows", "accuracy", "recent_accuracy", "codevectors", "temperature",
            "alarms", "latest_alarms", "classes", "answering", "answering_since",
        }  # fmt: skip
        assert line["classes"] == 2 and line["codevectors"] >= 2
        assert line["answering_since"] <= line["rows"]
    before = [line for line in lines if line["rows"] <= CHANGE]
    assert all(line["alarms"] == 0 and line["latest_alarms"] == [] for line in before)
    assert before[-1]["accuracy"] > 0.98 > lines[-1]["accuracy"] > 0.9
    assert lines[-1]["alarms"] == 1
    assert CHANGE < lines[-1]["latest_alarms"][0] < CHANGE + 300


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", tries([4], [1, 2, 4]))
def test_killed_and_started_again(monkeypatch, stream, source, tmp_path, whole, moment, times):
    real, count = Checkpoint.save, 0

    def save(self, model, **extra):
        nonlocal count
        count += 1
        if moment == "after" or count < times:
            real(self, model, **extra)
        if count == times:
            raise Killed

    folder = tmp_path / "killed"
    folder.mkdir()
    monkeypatch.setattr(Checkpoint, "save", save)
    with pytest.raises(Killed):
        stream(source, *options(folder))
    monkeypatch.setattr(Checkpoint, "save", real)
    assert stream(source, *options(folder))[0] == 0
    figures = folder / "figures.jsonl"
    assert figures.read_bytes() == whole.read_bytes()
    assert stream(source, *options(folder))[0] == 0  # there is nothing more to say
    assert figures.read_bytes() == whole.read_bytes()


def test_stopped_before_the_last_line(stream, source, tmp_path, whole):
    """All rows but those of the last, unfinished block have been learnt, and then some come."""
    folder = tmp_path / "grown"
    folder.mkdir()
    text = source.read_text().splitlines(keepends=True)
    source.write_text("".join(text[:1501]))
    assert stream(source, *options(folder))[0] == 0
    assert lines_of(folder / "figures.jsonl")[-1]["rows"] == 1500
    source.write_text("".join(text))
    assert stream(source, *options(folder))[0] == 0
    rows = [line["rows"] for line in lines_of(folder / "figures.jsonl")]
    assert rows == sorted([*range(200, ROWS, 200), 1500, ROWS])
    others = [line for line in lines_of(folder / "figures.jsonl") if line["rows"] != 1500]
    assert others == lines_of(whole)


def test_a_file_of_anyone_elses_is_refused(stream, source, tmp_path, whole):
    folder = tmp_path / "other"
    folder.mkdir()
    figures = folder / "figures.jsonl"
    figures.write_text('{"my": "thesis"}\n')
    code, _, err = stream(source, *options(folder))
    assert code == 2 and "is not a file of figures from row 1 on" in err and "--metrics" in err
    assert figures.read_text() == '{"my": "thesis"}\n'
    state = whole.parent / "state.oda"
    whole.write_bytes(whole.read_bytes().replace(b"0", b"1", 1))
    code, _, err = stream(source, *options(state.parent))
    assert code == 2 and "is not the file of figures that goes with the checkpoint" in err


def test_a_fresh_start_replaces_figures(stream, source, tmp_path, whole):
    before = whole.read_bytes()
    (whole.parent / "state.oda").unlink()
    assert stream(source, *options(whole.parent))[0] == 0
    assert whole.read_bytes() == before
    whole.write_bytes(before[:5])  # torn within the first line
    (whole.parent / "state.oda").unlink()
    assert stream(source, *options(whole.parent))[0] == 0
    assert whole.read_bytes() == before


def test_clusters_have_figures_too(stream, source, tmp_path):
    figures = tmp_path / "figures.jsonl"
    code, _, err = stream(source, "--drop", "label", "--metrics", figures, "--quiet")
    assert code == 0 and not err
    lines = lines_of(figures)
    assert [line["rows"] for line in lines] == [1000, 2000, ROWS]
    assert lines[-1]["clusters"] == 2 and lines[-1]["alarms"] == 0
    assert lines[-1]["recent_score"] < 0 and "answering" not in lines[-1]


def test_on_standard_output(stream, source):
    code, out, err = stream(source, "--target", "label", "--metrics", "-", "--metrics-every", 1000)
    assert code == 0
    assert [json.loads(line)["rows"] for line in out.splitlines()] == [1000, 2000, ROWS]
    assert "2,350 rows" in err and "alarms 1 (last at " in err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--metrics", "-", "--predictions", "-"), "cannot both be standard output"),
        (("--metrics", "m", "--metrics-every", "0"), "--metrics has nothing to write"),
        (("--metrics", "same", "--model", "same"), "--model names same"),
    ],
)
def test_options_that_do_not_fit(stream, source, tmp_path, monkeypatch, more, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = stream(source, "--target", "label", *more)
    assert code == 2 and words in err and err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["rows.csv"]
