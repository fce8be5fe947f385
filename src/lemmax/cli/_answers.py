"""Output of the cells of a table: replaced cells, outliers, the residual map."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import page, plots
from .._columns import Spelling
from ._outcome import Outcome, shortest
from ._reading import TableFile

WRONG = ("was", "should be", "error")
"""Columns that describe outliers."""
INTERVAL = ("error", "lower", "upper")
LEVEL = 0.9
"""Level of the intervals."""
# Number of outliers listed on the page, and of rows linked from the map.
_SHOWN, _LINKED = 200, 12


class Replaced(NamedTuple):
    """Cells that were missing or outliers, row by row, and their new values."""

    rows: np.ndarray
    columns: np.ndarray
    wrong: np.ndarray
    """True for outliers, False for missing cells."""
    values: np.ndarray
    errors: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def only(self, chosen: np.ndarray) -> "Replaced":
        """A subset of the cells."""
        return Replaced(*(each[chosen] for each in self))


def tell_verdict(outcome: Outcome, model: Any, *names: Callable[[int], str]) -> None:
    """Show the verdict of `recover` on the screen and on the page, with its plot.

    Rows and columns have the names of the file; positions of a tensor have none.
    """
    if hasattr(model, "report_"):
        outcome.report(model.report_, *names)
        return
    found = getattr(model, "recovery_", None)
    if found is None:  # no components
        line = f"{model.status_}: there are no components; noise {model.noise_:.3g}."
        outcome.say(line)
        facts = {"status": model.status_, "rank": 0, "noise": model.noise_}
        outcome.facts({**facts, "seconds": outcome.seconds}, line)
        return
    outcome.verdict(found.named(*names) if names else found)
    outcome.picture(
        plots.recovery(found), "Rank and outliers", "Sizes of the terms and of the residuals."
    )


def write_replaced(outcome: Outcome, name: str, table: TableFile, replaced: Replaced) -> None:
    """Write the table with some cells replaced, the list of these, and the outliers."""
    whole = table.whole
    assert whole is not None
    columns = list(whole.cells)
    for k, (place, spelling) in enumerate(zip(whole.fitted, whole.spellings, strict=True)):
        some = replaced.only(replaced.columns == k)
        if len(some.rows):
            column = _texts(columns[place])
            column[some.rows] = [spelling.write(value) for value in some.values]
            columns[place] = column
    rows = zip(*(_texts(column).tolist() for column in columns), strict=True)
    outcome.listing(name, whole.names, rows, whole.separator)
    labels, names = table.row_labels(), table.column_labels()
    places = list(zip(replaced.rows.tolist(), replaced.columns.tolist(), strict=True))
    numbers = zip(*(each.tolist() for each in replaced[3:]), strict=True)
    outcome.listing(
        "intervals.csv",
        ["row", "column", "was", "replacement", *INTERVAL],
        (
            [labels[i], names[j], table.was(i, j), *map(shortest, each)]
            for (i, j), each in zip(places, numbers, strict=True)
        ),
    )
    bad = replaced.only(replaced.wrong)
    outcome.listing(
        "outliers.csv",
        ["row", "column", *WRONG],
        (
            [labels[i], names[j], table.was(i, j), shortest(value), shortest(error)]
            for i, j, _, value, error in zip(*(each.tolist() for each in bad[:5]), strict=True)
        ),
    )


def _texts(column: np.ndarray) -> np.ndarray:
    """A copy as text."""
    if column.dtype == object:
        return column.copy()
    texts = np.empty(len(column), object)
    texts[:] = [Spelling().write(value) for value in column.tolist()]
    return texts


def show_cells(
    outcome: Outcome, table: TableFile, standard: np.ndarray, replaced: Replaced
) -> None:
    """Show all cells in a map, with links to the outliers.

    Parameters
    ----------
    outcome, table
    standard : array of the shape of the table
        Residuals in standard errors; NaN for missing cells.
    replaced : Replaced
    """
    wrong = np.zeros(standard.shape, bool)
    bad = replaced.only(replaced.wrong)
    wrong[bad.rows, bad.columns] = True
    figure = plots.residual_map(standard, wrong, table.labels, table.columns, first=1)
    words = (
        "Residual of every cell, in standard errors. Pale colours are noise. Outliers are red if "
        "they are too large and blue if too small. Grey cells are missing."
    )
    links = _links(table, wrong, _furthest(standard, replaced))
    outcome.picture(figure, "Cells", words, *links, name="cells")


def list_wrong(
    outcome: Outcome, table: TableFile, standard: np.ndarray, replaced: Replaced
) -> None:
    """List the largest outliers in a table with an anchor for every row."""
    bad = _furthest(standard, replaced)
    if not len(bad.rows):
        return
    names = table.column_labels()
    rows, anchors, seen = [], [], set()
    for i, j, _, value, error, lower, upper in zip(*(each.tolist() for each in bad), strict=True):
        bounds = f"{lower:.4g} to {upper:.4g}" if np.isfinite(error) else "unknown"
        place = page.link(table.row_name(i), "#cells")
        size = f"{standard[i, j]:.3g}" if 0 < error < np.inf else ""
        rows.append([place, names[j], table.was(i, j), f"{value:.4g}", bounds, size])
        # The first cell of a row is the target of links to the row.
        anchors.append("" if i in seen else f"row-{i + 1}")
        seen.add(i)
    header = ("row", "column", "was", "should be", "90 % interval", "standard errors off")
    more = int(np.sum(replaced.wrong)) - len(rows)
    caption = f"The {len(rows)} largest; {more} more are in outliers.csv."
    shown = page.table(header, rows, caption if more else "", anchors)
    outcome.blocks.append(page.section("Outlying cells", shown, name="wrong"))


def _furthest(standard: np.ndarray, replaced: Replaced) -> Replaced:
    """The outliers that the page lists, the largest first."""
    bad = replaced.only(replaced.wrong)
    sizes = np.abs(standard[bad.rows, bad.columns])
    return bad.only(np.argsort(-sizes, kind="stable")[:_SHOWN])


def _links(table: TableFile, wrong: np.ndarray, listed: Replaced) -> Iterable[page.Markup]:
    """Links to the listed rows with the most outliers."""
    rows = np.unique(listed.rows)
    if not len(rows):
        return []
    counts = wrong[rows].sum(axis=1)
    order = np.argsort(-counts, kind="stable")[:_LINKED]
    items: list[Any] = ["Rows with the most outliers: "]
    for place in order:
        row = int(rows[place])
        items += [page.link(table.row_name(row), f"#row-{row + 1}"), f" ({counts[place]}), "]
    items[-1] = items[-1].removesuffix(", ") + ". "
    return [page.paragraph(*items, page.link("All outliers", "#wrong"))]
