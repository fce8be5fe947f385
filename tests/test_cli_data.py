"""The commands that take data files: what they write."""

import json

import numpy as np
import pytest

from lemmax.cli._files import _OWN, written_before
from lemmax.estimators import RobustPCA
from tests.commands import output_of, run


def test_pca_cleans_a_table(table_file, tmp_path):
    path, truth = table_file
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


def test_rows_and_columns_in_doubt_are_named_as_in_the_file(tmp_path):
    rng = np.random.default_rng(0)
    path, out = tmp_path / "table.csv", tmp_path / "out"
    table = np.outer(rng.uniform(1, 2, 30), rng.uniform(1, 2, 10))
    table[4] = 30 * rng.standard_normal(10)
    rows = [",".join([f"d{k}", *map(repr, row)]) for k, row in enumerate(table.tolist())]
    path.write_text("\n".join(["day," + ",".join("abcdefghij"), *rows]))
    said = output_of(1, "complete", path, "--labels", "day", "--rank", 1, "--out", out)
    assert "line 6 (d4)" in said
    assert "row 4" not in said
    page = (out / "report.html").read_text()
    reasons = json.loads((out / "summary.json").read_text())["objections"]
    assert reasons
    assert all(f"<p>Because {reason}.</p>" in page for reason in reasons)


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


def test_cp_and_nnls(tensor_file, tmp_path):
    out = tmp_path / "cp"
    output_of(0, "cp", tensor_file, "--rank", 3, "--out", out)
    header, *wrong = (out / "outliers.csv").read_text().splitlines()
    assert header == "mode 1,mode 2,mode 3,was,should be"
    *place, was, right = wrong[0].split(",")
    assert (len(wrong), place, float(was)) == (1, ["1", "2", "3"], 40.0)
    assert float(right) == pytest.approx(np.load(out / "cleaned.npy")[1, 2, 3])
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


def test_files_of_an_earlier_command_are_removed_and_no_others(table_file, tensor_file, tmp_path):
    out = tmp_path / "out"
    assert run("pca", table_file[0], "--labels", "day", "--rank", 4, "--out", out).exit_code == 0
    written = {file.name for file in out.iterdir()}
    assert set(json.loads((out / "summary.json").read_text())["files"]) == written
    assert all(_OWN.fullmatch(name) for name in written)
    # Of the reader's own: one of them under a name that lemmax writes, too.
    for name in ("notes.txt", "predictions.csv"):
        (out / name).write_text("mine")
    said = output_of(0, "cp", tensor_file, "--rank", 3, "--out", out)
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
