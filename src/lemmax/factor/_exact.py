"""Tables without noise: least squares on the right cells, and whether that is proved.

The start is a fit that has not seen some of the cells. If least squares on what is right among the
others end at rounding errors, and predict most of the unseen cells to rounding errors, too, the
table is exact but for its wrong cells: no other explanation would predict cells it has not seen.
"""

from typing import NamedTuple

import numpy as np

from ._cells import AbstractCells
from ._sweeps import Model, Posterior, Setting, packed, turned, unpacked

# A table may be exact if the median residual at cells kept aside is below this part of a unit: what
# is not exact costs some sweeps then, and no more. (Of 129 real tables the smallest is .024; of
# exact ones with up to 30 % wrong cells it is .005, of those with 20 rows .09.)
_NEARLY = 0.1
_SWEEPS = 300
# The search ends if so many sweeps have not brought the median residual down to this part.
_PATIENCE, _PROGRESS = 40, 0.5
# Cells count if their residual is below so many medians.
_BULK = 6.0
# Residuals this small, in units of their column, are rounding errors.
ROUNDING = 1e-9
_COLLAPSED = 1e-13
# Cells with residuals up to this are polished, until so many sweeps in turn bring no progress.
_NEARLY_ROUNDING, _POLISH = 1e-5, 3
# The noise of an exact table as a model: small, but rows of few cells have regular equations.
_NOISE = 1e-7
# This share of the unseen cells, and so many of them, must be predicted.
_SHARE, _LEAST = 0.5, 8
_RIDGE = 1e-14
# Levels of the annealing, and how often rows and columns are annealed.
_LEVELS, _ROUNDS = 40, 2
# Rows and columns of which less is explained may have been left behind.
_MOSTLY = 0.6
# So much of a column must be explained if it is to count.
_COLUMN = 0.5


class Exact(NamedTuple):
    """Factors of a table without noise, in standardised units."""

    left: np.ndarray
    right: np.ndarray
    explained: np.ndarray
    """At the cells: which are right, to rounding errors."""
    sweeps: int


def exact(
    cells: AbstractCells, model: Model, aside: np.ndarray, residual_aside: np.ndarray
) -> Exact | None:
    """The exact table near a model that has not seen the cells kept aside, if there is one."""
    if not np.any(cells.values):  # every column is one number
        return Exact(model.left, np.zeros_like(model.right_factor), cells.known, 0)
    # A cell like most of its column proves nothing: it is explained by the location alone.
    unseen = aside & (np.abs(cells.values) > ROUNDING)
    if np.sum(unseen) < _LEAST or np.median(np.abs(residual_aside[unseen])) > _NEARLY:
        return None
    fit = _Refinement(cells, model)
    fit.run(cells.known & ~aside)
    if np.mean(fit.sizes()[unseen] <= ROUNDING) < _SHARE:
        return None
    for _ in range(_ROUNDS):
        # Rows that the bulk has left behind: once the columns are known, each is a regression.
        lost = fit.lost()
        if not any(lost):
            break
        for rows in (True, False):
            if lost[not rows]:
                fit.anneal(rows)
    fit.polish()
    return Exact(fit.left, fit.right, cells.known & (fit.sizes() <= ROUNDING), fit.sweeps)


def exact_model(model: Model, found: Exact, setting: Setting) -> Model:
    """The same as a model: factors without uncertainty, noise of rounding errors."""
    rank, none = found.right.shape[1] - 1 - model.effects, np.zeros
    rows = np.delete(found.left, rank, axis=1)
    columns = found.right[:, : rank + 1]
    same = model._replace(
        rows=Posterior(rows, none((*rows.shape, rows.shape[1]))),
        columns=Posterior(columns, none((*columns.shape, columns.shape[1]))),
        variance=np.full(len(columns), _NOISE**2),
        loading_precision=np.ones(rank),
        right=found.explained.astype(np.float64),
    )
    return turned(same, setting)


def extended(cells: AbstractCells, model: Model, found: Exact) -> Exact:
    """The exact rows of a table, from columns that some of its rows have told."""
    fit = _Refinement(cells, model)
    fit.left = np.zeros((cells.shape[0], found.left.shape[1]))
    fit.left[:, fit.rank] = 1.0
    fit.right = found.right
    fit.anneal(rows=True)
    return Exact(fit.left, fit.right, cells.known & (fit.sizes() <= ROUNDING), found.sweeps)


def determined(cells: AbstractCells, found: Exact, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Which rows and which columns have more right cells than unknowns.

    Right cells count only in columns (rows) that are determined themselves. A column of which most
    is wrong is not: whole numbers agree by chance with what has nothing to do with them.
    """
    right = found.explained.astype(np.float64)
    rows = np.ones(cells.shape[0], bool)
    known = cells.total_by_column(cells.known.astype(np.float64))
    columns = cells.total_by_column(right) >= _COLUMN * known
    while True:
        by_row = cells.row_sums(right, columns[:, None].astype(np.float64))[:, 0]
        by_column = cells.column_sums(right, rows[:, None].astype(np.float64))[:, 0]
        new_rows = rows & (by_row > model.rank + model.effects)
        new_columns = columns & (by_column > model.rank + 1)
        if np.array_equal(new_rows, rows) and np.array_equal(new_columns, columns):
            return rows, columns
        rows, columns = new_rows, new_columns


class _Refinement:
    """Alternating least squares that change factors in place."""

    def __init__(self, cells: AbstractCells, model: Model):
        self.cells, self.rank = cells, model.rank
        self.left, self.right = model.left.copy(), model.right_factor.copy()
        # One column of each factor is 1: the location has no scores, a row effect no loadings.
        self._of_rows = np.delete(np.arange(self.left.shape[1]), model.rank)
        self._of_columns = np.arange(model.rank + 1)
        self.sweeps = 0

    def residual(self) -> np.ndarray:
        return self.cells.values - self.cells.products(self.left, self.right)

    def sizes(self) -> np.ndarray:
        return np.abs(self.residual())

    def run(self, allowed: np.ndarray) -> None:
        """Rows and columns in turn, on the bulk of the residuals, which shrinks with them."""
        best, since = np.inf, 0
        for _ in range(_SWEEPS):
            self.sweeps += 1
            for rows in (True, False):
                residual = self.residual()
                sizes = np.abs(residual)
                level = max(_BULK * float(np.median(sizes[allowed])), _COLLAPSED)
                self._step(residual, (allowed & (sizes <= level)).astype(np.float64), rows)
            self._balance()
            median = float(np.median(self.sizes()[allowed]))
            if median <= _COLLAPSED:
                break
            best, since = (median, 0) if median < _PROGRESS * best else (best, since + 1)
            if since >= _PATIENCE:
                break

    def polish(self) -> None:
        """Least squares on all cells that are nearly explained, until the last of them is."""
        allowed = self.cells.known & (self.sizes() <= _NEARLY_ROUNDING)
        worst, since = np.inf, 0
        while since < _POLISH:
            self.sweeps += 1
            for rows in (True, False):
                self._step(self.residual(), allowed.astype(np.float64), rows)
            self._balance()
            before, worst = worst, float(np.max(self.sizes()[allowed], initial=0.0))
            if worst <= _COLLAPSED:
                break
            since = 0 if worst < _PROGRESS * before else since + 1

    def lost(self) -> tuple[bool, bool]:
        """Whether there are rows, and columns, of which less than most is explained."""
        explained = (self.sizes() <= ROUNDING) * self.cells.known
        sums = (self.cells.row_sums, self.cells.column_sums)
        ones = (np.ones((size, 1)) for size in reversed(self.cells.shape))
        known, right = 1.0 * self.cells.known, 1.0 * explained
        rows, columns = (
            bool(np.any(total(right, one) < _MOSTLY * total(known, one)))
            for total, one in zip(sums, ones, strict=True)
        )
        return rows, columns

    def anneal(self, rows: bool) -> None:
        """Rows (or columns) alone, from a loss in which nearly all cells count to a sharp one."""
        for level in np.geomspace(1.0, _COLLAPSED, _LEVELS):
            residual = self.residual()
            self._step(residual, self.cells.known / (1 + (residual / level) ** 2), rows)

    def _step(self, residual: np.ndarray, weights: np.ndarray, rows: bool) -> None:
        """Add what weighted least squares find in the residual."""
        if rows:
            changed, own, design = self.left, self._of_rows, self.right[:, self._of_rows]
            sums = self.cells.row_sums
        else:
            changed, own, design = self.right, self._of_columns, self.left[:, self._of_columns]
            sums = self.cells.column_sums
        size = design.shape[1]
        if not size:
            return
        gram = unpacked(sums(weights, packed(design[:, :, None] * design[:, None, :])), size)
        ridge = _RIDGE * np.trace(gram, axis1=1, axis2=2) + np.finfo(float).tiny
        gram += ridge[:, None, None] * np.eye(size)
        shift = sums(weights * residual, design)
        changed[:, own] += np.linalg.solve(gram, shift[..., None])[..., 0]

    def _balance(self) -> None:
        """Orthonormal scores: the next normal equations are as well conditioned as can be."""
        if self.rank:
            basis, triangle = np.linalg.qr(self.left[:, : self.rank])
            size = np.sqrt(len(self.left))
            self.left[:, : self.rank] = basis * size
            self.right[:, : self.rank] = self.right[:, : self.rank] @ triangle.T / size
