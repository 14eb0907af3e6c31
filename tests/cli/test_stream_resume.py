"""`annealed stream` goes on: answers, other sources, changed options, files that are replaced.

All within this process. Where a moment matters it is made: a signal from within a read, a file
replaced while the reader sleeps, an error where a process would be killed.
"""

import base64
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from thoroughness import tries

pytest.importorskip("typer")
# A pyarrow that does not fit an old numpy raises more than that it is not there.
pytest.importorskip("pyarrow", exc_type=ImportError)

from annealed.__main__ import main
from annealed.cli import stream_session
from annealed.persistence import Checkpoint
from annealed.tables.files import following, records
from annealed.tables.files.records import Fingerprint, RecordReader

# Rows of a stream, which ends within a block of a hundred, and rows between two checkpoints.
ROWS, EVERY = tries((650, 200), (2350, 500))


def csv_lines(n=ROWS, seed=0):
    """A line of names and n rows: numbers, a text, a label of three that is not always right."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + 1.5 * np.eye(3, 2)[y]
    rows = [
        f"{a:.3f},{b:.3f},{'red' if k % 3 else 'blue'},{'abc'[c]}"
        for k, (a, b, c) in enumerate(zip(*X.T.tolist(), y.tolist(), strict=True))
    ]
    return ["f0,f1,colour,label", *rows]


def text_of(lines):
    return "".join(f"{line}\n" for line in lines)


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def summary(self):
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C is heard here also where tests are begun in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def stream(monkeypatch, capsysbinary):
    """The command, with the label as target unless it is told otherwise."""

    def stream(source, *options, target=True):
        options = [*(["--target", "label"] if target else []), *options]
        monkeypatch.setattr(sys, "argv", ["annealed", "stream", *map(str, (source, *options))])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capsysbinary.readouterr()
        return Done(exit.value.code or 0, out.decode(), err.decode())

    return stream


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text_of(csv_lines()))
    return path


UNDISTURBED = {}


def undisturbed(stream, tmp_path, rows):
    """Summary, checkpoint, model and answers of a run that nothing disturbed; run once."""
    if rows not in UNDISTURBED:
        path = tmp_path / "undisturbed.csv"
        path.write_text(text_of(csv_lines(rows)))
        UNDISTURBED[rows] = finish(stream, path, tmp_path / "undisturbed")
    return UNDISTURBED[rows]


@pytest.fixture
def whole(stream, tmp_path):
    """What a run leaves that nothing disturbed."""
    return undisturbed(stream, tmp_path, ROWS)


def places(folder):
    folder.mkdir(exist_ok=True)
    return folder / "state.oda", folder / "answers.csv", folder / "model.oda"


def finish(stream, source, folder, *options):
    state, answers, model = places(folder)
    done = stream(source, "--checkpoint", state, "--predictions", answers, "--model", model,
                  "--json", "--every", EVERY, *options)  # fmt: skip
    assert done.code == 0, done.err
    summary = {key: value for key, value in done.summary.items()
               if key not in ("seconds", "rows_per_second", "checkpoint")}  # fmt: skip
    return summary, state.read_bytes(), model.read_bytes(), answers.read_bytes()


def standing(path):
    with Checkpoint(path) as checkpoint:
        return checkpoint.load()[1]


class Killed(BaseException):
    """The process is gone."""


def kill_at(monkeypatch, stream, source, folder, moment, times):
    """A run that ends without a word before or after the checkpoint of that number is written."""
    state, answers, _ = places(folder)
    real, count = Checkpoint.save, 0

    def save(self, model, **extra):
        nonlocal count
        count += 1
        if moment == "before" and count == times:
            raise Killed
        real(self, model, **extra)
        if count == times:
            raise Killed

    monkeypatch.setattr(Checkpoint, "save", save)
    with pytest.raises(Killed):
        stream(source, "--checkpoint", state, "--predictions", answers, "--every", EVERY)
    monkeypatch.setattr(Checkpoint, "save", real)


def interrupted_at_the_end(monkeypatch, stream, source, *options, steps=()):
    """Follow a file; each time it waits a step is done, and then comes Ctrl-C."""
    steps = iter(steps)

    def sleep(seconds):
        step = next(steps, None)
        if step is None:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            step()

    monkeypatch.setattr(following.time, "sleep", sleep)
    done = stream(source, "--follow", *options)
    assert done.code == 130 and done.err.splitlines()[-1] == "annealed: interrupted"
    return done


# -- answers -----------------------------------------------------------------------------------


def test_answers_are_numbered_as_rows_are(stream, source, tmp_path, whole):
    head, *lines = whole[3].decode().splitlines()
    assert head == "row,prediction,probability"
    assert [int(line.split(",")[0]) for line in lines] == list(range(1, ROWS + 1))
    lines = csv_lines()
    lines[200] = lines[200].replace(",", "", 1)  # too few cells
    source.write_text(text_of(lines))
    done = stream(source, "--predictions", "-", "--skip-bad-rows", "--quiet")
    numbers = [int(line.split(",")[0]) for line in done.out.splitlines()[1:]]
    assert numbers == [k for k in range(1, ROWS + 1) if k != 200]
    assert "row 200: 3 cells" in stream(source).err


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", [1, 3])
def test_killed_around_a_checkpoint(monkeypatch, stream, source, tmp_path, whole, moment, times):
    folder = tmp_path / "killed"
    kill_at(monkeypatch, stream, source, folder, moment, times)
    answers = folder / "answers.csv"
    assert answers.read_text().count("\n") >= EVERY * times
    with answers.open("a") as file:  # and more that no checkpoint knows of, the last line torn
        file.write(f"{EVERY * times + 1},b,0.5\n{EVERY * times + 2},a,0.")
    assert finish(stream, source, folder) == whole


def test_killed_again_and_again(monkeypatch, stream, source, tmp_path, whole):
    folder = tmp_path / "killed"
    for moment in ("before", "after", "before", "after", "before"):
        kill_at(monkeypatch, stream, source, folder, moment, 1)
    assert finish(stream, source, folder) == whole


def test_answers_are_on_the_disk_before_the_checkpoint_says_so(
    monkeypatch, stream, source, tmp_path
):
    order = []
    real_sync, real_save = os.fsync, Checkpoint.save
    answers = tmp_path / "answers.csv"

    def sync(descriptor):
        same = answers.exists() and os.path.samestat(os.fstat(descriptor), answers.stat())
        order.append(("answers", answers.read_bytes().count(b"\n") - 1) if same else "other")
        real_sync(descriptor)

    def save(self, model, **extra):
        order.append(("checkpoint", extra["consumed"]))
        real_save(self, model, **extra)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Checkpoint, "save", save)
    stream(source, "--checkpoint", tmp_path / "s.oda", "--predictions", answers, "--every", EVERY)
    places = [k for k, step in enumerate(order) if step[0] == "checkpoint"]
    assert len(places) == -(-ROWS // EVERY)
    for k in places:
        assert order[k - 1] == ("answers", order[k][1])


def test_a_file_of_answers_that_is_not_the_one(monkeypatch, stream, source, tmp_path, whole):
    folder = tmp_path / "killed"
    kill_at(monkeypatch, stream, source, folder, "after", 2)
    state, answers, _ = places(folder)
    good, before = answers.read_bytes(), state.read_bytes()
    for other in (b"my thesis\n", good[: len(good) // 2], good.replace(b",a,", b",b,", 1)):
        answers.write_bytes(other)
        done = stream(source, "--checkpoint", state, "--predictions", answers)
        assert done.code == 2 and "answers.csv is not the file of answers" in done.err
        assert f"row {2 * EVERY + 1}" in done.err and done.err.count("\n") == 1
        assert answers.read_bytes() == other and state.read_bytes() == before
    answers.unlink()  # moved away: a new one has the rows from here on
    done = stream(source, "--checkpoint", state, "--predictions", answers, "--quiet")
    assert done.code == 0 and f"a new one begins with row {2 * EVERY + 1}" in done.err
    later = whole[3].decode().splitlines(keepends=True)
    assert answers.read_text() == "".join([later[0], *later[2 * EVERY + 1 :]])


def test_a_fresh_start_replaces_answers_but_nothing_else(stream, source, tmp_path, whole):
    path = tmp_path / "a.csv"
    path.write_bytes(whole[3] + b"9999,x,")
    assert stream(source, "--predictions", path).code == 0
    assert path.read_bytes() == whole[3]
    for other in ("a,b\n1,2\n", "row,prediction\n1,a\n"):
        path.write_text(other)
        done = stream(source, "--predictions", path)
        assert done.code == 2 and "would be overwritten" in done.err
        assert path.read_text() == other


def test_answers_that_begin_or_stop_on_the_way(monkeypatch, stream, source, tmp_path, whole):
    """A run without answers leaves no file behind that the next could go on with."""
    folder = tmp_path / "killed"
    kill_at(monkeypatch, stream, source, folder, "after", 1)
    state, answers, _ = places(folder)
    lines, unanswered = csv_lines(), 3 * EVERY
    source.write_text(text_of(lines[: unanswered + 1]))
    assert stream(source, "--checkpoint", state).code == 0  # to its end
    source.write_text(text_of(lines))
    done = stream(source, "--checkpoint", state, "--predictions", answers)
    assert done.code == 2 and f"not a file of answers from row {unanswered + 1} on" in done.err
    other = folder / "other.csv"
    assert stream(source, "--checkpoint", state, "--predictions", other).code == 0
    assert other.read_text().splitlines()[1].startswith(f"{unanswered + 1},")


def test_a_label_with_a_line_end_is_cut_where_it_ends(monkeypatch, stream, source, tmp_path):
    lines = [line[:-1] + '"one\n""a"""' if line[-1] == "a" else line for line in csv_lines()]
    source.write_text(text_of(lines))
    whole = finish(stream, source, tmp_path / "whole")
    kill_at(monkeypatch, stream, source, tmp_path / "killed", "before", 3)
    assert finish(stream, source, tmp_path / "killed") == whole


# -- Ctrl-C ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "target"),
    [
        (ROWS - 50, True),
        (ROWS - 49, False),
        *tries([], [(ROWS - 233, True), (ROWS - 49, True)]),
    ],
)
def test_interrupted_within_a_block(monkeypatch, stream, source, tmp_path, at, target):
    """Figures, model, answers: all as if it had never been interrupted."""
    lines = csv_lines()
    if not target:
        lines = [line.rpartition(",")[0] for line in lines]
        source.write_text(text_of(lines))

    def run(*arguments):
        return stream(*arguments, target=target)

    whole = finish(run, source, tmp_path / "whole")
    state, answers, _ = places(tmp_path / "interrupted")
    source.write_text(text_of(lines[: at + 1]))
    interrupted_at_the_end(
        monkeypatch, run, source, "--checkpoint", state, "--predictions", answers
    )
    assert standing(state)["consumed"] == answers.read_text().count("\n") - 1 == at
    source.write_text(text_of(lines))
    assert finish(run, source, tmp_path / "interrupted") == whole


def test_long_rows_are_learnt_before_their_block_is_full(monkeypatch, stream, source, tmp_path):
    """A checkpoint has room for rows that wait; still nothing can be seen of an interruption."""
    monkeypatch.setattr(stream_session, "MOST_WAITING", 1000)
    whole = finish(stream, source, tmp_path / "whole")
    state, answers, _ = places(tmp_path / "interrupted")
    source.write_text(text_of(csv_lines()[: ROWS - 372]))
    interrupted_at_the_end(
        monkeypatch, stream, source, "--checkpoint", state, "--predictions", answers
    )
    assert 0 < len(base64.b64decode(standing(state)["pending"])) < 1000
    source.write_text(text_of(csv_lines()))
    assert finish(stream, source, tmp_path / "interrupted") == whole


def test_interrupted_where_the_source_ends(monkeypatch, stream, source, tmp_path, whole):
    state, answers, _ = places(tmp_path / "end")
    interrupted_at_the_end(
        monkeypatch, stream, source, "--checkpoint", state, "--predictions", answers
    )
    assert finish(stream, source, tmp_path / "end") == whole


def test_interrupted_while_pyarrow_reads(monkeypatch, stream, source, tmp_path, whole):
    class Interrupting(io.BytesIO):
        def read(self, *arguments):
            if not sent:
                sent.append(True)
                signal.raise_signal(signal.SIGINT)
            return super().read(*arguments)

    sent = []
    with monkeypatch.context() as patch:
        patch.setattr(records.io, "BytesIO", Interrupting)
        state, answers, _ = places(tmp_path / "interrupted")
        done = stream(source, "--checkpoint", state, "--predictions", answers)
    assert sent and done.code == 130 and done.err == "annealed: interrupted\n"
    assert finish(stream, source, tmp_path / "interrupted") == whole


IMPORTED = """
import signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

import annealed
sys.meta_path.insert(0, Finder())
sys.modules.pop({name!r}, None)
sys.argv = ["annealed", "datasets"]
from annealed.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["annealed.cli", "typer", "annealed.cli.application"])
def test_interrupted_while_modules_are_imported(name):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(name=name)], capture_output=True, timeout=100
    )
    assert done.returncode == 130 and done.stderr == b"annealed: interrupted\n"


# -- another source ----------------------------------------------------------------------------


def test_another_source_is_noticed(monkeypatch, stream, source, tmp_path):
    state = tmp_path / "state.oda"
    lines = csv_lines()
    source.write_text(text_of(lines[:401]))
    assert stream(source, "--checkpoint", state).code == 0
    before = state.read_bytes()
    cell = lines[200].replace(lines[200][:5], "9.999", 1)
    for other in (
        csv_lines(seed=1),
        [*lines[:200], cell, *lines[201:]],
        [*lines[:200], *lines[201:]],
        [*lines[:200], lines[201], lines[200], *lines[202:]],
    ):
        source.write_text(text_of(other))
        done = stream(source, "--checkpoint", state, "--predictions", tmp_path / "a.csv")
        assert done.code == 2 and done.err.count("\n") == 1
        assert f"rows 1 to 400 of {source} are not those that {state} has learnt" in done.err
        assert "--new-rows" in done.err and "another --checkpoint" in done.err
        assert state.read_bytes() == before and not (tmp_path / "a.csv").exists()
    for names in ("f1,f0,colour,label", "f0,f1,colour,label,more"):
        source.write_text(text_of([names, *lines[1:]]))
        assert "other columns than" in stream(source, "--checkpoint", state).err
    source.write_text(text_of(lines[:201]))
    done = stream(source, "--checkpoint", state)
    assert done.code == 2 and f"{source} has 200 rows, but {state} has learnt 400" in done.err
    assert state.read_bytes() == before


def test_what_does_not_make_another_source(monkeypatch, stream, source, tmp_path, whole):
    """Blank lines, line ends of Windows, a byte order mark, a last line without its end."""
    folder = tmp_path / "changed"
    lines = csv_lines()
    source.write_text(text_of(lines[:334]).rstrip("\n"))
    state, answers, _ = places(folder)
    interrupted_at_the_end(
        monkeypatch, stream, source, "--checkpoint", state, "--predictions", answers
    )
    text = "\ufeff" + text_of(lines).replace("\n", "\r\n").replace("\r\n", "\r\n\r\n", 300)
    source.write_bytes(text.encode())
    summary, _, model, answered = finish(stream, source, folder)
    assert (summary, model, answered) == (whole[0], whole[2], whole[3])


def test_the_fingerprint_does_not_see_how_bytes_come():
    class Pieces(io.BytesIO):
        def __init__(self, data, size):
            super().__init__(data)
            self.size = size

        def read1(self, size=-1):
            return self.read(self.size)

    text = b'a,b\n1,"2\n3"\n\n4,5\n'
    found = set()
    for variant in (text, text.replace(b"\n", b"\r\n"), text.replace(b"\n\n", b"\n")[:-1]):
        for size in (1, 2, 5, 1000):
            fingerprint = Fingerprint()
            for some in RecordReader(Pieces(variant, size)):
                fingerprint.update(some)
            found.add(fingerprint.text)
    assert len(found) == 1


def test_new_rows_and_then_the_same_source_again(monkeypatch, stream, tmp_path):
    """A second file goes on where the first ended; killed, it is started without --new-rows."""
    first_rows, rows = tries((400, 900), (2000, 4000))
    lines = csv_lines(rows)
    first, second, both = (tmp_path / name for name in ("1.csv", "2.csv", "both.csv"))
    first.write_text(text_of(lines[: first_rows + 1]))
    second.write_text(text_of([lines[0], *lines[first_rows + 1 :]]))
    both.write_text(text_of(lines))
    whole = finish(stream, both, tmp_path / "whole")
    folder = tmp_path / "parts"
    finish(stream, first, folder)
    real = Checkpoint.save
    state, answers, _ = places(folder)

    def save(self, model, **extra):
        real(self, model, **extra)
        raise Killed

    monkeypatch.setattr(Checkpoint, "save", save)
    options = ("--checkpoint", state, "--predictions", answers, "--every", EVERY)
    with pytest.raises(Killed):
        stream(second, *options, "--new-rows")
    monkeypatch.setattr(Checkpoint, "save", real)
    found = standing(state)
    assert (found["begins"], found["consumed"]) == (first_rows, first_rows + EVERY)
    summary, _, model, answered = finish(stream, second, folder)
    assert (summary, model, answered) == (whole[0], whole[2], whole[3])
    again = stream(both, "--checkpoint", state)
    assert again.code == 2 and f"rows 1 to {rows - first_rows} of" in again.err
    bad = tmp_path / "bad.csv"
    bad.write_text(text_of([lines[0], *lines[1:7], "warm,1,red,a"]))
    done = stream(bad, "--checkpoint", state, "--new-rows")
    assert f"row 7 (row {rows + 7} of the stream), column 'f0'" in done.err


OPTIONS = [
    (["--seed", "1"], "with --seed 0 and not with --seed 1"),
    (["--divergence", "logistic"], "with --divergence squared_euclidean and not"),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS)
@pytest.mark.parametrize("target", [True, False])
def test_changed_options_are_refused(stream, source, tmp_path, options, words, target):
    refused(stream, source, tmp_path / "state.oda", options, words, target)


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (True, ["--no-drift"], "with --drift and not without --drift"),  # as classifiers do
        (False, ["--drift"], "without --drift and not with --drift"),
    ],
)
def test_who_listens_goes_on_listening(stream, source, tmp_path, options, words, target):
    refused(stream, source, tmp_path / "state.oda", options, words, target)


def refused(stream, source, state, options, words, target):
    source.write_text(text_of(csv_lines(200)))  # enough for a checkpoint
    drop = [] if target else ["--drop", "label"]
    assert stream(source, "--checkpoint", state, *drop, target=target).code == 0
    before = state.read_bytes()
    done = stream(source, "--checkpoint", state, *drop, *options, target=target)
    assert done.code == 2 and f"{state} was made {words}" in done.err
    assert state.read_bytes() == before


def test_changed_clusters_and_columns_are_refused(stream, source, tmp_path):
    state, lines = tmp_path / "state.oda", csv_lines(200)
    source.write_text(text_of(lines))
    common = ("--checkpoint", state)
    stream(source, *common, "--n-clusters", 3, "--drop", "label", target=False)
    done = stream(source, *common, "--n-clusters", 4, "--drop", "label", target=False)
    assert done.code == 2 and "with --n-clusters 3 and not with --n-clusters 4" in done.err
    names = lines[0].split(",")
    rows = [json.dumps(dict(zip(names, line.split(","), strict=True))) for line in lines[1:]]
    source.write_text(text_of(rows))
    state.unlink()
    assert stream(source, *common, "--columns", "colour,f0").code == 0
    for options in (["--columns", "colour"], ["--drop", "f0"], ["--columns", "colour,f0,f1"]):
        done = stream(source, *common, *options)
        assert done.code == 2 and "made with the columns 'colour', 'f0'" in done.err
    assert stream(source, *common).code == 0  # as the checkpoint has them


# -- files that are replaced -------------------------------------------------------------------


def followed(monkeypatch, stream, path, folder, steps):
    """Follow a file through some steps; what the checkpoint and the answers have then."""
    state, answers, _ = places(folder)
    done = interrupted_at_the_end(
        monkeypatch, stream, path, "--checkpoint", state, "--predictions", answers,
        "--every", EVERY, steps=steps,
    )  # fmt: skip
    return done, standing(state), answers.read_text()


ALL = tries(800, 3000)
LINES = csv_lines(ALL)
NAMES = LINES[0]


def rotated(path):
    path.rename(path.with_name(f"{path.name}.1"))


def append(path, text):
    with path.open("a") as file:
        file.write(text)


# Before the first block is full, within one, and where one ends.
CUTS = [60, 350, 400]
HOWS = ["renamed", "gone for a while", "empty for a while", "cut", "rows"]


@pytest.mark.parametrize(
    ("how", "cut"),
    tries([(how, CUTS[k % 3]) for k, how in enumerate(HOWS)], list(product(HOWS, CUTS))),
)
def test_a_replaced_file_is_followed(monkeypatch, stream, tmp_path, how, cut):
    """As `tail -F` does: the old one to its end, then the new one from its start."""
    path, rest = tmp_path / "log.csv", text_of([NAMES, *LINES[cut + 1 :]])
    first = text_of(LINES[:cut])  # one more is written while it is replaced
    last = LINES[cut] + "\n"
    path.write_text(first)

    def write_both():
        old = path.open("a")
        rotated(path)
        old.write(last)
        old.close()
        path.write_text(rest)

    def late():
        old = path.open("a")
        rotated(path)
        path.touch()  # there already, but nobody has written to it
        old.write(last)
        old.close()

    steps = {
        "renamed": [write_both],
        "gone for a while": [lambda: append(path, last), lambda: rotated(path), lambda: None,
                             lambda: path.write_text(rest)],
        "empty for a while": [late, lambda: None, lambda: append(path, rest)],
        "cut": [lambda: append(path, last), lambda: os.truncate(path, 0),
                lambda: append(path, rest)],
        # whoever writes does not know that the file was emptied, and writes no names
        "rows": [lambda: append(path, last), lambda: os.truncate(path, 0),
                 lambda: append(path, text_of(LINES[cut + 1 :]))],
    }[how]  # fmt: skip
    folder = tmp_path / "followed"
    done, state, answers = followed(monkeypatch, stream, path, folder, steps)
    assert done.err == "annealed: interrupted\n"
    assert (state["begins"], state["consumed"]) == (cut, ALL)
    reference = undisturbed(stream, tmp_path, ALL)
    assert answers.encode() == reference[3]
    # started again it finds the rows of the new file that it has learnt
    again = finish(stream, path, folder)
    assert (again[0], again[2], again[3]) == (reference[0], reference[2], reference[3])


def test_replaced_while_nobody_looked(monkeypatch, stream, tmp_path):
    path, folder = tmp_path / "log.csv", tmp_path / "followed"
    path.write_text(text_of(LINES[:421]))
    followed(monkeypatch, stream, path, folder, [])
    state, answers, _ = places(folder)
    append(path, text_of(LINES[421:521]))
    shutil.move(path, tmp_path / "log.csv.1")
    path.write_text(text_of([NAMES, *LINES[521:]]))
    options = ("--checkpoint", state, "--predictions", answers)
    done = stream(path, *options)
    assert done.code == 2 and "--new-rows" in done.err and str(path) in done.err
    # the rest of the old one, then the new one: nothing is lost
    assert stream(tmp_path / "log.csv.1", *options, "--quiet").code == 0
    assert stream(path, *options, "--new-rows", "--quiet").code == 0
    numbers = [int(line.split(",")[0]) for line in answers.read_text().splitlines()[1:]]
    assert numbers == list(range(1, ALL + 1))


def test_killed_right_after_a_file_was_replaced(monkeypatch, stream, tmp_path):
    """The checkpoint is written as soon as the old rows can no longer be found."""
    path, folder = tmp_path / "log.csv", tmp_path / "followed"
    state, answers, _ = places(folder)
    path.write_text(text_of(LINES[:351]))
    real = Checkpoint.save

    def save(self, model, **extra):
        real(self, model, **extra)
        if extra["begins"]:
            raise Killed

    def replace():
        rotated(path)
        path.write_text(text_of([NAMES, *LINES[351:]]))

    monkeypatch.setattr(Checkpoint, "save", save)
    with pytest.raises(Killed):
        interrupted_at_the_end(
            monkeypatch, stream, path, "--checkpoint", state, "--predictions", answers,
            "--every", "100000", steps=[replace],
        )  # fmt: skip
    monkeypatch.setattr(Checkpoint, "save", real)
    reference = undisturbed(stream, tmp_path, ALL)
    again = finish(stream, path, folder)
    assert (again[0], again[2], again[3]) == (reference[0], reference[2], reference[3])


def test_a_record_torn_by_a_replacement_is_left_out(monkeypatch, stream, tmp_path):
    path, folder = tmp_path / "log.csv", tmp_path / "followed"
    path.write_text(text_of(LINES[:401]) + "1.23")

    def replace():
        rotated(path)
        path.write_text(text_of([NAMES, *LINES[401:]]))

    done, state, _ = followed(monkeypatch, stream, path, folder, [replace])
    assert state["consumed"] == ALL and state["bad"] == 0
    note, last = done.err.splitlines()
    assert "log.csv was replaced or cut short before the end of a record" in note
    assert "'1.23'" in note and last == "annealed: interrupted"


@pytest.mark.parametrize("names", ["f0,f1,colour,kind", "a,b", '{"f0": 1}'])
def test_a_replacement_with_other_columns_is_refused(monkeypatch, stream, tmp_path, names):
    path, state = tmp_path / "log.csv", tmp_path / "state.oda"
    path.write_text(text_of(LINES[:401]))

    def replace():
        rotated(path)
        path.write_text(text_of([names, *LINES[401:]]))

    steps = iter([replace])
    monkeypatch.setattr(following.time, "sleep", lambda seconds: next(steps)())
    done = stream(path, "--follow", "--checkpoint", state)
    assert done.code == 2 and done.err.count("\n") == 1
    assert "log.csv was replaced by a file with other columns after row 400" in done.err
    assert standing(state)["consumed"] == 400


# -- hostile checkpoints -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"consumed": -1}, {"consumed": 10}, {"consumed": True}, {"begins": 10**9}, {"begins": "0"},
        {"fingerprint": "x"}, {"fingerprint": None}, {"pending": "?"}, {"pending": "YWJj"},
        {"pending": "YSxiCg=="}, {"delimiter": "||"}, {"delimiter": None}, {"names": [1]},
        {"columns": []}, {"columns": ["f0"] * 3}, {"kinds": ["f0"]}, {"kinds": {"f0": "number"}},
        {"mean": "high"}, {"mean": float("inf")}, {"recent": 10**400}, {"scored": 10**9},
        {"answers_size": -5}, {"answers_size": None}, {"answers_digest": "0" * 31},
    ],
)  # fmt: skip
def test_states_that_cannot_be_are_refused(stream, source, tmp_path, whole, changed):
    state, answers, _ = places(tmp_path / "changed")
    state.write_bytes(whole[1])
    answers.write_bytes(whole[3])
    with Checkpoint(state) as checkpoint:
        model, extra = checkpoint.load()
        checkpoint.save(model, **extra | changed)
    done = stream(source, "--checkpoint", state, "--predictions", answers)
    assert done.code == 2 and done.err.count("\n") == 1, done.err
    assert "state.oda' cannot be read as a model: " in done.err
