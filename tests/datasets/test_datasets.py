"""Data sets: from files, from a stand-in for OpenML, from scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import urllib.error
import urllib.request
from email.message import Message
from urllib.response import addinfourl

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from thoroughness import tries

from annealed import datasets

PIMA = """pregnancies,glucose,blood_pressure,skin_thickness,insulin,bmi,diabetes_pedigree,age,target
6,148,72,35,0,33.6,0.627,50,1
1,85,66,29,0,26.6,0.351,31,0
8,183,64,0,0,23.3,0.672,32,1
"""


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch, tmp_path):
    """No folder, an empty cache of scikit-learn's, and no network unless a test makes one."""
    monkeypatch.delenv("ANNEALED_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit_learn_data"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # scikit-learn waits before it retries
    answer({})
    yield
    urllib.request.install_opener(None)


# -- files -------------------------------------------------------------------------------------


def written(folder, suffix, text=PIMA, stem="pima"):
    path = folder / (stem + suffix)
    if suffix == ".csv":
        path.write_text(text)
    elif suffix == ".csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        # ImportError: a pyarrow newer than NumPy is there but cannot be imported.
        csv = pytest.importorskip("pyarrow.csv", exc_type=ImportError)
        parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)
        parquet.write_table(csv.read_csv(io.BytesIO(text.encode())), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_every_kind_of_file_gives_the_same(tmp_path, suffix):
    path = written(tmp_path, suffix)
    bunch = datasets.load("pima", data_home=tmp_path, verify=False)
    assert bunch.data.dtype == np.float64 and bunch.target.dtype == np.int64
    np.testing.assert_array_equal(bunch.data[0], [6, 148, 72, 35, 0, 33.6, 0.627, 50])
    np.testing.assert_array_equal(bunch.target, [1, 0, 1])
    assert bunch.feature_names == PIMA.splitlines()[0].split(",")[:-1]
    assert bunch.target_names == ["no diabetes", "diabetes"]
    assert str(path) in bunch.source


def test_folder_from_the_environment_and_argument_before_it(monkeypatch, tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir(), other.mkdir()
    written(mine, ".csv"), written(other, ".csv", "\n".join(PIMA.splitlines()[:2]))
    monkeypatch.setenv("ANNEALED_DATA", str(mine))
    assert len(datasets.load("pima").data) == 3
    assert len(datasets.load("pima", data_home=other).data) == 1


def test_columns_are_found_by_name_whatever_their_order_and_spelling(tmp_path):
    text = (
        "Outcome,Age,DiabetesPedigreeFunction,BMI,Insulin,SkinThickness,BloodPressure,Glucose,"
        "Pregnancies,Note\ntested_positive,50,0.627,33.6,0,35,72,148,6,text\n"
    )
    written(tmp_path, ".csv", "\ufeff" + text)
    bunch = datasets.load("pima", data_home=tmp_path)
    np.testing.assert_array_equal(bunch.data, [[6, 148, 72, 35, 0, 33.6, 0.627, 50]])
    assert bunch.target.tolist() == [1]


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "pima.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install pyarrow, or save the file as pima\.csv"):
        datasets.load("pima", data_home=tmp_path)


def test_another_checksum_is_an_error_that_can_be_waived(tmp_path):
    path = written(tmp_path, ".csv.gz")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=rf"pima\.csv\.gz.*{found} instead of 98f0.*verify=False"):
        datasets.load("pima", data_home=tmp_path)
    assert "not checked" in datasets.load("pima", data_home=tmp_path, verify=False).source


@pytest.mark.parametrize(
    "text, message",
    [
        (PIMA.replace("glucose", "sugar"), "pima.csv has no column for glucose; it has pregnan"),
        (PIMA.replace(",50,1", ",50,yes"), "labels 'yes'; known are '0', 'tested_negative'"),
        (PIMA.replace("33.6", ""), "lacks values of bmi in 1 rows"),
        (PIMA.replace("33.6", "much"), "pima.csv, line 2: could not convert .* 'much'"),
        (PIMA.replace(",33.6,0.627,50,1", ""), "pima.csv, line 2: "),
        ("", "pima.csv has no column for pregnancies, "),
    ],
)
def test_a_file_that_is_not_the_set_says_why(tmp_path, text, message):
    written(tmp_path, ".csv", text)
    with pytest.raises(ValueError, match=message):
        datasets.load("pima", data_home=tmp_path)


def test_fewer_rows_than_published_are_called_a_subset(tmp_path):
    header = ["Time", *(f"V{k}" for k in range(1, 29)), "Amount", "Class"]
    rows = [[1000 + r, *range(1, 29), 9.5, f'"{r % 2}"'] for r in range(4)]
    text = "\n".join(",".join(map(str, row)) for row in [header, *rows])
    written(tmp_path, ".csv", text, "creditcard_subset")
    bunch = datasets.load("creditcard", data_home=tmp_path)
    assert bunch.name == "creditcard_subset" and "subset, 4 of the 284,807 rows" in bunch.DESCR
    assert "Time" not in bunch.feature_names
    np.testing.assert_array_equal(bunch.data[0], [*range(1, 29), 9.5])
    assert bunch.target.tolist() == [0, 1, 0, 1]
    written(tmp_path, ".csv", "\n".join(text.splitlines()[:3]), "creditcard")
    assert len(datasets.load("creditcard", data_home=tmp_path).data) == 2  # the whole one is first


# -- OpenML ------------------------------------------------------------------------------------
# The network is replaced at its lowest public place, urllib's opener: everything of scikit-learn's
# runs as ever (requests, checksum, cache, both parsers), and nothing private of it is touched. The
# answers have the form of the real ones, with few rows.


class Answers(urllib.request.HTTPSHandler):
    """Answers requests out of a dict {pattern of the address: text}; all others fail."""

    def __init__(self, answers):
        super().__init__()
        self.answers, self.asked = answers, []

    def https_open(self, request):
        self.asked.append(request.full_url)
        for pattern, text in self.answers.items():
            if re.search(pattern, request.full_url):
                body = io.BytesIO(text.encode())
                response = addinfourl(body, Message(), request.full_url, 200)
                response.msg = "OK"
                return response
        raise urllib.error.URLError("no network in tests")


def answer(answers):
    handler = Answers(answers)
    urllib.request.install_opener(urllib.request.build_opener(handler))
    return handler


def openml(data_id, attributes, rows):
    """OpenML's four answers for a data set whose last attribute is the target."""
    header = [f"@attribute {name} {kind}" for name, kind in attributes.items()]
    arff = "\n".join(["@relation data", *header, "@data", *rows, ""])
    target = list(attributes)[-1]
    features = []
    for index, (name, kind) in enumerate(attributes.items()):
        feature = {"index": str(index), "name": name, "data_type": "numeric"}
        if kind.startswith("{"):
            values = kind.strip("{} ").split(",")
            feature |= {"data_type": "nominal", "nominal_value": [v.strip() for v in values]}
        feature |= {"is_target": str(name == target).lower(), "number_of_missing_values": "0"}
        features.append(feature | {"is_ignore": "false", "is_row_identifier": "false"})
    description = {
        "id": str(data_id), "name": "data", "version": "1", "description": "A stand-in.",
        "format": "ARFF", "file_id": "7", "status": "active", "visibility": "public",
        "url": "https://www.openml.org/data/v1/download/7/data.arff",
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
    }  # fmt: skip
    qualities = [{"name": "NumberOfInstances", "value": f"{len(rows)}.0"}]
    return {
        rf"/data/{data_id}$": json.dumps({"data_set_description": description}),
        rf"/data/features/{data_id}$": json.dumps({"data_features": {"feature": features}}),
        rf"/data/qualities/{data_id}$": json.dumps({"data_qualities": {"quality": qualities}}),
        r"/download/": arff,
    }


def cards(*labels):
    attributes = {f"V{k}": "REAL" for k in range(1, 29)} | {"Amount": "REAL", "Class": "{0,1}"}
    rows = [",".join(map(str, (*range(28), 149.62, label))) for label in labels]
    return openml(1597, attributes, rows)


OPENML = {
    "pima": openml(
        37,
        dict.fromkeys(("preg", "plas", "pres", "skin", "insu", "mass", "pedi", "age"), "real")
        | {"class": "{ tested_negative, tested_positive}"},
        ["6,148,72,35,0,33.6,0.627,50,tested_positive", "1,85,66,29,0,26.6,0.3,31,tested_negative"],
    ),
    "wbcd_original": openml(
        15,
        dict.fromkeys(
            ("Clump_Thickness", "Cell_Size_Uniformity", "Cell_Shape_Uniformity",
             "Marginal_Adhesion", "Single_Epi_Cell_Size", "Bare_Nuclei", "Bland_Chromatin",
             "Normal_Nucleoli", "Mitoses"),
            "integer",
        )
        | {"Class": "{ benign, malignant}"},
        ["8,10,10,8,7,10,9,7,1,malignant", "5,1,1,1,2,?,3,1,1,benign", "5,1,1,1,2,1,3,1,1,benign"],
    ),
    "adult": openml(
        1590,
        {"age": "numeric", "workclass": "{ Private, State-gov }", "fnlwgt": "numeric",
         "education-num": "numeric", "capital-gain": "numeric", "capital-loss": "numeric",
         "hours-per-week": "numeric", "class": "{ >50K, <=50K }"},
        ["44, Private, 160323, 10, 7688, 0, 40, >50K", "18, ?, 103497, 10, 0, 0, 30, <=50K"],
    ),
    "creditcard": cards("1", "0"),
}  # fmt: skip
FIRST_ROW = {
    "pima": [6, 148, 72, 35, 0, 33.6, 0.627, 50],
    "wbcd_original": [8, 10, 10, 8, 7, 10, 9, 7, 1],
    "adult": [44, 160323, 10, 7688, 0, 40],
    "creditcard": [*range(28), 149.62],
}


@pytest.mark.parametrize("pandas", [True, False], ids=["pandas", "no pandas"])
@pytest.mark.parametrize("name", OPENML)
def test_openml_answers_are_read(name, pandas, monkeypatch):
    if pandas:
        pytest.importorskip("pandas")
    else:
        monkeypatch.setattr("annealed.datasets.tables.find_spec", lambda module: None)
        monkeypatch.setitem(sys.modules, "pandas", None)
    handler = answer(OPENML[name])
    bunch = datasets.load(name)
    np.testing.assert_array_equal(bunch.data[0], FIRST_ROW[name])
    assert bunch.target.tolist() == [1, 0]  # a row without bare_nuclei is left out
    assert bunch.data.dtype == np.float64 and bunch.target.dtype == np.int64
    assert len(bunch.feature_names) == bunch.data.shape[1]
    assert bunch.source.startswith("OpenML ")
    asked = len(handler.asked)
    datasets.load(name)
    assert len(handler.asked) == asked  # the second time it comes from scikit-learn's cache


def test_quotes_around_the_labels_of_openml_do_not_matter():
    answer(cards("'1'", "'0'"))
    assert datasets.load("creditcard").target.tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore:A network error occurred")  # scikit-learn's, once a retry
@pytest.mark.parametrize("name", OPENML)
def test_a_set_that_is_nowhere_says_how_to_get_it(name, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load(name, data_home=tmp_path)
    message = str(caught.value)
    assert f"the folder {tmp_path} has none of {name}.csv.gz, {name}.csv" in message
    assert "OpenML did not answer (<urlopen error no network in tests>)" in message
    data_id = re.search(r"/(\d+)\$", next(iter(OPENML[name])).replace("/data", ""))[1]
    assert f"its data set {data_id}," in message
    assert f"load('{name}', as_frame=True).frame.to_csv('{name}.csv', index=False)" in message
    assert "ANNEALED_DATA" in message and "data_home=" in message


def test_no_download_if_not_wanted():
    handler = answer(OPENML["pima"])
    with pytest.raises(FileNotFoundError, match=r"neither data_home= nor .* download_if_missing"):
        datasets.load("pima", download_if_missing=False)
    assert handler.asked == []


@pytest.mark.parametrize("name", OPENML)
def test_the_recipe_of_the_error_works(name, tmp_path):
    pytest.importorskip("pandas")
    answer(OPENML[name])
    fetched = datasets.load(name, as_frame=True)
    fetched.frame.to_csv(tmp_path / f"{name}.csv", index=False)
    bunch = datasets.load(name, data_home=tmp_path, download_if_missing=False)
    np.testing.assert_array_equal(bunch.data, fetched.data)
    np.testing.assert_array_equal(bunch.target, fetched.target)


def test_openml_that_cannot_be_parsed_raises_what_scikit_learn_says(monkeypatch):
    broken = {key: text.replace("@data", "@rows") for key, text in OPENML["pima"].items()}
    answer(broken)
    with pytest.raises(ValueError, match="md5 checksum"), pytest.warns(RuntimeWarning):
        datasets.load("pima")


# -- generated, or from scikit-learn -----------------------------------------------------------


@pytest.mark.parametrize(
    "name, shape, classes",
    [
        ("gaussians", (1500, 2), 2),
        ("moons", (1500, 2), 2),
        ("circles", (1500, 2), 2),
        ("wbcd", (569, 30), 2),
        ("wine", (178, 13), 3),
        ("digits", (1797, 64), 10),
    ],
)
def test_built_in_sets(name, shape, classes):
    bunch = datasets.load(name)
    assert bunch.data.shape == shape and bunch.data.dtype == np.float64
    assert bunch.target.shape == shape[:1] and bunch.target.dtype == np.int64
    assert np.unique(bunch.target).tolist() == list(range(classes))
    assert len(bunch.feature_names) == shape[1] and len(bunch.target_names) == classes
    assert bunch.name == name and bunch.source and bunch.DESCR and bunch.frame is None


@pytest.mark.parametrize("name", ["gaussians", "moons", "circles"])
def test_generated_sets_depend_on_the_seed_alone(name):
    first, again = (datasets.load(name, return_X_y=True) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], datasets.load(name, random_state=1).data)


def test_wbcd_counts_malignant_as_positive():
    bunch = datasets.load("wbcd")
    np.testing.assert_array_equal(bunch.target, load_breast_cancer().target == 0)
    assert bunch.target.sum() == 212 and bunch.target_names[1] == "malignant"


def test_frames():
    pd = pytest.importorskip("pandas")
    bunch = datasets.load("wine", as_frame=True)
    assert isinstance(bunch.data, pd.DataFrame) and isinstance(bunch.target, pd.Series)
    assert list(bunch.frame.columns) == [*bunch.feature_names, "target"]
    X, y = datasets.load("wine", as_frame=True, return_X_y=True)
    assert X.equals(bunch.data) and y.equals(bunch.target)


@pytest.mark.quality
def test_gaussians_are_as_hard_as_the_paper_reports():
    """79.5 % for a linear SVM, 98.7 % for a forest; ours had no part in choosing the mixture."""
    X, y = datasets.load("gaussians", return_X_y=True)
    linear, forest = [], []
    for seed in range(tries(1, 3)):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        svm = make_pipeline(StandardScaler(), LinearSVC())
        linear.append(cross_val_score(svm, X, y, cv=folds).mean())
        trees = RandomForestClassifier(100, random_state=seed)
        forest.append(cross_val_score(trees, X, y, cv=folds).mean())
    assert np.mean(linear) == pytest.approx(0.795, abs=0.03)
    assert np.mean(forest) == pytest.approx(0.987, abs=0.005)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="no data set called 'iris'; there are gaussians, moons"):
        datasets.load("iris")


def test_available_says_what_is_here_and_how_to_get_the_rest(tmp_path):
    path = written(tmp_path, ".csv")
    found = datasets.available(tmp_path)
    assert set(found) >= {"gaussians", "wbcd", "wbcd_original", "pima", "adult", "creditcard"}
    assert found["pima"].present and str(path) in found["pima"].source and not found["pima"].how
    assert found["wbcd"].present
    assert not found["adult"].present and "OpenML 1590" in found["adult"].source
    assert "load('adult', as_frame=True)" in found["adult"].how


# -- a given prevalence ------------------------------------------------------------------------


def test_draws_have_the_prevalence_asked_for():
    y = np.repeat([0, 1], [20_000, 100])
    X = np.arange(len(y), dtype=float)[:, None]
    few, labels = datasets.at_prevalence(X, y)
    assert few.shape == (15_000, 1) and labels.sum() == 26
    np.testing.assert_array_equal(labels, few[:, 0] >= 20_000)  # rows keep their labels
    assert len(np.unique(few)) == 15_000  # each at most once
    assert 0 < labels[:7_500].sum() < 26  # and in random order
    again, _ = datasets.at_prevalence(X, y)
    np.testing.assert_array_equal(few, again)
    assert not np.array_equal(few, datasets.at_prevalence(X, y, random_state=1)[0])


def test_draws_that_cannot_be_made_say_so():
    X, y = np.zeros((100, 1)), np.repeat([0, 1], [90, 10])
    with pytest.raises(ValueError, match="take 20 of class 1, but there are 10"):
        datasets.at_prevalence(X, y, 100, prevalence=0.2)
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        datasets.at_prevalence(X, y, 100, prevalence=2)
    with pytest.raises(ValueError, match="0 and 1 only"):
        datasets.at_prevalence(X, y + 1, 10)


# -- the real files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, file, shape, positive",
    [
        ("pima", "pima.csv.gz", (768, 8), 268),
        ("wbcd_original", "wbcd_original.csv.gz", (683, 9), 239),
        ("adult", "adult.csv.gz", (48_842, 6), 11_687),
        ("creditcard", "creditcard_subset.csv.gz", (33_087, 29), 492),
    ],
)
def test_real_files(data_folder, name, file, shape, positive):
    if not (data_folder / file).is_file():
        pytest.skip(f"{file} is not in {data_folder} (see --data-folder)")
    bunch = datasets.load(name, data_home=data_folder, download_if_missing=False)
    assert bunch.data.shape == shape and bunch.target.sum() == positive
    assert bunch.source.endswith(f"{file} (sha256 as expected)")
    assert np.isfinite(bunch.data).all()
    assert bunch.name == file.removesuffix(".csv.gz")
    assert ("subset" in bunch.DESCR) == ("subset" in file)


def test_real_wbcd_is_that_of_scikit_learn(data_folder):
    file = data_folder / "wbcd_diagnostic.csv.gz"
    if not file.is_file():
        pytest.skip(f"{file.name} is not in {data_folder} (see --data-folder)")
    rows = np.loadtxt(file, delimiter=",", skiprows=1)
    bunch = datasets.load("wbcd")
    np.testing.assert_array_equal(rows[:, -1], bunch.target)
    np.testing.assert_allclose(rows[:, :-1], bunch.data, rtol=1e-12)
