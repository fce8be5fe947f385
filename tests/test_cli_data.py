"""The commands that take data files: what they write, and how they refuse."""

import json
import os
import signal

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lemmax.cli._files import _OWN, written_before
from lemmax.cli._outcome import Outcome
from lemmax.cli._readiness import possible_rank
from lemmax.cli._reading import read_table
from lemmax.cli.app import app
from lemmax.estimators import CPDecomposition, RobustPCA
from lemmax.recovery import api

runner = CliRunner()


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def output_of(exit_code, *arguments):
    """What a command prints that ends with an exit code, its lines joined."""
    result = run(*arguments)
    assert result.exit_code == exit_code, result.output
    return " ".join(result.output.split())


def refusal_of(*arguments):
    return output_of(2, *arguments)


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    truth = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 25))
    spoiled = truth.copy()
    spoiled[3, 4], spoiled[10, 2] = 99.0, np.nan
    path = tmp_path / "table.csv"
    lines = ["day," + ",".join(f"c{k}" for k in range(25))]
    lines += [
        f"d{k}," + ",".join("" if np.isnan(v) else repr(float(v)) for v in row)
        for k, row in enumerate(spoiled)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path, truth


@pytest.fixture
def spoiled_tensor(tmp_path):
    rng = np.random.default_rng(2)
    tensor = np.einsum("ir,jr,kr->ijk", *(rng.standard_normal((d, 2)) for d in (7, 6, 5)))
    tensor[1, 2, 3] = 40.0
    np.save(tmp_path / "tensor.npy", tensor)
    return tmp_path / "tensor.npy"


def test_pca_cleans_a_table(table, tmp_path):
    path, truth = table
    out = tmp_path / "out"
    result = run("pca", path, "--labels", "day", "--rank", 4, "--out", out)
    assert result.exit_code == 0, result.output
    assert "EXACT" in result.output
    lines = (out / "cleaned.csv").read_text().splitlines()
    assert lines[0] == "day," + ",".join(f"c{k}" for k in range(25))
    cleaned = np.array([[float(entry) for entry in line.split(",")[1:]] for line in lines[1:]])
    np.testing.assert_allclose(cleaned, truth, atol=1e-9)
    wrong = (out / "outliers.csv").read_text().splitlines()
    assert len(wrong) == 2
    assert wrong[1].startswith("d3,c4,99.0,")
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "EXACT"
    assert f"The fit took {summary['seconds']:.1f} s, compilation included." in result.output
    page = (out / "report.html").read_text()
    assert page.count("<img") == 3
    assert "table.csv: 60 rows, 25 columns, 1 of 1500 entries missing." in page
    scores = np.loadtxt(out / "scores.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    components = np.loadtxt(out / "components.csv", delimiter=",", skiprows=1, usecols=range(1, 26))
    location = np.loadtxt(out / "location.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(scores @ components + location, truth, atol=1e-9)


def test_an_answer_that_the_data_do_not_support_is_written_with_exit_code_1(tmp_path):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    np.savetxt(path, np.random.default_rng(0).standard_normal((8, 4)), delimiter=",")
    result = run("pca", path, "--rank", 1, "--no-centre", "--out", out)
    assert result.exit_code == 1, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert f"The verdict is {summary['status']}: what was written is not" in result.output
    assert summary["status"] in ("NOT_IDENTIFIABLE", "NOT_CONVERGED")
    page = (out / "report.html").read_text()
    assert all(f"Because {reason}." in page for reason in summary["objections"])
    assert (out / "cleaned.csv").exists()
    assert "1 after one that they do not" in " ".join(run("--help").output.split())


def test_the_verdict_speaks_of_the_rows_that_hold_something(tmp_path):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    rows = [f"d{k},{k + 1},{2 * k + 2},{3 * k + 3},{k + 1}" for k in range(8)]
    rows[3] = "d3,,,,"
    path.write_text("\n".join(["day,a,b,c,d", *rows]))
    options = ("--labels", "day", "--rank", 1, "--no-centre")
    result = run("pca", path, *options, "--out", out)
    assert result.exit_code == 0, result.output
    sentence = "There are no values in line 5 (d3) of table.csv: nothing can be known about it; "
    assert (
        sentence + "the location stands there, and the verdict speaks of the others."
        in result.output
    )
    cleaned = (out / "cleaned.csv").read_text().splitlines()
    assert cleaned[4].split(",") == ["d3", "0.0", "0.0", "0.0", "0.0"]
    assert json.loads((out / "summary.json").read_text())["observations"] == 28


def test_complete_predicts_by_name(tmp_path):
    rng = np.random.default_rng(1)
    truth = np.outer(rng.uniform(1, 2, 30), rng.uniform(1, 2, 20))
    ratings, asked = tmp_path / "ratings.csv", tmp_path / "asked.csv"
    chosen = [(i, j) for i in range(30) for j in range(20) if rng.random() < 0.5]
    rows = [f"u{i},m{j},{float(truth[i, j])!r}" for i, j in chosen]
    ratings.write_text("\n".join(["user,item,rating", *rows, *rows[:2]]))
    asked.write_text("user,item\nu3,m7\nu99,m7\nu0,m0\n")
    out = tmp_path / "out"
    columns = ("--columns", "user,item,rating")
    result = run("complete", ratings, *columns, "--rank", 2, "--predict", asked, "--out", out)
    assert result.exit_code == 0, result.output
    lines = (out / "predictions.csv").read_text().splitlines()
    assert lines[0] == "user,item,rating"
    assert lines[2] == "u99,m7,"
    values = [float(lines[k].split(",")[2]) for k in (1, 3)]
    np.testing.assert_allclose(values, [truth[3, 7], truth[0, 0]], rtol=1e-8)
    assert (
        "asked.csv: for 1 of 3 there is no prediction; no entry of 'u99' is known" in result.output
    )
    assert "2 values for a 'user' and 'item' that had one before" in result.output
    assert "--predict" not in result.output
    asked.write_text("user,item\nu99,m7\n")
    result = run("complete", ratings, *columns, "--predict", asked, "--out", out)
    assert result.exit_code == 2
    assert "asked.csv asks for no user and item that are known" in result.output
    result = run("complete", ratings, *columns, "--rank", 2, "--out", out)
    assert "list the wanted user,item in a file with that header and add --predict" in result.output


def test_cp_and_nnls(spoiled_tensor, tmp_path):
    out = tmp_path / "cp"
    output_of(0, "cp", spoiled_tensor, "--rank", 3, "--out", out)
    assert (out / "outliers.csv").read_text().splitlines()[1].startswith("1,2,3,")
    assert np.load(out / "cleaned.npy").shape == (7, 6, 5)
    a = np.random.default_rng(2).standard_normal((7, 2))
    np.save(tmp_path / "A.npy", a)
    np.save(tmp_path / "b.npy", a @ [1.0, 2.0])
    out = tmp_path / "nnls"
    output_of(0, "nnls", tmp_path / "A.npy", tmp_path / "b.npy", "--out", out)
    np.testing.assert_allclose(np.loadtxt(out / "coefficients.csv"), [1.0, 2.0], rtol=1e-10)
    np.testing.assert_allclose(np.loadtxt(out / "residuals.csv"), np.zeros(7), atol=1e-10)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["rows"], summary["columns"], summary["settled"]) == (7, 2, 1)
    page = (out / "report.html").read_text()
    assert "A.npy: 7 rows, 2 columns, no entry missing." in page
    assert page.count("<img") == 1


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("table.xyz", b"1,2", "is of an unknown format"),
        ("table.csv", b"", "is empty"),
        ("table.csv", b"a,b\n", "has a line of names, but no data"),
        ("table.csv", b"1,2\n3\n", "Line 2 of"),
        ("table.csv", b"\xff\xfe\x00", "is not a text in UTF-8"),
        ("table.npy", b"nonsense", "is not a file of numbers"),
        ("table.mtx", b"nonsense", "is not a file in the Matrix Market format"),
        ("table.parquet", b"nonsense", "arquet"),
        ("table.csv", b",0,1\n0,5,6\n1,7,8\n", "say --header or --no-header"),
        ("table.csv", b"1,2,three\n4,5,6\n", "say --header or --no-header"),
        ("table.npz", b"nonsense", "is not a file of numbers"),
        ("table.csv", b"a,b\n1,2\n-inf,4\n", "an infinite value, '-inf' in line 3"),
        ("table.csv", b"a,b\n1,2\n", "has 1 row of numbers; at least 2 are needed"),
        ("table.csv", b"a,B\n1,\n2,\n", "There are no values in column 'B'"),
        ("table.csv", b"1,\n2,\n", "There are no values in column 2"),
        ("table.csv", b"a,b\n,\n,\n", "holds no values: every entry is missing"),
        ("table.csv", b"d,a,b,c\nx,1,2,3\ny,4,5,6\n", "say --labels d."),
        ("table.csv", b"u,i,r\nx,p,3\ny,q,6\n", "lemmax complete table.csv --columns u,i,r."),
        ("table.csv", b"a,b\n1,2\n1,cow\n", "text, 'cow' in line 3, where a number should be."),
        (
            "table.csv",
            b"day,a,b\nx,1,2\ny,3,4\n",
            "where a number should be. If that column labels",
        ),
        ("table.csv", b"u,i,r\nx,1,2\nx,3,4\n", "say --labels u. If the file is a list"),
        (
            "table.csv",
            b'a,b,c\n1,2,3\n1,"1,000",4\n',
            "'1,000' in line 3: write that number without",
        ),
        ("table.csv", b"a,b\n5%,2\n7%,3\n", "'5%' in line 2: write that number without the per"),
        ("table.csv", b'a,b\n"1,5",2\n3,4\n', "write that number with a decimal point."),
        ("table.csv", b"a,b\n1,2\n-,4\n", "left blank, or is one of NA, NaN, N/A, null, none,"),
        ("table.csv", b"a,b\n-,2\n-,4\n", "What is missing is left blank"),
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


def test_a_missing_file_and_wrong_names_are_one_sentence(table, tmp_path):
    path, _ = table
    for absent in ("no.csv", "no"):
        assert "There is no file" in refusal_of("pca", tmp_path / absent)
    said = refusal_of("pca", path, "--labels", "date")
    assert "has no column 'date'; it has: day, c0" in said
    assert "has no column 'price'" in refusal_of("complete", path, "--columns", "day,c0,price")


@pytest.mark.parametrize("folder", ["file", "file/out", "new/" + 300 * "x"])
def test_where_nothing_can_be_written_it_says_so_before_the_fit(
    folder, table, tmp_path, monkeypatch
):
    def must_not_run(*_):
        raise AssertionError("fitted in vain")

    monkeypatch.setattr("lemmax.estimators.RobustPCA.fit", must_not_run)
    path, _ = table
    (tmp_path / "file").write_text("in the way")
    sentence = refusal_of("pca", path, "--labels", "day", "--out", tmp_path / folder)
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
    holes[3] = np.nan
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "names.csv").write_text("a\nx\n")
    np.savez(tmp_path / "two.npz", a=np.ones((5, 4)), b=np.ones(5))
    assert "holds a matrix: use lemmax pca" in refusal_of("cp", matrix)
    assert "is a table: use lemmax pca" in refusal_of("cp", tmp_path / "table.csv")
    assert "a tensor is for lemmax cp" in refusal_of("pca", tensor)
    assert "at index [2, 1] counted" in refusal_of("pca", saved("infinite.npy", infinite))
    assert "matrix.npy has 5 rows" in refusal_of("nnls", matrix, saved("short.npy", np.ones(4)))
    assert "in column 1, row 4" in refusal_of("nnls", matrix, saved("holes.npy", holes))
    # What there is no option for is not advised.
    assert "save the one that is meant" in refusal_of("nnls", tmp_path / "two.npz", matrix)
    assert "--" not in refusal_of("nnls", matrix, tmp_path / "names.csv")


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
    assert "--rank 500 is taken for 12" in capsys.readouterr().out
    assert possible_rank(outcome, 99, (60, 5)) == 5


def test_numbers_with_commas_and_semicolons(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b\n1,5;2\nNA;3,25\n")
    np.testing.assert_array_equal(read_table(path).values, [[1.5, 2], [np.nan, 3.25]])


def test_rows_that_are_empty_are_holes_not_nothing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n,\n5,6\n\n")
    assert read_table(path).values.shape == (3, 2)
    path.write_text("2019,2020\n1,2\n")
    assert read_table(path).values.shape == (2, 2)
    assert read_table(path, header=True).columns == ["2019", "2020"]


def interrupted_at(monkeypatch, step):
    """Ctrl-C at a step of the search."""
    sent = []

    def watch(stage, number, value):
        if number >= step and not sent:
            sent.append(number)
            os.kill(os.getpid(), signal.SIGINT)
        return False

    monkeypatch.setattr(api, "_watch", lambda *_: watch)


def test_ctrl_c_in_the_fit_writes_what_there_is(spoiled_tensor, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, 1)
    out = tmp_path / "out"
    said = output_of(130, "cp", spoiled_tensor, "--rank", 3, "--out", out)
    assert "Interrupted: what the fit had by then is written, and is not" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"
    assert "INTERRUPTED" in (out / "report.html").read_text()
    assert np.load(out / "cleaned.npy").shape == (7, 6, 5)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_a_rank_is_chosen_writes_the_last_fit(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    table = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 40))
    np.save(tmp_path / "table.npy", table + 0.01 * rng.standard_normal(table.shape))
    interrupted_at(monkeypatch, 15)
    out = tmp_path / "out"
    output_of(130, "complete", tmp_path / "table.npy", "--out", out)
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"
    assert (out / "completed.csv").exists()


def test_a_second_ctrl_c_gives_up(spoiled_tensor, tmp_path, monkeypatch):
    fit, out = CPDecomposition.fit, tmp_path / "out"

    def fit_and_again(model, tensor):
        fit(model, tensor)
        os.kill(os.getpid(), signal.SIGINT)

    interrupted_at(monkeypatch, 1)
    monkeypatch.setattr(CPDecomposition, "fit", fit_and_again)
    said = output_of(130, "cp", spoiled_tensor, "--rank", 3, "--out", out)
    assert "Interrupted; nothing was written." in said
    assert not out.exists()


@pytest.mark.parametrize("place", ["lemmax.estimators.RobustPCA.fit", "lemmax.plots.recovery"])
def test_ctrl_c_before_or_after_the_fit_gives_up(place, table, tmp_path, monkeypatch):
    monkeypatch.setattr(place, lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    out = tmp_path / "out"
    said = output_of(130, "pca", table[0], "--labels", "day", "--rank", 4, "--out", out)
    assert "Interrupted; nothing was written." in said
    assert not out.exists()


def test_ctrl_c_that_the_fit_outlives_is_told(table, tmp_path, monkeypatch):
    fit, out = RobustPCA.fit, tmp_path / "out"

    def undeterred(model, values):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        return fit(model, values)

    monkeypatch.setattr(RobustPCA, "fit", undeterred)
    said = output_of(130, "pca", table[0], "--labels", "day", "--rank", 4, "--out", out)
    assert "the fit came to its end all the same" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "EXACT"


def test_files_of_an_earlier_command_are_removed_and_no_others(table, spoiled_tensor, tmp_path):
    out = tmp_path / "out"
    assert run("pca", table[0], "--labels", "day", "--rank", 4, "--out", out).exit_code == 0
    written = {file.name for file in out.iterdir()}
    assert set(json.loads((out / "summary.json").read_text())["files"]) == written
    assert all(_OWN.fullmatch(name) for name in written)
    # Of the reader's own: one of them under a name that lemmax writes, too.
    for name in ("notes.txt", "predictions.csv"):
        (out / name).write_text("mine")
    said = output_of(0, "cp", spoiled_tensor, "--rank", 3, "--out", out)
    after = {file.name for file in out.iterdir()}
    assert {"notes.txt", "predictions.csv", "cleaned.npy", "factor3.csv"} <= after
    assert not after & {"cleaned.csv", "scores.csv", "components.csv", "location.csv"}
    assert "of an earlier run: cleaned.csv, components.csv" in said
    # What is read is never removed.
    assert run("nnls", out / "factor1.csv", out / "factor1.csv", "--out", out).exit_code == 0
    assert (out / "factor1.csv").exists()
    assert not (out / "cleaned.npy").exists()


def test_what_an_earlier_summary_says_is_not_trusted(tmp_path):
    assert written_before(tmp_path) == set()
    for content in ("nonsense", "[]", '{"files": 3}', '{"status": "EXACT"}'):
        (tmp_path / "summary.json").write_text(content)
        assert written_before(tmp_path) == set()
    names = ["scores.csv", "../scores.csv", "/etc/scores.csv", "thesis.csv", 7]
    (tmp_path / "summary.json").write_text(json.dumps({"files": names}))
    assert written_before(tmp_path) == {"scores.csv"}


def test_nnls_names_its_coefficients_and_suggests_robust(tmp_path):
    rng = np.random.default_rng(3)
    a = rng.uniform(0, 1, (80, 2))
    b = a @ [1.0, 2.0] + 0.01 * rng.standard_normal(80)
    matrix, targets, out = tmp_path / "A.csv", tmp_path / "b.npy", tmp_path / "out"
    np.savetxt(matrix, a, delimiter=",", header="iron,zinc", comments="")
    np.save(targets, b)
    command = ("nnls", matrix, targets, "--out", out)
    assert "--robust" not in output_of(0, *command)
    lines = (out / "coefficients.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["column", "iron", "zinc"]
    b[:3] += 50.0
    np.save(targets, b)
    assert "--robust bears those" in output_of(0, *command)
    assert "--robust" not in output_of(0, *command, "--robust")


def test_saving_to_a_folder_that_is_not_there_names_the_path(tmp_path):
    path = tmp_path / "no" / "model.safetensors"
    with pytest.raises(FileNotFoundError, match=f"{path} cannot be written: there is no folder"):
        RobustPCA().save(path)
