"""``lemmax fit``: what it reads, refuses, prints and writes."""

import csv
import json
import os
import signal

import numpy as np
import openpyxl
import pytest
from scipy.optimize import curve_fit

from lemmax.fit import api
from tests.commands import output_of, refusal_of

MODEL = ("--model", "y = a*exp(-b*t) + c")
START = ("--start", "a=1,b=1,c=0")


def lines_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


@pytest.fixture(scope="module")
def curve():
    """Times, data with noise, and which of the data are wrong."""
    rng = np.random.default_rng(7)
    t = np.linspace(0.0, 4.0, 40)
    y = decay(t, 2.0, 1.3, 0.5) + 0.02 * rng.standard_normal(40)
    wrong = np.arange(3, 40, 8)
    y[wrong] += 3.0
    return t.round(6), y.round(6), wrong


@pytest.fixture(scope="module")
def file(curve, tmp_path_factory):
    t, y, _ = curve
    path = tmp_path_factory.mktemp("fit") / "decay.csv"
    lines = [f"{u},{v},r{k}" for k, (u, v) in enumerate(zip(t, y, strict=True))]
    path.write_text("t,y,label\n" + "\n".join(lines) + "\n")
    return path


def test_files_and_words(curve, file, tmp_path):
    t, y, wrong = curve
    out = tmp_path / "out"
    said = output_of(0, "fit", file, *MODEL, *START, "--out", out)
    assert "FITTED" in said
    assert "outliers 5 of 40" in said
    names = {"fit.png", "fit.json", "parameters.csv", "fitted.csv", "report.html"}
    assert {path.name for path in out.iterdir()} == names
    right = np.delete(np.arange(40), wrong)
    expected, covariance = curve_fit(decay, t[right], y[right], (1, 1, 0))
    header, *rows = lines_of(out / "parameters.csv")
    assert header == ["name", "value", "standard error", "low", "high", "note"]
    assert [row[0] for row in rows] == ["a", "b", "c"]
    numbers = np.array([[float(cell) for cell in row[1:5]] for row in rows])
    np.testing.assert_allclose(numbers[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(numbers[:, 1], np.sqrt(np.diag(covariance)), rtol=1e-4)
    half = 2.0369333 * numbers[:, 1]  # Student's distribution, 32 degrees of freedom
    np.testing.assert_allclose(numbers[:, 3] - numbers[:, 0], half, rtol=1e-6)
    header, *rows = lines_of(out / "fitted.csv")
    assert header == ["t", "y", "label", "fitted", "low", "high", "residual", "outlier"]
    assert [k for k, row in enumerate(rows) if row[-1] == "yes"] == wrong.tolist()
    value, low, high, residual = np.array([[float(c) for c in row[3:7]] for row in rows]).T
    np.testing.assert_allclose(value, decay(t, *expected), rtol=1e-6)
    np.testing.assert_allclose(residual, y - value, atol=1e-12)
    assert np.all((low < value) & (value < high))
    facts = json.loads((out / "fit.json").read_text())
    assert facts["status"] == "FITTED"
    assert facts["model"] == "y = a*exp(-b*t) + c"
    assert facts["parameters"]["b"]["low"] == pytest.approx(numbers[1, 2], rel=1e-12)
    assert set(facts["files"]) == names
    page = (out / "report.html").read_text()
    assert page.count("<img") == 1
    assert "line 5 (r3)" in page
    assert (out / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_bounds_fixed_squares_level_and_sigma(curve, tmp_path):
    """Least squares with weights, of all data, beside SciPy's."""
    t, y, _ = curve
    sigma = np.linspace(1.0, 3.0, 40).round(6)
    path = tmp_path / "decay.csv"
    cells = zip(t, sigma, y, strict=True)
    path.write_text("t,s,y\n" + "\n".join(f"{a},{b},{c}" for a, b, c in cells))
    options = ("--least-squares", "--level", 0.5, "--sigma", "s", "--fixed", "c")
    bounds = ("--bounds", "a=0:10,b=1.5:")
    start = ("--start", "a=1,b=2,c=0.5")
    output_of(0, "fit", path, *MODEL, *start, *options, *bounds, "--out", tmp_path / "out")
    rows = {row[0]: row[1:] for row in lines_of(tmp_path / "out" / "parameters.csv")[1:]}
    expected, covariance = curve_fit(lambda t, a: decay(t, a, 1.5, 0.5), t, y, (1.0,), sigma=sigma)
    assert float(rows["a"][0]) == pytest.approx(expected[0], rel=1e-8)
    # A parameter at its bound counts as fitted: 38 degrees of freedom, not 39.
    error = (covariance[0, 0] * 39 / 38) ** 0.5
    assert float(rows["a"][1]) == pytest.approx(error, rel=1e-6)
    assert rows["b"] == ["1.5", "", "", "", "at its bound"]
    assert rows["c"] == ["0.5", "0.0", "0.5", "0.5", "fixed"]
    assert not any(row[-1] == "yes" for row in lines_of(tmp_path / "out" / "fitted.csv"))


def test_dates_decimal_commas_and_holes_of_a_sheet(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["day", "@people", "flow <l/s>"])
    for k in range(30):
        seen = None if k == 4 else f"{100 + 3 * 2 * k},5"
        sheet.append([f"2024-01-{k + 1:02}", "x", seen] if k != 6 else ["", "x", "5,5"])
    book.save(tmp_path / "flow.xlsx")
    model = ("--model", "'flow <l/s>' = a + b*day", "--start", "a=0,b=1")
    said = output_of(0, "fit", tmp_path / "flow.xlsx", *model, "--out", tmp_path / "out")
    assert "read as days since 2024-01-01" in said
    assert "1 row has a missing value in a column of the model: left out." in said
    header, *rows = lines_of(tmp_path / "out" / "parameters.csv")
    assert [float(row[1]) for row in rows] == pytest.approx([100.5, 6.0], rel=1e-9)
    header, *rows = lines_of(tmp_path / "out" / "fitted.csv")
    assert header[1] == "'@people"  # a spreadsheet would run it
    assert rows[6][3:] == ["", "", "", "", ""]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "flow &lt;l/s&gt;" in page
    assert "flow <l/s>" not in page
    # Where nothing was measured there is a prediction.
    assert float(rows[4][3].replace(",", ".")) == pytest.approx(124.5, rel=1e-9)
    assert rows[4][-2:] == ["", ""]


def test_several_columns_and_columns_without_names(tmp_path):
    rng = np.random.default_rng(1)
    u, v = rng.uniform(1, 2, (2, 30))
    table = np.column_stack([u, v, 2 * u * v**-1.5])
    np.save(tmp_path / "table.npy", table)
    model = ("--model", "k*c1*c2**p", "--start", "k=1,p=-1")
    said = output_of(0, "fit", tmp_path / "table.npy", *model, "--out", tmp_path / "out")
    assert "they are called c1 to c3" in said
    assert "The model is fitted to c3" in said
    assert "EXACT" in said
    values = [float(row[1]) for row in lines_of(tmp_path / "out" / "parameters.csv")[1:]]
    assert values == pytest.approx([2.0, -1.5], rel=1e-9)


def test_a_doubtful_fit_is_written_and_leaves_with_one(file, tmp_path):
    model = ("--model", "y = (a + b)*exp(-t)", "--start", "a=1,b=1")
    said = output_of(1, "fit", file, *model, "--out", tmp_path / "out")
    assert "The verdict is NOT_IDENTIFIED" in said
    rows = lines_of(tmp_path / "out" / "parameters.csv")[1:]
    assert [row[2:] for row in rows] == [["", "", "", "not determined"]] * 2
    said = output_of(1, "fit", file, *MODEL, *START, "--max-seconds", 0, "--out", tmp_path / "b")
    assert "The verdict is INTERRUPTED" in said


def test_ctrl_c_writes_what_there_is(file, tmp_path, monkeypatch):
    run = api.Search.run

    def interrupted(search, report):
        os.kill(os.getpid(), signal.SIGINT)
        run(search, report)

    monkeypatch.setattr(api.Search, "run", interrupted)
    said = output_of(130, "fit", file, *MODEL, *START, "--out", tmp_path / "out")
    assert "Interrupted: the results so far are written" in said
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["status"] == "INTERRUPTED"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ((*MODEL,), "--start a=1,b=1,c=1"),
        ((*MODEL, "--start", "a=1,b=1"), "c in the model: neither a column"),
        ((*MODEL, "--start", "a=1,b=1,c=0,d=2"), "Not in the model, but in --start: d"),
        ((*MODEL, "--start", "a=1,b=1,t=0"), "t is a column"),
        ((*MODEL, "--start", "a=1,b=x,c=0"), "--start b must be a number; got 'x'"),
        ((*MODEL, "--start", "a=0,5,b=1,c=0"), "'5' does not have this form"),
        ((*MODEL, "--start", "a=1,a=1"), "names a twice"),
        ((*MODEL, *START, "--y", "t"), "The model is for y, but --y is t"),
        (("--model", "a*T", "--start", "a=1"), "Did you mean t?"),
        (("--model", "z = a*t", "--start", "a=1"), "no column 'z' (the left"),
        (("--model", "y = a*t + e", "--start", "a=1"), "exp(1)"),
        (("--model", "y = a*exp -t", "--start", "a=1"), "exp is a function"),
        (("--model", "y = a*y", "--start", "a=1"), "cannot appear in the formula"),
        (("--model", "y = a*label", "--start", "a=1"), "contains text where numbers are needed"),
        (("--model", "y = t"), "has no parameters"),
        (("--model", "a*t*y", "--start", "a=1"), "no column of numbers besides"),
        ((*MODEL, *START, "--bounds", "a=1"), "low:high"),
        ((*MODEL, *START, "--bounds", "a=2:3"), "outside of its bounds"),
        ((*MODEL, *START, "--bounds", "a=3:2"), "above the upper one"),
        ((*MODEL, *START, "--bounds", "q=0:"), "--bounds names q, which is not a parameter"),
        ((*MODEL, *START, "--fixed", "a,b,c"), "nothing to fit"),
        ((*MODEL, *START, "--fixed", "q"), "--fixed names q"),
        ((*MODEL, *START, "--sigma", "w"), "no column 'w' (--sigma)"),
        ((*MODEL, *START, "--sigma", "t"), "must be positive"),
        ((*MODEL, *START, "--level", 95), "as in 0.95"),
        (
            ("--model", "y = a*log(t)", "--start", "a=1"),
            "not finite in line 2 (r0): use another start",
        ),
        (("--model", "y = a/(t - t)", "--start", "a=1"), "line 4 (r2) and 37 more"),
    ],
)
def test_refusals(options, part, file, tmp_path):
    said = refusal_of("fit", file, *options, "--out", tmp_path / "out")
    assert part in said
    assert not (tmp_path / "out").exists()


def test_files_of_another_command_are_replaced(file, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "scores.csv").write_text("1")
    (out / "mine.csv").write_text("1")
    (out / "summary.json").write_text('{"files": ["scores.csv", "mine.csv", "summary.json"]}')
    model = ("--model", "y = a + 0*t", "--start", "a=1")
    output_of(1, "fit", file, *model, "--out", out)
    assert not (out / "scores.csv").exists()
    assert not (out / "summary.json").exists()
    assert (out / "mine.csv").exists()
