"""The command line, and the paper's figures and table from `annealed reproduce --quick`."""

from __future__ import annotations

import csv
import json
import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from thoroughness import tries

from annealed.__main__ import main
from annealed.experiments.configuration import SettingsError

pytest.importorskip("typer", exc_type=ImportError)
pytest.importorskip("rich", exc_type=ImportError)
pytest.importorskip("matplotlib", exc_type=ImportError)

FIGURES = ("fig1a", "fig1b", "fig1c", "fig1d", "fig2", "fig3", "fig4")
NUMBERS = ("fig1", "fig2", "fig2_equal_k", "fig3", "fig4", "table1", "checks")
# Sets that are neither generated nor scikit-learn's.
STORED = {"pima": "pima", "adult": "adult", "creditcard": "creditcard*"}


# What is changed about the quick run for every day: fewer sets, smaller references. A thorough
# run is the quick run as it is.
SMALLER = {
    "fig1": "[quick]\ngrid = 60\n",
    "fig2": """
        sets = ["gaussians", "adult"]
        [quick]
        oda_repeats = 2
        adult_rows = 600
        K_max = 8
        da_tol = 1e-4
    """,
    "fig3": """
        sets = ["gaussians", "creditcard"]
        creditcard_rows = 4000
        [quick]
        nn_passes = 30
        rf_trees = 10
    """,
    "fig4": "[quick]\nK_max = 8\nda_tol = 1e-4\nnn_passes = 30\nrf_trees = 10\n",
    "table1": """
        sets = ["gaussians", "wbcd"]
        folds = 3
        [quick]
        nn_passes = 30
        rf_trees = 10
    """,
}
# The sets of which numbers are compared with bars; a few hundred rows of the others are too few.
QUANTISED = tries(["gaussians"], ["gaussians", "wbcd", "pima", "adult"])
CLASSIFIED = tries(["gaussians"], ["gaussians", "wbcd", "pima", "creditcard"])
TABULATED = tries(["gaussians", "wbcd"], ["gaussians", "wbcd", "pima", "creditcard"])
AS_SHIPPED = pytest.mark.skipif(
    tries(True, False), reason="of the quick run as it is: HYPOTHESIS_PROFILE=thorough"
)
RUN = tries({"gaussians", "wbcd", "adult", "creditcard"}, {*QUANTISED, *CLASSIFIED})


class Done(NamedTuple):
    """What a process would have left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def annealed(monkeypatch, capsys):
    """The command within this process, which spares the seconds that imports take."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annealed", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        return Done(exit.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Neither data nor cache nor network."""
    monkeypatch.delenv("ANNEALED_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # scikit-learn waits before it retries


# -- the quick run, once for all tests -----------------------------------------------------------


@pytest.fixture(scope="session")
def quick(tmp_path_factory, data_folder):
    """Folder of the results, and beside them what the command printed."""
    folder = tmp_path_factory.mktemp("reproduced")
    home = data_folder if data_folder.is_dir() else tmp_path_factory.mktemp("no_data")
    arguments = ["reproduce", "--quick", "--out", folder, "--data-home", home]
    settings = tmp_path_factory.mktemp("settings")
    for name, text in tries(SMALLER, {}).items():
        (settings / f"{name}.toml").write_text(text)
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(sys, "argv", ["annealed", *map(str, arguments), "--settings", str(settings)])
        with pytest.raises(SystemExit) as exit:
            main()
    assert not exit.value.code
    (folder / "out.txt").write_text(out.getvalue())
    return folder


def rows(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def present(data_folder, name):
    return name not in STORED or any(Path(data_folder).glob(f"{STORED[name]}.*"))


def needs(data_folder, name):
    if not present(data_folder, name):
        pytest.skip(f"the data set {name} is not in {data_folder}; the page says so too")


@pytest.fixture(scope="session")
def table1(quick):
    return {
        (row["set"], row["metric"], row["model"], row["scaling"]): float(row["mean"])
        for row in rows(quick, "table1")
    }


@pytest.mark.quality
def test_every_file_is_there(quick):
    for stem in FIGURES:
        assert (quick / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (quick / f"{stem}.svg").read_text()
    for name in NUMBERS:
        assert rows(quick, name), f"{name}.csv is empty"
    page = (quick / "results.html").read_text()
    assert page.count("data:image/png;base64,") == len(FIGURES)
    assert not re.search(r'(src|href)="(?!data:|#)', page), "the page must stand by itself"
    text = (quick / "results.md").read_text()
    assert all(f"({stem}.png)" in text for stem in FIGURES)


@pytest.mark.quality
def test_sets_that_are_absent_are_named(quick, data_folder):
    text = (quick / "results.md").read_text()
    out = (quick / "out.txt").read_text()
    for name in RUN & STORED.keys():
        absent = not present(data_folder, name)
        assert (f"NOT MEASURED: {name}" in text) == absent
        assert (f"not measured: {name}" in out) == absent


@pytest.mark.quality
def test_the_page_hides_nothing(quick):
    """Every claim stands on the page, met or not; what is not met comes with a reason."""
    text = (quick / "results.md").read_text()
    for check in rows(quick, "checks"):
        assert check["claim"] in text and check["met"] in ("yes", "no")
        assert check["met"] == "yes" or check["reason"], check["claim"]


OURS = {"paper": ("ODA, paper's settings", "raw"), "plain": ("ODA, no fine-tuning", "standardised"),
        "full": ("ODA, full", "standardised")}  # fmt: skip


ACCURACIES = (
    # The rule that knows the mixture reaches 98.9; its standard deviation on 1500 samples is
    # 0.3. Above it is luck, and more than 1.5 below it would be a fault.
    ("gaussians", OURS["plain"], 97.4, 99.5),
    ("gaussians", OURS["full"], 97.9, 99.5),
    ("gaussians", ("RF", "raw"), 97.9, 99.5),
    # The mixture was made so that a line gets 79.5 +- 3.
    ("gaussians", ("SVM", "standardised"), 76.5, 82.5),
    # One set of five folds has a standard error of 0.7 to 0.9 on WBCD and 1.5 on PIMA: the
    # bars of the issue, which are of means over five repeats, less two of them ...
    ("wbcd", OURS["plain"], 90.7 + 1.5, 99.0),
    ("wbcd", OURS["full"], 94.6, 99.5),
    ("pima", OURS["plain"], 70.5 - 3.0, 79.0),
    ("pima", OURS["full"], 76.3 - 3.0, 81.0),
    # ... and what the same data gave others many times.
    ("wbcd", ("SVM", "standardised"), 95.5, 99.0),
    ("pima", ("SVM", "standardised"), 75.0, 80.0),
    # The paper reports 90.7; levels that end at the first small step scatter widely.
    ("wbcd", OURS["paper"], 83.0, 96.0),
)


@pytest.mark.quality
@pytest.mark.parametrize(
    "name, model, low, high", [case for case in ACCURACIES if case[0] in TABULATED]
)
def test_accuracies(table1, data_folder, name, model, low, high):
    needs(data_folder, name)
    assert low <= table1[(name, "accuracy", *model)] <= high


@AS_SHIPPED
@pytest.mark.quality
def test_the_papers_svm_has_not_converged(table1, data_folder):
    """On raw features it stays far below its standardised self, as in the paper (62.9 on PIMA)."""
    needs(data_folder, "pima")
    raw, scaled = (table1[("pima", "accuracy", "SVM", s)] for s in ("raw", "standardised"))
    assert raw < scaled - 4


@AS_SHIPPED
@pytest.mark.quality
def test_fraud(table1, data_folder):
    needs(data_folder, "creditcard")
    full = {m: table1[("creditcard", m, *OURS["full"])] for m in ("F1", "weighted F1")}
    # 26 frauds, of which every model finds most: F1 between 0.5 and 0.9, one fraud is worth 0.03.
    assert 45 <= full["F1"] <= 92
    # The legitimate rows are 99.8 %: whoever finds any fraud is above that.
    assert full["weighted F1"] > 99.6
    # Without fine-tuning 20 frauds make a poor density (docs of the page).
    assert table1[("creditcard", "F1", *OURS["plain"])] < full["F1"]


@pytest.mark.quality
def test_evolution(quick):
    found = rows(quick, "fig1")
    for panel in "abc":
        own = [row for row in found if row["panel"] == panel]
        T, K = ([float(row[name]) for row in own] for name in ("T", "K"))
        assert T == sorted(T, reverse=True) and K == sorted(K)
        # The classes do not overlap (a, b), or by 1.1 % (c); one codevector each cannot part them.
        assert float(own[-1]["accuracy"]) > 97 and float(own[0]["accuracy"]) < 90
    far = {row["algorithm"]: row for row in found if row["panel"] == "d"}
    assert float(far["ODA"]["accuracy"]) > 95
    # Who is never the nearest never moves: at most one or two of sixteen come in.
    assert int(far["sVQ"]["codevectors in the data"]) <= 2
    assert int(far["LVQ"]["codevectors in the data"]) <= 4


def equal_k(quick, name, reading):
    """By K: ratios of distortions and of samples, each in order over the seeds."""
    found = {}
    for row in rows(quick, "fig2_equal_k"):
        if (row["set"], row["reading"]) == (name, reading):
            of_K = found.setdefault(int(row["K"]), ([], []))
            for ratios, what in zip(of_K, ("distortions", "samples"), strict=True):
                ratios.append(float(row[f"ratio of {what}"]))
    return {K: tuple(map(sorted, of_K)) for K, of_K in sorted(found.items())}


@pytest.mark.quality
@pytest.mark.parametrize("name", QUANTISED)
def test_distortion_as_annealed(quick, data_folder, name):
    needs(data_folder, name)
    of_largest = list(equal_k(quick, name, "as annealed").values())[-1]
    ratio, samples = (ratios[(len(ratios) - 1) // 2] for ratios in of_largest)
    # Measured 0.56 to 1.03; seeds differ by up to 0.3 on the Gaussians, where neither K = 6 nor
    # K = 19 of ten groups persists. Below 1 ODA is colder than DA (the page says why).
    assert 0.4 < ratio < 1.15
    # Measured 0.004 to 0.02: DA shows all rows some thousand times.
    assert samples < 0.1


@pytest.mark.quality
@pytest.mark.parametrize("name", QUANTISED)
def test_distortion_at_zero_temperature(quick, data_folder, name):
    needs(data_folder, name)
    pairs = equal_k(quick, name, "at T = 0")
    assert list(pairs) == list(equal_k(quick, name, "as annealed")), "K of one are K of the other"
    for ratio, samples in pairs.values():
        # The bar is 1.02 for medians over seeds; measured 0.90 to 1.017 with one seed, and to 1.02
        # with others. Ours cuts a deeper tree, so it may lie below, but both end in hard
        # clusterings of one K, which differ by a fifth at most.
        assert 0.8 < ratio[0] < 1.04
        # Measured 0.03 to 0.13: the quick run's DA settles a hundred times less exactly and so
        # observes a third to a tenth of what the full run's does, whose bar is a tenth; with
        # fewer codevectors and ten times less exactly 0.28.
        assert samples[0] < tries(0.5, 0.25)


@pytest.mark.quality
@pytest.mark.parametrize("name", QUANTISED)
def test_curves_of_distortion(quick, data_folder, name):
    """Every curve of Fig. 2 begins with the variance and ends far below it."""
    needs(data_folder, name)
    found = [row for row in rows(quick, "fig2") if row["set"] == name]
    d = {"gaussians": 2, "wbcd": 30, "pima": 8, "adult": 6}[name]
    last, observed = {}, {}
    for algorithm in ("ODA", "DA", "k-means", "sVQ"):
        own = [row for row in found if row["algorithm"] == algorithm]
        samples = [int(row["samples"]) for row in own]
        assert samples == sorted(samples) and int(own[0]["K"]) == 1
        # One codevector at the mean of standardised features has a distortion of d; ODA's first
        # level sits at an average of a few hundred samples instead.
        assert float(own[0]["distortion"]) == pytest.approx(d, rel=0.1)
        last[algorithm], observed[algorithm] = float(own[-1]["distortion"]), samples[-1]
    # With some twenty codevectors, measured: 0.04 d (Gaussians) to 0.6 d (Adult's DA, whose
    # codevectors sit on outliers).
    assert max(last.values()) < 0.65 * d
    # The paper's point: who learns sample by sample needs far fewer. Measured: 50 to 200 times
    # fewer than DA; than k-means at least twice, although ODA goes to twice as many codevectors.
    few = max(observed["ODA"], observed["sVQ"])
    assert 10 * few < observed["DA"] and few < observed["k-means"]


@pytest.mark.quality
@pytest.mark.parametrize("name", CLASSIFIED)
def test_course_of_classification(quick, data_folder, name):
    needs(data_folder, name)
    found = [row for row in rows(quick, "fig3") if row["set"] == name]
    levels = [row for row in found if row["model"] == "ODA, as annealed"]
    samples = [int(row["samples"]) for row in levels]
    assert samples == sorted(samples) and int(levels[0]["K"]) == 2
    (end,) = (float(row["score"]) for row in found if row["model"] == "ODA, full")
    # One random test: 300, 114, 154 samples, or five frauds. Means less three standard errors.
    assert end > {"gaussians": 96.5, "wbcd": 91.0, "pima": 67.0, "creditcard": 30.0}[name]
    scores = {row["model"]: float(row["score"]) for row in found}
    # References of the same test, likewise; a line gets 79.5 +- 3 of the Gaussians.
    lines = {"gaussians": (72, 87), "wbcd": (91, 100), "pima": (67, 88), "creditcard": (30, 100)}
    low, high = lines[name]
    assert low < scores["SVM"] <= high
    lowest = {"gaussians": 96.0, "wbcd": 89.0, "pima": 66.0, "creditcard": 20.0}[name]
    assert min(scores["NN"], scores["RF"]) > lowest
    # One codevector for each class is no classifier yet; some later level is a better one, by
    # more than 10 points where the classes are mixtures and by 3 on WBCD, which a line parts.
    course = [float(row["score"]) for row in levels]
    assert max(course) > course[0] + (3 if name == "wbcd" else 10)


@pytest.mark.quality
def test_everyone_is_timed_three_times(quick):
    """Who is faster is said, and checked, on the page itself: it depends on the machine."""
    seconds = {}
    for row in rows(quick, "fig4"):
        if row["panel"].startswith("clustering"):
            seconds.setdefault(row["algorithm"], []).append(float(row["seconds"]))
    assert seconds.keys() == {"ODA", "DA", "k-means", "sVQ"}
    assert {len(of_repeats) for of_repeats in seconds.values()} == {3}
    assert min(map(min, seconds.values())) > 0


# -- changed settings, absent data, mistakes -----------------------------------------------------


def test_settings_of_the_readers_own(annealed, tmp_path):
    (tmp_path / "fig1.toml").write_text('sets = ["moons", "moons", "moons"]\n[quick]\ngrid = 20\n')
    done = annealed("reproduce", "fig1", "--quick", "--settings", tmp_path, "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.splitlines()[-1].endswith("results.html")
    assert {row["set"] for row in rows(tmp_path / "o", "fig1") if row["panel"] in "abc"} == {
        "moons"
    }


@pytest.mark.filterwarnings("ignore:A network error occurred")  # scikit-learn's, once a retry
def test_an_absent_set_is_named_on_the_page(annealed, tmp_path, offline):
    (tmp_path / "fig2.toml").write_text('sets = ["pima"]\n')
    out = tmp_path / "out"
    done = annealed("reproduce", "fig2", "--quick", "--settings", tmp_path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "not measured: pima is not at hand" in done.stdout
    for page in ("results.md", "results.html"):
        text = (out / page).read_text()
        assert "NOT MEASURED: pima." in text and "ANNEALED_DATA" in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["reproduce", "fig9"], "'fig9' is not one of 'fig1', 'fig2'"),
        (["reproduce", "--nope"], "No such option: --nope"),
        (["nope"], "No such command 'nope'"),
        (["reproduce", "fig1", "--settings", "nowhere"], "settings nowhere does not exist"),
        (["datasets", "--data-home", "nowhere"], "the folder nowhere does not exist"),
    ],
)
def test_mistakes_take_one_line(annealed, arguments, message):
    done = annealed(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("annealed: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        ("grids = 3\n", "sets 'grids'; known are sets, codevectors,"),
        ("grid = 'fine'\n", "grid = 'fine' is not of the kind int"),
        ("grid =\n", "fig1.toml is not a TOML file"),
    ],
)
def test_a_file_of_settings_that_is_wrong(annealed, tmp_path, text, message):
    (tmp_path / "fig1.toml").write_text(text)
    done = annealed("reproduce", "fig1", "--settings", tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_traceback_only_for_debugging(monkeypatch):
    settings = ["--settings", "nowhere", "--debug"]
    monkeypatch.setattr(sys, "argv", ["annealed", "reproduce", "fig1", *settings])
    with pytest.raises(SettingsError, match="nowhere does not exist"):
        main()


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(module, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("annealed.cli", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("annealed.cli", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as exit:
        main()
    assert f"needs {module}" in exit.value.code
    assert "pip install 'annealed[cli]'" in exit.value.code and "\n" not in exit.value.code


def test_without_matplotlib_the_command_says_what_to_install(annealed, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = annealed("reproduce", "fig1", "--quick", "--out", tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "pip install 'annealed[plot]'" in done.stderr


def test_help_lists_the_commands(annealed):
    for arguments in ([], ["--help"]):
        done = annealed(*arguments)
        assert done.returncode == 0 and "reproduce" in done.stdout and "datasets" in done.stdout


# -- annealed datasets ---------------------------------------------------------------------------


def test_datasets_says_what_is_here_and_how_to_get_the_rest(
    annealed, tmp_path, offline, monkeypatch
):
    (tmp_path / "pima.csv").write_text("anything")
    monkeypatch.setenv("COLUMNS", "500")
    done = annealed("datasets", "--data-home", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.split()}
    assert lines["gaussians"][1] == "yes" and lines["adult"][1] == "no"
    assert lines["pima"][1] == "yes" and lines["pima"][-1].endswith("pima.csv")
    assert "load('adult', as_frame=True)" in done.stdout


def test_datasets_as_json(annealed, offline):
    done = annealed("datasets", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert found["wbcd"]["present"] and not found["creditcard"]["present"]
    assert "OpenML 1597" in found["creditcard"]["source"] and found["creditcard"]["how"]
