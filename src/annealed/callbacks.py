"""Watch a fit while it runs: a progress bar and a live plot.

Whatever is given to an estimator as ``callbacks=`` follows its fit. A callable is handed every
`annealed.path.Level` as it finishes, and that is all a callback of your own needs:

>>> from annealed import ODAClustering
>>> from sklearn.datasets import load_iris
>>> sizes = []
>>> model = ODAClustering(callbacks=[lambda level: sizes.append(level.n_codevectors)])
>>> sizes == model.fit(load_iris().data).path_.n_codevectors.tolist()
True

One that wants to know more has the four hooks of scikit-learn's callbacks (`sklearn.callback`,
since release 1.9): ``setup`` and ``teardown`` around a fit, ``on_fit_task_begin`` and
``on_fit_task_end`` around the task named "fit" and, within it, each task named "level".
``fitted_estimator``, if a hook asks for it, is the estimator as if the fit had stopped there. Both
classes here are such callbacks, so with that release ``model.set_callbacks(LivePlot())`` does as
well. What a hook returns is not looked at: nobody who watches changes the result.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from annealed.plots import BifurcationDisplay
from annealed.plots.canvas import axes_to_draw_in, hide_spines, scale_temperature, write_labels
from annealed.views.colours import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LivePlot", "ProgressBar"]


class _Shared:
    """A callback that clones of an estimator share, and that travels without what it draws on."""

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing is done where a task begins."""


class ProgressBar(_Shared):
    """A bar that shows how far the temperature has fallen, with T, K and the samples observed.

    It is drawn on standard error, and only on a terminal or in a notebook that has ipywidgets;
    elsewhere nothing is written. A ladder may end early, when there are enough codevectors. After
    the last level comes the choice of one; the bar waits for it.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw it.

    Examples
    --------
    >>> from annealed import ODAClustering
    >>> from annealed.callbacks import ProgressBar
    >>> from sklearn.datasets import load_iris
    >>> model = ODAClustering(callbacks=[ProgressBar()], random_state=0).fit(load_iris().data)
    """

    def __init__(self, console: Any = None) -> None:
        self.console = console
        self._bars: dict[Any, Any] = {}  # by the fit they belong to

    def __repr__(self) -> str:
        return "ProgressBar()"

    def __getstate__(self) -> dict[str, Any]:
        return {"console": None, "_bars": {}}

    def setup(self, estimator: Any, context: Any) -> None:
        """Draw an empty bar."""
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError as error:
            raise ImportError(
                "a progress bar needs rich, which is not installed: pip install 'annealed[cli]'"
            ) from error

        console = self.console or Console(stderr=True)
        widgets = importlib.util.find_spec("ipywidgets") is not None  # rich needs it in a notebook
        seen = widgets if console.is_jupyter else console.is_terminal
        bar = Progress(
            TextColumn("{task.fields[estimator]}", markup=False),
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not seen,
        )
        bar.start()
        task = bar.add_task(
            "warming up", total=context.max_subtasks, estimator=type(estimator).__name__
        )
        self._bars[context.root_uuid] = bar, task

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Move on by a level."""
        if context.task_name != "level" or context.root_uuid not in self._bars:
            return
        bar, task = self._bars[context.root_uuid]
        if not bar.disable:
            level = fitted_estimator.path_[-1]
            words = f"T = {level.temperature:.3g}  K = {level.n_codevectors}"
            bar.update(task, advance=1, description=f"{words}  {level.samples:,} samples")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Take the bar away."""
        started = self._bars.pop(context.root_uuid, None)
        if started is not None:
            started[0].stop()


class LivePlot(_Shared):
    """A picture that is drawn again while the temperature falls.

    In a notebook it stands below the cell and changes there; with a window it is shown in one;
    otherwise it is only drawn, and can be saved afterwards (``figure_``).

    Parameters
    ----------
    kind : {"bifurcation", "n_codevectors"}, default="bifurcation"
        The bifurcation diagram, or K against T.
    ax : matplotlib Axes, optional
        Where to draw; left out, a new figure for every fit.
    least_seconds : float, default=0.5
        Levels that follow the last picture sooner than this are left out, but never the last one.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Of the latest fit.
    display_ : BifurcationDisplay or None
        What was drawn last.
    n_drawn_ : int
        How often it was drawn in the latest fit.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draw into files: needs no screen
    >>> from annealed import ODAClustering
    >>> from annealed.callbacks import LivePlot
    >>> from sklearn.datasets import load_iris
    >>> plot = LivePlot()
    >>> model = ODAClustering(3, callbacks=[plot], random_state=0).fit(load_iris().data)
    >>> plot.display_.path[-1].temperature == model.path_[-1].temperature
    True
    """

    def __init__(
        self, kind: str = "bifurcation", *, ax: Axes | None = None, least_seconds: float = 0.5
    ) -> None:
        if kind not in ("bifurcation", "n_codevectors"):
            raise ValueError(f"kind must be 'bifurcation' or 'n_codevectors', got {kind!r}")
        self.kind = kind
        self.ax = ax
        self.least_seconds = least_seconds
        self._begin()

    def _begin(self) -> None:
        self.n_drawn_ = 0
        self.display_: BifurcationDisplay | None = None
        self._latest: Any = None  # what was not drawn, having come too soon
        self._drawn_at = -np.inf
        self._handle: Any = None  # of the output cell of a notebook
        self.ax_: Any = None
        self.figure_: Any = None

    def __repr__(self) -> str:
        return f"LivePlot({self.kind!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "least_seconds": self.least_seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kind, self.least_seconds, self.ax = state["kind"], state["least_seconds"], None
        self._begin()

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin with an empty picture."""
        self._begin()
        self._open()

    def _open(self) -> None:
        self.ax_ = axes_to_draw_in(self.ax, 9, 5)
        self.figure_ = self.ax_.figure

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Draw the path as far as it has come."""
        if context.task_name != "level":
            return
        self._latest = fitted_estimator
        if time.monotonic() - self._drawn_at >= self.least_seconds:
            self._draw()

    def teardown(self, estimator: Any, context: Any) -> None:
        """Draw the last level, if that was left out."""
        if self._latest is not None:
            self._draw()
        if self._handle is not None:  # or the notebook would show the figure once more
            sys.modules["matplotlib.pyplot"].close(self.figure_)

    def _draw(self) -> None:
        if self.ax_ is None:  # in a stream nothing is set up
            self._open()
        estimator, self._latest = self._latest, None
        self.ax_.clear()
        if self.kind == "bifurcation":
            self.display_ = BifurcationDisplay.from_path(
                estimator.path_,
                feature_names=getattr(estimator, "feature_names_in_", None),
                class_names=getattr(estimator, "classes_", None),
                ax=self.ax_,
            )
        else:
            self._draw_sizes(estimator.path_)
        self.n_drawn_ += 1
        self._show()
        self._drawn_at = time.monotonic()

    def _draw_sizes(self, path: Any) -> None:
        T, K = path.temperatures, path.n_codevectors
        style: Any = {"drawstyle": "steps-post", "marker": "o", "markersize": 3}
        self.ax_.plot(T, K, color=PALETTE[2], **style)
        scale_temperature(self.ax_, T)
        hide_spines(self.ax_)
        write_labels(self.ax_, "temperature T, from hot to cold", "codevectors K")

    def _show(self) -> None:
        """Where there is a notebook or a window, bring the picture there."""
        import matplotlib

        canvas = self.figure_.canvas
        if "inline" in matplotlib.get_backend().lower():
            if self._handle is None:
                from IPython.display import display

                self._handle = display(self.figure_, display_id=True)
            else:
                self._handle.update(self.figure_)
        elif canvas.manager is not None and canvas.required_interactive_framework is not None:
            self.figure_.show()  # does not wait
            canvas.draw_idle()
            canvas.flush_events()
