"""Tables that are not in memory: folders of files and datasets of pyarrow."""

from __future__ import annotations

import numpy as np
import peak_memory
import pytest

from annealed import ODAClassifier, ODAClustering, TabularModel
from annealed.tables.files import TableError, datasets, draw, open_table, sampling, stored_table

pa = pytest.importorskip("pyarrow", exc_type=ImportError)
ds = pytest.importorskip("pyarrow.dataset", exc_type=ImportError)
feather = pytest.importorskip("pyarrow.feather", exc_type=ImportError)
parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)

QUICK = ODAClassifier(level="last", fine_tune=None, random_state=0)
FEW = ODAClustering(2, shape="round", gamma=0.5, random_state=0)


def table_of(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    return pa.table(
        {
            "x": 5.0 * kind + rng.normal(size=n),
            "colour": np.array(["red", "blue"])[np.where(rng.random(n) < 0.9, kind, 0)],
            "kind": np.array(["rose", "iris"])[kind],
        }
    )


TABLE = table_of()


@pytest.fixture
def folder(tmp_path):
    """The table in three files of several row groups each."""
    place = tmp_path / "rows"
    place.mkdir()
    for k in range(3):
        parquet.write_table(TABLE.slice(400 * k, 400), place / f"{k}.parquet", row_group_size=64)
    (place / "_SUCCESS").touch()
    return place


def test_a_folder_a_dataset_and_a_table_give_the_same_model(folder):
    whole = TabularModel(QUICK).fit(TABLE, "kind")
    single = folder.with_name("all.parquet")
    parquet.write_table(TABLE, single)
    for stored in (folder, str(folder), single, ds.dataset(folder), ds.dataset(TABLE)):
        model = TabularModel(QUICK).fit(stored, "kind")
        assert model.codevectors_.tobytes() == whole.codevectors_.tobytes()
        assert model.target_name_ == "kind" and not hasattr(model, "labels_")
        for name in ("predict", "predict_proba", "transform", "score_samples"):
            expected = getattr(whole, name)(TABLE)
            np.testing.assert_array_equal(getattr(model, name)(stored), expected)
        assert model.score(stored, "kind") == whole.score(TABLE, "kind") > 0.95
    clusters = TabularModel(FEW).fit(TABLE.drop_columns(["kind"]))
    stored = ds.dataset(TABLE.drop_columns(["kind"]))
    again = TabularModel(FEW).fit(stored)
    assert again.codevectors_.tobytes() == clusters.codevectors_.tobytes()
    assert again.score(stored) == pytest.approx(clusters.score(TABLE.drop_columns(["kind"])))


def test_a_stream_of_a_folder_is_that_of_its_rows(folder):
    whole = TabularModel(QUICK).partial_fit(TABLE, "kind")
    model = TabularModel(QUICK).partial_fit(folder, "kind")
    assert model.codevectors_.tobytes() == whole.codevectors_.tobytes()


def test_folders_called_by_a_value_add_a_column(tmp_path):
    parquet.write_to_dataset(TABLE, tmp_path / "by", partition_cols=["colour"])
    model = TabularModel(QUICK).fit(tmp_path / "by", "kind")
    assert model.feature_names_in_.tolist() == ["x", "colour"]
    assert model.preprocessor_.kinds_ == ("number", "category")
    assert model.score(tmp_path / "by", "kind") > 0.95


def test_a_filtered_dataset_is_read_as_far_as_it_is_left(folder):
    red = ds.dataset(folder).filter(ds.field("colour") == "red")
    assert stored_table(red).survey(["x"]).rows == red.count_rows() < 1200
    assert len(TabularModel(FEW).fit(red, "kind").predict(red)) == red.count_rows()


@pytest.mark.parametrize("form", ["folder", "parquet", "arrow"])
def test_what_holds_no_row_that_is_drawn_is_not_read(folder, form, monkeypatch):
    single = folder.with_name(f"all.{form}")
    if form == "parquet":
        parquet.write_table(TABLE, single, row_group_size=64)
    elif form == "arrow":
        with pa.ipc.new_file(single, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=64)
    file = open_table(folder if form == "folder" else single)
    read, original = [], type(file)._read_part

    def counted(self, part, columns):
        for batch in original(self, part, columns):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(type(file), "_read_part", counted)
    survey = file.survey(["x"])
    some = draw(file, ["x"], survey, most=3, seed=0)
    places = sampling.rows_drawn(1200, 3, 0)
    np.testing.assert_array_equal(some["x"].to_numpy(), TABLE["x"].to_numpy()[places])
    assert sum(read) <= 3 * 64


def test_rows_of_a_large_dataset_are_drawn_by_the_seed(folder, monkeypatch):
    monkeypatch.setattr(datasets, "BATCH_ROWS", 50)
    monkeypatch.setattr(sampling, "MOST_CELLS", 2000)  # 1000 rows, of 1200
    one, same, other = (
        TabularModel(ODAClustering(2, random_state=seed)).fit(folder) for seed in (0, 0, 1)
    )
    assert one.preprocessor_._count[0] == 1000
    # Beside others, when models are merged, they count as what they were drawn from.
    assert one.estimator_._learner.annealer.classes[0].total_weight == pytest.approx(1200)
    assert one.codevectors_.tobytes() == same.codevectors_.tobytes()
    assert one.preprocessor_.mean_[0] != other.preprocessor_.mean_[0]


def test_what_is_no_table_is_said(folder, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.csv").write_text("x\n1\n")
    (tmp_path / "both").mkdir()
    parquet.write_table(TABLE, tmp_path / "both" / "a.parquet")
    feather.write_feather(TABLE, tmp_path / "both" / "b.feather")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_bytes(b"no")
    for name, words in (
        ("texts", r"texts is a folder with a\.csv in it; the files of a folder"),
        ("both", r"a\.parquet and b\.feather in it, which are not of one kind"),
        ("broken", "broken cannot be read"),
    ):
        with pytest.raises(TableError, match=words):
            open_table(tmp_path / name)
    with pytest.raises(ValueError, match="give y by the name of its column"):
        TabularModel(QUICK).fit(folder, np.zeros(1200))
    with pytest.raises(ValueError, match="sample_weight has no rows to go with"):
        TabularModel(QUICK).fit(folder, "kind", sample_weight=np.ones(1200))
    with pytest.raises(TableError, match="no column 'sort'"):
        TabularModel(QUICK).fit(folder, "sort")
    gap = pa.table({"x": [1.0, 2.0], "kind": ["a", None]})
    with pytest.raises(TableError, match="the target 'kind' is missing in 1 of 2 rows"):
        TabularModel(QUICK).fit(ds.dataset(gap), "kind")


def test_a_file_of_another_type_is_named(tmp_path):
    parquet.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"x": ["much", "more"]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b\.parquet"):
        TabularModel(FEW).fit(tmp_path)


PEAK = """
import sys
from peak_memory import peak
from annealed import ODAClustering, TabularModel
from annealed.tables.files import sampling

sampling.MOST_CELLS = 600_000  # 20,000 rows are drawn, not 200,000

def quick():
    return TabularModel(ODAClustering(2, shape="round", gamma=0.5, random_state=0))

small, large = sys.argv[1:]
quick().fit(small).score(small)  # everything that is imported is there by now
before = peak()
model = quick().fit(large)
labels, score = model.predict(large), model.score(large)
print(len(labels), (peak() - before) / 1024)
"""


@pytest.mark.skipif(not peak_memory.KNOWN, reason="only Linux tells")
def test_a_folder_larger_than_the_memory_that_is_used(tmp_path):
    """Of 144 MB of numbers at most 80 MB are in memory at any moment."""
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(30)]
    for place, files in (("small", 1), ("large", 6)):
        (tmp_path / place).mkdir()
        for k in range(files):
            rows = pa.table([*rng.normal(size=(30, 100_000 if files > 1 else 2000))], names=names)
            path = tmp_path / place / f"{k}.parquet"
            parquet.write_table(rows, path, row_group_size=20_000, compression="none",
                                use_dictionary=False)  # fmt: skip
    size = sum(path.stat().st_size for path in (tmp_path / "large").iterdir())
    rows, more = peak_memory.in_a_process(
        "-c", PEAK, tmp_path / "small", tmp_path / "large"
    ).split()
    assert int(rows) == 600_000
    assert size > 140e6 and float(more) < 80, more
