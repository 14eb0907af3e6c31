"""The page about a run: results.md, and results.html with its pictures inside."""

from __future__ import annotations

import base64
import html
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from annealed.experiments.results import Cell, Check, Outcome, Picture, Table, write_csv
from annealed.persistence.whole_files import write_text

PAPER = (
    "C. N. Mavridis and J. S. Baras, “Online Deterministic Annealing for Classification and "
    "Clustering”, IEEE Transactions on Neural Networks and Learning Systems, 2022"
)
STYLE = """
:root { color-scheme: light dark; --ink: #333; --soft: #555; --ground: #fff; --line: #ccc;
        --wrong: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a3abb5; --ground: #15181c; --line: #363c44; --wrong: #ff9d5c; }
  /* Pictures are drawn on white. */
  figure img { background: #fff; border-radius: 6px; padding: 4px; }
  a { color: #56b4e9; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; }
.beside { display: grid; grid-template-columns: minmax(14rem, 1fr) 3fr; gap: 2rem; }
figure { margin: 0 0 1.5rem; } figure img { max-width: 100%; height: auto; }
/* On a narrow screen pictures keep a size at which their labels can be read, and scroll. */
@media (max-width: 60rem) { .beside { display: block; }
                            figure img { max-width: none; width: 48rem; } }
figcaption { color: var(--soft); font-size: .9em; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-size: .93em; }
.title { font-weight: 600; margin: 1rem 0 0; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; font-variant-numeric: tabular-nums; }
th { vertical-align: bottom; }
td.no { font-weight: 600; color: var(--wrong); }
.absent { border-left: 4px solid #d55e00; padding-left: 1rem; }
""".strip()


@dataclass(frozen=True)
class Run:
    """How the results came about."""

    quick: bool
    seconds: float

    def words(self) -> str:
        """In a sentence or two."""
        kind = "quick (few repeats, small references)" if self.quick else "full"
        names = ("annealed", "numpy", "scikit-learn", "matplotlib")
        versions = ", ".join(f"{name} {version(name)}" for name in names)
        return (
            f"A {kind} run of {self.seconds:.0f} s with {versions}, Python "
            f"{platform.python_version()} on {platform.machine()}."
        )


def write_page(out: Path, outcomes: Sequence[Outcome], run: Run) -> None:
    """Write results.md, results.html and checks.csv."""
    checks = [
        [o.name, c.claim, c.measured, _verdict(c), c.reason] for o in outcomes for c in o.checks
    ]
    header = ["experiment", "claim", "measured", "met", "reason"]
    write_csv(out / "checks.csv", header, checks)
    overview = Table("What was to be shown, and what came out", _HEAD, [_row(r) for r in checks])
    write_text(out / "results.md", _markdown(outcomes, run, overview))
    write_text(out / "results.html", _html(out, outcomes, run, overview))


_HEAD = ["", "claim", "measured", "met?"]
_TITLE = "The paper's figures and table, reproduced"


def _row(check: Sequence[Cell]) -> list[Cell]:
    name, claim, measured, verdict, reason = check
    return [name, claim, f"{measured}. {reason}" if reason else measured, verdict]


def _verdict(check: Check) -> str:
    return "yes" if check.met else "no"


def _introduction(outcomes: Sequence[Outcome], run: Run) -> list[str]:
    checks = [check for outcome in outcomes for check in outcome.checks]
    met = sum(check.met for check in checks)
    return [
        f"Beside {PAPER}.",
        run.words(),
        f"{met} of {len(checks)} claims are met. The claims are those the project set itself from "
        "the paper's numbers; nothing was tuned to meet them, and each that is not met is given "
        "with what is known about the reason."
        + (" They are meant for the full run; a quick one has few repeats." if run.quick else ""),
        "The paper's pictures belong to its publisher and are not copied here; what they show is "
        "told in words beside ours.",
    ]


def _absent(outcome: Outcome) -> list[str]:
    return [f"NOT MEASURED: {name}. {why}" for name, why in outcome.absent.items()]


# -- Markdown ----------------------------------------------------------------------------------


def _markdown(outcomes: Sequence[Outcome], run: Run, overview: Table) -> str:
    parts = [f"# {_TITLE}", *_introduction(outcomes, run), _markdown_table(overview)]
    for outcome in outcomes:
        parts += [f"## {outcome.title}", *(f"**{words}**" for words in _absent(outcome))]
        parts += ["### In the paper", *outcome.paper, "### Here"]
        parts += [_markdown_block(block) for block in outcome.ours]
        parts += ["### Where and why they differ"]
        parts += ["\n".join(f"- {words}" for words in outcome.differences)]
        parts += [f"({outcome.seconds:.0f} s)"]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Picture | Table | str) -> str:
    if isinstance(block, Picture):
        return (
            f"![{block.caption}]({block.stem}.png)\n\n*{block.caption}* ([SVG]({block.stem}.svg))"
        )
    return _markdown_table(block) if isinstance(block, Table) else block


def _markdown_table(table: Table) -> str:
    def line(cells: Sequence[Cell]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "---|" * len(table.header)
    return "\n".join([f"**{table.title}**", "", line(table.header), rule, *map(line, table.rows)])


# -- HTML --------------------------------------------------------------------------------------


def _html(out: Path, outcomes: Sequence[Outcome], run: Run, overview: Table) -> str:
    body = [f"<h1>{_TITLE}</h1>", *map(_paragraph, _introduction(outcomes, run))]
    body += [_html_table(overview)]
    for outcome in outcomes:
        body += [f'<h2 id="{outcome.name}">{html.escape(outcome.title)}</h2>']
        body += [f'<p class="absent">{html.escape(words)}</p>' for words in _absent(outcome)]
        body += ['<div class="beside"><section><h3>In the paper</h3>']
        body += [*map(_paragraph, outcome.paper), "<h3>Where and why they differ</h3>", "<ul>"]
        body += [f"<li>{html.escape(words)}</li>" for words in outcome.differences]
        body += [f"</ul><p>({outcome.seconds:.0f} s)</p></section><section><h3>Here</h3>"]
        body += [_html_block(out)(block) for block in outcome.ours]
        body += ["</section></div>"]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_TITLE}</title><style>{STYLE}</style></head><body>"
    )
    return "\n".join([head, *body, "</body></html>"]) + "\n"


def _paragraph(words: str) -> str:
    return f"<p>{html.escape(words)}</p>"


def _html_block(out: Path) -> Callable[[Picture | Table | str], str]:
    def block(shown: Picture | Table | str) -> str:
        if isinstance(shown, Picture):
            inside = base64.b64encode((out / f"{shown.stem}.png").read_bytes()).decode()
            caption = html.escape(shown.caption)
            return (
                f'<figure><div class="scroll"><img alt="{caption}" '
                f'src="data:image/png;base64,{inside}"></div>'
                f"<figcaption>{caption}</figcaption></figure>"
            )
        return _html_table(shown) if isinstance(shown, Table) else _paragraph(shown)

    return block


def _html_table(table: Table) -> str:
    def line(cells: Sequence[Cell], tag: str) -> str:
        return "<tr>" + "".join(cell(c, tag) for c in cells) + "</tr>"

    def cell(content: Cell, tag: str) -> str:
        kind = ' class="no"' if content == "no" else ""
        return f"<{tag}{kind}>{html.escape(str(content))}</{tag}>"

    rows = "\n".join([line(table.header, "th"), *(line(row, "td") for row in table.rows)])
    title = html.escape(table.title)
    return (
        f'<p class="title">{title}</p>'
        f'<div class="scroll"><table aria-label="{title}">\n{rows}</table></div>'
    )
