"""The page in a real browser: what a user does with it, and that every number is the model's.

It needs a Chromium of the system. Without one these tests are skipped, unless
ANNEALED_BROWSER_REQUIRED=1 makes that a failure, as continuous integration does.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from thoroughness import tries

from annealed import ODAClassifier, ODAClustering
from annealed.report import explore

pytestmark = pytest.mark.browser

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}
EVIL = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script><b>&amp;x</b>"


def find_browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = f"no browser here ({', '.join(names)}): apt-get install chromium"
        if os.environ.get("ANNEALED_BROWSER_REQUIRED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser():
    program = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def iris():
    return load_iris()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def clustering(iris, folder):
    """A fitted pipeline, and the file of its page."""
    model = make_pipeline(StandardScaler(), ODAClustering(3, shape="round", random_state=0))
    model.fit(iris.data)
    page = explore(model, iris.data, iris.target_names[iris.target])
    return model, page.save(folder / "clustering.html")


@pytest.fixture(scope="module")
def classifier(iris, folder):
    model = ODAClassifier(K_max=15, random_state=0).fit(iris.data, iris.target_names[iris.target])
    page = explore(model, iris.data, iris.target_names[iris.target])
    return model, page.save(folder / "classifier.html")


@pytest.fixture(scope="module")
def vote(iris, folder):
    names = iris.target_names[iris.target]
    model = ODAClassifier(K_max=15, level="vote", random_state=0).fit(iris.data, names)
    assert len(model.voters_) > 1
    return model, explore(model, iris.data, names).save(folder / "vote.html")


@pytest.fixture
def visit(browser):
    """Open a page of ours. Whatever it complains of, or asks of a network, fails the test."""
    contexts, complaints = [], []

    def open_page(file, viewport=WIDE, scheme="light", own_clock=False):
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)  # two cores may be busy with other tests
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda box: (complaints.append(box.message), box.dismiss()))
        page.on(
            "request",
            lambda asked: asked.url.startswith("file:") or complaints.append(asked.url[:80]),
        )
        if own_clock:  # which the test can put forward
            page.clock.install()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def set_level(page, k):
    page.evaluate(
        "k => { const s = document.getElementById('slider'); s.value = k; "
        "s.dispatchEvent(new Event('input')); }",
        k,
    )


def soon(page, holds):
    """Whether something holds within some frames, and still does a few frames later."""
    for _ in range(60):
        frames(page, 5)
        if holds():
            frames(page, 5)
            return holds()
    return False


def frames(page, n):
    page.evaluate(
        "async n => { for (let k = 0; k < n; k++)"
        " await new Promise(drawn => requestAnimationFrame(drawn)); }",
        n,
    )


def figure(page, name):
    return page.inner_text(f"#f-{name}")


def level_of(page):
    return int(figure(page, "level").split()[0]) - 1


def shown(text):
    """A number as the page writes it: four digits."""
    return pytest.approx(float(text.replace(",", "").rstrip(" %")), rel=5.1e-4, abs=1e-12)


def marker_centres(page):
    """Where Plotly drew the codevectors, in pixels of the window."""
    return page.evaluate(
        "[...document.querySelector('#map .scatterlayer .trace').querySelectorAll('path.point')]"
        ".map(p => { const b = p.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })"
    )


# -- every number ---------------------------------------------------------------------------------


ALL_FIGURES = """() => {
  const slider = document.getElementById('slider'), rows = [];
  for (let k = 0; k <= slider.max; k++) {
    slider.value = k;
    slider.dispatchEvent(new Event('input'));
    const row = { dots: document.querySelectorAll('#annealing-over circle.live').length,
                  options: document.querySelectorAll('#picker option').length - 1 };
    for (const one of document.querySelectorAll('.figures dd'))
      row[one.id.slice(2)] = one.innerText;
    rows.push(row);
  }
  return rows; }"""


def figures_are_the_paths(page, path, scored):
    """Go through all levels and compare what is shown."""
    rows = page.evaluate(ALL_FIGURES)
    for k, (level, row) in enumerate(zip(path, rows, strict=True)):
        assert row["level"] == f"{k + 1} of {len(path)}"
        assert int(row["n_codevectors"]) == row["dots"] == row["options"] == level.n_codevectors
        assert int(row["samples"].replace(",", "")) == level.samples
        for what in ("temperature", "distortion", "entropy", "free_energy"):
            assert getattr(level, what) == shown(row[what]), what
        assert ("score" in row) == scored
        if scored:
            assert level.score == shown(row["score"])
    return True


def facts(page):
    """All that the card says, read at once."""
    return page.evaluate(
        "() => { const texts = (list) => [...list].map(x => x.textContent);"
        "const card = document.getElementById('card');"
        "const fact = (id) => card.querySelector(`[data-fact=${id}]`)?.textContent;"
        "return { node: fact('weight') && document.getElementById('picker').selectedOptions[0]"
        ".textContent, weight: fact('weight'), rows: fact('rows'), birth: fact('birth'),"
        "critical: fact('critical'), split: fact('split'),"
        "features: [...card.querySelectorAll('tr[data-feature]')].map(r => [Number(r.dataset"
        ".feature), ...texts(r.querySelectorAll('[data-cell]'))]),"
        "nearest: [...card.querySelectorAll('li[data-row]')].map(r => [Number(r.dataset.row),"
        "...texts(r.querySelectorAll('[data-cell]'))]) }; }"
    )


def test_every_number_of_a_clustering_is_the_models(visit, clustering, iris):
    model, file = clustering
    scaler, path = model[0], model[-1].path_
    X = scaler.transform(iris.data)
    born = {child: split for split in path.events for child in split.children}
    page = visit(file)
    assert figures_are_the_paths(page, path, scored=False)
    for k in (0, len(path) // 2, len(path) - 1):
        set_level(page, k)
        level, at = path[k], model[-1].at(temperature=path[k].temperature)
        original, far = scaler.inverse_transform(level.codevectors), at.transform(X)
        counts = np.bincount(at.predict(X), minlength=level.n_codevectors)
        for i, node in enumerate(level.nodes.tolist()):
            page.select_option("#picker", label=f"#{node}")
            told = facts(page)
            assert told["node"] == f"#{node}"
            assert 100 * level.weights[i] == pytest.approx(
                float(told["weight"].rstrip(" %")), rel=5.1e-3
            )
            assert int(told["rows"]) == counts[i]
            split = born.get(node)
            assert (told["birth"] is None) == (split is None)
            if split is not None:
                assert path[split.level].temperature == shown(told["birth"])
                assert split.critical_temperature == shown(told["critical"])
            after = [s for s in path.events if s.parent == node and s.level > k]
            assert (told["split"] is None) == (not after)
            if after:
                assert path[after[0].level].temperature == shown(told["split"])
            for j, own, *rest in told["features"]:
                assert original[i, j] == shown(own)
                if rest:
                    spread = iris.data[:, j].std()
                    gap = (float(own) - float(rest[0])) / spread
                    # Two numbers of four digits, and two decimals.
                    rounding = 0.0051 + 1e-3 * abs(float(own)) / spread
                    assert gap == pytest.approx(float(rest[1]), abs=rounding)
            nearest = np.argsort(far[:, i], kind="stable")[:3]
            assert {row for row, *_ in told["nearest"]} == set(nearest.tolist())
            for row, divergence, *values in told["nearest"]:
                assert far[row, i] == shown(divergence)
                features = [j for j, *_ in told["features"]]
                for j, value in zip(features, values, strict=False):
                    assert iris.data[row, j] == shown(value)


TABLE = """id => [...document.querySelectorAll(`#${id} tbody tr`)]
  .map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"""


@pytest.mark.parametrize("name", ["classifier", "vote"])
def test_every_number_of_the_classifier_in_use_is_the_models(request, visit, iris, name):
    model, file = request.getfixturevalue(name)
    names = iris.target_names[iris.target]
    page = visit(file)
    # It opens at the codevectors that decide; the slider leaves them, and one click brings back.
    assert figure(page, "level") == "in use"
    set_level(page, 0)
    assert figure(page, "level") == f"1 of {len(model.path_)}"
    if name == "classifier":
        assert figures_are_the_paths(page, model.path_, scored=True)
    page.click("#chosen")
    assert figure(page, "level") == "in use"
    assert model.temperature_ == shown(figure(page, "temperature"))
    assert int(figure(page, "n_codevectors")) == len(model.codevectors_)
    assert model.chosen_.accuracy == shown(figure(page, "score"))
    assert page.locator("#picker option").count() - 1 == len(model.codevectors_)
    for i, mu in enumerate(model.codevectors_):
        page.select_option("#picker", index=1)  # whatever stands there: it is found by its name
        page.evaluate(
            "i => { const p = document.getElementById('picker'); const own = [...p.options]"
            ".find(o => new RegExp(`codevector ${i}( |$)`).test(o.textContent));"
            " p.value = own.value; p.dispatchEvent(new Event('change')); }",
            i,
        )
        told = facts(page)
        assert told["node"].startswith(str(model.codevector_labels_[i]))
        assert 100 * model.weights_[i] == pytest.approx(
            float(told["weight"].rstrip(" %")), rel=5.1e-3
        )
        for j, own, *_ in told["features"]:
            assert mu[j] == shown(own)
    for place, accuracy, loss in (
        ("held-out", model.chosen_.accuracy, model.chosen_.log_loss),
        (
            "answers",
            model.score(iris.data, names),
            log_loss(names, model.predict_proba(iris.data)),
        ),
    ):
        said = page.inner_text(f"#{place} [data-fact=accuracy]")
        assert 100 * accuracy == pytest.approx(float(said.rstrip(" %")), abs=0.051)
        assert loss == pytest.approx(
            float(page.inner_text(f"#{place} [data-fact=log_loss]")), abs=5.1e-5
        )
    matrix = confusion_matrix(names, model.predict(iris.data))
    assert page.evaluate(TABLE, "confusion") == [[str(n) for n in row] for row in matrix.tolist()]
    shares = [float(row[1].rstrip(" %")) for row in page.evaluate(TABLE, "voters")]
    expected = [100 * voter.share for voter in model.voters_] if len(model.voters_) > 1 else []
    assert shares == pytest.approx(expected, abs=0.051)


# -- what a user does -----------------------------------------------------------------------------


# Every day a mouse is used in a wide window and the keyboard in a narrow one.
@pytest.mark.parametrize("viewport", tries([WIDE], [WIDE, NARROW]), ids=str)
def test_slider_click_play_and_the_model_in_use(visit, clustering, viewport):
    model, file = clustering
    path = model[-1].path_
    page = visit(file, viewport, own_clock=True)
    chosen = level_of(page)
    assert path[chosen].n_codevectors == 3

    # The slider moves the map, the cut and the figures.
    set_level(page, len(path) - 1)
    coldest = path[-1]
    assert float(figure(page, "temperature")) == pytest.approx(coldest.temperature, rel=1e-3)
    page.wait_for_function(
        "n => document.querySelectorAll('#map .scatterlayer .trace:first-child path.point')"
        ".length === n",
        arg=coldest.n_codevectors,
    )
    cut = page.evaluate(
        "[...document.querySelectorAll('#annealing-over line')].pop().x1.baseVal.value"
    )
    set_level(page, 0)
    assert cut > page.evaluate(
        "[...document.querySelectorAll('#annealing-over line')].pop().x1.baseVal.value"
    )

    # The model in use is one click away.
    page.click("#chosen")
    assert level_of(page) == chosen
    assert "is the model in use" in page.inner_text("#words")
    assert "as was asked for" in page.inner_text("#in-use")

    # A click on a codevector of the map opens its card; so does one on a dot of the tree.
    page.locator("#map-frame").scroll_into_view_if_needed()
    x, y = marker_centres(page)[1]
    page.mouse.click(x, y)
    page.wait_for_selector("#card .facts")
    assert facts(page)["node"] == f"#{path[chosen].nodes[1]}"
    dot = page.locator("#annealing-over circle.live").first
    node = dot.get_attribute("data-node")
    assert page.input_value("#picker") != node
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.input_value("#picker") == node
    assert level_of(page) == chosen

    # Dragging the cut changes the temperature, and the card follows the lineage.
    frame = page.locator("#annealing-over").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] * 0.6)
    page.mouse.down()
    page.mouse.move(frame["x"] + 60, frame["y"] + frame["height"] * 0.6, steps=4)
    page.mouse.up()
    assert level_of(page) == 0
    assert facts(page)["node"] == "#0"
    assert "not born yet" in page.inner_text("#card")

    # Play goes on by itself until it is paused.
    page.click("#play")
    page.wait_for_function("() => parseInt(document.getElementById('f-level').textContent) >= 3")
    assert page.text_content("#play-word") == "Pause"
    page.click("#play")
    at = level_of(page)
    page.clock.fast_forward(10_000)
    assert level_of(page) == at
    assert page.text_content("#play-word") == "Play"

    # At the cold end it stops by itself.
    set_level(page, len(path) - 2)
    page.click("#play")
    page.wait_for_function("() => document.getElementById('play-word').textContent === 'Play'")
    assert level_of(page) == len(path) - 1


PAINTED = """points => {
  const canvas = document.getElementById('points'), edge = canvas.getBoundingClientRect();
  const copy = Object.assign(document.createElement('canvas'),
    { width: canvas.width, height: canvas.height });
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const ratio = canvas.width / edge.width;
  return points.map(([x, y]) => pen.getImageData(
    Math.round((x - edge.x) * ratio), Math.round((y - edge.y) * ratio), 1, 1).data[3] > 0); }"""


def test_samples_stay_under_their_codevectors_while_the_map_is_dragged(visit, iris, folder):
    X = iris.data[:, :2]
    model = ODAClustering(4, K_max=8, random_state=0).fit(X)
    page = visit(explore(model, X).save(folder / "plane.html"))
    page.click("#chosen")

    def painted():
        # What Plotly did with the codevectors tells where samples have to be.
        seen = np.array(marker_centres(page))
        known = np.column_stack([model.codevectors_, np.ones(4)])
        to_window = np.linalg.lstsq(known, seen, rcond=None)[0]
        where = np.column_stack([X, np.ones(len(X))]) @ to_window
        box = page.locator("#map-frame").bounding_box()
        low = [box["x"] + 60, box["y"] + 15]
        high = [box["x"] + box["width"] - 20, box["y"] + box["height"] - 50]
        inside = ((where > low) & (where < high)).all(axis=1)
        assert inside.sum() > 50
        return page.evaluate(PAINTED, where[inside].tolist())

    assert all(painted())
    box = page.locator("#map-frame").bounding_box()
    x, y = box["x"] + 150, box["y"] + 60
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y + 30, steps=5)
    assert soon(page, lambda: all(painted()))
    page.mouse.up()
    assert soon(page, lambda: all(painted()))


@pytest.mark.parametrize("viewport", tries([NARROW], [WIDE, NARROW]), ids=str)
def test_the_keyboard_alone_is_enough(visit, clustering, viewport):
    model, file = clustering
    path = model[-1].path_
    page = visit(file, viewport)

    def focused():
        return page.evaluate("document.activeElement.id")

    def tab_to(name):
        for _ in range(25):
            if focused() == name:
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"no way to {name} by Tab")

    tab_to("play")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('play-word').textContent === 'Pause'")
    page.keyboard.press("Space")
    assert page.text_content("#play-word") == "Play"
    tab_to("slider")
    page.keyboard.press("End")
    assert level_of(page) == len(path) - 1
    page.keyboard.press("ArrowLeft")
    assert level_of(page) == len(path) - 2
    page.keyboard.press("Home")
    assert level_of(page) == 0
    page.keyboard.press("Shift+Tab")
    assert focused() == "chosen"
    page.keyboard.press("Enter")
    assert path[level_of(page)].n_codevectors == 3
    tab_to("map-frame")
    seen = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
        seen.add(facts(page)["node"])
    assert len(seen) >= 2
    assert facts(page)["node"] in page.inner_text("#said")
    page.keyboard.press("Enter")
    assert focused() == "card-panel"
    page.keyboard.press("Escape")
    assert page.locator("#card .facts").count() == 0
    tab_to("next")
    walked = []
    for _ in range(3):
        page.keyboard.press("Enter")
        walked.append(facts(page)["node"])
    assert sorted(walked) == sorted(f"#{node}" for node in path[level_of(page)].nodes)
    tab_to("picker")
    page.keyboard.press("ArrowDown")
    assert facts(page)["node"] in walked


# -- names and sizes ------------------------------------------------------------------------------


def overlaps(page):
    """Pairs of texts of one drawing that cover each other, and texts cut off by its edge."""
    return page.evaluate(
        """() => {
        const found = [];
        for (const frame of ['map', 'annealing', 'plateaus']) {
          const root = document.getElementById(frame);
          if (!root) continue;
          const edge = root.getBoundingClientRect();
          const boxes = [...root.querySelectorAll('svg text')].filter(t => t.textContent.trim())
            .map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, b]) => b.width);
          boxes.forEach(([text, a], i) => {
            if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1
                || a.bottom > edge.bottom + 1) found.push(['outside', text]);
            boxes.slice(i + 1).forEach(([other, b]) => {
              const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
              const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
              if (wide > 1 && high > 2) found.push([text, other]);
            });
          });
        }
        const panels = [...document.querySelectorAll('.panel, header, .controls')];
        panels.forEach((one, i) => panels.slice(i + 1).forEach((other) => {
          const [a, b] = [one, other].map(x => x.getBoundingClientRect());
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (wide > 1 && high > 1) found.push([one.id || one.className, other.id]);
        }));
        for (const one of document.querySelectorAll('.panel *, header *, .controls *')) {
          const b = one.getBoundingClientRect();
          if (b.width && b.right > innerWidth + 1
              && !one.closest('svg, .js-plotly-plot, .unseen, .wide-table'))
            found.push(['beyond the window', one.tagName, one.className]);
        }
        for (const one of document.querySelectorAll('.panel td, .panel dd, .controls dd'))
          if (one.scrollWidth > one.clientWidth + 1) found.push(['overflows', one.textContent]);
        return found; }"""
    )


@pytest.fixture(scope="module")
def crowded(folder):
    """Thirty features with long names, two hundred codevectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(scale=4, size=(60, 30))[rng.integers(0, 60, 3000)] + rng.normal(size=(3000, 30))
    model = ODAClustering(
        None, K_max=200, gamma=0.7, samples_per_codevector=10, random_state=0
    ).fit(X)
    assert 100 < len(model.codevectors_) <= 200
    units = np.logspace(-6, 6, 30)  # numbers of all lengths
    names = [f"a_rather_long_name of feature {j}, in kilograms per square metre" for j in range(30)]
    page = explore(
        model, X, feature_names=names, inverse=lambda rows: rows * units, title="Crowded"
    )
    return page.save(folder / "crowded.html")


@pytest.mark.parametrize("name", tries(["crowded", "vote"], ["crowded", "clustering", "vote"]))
def test_nothing_overlaps_at_any_width(request, visit, name):
    file = request.getfixturevalue(name)
    page = visit(file if name == "crowded" else file[1], scheme="dark")
    page.click("#next")
    assert soon(page, lambda: overlaps(page) == []), overlaps(page)
    for viewport in (WIDE, {"width": 1000, "height": 800}, NARROW):
        page.set_viewport_size(viewport)
        for k in tries((4, 1000), (0, 4, 1000)):
            set_level(page, k)
            page.evaluate("scrollTo(0, 0)")
            assert soon(page, lambda: overlaps(page) == []), overlaps(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_names_are_shown_as_text_and_never_run(visit, iris, folder):
    classes = np.array([EVIL, "plain", "</script>"])
    model = ODAClassifier(K_max=6, random_state=0).fit(iris.data[:, :2], classes[iris.target])
    page = explore(
        model, iris.data[:, :2], classes[iris.target], feature_names=[EVIL, EVIL], title=EVIL
    )
    window = visit(page.save(folder / "evil.html"))
    assert window.inner_text("h1") == window.title() == EVIL
    assert EVIL in window.inner_text("#legend")
    window.select_option("#picker", index=1)
    assert window.locator("#card table bdi").first.inner_text() == EVIL
    titles = window.evaluate(
        "[...document.querySelectorAll('#map .xtitle, #map .ytitle')].map(t => t.textContent)"
    )
    assert len(titles) == 2
    for title in titles:
        assert EVIL.startswith(title.rstrip("…")) and len(title) > 20
    window.locator("#map-frame").scroll_into_view_if_needed()
    x, y = marker_centres(window)[0]
    window.mouse.move(x, y)
    window.wait_for_selector("#map .hoverlayer text")
    hovered = window.evaluate("document.querySelector('#map .hoverlayer').textContent")
    names = [f"{name}, codevector"[:30] for name in classes]
    assert any(hovered.startswith(name) for name in names)
    assert window.evaluate("window.hacked") is None
    assert window.locator("#map b, #card img, #legend img").count() == 0


def test_a_page_of_a_path_of_one_feature_in_a_notebook(visit, iris, folder):
    line = iris.data[:, :1]
    path = ODAClustering(2, K_max=8, random_state=0).fit(line).path_
    notebook = folder / "notebook.html"
    inside = explore(path, line)._repr_html_()
    notebook.write_text(f"<!doctype html><html data-ready>{inside}</html>", encoding="utf-8")
    frame = visit(notebook).frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    frame.locator("#slider").press("End")
    K = path[-1].n_codevectors
    assert frame.locator("#f-n_codevectors").inner_text() == str(K)
    assert frame.locator("#map .scatterlayer .trace:first-child path.point").count() == K
