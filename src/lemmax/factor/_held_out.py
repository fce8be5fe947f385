"""Cells that were kept aside: how well a fit without them predicts them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from ._calibration import calibrated
from ._cells import AbstractCells
from ._judge import Judgement, Prediction
from ._sweeps import Model

# Residuals count at most so many units: a right cell may be far out.
_CLIPPED = 4.0
_NORMAL = 1.4826
_LEVEL = 0.9
# Cells are predicted if the gain over the medians is so many of its standard errors. (Tables of
# pure noise, 200 of five shapes: the gain is positive in 44, and as large as that in none.)
_SURELY = 2.0
# Fewer cells say nothing.
_LEAST = 8


class Aside(NamedTuple):
    """Cells that were kept aside, all arrays at the cells and NaN where nothing was kept aside."""

    chosen: np.ndarray
    residual: np.ndarray
    """Standardised."""
    error: np.ndarray
    """The same of a fit with the number of components that was chosen by them."""
    away: np.ndarray
    """The residual if the median of the column is the prediction."""

    @classmethod
    def none(cls, cells: AbstractCells) -> "Aside":
        """Nothing was kept aside."""
        nothing = np.full(cells.values.shape, np.nan)
        return cls(np.zeros(cells.values.shape, bool), nothing, nothing, nothing)

    def joined(self, other: "Aside") -> "Aside":
        """Both, of different cells."""
        parts = zip(self[1:], other[1:], strict=True)
        both = (np.where(other.chosen, theirs, own) for own, theirs in parts)
        return Aside(self.chosen | other.chosen, *both)

    def with_errors(self, other: "Aside") -> "Aside":
        """Errors of another fit, where it has some."""
        return self._replace(error=np.where(other.chosen, other.residual, self.error))

    def scores(self, predicted: Prediction) -> np.ndarray:
        """Sizes of the errors in the standard errors of the fit to all cells.

        Its intervals are to be calibrated: a fit to fewer cells may find more noise.
        """
        return np.abs(self.error) / np.sqrt(predicted.variance)


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """How well cells that were kept aside are predicted; wrong ones are left out."""

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

    @property
    def helps(self) -> bool:
        """Whether cells are predicted better than by one number for each column, surely."""
        return bool(self.count >= _LEAST and self.gain > _SURELY)


def measured(cells: AbstractCells, model: Model, chosen: np.ndarray) -> Aside:
    """Errors of a model at cells that it has not seen."""
    values = cells.values[chosen]
    residual = values - cells.products_at(model.left, model.right_factor, chosen)
    away = np.full(chosen.shape, np.nan)
    error = away.copy()
    away[chosen], error[chosen] = values, residual
    return Aside(chosen, error, error, away)


def summarised(
    cells: AbstractCells, aside: Aside, scores: np.ndarray, verdict: Judgement
) -> HeldOut:
    """What the user is told."""
    kept = aside.chosen & ~verdict.wrong
    count = int(kept.sum())
    if not count:
        return HeldOut(0, np.nan, np.nan, np.nan, np.nan, np.nan)
    residual, away = np.abs(aside.residual[kept]), np.abs(aside.away[kept])
    from_mean = np.abs(cells.values - _means_of_others(cells))[kept]
    unexplained, total, around_mean = (
        np.minimum(each, _CLIPPED) ** 2 for each in (residual, away, from_mean)
    )
    # The median of a column of zeros and ones is one of them, and its mean predicts better.
    total = min(total, around_mean, key=np.sum)
    gains = total - unexplained
    spread = float(np.std(gains)) * np.sqrt(count)
    sums = float(np.sum(unexplained)), float(np.sum(total))
    return HeldOut(
        count=count,
        error=_NORMAL * float(np.median(residual)),
        median_error=_NORMAL * float(np.median(away)),
        explained=1 - sums[0] / sums[1] if sums[1] > 0 else float(sums[0] == 0),
        coverage=_covered(cells, scores, np.where(aside.chosen, verdict.counts, 0.0)),
        gain=_in_units(float(np.sum(gains)), spread),
    )


def _means_of_others(cells: AbstractCells) -> np.ndarray:
    """At the cells: the mean of the other cells of the column, with large ones clipped."""
    clipped = np.where(cells.known, np.clip(cells.values, -_CLIPPED, _CLIPPED), 0.0)
    sums, counts = (cells.total_by_column(each) for each in (clipped, 1.0 * cells.known))
    others = np.maximum(cells.of_columns(counts) - 1, 1)
    return (cells.of_columns(sums) - clipped) / others


def _in_units(total: float, spread: float) -> float:
    """A sum in its standard errors; infinite if it is certain."""
    return total / spread if spread > 0 else float(np.copysign(np.inf, total) if total else 0.0)


def _covered(cells: AbstractCells, scores: np.ndarray, counts: np.ndarray) -> float:
    """Each half of the cells in intervals that the other half has calibrated."""
    place = np.cumsum((counts > 0).ravel()).reshape(counts.shape) % 2 == 0
    nothing = np.full(counts.shape, np.nan)
    inside = 0.0
    for half in (place, ~place):
        other = np.where(half, 0.0, counts)
        if not other.any():
            continue
        widths = calibrated(cells, np.where(other > 0, scores, 0.0), nothing, other).width(_LEVEL)
        limit = np.broadcast_to(cells.of_columns(widths), counts.shape)
        inside += float(np.sum(counts, where=half & (scores <= limit)))
    return inside / float(np.sum(counts)) if np.any(counts) else np.nan
