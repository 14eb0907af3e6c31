"""Every block of code in README.md and docs/ runs as it is printed.

Pages of the guide are sessions of an interpreter, whole pages that take nothing for granted, and
what they print is compared. Elsewhere blocks of Python share their names within a section (a
heading of the second level). What they take for granted is made here, in `preamble` and `folder`:
`X`, `y`, `X_new`, `batches`, `table`, `other`, `model` and `n`, and the files model.oda,
adult.csv.gz and new.parquet.

Of blocks of sh, `annealed ...` is run, `make` must name targets that there are, `pip install`
extras that there are. Commands in `LONG` are only parsed. Any other kind of block or command is an
error here: nothing is left out in silence.
"""

from __future__ import annotations

import doctest
import gzip
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

import annealed
from annealed import ODAClassifier
from annealed.__main__ import main

# What the documents show needs every extra.
for name in ("jinja2", "matplotlib", "plotly", "pyarrow", "typer"):
    pytest.importorskip(name, exc_type=ImportError)

ROOT = Path(__file__).parents[1]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *GUIDE]
# These take minutes. tests/experiments/test_reproduce.py runs them.
LONG = ("annealed reproduce",)
# What a document stands for with a word of its own.
PROGRAMS = {
    "sensor": "age,hours,state\n" + "".join(f"{k % 60},{k % 9},{k % 3}\n" for k in range(300))
}


def blocks_of(path):
    """(section, line, language, code) of every fenced block."""
    section, fence, found = "", None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None and line.startswith("## "):
            section = line[3:]
        elif fence is None and line.startswith("```"):
            fence = (number + 1, line[3:].strip(), [])
        elif fence is not None and line.startswith("```"):
            found.append((section, *fence[:2], "\n".join(fence[2]) + "\n"))
            fence = None
        elif fence is not None:
            fence[2].append(line)
    assert fence is None, f"{path}: a block is not closed"
    # What Sphinx makes of a page (a list of pages, a grid) is no code.
    return [block for block in found if not block[2].startswith("{")]


BLOCKS = [(path, *block) for path in DOCUMENTS for block in blocks_of(path)]
SECTIONS = list(
    dict.fromkeys(
        (path, section) for path, section, _, language, _ in BLOCKS if language != "pycon"
    )
)


@pytest.fixture(scope="module")
def preamble():
    """What a reader has: data, and models of it."""
    X, kinds = make_blobs(150, centers=3, random_state=0)
    many, answers = make_blobs(1500, centers=3, random_state=0)
    frame = pd.DataFrame({"age": 40 + 2 * many[:, 0], "hours": 35 + many[:, 1]})
    answers = np.array(["yes", "no", "perhaps"])[answers]
    table = pd.DataFrame(
        {
            "age": 40 + 2 * X[:, 0],
            "workclass": np.where(kinds == 0, "State-gov", "Private"),
            "target": np.where(kinds == 1, ">50K", "<=50K"),
        }
    )
    return {
        "X": X,
        "y": kinds,
        "X_new": X[:5],
        "batches": [(frame[k::3], answers[k::3]) for k in range(3)],
        "table": table,
        "other": ODAClassifier(random_state=1).partial_fit(frame, answers),
        "model": ODAClassifier(random_state=0).fit(X, kinds),
        "n": len(X),
    }


@pytest.fixture
def folder(preamble, tmp_path, monkeypatch):
    """Where the files are that blocks name."""
    annealed.save(preamble["model"], tmp_path / "model.oda")
    table = preamble["table"]
    with gzip.open(tmp_path / "adult.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    table.drop(columns="target").to_parquet(tmp_path / "new.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("ANNEALED_DATA", raising=False)
    return tmp_path


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("path", "section"), SECTIONS, ids=[f"{path.name}: {section}" for path, section in SECTIONS]
)
def test_the_blocks_of_a_section_run(path, section, preamble, folder, monkeypatch, capfd):
    names = dict(preamble)
    for where, heading, line, language, code in BLOCKS:
        if (where, heading) != (path, section):
            continue
        if language == "python":
            # Errors name the line of the document.
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
        elif language == "sh":
            for command in code.splitlines():
                run_command(command, monkeypatch)
        elif language == "pycon":
            assert path in GUIDE, f"{path}, line {line}: sessions are for the guide"
        else:
            pytest.fail(f"{path}, line {line}: a block of {language or 'no language'}")


@pytest.mark.quality
@pytest.mark.parametrize("path", GUIDE, ids=lambda path: path.stem)
def test_a_page_of_the_guide_prints_what_it_says(path, folder):
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(), {}
    told = []
    for where, _, line, language, code in BLOCKS:
        if where == path and language == "pycon":
            test = parser.get_doctest(code, names, path.name, str(path), line - 1)
            test.globs = names  # of the whole page; a test would copy them
            runner.run(test, out=told.append, clear_globs=False)
    assert not runner.failures, "".join(told)


def run_command(command, monkeypatch):
    before, _, last = command.rpartition("|")
    words = shlex.split(last, comments=True)
    if words[:1] == ["make"]:
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
        assert {*words[1:]} <= {*targets}, command
    elif words[:2] == ["pip", "install"]:
        asked = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[2])[1]
        assert {*(asked or "all").split(",")} <= {*extras()}, command
    elif words[:1] == ["annealed"] and last.strip().startswith(LONG):
        parse(words[1:])
    elif words[:1] == ["annealed"] and before:
        program = [sys.executable, "-m", *words]
        subprocess.run(program, input=PROGRAMS[before.strip()], text=True, check=True, timeout=300)
    elif words[:1] == ["annealed"]:
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as exit:
            main()
        assert not exit.value.code, command
    else:
        pytest.fail(f"what does this command need to run? {command}")


def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"]


def parse(words):
    """Have the command line read arguments without acting on them; an error if it cannot."""
    import typer

    from annealed.cli import app

    group = typer.main.get_command(app)
    outer = group.make_context("annealed", list(words))
    name, command, rest = group.resolve_command(outer, words)
    command.make_context(name, rest, parent=outer)


def test_long_commands_are_parsed():
    parse(["reproduce", "--quick", "--out", "reproduced"])
    with pytest.raises(Exception, match=r"(?i)no such option"):
        parse(["reproduce", "--quickly"])


@pytest.mark.parametrize("command", ["make tea", "pip install '.[tea]'", "tea", "annealed tea"])
def test_a_command_that_does_not_work_is_noticed(command, monkeypatch):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_command(command, monkeypatch)


def with_all():
    """What `pip install '.[all]'` asks for, by the names of its distributions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked, found = ["annealed[all]"], set()
    while asked:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", asked.pop()).groups()
        found.add(name)
        asked += [one for extra in (inner or "").split(",") if extra for one in extras()[extra]]
    return found | {re.match(r"[\w-]+", one)[0] for one in project["dependencies"]}


def test_what_readme_and_guide_import_comes_with_all():
    # README promises it of `pip install '.[all]'`.
    imported = {
        name
        for path, *_, language, code in BLOCKS
        if language in ("pycon", "python") and path in (ROOT / "README.md", *GUIDE)
        for name in re.findall(r"^(?:>>> )?(?:from|import) (\w+)", code, flags=re.M)
    }
    distributions = {name.replace("sklearn", "scikit-learn") for name in imported}
    assert {"numpy", "pandas", "scikit-learn"} <= distributions
    # The section about Dask begins with the extra that it takes.
    assert distributions - {*sys.stdlib_module_names} <= with_all() | {"dask"}


def test_there_are_blocks():
    assert {language for *_, language, _ in BLOCKS} == {"pycon", "python", "sh"}
    assert len(BLOCKS) > 50
