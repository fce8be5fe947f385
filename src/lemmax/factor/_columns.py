"""Location, scale and resolution of the columns of a table, robustly."""

from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._cells import AbstractCells


class Columns(NamedTuple):
    """What the columns of a table are measured by."""

    centre: np.ndarray
    scale: np.ndarray
    """Positive, also for a column that is one number."""
    resolution: np.ndarray
    """The step between values of a discrete column, in units of the scale; else 0."""


def own_units(cells: AbstractCells) -> Columns:
    """A location and a scale for every column; 0 and 1 for one without values."""
    columns = [_unit(cells.column(index)) for index in range(cells.shape[1])]
    centre, scale, step = (np.array(each, np.float64) for each in zip(*columns, strict=True))
    return Columns(centre, scale, step / scale)


def common_unit(cells: AbstractCells) -> Columns:
    """One location and one scale for all cells, as ratings have."""
    ones = np.ones(cells.shape[1])
    centre, scale, step = _unit(cells.values[cells.known])
    return Columns(centre * ones, scale * ones, step / scale * ones)


def _unit(values: np.ndarray) -> tuple[float, float, float]:
    if not len(values):
        return 0.0, 1.0, 0.0
    centre = float(np.median(values))
    away = np.abs(values - centre)
    scale = constants.NORMAL * float(np.median(away))
    if not scale:
        other = away[away > 0]
        if not len(other):
            return centre, 1.0, 0.0
        rare = np.quantile(other, constants.RARE, method="lower")
        scale = float(rare) * np.sqrt(len(other) / len(away))
    distinct, counts = np.unique(values, return_counts=True)
    step = 0.0
    if len(distinct) <= constants.DISCRETE * len(values):
        # Values that occur once may be typing errors.
        common = distinct[counts > 1]
        step = float(np.median(np.diff(common))) if len(common) > 1 else 0.0
    return centre, scale, step
