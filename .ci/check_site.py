"""Check a built site, ``python check_site.py FOLDER``: print what is wrong; then the status is 1.

- Every link to a page, a picture or a place in a page leads somewhere.
- No page fetches anything: scripts, styles, pictures and fonts are files of the site.
- Every public name of the package has its place in the reference.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# Whose names are public. Of `annealed.path` those two; users meet them in `path_`.
MODULES = ("annealed", "annealed.callbacks", "annealed.datasets", "annealed.persistence",
           "annealed.plots", "annealed.report", "annealed.river")  # fmt: skip
MORE = ("annealed.path.Level", "annealed.path.Split")
# Modules, and what stands in the list for our own use.
NOT_NAMES = {"annealed.datasets", "annealed.report.import_tools"}
SAME = {
    f"annealed.persistence.{name}": f"annealed.{name}"
    for name in ("ModelFileError", "load", "save")
}


class Links(HTMLParser):
    """Where a page leads, what it fetches, and the places in it."""

    def __init__(self) -> None:
        super().__init__()
        self.leads: set[str] = set()
        self.fetches: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every tag."""
        given = {key: value for key, value in attrs if value}
        self.places |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.leads.add(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical",) and "href" in given:
            self.fetches.add(given["href"])
        elif "src" in given:
            self.fetches.add(given["src"])


@cache
def links_of(page: Path) -> Links:
    """Of a page; each is read once."""
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def elsewhere(link: str) -> bool:
    """Whether it is not a file of the site."""
    return bool(re.match(r"[a-z]+:|//", link))


def problems_of(page: Path, site: Path) -> list[str]:
    """What is wrong with the links of a page."""
    links = links_of(page)
    found = [
        f"fetches {link}"
        for link in links.fetches
        if elsewhere(link) and not link.startswith("data:")
    ]
    for link in links.leads | links.fetches:
        if elsewhere(link):
            continue
        address, place = urldefrag(link)
        file = (page.parent / unquote(address.split("?")[0])).resolve() if address else page
        if file.is_dir():
            file = file / "index.html"
        if not file.exists():
            found.append(f"leads to {link}, which is not there")
        elif place and file.suffix == ".html" and unquote(place) not in links_of(file).places:
            found.append(f"leads to {link}, a page without that place")
    return [f"{page.relative_to(site)} {problem}" for problem in found]


def styles_that_fetch(site: Path) -> list[str]:
    """Styles that name an address."""
    address = re.compile(r"(?:@import\s+|url\()[\"']?(https?:)?//")
    return [
        f"{style.relative_to(site)} fetches something"
        for style in site.rglob("*.css")
        if address.search(style.read_text(encoding="utf-8"))
    ]


def missing_names(site: Path) -> list[str]:
    """Public names that the reference does not have."""
    names = {*MORE}
    for module in MODULES:
        found = importlib.import_module(module)
        listed = getattr(found, "__all__", None) or ("ODAClassifier", "ODAClustering")
        names |= {f"{module}.{name}" for name in listed}
    names = {SAME.get(name, name) for name in names - NOT_NAMES}
    places: set[str] = set()
    for page in (site / "reference" / "generated").glob("*.html"):
        places |= links_of(page).places
    return [f"the reference lacks {name}" for name in sorted(names - places)]


def main(site: Path) -> int:
    """The exit status."""
    # The theme's own files hold a template that is no page.
    pages = [page for page in sorted(site.rglob("*.html")) if site / "_static" not in page.parents]
    problems = [problem for page in pages for problem in problems_of(page, site)]
    problems += styles_that_fetch(site) + missing_names(site)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(pages)} pages, {len(problems)} problems")
    return bool(problems or not pages)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
