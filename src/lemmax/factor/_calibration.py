"""Intervals that cover what they say: quantiles of standardised errors, measured on the table."""

from typing import NamedTuple

import numpy as np
from scipy import special

from . import _constants as constants
from ._cells import AbstractCells

LEVELS = np.concatenate([np.linspace(0.05, 0.95, 19), [0.975, 0.99, 0.995, 0.999]])
_SMALLEST = 1e-12
# The scores of the table, by so many of them.
_GRID = (np.arange(200) + 0.5) / 200
# One more cell is counted of which nothing is known: Cauchy's law, by quantiles. Intervals from n
# scores need the quantile of n + 1 to cover a new one, and few scores may all be small by chance.
_UNKNOWN = np.tan(np.pi / 2 * _GRID)


class Calibration(NamedTuple):
    """Half widths of intervals, in standard errors of the model, by level and column."""

    widths: np.ndarray
    """One row for each of the levels, one column for each column of the table."""

    def width(self, level: float) -> np.ndarray:
        """For each column."""
        # Interpolated on the scale of normal quantiles, on which widths are nearly straight.
        grid, at = special.ndtri((1 + LEVELS) / 2), special.ndtri((1 + level) / 2)
        if at <= grid[0]:
            return self.widths[0] * at / grid[0]
        if at >= grid[-1]:
            return self.widths[-1] * at / grid[-1]
        high = int(np.searchsorted(grid, at))
        share = (at - grid[high - 1]) / (grid[high] - grid[high - 1])
        return (1 - share) * self.widths[high - 1] + share * self.widths[high]


def calibrated(
    cells: AbstractCells, scores: np.ndarray, aside: np.ndarray, counts: np.ndarray, *, own: bool
) -> Calibration:
    """From standardised errors of the fit, at the right cells, and of held-out cells.

    Parameters
    ----------
    cells : AbstractCells
    scores : array at the cells
        Absolute standardised errors of cells, each predicted by the others.
    aside : array at the cells
        Those of held-out cells, from a fit without them; NaN for the others.
    counts : array at the cells
        How much each counts: the probability that it is right.
    own : bool
        Whether columns have noise, and so widths, of their own.
    """
    # Where there is an error of a fit that has not seen the cell, that is the score.
    scores = np.where(np.isnan(aside), scores, aside)
    scores = np.maximum(scores, _SMALLEST)  # widths are divided by
    some = counts > 0
    chosen, likely = scores[some], counts[some]
    if not len(chosen):
        return Calibration(np.tile(special.ndtri((1 + LEVELS) / 2)[:, None], cells.shape[1]))
    if not own or scores.ndim < 2:  # columns of a list have few entries each
        widths = np.tile(_quantiles(chosen, likely, LEVELS)[:, None], cells.shape[1])
    else:
        table = np.append(_quantiles(chosen, likely, _GRID), _UNKNOWN)
        weights = np.repeat([constants.TABLE_CELLS, 1.0], len(_GRID)) / len(_GRID)
        widths = np.column_stack(
            [
                _quantiles(np.append(column, table), np.append(count, weights), LEVELS)
                for column, count in zip(scores.T, counts.T, strict=True)
            ]
        )
    kept = some & ~np.isnan(aside)
    count = float(np.sum(counts[kept]))
    if count:
        # By as much as the widths do not come from these cells already.
        part = 1 - count / float(np.sum(likely))
        column = np.broadcast_to(cells.of_columns(np.arange(cells.shape[1])), kept.shape)[kept]
        unseen, likely = aside[kept], counts[kept]
        for k in range(len(LEVELS)):
            # The fit is never worse at cells that it has seen: a ratio below 1 is chance.
            ratios = unseen / widths[k][column]
            ratio = max(1.0, float(_quantiles(ratios, likely, LEVELS[k : k + 1])[0]))
            widths[k] *= 1 + part * (ratio - 1)
    return Calibration(np.maximum.accumulate(widths, axis=0))


def _quantiles(scores: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Smallest scores up to which there is so much of the weight.

    Between the quantiles of two sets of scores there may be none: in a column of two values most
    scores are one of two numbers, and an interval a little below the larger one covers no more than
    the smaller one does.
    """
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    place = np.searchsorted(below, levels * below[-1] * (1 - 1e-12))
    return scores[order][np.minimum(place, len(order) - 1)]
