"""Pictures: what they show is what the model holds, whatever the names, sizes and numbers."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from thoroughness import tries

from annealed import (
    DeterministicAnnealing,
    ODAClassifier,
    ODAClustering,
    StochasticVQ,
    TabularModel,
    plots,
)
from annealed.plots import (
    BifurcationDisplay,
    CodebookDisplay,
    CodevectorDisplay,
    SplitTreeDisplay,
    TradeoffDisplay,
)
from annealed.views.colours import branch_colour, paler
from annealed.views.lineage import lasting_codevectors

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

pytestmark = pytest.mark.quality

ODD = [
    "$x_1$",
    "\\frac{$",
    "<script>alert(1)</script>",
    "_under",
    "two\nlines",
    "ü%s{}",
    "",
    "k" * 90,
]
OF_PATHS = [BifurcationDisplay, SplitTreeDisplay, TradeoffDisplay]


@pytest.fixture(autouse=True)
def _no_figures_left():
    plt.close("all")
    yield
    plt.close("all")


def named(X, names):
    import pandas as pd

    return pd.DataFrame(X, columns=names)


@pytest.fixture(scope="module")
def clusters():
    """A clustering of three groups in the plane, with its rows."""
    X, _ = make_blobs(300, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)
    return ODAClustering(shape="round", random_state=0).fit(X), X


@pytest.fixture(scope="module")
def many():
    """200 codevectors of 30 features, with odd names."""
    X, _ = make_blobs(1500, n_features=30, centers=12, cluster_std=3.0, random_state=0)
    X = named(X, [f"{ODD[j % 8]} {j}" for j in range(30)])
    return (
        ODAClustering(200, shape="round", K_max=220, samples_per_codevector=5, random_state=0).fit(
            X
        ),
        X,
    )


@pytest.fixture(scope="module")
def classes():
    """A classifier of two moons whose classes and features have odd names."""
    X, y = make_moons(400, noise=0.15, random_state=0)
    X, y = named(X, ["$x_1$", "_b"]), np.array(["_up", "$d$own"])[y]
    return ODAClassifier(random_state=0).fit(X, y), X, y


# -- the bifurcation diagram ----------------------------------------------------------------------


def test_bifurcation_has_a_piece_for_every_lasting_codevector_and_a_dot_for_every_split(clusters):
    model, _ = clusters
    path = model.path_
    display = BifurcationDisplay.from_estimator(model)
    lasting = lasting_codevectors(path)
    pieces = [piece for lines in display.lines_ for piece in lines.get_segments()]
    assert len(pieces) == sum(int(here.sum()) for here in lasting[1:])
    ends = {(float(T), float(x)) for _, (T, x) in pieces}
    coldest = {(path[-1].temperature, float(x)) for x in display.positions[-1]}
    assert coldest <= ends
    dots = np.asarray(display.splits_.get_offsets())
    expected = [max(T, path[s.level].temperature) for s, T in path.ordered_splits]
    np.testing.assert_allclose(np.sort(dots[:, 0]), np.sort(expected))
    hot, cold = display.ax_.get_xlim()
    assert hot > cold and display.ax_.get_xscale() == "log"


def test_bifurcation_lines_are_as_thick_as_their_weight_and_as_their_branch_is_coloured(clusters):
    model, _ = clusters
    path = model.path_
    display = BifurcationDisplay.from_estimator(model, feature=1)
    widths = {}
    for lines in display.lines_:
        for (_, (T, x)), width in zip(lines.get_segments(), lines.get_linewidths(), strict=True):
            widths[float(T), float(x)] = width
    level = path[-1]
    drawn = [widths[level.temperature, x] for x in level.codevectors[:, 1]]
    order = np.argsort(level.weights)
    assert (np.diff(np.array(drawn)[order]) >= -1e-12).all()
    assert np.ptp(drawn) > 0
    for branch, lines in enumerate(display.lines_[1:]):
        full, pale = branch_colour(branch), paler(branch_colour(branch))
        for colour in lines.get_colors():
            assert tuple(colour[:3]) in (pytest.approx(full), pytest.approx(pale))
    assert [text.get_text() for text in display.legend_.get_texts()][:3] == [
        "cluster 0", "cluster 1", "cluster 2",
    ]  # fmt: skip


def test_branches_are_the_clusters_of_the_model_in_use(clusters):
    model, _X = clusters
    display = BifurcationDisplay.from_estimator(model)
    last = model.path_[-1]
    member = model.predict(last.codevectors)
    assert (display.branches[-1] == member).mean() > 0.95  # a stray at a border may differ


def test_a_polished_model_is_marked_at_the_level_it_started_from(clusters):
    _, X = clusters
    model = ODAClustering(3, polish=True, random_state=0).fit(X)
    assert model.temperature_ == 0
    display = BifurcationDisplay.from_estimator(model)
    T = display.current_.get_xdata()[0]
    assert T == pytest.approx(model.path_.codebook(3).temperature)


@pytest.mark.parametrize("feature", ["no such", 7, -1])
def test_an_unknown_feature_is_refused(classes, feature):
    with pytest.raises(ValueError, match="feature"):
        BifurcationDisplay.from_estimator(classes[0], feature=feature)


# -- the tree -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["clusters", "many", "classes"])
def test_the_tree_forks_once_for_each_split_at_its_temperature(request, which):
    model = request.getfixturevalue(which)[0]
    path = model.path_
    display = SplitTreeDisplay.from_estimator(model)
    forks = np.array(display.forks_.get_segments()).reshape(-1, 2, 2)
    np.testing.assert_allclose(
        np.sort(forks[:, 0, 1]), np.sort([T for _, T in path.ordered_splits])
    )
    leaves = np.asarray(display.leaves_.get_offsets())
    assert leaves[:, 0].tolist() == list(range(path[-1].n_codevectors))
    numbers = [leaf.number for root in display.roots for leaf in root.leaves()]
    assert sorted(numbers) == list(range(path[-1].n_codevectors))
    weights = np.array([leaf.weight for root in display.roots for leaf in root.leaves()])
    np.testing.assert_allclose(weights, path[-1].weights[numbers])
    low, high = display.ax_.get_ylim()
    assert low < high  # hot at the top


def test_the_tree_hangs_together(many):
    display = SplitTreeDisplay.from_estimator(many[0])
    stems = {(round(a[0], 6), round(a[1], 9)) for a, _ in display.stems_.get_segments()}
    for (a, T), (b, _) in display.forks_.get_segments():
        assert (round(a, 6), round(T, 9)) in stems
        assert (round(b, 6), round(T, 9)) in stems
    for root in display.roots:
        assert root.weight == pytest.approx(1.0)


def test_leaves_are_numbered_only_where_there_is_room(clusters, many):
    few = SplitTreeDisplay.from_path(
        ODAClustering(3, shape="round", random_state=0).fit(clusters[1]).path_
    )
    assert sorted(text.get_text() for text in few.leaf_labels_) == ["0", "1", "2"]
    assert SplitTreeDisplay.from_estimator(many[0]).leaf_labels_ == []


def test_a_tree_cut_at_some_leaves_keeps_the_hottest_splits(clusters):
    model, _ = clusters
    display = SplitTreeDisplay.from_estimator(model, n_leaves=4)
    heights = sorted((T for (_, T), _ in display.forks_.get_segments()), reverse=True)
    np.testing.assert_allclose(heights, [T for _, T in model.path_.ordered_splits[:3]])
    with pytest.raises(ValueError, match="n_leaves"):
        SplitTreeDisplay.from_estimator(model, n_leaves=0)


# -- the trade-off --------------------------------------------------------------------------------


def test_tradeoff_curves_are_the_columns_of_the_path(clusters):
    model, _ = clusters
    frame = model.path_.to_frame()
    display = TradeoffDisplay.from_estimator(model)
    assert len(display.axes_) == 7
    for (row, column), line in display.curves_.items():
        x, y = line.get_data()
        np.testing.assert_allclose(x, frame[column])
        np.testing.assert_allclose(y, frame[row])
    assert {row for row, _ in display.curves_} == {"distortion", "n_codevectors", "free_energy"}
    at_T = [mark.get_xdata()[0] for mark in display.marks_[::2]]
    np.testing.assert_allclose(at_T, model.temperature_)


def test_bars_are_the_persistence_beside_structureless_data(clusters):
    model, _ = clusters
    display = TradeoffDisplay.from_estimator(model)
    found = model._persistence
    n = len(display.bars_)
    np.testing.assert_allclose(
        [bar.get_height() for bar in display.bars_], found.plateau[1 : n + 1]
    )
    np.testing.assert_allclose(
        [bar.get_height() for bar in display.expected_], np.nan_to_num(found.expected[1 : n + 1])
    )
    required = found.required[1 : n + 1]
    drawn = [a[1] for a, _ in display.required_.get_segments()]
    np.testing.assert_allclose(drawn, required[np.isfinite(required)])
    words = display.axes_[-1].get_title(loc="left")
    assert words == "K = 3 persists longer than it would in structureless data"


def test_a_classifier_shows_its_score_and_a_stream_its_distortion(classes):
    model, X, y = classes
    display = TradeoffDisplay.from_estimator(model)
    assert display.axes_[0].get_ylabel() == "accuracy"
    assert display.expected_ is None
    streamed = ODAClassifier(random_state=0)
    for _ in range(4):
        streamed.partial_fit(X, y)
    assert TradeoffDisplay.from_estimator(streamed).quality == "distortion"
    with pytest.raises(ValueError, match="no scores"):
        TradeoffDisplay.from_estimator(streamed, quality="score")


def test_tradeoff_refuses_what_it_cannot_draw(clusters):
    model, _ = clusters
    with pytest.raises(ValueError, match="7 axes are needed"):
        TradeoffDisplay.from_estimator(model, axes=[plt.subplots()[1]])
    with pytest.raises(ValueError, match="against"):
        TradeoffDisplay.from_estimator(model, against="time")
    with pytest.raises(ValueError, match="quality"):
        TradeoffDisplay.from_estimator(model, quality="beauty")


# -- the codebook ---------------------------------------------------------------------------------


def test_regions_are_what_the_model_predicts(classes):
    model, X, y = classes
    display = CodebookDisplay.from_estimator(model, X, y)
    left, right, bottom, top = display.extent
    rng = np.random.default_rng(0)
    n = len(display.regions)
    for i, j in rng.integers(0, n, (60, 2)):
        x = left + (right - left) * (j + 0.5) / n, bottom + (top - bottom) * (i + 0.5) / n
        predicted = model.predict(named([x], X.columns))[0]
        assert model.classes_[display.regions[i, j]] == predicted
    np.testing.assert_allclose(display.codevectors_.get_offsets(), model.codevectors_)
    np.testing.assert_allclose(display.data_.get_offsets(), X)
    assert (model.classes_[display.data_colours] == y).all()


def test_cells_of_a_clustering_have_the_colour_of_their_codevector(clusters):
    model, X = clusters
    display = CodebookDisplay.from_estimator(model, X)
    assert set(np.unique(display.regions)) == {0, 1, 2}
    assert display.borders.any()
    np.testing.assert_array_equal(display.data_colours, model.labels_)


def test_more_features_are_projected_on_their_principal_components(many):
    model, X = many
    display = CodebookDisplay.from_estimator(model, X, max_points=100)
    assert display.regions_ is None
    assert 90 <= len(display.data_.get_offsets()) <= 100
    rows = X.to_numpy()
    variance = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
    whole = CodebookDisplay.from_estimator(model, X, max_points=10**6)
    seen = np.asarray(whole.data_.get_offsets()).var(axis=0, ddof=1)
    np.testing.assert_allclose(seen, variance[:2], rtol=1e-6)
    pair = CodebookDisplay.from_estimator(model, X, features=(3, X.columns[5]), max_points=10**6)
    np.testing.assert_allclose(pair.data_.get_offsets(), rows[:, [3, 5]])


@pytest.mark.parametrize("divergence", ["i_divergence", "itakura_saito", "kullback_leibler"])
def test_regions_stay_where_the_divergence_is_defined(divergence):
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(200, 2)) + 0.01
    if divergence == "kullback_leibler":
        X /= X.sum(axis=1, keepdims=True)
    model = ODAClustering(3, divergence=divergence, random_state=0).fit(X)
    display = CodebookDisplay.from_estimator(model, X)
    assert (display.regions_ is None) == (divergence == "kullback_leibler")
    if display.extent:
        assert min(display.extent[0], display.extent[2]) >= 0


def test_one_feature_is_drawn_too(clusters):
    _, X = clusters
    model = ODAClustering(3, random_state=0).fit(X[:, :1])
    display = CodebookDisplay.from_estimator(model, X[:, :1])
    np.testing.assert_allclose(np.asarray(display.data_.get_offsets())[:, 0], X[:, 0])
    assert display.regions_ is not None


def test_any_estimator_with_codevectors_has_a_codebook(clusters):
    _, X = clusters
    for model in (
        StochasticVQ(4, random_state=0).fit(X),
        DeterministicAnnealing(3).fit(X[:100]),
    ):
        display = CodebookDisplay.from_estimator(model, X)
        np.testing.assert_allclose(display.codevectors_.get_offsets(), model.codevectors_)


# -- the codevectors ------------------------------------------------------------------------------


def test_images_are_the_codevectors_in_their_shape():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 12)) + np.repeat(np.eye(3, 12), 20, axis=0) * 5
    model = ODAClassifier(level="last", fine_tune=None, random_state=0).fit(
        X, np.repeat(["a", "b", "c"], 20)
    )
    display = CodevectorDisplay.from_estimator(model, image_shape=(3, 4))
    sheet = np.asarray(display.image_.get_array())
    frames = [patch for patch in display.ax_.patches]
    assert len(frames) == len(model.codevectors_) == len(display.labels_)
    for k, frame in enumerate(frames):
        left, top = round(frame.get_x() + 0.5), round(frame.get_y() + 0.5)
        tile = sheet[top : top + 3, left : left + 4]
        np.testing.assert_allclose(tile, display.codevectors[k].reshape(3, 4))
    assert sorted(map(tuple, display.codevectors)) == sorted(map(tuple, model.codevectors_))
    captions = [label.get_text() for label in display.labels_]
    assert captions == sorted(model.codevector_labels_)
    with pytest.raises(ValueError, match="image_shape"):
        CodevectorDisplay.from_estimator(model, image_shape=(5, 5))


def test_profiles_are_in_the_original_units(clusters):
    _, X = clusters
    units = X * [1000.0, 0.001] + [5000.0, 0.0]
    scaler = StandardScaler().fit(units)
    model = ODAClustering(3, random_state=0).fit(scaler.transform(units))
    display = CodevectorDisplay.from_estimator(model, inverse_transform=scaler)
    centres = scaler.inverse_transform(model.cluster_centers_)
    in_order = [rows[np.lexsort(rows.T)] for rows in (display.codevectors, centres)]
    np.testing.assert_allclose(*in_order)
    low, high = centres.min(axis=0), centres.max(axis=0)
    written = np.array([float(label.get_text()) for label in display.labels_]).reshape(2, 2)
    np.testing.assert_allclose(written[:, 0], low, rtol=0.02, atol=0.02 * (high - low).min())
    np.testing.assert_allclose(written[:, 1], high, rtol=0.02)
    for line, row in zip(display.lines_, display.codevectors, strict=True):
        np.testing.assert_allclose(line.get_xdata(), (row - low) / (high - low), atol=1e-12)
    wide = CodevectorDisplay.from_estimator(
        model, inverse_transform=scaler.inverse_transform, X=units
    )
    places = np.array([line.get_xdata() for line in wide.lines_])
    assert places.min() > 0.05 and places.max() < 0.95


def test_a_table_shows_how_far_each_codevector_is_from_the_mean(many):
    model, _X = many
    display = CodevectorDisplay.from_estimator(model)
    shown = np.asarray(display.image_.get_array())
    assert display.kind == "table" and shown.shape == (30, 200)
    np.testing.assert_allclose(shown @ display.weights, 0, atol=1e-9)
    np.testing.assert_allclose(shown**2 @ display.weights, 1)


def test_what_cannot_be_taken_back_is_refused(clusters):
    model, X = clusters
    with pytest.raises(TypeError, match="inverse_transform"):
        CodevectorDisplay.from_estimator(model, inverse_transform=3)
    with pytest.raises(ValueError, match="one row for each"):
        CodevectorDisplay.from_estimator(model, inverse_transform=lambda rows: rows[:1])
    with pytest.raises(ValueError, match="kind"):
        CodevectorDisplay.from_estimator(model, kind="song")
    with pytest.raises(ValueError, match="2 features"):
        CodevectorDisplay.from_estimator(model, X=X[:, :1])


def test_codevectors_of_a_table_are_shown_in_its_units_and_names():
    rng = np.random.default_rng(0)
    tall = rng.integers(2, size=300)
    rows = [
        {"height": 1000.0 + 900.0 * t + rng.normal(), "colour": "red" if t else "blue"}
        for t in tall
    ]
    model = TabularModel(ODAClustering(2, random_state=0)).fit(rows)
    display = CodevectorDisplay.from_estimator(model, X=rows, kind="profile")
    assert [*display.feature_names] == ["height", "colour=blue", "colour=red"]
    heights = sorted(display.codevectors[:, 0])
    np.testing.assert_allclose(heights, [1000.0, 1900.0], atol=2.0)
    low, high = display.scales
    assert 990 < low[0] < 1001 and 1899 < high[0] < 1910
    shown = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert shown == ["height", "colour=blue", "colour=red"]
    plt.close("all")


# -- all of them ----------------------------------------------------------------------------------


def draw(display, model, X, **options):
    if display is CodebookDisplay:
        return display.from_estimator(model, X, **options)
    return display.from_estimator(model, **options)


ALL = [*OF_PATHS, CodebookDisplay, CodevectorDisplay]


@pytest.mark.parametrize("display", [d for d in ALL if d is not TradeoffDisplay])
def test_axes_that_are_given_are_used_and_nothing_else_is_touched(display, clusters):
    model, X = clusters
    _, (ax, other) = plt.subplots(1, 2)
    before = dict(mpl.rcParams)
    drawn = draw(display, model, X, ax=ax)
    assert drawn.ax_ is ax and drawn.figure_ is ax.figure
    assert plt.get_fignums() == [ax.figure.number]
    assert not other.has_data()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("display", OF_PATHS)
def test_a_path_without_levels_is_refused(display):
    model = ODAClustering().partial_fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="no level is finished"):
        display.from_path(model.path_)


@pytest.fixture(scope="module")
def odd_ones(clusters):
    """A short path, a reheated one, one class, and many."""
    _, X = clusters
    rng = np.random.default_rng(0)
    rows, label = rng.normal(size=(208, 3)), np.arange(26).repeat(8)
    stream = ODAClustering(3, shape="round", random_state=0).partial_fit(np.tile(X, (20, 1)))
    return (
        (ODAClustering(None, T_max=5.0, T_min=4.9).fit(X), X),  # one level
        (stream.reheat().partial_fit(X + 9), X),
        (ODAClassifier(level="last", fine_tune=None, K_max=20).fit(X, np.zeros(len(X))), X),
        (ODAClassifier(level="last", fine_tune=None, K_max=60).fit(rows, label), None),
    )


@pytest.mark.parametrize("display", ALL)
def test_short_paths_reheated_ones_and_many_classes_are_drawn(display, odd_ones):
    for model, rows in odd_ones:
        draw(display, model, rows).figure_.canvas.draw()
        plt.close("all")


@pytest.mark.parametrize("display", ALL)
def test_what_has_nothing_to_draw_is_told_so(display, clusters):
    _, X = clusters
    with pytest.raises(NotFittedError):
        draw(display, ODAClustering(), X)
    with pytest.raises(TypeError, match="of a pipeline give its last step"):
        draw(display, make_pipeline(StandardScaler(), ODAClustering(2, shape="round")).fit(X), X)


def texts(figure):
    """Every word that is drawn, with its box in pixels."""
    figure.canvas.draw()
    found = list(figure.texts)
    for ax in [part for whole in figure.axes for part in (whole, *whole.child_axes)]:
        found += [*ax.texts, ax.title, ax._left_title]
        legends = [child for child in ax.get_children() if type(child).__name__ == "Legend"]
        found += [text for legend in legends for text in legend.get_texts()]
        for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [axis.label, *(label for t in ticks for label in (t.label1, t.label2))]
    shown = [text for text in found if text.get_visible() and text.get_text().strip()]
    return [(text, text.get_window_extent()) for text in shown]


def overlaps(figure, slack=1.5):
    """Pairs of words that cover each other, and words that leave the figure, in pixels."""
    boxes = texts(figure)
    assert len(boxes) > 2
    bad = []
    for i, (a, first) in enumerate(boxes):
        inside = figure.bbox.padded(slack)
        if not (inside.contains(*first.min) and inside.contains(*first.max)):
            bad.append((a.get_text(), "outside"))
        for b, second in boxes[i + 1 :]:
            apart = (
                first.x1 - slack < second.x0 or second.x1 - slack < first.x0
                or first.y1 - slack < second.y0 or second.y1 - slack < first.y0
            )  # fmt: skip
            if not apart:
                bad.append((a.get_text(), b.get_text()))
    return bad


NARROW, MIDDLE, WIDE = (3.5, 3.2, 9), (7, 5, 10), (13.3, 7.5, 16)


@pytest.mark.parametrize(
    ("which", "size"),
    tries(
        [("clusters", NARROW), ("many", NARROW), ("classes", WIDE)],
        list(product(["clusters", "many", "classes"], [NARROW, MIDDLE, WIDE])),
    ),
)
@pytest.mark.parametrize("display", ALL)
def test_no_word_covers_another(request, display, which, size):
    model, X, *_ = request.getfixturevalue(which)
    width, height, font = size
    with plt.rc_context({"font.size": font}):
        if display is TradeoffDisplay:
            figure = plt.figure(figsize=(width, 1.7 * height), layout="constrained")
            axes = figure.subplots(4, 1)
            drawn = display.from_estimator(model, against="temperature", axes=axes)
        else:
            figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
            drawn = draw(display, model, X, ax=ax)
        assert overlaps(drawn.figure_) == []


@pytest.mark.parametrize("display", ALL)
@pytest.mark.filterwarnings("error::UserWarning")
def test_names_are_shown_as_they_are(display, classes):
    """No formula, no markup: an unfinished one would stop matplotlib while it draws."""
    _, X, y = classes
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(len(X), 6))])
    y = np.where(y == "_up", "_$\\frac{", "$b$")
    model = ODAClassifier(level="last", fine_tune=None, K_max=12, random_state=0)
    drawn = draw(display, model.fit(named(X, ODD), y), named(X, ODD))
    written = [text for text, _ in texts(drawn.figure_)]
    for text in written:
        assert not text.get_parse_math() or "$" not in text.get_text()
    words = " ".join(text.get_text() for text in written)
    if display is not TradeoffDisplay:
        assert "_$\\frac{" in words and "$b$" in words
    if display is CodevectorDisplay:
        assert "<script>" in words and "two lines" in words and "_under" in words


def test_a_feature_with_an_odd_name_is_drawn_by_that_name(classes):
    model, _X, _ = classes
    display = BifurcationDisplay.from_estimator(model, feature="$x_1$")
    assert display.ax_.get_ylabel() == "$x_1$"
    display.figure_.canvas.draw()
    np.testing.assert_allclose(display.positions[-1], model.path_[-1].codevectors[:, 0])


def pixels(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255


def test_the_rendered_codebook_has_codevectors_and_regions_where_they_belong(clusters):
    model, _X = clusters
    display = CodebookDisplay.from_estimator(model)  # no data over the regions
    image = pixels(display.figure_)
    for i, mu in enumerate(model.codevectors_):
        x, y = display.ax_.transData.transform(mu)
        seen = image[len(image) - 1 - round(y), round(x)]
        np.testing.assert_allclose(seen, branch_colour(i), atol=0.02)
        inwards = 22 if mu[0] < 4 else -22
        beside = image[len(image) - 1 - round(y), round(x) + inwards]
        np.testing.assert_allclose(beside, paler(paler(branch_colour(i))), atol=0.03)


def test_the_rendered_tree_has_its_colours_hot_at_the_top(clusters):
    model, _ = clusters
    display = SplitTreeDisplay.from_estimator(model)
    image = pixels(display.figure_)
    grey = np.flatnonzero((np.abs(image - 0.55).max(axis=2) < 0.03).sum(axis=1) > 5)
    for i in range(3):
        rows = np.flatnonzero((np.abs(image - branch_colour(i)).max(axis=2) < 0.03).any(axis=1))
        # The stem of the whole tree begins above where the first branch does.
        assert len(rows) and grey.min() < rows.max()


def test_without_matplotlib_a_display_says_what_to_install(clusters, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert set(plots.__all__) == {display.__name__ for display in ALL}
    for name in plots.__all__:
        with pytest.raises(ImportError) as refused:
            getattr(plots, name).from_estimator(clusters[0])
        assert str(refused.value) == (
            "drawing needs matplotlib, which is not installed: pip install 'annealed[plot]'"
        )


# -- clusters of any shape -------------------------------------------------------------------------


def test_joined_codevectors_have_the_colour_of_their_cluster():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    model = ODAClustering(2, random_state=0).fit(X)
    clusters = model.codevector_clusters_
    assert len(clusters) > model.n_clusters_ == 2
    codebook = CodebookDisplay.from_estimator(model, X)
    assert codebook.names == ["cluster 0", "cluster 1"] and "2 clusters" in codebook.title
    np.testing.assert_array_equal(codebook.colours, clusters)
    np.testing.assert_array_equal(codebook.data_colours, model.labels_)
    for display in (BifurcationDisplay, SplitTreeDisplay):
        drawn = display.from_estimator(model)
        assert drawn.branch_names == ["cluster 0", "cluster 1"]
    coldest = BifurcationDisplay.from_estimator(model).branches[-1]
    np.testing.assert_array_equal(coldest, clusters)
