"""The page itself: one HTML file with everything in it."""

from __future__ import annotations

import dataclasses
import hashlib
import html
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from annealed.divergences import BregmanDivergence
from annealed.persistence.whole_files import write_text
from annealed.report.contents import Contents
from annealed.report.gather import gather
from annealed.report.inputs import Inverse, read_inputs
from annealed.views.colours import MOST_BRANCHES, PALETTE, SHARED, as_hex, branch_colour, paler

TEMPLATE = Path(__file__).parent / "template"
# In this order they make one script.
SCRIPTS = ("state.js", "map.js", "annealing.js", "card.js", "controls.js")
# A number is shown with four digits; six are kept.
DIGITS = 6


def explore(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    feature_names: Sequence[Any] | None = None,
    class_names: Sequence[Any] | None = None,
    n_codevectors: int | None = None,
    divergence: str | BregmanDivergence | None = None,
    inverse: Inverse | None = None,
    title: str | None = None,
    n_rows: int | None = None,
    row_numbers: Sequence[int] | None = None,
    seed: int = 0,
) -> Page:
    """Make the page that explores an annealing.

    A temperature slider moves codevectors over the data, a cut through the tree of splits, and a
    cursor along the curves of distortion, score and K; a click on a codevector tells about it.

    Parameters
    ----------
    model : AnnealingPath, fitted estimator, pipeline that ends with one, or TabularModel
        The rows of a pipeline go through its other steps, and are shown as they came; so do those
        of a `TabularModel`, which takes the column of its target for ``y``.
    X : array-like of shape (n_samples, n_features), optional
        Samples, in the units the model (or the pipeline) was given. Of more than 5000 a sample is
        shown.
    y : array-like of shape (n_samples,), optional
        What they are called: the classes of a classifier, or any label.
    feature_names, class_names : sequence, optional
        Left out, what the estimator knows, or the columns of X.
    n_codevectors : int, optional
        K of the model to mark; left out, that of the estimator.
    divergence : str or BregmanDivergence, optional
        By which samples are near; left out, the estimator's, or the squared Euclidean one.
    inverse : callable, optional
        ``inverse(rows)`` takes rows of the model to the original units of ``feature_names``: for
        example the ``inverse_transform`` of a scaler.
    title : str, optional
    n_rows : int, optional
        How many rows X was drawn from, if it is itself a sample.
    row_numbers : sequence of int, optional
        Numbers by which the rows of X are known; left out, 0, 1, 2, ...
    seed : int, default=0
        Decides which samples are shown where there are many.

    Returns
    -------
    Page
        It shows itself in a notebook; ``save(file)`` writes it.

    Examples
    --------
    >>> from annealed import ODAClustering
    >>> from annealed.report import explore
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> iris = load_iris(as_frame=True)
    >>> model = make_pipeline(StandardScaler(), ODAClustering(random_state=0)).fit(iris.data)
    >>> page = explore(model, iris.data, iris.target_names[iris.target], title="Irises")
    >>> page.contents.features[0]
    'sepal length (cm)'
    """
    import_tools()  # say what is missing before the work, not after
    inputs = read_inputs(
        model, X, y, feature_names=feature_names, class_names=class_names,
        n_codevectors=n_codevectors, divergence=divergence, inverse=inverse, title=title,
        n_rows=n_rows, row_numbers=row_numbers,
    )  # fmt: skip
    return Page(gather(inputs, seed))


class Page:
    """A self-contained HTML page made of its contents.

    Parameters
    ----------
    contents : Contents
        Every number that it shows.
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def __repr__(self) -> str:
        return f"<Page {self.contents.title!r}: {self.contents.summary}>"

    def save(self, file: str | PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all, and say where it is."""
        out = Path(file)
        write_text(out, self.html, errors="replace")
        return out

    @cached_property
    def html(self) -> str:
        """The page as a string."""
        jinja2, markupsafe, plotly = import_tools()
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATE),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
        data = _plain(dataclasses.asdict(self.contents)) | {"colours": _colours(self.contents)}
        trusted = markupsafe.Markup
        page: str = environment.get_template("page.html").render(
            contents=self.contents,
            data=data,
            style=trusted((TEMPLATE / "page.css").read_text(encoding="utf-8")),
            plotly=trusted(plotly.get_plotlyjs()),
            script=trusted(
                "\n".join((TEMPLATE / name).read_text(encoding="utf-8") for name in SCRIPTS)
            ),
            # Scripts with this word run, others do not. No name in the data can foresee it.
            nonce=hashlib.sha256(repr(data).encode("utf-8", "replace")).hexdigest(),
            version=version("annealed"),
        )
        return page

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.contents.title)}" '
            'style="width: 100%; height: 860px; border: 0" loading="lazy"></iframe>'
        )


def import_tools() -> tuple[Any, Any, Any]:
    """jinja2, markupsafe (which comes with it) and plotly.offline, or word of what to install."""
    try:
        import jinja2
        import markupsafe
        import plotly.offline
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise ImportError(
            f"the page needs {missing}, which is not installed: pip install 'annealed[report]'"
        ) from error
    return jinja2, markupsafe, plotly.offline


def _plain(value: Any) -> Any:
    """Numbers with the digits worth keeping, which makes the page half as large."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _colours(contents: Contents) -> dict[str, list[str]]:
    """Colours of the branches on a light and on a dark ground; the last is the shared grey.

    They come round after two palettes; markers then have another shape.
    """
    n, palette = min(len(contents.branches), MOST_BRANCHES), len(PALETTE)
    light = [branch_colour(branch) for branch in range(n)]
    # What is darkened to be told apart on white has to be paled on black.
    dark = [*light[:palette], *(paler(branch_colour(branch)) for branch in range(n - palette))]
    return {
        name: [as_hex(colour) for colour in (*colours, SHARED)]
        for name, colours in (("light", light), ("dark", dark))
    }
