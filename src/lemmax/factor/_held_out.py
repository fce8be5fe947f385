"""Cells that were kept aside: how well a fit without them predicts them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from ._calibration import Calibration, calibrated
from ._cells import AbstractCells
from ._judge import uncertainty_factors
from ._sweeps import Model

# Residuals count at most so many units: a right cell may be far out.
_CLIPPED = 4.0
_NORMAL = 1.4826
_LEVEL = 0.9


class Aside(NamedTuple):
    """Cells that were kept aside, all arrays at the cells and NaN where nothing was kept aside."""

    chosen: np.ndarray
    residual: np.ndarray
    """Standardised."""
    score: np.ndarray
    """The size of the residual in its standard errors."""
    away: np.ndarray
    """The residual if the median of the column is the prediction."""

    @classmethod
    def none(cls, cells: AbstractCells) -> "Aside":
        """Nothing was kept aside."""
        nothing = np.full(cells.values.shape, np.nan)
        return cls(np.zeros(cells.values.shape, bool), nothing, nothing, nothing)


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """How well cells that were kept aside are predicted; wrong ones are left out."""

    count: int
    error: float
    """Typical error (1.4826 median absolute errors), in units of the columns."""
    median_error: float
    """The same if medians of the columns are the predictions."""
    explained: float
    """Share of the variance around the medians that is predicted; large errors clipped."""
    coverage: float
    """Share of the cells in their 90 % interval, calibrated on other cells."""

    @property
    def helps(self) -> bool:
        """Whether cells are predicted better than by the medians of their columns."""
        return self.explained > 0


def measured(cells: AbstractCells, model: Model, chosen: np.ndarray) -> Aside:
    """Errors of a model at cells that it has not seen."""
    values = cells.values[chosen]
    residual = values - cells.products_at(model.left, model.right_factor, chosen)
    noise = np.broadcast_to(cells.of_columns(model.variance), chosen.shape)[chosen]
    noise = noise / cells.weights[chosen]
    variance = noise + sum(
        cells.products_at(*factors, chosen) for factors in uncertainty_factors(model)
    )
    parts = []
    for part in (residual, np.abs(residual) / np.sqrt(variance), values):
        parts.append(np.full(chosen.shape, np.nan))
        parts[-1][chosen] = part
    return Aside(chosen, *parts)


def summarised(
    cells: AbstractCells, aside: Aside, right: np.ndarray, calibration: Calibration
) -> HeldOut:
    """What the user is told."""
    kept = aside.chosen & right
    count = int(kept.sum())
    if not count:
        return HeldOut(0, np.nan, np.nan, np.nan, np.nan)
    residual, away = np.abs(aside.residual[kept]), np.abs(aside.away[kept])
    unexplained = np.sum(np.minimum(residual, _CLIPPED) ** 2)
    total = np.sum(np.minimum(away, _CLIPPED) ** 2)
    return HeldOut(
        count=count,
        error=_NORMAL * float(np.median(residual)),
        median_error=_NORMAL * float(np.median(away)),
        explained=float(1 - unexplained / total) if total > 0 else float(unexplained == 0),
        coverage=_covered(cells, aside, kept),
    )


def _covered(cells: AbstractCells, aside: Aside, kept: np.ndarray) -> float:
    """Each half of the cells in intervals that the other half has calibrated."""
    place = np.cumsum(kept.ravel()).reshape(kept.shape) % 2 == 0
    inside = 0
    for half in (kept & place, kept & ~place):
        other = kept & ~half
        if not other.any():
            continue
        nothing = np.full(aside.score.shape, np.nan)
        widths = calibrated(cells, np.where(other, aside.score, 0.0), nothing, other).width(_LEVEL)
        limit = np.broadcast_to(cells.of_columns(widths), kept.shape)
        inside += int(np.sum(aside.score[half] <= limit[half]))
    return inside / max(1, int(kept.sum()))
