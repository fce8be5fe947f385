"""Tables as people write them: how files are read."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from lemmax import _memory
from lemmax._columns import Spelling, as_numbers
from lemmax.cli._files import Refusal
from lemmax.cli._reading import columns_of_list, read_columns, read_table
from lemmax.estimators._frames import parts_of
from tests.commands import refusal_of


def numbers_of(*texts, semicolons=False):
    (column,) = as_numbers([np.array(texts, object)], semicolons)
    return column


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (("1,234.5", "1,234"), (1234.5, 1234)),
        (("1.234,5", "1.234"), (1234.5, 1234)),
        (("0,123", "1,234"), (0.123, 1.234)),
        (("1.234", "0.5"), (1.234, 0.5)),
        (("1 234 567,8", "12"), (1234567.8, 12)),
        (("1'234.5", "1\u202f234"), (1234.5, 1234)),
        (("1.234.567", "1.234"), (1234567, 1234)),
        (("5%", "12.5 %"), (5, 12.5)),
        (("12,5 %", "-3,25%"), (12.5, -3.25)),
        (("\N{MINUS SIGN}5", "+7", "1e3", ".5"), (-5, 7, 1000, 0.5)),
        (("1,5e3", "2,5"), (1500, 2.5)),
    ],
)
def test_numbers_as_people_write_them(texts, values):
    column = numbers_of(*texts)
    np.testing.assert_allclose(column.numbers, values, rtol=1e-15)
    assert not len(column.unreadable)


def test_a_lone_group_of_three_is_read_as_the_file_has_it():
    assert numbers_of("1,234").numbers[0] == 1234
    assert numbers_of("1,234", semicolons=True).numbers[0] == 1.234
    columns = [np.array(texts, object) for texts in (["1,5", "2"], ["1,234", "2"])]
    assert as_numbers(columns)[1].numbers[0] == 1.234


@pytest.mark.parametrize(
    ("texts", "unclear"),
    [
        (("1.088", "908", "", "12.500"), True),
        (("1.088", "908", "12"), True),
        (("1.088", "908", "0.500"), False),
        (("1.088", "908", "2.5"), False),
        (("1.088", "908", "2088"), False),
        (("1.088", "12.500"), False),
        (("1.088", "2", "12"), False),
        (("1.088.000", "1.088", "908"), False),
        (("1.088,5", "1.088", "908"), False),
    ],
)
def test_dots_that_may_separate_thousands_are_told(tmp_path, texts, unclear):
    assert numbers_of(*texts).spelling.unclear == unclear
    lines = "".join(f"{k}\t{text}\n" for k, text in enumerate(texts))
    found = read_table(written(tmp_path / "table.tsv", f"a\tb\n{lines}"))
    told = [note for note in found.notes if "may separate thousands" in note]
    assert len(told) == unclear
    assert all("1.088" in note and "b" in note for note in told)


@pytest.mark.parametrize("word", ["", " ", "NA", "n/a", "NaN", "null", "None", "-", "?", "#DIV/0!"])
def test_words_for_what_is_missing(word):
    column = numbers_of(word, "5")
    assert np.isnan(column.numbers[0])
    assert not len(column.unreadable)


@pytest.mark.parametrize("text", ["12a", "1_000", "0x10", "inf", "-1e200", "2020-01-05", "$5"])
def test_what_is_no_number_is_not_guessed(text):
    column = numbers_of("1", text, "2.5")
    assert column.unreadable.tolist() == [1]
    assert np.isnan(column.numbers[1])


def test_a_decimal_point_among_decimal_commas_cannot_be_read():
    assert numbers_of("1,5", "2,25", "3.5").unreadable.tolist() == [2]


def test_numbers_are_written_as_the_column_has_them():
    assert Spelling().write(2.0) == "2"
    assert Spelling(comma=True).write(1234.5) == "1234,5"
    assert Spelling(per_cent=True).write(12.5) == "12.5%"
    assert Spelling().write(np.nan) == ""


def test_thousands_with_points_are_written_with_a_decimal_comma():
    texts = [["66.090", "1.234", "981"], ["1,5", "2,25", "3"]]
    thousands, _ = as_numbers([np.array(each, object) for each in texts], semicolons=True)
    assert thousands.numbers.tolist() == [66090, 1234, 981]
    assert thousands.spelling.grouped
    again = thousands.spelling.write(15185.125)
    assert as_numbers([np.array([*texts[0], again], object)], True)[0].numbers[3] == 15185.125


def test_numbers_with_commas_and_semicolons(tmp_path):
    path = written(tmp_path / "table.csv", "a;b\n1,5;2\nNA;3,25\n")
    np.testing.assert_array_equal(read_table(path).values, [[1.5, 2], [np.nan, 3.25]])
    # More commas than semicolons in every line.
    path = written(tmp_path / "table.csv", "1,5;2,5\n3,5;4,5\n")
    np.testing.assert_array_equal(read_table(path).values, [[1.5, 2.5], [3.5, 4.5]])


@pytest.mark.parametrize("separator", [",", ";", "\t", "  "])
def test_separators_are_found(separator, tmp_path):
    lines = [["x", "y", "z"], ["1", "2", "3"], ["4", "5.5", "6"]]
    text = "\n".join(separator.join(line) for line in lines)
    table = read_table(written(tmp_path / "table.txt", text))
    assert table.columns == ["x", "y", "z"]
    np.testing.assert_array_equal(table.values, [[1, 2, 3], [4, 5.5, 6]])


def test_rows_that_are_empty_are_holes_not_nothing(tmp_path):
    path = written(tmp_path / "table.csv", "a,b\n1,2\n,\n5,6\n\n")
    assert read_table(path).values.shape == (3, 2)
    path = written(tmp_path / "table.csv", "2019,2020\n1,2\n")
    assert read_table(path).values.shape == (2, 2)
    assert read_table(path, header=True).columns == ["2019", "2020"]
    path = written(tmp_path / "table.csv", "a\n1\n\n3\n\n")
    np.testing.assert_array_equal(read_table(path).values, [[1], [np.nan], [3]])


def test_rows_are_named_by_their_line(tmp_path):
    text = 'a,b,note\n1,2,"two\nlines"\n\n3,4,x\n5,y,z\n7,8,z\n9,1,z\n'
    table = read_table(written(tmp_path / "table.csv", text))
    assert [table.row_name(k) for k in (0, 1, 2)] == ["line 3", "line 5", "line 6"]
    assert "'y' in column 'b', line 6" in " ".join(table.notes)


def test_all_cells_that_cannot_be_read_are_named_at_once(tmp_path):
    rows = [f"{k},{k}" for k in range(40)]
    for k in range(0, 22, 2):
        rows[k] = f"{k},bad{k}"
    rows[5] = "oh,5"
    table = read_table(written(tmp_path / "table.csv", "\n".join(["a,b", *rows])))
    (note,) = table.notes
    assert "'bad0' in column 'b', line 2; 'bad2' in column 'b', line 4" in note
    assert "'oh' in column 'a', line 7" in note
    assert "and 4 more" in note
    assert int(np.sum(np.isnan(table.values))) == 12


def test_columns_of_text_and_without_values_are_carried_through(tmp_path):
    text = "day,a,note,b,empty\n2020-01-01,1,x,2,\n2020-01-02,3,,4,NA\n"
    table = read_table(written(tmp_path / "table.csv", text))
    assert table.columns == ["a", "b"]
    assert table.labels == ["2020-01-01", "2020-01-02"]
    assert table.notes == (
        "Columns 'day', 'note' contain text and are carried through.",
        "Column 'empty' contains no values and is carried through.",
    )


def test_a_first_column_without_a_name_labels_the_rows(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5, 4.0], "b": [3.0, 4.0, 5.0]})
    path = tmp_path / "table.csv"
    frame.to_csv(path)
    table = read_table(path)
    assert table.columns == ["a", "b"]
    assert table.labels == ["0", "1", "2"]
    assert table.notes == ("The first column, which has no name, labels the rows.",)
    assert read_table(path, labels="a").columns == ["", "b"]


def test_names_may_be_numbers_that_count_up(tmp_path):
    path = tmp_path / "table.csv"
    table = read_table(written(path, "land,code,2019,2020,2021\na,x,1,2,3\nb,y,4,5,6\n"))
    assert table.columns == ["2019", "2020", "2021"]
    assert "read as a header, since it counts up (else --no-header)" in table.notes[0]
    assert read_table(path, header=False).values.shape == (3, 3)
    pd.DataFrame([[5.0, 6.0], [7.0, 8.0]]).to_csv(path)
    assert read_table(path).columns == ["0", "1"]
    assert read_table(written(path, "1,2,3\n4,5,6\n")).columns is None
    assert "add --header or --no-header" in refusal_of("pca", written(path, "a,1,2,4\nb,5,6,7\n"))


def test_only_and_drop_choose_columns(tmp_path):
    path = written(tmp_path / "table.csv", 'a,b,"c,d",t\n1,2,3,x\n4,5,6,y\n')
    assert read_table(path, only='a,"c,d"').columns == ["a", "c,d"]
    assert read_table(path, drop="a, t").columns == ["b", "c,d"]
    assert read_table(path, drop="a", labels="b").columns == ["c,d"]
    assert "has no columns 'x', 'y'; it has: a, b, c,d, t" in refusal_of(
        "pca", path, "--only", "a,x", "--drop", "y"
    )
    assert "'x' in column 't', line 2" in refusal_of("pca", path, "--only", "a,t")
    assert "No column of" in refusal_of("pca", path, "--only", "a", "--drop", "a")
    array = tmp_path / "table.npy"
    np.save(array, np.arange(12.0).reshape(4, 3))
    np.testing.assert_array_equal(read_table(array, only="3").values[:, 0], [2, 5, 8, 11])


def test_excel_files(tmp_path):
    path = tmp_path / "table.xlsx"
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2020-01-05", "2020-01-06", "2020-01-07"]),
            "a": [1.5, None, 3.0],
            "b": ["1,5", "n/a", "2,5"],
        }
    )
    with pd.ExcelWriter(path) as book:
        frame.to_excel(book, sheet_name="data", index=False)
        pd.DataFrame({"x": [1, 2], "y": [3, 4]}).to_excel(book, sheet_name="more", index=False)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, [[1.5, 1.5], [np.nan, np.nan], [3, 2.5]])
    assert table.labels == ["2020-01-05", "2020-01-06", "2020-01-07"]
    assert table.row_name(1) == "line 3 (2020-01-06)"
    assert "sheet 'data' is read, not more" in table.notes[0]
    assert read_table(path, array="more").columns == ["x", "y"]
    assert "has no sheet 'other'; it has data, more" in refusal_of("pca", path, "--array", "other")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("u,i,r\na,x,1\na,y,2\nb,x,3\n", "u,i,r"),
        ("u,i,r\na,x,1\n", "u,i,r"),
        ("u,i,r\n1,2,3.5\n1,3,2\n", "u,i,r"),
        ("when,Rating,userId,movie_id\n7,3,1,2\n8,4,1,3\n", "userId,movie_id,Rating"),
        ('"us,er",film,stars,note\na,x,1,\nb,y,2,\n', '"us,er",film,stars'),
        ("u,i,r\n1.5,2,3\n1,3,2\n", None),
        ("u,i,r\n1,2,3\n,3,2\n", None),
        ("a,b,c,d\n1,2,3,4\n2,3,4,5\n", None),
        ("u,i,r\na,x,good\nb,x,bad\n", None),
        ("1,2,3\n2,3,4\n", None),
    ],
)
def test_a_list_of_entries_is_recognised(tmp_path, text, names):
    assert columns_of_list(written(tmp_path / "list.csv", text)) == names


def test_columns_of_a_list_without_names_have_numbers(tmp_path):
    path = written(tmp_path / "list.csv", "a,x,3\nb,y,4\n")
    assert columns_of_list(path, header=False) == "1,2,3"
    path = written(tmp_path / "list.csv", "196,242,3,881\n186,302,4,891\n")
    cells = read_columns(path, ["1", "2", "3"])
    assert [column.tolist() for column in cells.columns] == [
        ["196", "186"], ["242", "302"], ["3", "4"]
    ]  # fmt: skip
    assert len(read_columns(path, ["1", "2", "3"], header=False).columns[0]) == 2
    # Names come first, also those that are numbers.
    assert read_columns(path, ["196", "3"]).columns[1].tolist() == ["4"]
    with pytest.raises(Refusal, match="has no column '5'; it has: 1, 2, 3, 4"):
        read_columns(path, ["1", "2", "5"], header=False)


def _npy_header(shape, dtype="<f8"):
    file = io.BytesIO()
    declared = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(file, declared)
    return file.getvalue()


LONG_HEADER = b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b"a" * 100
MATRIX = "%%MatrixMarket matrix {}\n{}\n1 1 5\n2 2 6\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("huge.npy", _npy_header((10**6, 10**6))),
        ("negative.npy", _npy_header((-1, 4))),
        ("header.npy", LONG_HEADER),
        ("huge.npz", _npy_header((10**6, 10**6))),
        ("header.npz", LONG_HEADER),
        ("list.mtx", MATRIX.format("coordinate real general", f"3 3 {10**12}").encode()),
        ("array.mtx", MATRIX.format("array real general", f"{10**9} {10**9}").encode()),
    ],
)
def test_headers_that_promise_more_than_there_is(tmp_path, name, content, monkeypatch):
    path = tmp_path / name
    if name.endswith(".npz"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(Refusal, match=r"is not a (numeric )?file"):
        read_table(path)


@pytest.mark.parametrize("name", ["zeros.npy", "zeros.npz", "zeros.mtx", "zeros.parquet"])
def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path, name, monkeypatch):
    path, zeros = tmp_path / name, np.zeros((5000, 4000), np.uint8)
    if name == "zeros.npy":
        np.save(path, zeros)
    elif name == "zeros.npz":
        np.savez_compressed(path, zeros)
    elif name == "zeros.parquet":
        pytest.importorskip("pyarrow")
        pd.DataFrame(zeros, columns=[f"c{k}" for k in range(4000)]).to_parquet(path)
    else:
        path.write_text(
            "%%MatrixMarket matrix array real general\n5000 4000\n" + "0\n" * zeros.size
        )
    monkeypatch.setattr(_memory, "available_bytes", lambda: 2**28)
    monkeypatch.setattr(_memory, "SMALL", 2**20)
    with pytest.raises(MemoryError, match=r"in .* of shape \(5000, 4000\) needs"):
        read_table(path)


def test_a_sheet_that_unpacks_to_more_than_fits(tmp_path, monkeypatch):
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 2**22)
    monkeypatch.setattr(_memory, "available_bytes", lambda: 2**28)
    monkeypatch.setattr(_memory, "SMALL", 2**20)
    with pytest.raises(MemoryError, match=r"bomb\.xlsx holds needs 4,194,304 bytes"):
        read_table(path)


def test_a_list_of_two_entries_may_not_be_a_huge_table(tmp_path):
    path = tmp_path / "wide.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n9999999 9999999 1\n1 1 5\n")
    assert "The table in" in refusal_of("pca", path)


def test_compressed_texts(tmp_path):
    path = tmp_path / "table.csv.gz"
    pd.DataFrame({"a": [1.5, 2.5], "b": [3.0, None]}).to_csv(path, index=False)
    table = read_table(path)
    assert table.columns == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[1.5, 3.0], [2.5, np.nan]])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Refusal, match="is not a gzip file, or a part of it is lost"):
        read_table(path)
    (tmp_path / "table.npy.gz").write_bytes(whole)
    with pytest.raises(Refusal, match=r"unknown format; .* compressed \(\.csv\.gz\)"):
        read_table(tmp_path / "table.npy.gz")


def test_a_compressed_text_that_unpacks_to_more_than_fits(tmp_path, monkeypatch):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"1" * 2**22))
    monkeypatch.setattr(_memory, "available_bytes", lambda: 2**28)
    monkeypatch.setattr(_memory, "SMALL", 2**20)
    with pytest.raises(MemoryError, match=r"bomb\.csv\.gz holds needs 4,194,304 bytes"):
        read_table(path)


@pytest.mark.parametrize("before", ["\n", "\n\n"])
def test_empty_lines_before_the_first(tmp_path, before):
    path = tmp_path / "table.csv"
    path.write_text(before + "a,b,c\n" + "".join(f"{k},{k * k},{-k}\n" for k in range(5)))
    table = read_table(path)
    assert table.columns == ["a", "b", "c"]
    assert table.values.shape == (5, 3)


def test_truths_are_numbers_in_files_and_frames_alike(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((6, 2)), columns=["a", "b"])
    frame["member"] = [True, False, True, True, False, True]
    frame.to_csv(tmp_path / "table.csv", index=False)
    table = read_table(tmp_path / "table.csv")
    assert table.columns == ["a", "b", "member"]
    parts = parts_of(frame)
    assert parts is not None
    np.testing.assert_array_equal(table.values, parts.array)


def test_names_of_columns_without_names_are_no_data(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame(np.arange(8.0).reshape(2, 4)).to_csv(path, index=False)
    table = read_table(path)
    assert table.columns == ["0", "1", "2", "3"]
    assert table.values.shape == (2, 4)
    assert "(else --no-header)" in table.notes[0]
    # It may be an entry of a list.
    assert read_table(written(path, "0,1,2\n3,4,5\n")).values.shape == (2, 3)
