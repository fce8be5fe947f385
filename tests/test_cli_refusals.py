"""Data files that a command refuses, or takes with a note."""

import numpy as np
import pytest
from rich.console import Console

from lemmax.cli._outcome import Outcome
from lemmax.cli._requirements import possible_rank
from tests.commands import refusal_of, run


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("table.xyz", b"1,2", "has an unknown format"),
        ("table.csv", b"", "is empty"),
        ("table.csv", b"\n\n", "is empty"),
        ("table.csv", b"a,b\n", "has a header, but no data"),
        ("table.csv", b"1,2\n3\n4,5\n6,7,8\n", "the first has 2, line 2 has 1, line 4 has 3."),
        ("table.csv", b'a,"b\n1,2\n', "cannot be read as a table"),
        ("table.csv", b"\xff\xfe\x00", "is not a UTF-8 text"),
        ("table.npy", b"nonsense", "is not a numeric file"),
        ("table.mtx", b"nonsense", "is not a file in the Matrix Market format"),
        ("table.parquet", b"nonsense", "arquet"),
        ("table.xlsx", b"nonsense", "cannot be read as an Excel file"),
        ("table.csv", b"a,1,2\n0,5,6\n1,7,8\n", "add --header or --no-header"),
        ("table.csv", b"1,2,three\n4,5,6\n", "add --header or --no-header"),
        ("table.npz", b"nonsense", "is not a numeric file"),
        ("table.csv", b"a,b\n1,2\n", "has 1 row of numbers; at least 2 are needed"),
        ("table.csv", b"a,B\n1,\n2,\n", "has 1 column of numbers; at least 2 are needed"),
        ("table.csv", b"a,b\n,\n,\n", "contains no values: every entry is missing"),
        ("table.csv", b"a,b\n-,NA\n-,?\n", "contains no values: every entry is missing"),
        ("table.csv", b"a,b\nx,y\nz,w\n", "no column of numbers: 'x' in column 'a', line 2;"),
        ("table.csv", b"u,i,r\nx,p,3\nx,q,6\n", "lemmax complete table.csv --columns u,i,r."),
        ("table.csv", b"u,i,r\nx,p,*\ny,q,+\n", "lemmax complete table.csv --columns u,i,r."),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_nothing_is_written(
    name, content, sentence, tmp_path
):
    path, out = tmp_path / name, tmp_path / "out"
    path.write_bytes(content)
    result = run("pca", path, "--out", out)
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.split())
    assert not out.exists()


def test_a_missing_file_and_wrong_names_are_one_sentence(table_file, tmp_path):
    path, _ = table_file
    for absent in ("no.csv", "no"):
        assert "There is no file" in refusal_of("pca", tmp_path / absent)
    said = refusal_of("pca", path, "--labels", "date")
    assert "has no column 'date'; it has: day, c0" in said
    said = refusal_of("complete", path, "--columns", "day,cost,price")
    assert "has no columns 'cost', 'price'; it has: day, c0" in said
    assert "three names" in refusal_of("complete", path, "--columns", "day,c0")
    said = refusal_of("complete", path, "--columns", "day,c0,c1", "--drop", "c2")
    assert "--columns reads a list of entries; --drop is for tables" in said


@pytest.mark.parametrize("folder", ["file", "file/out", "new/" + 300 * "x"])
def test_where_nothing_can_be_written_it_says_so_before_the_fit(
    folder, table_file, tmp_path, monkeypatch
):
    def must_not_run(*_):
        raise AssertionError("fitted in vain")

    monkeypatch.setattr("lemmax.estimators.RobustPCA.fit", must_not_run)
    path, _ = table_file
    (tmp_path / "file").write_text("in the way")
    sentence = refusal_of("pca", path, "--out", tmp_path / folder)
    assert "Cannot write to" in sentence
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "file").read_text() == "in the way"


def test_arrays_that_do_not_suit_a_command_are_one_sentence(tmp_path):
    def saved(name, values):
        np.save(tmp_path / name, values)
        return tmp_path / name

    matrix, tensor = saved("matrix.npy", np.ones((5, 4))), saved("tensor.npy", np.ones((5, 4, 3)))
    infinite = np.ones((5, 4))
    infinite[2, 1] = np.inf
    holes = np.ones(5)
    holes[3:] = np.nan
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "names.csv").write_text("a,b\nx,1\n2,y\n")
    np.savez(tmp_path / "two.npz", a=np.ones((5, 4)), b=np.ones(5))
    assert "contains a matrix: use lemmax pca" in refusal_of("cp", matrix)
    assert "is a table: use lemmax pca" in refusal_of("cp", tmp_path / "table.csv")
    assert "use lemmax cp for a tensor" in refusal_of("pca", tensor)
    assert "at index [2, 1] counted" in refusal_of("pca", saved("infinite.npy", infinite))
    assert "matrix.npy has 5 rows" in refusal_of("nnls", matrix, saved("short.npy", np.ones(4)))
    said = refusal_of("nnls", matrix, saved("holes.npy", holes))
    assert "no value in column 1, row 4; column 1, row 5; missing values" in said
    # What there is no option for is not advised.
    assert "save the right one" in refusal_of("nnls", tmp_path / "two.npz", matrix)
    said = refusal_of("nnls", matrix, tmp_path / "names.csv")
    assert "'x' in column 'a', line 2; 'y' in column 'b', line 3." in said
    assert "--" not in said
    assert "--array selects an array" in refusal_of("pca", tmp_path / "table.csv", "--array", "a")
    assert "--labels needs a table with column names" in refusal_of("pca", matrix, "--labels", "a")
    assert "needs --no-centre" in refusal_of("pca", matrix, "--nonnegative")
    assert "--predict needs --columns" in refusal_of("complete", matrix, "--predict", matrix)


def test_an_entry_that_is_stored_twice_is_refused(tmp_path):
    path = tmp_path / "table.mtx"
    head = "%%MatrixMarket matrix coordinate real general\n3 2 3\n"
    path.write_text(head + "1 1 5.0\n3 2 1.0\n3 2 2.0\n")
    assert "several values for row 3, column 2" in refusal_of("complete", path)


def test_a_rank_that_no_array_has_is_lowered_with_a_note(tmp_path, capsys):
    outcome = Outcome(Console(), tmp_path, "title")
    assert possible_rank(outcome, 12, (5, 4, 3)) == 12
    assert capsys.readouterr().out == ""
    assert possible_rank(outcome, 500, (5, 4, 3)) == 12
    assert "--rank 500 is reduced to 12" in capsys.readouterr().out
    assert possible_rank(outcome, 99, (60, 5), "--components") == 5
    assert "--components 99 is reduced to 5" in capsys.readouterr().out
