"""What checks the built site notices what it is there to notice."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECKER = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "check_site.py"))
PAGE = "<html><head>{head}</head><body><h1 id='top'>A</h1>{body}</body></html>"


@pytest.fixture
def site(tmp_path):
    """A function that makes a site of one page, and says what is wrong with its links."""

    def problems(body="", head=""):
        CHECKER["links_of"].cache_clear()
        (tmp_path / "other.html").write_text(PAGE.format(head="", body=""))
        page = tmp_path / "index.html"
        page.write_text(PAGE.format(head=head, body=body))
        return CHECKER["problems_of"](page, tmp_path)

    return problems


def test_links_that_lead_somewhere_are_fine(site):
    good = '<a href="other.html#top">a</a><a href="#top">b</a><a href="https://elsewhere">c</a>'
    assert site(good, '<link rel="canonical" href="https://here">') == []


@pytest.mark.parametrize(
    ("body", "head", "words"),
    [
        ('<a href="gone.html">a</a>', "", "gone.html, which is not there"),
        ('<a href="other.html#gone">a</a>', "", "a page without that place"),
        ('<img src="gone.png">', "", "gone.png, which is not there"),
        ('<img src="https://elsewhere/a.png">', "", "fetches https://elsewhere/a.png"),
        ("", '<script src="//elsewhere/a.js"></script>', "fetches //elsewhere/a.js"),
        ("", '<link rel="stylesheet" href="https://elsewhere/a.css">', "fetches https"),
    ],
)
def test_what_is_wrong_is_told(site, body, head, words):
    (found,) = [problem for problem in site(body, head) if words in problem]
    assert found.startswith("index.html ")


def test_a_style_that_fetches_is_told(tmp_path):
    (tmp_path / "a.css").write_text("@import url('https://elsewhere/font.css');")
    (tmp_path / "b.css").write_text("a { background: url(pictures/a.png) }")
    assert CHECKER["styles_that_fetch"](tmp_path) == ["a.css fetches something"]


def test_a_public_name_without_a_page_is_told(tmp_path):
    pytest.importorskip("river")
    pytest.importorskip("matplotlib")
    folder = tmp_path / "reference" / "generated"
    folder.mkdir(parents=True)
    (folder / "a.html").write_text("<dt id='annealed.ODAClustering'></dt>")
    lacking = CHECKER["missing_names"](tmp_path)
    assert "the reference lacks annealed.ODAClassifier" in lacking
    assert "the reference lacks annealed.plots.TradeoffDisplay" in lacking
    assert "the reference lacks annealed.ODAClustering" not in lacking
