"""Files are written whole or not at all, and errors name them."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from annealed import ODAClustering, TabularModel, save
from annealed.__main__ import main
from annealed.experiments.page import Run, write_page
from annealed.experiments.results import Outcome, write_csv
from annealed.persistence.whole_files import replacing, write_text

resource = pytest.importorskip("resource", reason="only POSIX lets us limit the size of files")

SOURCE = Path(__file__).parents[2] / "src" / "annealed"


@contextlib.contextmanager
def no_room():
    """The system lets this process write no more than a few bytes to a file, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    # What is imported meanwhile would leave half of its bytecode in the environment.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rows(n=300):
    return [{"a": float(k % 7), "b": k % 3} for k in range(n)]


@pytest.fixture(scope="module")
def model():
    return TabularModel(ODAClustering(3, gamma=0.8, random_state=0)).fit(rows())


def page(path, model):
    pytest.importorskip("jinja2", exc_type=ImportError)
    pytest.importorskip("plotly", exc_type=ImportError)
    from annealed.report import explore

    explore(model, rows()).save(path)


def picture(path, model):
    pytest.importorskip("matplotlib", exc_type=ImportError)
    from annealed.experiments.drawing import figure
    from annealed.experiments.drawing import save as save_figure

    with figure(1, 1, 4, 3) as (drawn, axes):
        axes[0, 0].plot(np.arange(9))
        save_figure(drawn, path.parent, path.stem)


def results(path, model):
    pytest.importorskip("jinja2", exc_type=ImportError)
    write_page(path.parent, [Outcome("fig", "Fig.", ["words " * 999])], Run(True, 1.0))


WRITERS = {
    "page.html": page,
    "picture.png": picture,
    "numbers.csv": lambda path, model: write_csv(path, ["n"], [[k] for k in range(9999)]),
    "results.md": results,
    "model.oda": lambda path, model: save(model, path),
    "words.txt": lambda path, model: write_text(path, "word " * 999),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there_and_is_told_with_the_name(tmp_path, model, name):
    path = tmp_path / name
    path.write_text("before")
    with no_room(), pytest.raises(OSError, match=r"could not be written.*untouched") as caught:
        WRITERS[name](path, model)
    assert caught.value.errno == errno.EFBIG and caught.value.filename == str(path)
    assert path.read_text() == "before"
    # What else that writer wrote whole (checks.csv of a page) is no half of a file.
    assert not [other for other in tmp_path.iterdir() if other.name.startswith(".")]
    path.unlink()
    with no_room(), pytest.raises(OSError, match="could not be written"):
        WRITERS[name](path, model)
    assert not path.exists()
    WRITERS[name](path, model)
    assert path.stat().st_size > 2000


@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet", "page.html"])
def test_commands_tell_it_in_one_line(tmp_path, model, monkeypatch, capsys, name):
    pytest.importorskip("typer", exc_type=ImportError)
    pytest.importorskip("pyarrow", exc_type=ImportError)
    save(model, tmp_path / "model.oda")
    data = tmp_path / "data.csv"
    data.write_text("a,b\n" + "".join(f"{row['a']},{row['b']}\n" for row in rows(9999)))
    command = (
        ["predict", tmp_path / "model.oda", data, "--proba"] if name.startswith("answers")
        else ["report", tmp_path / "model.oda", "--data", data]
    )  # fmt: skip
    before = {*tmp_path.iterdir()}
    arguments = ["annealed", *map(str, command), "--out", str(tmp_path / name)]
    monkeypatch.setattr(sys, "argv", arguments)
    with no_room(), pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{tmp_path / name}: could not be written" in said
    assert {*tmp_path.iterdir()} == before


def write_half(path, error):
    with replacing(path) as file:
        file.write(b"half")
        raise error


def test_an_error_about_something_else_is_not_laid_on_the_file(tmp_path):
    with pytest.raises(OSError, match=r"^the source has gone$"):
        write_half(tmp_path / "out", OSError("the source has gone"))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "out", KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_what_is_no_file_is_not_replaced(tmp_path):
    with pytest.raises(OSError, match=r"could not be written: .*not an ordinary file.*/dev/full"):
        write_text(Path("/dev/full"), "word")


def test_nothing_in_the_package_writes_files_by_itself():
    """Lines of a stream are there to be read while they grow; everything else is whole."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _writes(node):
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == {"cli/line_files.py"}


def _writes(call):
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    texts = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if name == "savefig":
        return ast.unparse(call.args[0]) != "file"  # one that `replacing` gave
    if isinstance(call.func, ast.Attribute) and name in ("write_text", "write_bytes", "tofile"):
        return True
    return name == "open" and any(str(text)[:1] in ("w", "a", "x") for text in texts)
