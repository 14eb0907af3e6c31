"""Files of tables: every format, odd files, and errors that name file, row and column."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io

import numpy as np
import peak_memory
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annealed.tables.files import FORMATS, READABLE, TableError, draw, open_table

pa = pytest.importorskip("pyarrow", exc_type=ImportError)
feather = pytest.importorskip("pyarrow.feather", exc_type=ImportError)
parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)

TABLE = pa.table(
    {
        "cm": pa.array([1.5, None, 4.5]),
        "colour": pa.array(["red", None, "blue"]),
        "ok": pa.array([True, False, None]),
        "when": pa.array([0, 86_400_000_000, None], pa.timestamp("us")),
        "n": pa.array([1, 2, 3], pa.int16()),
    }
)
KINDS = {"cm": "number", "colour": "category", "ok": "boolean", "when": "datetime", "n": "number"}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def everything(path):
    """All rows as dicts, after a look through the file."""
    file = open_table(path)
    survey = file.survey(file.names)
    rows = [
        row for batch in file.batches(file.names, survey.kinds) for row in batch.table.to_pylist()
    ]
    assert len(rows) == survey.rows
    return survey.kinds, rows


# -- formats -------------------------------------------------------------------------------------


def as_parquet(path):
    parquet.write_table(TABLE, path)


def as_feather(path):
    feather.write_feather(TABLE, path)


def as_file(path):
    with pa.ipc.new_file(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)


def as_stream(path):
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)


@pytest.mark.parametrize(
    ("name", "save"),
    [("t.parquet", as_parquet), ("t.feather", as_feather), ("t.arrow", as_file),
     ("t.arrows", as_stream), ("t.arrow", as_stream)],
)  # fmt: skip
def test_typed_files_give_back_what_was_written(tmp_path, name, save):
    save(tmp_path / name)
    kinds, rows = everything(tmp_path / name)
    assert kinds == KINDS
    assert (
        rows
        == TABLE.set_column(4, "n", TABLE["n"].cast(pa.float64()))
        .set_column(2, "ok", TABLE["ok"].cast(pa.float64()))
        .to_pylist()
    )


def test_a_matrix_of_numpy_is_a_table(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    X[1, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    kinds, rows = everything(tmp_path / "x.npy")
    assert kinds == {"x0": "number", "x1": "number"}
    assert rows == [{"x0": 0, "x1": 1}, {"x0": 2, "x1": None}, {"x0": 4, "x1": 5}]


def test_structured_and_big_endian_arrays_are_tables(tmp_path):
    array = np.array(
        [(1, "a", b"b"), (2, "ü", b"")], dtype=[("n", ">i4"), ("t", "U2"), ("s", "S2")]
    )
    np.save(tmp_path / "x.npy", array)
    kinds, rows = everything(tmp_path / "x.npy")
    assert kinds == {"n": "number", "t": "category", "s": "category"}
    assert rows == [{"n": 1, "t": "a", "s": "b"}, {"n": 2, "t": "ü", "s": ""}]


def test_an_archive_of_arrays_is_a_table(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(2), y=np.array([3, 4]))
    np.savez_compressed(tmp_path / "z.npz", X=np.eye(2), y=np.array([3, 4]))
    kinds, rows = everything(tmp_path / "x.npz")
    assert rows == [{"x0": 1, "x1": 0, "y": 3}, {"x0": 0, "x1": 1, "y": 4}]
    assert everything(tmp_path / "z.npz") == (kinds, rows)


CSV = "cm,colour\n1.5,red\n,\n4.5,blue\n"


@pytest.mark.parametrize(
    "content",
    [CSV, "\ufeff" + CSV, CSV.replace("\n", "\r\n"), CSV.replace(",", ";").replace(".", ","),
     CSV.rstrip("\n"), CSV.replace("colour", '"colour"').replace("red", '"red"'),
     CSV.replace("cm,", " cm, ")],
    ids=["plain", "BOM", "CRLF", "semicolons", "no last newline", "quotes", "spaces in names"],
)  # fmt: skip
def test_csv_as_different_programs_write_it(tmp_path, content):
    expected = {"cm": "number", "colour": "category"}, [
        {"cm": 1.5, "colour": "red"}, {"cm": None, "colour": None}, {"cm": 4.5, "colour": "blue"}
    ]  # fmt: skip
    assert everything(write(tmp_path, "t.csv", content)) == expected
    assert everything(write(tmp_path, "t.csv.gz", gzip.compress(content.encode()))) == expected


def test_tabs_separate_cells_of_a_tsv_file(tmp_path):
    assert everything(write(tmp_path, "t.tsv", "a, b\tc\n1\t2\n"))[1] == [{"a, b": 1, "c": 2}]


def test_cells_may_hold_newlines_commas_and_quotes(tmp_path):
    text = 'two\nlines, "quoted"'
    content = 'a,b\n1,"' + text.replace('"', '""') + '"\n2,x\n'
    assert everything(write(tmp_path, "t.csv", content))[1][0]["b"] == text


@pytest.mark.parametrize("cell", ["", "NA", "N/A", "NaN", "null", "?"])
def test_cells_that_count_as_missing(tmp_path, cell):
    kinds, rows = everything(write(tmp_path, "t.csv", f"a,b\n1,x\n{cell},{cell}\n2,y\n"))
    assert kinds == {"a": "number", "b": "category"}
    assert rows[1] == {"a": None, "b": None}


def test_times_are_recognised(tmp_path):
    content = (
        "t,u\n2024-01-01,2024-01-01T12:00:00+02:00\n2024-01-02 06:30:00,2024-01-01T10:00:00Z\n"
    )
    kinds, rows = everything(write(tmp_path, "t.csv", content))
    assert kinds == {"t": "datetime", "u": "datetime"}
    assert rows[0]["u"] == rows[1]["u"]
    assert (rows[1]["t"] - rows[0]["t"]).total_seconds() == 30.5 * 3600


def test_a_column_without_a_cell_is_empty(tmp_path):
    assert everything(write(tmp_path, "t.csv", "a,b\n1,\n2,\n"))[0] == {"a": "number", "b": "empty"}


def test_a_text_after_many_numbers_is_not_overlooked(tmp_path):
    rows = "".join(f"{k},x\n" for k in range(600_000))  # more than one block
    path = write(tmp_path, "t.csv", "n,t\n" + rows + "12 cm,x\n")
    with pytest.raises(
        TableError, match=r"t\.csv, row 600001, column 'n': '12 cm' is not a number"
    ):
        everything(path)


def test_few_different_cells_are_categories_even_if_most_are_numbers(tmp_path):
    content = "n\n" + "0\n1\n2\n" * 20 + "3+\n"
    assert everything(write(tmp_path, "t.csv", content))[0] == {"n": "category"}


def test_numbers_and_texts_in_one_column_are_texts(tmp_path):
    kinds, rows = everything(write(tmp_path, "t.csv", "a\n1\nlow\n2\nhigh\n"))
    assert kinds == {"a": "category"} and rows[0] == {"a": "1"}


def test_kinds_can_be_declared(tmp_path):
    file = open_table(write(tmp_path, "t.csv", "zip,x\n1010,1\n0800,2\n"))
    survey = file.survey(file.names, {"zip": "category"})
    assert survey.kinds == {"zip": "category", "x": "number"}
    [batch] = file.batches(["zip"], survey.kinds)
    assert batch.table.to_pylist() == [{"zip": "1010"}, {"zip": "0800"}]


cells = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    columns=st.lists(
        st.tuples(st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=9)),
        min_size=1, max_size=4, unique=True,
    ),
    data=st.data(),
)  # fmt: skip
def test_what_pythons_writer_writes_is_read(tmp_path, columns, data):
    """Texts come back as they were, numbers as the same floats, wherever they are."""
    names = [name for (name,) in columns]
    rows = data.draw(st.lists(st.tuples(*[cells for _ in names]), min_size=1, max_size=8))
    numbers = data.draw(
        st.lists(st.floats(-1e150, 1e150), min_size=len(rows),
                 max_size=len(rows))
    )  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow([*names, "the number"])
    writer.writerows([*row, x] for row, x in zip(rows, numbers, strict=True))
    file = open_table(write(tmp_path, "t.csv", out.getvalue()))
    assert file.names == [*names, "the number"]
    kinds = dict.fromkeys(names, "category") | {"the number": "number"}
    [batch] = file.batches(file.names, kinds)
    missing = {"NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "?", None}
    for found, row, x in zip(batch.table.to_pylist(), rows, numbers, strict=True):
        assert found["the number"] == x
        for name, cell in zip(names, row, strict=True):
            assert found[name] == (None if cell in missing else cell)


# -- odd and broken files ------------------------------------------------------------------------


# Without its time: cases must have the same names in every process that runs tests.
CUT_SHORT = gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "\n\n", "t.csv is empty"),
        ("t.csv", "a,b\n1,2\n3\n", "t.csv, row 2: 1 cell where the line of names has 2: '3'"),
        ("t.csv", "a,b\n1,2\n\n3,4,5\n", "t.csv, row 2: 3 cells where the line of names has 2"),
        ("t.csv", "a,b,a\n1,2,3\n", "t.csv: the name 'a' stands over columns 1 and 3"),
        ("t.csv", "1,2,1\n1,2,3\n", "is the line of names missing"),
        ("t.csv", b"a,b\n1,x\n2,caf\xe9\n", r"t.csv, row 2, column 'b': b'caf\\xe9' is not UTF-8"),
        ("t.csv", b"a,gr\xf6\xdfe\n1,x\n", r"t.csv: .* b'gr\\xf6\\xdfe' is not UTF-8: .*iconv"),
        ("t.csv", "a,b\n".encode("utf-16"), "t.csv is in UTF-16: save it as UTF-8"),
        ("t.csv", b"PK\0\0", "t.csv is not a text file"),
        ("t.csv", "a,b\n1,2\n2,inf\n", "t.csv, row 2, column 'b': inf is not a finite number"),
        ("t.csv", "a,b\n1,2\n-1e200,3\n", "t.csv, row 2, column 'a': -1e.200 is too large"),
        ("t.csv", "a\n" + '"x' + "y" * (3 << 20), "longer than 1 MB; is a quotation mark left"),
        ("t.csv.gz", b"a,b\n1,2\n", "t.csv.gz cannot be decompressed"),
        ("t.csv.gz", CUT_SHORT, "cannot be decompressed"),
        ("t.parquet", b"nonsense", "t.parquet is not a Parquet file"),
        ("t.arrow", b"nonsense", "t.arrow is not an Arrow file"),
        ("t.arrow", b"ARROW1nonsense", "t.arrow is not an Arrow file"),
        ("t.feather", b"FEA1nonsense", "of Feather's first version"),
        ("t.npy", b"nonsense", "t.npy is not a NumPy file"),
        ("t.npz", b"PK\x03\x04\x14\x00nonsense", "t.npz cannot be read"),
        ("t.txt", "a,b\n1,2\n", "cannot tell what kind of file this is; its name must end in"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, name, content, words):
    with pytest.raises(TableError, match=words):
        everything(write(tmp_path, name, content))


def test_errors_of_arrays(tmp_path):
    def refused(words, **arrays):
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(TableError, match=words):
            everything(tmp_path / "x.npz")

    refused("3 dimensions is no table", a=np.zeros((2, 2, 2)))
    refused("different numbers of rows", a=np.zeros(2), b=np.zeros(3))
    refused("'a' holds Python objects", a=np.array([{}, {}]))
    refused("type complex128 are neither", a=np.array([1j]), b=np.zeros(1))
    refused("two arrays give a column 'x0'", X=np.eye(2), x0=np.zeros(2))
    refused("holds no arrays")
    np.save(tmp_path / "x.npy", np.array(["a", 1], dtype=object))
    with pytest.raises(TableError, match="it holds Python objects"):
        everything(tmp_path / "x.npy")


def test_a_file_that_is_not_there(tmp_path):
    for name in ("t.csv", "t.parquet", "t.npy", "t"):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            open_table(tmp_path / name)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(TableError, match="is a folder without any files"):
        open_table(tmp_path / "d.csv")


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    assert everything(write(tmp_path, "t.csv", "a,b\n")) == ({"a": "empty", "b": "empty"}, [])


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    file = open_table(write(tmp_path, "t.csv", CSV))
    with pytest.raises(TableError, match=r"no column 'size'; its columns are 'cm', 'colour'"):
        list(file.batches(["size"]))


def test_columns_of_lists_are_refused_only_if_wanted(tmp_path):
    parquet.write_table(pa.table({"a": [1], "l": [[1, 2]]}), tmp_path / "t.parquet")
    file = open_table(tmp_path / "t.parquet")
    assert file.survey(["a"]).kinds == {"a": "number"}
    with pytest.raises(TableError, match="column 'l': values of type list"):
        file.survey(["l"])


def test_a_cell_of_another_kind_than_wanted_is_named(tmp_path):
    file = open_table(write(tmp_path, "t.csv", "a,t\n1,2024-01-01\nabc,soon\n"))
    with pytest.raises(TableError, match=r"t\.csv, row 2, column 'a': 'abc' is not a number"):
        list(file.batches(["a"], {"a": "number"}))
    with pytest.raises(TableError, match=r"row 2, column 't': 'soon' is not a time"):
        list(file.batches(["t"], {"t": "datetime"}))
    parquet.write_table(pa.table({"a": ["1", " 2", "x"]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"t\.parquet, row 3, column 'a': 'x' is not a number"):
        list(open_table(tmp_path / "t.parquet").batches(["a"], {"a": "number"}))


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path, "t.csv", CSV)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs pyarrow, .*pip install 'annealed\[cli\]'"):
        open_table(path)


# Other names for formats that are named.
ALSO_READ = (".ipc", ".arrows", ".ndjson", ".json")


def test_every_format_is_in_the_list_of_what_can_be_read():
    assert all(end in READABLE for end in FORMATS if end not in ALSO_READ)


# -- large files ---------------------------------------------------------------------------------


def test_rows_are_drawn_without_replacement_over_the_whole_file(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(200_000.0)[:, None])
    file = open_table(tmp_path / "x.npy")
    survey, told = file.survey(["x0"]), []
    table = draw(file, ["x0"], survey, most=5000, seed=0, progress=told.append)
    rows = table["x0"].to_numpy()
    assert len(rows) == 5000 and (np.diff(rows) > 0).all()
    # A uniform sample: the mean of 5000 of 200,000 has a standard error of 806.
    assert abs(rows.mean() - 100_000) < 4 * 806
    assert told[-1] == 200_000
    again = draw(file, ["x0"], survey, most=5000, seed=0)
    assert again.equals(table)
    assert draw(file, ["x0"], survey, most=200_000, seed=0).num_rows == 200_000


SCRIPT = """
import sys
from peak_memory import peak
from annealed.tables.files import csv_file, draw, open_table
csv_file.BLOCK = 1 << 18  # Arrow reads 8 MB of CSV ahead, not 32
for path in sys.argv[1:]:
    file = open_table(path)
    survey = file.survey(file.names)
    draw(file, file.names, survey, most=1000, seed=0)
    print(survey.rows, peak())
"""


@pytest.mark.skipif(not peak_memory.KNOWN, reason="only Linux tells")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """The peak after three times the rows (some 20 MB of CSV more) is at most 10 MB higher."""
    from pyarrow.csv import CSVWriter

    # Every block is different: a file that compresses well would hide what is kept of it.
    rng, paths = np.random.default_rng(0), []
    blocks = [rng.normal(size=(20_000, 12)).round(6) for _ in range(12)]
    names = [*(f"x{k}" for k in range(12)), "t"]
    tables = [pa.table([*block.T, ["some text"] * 20_000], names=names) for block in blocks]
    for writer_of, end in ((parquet.ParquetWriter, "parquet"), (CSVWriter, "csv")):
        for repeats in (4, 12):
            paths.append(tmp_path / f"{repeats}.{end}")
            with writer_of(paths[-1], tables[0].schema) as writer:
                for table in tables[:repeats]:
                    writer.write_table(table)
    told = peak_memory.in_a_process("-c", SCRIPT, *paths)
    rows, kilobytes = zip(*(map(int, line.split()) for line in told.splitlines()), strict=True)
    assert rows == (80_000, 240_000) * 2
    assert kilobytes[1] < kilobytes[0] + 10 * 1024
    assert kilobytes[3] < kilobytes[2] + 10 * 1024, kilobytes


# -- JSON lines ----------------------------------------------------------------------------------


LINES = """{"cm": 1.5, "colour": "red", "ok": true, "n": 1}

{"colour": null, "cm": null, "n": 2, "ok": false, "late": "x"}
{"n": "three", "cm": 4, "colour": "blue"}
"""


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz"])
def test_json_lines_are_a_table(tmp_path, name):
    data = LINES.encode()
    kinds, rows = everything(write(tmp_path, name, gzip.compress(data) if "gz" in name else data))
    assert kinds == {
        "cm": "number", "colour": "category", "ok": "boolean", "n": "category", "late": "category",
    }  # fmt: skip
    assert rows == [
        {"cm": 1.5, "colour": "red", "ok": 1.0, "n": "1", "late": None},
        {"cm": None, "colour": None, "ok": 0.0, "n": "2", "late": "x"},
        {"cm": 4.0, "colour": "blue", "ok": None, "n": "three", "late": None},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": ', "t.jsonl, line 2 is not JSON"),
        ('[{"a": 1}]', "one array of JSON; write each object on a line"),
        ('{"a": 1}\n7\n', "line 2 is not a JSON object: .*7"),
        ('{"a": 1}\n{"a": [1, 2]}', "column 'a': a cell is a list"),
        (b'{"a": "\xff"}', "line 1 is not UTF-8"),
        ('{"a": 1}\n{"a": 1' + 400 * "0" + "}", "row 2, column 'a': inf is not a finite number"),
    ],
)
def test_what_is_wrong_with_json_lines_is_named(tmp_path, text, message):
    with pytest.raises(TableError, match=message):
        everything(write(tmp_path, "t.jsonl", text))
