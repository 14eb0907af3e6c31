"""The line of names is read alike in files and in streams."""

from __future__ import annotations

import pytest

from annealed.tables.files.csv_reading import MISSING, decimal_of, read_header
from annealed.tables.files.records import CSVFormat, split_records
from annealed.tables.files.table_file import TableError

pytest.importorskip("pyarrow", exc_type=ImportError)


@pytest.mark.parametrize(
    "start, delimiter, names",
    [
        (b"a,b\n1,2\n", ",", ["a", "b"]),
        (b"\xef\xbb\xbf a ;b\r\n1;2\r\n", ";", ["a", "b"]),
        (b"a\tb,c\td\n", "\t", ["a", "b,c", "d"]),
        (b",b\n1,2\n", ",", ["column 1", "b"]),
        (b'"a\nb",c\n', ",", ["a\nb", "c"]),
    ],
)
def test_names_and_what_separates_them(start, delimiter, names):
    header = read_header(start)
    assert (header.delimiter, header.names) == (delimiter, names)


def test_a_name_that_stands_twice_or_is_in_another_encoding_is_refused():
    with pytest.raises(TableError, match=r"'1' stands over columns 1 and 3.*line of names missing"):
        read_header(b"1,2,1\n")
    with pytest.raises(TableError, match="is not UTF-8: convert the text"):
        read_header("größe,b\n".encode("latin1"))


def test_files_and_streams_read_the_same_cells_as_missing_and_the_same_numbers(tmp_path):
    from annealed.tables.files import open_table

    text = "n;t\n" + "".join(f"{k},5;{cell}\n" for k, cell in enumerate([*MISSING, "word"]))
    path = tmp_path / "t.csv"
    path.write_text(text)
    file = open_table(path)
    kinds = file.survey(["n", "t"]).kinds
    ((_, whole),) = file.batches(["n", "t"], kinds)
    header = read_header(text.encode())
    records, _ = split_records(text.encode(), quotes=True)
    stream = CSVFormat(header.delimiter, header.names)
    rows = stream.table(records.after(1), ["n", "t"], kinds)
    assert decimal_of(";") == stream.decimal == file.decimal == ","
    assert kinds == {"n": "number", "t": "category"}
    assert whole.to_pydict() == rows.to_pydict()
    assert whole["t"].to_pylist() == [None] * len(MISSING) + ["word"]
    assert whole["n"].to_pylist()[1] == 1.5
