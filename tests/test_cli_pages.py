"""The page that a command leaves behind: its numbers, its pictures, its links."""

import csv
import json
import re

import numpy as np
import pytest

import lemmax as lm
from lemmax import page
from tests.commands import output_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def written(tmp_path):
    """A table with hostile names and labels, cleaned; the page and the folder."""
    rng = np.random.default_rng(3)
    table = 5 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    cells = [[f"{v:.3f}" for v in row] for row in table + 0.05 * rng.standard_normal(table.shape)]
    cells[11][1], cells[30][4], cells[40][2] = "400", "-70", ""
    rows = [[f"{HOSTILE}{k}", *row] for k, row in enumerate(cells)]
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text("\n".join(",".join(row) for row in [["who", HOSTILE, *"bcdef"], *rows]))
    said = output_of(0, "pca", path, "--out", out)
    return said, (out / "report.html").read_text(), out


def test_the_page_has_the_numbers_of_the_verdict(written):
    said, text, out = written
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "NOISE_LEVEL"
    shares = summary["explained_variance_ratio"]
    assert len(shares) == summary["components"]
    assert 0.9 < sum(shares) <= 1
    sentence = f"{summary['explained']:.0%} of the variance of {summary['held_out']} held-out cells"
    assert sentence in said
    assert sentence in text
    assert f"{shares[0]:.1%}" in text
    assert f"outliers: {summary['wrong']} of {summary['known']} cells" in text
    assert f"90 % intervals cover {summary['coverage']:.0%} of the held-out cells" in text
    assert text.count("<img") == 3
    assert all(f"<h2>{title}</h2>" in text for title in ("Cells", "Predictions", "Components"))
    assert re.search(r"300 inliers, each hidden and predicted", text)


def test_links_lead_to_wrong_cells_and_back(written):
    _, text, out = written
    targets = set(re.findall(r'href="#([^"]*)"', text))
    anchors = re.findall(r'id="([^"]*)"', text)
    assert {"row-12", "row-31", "wrong", "cells"} <= targets <= set(anchors)
    assert len(anchors) == len(set(anchors))
    with open(out / "outliers.csv", newline="") as file:
        wrong = list(csv.reader(file))[1:]
    assert all(line[2] in text for line in wrong)


def test_names_and_labels_are_escaped(written):
    _, text, _ = written
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;11" in text


def test_rows_of_a_table_may_have_anchors():
    text = page.table(["a"], [["1"], ["2"]], names=['"x"', ""])
    assert '<tr id="&quot;x&quot;"><td>1</td></tr><tr><td>2</td></tr>' in text


def test_a_map_shows_wrong_cells_and_holes():
    residuals = np.zeros((5, 3))
    residuals[1, 2], residuals[3, 0], residuals[4, 1] = 50.0, -50.0, np.nan
    ax = lm.plots.residual_map(residuals, np.abs(residuals) > 9, columns=list("abc")).axes[1]
    right, wrong = (image.get_array() for image in ax.images)
    assert np.argwhere(~wrong.mask).tolist() == [[1, 2], [3, 0]]
    assert wrong.compressed().tolist() == [1.0, -1.0]
    assert np.argwhere(right.mask).tolist() == [[1, 2], [3, 0], [4, 1]]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="one shape"):
        lm.plots.residual_map(residuals, np.zeros((2, 2), bool))


@pytest.mark.parametrize(("rows", "columns"), [(10_000, 12), (1000, 400), (361, 1)])
def test_a_map_of_many_rows_loses_no_wrong_cell(rows, columns):
    residuals = np.zeros((rows, columns))
    wrong = np.zeros(residuals.shape, bool)
    places = [(0, 0), (rows // 2, columns // 2), (rows - 1, columns - 1)]
    for place in places:
        residuals[place], wrong[place] = 20.0, True
    residuals[rows // 3] = np.nan
    residuals[rows // 2 + 1] = 90.0  # larger, but not wrong
    ax = lm.plots.residual_map(residuals, wrong).axes[1]
    drawn = ax.images[1].get_array()
    assert drawn.count() == 3
    # Each stands in the line of its row and the strip of its column.
    height, width = drawn.shape
    step, strip = -(-rows // height), width // columns
    found = [(i, j // strip) for i, j in np.argwhere(~drawn.mask)]
    assert found == [(row // step, column) for row, column in places]
    assert height <= 360


def test_predictions_and_components_are_drawn():
    observed = np.arange(500.0)
    figure = lm.plots.predicted_against_observed(observed, observed, np.zeros(500), "units")
    assert figure.axes[0].get_title() == "100 % of 500 cells are in their 90 % intervals"
    assert len(figure.axes[0].lines[0].get_xdata()) == 300
    figure = lm.plots.predicted_against_observed([1.0, np.nan], [9.0, 1.0], [0.1, np.inf])
    assert figure.axes[0].get_title().startswith("0 % of 1 cells")
    with pytest.raises(ValueError, match="same length"):
        lm.plots.predicted_against_observed([1.0], [1.0, 2.0], [1.0])
    figure = lm.plots.component_map([[0.0, 1.0]], [9.0], [0.0, 6.0])
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.00", "0.50"]
    with pytest.raises(ValueError, match="spreads"):
        lm.plots.component_map([[0.0, 1.0]], [9.0], [1.0])
