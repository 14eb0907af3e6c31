"""Callbacks follow a fit and change nothing; a fitted estimator in a notebook."""

from __future__ import annotations

import io
import pickle
import sys
import types
import xml.dom.minidom

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from annealed import DeterministicAnnealing, ODAClassifier, ODAClustering, paper_settings
from annealed.callbacks import LivePlot, ProgressBar
from annealed.views.lineage import leading_voter


@pytest.fixture
def plt():
    """matplotlib.pyplot, whose figures are closed again."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


KINDS = {
    "clustering": lambda **more: ODAClustering(K_max=8, random_state=0, **more),
    "given": lambda **more: ODAClustering(3, K_max=8, polish=True, random_state=0, **more),
    "classifier": lambda **more: ODAClassifier(K_max=20, random_state=0, **more),
    "as annealed": lambda **more: ODAClassifier(
        level="last", fine_tune=None, random_state=0, **more
    ),
    "batch": lambda **more: DeterministicAnnealing(3, gamma=0.7, random_state=0, **more),
}


class Diary:
    """Writes down which hooks were called, and keeps the estimators it was handed."""

    def __init__(self, fail_at=None):
        self.notes, self.kept, self.fail_at = [], [], fail_at

    def setup(self, estimator, context):
        self.notes.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X, y):
        self.notes.append(f"begin {context.task_name}")
        assert X is not None

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.notes.append(f"end {context.task_name}")
        if context.task_name == "level":
            self.kept.append(fitted_estimator)
            if self.fail_at == context.task_id:
                raise RuntimeError("the pencil broke")

    def teardown(self, estimator, context):
        self.notes.append("teardown")


def bits(model, X):
    """Everything a model holds and says, as arrays."""
    path = model.path_
    found = [model.codevectors_, model.weights_, np.array(model.temperature_), model.predict(X)]
    found += [model.predict_proba(X), path.temperatures, path.persistence()]
    for level in path:
        numbers = [level.distortion, level.entropy, level.score, level.samples]
        found += [level.codevectors, level.weights, level.parents, np.array(numbers, dtype=float)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_who_watches_changes_nothing(kind, blobs):
    X, y = blobs
    alone = KINDS[kind]().fit(X, y)
    watched = KINDS[kind](callbacks=[Diary(), lambda level: None]).fit(X, y)
    for a, b in zip(bits(alone, X), bits(watched, X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_who_watches_a_stream_changes_nothing(blobs):
    X, y = blobs
    alone, watched = ODAClassifier(random_state=0), ODAClassifier(random_state=0)
    diary = Diary()
    watched.callbacks = [diary]
    for _ in range(5):
        alone.partial_fit(X, y)
        # In a stream there is no whole fit, only levels.
        diary.on_fit_task_begin = lambda estimator, context: None
        watched.partial_fit(X, y)
    for a, b in zip(bits(alone, X), bits(watched, X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert diary.notes == ["end level"] * len(watched.path_)


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_are_called_in_order_once_for_every_level(kind, blobs):
    X, y = blobs
    diary = Diary()
    model = KINDS[kind](callbacks=[diary]).fit(X, y)
    levels = ["begin level", "end level"] * len(model.path_)
    assert diary.notes == ["setup", "begin fit", *levels, "end fit", "teardown"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_hook_is_handed_is_the_model_at_that_level_and_stays_it(kind, blobs):
    X, y = blobs
    diary = Diary()
    model = KINDS[kind](callbacks=[diary]).fit(X, y)
    for k, then in enumerate(diary.kept):
        assert len(then.path_) == k + 1
        np.testing.assert_array_equal(then.codevectors_, model.path_[k].codevectors)
        assert then.predict(X[:5]).shape == (5,)
    if hasattr(model, "classes_"):
        # Class frequencies are those of the rows, not of what was shown again.
        same = model.at(temperature=diary.kept[-1].temperature_)
        np.testing.assert_array_equal(diary.kept[-1].predict_proba(X), same.predict_proba(X))
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="cannot learn further"):
            diary.kept[0].partial_fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_a_callback_reaches_the_user_and_leaves_the_estimator_as_it_was(kind, blobs):
    X, y = blobs
    model = KINDS[kind]().fit(X, y)
    before = bits(model, X)
    diary, second = Diary(fail_at=2), Diary()
    model.callbacks = [diary, second]
    with pytest.raises(RuntimeError, match="the pencil broke"):
        model.fit(X[::2], y[::2])
    assert diary.notes[-1] == second.notes[-1] == "teardown"
    assert len(diary.kept) == 3
    for a, b in zip(before, bits(model, X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_error_in_a_teardown_does_not_keep_others_from_theirs(blobs):
    broken, other = Diary(), Diary()

    def fail(estimator, context):
        raise RuntimeError("stuck")

    broken.teardown = fail
    with pytest.raises(RuntimeError, match="stuck"):
        ODAClustering(3, callbacks=[broken, other], random_state=0).fit(blobs[0])
    assert other.notes[-1] == "teardown"


@pytest.mark.parametrize("wrong", [print, [3], [Diary], "bar", {"a": print}])
def test_what_cannot_follow_is_refused(wrong, blobs):
    with pytest.raises(ValueError, match="callbacks"):
        ODAClustering(callbacks=wrong).fit(blobs[0])


@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        ({}, False),  # the data decides where the ladder ends
        ({"T_max": 300.0}, False),
        ({"T_max": 50.0, "T_min": 0.5}, True),
        ({"T_max": 50.0, "T_min": 0.5, "gamma": 0.8}, True),
        ({"T_min": 1.0}, False),  # the data decides where the ladder begins
        ({"n_clusters": 3}, False),  # it goes on until there are three
        (paper_settings() | {"n_clusters": None}, True),
        (paper_settings() | {"n_clusters": None, "T_max": 30.0}, False),
    ],
    ids=str,
)
def test_no_fit_has_more_levels_than_it_announced(parameters, known, blobs):
    class Announced(Diary):
        def setup(self, estimator, context):
            self.most = context.max_subtasks

    diary = Announced()
    model = ODAClustering(K_max=20, random_state=0).set_params(**parameters, callbacks=[diary])
    model.fit(blobs[0])
    assert (diary.most is not None) == known
    assert not known or len(model.path_) <= diary.most


def test_callbacks_are_shared_by_clones_and_pickled_without_what_they_draw_on(blobs, plt):
    model = ODAClustering(3, callbacks=[LivePlot(), ProgressBar()], random_state=0).fit(blobs[0])
    twin = clone(model)
    assert all(a is b for a, b in zip(twin.callbacks, model.callbacks, strict=True))
    again = pickle.loads(pickle.dumps(model)).fit(blobs[0])
    assert again.callbacks[0].n_drawn_ > 0


# -- scikit-learn's own interface -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_callbacks_follow_too(kind, blobs):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = blobs
    diary = Diary()
    model = clone(KINDS[kind]().set_callbacks(diary)).fit(X, y)
    levels = ["begin level", "end level"] * len(model.path_)
    assert diary.notes == ["setup", "begin fit", *levels, "end fit", "teardown"]
    assert [len(then.path_) for then in diary.kept] == list(range(1, len(model.path_) + 1))
    alone = KINDS[kind]().fit(X, y)
    for a, b in zip(bits(alone, X), bits(model, X), strict=True):
        np.testing.assert_array_equal(a, b)
    broken = KINDS[kind]().set_callbacks(Diary(fail_at=1))
    with pytest.raises(RuntimeError, match="the pencil broke"):
        broken.fit(X, y)
    assert not hasattr(broken, "path_") or not broken.__sklearn_is_fitted__()


def test_scikit_learns_monitor_scores_every_level_of_a_pipeline(blobs):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has it since 1.9")
    X, y = blobs
    monitor = callback.ScoringMonitor(scoring="accuracy")
    bar = callback.ProgressBar()
    oda = ODAClassifier(random_state=0).set_callbacks(monitor)
    model = make_pipeline(StandardScaler(), oda).set_callbacks(bar).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if row["task_name"] == "level"]
    assert len(scores) == len(model[-1].path_)
    assert all(0 <= score <= 1 for score in scores) and scores[-1] > 0.9


# -- the two that are shipped ---------------------------------------------------------------------


def test_a_progress_bar_says_nothing_where_nobody_sees_it(blobs, capsys):
    Console = pytest.importorskip("rich.console").Console

    sink = io.StringIO()
    for bar in (ProgressBar(), ProgressBar(Console(file=sink))):
        ODAClustering(3, callbacks=[bar], random_state=0).fit(blobs[0])
    assert sink.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_a_progress_bar_shows_every_level_on_a_terminal(blobs):
    Console = pytest.importorskip("rich.console").Console

    sink = io.StringIO()
    console = Console(file=sink, force_terminal=True, width=100)
    model = ODAClassifier(callbacks=[ProgressBar(console)], random_state=0).fit(*blobs)
    last = model.path_[-1]
    assert "ODAClassifier" in sink.getvalue()
    assert f"T = {last.temperature:.3g}  K = {last.n_codevectors}" in sink.getvalue()


def test_without_rich_a_progress_bar_says_what_to_install(blobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ImportError, match=r"needs rich.*pip install 'annealed\[cli\]'"):
        ODAClustering(callbacks=[ProgressBar()]).fit(blobs[0])


@pytest.mark.parametrize("kind", ["clustering", "classifier"])
def test_a_live_plot_is_drawn_at_every_level(kind, blobs, plt):
    X, y = blobs
    plot = LivePlot(least_seconds=0)
    model = KINDS[kind](gamma=0.5, callbacks=[plot]).fit(X, y)
    assert plot.n_drawn_ == len(model.path_)
    assert len(plot.display_.splits_.get_offsets()) == len(model.path_.splits)


def test_a_live_plot_leaves_out_what_comes_too_soon_but_not_the_last(blobs, plt):
    _, ax = plt.subplots()
    plot = LivePlot("n_codevectors", ax=ax, least_seconds=1e9)
    model = ODAClustering(3, callbacks=[plot], random_state=0).fit(blobs[0])
    assert plot.n_drawn_ == 2
    T, K = ax.lines[0].get_data()
    np.testing.assert_array_equal(T, model.path_.temperatures)
    np.testing.assert_array_equal(K, model.path_.n_codevectors)
    with pytest.raises(ValueError, match="kind"):
        LivePlot("song")


def test_a_live_plot_follows_a_stream(blobs, plt):
    plot = LivePlot(least_seconds=0)
    model = ODAClustering(callbacks=[plot], shape="round", gamma=0.4, random_state=0)
    for _ in range(2):
        model.partial_fit(blobs[0][:140])
    assert plot.n_drawn_ > len(model.path_) > 0  # its samples are annealed more than once


def test_in_a_notebook_a_live_plot_changes_one_output(blobs, monkeypatch, plt):
    shown = []

    class Handle:
        def update(self, figure):
            shown.append(("update", figure))

    def display(figure, display_id):
        shown.append(("display", figure))
        return Handle()

    module = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(
        "matplotlib.get_backend", lambda: "module://matplotlib_inline.backend_inline"
    )
    plot = LivePlot(least_seconds=0)
    model = ODAClustering(3, gamma=0.5, callbacks=[plot], random_state=0).fit(blobs[0])
    assert [what for what, _ in shown] == ["display"] + ["update"] * (len(model.path_) - 1)
    assert all(figure is plot.figure_ for _, figure in shown)
    assert plt.get_fignums() == []  # or it would be shown once more


# -- in a notebook --------------------------------------------------------------------------------


def picture(html):
    """The one SVG element of a page, parsed."""
    assert html.count("<svg xmlns") == 1
    return xml.dom.minidom.parseString(html[html.index("<svg xmlns") : html.index("</svg>") + 6])


@pytest.mark.parametrize("kind", KINDS)
def test_a_fitted_estimator_shows_its_bifurcations(kind, blobs):
    X, y = blobs
    model = KINDS[kind]()
    assert "<svg xmlns" not in model._repr_html_()
    model.fit(X, y)
    drawn = picture(model._repr_html_())
    assert len(drawn.getElementsByTagName("circle")) == len(model.path_.until(64).splits)
    words = drawn.getElementsByTagName("text")[0].firstChild.data
    assert f"in use: K = {len(model.codevectors_[leading_voter(model)])}" in words
    assert picture(model._repr_mimebundle_()["text/html"]).toxml() == drawn.toxml()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]


def test_names_in_the_picture_are_text(blobs):
    X, y = blobs
    names = np.array(["<script>alert(1)</script>", "a & \"b\" 'c'", "\x07bell"])[y]
    html = ODAClassifier(level="last", fine_tune=None, random_state=0).fit(X, names)._sketch()
    assert "<script" not in html
    legend = picture(html).getElementsByTagName("desc")[0].firstChild.data
    assert legend == "bell, <script>alert(1)</script>, a & \"b\" 'c'"


def test_a_model_that_still_warms_up_shows_no_picture():
    assert ODAClustering().partial_fit([[0.0], [1.0]])._sketch() == ""


def test_the_picture_stays_small_with_many_codevectors():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    model = ODAClustering(200, K_max=220, samples_per_codevector=5, random_state=0).fit(X)
    assert len(model._sketch()) < 60_000
