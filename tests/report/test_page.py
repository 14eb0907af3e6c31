"""The page that explores an annealing: its data are the model's, and no name can break it."""

from __future__ import annotations

import base64
import html
import json
import re
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, load_wine, make_moons
from sklearn.metrics import confusion_matrix, log_loss, precision_recall_fscore_support
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from annealed import ODAClassifier, ODAClustering, TabularModel
from annealed.report import explore
from annealed.report.cards import FEATURES, NEAREST
from annealed.report.gather import MOST_ROWS

pytest.importorskip("jinja2")
pytest.importorskip("plotly")

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"; window.hacked = 1; "',
    "line\u2028separator & <b>bold</b> \u202eright to left",
    "{{ 7 * 7 }} %{x} $\\alpha$ \\u003c",
    "\ud800 half a letter",
]


@pytest.fixture(scope="module")
def iris():
    return load_iris()


@pytest.fixture(scope="module")
def clustering(iris):
    return make_pipeline(StandardScaler(), ODAClustering(K_max=20, random_state=0)).fit(iris.data)


@pytest.fixture(scope="module")
def classifier(iris):
    names = iris.target_names[iris.target]
    return ODAClassifier(K_max=20, random_state=0).fit(iris.data, names)


@pytest.fixture(scope="module")
def contents(clustering, iris):
    return explore(
        clustering, iris.data, iris.target_names[iris.target], feature_names=iris.feature_names
    ).contents


# -- numbers --------------------------------------------------------------------------------------


def test_levels_are_those_of_the_path(contents, clustering):
    path = clustering[-1].path_
    assert len(contents.levels) == len(path)
    for shown, level in zip(contents.levels, path, strict=True):
        for name in ("temperature", "n_codevectors", "samples", "distortion", "entropy"):
            assert getattr(shown, name) == getattr(level, name)
        assert shown.free_energy == level.free_energy
        assert shown.score == level.score
        assert shown.weights == level.weights.tolist()
        assert [contents.nodes[i].name for i in shown.nodes] == [f"#{n}" for n in level.nodes]


def test_positions_keep_distances_within_the_plane_shown(contents, clustering, iris):
    # The map is a projection on two orthonormal directions that hold most of the variance.
    X = clustering[0].transform(iris.data)
    rows = np.column_stack([contents.rows.x, contents.rows.y])
    centred = X - X.mean(axis=0)
    directions = np.linalg.lstsq(centred, rows, rcond=None)[0]
    np.testing.assert_allclose(directions.T @ directions, np.eye(2), atol=1e-9)
    variance = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    np.testing.assert_allclose(rows.var(axis=0), variance[:2], rtol=1e-9)
    for shown, level in zip(contents.levels, clustering[-1].path_, strict=True):
        expected = (level.codevectors - X.mean(axis=0)) @ directions
        np.testing.assert_allclose(np.column_stack([shown.x, shown.y]), expected, atol=1e-9)


def test_rows_belong_to_the_codevector_the_model_predicts(contents, clustering, iris):
    model, X = clustering[-1], clustering[0].transform(iris.data)
    for shown in contents.levels:
        cells = np.frombuffer(base64.b64decode(shown.cells), dtype="<u2")
        np.testing.assert_array_equal(cells, model.at(temperature=shown.temperature).predict(X))
        counts = np.bincount(cells, minlength=shown.n_codevectors)
        assert [card.rows for card in shown.cards] == counts.tolist()


def test_cards_tell_values_in_original_units(contents, clustering, iris):
    scaler, path = clustering[0], clustering[-1].path_
    spread = iris.data.std(axis=0)
    for shown, level in zip(contents.levels, path, strict=True):
        original = scaler.inverse_transform(level.codevectors)
        place = {node: i for i, node in enumerate(shown.nodes)}
        for i, card in enumerate(shown.cards):
            assert len(card.features) == min(FEATURES, iris.data.shape[1])
            siblings = [place[node] for node in card.siblings]
            for one in card.features:
                own = original[i, one.feature]
                assert one.own == pytest.approx(own, rel=1e-12)
                if card.others == "none":
                    assert one.others is None
                    continue
                mean = np.average(original[siblings, one.feature], weights=level.weights[siblings])
                assert one.others == pytest.approx(mean, rel=1e-12)
                assert one.difference == pytest.approx(
                    (own - mean) / spread[one.feature], abs=1e-12
                )
            sizes = [abs(one.difference or 0) for one in card.features]
            assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("divergence", ["squared_euclidean", "i_divergence"])
def test_nearest_samples_are_the_nearest_by_the_models_divergence(iris, divergence):
    model = ODAClustering(None, divergence=divergence, K_max=12, random_state=0).fit(iris.data)
    contents = explore(model, iris.data).contents
    for shown in contents.levels:
        far = model.at(temperature=shown.temperature).transform(iris.data)
        for i, card in enumerate(shown.cards):
            assert len(card.nearest) == NEAREST
            rows = [one.row for one in card.nearest]
            np.testing.assert_allclose(far[rows, i], np.sort(far[:, i])[:NEAREST], atol=1e-9)
            for one in card.nearest:
                assert one.divergence == pytest.approx(far[one.row, i], abs=1e-9)
                told = [card.features[j].feature for j in range(len(one.values))]
                assert one.values == iris.data[one.row, told].tolist()


def test_siblings_are_what_became_of_the_other_side(contents, clustering):
    path = clustering[-1].path_
    for shown, level in zip(contents.levels, path, strict=True):
        lines = []
        for node in level.nodes.tolist():
            line = [node]
            while line[-1] in {child for s in path.events for child in s.children}:
                line.append(path.parent_of(line[-1]))
            lines.append(line)
        for i, card in enumerate(shown.cards):
            shared = {
                j: next(n for n in lines[i] if n in lines[j]) for j in range(len(lines)) if j != i
            }
            closest = min((lines[i].index(node) for node in shared.values()), default=None)
            expected = [j for j, node in shared.items() if lines[i].index(node) == closest]
            assert [shown.nodes.index(node) for node in card.siblings] == expected


def test_a_codevector_alone_in_its_class_is_compared_with_the_other_classes(classifier, iris):
    contents = explore(classifier, iris.data).contents
    first, level = contents.levels[0], classifier.path_[0]
    assert [card.others for card in first.cards] == ["classes"] * 3
    for i, card in enumerate(first.cards):
        rest = np.delete(level.codevectors, i, axis=0).mean(axis=0)
        for one in card.features:
            assert one.others == pytest.approx(rest[one.feature], rel=1e-12)


# -- the tree -------------------------------------------------------------------------------------


def model_path(model):
    return (model[-1] if hasattr(model, "steps") else model).path_


@pytest.mark.parametrize("name", ["clustering", "classifier"])
def test_cutting_the_tree_at_a_level_meets_its_codevectors(request, name, iris):
    model = request.getfixturevalue(name)
    contents = explore(model, iris.data).contents
    last = set(contents.levels[-1].nodes)
    heights = sorted(contents.nodes[node].height for node in last)
    assert heights == list(range(len(last)))

    for before, shown in pairwise([None, *contents.levels]):
        T = shown.temperature
        met = [line for line in contents.lines if line.end <= T <= line.start]
        assert sorted(line.node for line in met) == sorted(shown.nodes)
        new = [line for line in met if before is None or line.node not in before.nodes]
        for line in new:
            i = shown.nodes.index(line.node)
            parent = int(model_path(model)[contents.levels.index(shown)].parents[i])
            assert line.origin == (None if before is None else before.nodes[parent])


def test_colours_are_the_clusters_in_use(clustering, iris):
    model = clustering[-1]
    for K in (2, 5):
        at = model.at(n_codevectors=K)
        X = clustering[0].transform(iris.data)
        contents = explore(at, X).contents
        assert contents.branches == [f"cluster {i}" for i in range(K)]
        chosen = contents.levels[contents.in_use.level]
        cells = np.frombuffer(base64.b64decode(chosen.cells), dtype="<u2")
        branch = [contents.nodes[chosen.nodes[cell]].branch for cell in cells]
        if chosen.n_codevectors == K:
            assert branch == at.predict(X).tolist()
        # Further on, samples stay with their branch but for those at the borders, of which five
        # parts of three groups have many.
        coldest = contents.levels[-1]
        cells = np.frombuffer(base64.b64decode(coldest.cells), dtype="<u2")
        later = np.array([contents.nodes[coldest.nodes[cell]].branch for cell in cells])
        assert (later >= 0).all()
        assert (later == at.predict(X)).mean() > 0.7


def test_samples_of_a_classifier_have_the_colour_of_their_class(classifier, iris):
    names = iris.target_names[iris.target]
    contents = explore(classifier, iris.data, names).contents
    assert contents.classes == contents.branches == ["setosa", "versicolor", "virginica"]
    assert contents.rows.classes == iris.target.tolist()
    assert contents.rows.labels == names.tolist()
    for shown, level in zip(contents.levels, classifier.path_, strict=True):
        assert [contents.nodes[node].branch for node in shown.nodes] == level.classes.tolist()
    assert explore(classifier, iris.data, ["moss"] * 150).contents.rows.classes == [-1] * 150
    numbered = ODAClassifier(K_max=5, random_state=0).fit(iris.data, iris.target)
    as_text = [str(label) for label in iris.target]
    assert explore(numbered, iris.data, as_text).contents.rows.classes == iris.target.tolist()


def test_no_two_of_sixty_classes_look_alike():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 4)
    X = 9.0 * y[:, None] + rng.normal(size=(120, 2))
    page = explore(ODAClassifier(level="last", fine_tune=None, random_state=0).fit(X, y))
    inside = json.loads(re.search(r'id="data">(.*?)</script>', page.html, re.DOTALL).group(1))
    for colours in inside["colours"].values():
        assert len(colours) == len(set(colours)) == 13  # two palettes and a grey, in five shapes


# -- the model in use -----------------------------------------------------------------------------


def test_the_model_in_use_is_found_on_the_path(iris):
    model = ODAClustering(3, random_state=0).fit(iris.data)
    for at in (model, model.at(n_codevectors=2), model.at(temperature=model.path_[1].temperature)):
        contents = explore(at, iris.data).contents
        shown = contents.levels[contents.in_use.level]
        assert contents.in_use.n_codevectors == len(at.codevectors_)
        if shown.n_codevectors == contents.in_use.n_codevectors:
            assert shown.temperature == at.temperature_
            assert contents.in_use.words == "This level is the model in use."
            assert contents.in_use.codevectors is None


@pytest.fixture(scope="module")
def other_models(iris):
    """Models that are no level of their path: polished, fine-tuned, several that vote."""
    names = iris.target_names[iris.target]
    return [
        ODAClustering(3, polish=True, random_state=0).fit(iris.data),
        ODAClassifier(K_max=20, level="auto", random_state=0).fit(iris.data, names),
        ODAClassifier(K_max=20, level="vote", random_state=0).fit(iris.data, names),
    ]


def test_codevectors_that_decide_are_shown_where_they_ended_up(other_models, iris):
    X = iris.data
    for model in other_models:
        contents = explore(model, X).contents
        shown, own = contents.in_use.codevectors, model.codevectors_
        assert shown.temperature == model.temperature_
        assert shown.weights == model.weights_.tolist()
        assert contents.in_use.n_codevectors == shown.n_codevectors == len(own)
        # The same linear map takes rows and codevectors to their places.
        to_map = np.linalg.lstsq(
            np.column_stack([X, np.ones(len(X))]),
            np.column_stack([contents.rows.x, contents.rows.y]),
            rcond=None,
        )[0]
        places = np.column_stack([own, np.ones(len(own))]) @ to_map
        np.testing.assert_allclose(np.column_stack([shown.x, shown.y]), places, atol=1e-9)
        for i, card in enumerate(shown.cards):
            for one in card.features:
                assert one.own == own[i, one.feature]
        nodes = [contents.nodes[node] for node in shown.nodes]
        assert all(node.in_use and not node.splits for node in nodes)
        assert len({node.name for node in nodes}) == len(nodes)


def test_rows_belong_to_the_codevectors_that_decide_them(other_models, iris):
    for model in other_models:
        contents = explore(model, iris.data).contents
        shown = contents.in_use.codevectors
        cells = np.frombuffer(base64.b64decode(shown.cells), dtype="<u2")
        assert [card.rows for card in shown.cards] == np.bincount(
            cells, minlength=shown.n_codevectors
        ).tolist()
        if hasattr(model, "classes_"):
            first = {r.row: r.codevector for r in model.explain(iris.data, n_codevectors=1)}
            np.testing.assert_array_equal(cells, [first[k] for k in range(150)])
        else:
            np.testing.assert_array_equal(cells, model.predict(iris.data))


def test_answers_are_the_models_own(other_models, iris):
    names = iris.target_names[iris.target]
    for model in other_models[1:]:
        shown = explore(model, iris.data, names).contents.in_use
        said, answers = model.predict(iris.data), shown.answers
        assert (answers.rows, answers.accuracy) == (150, np.mean(said == names))
        assert answers.confusion == confusion_matrix(names, said).tolist()
        assert answers.log_loss == pytest.approx(log_loss(names, model.predict_proba(iris.data)))
        precision, recall, _, rows = precision_recall_fscore_support(names, said)
        assert [one.precision for one in answers.classes] == pytest.approx(precision.tolist())
        assert [one.recall for one in answers.classes] == pytest.approx(recall.tolist())
        assert [one.rows for one in answers.classes] == rows.tolist()
        sure = model.predict_proba(iris.data).max(axis=1)
        assert sum(part.rows for part in answers.calibration) == 150
        mean = sum(part.rows * part.stated for part in answers.calibration) / 150
        assert mean == pytest.approx(sure.mean())
        assert sum(part.rows * part.right for part in answers.calibration) / 150 == pytest.approx(
            answers.accuracy
        )
        assert shown.held_out.accuracy == model.chosen_.accuracy
        assert shown.held_out.log_loss == model.chosen_.log_loss
        assert [v.share for v in shown.voters] == [v.share for v in model.voters_]
        for one in shown.relevances:
            assert one.relevance == model.feature_relevances_[one.feature]
    clustering = explore(other_models[0], iris.data, names).contents.in_use
    assert clustering.answers is None and clustering.held_out is None


def test_clusters_of_any_shape_have_outlines_and_reasons():
    X, _ = make_moons(800, noise=0.05, random_state=0)
    model = ODAClustering(random_state=0).fit(X)
    contents = explore(model, X).contents
    shown = contents.in_use
    assert contents.branches == ["cluster 0", "cluster 1"]
    assert "any shape" in shown.about[0] and "Why 2" in shown.about[1]
    assert [one.rows for one in shown.clusters] == np.bincount(model.labels_).tolist()
    assert sum(one.weight for one in shown.clusters) == pytest.approx(1)
    assert shown.plausible[0].n_clusters == 2
    # Most rows of a cluster lie inside its outline, and hardly any of the other one.
    for outline in shown.outlines:
        grid = np.frombuffer(base64.b64decode(outline.values), dtype=np.uint8)
        grid = grid.reshape(outline.size, outline.size)
        at = [
            np.rint((np.array(places) - first) / (last - first) * (outline.size - 1)).astype(int)
            for places, (first, last) in (
                (contents.rows.x, outline.x), (contents.rows.y, outline.y))
        ]  # fmt: skip
        inside = grid[at[1], at[0]] >= outline.contour
        own = model.labels_ == outline.cluster
        assert inside[own].mean() > 0.9 and inside[~own].mean() < 0.02
    asked = explore(model.at(n_clusters=3), X).contents.in_use
    assert len(asked.clusters) == 3


def test_features_in_other_units_are_compared_as_the_model_does(iris):
    rng = np.random.default_rng(0)
    X = np.column_stack([iris.data, 1e6 * rng.normal(size=150)])
    model = ODAClassifier(K_max=20, random_state=0).fit(X, iris.target)
    assert model.feature_units_ != "given"
    contents = explore(model, X, iris.target).contents
    assert contents.in_use.answers.accuracy == model.score(X, iris.target) > 0.9
    for shown in contents.levels:
        cells = np.frombuffer(base64.b64decode(shown.cells), dtype="<u2")
        own = np.array([contents.nodes[shown.nodes[cell]].class_index for cell in cells])
        assert (own == iris.target).mean() > 0.8


def test_a_path_alone_needs_nothing_else(clustering):
    path = clustering[-1].path_
    contents = explore(path, title="alone").contents
    assert contents.title == "alone"
    assert contents.rows is None and contents.in_use is None and contents.plateaus is None
    assert contents.features == ["feature 0", "feature 1", "feature 2", "feature 3"]
    assert all(card.nearest == [] for card in contents.levels[-1].cards)
    assert explore(path, n_codevectors=4).contents.in_use.n_codevectors == 4


def test_plateaus_are_those_of_the_choice(iris):
    model = ODAClustering(shape="round", random_state=0).fit(iris.data)
    shown, found = explore(model).contents.plateaus, model._persistence
    assert shown.n_clusters == model.n_clusters_
    np.testing.assert_array_equal(shown.lasts, found.plateau[: len(shown.lasts)])
    known = np.isfinite(found.required[: len(shown.lasts)])
    assert [bar is not None for bar in shown.required] == known.tolist()


# -- kinds of data --------------------------------------------------------------------------------


def test_of_many_rows_a_sample_is_shown_that_the_seed_decides(iris):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MOST_ROWS + 2000, 2))
    model = ODAClustering(None, K_max=5, random_state=0).fit(X)
    shown = explore(model, X, seed=1).contents.rows
    assert shown.total == len(X)
    assert len(shown.numbers) == len(set(shown.numbers)) == MOST_ROWS
    np.testing.assert_array_equal(np.column_stack([shown.x, shown.y]), X[shown.numbers])
    assert explore(model, X, seed=1).contents.rows.numbers == shown.numbers
    assert explore(model, X, seed=2).contents.rows.numbers != shown.numbers


def test_one_feature_one_level_or_one_codevector_make_a_page_too():
    rng = np.random.default_rng(0)
    line = rng.normal(size=(60, 1))
    same = np.tile([[1.0, 2.0, 3.0]], (20, 1)) + 1e-9 * rng.normal(size=(20, 3))
    pages = [
        explore(ODAClustering(2, random_state=0).fit(line), line),
        explore(ODAClustering(1, random_state=0).fit(same), same),
        explore(ODAClustering(random_state=0).fit(line)),
    ]
    for page in pages:
        assert page.html.startswith("<!doctype html>")
    assert pages[0].contents.axes == ("feature 0", "")
    assert set(pages[0].contents.levels[-1].y) == {0.0}


def test_scores_of_a_stream_are_unknown_and_left_out(iris):
    model = ODAClassifier(K_max=10, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        order = rng.permutation(150)
        model.partial_fit(iris.data[order], iris.target[order])
    contents = explore(model, iris.data, iris.target).contents
    assert contents.score_name is None
    assert [level.score for level in contents.levels] == [None] * len(model.path_)
    assert contents.rows.labels[0] == "class 0"


def test_a_frame_names_its_columns_and_a_pipeline_goes_back_to_them():
    wine = load_wine(as_frame=True)
    scaled = make_pipeline(StandardScaler(), ODAClassifier(K_max=9, random_state=0))
    contents = explore(scaled.fit(wine.data, wine.target), wine.data, wine.target).contents
    assert contents.features == list(wine.data.columns)
    one = contents.levels[-1].cards[0].nearest[0]
    told = [card.feature for card in contents.levels[-1].cards[0].features[: len(one.values)]]
    np.testing.assert_allclose(one.values, wine.data.to_numpy()[one.row, told], rtol=1e-9)


def test_features_of_a_pipeline_without_a_way_back_are_those_the_model_sees():
    wine = load_wine(as_frame=True)
    one_way = FunctionTransformer(
        np.log1p, feature_names_out=lambda _, names: [f"log {n}" for n in names]
    )
    columns = ColumnTransformer(
        [("log", one_way, ["alcohol", "ash"])], verbose_feature_names_out=False
    )
    model = make_pipeline(columns, ODAClustering(2, random_state=0)).fit(wine.data)
    contents = explore(model, wine.data).contents
    assert contents.features == ["log alcohol", "log ash"]
    shown = np.column_stack([contents.rows.x, contents.rows.y])
    np.testing.assert_allclose(shown, np.log1p(wine.data[["alcohol", "ash"]].to_numpy()))
    assert explore(model, wine.data, feature_names=["a", "b"]).contents.features == ["a", "b"]


def test_a_table_with_texts_and_its_target_is_read_as_it_is():
    rng = np.random.default_rng(0)
    y = np.repeat(["oak", "fir"], 60)
    table = pd.DataFrame(
        {
            "height": rng.normal(np.where(y == "oak", 20, 30), 2),
            "colour": rng.choice(["red", "green"], 120),
            "kind": y,
        }
    )
    model = TabularModel().fit(table, "kind")
    contents = explore(model, table, n_rows=900, row_numbers=range(7, 127)).contents
    assert contents.features == ["height", "colour=green", "colour=red"]
    assert contents.classes == ["fir", "oak"]
    assert contents.rows.labels == y.tolist()
    assert contents.shares == [False, True, True]
    assert (contents.rows.total, contents.rows.numbers[:2]) == (900, [7, 8])
    with pytest.raises(ValueError, match="2 row numbers were given for 120 rows"):
        explore(model, table, row_numbers=[1, 2])
    for card in contents.levels[-1].cards:
        told = {one.feature: one for one in card.features}
        assert 10 < told[0].own < 40
        assert told[1].own + told[2].own == pytest.approx(1, abs=1e-6)
        where = [one.feature for one in card.features].index(0)
        for one in card.nearest:
            assert one.values[where] == pytest.approx(table["height"][one.row], rel=1e-9)


def test_nothing_given_is_changed(clustering, iris):
    X = iris.data.copy()
    before = [level.codevectors.copy() for level in clustering[-1].path_]
    explore(clustering, X, iris.target)
    np.testing.assert_array_equal(X, iris.data)
    for codevectors, level in zip(before, clustering[-1].path_, strict=True):
        np.testing.assert_array_equal(codevectors, level.codevectors)


# -- the file -------------------------------------------------------------------------------------


def page_with(names, iris, labels=None):
    model = ODAClassifier(K_max=6, random_state=0).fit(iris.data, iris.target)
    y = np.array(labels or names[:3])[iris.target]
    return explore(
        model,
        iris.data,
        y,
        feature_names=names[:4],
        class_names=names[:3],
        title=" ".join(names),
    )


def test_no_name_can_leave_its_place_in_the_page(iris):
    tame = [f"name {i}" for i in range(7)]
    rough, plain = page_with(HOSTILE, iris).html, page_with(tame, iris).html
    for mark in ("<script", "</script", "<!--", "<img"):
        assert rough.lower().count(mark) == plain.lower().count(mark)
    inside = re.search(r'id="data">(.*?)</script>', rough, re.DOTALL).group(1)
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside)["features"] == HOSTILE[:4]
    assert html.escape(HOSTILE[1]) in rough  # in the title


def test_the_data_in_the_page_are_the_contents(contents, clustering, iris):
    page = explore(
        clustering, iris.data, iris.target_names[iris.target], feature_names=iris.feature_names
    )
    assert page.contents == contents
    inside = json.loads(re.search(r'id="data">(.*?)</script>', page.html, re.DOTALL).group(1))
    for shown, level in zip(inside["levels"], contents.levels, strict=True):
        assert shown["temperature"] == pytest.approx(level.temperature, rel=1e-5)
        assert shown["nodes"] == level.nodes
    assert inside["nodes"][1]["name"] == contents.nodes[1].name


def test_saved_and_in_a_notebook_it_is_the_same_page(tmp_path, iris):
    page = page_with(HOSTILE, iris)
    out = page.save(tmp_path / "page.html")
    text = out.read_text(encoding="utf-8")
    assert text == page.html.encode("utf-8", "replace").decode()
    frame = page._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1)) == page.html
    # Nothing is fetched: no address is asked for but those of standards.
    head = text[: text.index('id="data"')]
    assert "http" not in head.replace("http-equiv", "")
    assert "default-src 'none'" in head


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_what_is_missing_is_named_with_the_extra_to_install(monkeypatch, clustering, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}.*pip install 'annealed\[report\]'"):
        explore(clustering[-1].path_)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"X": np.zeros((5, 3))}, r"shape \(5, 3\).*4 features"),
        ({"X": np.zeros((0, 4))}, "no rows"),
        ({"X": np.array([[0, 1, np.nan, 3.0]])}, "nan in row 0, column 2"),
        ({"y": [1, 2, 3]}, "3 labels.*150 rows"),
        ({"X": None, "y": [1, 2, 3]}, "no X was given"),
        ({"feature_names": ["a", "b"]}, "2 feature names were given for 4 features"),
        ({"inverse": lambda rows: rows[:, :2]}, r"shape \(150, 2\) where \(150, 4\)"),
        ({"n_rows": 20}, "n_rows=20.*X itself holds 150"),
        ({"n_codevectors": 10_000}, "no model with 10000 codevectors"),
    ],
)
def test_what_does_not_fit_is_refused_with_reasons(classifier, iris, changed, words):
    given = {"X": iris.data, "y": None} | changed
    with pytest.raises(ValueError, match=words):
        explore(classifier, **given)


def test_only_what_has_a_path_can_be_shown(iris):
    with pytest.raises(TypeError, match=r"AnnealingPath.*StandardScaler"):
        explore(StandardScaler().fit(iris.data))
    barely = ODAClustering(random_state=0).partial_fit(iris.data[:1])
    with pytest.raises(ValueError, match="no level is finished"):
        explore(barely)
    with pytest.raises(ValueError, match="1 class names were given for 3 classes"):
        explore(
            ODAClassifier(K_max=5, random_state=0).fit(iris.data, iris.target), class_names=["a"]
        )
