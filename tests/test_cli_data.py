"""The commands that take data files: what they write."""

import csv
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from lemmax.cli._files import _OWN, written_before
from lemmax.cli._outcome import harmless
from lemmax.estimators import RobustPCA
from tests.commands import output_of, refusal_of, run


def lines_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def noisy_table(rng, rows=80, columns=6, rank=2):
    """Numbers with two decimals around a table of low rank, as text."""
    truth = 20 + 3 * rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    return [
        [f"{value:.2f}" for value in row] for row in truth + 0.05 * rng.standard_normal(truth.shape)
    ]


def test_pca_cleans_a_table(table_file, tmp_path):
    path, truth = table_file
    out = tmp_path / "out"
    result = run("pca", path, "--labels", "day", "--out", out)
    assert result.exit_code == 0, result.output
    assert "EXACT" in result.output
    header, *lines = lines_of(out / "cleaned.csv")
    assert header == ["day", *(f"c{k}" for k in range(25))]
    cleaned = np.array([[float(entry) for entry in line[1:]] for line in lines])
    np.testing.assert_allclose(cleaned, truth, atol=1e-9)
    header, wrong = lines_of(out / "outliers.csv")
    assert header == ["row", "column", "was", "should be", "error"]
    assert wrong[:3] == ["d3", "c4", "99.0"]
    assert float(wrong[3]) == pytest.approx(truth[3, 4], abs=1e-9)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["status"], summary["components"], summary["wrong"]) == ("EXACT", 2, 1)
    assert f"The fit took {summary['seconds']:.1f} s.\n" in result.output
    page = (out / "report.html").read_text()
    assert page.count("<img") == 3
    assert "table.csv: 60 rows, 25 columns, 1 of 1500 entries missing." in page
    scores = np.loadtxt(out / "scores.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    components = np.loadtxt(out / "components.csv", delimiter=",", skiprows=1, usecols=range(1, 26))
    mean = np.loadtxt(out / "columns.csv", delimiter=",", skiprows=1, usecols=1)
    np.testing.assert_allclose(scores @ components + mean, truth, atol=1e-9)


def test_only_what_was_missing_or_wrong_is_changed(tmp_path):
    rng = np.random.default_rng(5)
    cells = noisy_table(rng)
    cells[7][2], cells[20][4], cells[33][1] = "999", "", "12a"
    rows = [
        [f"2020-{k // 28 + 1:02d}-{k % 28 + 1:02d}", "=1+1; ok", *row]
        for k, row in enumerate(cells)
    ]
    names = ["date", "note", *"abcdef"]
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text("\n".join(",".join(row) for row in [names, *rows]))
    said = output_of(0, "pca", path, "--out", out)
    assert "Columns 'date', 'note' contain text and are carried through." in said
    assert "'12a' in column 'b', line 35." in said
    after = lines_of(out / "cleaned.csv")
    assert {line[1] for line in after[1:]} == {"'=1+1; ok"}
    rows = [[date, "'" + note, *row] for date, note, *row in rows]
    places = {
        (i, j)
        for i, (before, now) in enumerate(zip([names, *rows], after, strict=True))
        for j in range(8)
        if before[j] != now[j]
    }
    assert {(8, 4), (21, 6), (34, 3)} <= places
    wrong = lines_of(out / "outliers.csv")[1:]
    assert ["2020-01-08", "c", "999"] in [line[:3] for line in wrong]
    header, *intervals = lines_of(out / "intervals.csv")
    assert header == ["row", "column", "was", "replacement", "error", "lower", "upper"]
    assert len(intervals) == len(places) == len(wrong) + 2
    for row, column, was, *numbers in intervals:
        value, error, lower, upper = map(float, numbers)
        assert lower < value < upper
        assert error > 0
        # What the file says of the replaced cell.
        line = next(line for line in after if line[0] == row)
        assert float(line[names.index(column)]) == value
        assert was in ("", "12a") or (row, column) in {(each[0], each[1]) for each in wrong}


def test_a_table_with_decimal_commas_keeps_them(tmp_path):
    rng = np.random.default_rng(6)
    cells = noisy_table(rng)
    rows = [
        [
            *(each.replace(".", ",") for each in row[:4]),
            f"1.{row[4].zfill(6).replace('.', ',')}",
            row[5].replace(".", ",") + "%",
        ]
        for row in cells
    ]
    rows[3][0], rows[9][5] = "", "n/a"
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text("\n".join(";".join(row) for row in [list("abcdef"), *rows]))
    said = output_of(0, "pca", path, "--out", out)
    assert "decimal commas in columns 'a', 'b', 'c', 'd', 'e', 'f'" in said
    assert "thousands separators in column 'e'; per cent signs in column 'f'" in said
    header, *lines = (line.split(";") for line in (out / "cleaned.csv").read_text().splitlines())
    assert header == list("abcdef")
    assert "," in lines[3][0]
    assert float(lines[3][0].replace(",", ".")) == pytest.approx(float(cells[3][0]), abs=1.0)
    assert lines[9][5].endswith("%")
    assert float(lines[9][5][:-1].replace(",", ".")) == pytest.approx(float(cells[9][5]), abs=1.0)
    assert lines[0] == rows[0]


def test_an_excel_table_is_cleaned(tmp_path):
    cells = np.array(noisy_table(np.random.default_rng(10)), float)
    # A copy: older versions of pandas write into the array itself.
    frame = pd.DataFrame(cells.copy(), columns=list("abcdef"))
    frame.insert(0, "day", pd.date_range("2020-01-01", periods=len(frame)))
    frame.loc[4, "c"] = 5000.0
    frame.loc[6, "d"] = np.nan
    path, out = tmp_path / "table.xlsx", tmp_path / "out"
    frame.to_excel(path, index=False)
    output_of(0, "pca", path, "--out", out)
    after = pd.read_csv(out / "cleaned.csv")
    assert after["day"].tolist()[:2] == ["2020-01-01", "2020-01-02"]
    assert abs(after.loc[4, "c"] - cells[4, 2]) < 1
    assert abs(after.loc[6, "d"] - cells[6, 3]) < 1
    assert ["2020-01-05", "c", "5000"] in [line[:3] for line in lines_of(out / "outliers.csv")]


def test_names_and_labels_are_not_run_by_spreadsheets(tmp_path):
    cells = np.array(noisy_table(np.random.default_rng(11)), float) - 20
    names = ["=a", "+b", "-c", "@d", "-1", "f"]
    frame = pd.DataFrame(cells, columns=names)
    frame.insert(0, "who", [f"={k}+1" for k in range(len(frame))])
    frame.loc[4, "=a"] = 5000.0
    path, out = tmp_path / "table.csv", tmp_path / "out"
    frame.to_csv(path, index=False)
    output_of(0, "pca", path, "--header", "--out", out)
    safe = ["'=a", "'+b", "'-c", "'@d", "-1", "f"]
    assert lines_of(out / "cleaned.csv")[0] == ["who", *safe]
    assert lines_of(out / "cleaned.csv")[1][0] == "'=0+1"
    assert ["'=4+1", "'=a", "5000.0"] in [line[:3] for line in lines_of(out / "outliers.csv")]
    assert [line[0] for line in lines_of(out / "columns.csv")] == ["column", *safe]
    book = tmp_path / "table.xlsx"
    frame.to_excel(book, index=False)
    sheet = openpyxl.load_workbook(book)
    for row, cell in enumerate(sheet.active["A"][1:]):
        cell.value, cell.data_type = f"={row}+1", "s"
    sheet.active["B1"].data_type = "s"
    sheet.save(book)
    output_of(0, "pca", book, "--header", "--out", out)
    header, first, *_ = lines_of(out / "cleaned.csv")
    assert header[1:] == safe
    assert first[0] == "'=0+1"
    # Numbers are what they are, of either sign.
    np.testing.assert_allclose(np.array(first[1:], float), cells[0])


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"), (" @sum(a)", "' @sum(a)"), ("-3", "-3"), ("+1,5", "+1,5"), ("-", "-"),
        ("-5 %", "-5 %"), ("-1e-5", "-1e-5"), ("-cmd", "'-cmd"), ("", ""), ("a=b", "a=b"), (7, 7),
    ],
)  # fmt: skip
def test_what_is_marked_as_text(cell, written):
    assert harmless(cell) == written


def test_options_of_pca(tmp_path):
    rng = np.random.default_rng(7)
    path, out = tmp_path / "table.csv", tmp_path / "out"
    rows = [[str(k), *row] for k, row in enumerate(noisy_table(rng))]
    rows[4][3] = "-500"
    path.write_text("\n".join(",".join(row) for row in [["id", *"abcdef"], *rows]))
    output_of(0, "pca", path, "--drop", "id", "--components", 3, "--out", out)
    assert json.loads((out / "summary.json").read_text())["components"] == 3
    assert lines_of(out / "components.csv")[0] == ["component", *"abcdef"]
    cleaned = lines_of(out / "cleaned.csv")
    assert cleaned[1][0] == "0"
    assert abs(float(cleaned[5][3]) - 20) < 30
    run("pca", path, "--only", "a,b,c,e", "--max-components", 1, "--squared", "--out", out)
    assert json.loads((out / "summary.json").read_text())["components"] <= 1
    assert lines_of(out / "outliers.csv") == [["row", "column", "was", "should be", "error"]]
    assert lines_of(out / "cleaned.csv")[5][3] == "-500"
    output_of(1, "pca", path, "--drop", "id", "--max-seconds", 0, "--out", out)
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"


def test_nonnegative_components(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 1, (40, 2)) @ rng.uniform(0, 1, (2, 10))
    truth[3, 4] = 30.0
    np.save(tmp_path / "table.npy", truth)
    out = tmp_path / "out"
    run(
        "pca",
        tmp_path / "table.npy",
        "--nonnegative",
        "--no-centre",
        "--components",
        2,
        "--out",
        out,
    )
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rank"] == 2
    scores = np.loadtxt(out / "scores.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    assert np.all(scores >= 0)
    assert ["4", "column 5", "30"] in [line[:3] for line in lines_of(out / "outliers.csv")]


def test_an_answer_that_the_data_do_not_support_is_written_with_exit_code_1(tmp_path):
    path, out = tmp_path / "table.csv", tmp_path / "out"
    np.savetxt(path, np.random.default_rng(0).standard_normal((60, 5)), delimiter=",")
    result = run("pca", path, "--out", out)
    assert result.exit_code == 1, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert f"The verdict is {summary['status']}: the results are unreliable" in result.output
    assert summary["status"] in ("NOT_IDENTIFIABLE", "NOT_CONVERGED")
    assert summary["status"] in (out / "report.html").read_text()
    assert (out / "cleaned.csv").exists()
    assert "1 if they do not" in " ".join(run("--help").output.split())


def test_rows_without_values_are_named_and_filled(tmp_path):
    rng = np.random.default_rng(8)
    rows = [[f"d{k}", *row] for k, row in enumerate(noisy_table(rng))]
    rows[3][1:] = [""] * 6
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text("\n".join(",".join(row) for row in [["day", *"abcdef"], *rows]))
    said = output_of(0, "pca", path, "--out", out)
    assert (
        "There are no values in line 5 (d3) of table.csv; typical values of the columns are "
        "filled in." in said
    )
    assert "doubtful rows line 5 (d3)" in said
    means = [float(line[1]) for line in lines_of(out / "columns.csv")[1:]]
    np.testing.assert_allclose(
        [float(v) for v in lines_of(out / "cleaned.csv")[4][1:]], means, rtol=1e-6
    )
    assert "line 5 (d3)" in (out / "report.html").read_text()


def test_complete_fills_a_table(tmp_path):
    rng = np.random.default_rng(9)
    cells = noisy_table(rng)
    truth = np.array(cells, float)
    hidden = rng.random(truth.shape) < 0.25
    rows = [
        ["" if hidden[i, j] else cell for j, cell in enumerate(row)] for i, row in enumerate(cells)
    ]
    known = np.argwhere(~hidden)[17]
    rows[known[0]][known[1]] = "-700"
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text("\n".join(",".join(row) for row in [list("abcdef"), *rows]))
    output_of(0, "complete", path, "--components", 2, "--out", out)
    completed = np.array(lines_of(out / "completed.csv")[1:], float)
    assert np.median(np.abs(completed - truth)[hidden]) < 0.2
    assert ["-700"] in [line[2:3] for line in lines_of(out / "outliers.csv")]
    assert len(lines_of(out / "intervals.csv")) > hidden.sum()
    assert json.loads((out / "summary.json").read_text())["holes"] == hidden.sum()
    page = (out / "report.html").read_text()
    assert page.count("<img") == 2
    assert 'id="cells"' in page


def test_complete_predicts_by_name(tmp_path):
    rng = np.random.default_rng(1)
    levels, tastes = rng.normal(3, 0.5, 30), rng.standard_normal((50, 2))
    truth = levels[:, None] + rng.standard_normal((30, 2)) @ tastes.T * 0.5
    ratings, asked = tmp_path / "ratings.csv", tmp_path / "asked.csv"
    chosen = [
        (i, j) for i in range(30) for j in range(50) if rng.random() < 0.6 and (i, j) != (3, 7)
    ]
    rows = [f"u{i},m{j},{truth[i, j] + 0.05 * rng.standard_normal():.3f}" for i, j in chosen]
    rows[5] = rows[5].rsplit(",", 1)[0] + ",90"
    ratings.write_text("\n".join(["user,item,rating", *rows, *rows[:2]]))
    asked.write_text("user,item\nu3,m7\nu99,m7\nu0,mX\n")
    out = tmp_path / "out"
    said = output_of(0, "complete", ratings, "--predict", asked, "--out", out)
    header, both, column, row = lines_of(out / "predictions.csv")
    assert header == ["user", "item", "rating", "error", "lower", "upper", "from"]
    assert [line[-1] for line in (both, column, row)] == [
        "row and column",
        "column alone",
        "row alone",
    ]
    value, error, lower, upper = map(float, both[2:6])
    assert abs(value - truth[3, 7]) < 0.3
    assert lower < value < upper
    assert float(column[3]) > 2 * error
    assert "no entry of 'u99' is known; the column effect is predicted" in said
    assert "2 values repeated for the same 'user' and 'item'" in said
    assert "FILE" not in said
    wrong = lines_of(out / "outliers.csv")
    assert wrong[0] == ["user", "item", "was", "should be", "error"]
    name = rows[5].split(",")
    assert [*name[:2], 90.0] in [[a, b, round(float(was), 6)] for a, b, was, *_ in wrong[1:]]
    asked.write_text("user,item\nu99,mX\n")
    columns = ("--columns", "user,item,rating")
    said = refusal_of("complete", ratings, *columns, "--predict", asked, "--out", out)
    assert "asked.csv contains no known user or item" in said
    said = output_of(0, "complete", ratings, *columns, "--components", 2, "--out", out)
    assert "in a file with the columns user and item, and add --predict FILE" in said
    assert lines_of(out / "row_factors.csv")[0] == ["row", "effect", "factor 1", "factor 2"]


def test_cp_and_nnls(tensor_file, tmp_path):
    out = tmp_path / "cp"
    output_of(0, "cp", tensor_file, "--rank", 3, "--out", out)
    header, *wrong = (out / "outliers.csv").read_text().splitlines()
    assert header == "mode 0,mode 1,mode 2,was,should be"
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
    assert run("pca", table_file[0], "--out", out).exit_code == 0
    written = {file.name for file in out.iterdir()}
    assert set(json.loads((out / "summary.json").read_text())["files"]) == written
    assert all(_OWN.fullmatch(name) for name in written)
    # Of the reader's own: one of them under a name that lemmax writes, too.
    for name in ("notes.txt", "predictions.csv"):
        (out / name).write_text("mine")
    said = output_of(0, "cp", tensor_file, "--rank", 3, "--out", out)
    after = {file.name for file in out.iterdir()}
    assert {"notes.txt", "predictions.csv", "cleaned.npy", "factor2.csv"} <= after
    assert not after & {"cleaned.csv", "scores.csv", "components.csv", "intervals.csv"}
    assert "of an earlier run: cleaned.csv, columns.csv, components.csv" in said
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
    assert "use --robust" in output_of(0, *command)
    assert "--robust" not in output_of(0, *command, "--robust")


def test_saving_to_a_folder_that_is_not_there_names_the_path(tmp_path):
    path = tmp_path / "no" / "model.safetensors"
    with pytest.raises(FileNotFoundError, match=f"{path} cannot be written: there is no folder"):
        RobustPCA().save(path)
