"""Tables without noise: least squares on the right cells, and whether that is proved.

The start is a fit that has not seen some of the cells. If least squares on what is right among the
others end at rounding errors, and predict most of the unseen cells to rounding errors, too, the
table is exact but for its wrong cells: no other explanation would predict cells it has not seen.
"""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._cells import AbstractCells, DenseCells
from ._refinement import Refinement
from ._sweeps import Model, Posterior, Setting, turned


class Exact(NamedTuple):
    """Factors of a table without noise, in standardised units."""

    left: np.ndarray
    right: np.ndarray
    explained: np.ndarray
    """At the cells: which are right, to rounding errors."""
    sweeps: int


def exact(
    cells: AbstractCells,
    model: Model,
    aside: np.ndarray,
    residual_aside: np.ndarray,
    setting: Setting,
) -> Exact | None:
    """The exact table near a model that has not seen the held-out cells, if there is one."""
    if not np.any(cells.values):  # every column is one number
        if cells.count < cells.shape[1] + constants.FEW:
            return None
        return Exact(model.left, np.zeros_like(model.right_factor), cells.known, 0)
    # A cell like most of its column proves nothing: it is explained by the location alone.
    unseen = aside & (np.abs(cells.values) > constants.ROUNDING)
    if (
        np.sum(unseen) < constants.FEW
        or np.median(np.abs(residual_aside[unseen])) > constants.NEARLY_EXACT
    ):
        return None
    fit = Refinement(cells, model, setting)
    fit.run(cells.known & ~aside)
    fit.polish(cells.known & ~aside)
    if np.mean(fit.sizes()[unseen] <= constants.ROUNDING) < constants.HALF:
        return None
    for _ in range(constants.ROUNDS):
        # Rows that the bulk has left behind: once the columns are known, each is a regression.
        lost = fit.lost()
        if not any(lost):
            break
        for rows in (True, False):
            if lost[not rows]:
                fit.anneal(rows)
    fit.polish(cells.known)
    # Of a row that is right altogether, robust steps may have explained a part.
    for rows in (True, False):
        fit.complete(rows)
    return Exact(fit.left, fit.right, cells.known & (fit.sizes() <= constants.ROUNDING), fit.steps)


def exact_model(model: Model, found: Exact, setting: Setting) -> Model:
    """The same as a model: factors without uncertainty, noise of rounding errors."""
    rank, none = found.right.shape[1] - 1 - model.effects, np.zeros
    rows = np.delete(found.left, rank, axis=1)
    columns = found.right[:, : rank + 1]
    same = model._replace(
        rows=Posterior(rows, none((*rows.shape, rows.shape[1]))),
        columns=Posterior(columns, none((*columns.shape, columns.shape[1]))),
        variance=np.full(len(columns), constants.EXACT_NOISE**2),
        loading_precision=np.ones(rank),
        right=found.explained.astype(np.float64),
    )
    return turned(same, setting)


def extended(cells: AbstractCells, model: Model, found: Exact, setting: Setting) -> Exact:
    """The exact rows of a table, from columns that are known from some of its rows."""
    assert isinstance(cells, DenseCells)
    count, width = cells.shape
    left = np.zeros((count, found.left.shape[1]))
    left[:, model.rank] = 1.0
    # A few columns tell a row, unless too many of its cells in these are wrong.
    some = np.random.default_rng(0).permutation(width)[: constants.TELLING * left.shape[1]]
    lost = np.arange(count)
    for columns in (some, np.arange(width)):
        part = cells.part(lost, columns)
        fit = Refinement(part, model, setting, (left[lost], found.right[columns]))
        fit.anneal(rows=True)
        left[lost] = fit.left
        explained = cells.known & (
            np.abs(cells.values - left @ found.right.T) <= constants.ROUNDING
        )
        lost = np.flatnonzero(
            np.sum(explained, axis=1) <= constants.HALF * np.sum(cells.known, axis=1)
        )
        if not lost.size:
            break
    return Exact(left, found.right, explained, found.sweeps)


def determined(
    cells: AbstractCells, found: Exact, model: Model, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows and which columns have more right cells than unknowns.

    Right cells count only in columns (rows) that are determined themselves, and that other rows
    (columns) determine: a row with a component of its own explains whatever is in it. A column of
    which most is wrong is not determined: whole numbers agree by chance with what has nothing to do
    with them.
    """
    fit = Refinement(cells, model, setting, (found.left, found.right))
    of_row, of_column = (
        found.explained & (each < constants.ALONE) for each in fit.leverages(found.explained)
    )
    rows = np.ones(cells.shape[0], bool)
    known, right = (cells.total_by_column(1.0 * each) for each in (cells.known, found.explained))
    columns = right >= constants.HALF * known
    while True:
        by_row = cells.row_sums(1.0 * of_column, columns[:, None].astype(np.float64))[:, 0]
        by_column = cells.column_sums(1.0 * of_row, rows[:, None].astype(np.float64))[:, 0]
        new_rows = rows & (by_row > model.rank + model.effects)
        new_columns = columns & (by_column > model.rank + setting.centred)
        if np.array_equal(new_rows, rows) and np.array_equal(new_columns, columns):
            break
        rows, columns = new_rows, new_columns
    # Enough cells may still tell nothing of a component, where both copies of a column are missing.
    seen_rows, seen_columns = fit.seen(1.0 * found.explained)
    return rows & seen_rows, columns & seen_columns
