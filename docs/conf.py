"""How `make docs` builds the site; warnings are errors there. Nothing is fetched to read a page."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

import annealed

ROOT = Path(__file__).parents[1]
# Public addresses, empty until there are any: pyproject.toml is their only place.
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

project = "annealed"
author = "The annealed developers"
copyright = f"2026, {author}"
version = release = annealed.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/searchindex.*", "gallery/sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # a function among the settings of the gallery
smartquotes = False  # quotes and dashes of code and options stay what they are
toc_object_entries_show_parents = "hide"
nitpicky = False  # types in docstrings are words for people, not names

# Docstrings. Names in single backticks become links where they are ours.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Pages in Markdown: links to headings, and fences with colons.
myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"annealed {version}"
html_static_path = ["_static"]
html_css_files = ["annealed.css"]
html_show_sourcelink = False
html_copy_source = False
html_baseurl = URLS.get("Documentation", "")
html_theme_options = {
    "logo": {"text": "annealed"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "icon_links": [
        {"name": name, "url": URLS[name], "icon": "fa-solid fa-code-branch"}
        for name in ("Repository",)
        if name in URLS
    ],
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system has it
html_sidebars = {"index": [], "benchmarks": [], "comparison": [], "install": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10**9,  # times of one machine tell a reader nothing
    "write_computation_times": False,
    "show_signature": False,
    "plot_gallery": "True",
}

logger = logging.getLogger(__name__)


def write_commands(app: Sphinx) -> None:
    """reference/commands.md: every command with its arguments, as the command line knows them."""
    from typer.main import get_command

    from annealed.cli import app as cli

    lines = [
        "# Commands",
        "",
        "They need the extra `cli` ([installation](../install.md)). This is what `--help` says.",
        "",
    ]
    for name, command in sorted(get_command(cli).commands.items()):
        lines += [f"## `annealed {name}`", "", inspect.cleandoc(command.help or ""), ""]
        lines += ["| | | default |", "|---|---|---|"]
        if not command.help:
            logger.warning("annealed %s has no docstring", name)
        for parameter in command.params:
            option = parameter.param_type_name == "option"
            names = ", ".join(parameter.opts) if option else parameter.name.upper()
            default = parameter.default
            shown = "" if default in (None, False) or callable(default) else f"`{default}`"
            words = (getattr(parameter, "help", None) or "").replace("|", "\\|")
            if not words:
                logger.warning("annealed %s %s is not described", name, names)
            lines.append(f"| `{names}` | {words} | {shown} |")
        lines.append("")
    path = Path(app.srcdir) / "reference" / "commands.md"
    text = "\n".join(lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def ours(member: Any) -> bool:
    """Whether a member of a class was written here and not inherited from another package."""
    function = member.fget if isinstance(member, property) else member
    function = getattr(function, "func", function)  # of a cached_property
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    return module.split(".")[0] == "annealed"


def skip(
    app: Sphinx, what: str, name: str, member: Any, skipped: bool, options: Any
) -> bool | None:
    """Leave out what others wrote, and what is for our own classes; a lack of words is an error.

    Attributes that end in an underscore are described with the class, under Attributes.
    """
    if name.startswith("_") or what != "class":
        return None
    if name.endswith("_") or name == "check_stored" or not ours(member):
        return True
    if not inspect.getdoc(member):
        logger.warning("%s has no docstring", getattr(member, "__qualname__", name))
    return None


def check_and_escape(
    app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """A public name without a docstring is an error.

    Shapes are left as they are written: (n_clusters_, n_features) is no link, as Sphinx would have
    it.
    """
    if not any(line.strip() for line in lines):
        logger.warning("%s has no docstring", name)
    for number, line in enumerate(lines):
        if "shape (" in line:
            lines[number] = re.sub(r"(?<=\w)_(?=[,)])", r"\\_", line)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", write_commands)
    app.connect("autodoc-skip-member", skip)
    # Before numpydoc, which fills in what is missing.
    app.connect("autodoc-process-docstring", check_and_escape, priority=100)
