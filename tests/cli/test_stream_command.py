"""`annealed stream` as a process: killed, resumed, cut at any byte, refused where it must be."""

import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from thoroughness import tries

import annealed
from annealed.__main__ import main
from annealed.persistence import Checkpoint, ModelFileError

pytest.importorskip("typer")
# A pyarrow that does not fit an old numpy raises more than that it is not there.
pytest.importorskip("pyarrow", exc_type=ImportError)
COMMAND = [sys.executable, "-m", "annealed", "stream"]
# Rows of a stream, and how many there are between checkpoints.
ROWS, EVERY = tries((3000, 1000), (12_000, 3000))


def rows_of(n, seed=0, d=4):
    """CSV of n rows: numbers, a text, a missing cell now and then, a label of three."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d)) + 3.0 * np.eye(3, d)[y]
    lines = [",".join([*(f"f{j}" for j in range(d)), "colour", "label"])]
    for k, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        cells = [f"{value:.3f}" for value in row]
        if k % 50 == 7:
            cells[1] = ""
        lines.append(",".join([*cells, "red" if k % 3 else "blue", "abc"[label]]))
    return "\n".join(lines).encode() + b"\n"


def run(*arguments, command="stream", data=b"", check=True):
    """The command within this process, which spares the seconds that imports take."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        file.write(data)
        file.seek(0)
        patch.setattr(sys, "argv", ["annealed", command, *map(str, arguments)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        kept = os.dup(0)  # standard input is read by its number
        os.dup2(file.fileno(), 0)
        try:
            with pytest.raises(SystemExit) as exit:
                main()
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    said = [each.buffer.getvalue() for each in (out, err)]
    done = subprocess.CompletedProcess(arguments, exit.value.code or 0, *said)
    if check:
        assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done


def same_file(first, second):
    """Two checkpoints hold the same model and the same figures."""
    one, other = (path.read_bytes() for path in (first, second))
    return one == other


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "rows.csv"
    path.write_bytes(rows_of(ROWS))
    return path


@pytest.fixture(scope="module")
def whole(table, tmp_path_factory):
    """The checkpoint of a run that nothing disturbed."""
    path = tmp_path_factory.mktemp("whole") / "whole.oda"
    done = run(table, "--target", "label", "--checkpoint", path, "--every", EVERY, "--json")
    summary = json.loads(done.stdout)
    assert summary["rows"] == ROWS
    assert summary["recent_accuracy"] > 0.9  # the classes lie about four deviations apart
    return path


def test_a_checkpoint_is_a_model(whole):
    model = annealed.load(whole)
    record = {"f0": 3.0, "f1": 0.0, "f2": 0.0, "f3": 0.0, "colour": "red"}
    assert model.predict_one(record) == "a"
    shown = run(whole, command="inspect")
    assert b"whole.oda" in shown.stdout and b"colour" in shown.stdout


def test_how_the_pipe_cuts_its_bytes_cannot_be_seen(table, whole, tmp_path):
    """From standard input in pieces of random size, some of a single byte."""
    path = tmp_path / "piped.oda"
    data = table.read_bytes()
    process = subprocess.Popen(
        [
            *COMMAND,
            "-",
            "--target",
            "label",
            "--checkpoint",
            path,
            "--every",
            str(EVERY),
            "--quiet",
        ],
        stdin=subprocess.PIPE,
    )
    rng, at = random.Random(0), 0
    while at < len(data):
        size = rng.choice([1, 17, 1000, 30_000, 200_000])
        process.stdin.write(data[at : at + size])
        process.stdin.flush()
        at += size
    process.stdin.close()
    assert process.wait(timeout=100) == 0
    assert same_file(path, whole)


def test_compressed_files_json_lines_and_line_ends_of_windows(table, whole, tmp_path):
    zipped, windows = tmp_path / "rows.csv.gz", tmp_path / "rows.csv"
    zipped.write_bytes(gzip.compress(table.read_bytes()))
    windows.write_bytes(table.read_bytes().replace(b"\n", b"\r\n"))
    for k, source in enumerate((zipped, windows)):
        path = tmp_path / f"{k}.oda"
        run(source, "--target", "label", "--checkpoint", path, "--every", EVERY)
        assert same_file(path, whole)
    names, *lines = table.read_text().splitlines()
    records = []
    for line in lines:
        cells = dict(zip(names.split(","), line.split(","), strict=True))
        for name in ("f0", "f1", "f2", "f3"):
            cells[name] = float(cells[name]) if cells[name] else None
        records.append(json.dumps(dict(sorted(cells.items(), reverse=True))))
    path = tmp_path / "json.oda"
    columns = "f0,f1,f2,f3,colour"
    run("-", "--target", "label", "--columns", columns, "--checkpoint", path, "--every", EVERY,
        data="\n".join(records).encode())  # fmt: skip
    models, figures = [], []
    for checkpoint in (path, whole):
        with Checkpoint(checkpoint) as found:
            model, extra = found.load()
        models.append(tmp_path / f"model-{checkpoint.name}")
        annealed.save(model, models[-1])
        figures.append([extra[key] for key in ("consumed", "scored", "mean", "recent")])
    assert figures[0] == figures[1]
    assert same_file(*models)


def test_killed_at_any_moment_model_and_answers_come_out_the_same(table, whole, tmp_path):
    """A few times here; fifty times over 200,000 rows in `python -m benchmarks streams`.

    It is given some rows and killed once it has answered some of them, so that it cannot come to
    its end before; when the answers of the run before suffice, it is killed while it starts.
    """
    rng, lines = random.Random(0), table.read_bytes().splitlines(keepends=True)
    path, answers, once = (tmp_path / name for name in ("killed.oda", "killed.csv", "once.csv"))
    command = [*COMMAND, "-", "--target", "label", "--every", str(EVERY // 3), "--quiet"]
    resumed = [*command, "--checkpoint", path, "--predictions", answers]
    for given in tries((90, 1100, ROWS - 10), (90, 1500, 4200, 4300, 8000, ROWS - 10)):
        process = subprocess.Popen(resumed, stdin=subprocess.PIPE)
        process.stdin.write(b"".join(lines[: given + 1]))
        process.stdin.flush()
        while given > 100 and len(read(answers).splitlines()) < rng.randrange(given):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run(*resumed[4:], data=table.read_bytes())
    run(*command[4:], "--predictions", once, data=table.read_bytes())
    assert same_file(answers, once)
    states = [Checkpoint(each) for each in (path, whole)]
    with states[0] as killed, states[1] as undisturbed:
        (model, state), (other, expected) = killed.load(), undisturbed.load()
    for name in ("answers_size", "answers_digest"):
        assert state.pop(name) and expected.pop(name) is None
    assert state == expected
    for name, each in (("1", model), ("2", other)):
        annealed.save(each, tmp_path / name)
    assert same_file(tmp_path / "1", tmp_path / "2")
    leftovers = {p.name for p in tmp_path.iterdir()}
    assert leftovers <= {"killed.oda", "killed.oda.lock", "killed.csv", "once.csv", "1", "2"}


def read(path):
    return path.read_bytes() if path.exists() else b""


def test_a_second_process_is_refused_and_a_request_to_end_saves_what_was_learnt(table, tmp_path):
    path = tmp_path / "shared.oda"
    process = subprocess.Popen(
        [*COMMAND, "-", "--target", "label", "--checkpoint", path, "--every", "1000000",
         "--predictions", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"".join(table.read_bytes().splitlines(keepends=True)[:2000]))
    process.stdin.flush()
    await_answers(process, 1000)  # it waits for more, or is about to
    second = run(table, "--target", "label", "--checkpoint", path, check=False)
    assert second.returncode == 1
    assert str(process.pid) in second.stderr.decode() and "shared.oda" in second.stderr.decode()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert 1000 <= json.loads(_header(path))["consumed"] < 2000


def await_answers(process, n):
    """Read the line of names and n answers from the output of a process."""
    for _ in range(n + 1):
        assert process.stdout.readline(), process.stderr and process.stderr.read()


def _header(path):
    with Checkpoint(path) as checkpoint:
        return json.dumps(checkpoint.load()[1])


def test_going_on_with_rows_that_came_since(table, whole, tmp_path):
    names, *lines = table.read_text().splitlines()
    path = tmp_path / "later.oda"
    for part in (lines[: ROWS // 3], lines[ROWS // 3 :]):
        run("-", "--target", "label", "--checkpoint", path, "--every", EVERY, "--new-rows",
            data="\n".join([names, *part]).encode())  # fmt: skip
    later, model = annealed.load(path), annealed.load(whole)
    np.testing.assert_array_equal(later.codevectors_, model.codevectors_)


def test_a_file_that_grows_is_followed(tmp_path):
    path, checkpoint = tmp_path / "grows.csv", tmp_path / "grows.oda"
    data = rows_of(1000)
    path.write_bytes(data[:20_000])
    process = subprocess.Popen(
        [*COMMAND, path, "--target", "label", "--follow", "--checkpoint", checkpoint,
         "--every", "100", "--quiet", "--predictions", "-"],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    await_answers(process, 100)  # it has begun
    with path.open("ab") as file:
        file.write(data[20_000:])
    await_answers(process, 899)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    model = annealed.load(checkpoint)
    assert sum(c.samples + c.run.count for c in model.estimator_._learner.annealer.classes) == 1000


def test_one_prediction_for_every_row(table, tmp_path):
    done = run(table, "--target", "label", "--predictions", "-", "--quiet")
    head, *lines = done.stdout.decode().splitlines()
    assert head == "row,prediction,probability" and len(lines) == ROWS
    assert lines[:100] == [f"{row},," for row in range(1, 101)]  # nothing is known yet
    own = [line.rsplit(",", 1)[1] for line in table.read_text().splitlines()[1:]]
    right = [line.split(",")[1] == label for line, label in zip(lines, own, strict=True)]
    assert np.mean(right[-ROWS // 2 :]) > 0.9
    clusters = run(table, "--drop", "label", "--n-clusters", "3", "--json")
    assert json.loads(clusters.stdout)["clusters"] == 3


# -- what can go wrong -------------------------------------------------------------------------


# Twenty-one different whole numbers.
AGES = b"".join(b"%d,%d\n" % (k % 5, 20 + k % 21) for k in range(84))


def broken(line, column, cell, data=None):
    lines = (data or rows_of(600)).decode().splitlines()
    cells = lines[line].split(",")
    cells[column] = cell
    lines[line] = ",".join(cells)
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    "data, options, words",
    [
        (b"", [], "standard input is empty"),
        (b"a,b\n1,2\n" * 200, ["--target", "c"], "has no column 'c'"),
        (b"a,a\n1,2\n", [], "the name 'a' stands over columns 1 and 2"),
        (broken(457, 0, "warm"), ["--target", "label"], "row 457, column 'f0': 'warm'"),
        (broken(457, 5, ""), ["--target", "label"], "row 457, column 'label': the target is"),
        (broken(300, 2, "1,2"), ["--target", "label"], "row 300: 7 cells where the line of names"),
        (b'{"a": 1}\n' * 300 + b"oops\n", [], "row 301: it is not JSON"),
        (b'{"a": 1}\n[1]\n', [], "row 2: it is not a JSON object"),
        (b'a,b\n1,"2\n', [], "inside quotation marks"),
        (b'a,b\n1,"2\n', [], "standard input: the input ends"),
        (b"a,b\n", [], "standard input has names of columns, but no rows"),
        (b"a,b\n" + b"1\n" * 9, ["--skip-bad-rows"], "none of its 9 rows can be read"),
        (b'{"a": [1]}\n', [], "standard input, row 1, column 'a': a cell must be a number"),
        (b'[{"a": 1},\n{"a": 2}]\n', [], "one array of JSON"),
        (b"a,y\n" + b"1,0.5\n2,1.5\n" * 99, ["--target", "y"], "looks like a quantity"),
        (b"a,y\n" + AGES, ["--target", "y"], "21 different whole numbers in 84 rows"),
        (b"gr\xf6\xdfe,y\n1,2\n", [], r"standard input: the column name b'gr\xf6\xdfe' is not"),
        (b"a\n-1\n2\n", ["--divergence", "i_divergence"], "standard input: Negative values"),
        (rows_of(200), ["--seed", "-1"], "'--seed'"),
        (rows_of(200), ["--metrics-every", "-1"], "'--metrics-every'"),
        (b"\x00\x01\x02\n", [], "neither CSV nor JSON"),
        (rows_of(200), ["--drop", "f9"], "has no column 'f9'"),
        (rows_of(200), ["--every", "0"], "'--every'"),
        (rows_of(200), ["--follow"], "--follow is for files"),
        (rows_of(200), ["--new-rows"], "--checkpoint"),
        (rows_of(200), ["--divergence", "cosine"], "'cosine' is not one of"),
    ],
)
def test_mistakes_are_told_in_one_line(data, options, words):
    done = run("-", *options, data=data, check=False)
    message = done.stderr.decode()
    assert done.returncode == 2, message
    assert words in message and message.count("\n") == 1 and "Traceback" not in message


@pytest.mark.parametrize(
    ("data", "option"),
    [(b"a,y\n" + AGES, ["--categorical", "a,y"]),
     (b"".join(b'{"a": 1, "y": "%d"}\n' % (k % 40) for k in range(200)), [])],
)  # fmt: skip
def test_whole_numbers_are_classes_if_that_is_said(tmp_path, data, option):
    """By the option, or where JSON has them as texts."""
    model = tmp_path / "ages.oda"
    run("-", "--target", "y", "--model", model, *option, data=data)
    learnt = annealed.load(model)
    assert len(learnt.classes_) == len({line.rsplit(b",")[-1] for line in data.splitlines()[1:]})
    assert learnt.preprocessor_.kinds_ == (("category",) if option else ("number",))


@pytest.mark.parametrize("harm", ["cut", "flipped", "plain"])
def test_a_damaged_compressed_file_is_named(tmp_path, harm):
    path = tmp_path / "rows.csv.gz"
    whole = gzip.compress(rows_of(600))
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    path.write_bytes({"cut": whole[:middle], "flipped": flipped, "plain": rows_of(600)}[harm])
    done = run(path, "--target", "label", check=False)
    message = done.stderr.decode()
    assert done.returncode == 2 and message.count("\n") == 1
    assert "rows.csv.gz cannot be decompressed" in message


@pytest.mark.parametrize("option", ["--predictions", "--model", "--checkpoint"])
def test_the_source_is_never_written_to(tmp_path, option):
    path = tmp_path / "rows.csv"
    path.write_bytes(rows_of(200))
    done = run(path, "--target", "label", option, path, check=False)
    assert done.returncode == 2 and f"{option} names" in done.stderr.decode()
    assert path.read_bytes() == rows_of(200)


def test_rows_outside_the_domain_can_be_left_out_at_any_time():
    data = b"a,b\n" + b"1,2\n3,1\n" * 400 + b"-1,2\n" + b"2,2\n" * 200
    options = ("--divergence", "i_divergence")
    done = run("-", *options, data=data, check=False)
    assert done.returncode == 2 and "standard input, after row 800: Neg" in done.stderr.decode()
    left = run("-", *options, "--skip-bad-rows", "--json", data=data)
    assert json.loads(left.stdout)["bad_rows"] == 1


def test_bad_rows_can_be_left_out():
    data = broken(300, 2, "1,2", broken(457, 0, "warm"))
    done = run("-", "--target", "label", "--skip-bad-rows", "--json", data=data)
    summary = json.loads(done.stdout)
    assert summary["rows"] == 600 and summary["bad_rows"] == 2
    early = b'{"a": 1}\n{"a": [1]}\noops\n' + b'{"a": 2}\n' * 9  # before columns are known
    done = run("-", "--skip-bad-rows", "--json", data=early)
    assert json.loads(done.stdout)["bad_rows"] == 2


def test_checkpoints_of_other_things_are_refused(table, whole, tmp_path):
    path = tmp_path / "other.oda"
    shutil.copy(whole, path)
    other = run(table, "--target", "colour", "--checkpoint", path, check=False)
    assert other.returncode == 2 and "--target label" in other.stderr.decode()
    fewer = run(table, "--target", "label", "--drop", "f0", "--checkpoint", path, check=False)
    assert fewer.returncode == 2 and "made with the columns" in fewer.stderr.decode()
    without = run(table, "--checkpoint", path, check=False)
    assert without.returncode == 2 and "None" not in without.stderr.decode()
    short = run("-", "--target", "label", "--checkpoint", path, data=rows_of(500), check=False)
    assert short.returncode == 2 and "--new-rows" in short.stderr.decode()
    assert same_file(path, whole)
    annealed.save(
        annealed.ODAClustering(2).fit(np.random.default_rng(0).normal(size=(50, 2))), path
    )
    model = run(table, "--target", "label", "--checkpoint", path, check=False)
    assert model.returncode == 2 and "no checkpoint of a stream" in model.stderr.decode()
    path.write_bytes(whole.read_bytes()[:-100])
    damaged = run(table, "--target", "label", "--checkpoint", path, check=False)
    assert damaged.returncode == 2 and "other.oda" in damaged.stderr.decode()
    with pytest.raises(ModelFileError):
        annealed.load(path)


def test_a_folder_that_cannot_be_written_is_noticed_before_a_row_is_read(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "-", "--checkpoint", tmp_path / "nowhere" / "x.oda"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    # Nothing has been sent yet: it must not wait for rows to find out.
    assert process.wait(timeout=60) == 1
    assert b"nowhere" in process.stderr.read()
    process.stdin.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full_ends_it_cleanly(table):
    done = run(table, "--target", "label", "--predictions", "/dev/full", check=False)
    assert done.returncode == 1
    assert b"/dev/full" in done.stderr or b"space" in done.stderr
