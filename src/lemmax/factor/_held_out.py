"""Held-out cells, and how well a fit without them predicts them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._calibration import calibrated
from ._cells import AbstractCells
from ._judge import Judgement, uncertainty_factors
from ._sweeps import Model


class Aside(NamedTuple):
    """Held-out cells, all arrays at the cells and NaN elsewhere."""

    chosen: np.ndarray
    residual: np.ndarray
    """Standardised."""
    error: np.ndarray
    """The same of a fit with the number of components that was chosen by them."""
    variance: np.ndarray
    """Of that error, as this fit has it."""
    away: np.ndarray
    """The residual if the median of the column is the prediction."""

    @classmethod
    def none(cls, cells: AbstractCells) -> "Aside":
        """No cell is held out."""
        nothing = np.full(cells.values.shape, np.nan)
        return cls(np.zeros(cells.values.shape, bool), nothing, nothing, nothing, nothing)

    def joined(self, other: "Aside") -> "Aside":
        """Both, of different cells."""
        parts = zip(self[1:], other[1:], strict=True)
        both = (np.where(other.chosen, theirs, own) for own, theirs in parts)
        return Aside(self.chosen | other.chosen, *both)

    def with_errors(self, other: "Aside") -> "Aside":
        """Errors of another fit, where it has some."""
        return self._replace(
            error=np.where(other.chosen, other.residual, self.error),
            variance=np.where(other.chosen, other.variance, self.variance),
        )

    def scores(self) -> np.ndarray:
        """Sizes of the errors in standard errors of the fit that has not seen the cells.

        Holes of the table are to the fit of all cells what held-out cells are to this one.
        """
        return np.abs(self.error) / np.sqrt(self.variance)


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """How well held-out cells are predicted; outliers are left out."""

    count: int
    error: float
    """Typical error (1.4826 median absolute errors), in units of the columns."""
    median_error: float
    """The same if medians of the columns are the predictions."""
    explained: float
    """Share of the variance around one number for each column that is predicted: the median, or the
    mean if that is better. Large errors are clipped."""
    coverage: float
    """Share of the cells in their 90 % interval, calibrated on other cells."""
    gain: float
    """By how much squared errors are smaller than those of these numbers, in standard errors."""
    by_column: np.ndarray
    """The share of the variance around its median that is predicted in each column; NaN if few of
    its cells were held out."""

    @property
    def helps(self) -> bool:
        """Whether cells are predicted better than by one number for each column, significantly."""
        return bool(self.count >= constants.FEW and self.gain > constants.SURELY)


def measured(cells: AbstractCells, model: Model, chosen: np.ndarray) -> Aside:
    """Errors of a model at cells that it has not seen."""
    values = cells.values[chosen]
    residual = values - cells.products_at(model.left, model.right_factor, chosen)
    noise = np.broadcast_to(cells.of_columns(model.variance), chosen.shape)[chosen]
    variance = noise / cells.weights[chosen] + sum(
        cells.products_at(*factors, chosen) for factors in uncertainty_factors(model)
    )
    nothing = np.full(chosen.shape, np.nan)
    away, error, spread = nothing.copy(), nothing.copy(), nothing
    away[chosen], error[chosen], spread[chosen] = values, residual, variance
    return Aside(chosen, error, error, spread, away)


def summarised(
    cells: AbstractCells, aside: Aside, scores: np.ndarray, verdict: Judgement, *, own: bool
) -> HeldOut:
    """The summary for the user; `own` is whether columns have noise of their own."""
    kept = aside.chosen & ~verdict.wrong
    count = int(kept.sum())
    if not count:
        return HeldOut(0, np.nan, np.nan, np.nan, np.nan, np.nan, np.full(cells.shape[1], np.nan))
    residual, away = np.abs(aside.residual[kept]), np.abs(aside.away[kept])
    from_mean = np.abs(cells.values - _means_of_others(cells))[kept]
    unexplained, total, around_mean = (
        np.minimum(each, constants.CLIPPED) ** 2 for each in (residual, away, from_mean)
    )
    # The median of a column of zeros and ones is one of them, and its mean predicts better.
    total = min(total, around_mean, key=np.sum)
    gains = total - unexplained
    spread = float(np.std(gains)) * np.sqrt(count)
    sums = float(np.sum(unexplained)), float(np.sum(total))
    return HeldOut(
        count=count,
        error=constants.NORMAL * float(np.median(residual)),
        median_error=constants.NORMAL * float(np.median(away)),
        explained=1 - sums[0] / sums[1] if sums[1] > 0 else float(sums[0] == 0),
        coverage=_covered(cells, scores, np.where(aside.chosen, verdict.counts, 0.0), own),
        gain=_in_units(float(np.sum(gains)), spread),
        by_column=_by_column(cells, aside, kept),
    )


def _by_column(cells: AbstractCells, aside: Aside, kept: np.ndarray) -> np.ndarray:
    count, unexplained, total = (
        cells.total_by_column(np.where(kept, np.minimum(np.abs(each), constants.CLIPPED) ** 2, 0.0))
        for each in (np.ones_like(aside.away), aside.residual, aside.away)
    )
    explained = 1 - np.divide(unexplained, total, out=np.full_like(total, np.nan), where=total > 0)
    return np.where(count >= constants.FEW, explained, np.nan)


def _means_of_others(cells: AbstractCells) -> np.ndarray:
    """At the cells: the mean of the other cells of the column, with large ones clipped."""
    clipped = np.where(
        cells.known, np.clip(cells.values, -constants.CLIPPED, constants.CLIPPED), 0.0
    )
    sums, counts = (cells.total_by_column(each) for each in (clipped, 1.0 * cells.known))
    others = np.maximum(cells.of_columns(counts) - 1, 1)
    return (cells.of_columns(sums) - clipped) / others


def _in_units(total: float, spread: float) -> float:
    """A sum in its standard errors; infinite if it is certain."""
    return total / spread if spread > 0 else float(np.copysign(np.inf, total) if total else 0.0)


def _covered(cells: AbstractCells, scores: np.ndarray, counts: np.ndarray, own: bool) -> float:
    """Each half of the cells in intervals that the other half has calibrated."""
    place = np.cumsum((counts > 0).ravel()).reshape(counts.shape) % 2 == 0
    nothing = np.full(counts.shape, np.nan)
    inside = 0.0
    for half in (place, ~place):
        other = np.where(half, 0.0, counts)
        if not other.any():
            continue
        calibration = calibrated(cells, np.where(other > 0, scores, 0.0), nothing, other, own=own)
        widths = calibration.width(constants.LEVEL)
        limit = np.broadcast_to(cells.of_columns(widths), counts.shape)
        inside += float(np.sum(counts, where=half & (scores <= limit)))
    return inside / float(np.sum(counts)) if np.any(counts) else np.nan
