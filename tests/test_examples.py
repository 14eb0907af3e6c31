"""Every example runs, says something, and draws the pictures its first lines promise."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib").use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_there_is_a_gallery_and_the_docs_list_it():
    assert len(EXAMPLES) >= 9
    listed = (EXAMPLES[0].parents[1] / "docs" / "pictures.md").read_text()
    assert set(re.findall(r"\(\.\./examples/(\w+)\.py\)", listed)) == {e.stem for e in EXAMPLES}


@pytest.mark.quality
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_what_it_promises(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ast.get_docstring(ast.parse(example.read_text()))
    promised = set(re.findall(r"out/\w+\.png", words))
    assert len(words.splitlines()) > 2 and promised
    try:
        runpy.run_path(str(example), run_name="__main__")
    finally:
        plt.close("all")
    assert capsys.readouterr().out.strip()
    drawn = {f"out/{path.name}" for path in (tmp_path / "out").iterdir()}
    assert drawn == promised
    assert all((tmp_path / picture).stat().st_size > 5000 for picture in promised)
