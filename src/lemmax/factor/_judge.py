"""Which cells are wrong, and how precisely the other cells of a row and column tell a cell."""

from typing import NamedTuple

import numpy as np
from scipy import special

from ._cells import AbstractCells
from ._sweeps import Model, packed

# Right cells of real tables have heavier tails than the normal law; Student's with so many degrees
# of freedom is between the two. (League: with 3 fewer spikes of 4 standard deviations are found,
# with 8 more right cells are called wrong; the mean F1 changes by .03 at most.)
_FREEDOM = 5.0
# Sizes of wrong cells are lognormal. The prior: as if so many were known, 8 units in the median,
# within a factor of e^.5; never narrower than e^.3.
_PRIOR, _MEDIAN, _SPREAD, _NARROWEST = 5.0, np.log(8.0), 0.5, 0.3
_WRONG, _FEWEST, _MOST = 0.05, 1e-4, 0.5
_ROUNDS = 30
# Noise may be over-estimated by the fit, but not by more than this factor.
_SMALLEST_UNIT = 0.5
# A cell that alone determines its row has no prediction by the others.
_LARGEST_LEVERAGE = 0.99


class Prediction(NamedTuple):
    """What the other cells say about each cell; all in standardised units, at the cells."""

    residual: np.ndarray
    """Value less its prediction without the cell; 0 at holes."""
    variance: np.ndarray
    """Of that prediction, the noise of the cell included."""


def predictions(cells: AbstractCells, model: Model, residual: np.ndarray) -> Prediction:
    """Every cell predicted without itself, exactly for given columns and noise."""
    from_rows, from_columns = uncertainty_factors(model)
    inside = cells.products(*from_rows)
    fitted = inside + cells.products(*from_columns)
    noise = cells.of_columns(model.variance)
    weights = cells.weights * model.right
    leverage = np.minimum(weights * inside / noise, _LARGEST_LEVERAGE)
    apart = 1 / (1 - leverage)
    noise = noise / np.where(cells.known, np.maximum(cells.weights, 1e-12), 1.0)
    return Prediction(np.where(cells.known, residual * apart, 0.0), noise + fitted * apart)


Pair = tuple[np.ndarray, np.ndarray]


def uncertainty_factors(model: Model) -> tuple[Pair, Pair]:
    """Factors of the variance of the fit at any cell: from its row, and from its column."""
    rank, size = model.rank, model.rows.mean.shape[1]
    mean, covariance = model.columns
    design = mean[:, :rank]
    if model.effects:
        design = np.hstack([design, np.ones((len(mean), 1))])
    scores = np.hstack([model.rows.mean[:, :rank], np.ones((len(model.rows.mean), 1))])
    second = scores[:, :, None] * scores[:, None, :]
    second[:, :rank, :rank] += model.rows.covariance[:, :rank, :rank]
    by_row = packed(np.asarray(model.rows.covariance)), _twice(design[:, :, None] * design[:, None])
    assert by_row[0].shape[1] == size * (size + 1) // 2
    return by_row, (packed(second), _twice(covariance))


def _twice(matrices: np.ndarray) -> np.ndarray:
    """Packed, so that products of packed matrices are traces: entries off the diagonal are twice."""
    size = matrices.shape[-1]
    above = np.triu_indices(size)
    return packed(matrices) * np.where(above[0] == above[1], 1.0, 2.0)


def wrong_cells(cells: AbstractCells, predicted: Prediction) -> np.ndarray:
    """At the cells: which are wrong, more likely than not.

    The share and the sizes of wrong cells are found together with them: a few spikes of eight
    standard deviations do not make every cell beyond four suspect, and many of four are found.
    """
    known = cells.known
    away, unit = predicted.residual[known], np.sqrt(predicted.variance[known])
    wrong = np.zeros(known.shape, bool)
    if not len(away):
        return wrong
    typical = np.median(np.abs(away) / unit) / special.stdtrit(_FREEDOM, 0.75)
    unit = unit * max(float(typical), _SMALLEST_UNIT)
    right = _student(away / unit) - np.log(unit)
    size = np.log(np.maximum(np.abs(away), np.finfo(float).tiny))
    median, spread, share = _MEDIAN, _SPREAD, _WRONG
    for _ in range(_ROUNDS):
        anything = _lognormal(size, median, spread) - np.log(2)
        odds = np.log1p(-share) + right - np.log(share) - anything
        likely = 1 / (1 + np.exp(np.clip(odds, -60, 60)))
        total = float(likely.sum())
        share = float(np.clip((total + _WRONG) / (len(away) + 1), _FEWEST, _MOST))
        median = float((likely @ size + _PRIOR * _MEDIAN) / (total + _PRIOR))
        squares = float(likely @ (size - median) ** 2 + _PRIOR * _SPREAD**2)
        spread = max(_NARROWEST, float(np.sqrt(squares / (total + _PRIOR))))
    wrong[known] = likely > 0.5
    return wrong


def _student(numbers: np.ndarray) -> np.ndarray:
    """Logarithm of the density."""
    half = (_FREEDOM + 1) / 2
    constant = special.gammaln(half) - special.gammaln(_FREEDOM / 2)
    return constant - 0.5 * np.log(_FREEDOM * np.pi) - half * np.log1p(numbers**2 / _FREEDOM)


def _lognormal(logarithms: np.ndarray, median: float, spread: float) -> np.ndarray:
    """Logarithm of the density, of numbers given by their logarithms."""
    normal = -0.5 * ((logarithms - median) / spread) ** 2 - 0.5 * np.log(2 * np.pi)
    return normal - np.log(spread) - logarithms
