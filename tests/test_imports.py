"""What is imported, when, and whether it is declared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import annealed

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "annealed"
# Everything that takes long, and whatever imports such a thing.
SLOW = (
    "numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "plotly", "jinja2",
    "annealed.estimators", "annealed.tables", "annealed.persistence", "annealed.report",
)  # fmt: skip


def imported_by(program):
    """Names of modules that a program has imported when it ends."""
    ending = "\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program + ending],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return done.stdout.split()


# -- late imports --------------------------------------------------------------------------------

COMMANDS = ["fit", "predict", "evaluate", "inspect", "report", "stream", "merge", "datasets",
            "reproduce"]  # fmt: skip
ANSWERED_AT_ONCE = [
    "--help", "--version", "nonsense", *(f"{name} --help" for name in COMMANDS),
    "fit", "fit t.csv --test 2", "fit t.csv --n-clusters 500", "fit t.csv --divergence l1",
    "fit t.csv --colour red", "fit t.csv --scoring f1", "fit t.csv --model no/m.oda",
    "stream --every 0", "merge one.oda --out all.oda",
    "stream t.csv --divergence l1", "predict m.oda t.csv --out p.txt", "report m.oda --seed -1",
    "reproduce fig9", "datasets --data-home nowhere",
]  # fmt: skip
IN_TURN = f"""
import contextlib, io, sys
from annealed.__main__ import main
for arguments in {ANSWERED_AT_ONCE!r}:
    sys.argv = ["annealed", *arguments.split()]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        with contextlib.suppress(SystemExit):
            main()
    assert said.getvalue().strip(), arguments
    slow = [name for name in sys.modules if name.startswith({SLOW!r})]
    assert not slow, (arguments, slow)
"""


def test_help_and_mistakes_are_answered_without_slow_imports():
    pytest.importorskip("typer", exc_type=ImportError)
    assert "annealed.cli.stream" in imported_by(IN_TURN)


def test_importing_the_package_imports_nothing_slow():
    names = imported_by("import annealed; dir(annealed)")
    assert "annealed" in names and [name for name in names if name.startswith(SLOW)] == []


def test_every_public_name_comes_when_it_is_asked_for():
    assert {*annealed.__all__} <= {*dir(annealed)}
    for name in annealed.__all__:
        assert getattr(annealed, name).__name__.rpartition(".")[2] == name
    program = "import annealed; annealed.tables.TabularModel, annealed.persistence.Checkpoint"
    assert "annealed.persistence.checkpoint" in imported_by(program)
    with pytest.raises(AttributeError, match="module 'annealed' has no attribute 'ODA'"):
        annealed.ODA  # noqa: B018


def test_type_checkers_are_told_the_same_names():
    """They read the imports under `if TYPE_CHECKING`, Python the table beside it."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name for node in branch.body for alias in node.names}
    assert told == {*annealed.__all__}
    table = annealed._NAMES_IN
    assert told == {"datasets"}.union(*table.values())


def test_the_options_say_what_the_library_says():
    """The command line repeats these, so that it need not import what knows them."""
    pytest.importorskip("typer", exc_type=ImportError)
    pytest.importorskip("matplotlib", exc_type=ImportError)
    from annealed.cli import options
    from annealed.cli.fit import MOST_ROWS as MOST_ROWS_OF_FIT
    from annealed.divergences import BUILT_IN
    from annealed.experiments import EXPERIMENTS
    from annealed.tables.files import MOST_ROWS, READABLE

    assert tuple(options.DivergenceName) == tuple(BUILT_IN)
    assert options.READABLE == READABLE
    assert MOST_ROWS_OF_FIT == MOST_ROWS
    assert tuple(options.Experiment) == EXPERIMENTS
    assert annealed.ODAClustering()._parameters()[1].K_max == options.MOST_CLUSTERS


@pytest.mark.parametrize("name", ["to_frame", "codevectors_to_frame"])
def test_without_pandas_a_frame_is_refused_with_what_to_install(name, monkeypatch):
    rows = [{"a": float(k)} for k in range(20)]
    model = annealed.TabularModel(annealed.ODAClustering(2, random_state=0)).fit(rows)
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    frame = {
        "to_frame": model.estimator_.path_.to_frame,
        "codevectors_to_frame": model.codevectors_to_frame,
    }
    with pytest.raises(ImportError, match=rf"{name}\(\) needs pandas.*pip install pandas"):
        frame[name]()


# -- declared ------------------------------------------------------------------------------------

# Imported where they are there already, or where a user asks for what only they can do.
NOT_DECLARED = {
    "IPython": "only within a notebook, which has it",
}


def names_imported(path):
    """The first words of all imports in a file, wherever they stand."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def distribution(requirement):
    """The name at the beginning of "Jinja2>=3.1", as the index compares names."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def test_what_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for_users = [extras[name] for name in extras if name not in ("bench", "dev", "docs", "test")]
    declared = {
        distribution(one) for group in (project["dependencies"], *for_users) for one in group
    }
    imported = {name for path in SOURCE.rglob("*.py") for name in names_imported(path)}
    foreign = imported - {*sys.stdlib_module_names, "annealed", *NOT_DECLARED}
    assert {"joblib", "numpy", "scipy", "sklearn", "threadpoolctl"} <= foreign
    known = packages_distributions()
    # A package that is not installed here goes by the name it is imported by.
    missing = {
        name
        for name in foreign
        if not {distribution(one) for one in known.get(name, [name])} & declared
    }
    assert missing == set()
    assert {*NOT_DECLARED} <= imported
