"""Which cells are wrong, and how precisely the other cells of a row and column tell a cell."""

from typing import NamedTuple

import numpy as np
from scipy import special

from ._cells import AbstractCells
from ._sweeps import Model, outer, packed, twice

# Right cells of real tables have heavier tails than the normal law; Student's with so many degrees
# of freedom is between the two. (League: with 3 fewer spikes of 4 standard deviations are found,
# with 8 more right cells are called wrong; the mean F1 changes by .03 at most.)
_FREEDOM = 5.0
# Sizes of wrong cells are lognormal. The prior: as if so many were known, 8 units in the median,
# within a factor of e^.5; never narrower than e^.3.
_PRIOR, _MEDIAN, _SPREAD, _NARROWEST = 5.0, np.log(8.0), 0.5, 0.3
_WRONG, _FEWEST, _MOST = 0.05, 1e-4, 0.5
# The law of wrong cells is found in so many rounds at the most, or once none of its numbers changes
# by this much: a round changes a third of what the one before has changed.
_ROUNDS, _SETTLED = 30, 1e-6
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
    away, variance = np.empty(cells.values.shape), np.empty(cells.values.shape)

    def work(piece: slice) -> None:
        inside = cells.products(*from_rows, piece)
        fitted = inside + cells.products(*from_columns, piece)
        noise = cells.of_columns(model.variance, piece)
        weights = cells.weights[piece]
        leverage = np.minimum(weights * model.right[piece] * inside / noise, _LARGEST_LEVERAGE)
        apart = 1 / (1 - leverage)
        known = weights > 0
        away[piece] = np.where(known, residual[piece] * apart, 0.0)
        noise = noise / np.where(known, np.maximum(weights, 1e-12), 1.0)
        variance[piece] = noise + fitted * apart

    cells.in_pieces(work)
    return Prediction(away, variance)


Pair = tuple[np.ndarray, np.ndarray]


def uncertainty_factors(model: Model) -> tuple[Pair, Pair]:
    """Factors of the variance of the fit at any cell: from its row, and from its column."""
    rank, size = model.rank, model.rows.mean.shape[1]
    mean, covariance = model.columns
    design = mean[:, :rank]
    if model.effects:
        design = np.hstack([design, np.ones((len(mean), 1))])
    scores = np.hstack([model.rows.mean[:, :rank], np.ones((len(model.rows.mean), 1))])
    second = outer(scores)
    second[:, :rank, :rank] += model.rows.covariance[:, :rank, :rank]
    by_row = packed(np.asarray(model.rows.covariance)), twice(outer(design))
    assert by_row[0].shape[1] == size * (size + 1) // 2
    return by_row, (packed(second), twice(covariance))


def wrong_cells(cells: AbstractCells, predicted: Prediction) -> np.ndarray:
    """At the cells: which are wrong, more likely than not.

    The share and the sizes of wrong cells are found together with them: a few spikes of eight
    standard deviations do not make every cell beyond four suspect, and many of four are found.
    """
    known = cells.known
    away, unit = np.abs(predicted.residual), np.sqrt(predicted.variance)
    scores = (away / unit)[known]
    if not len(scores):
        return known
    unit *= max(float(np.median(scores) / special.stdtrit(_FREEDOM, 0.75)), _SMALLEST_UNIT)
    right, size = np.empty(away.shape), np.empty(away.shape)

    def prepare(piece: slice) -> None:
        right[piece] = _student(away[piece] / unit[piece]) - np.log(unit[piece])
        size[piece] = np.log(np.maximum(away[piece], np.finfo(float).tiny))

    cells.in_pieces(prepare)
    median, spread, share = _MEDIAN, _SPREAD, _WRONG
    wrong = np.empty(away.shape, bool)

    def work(piece: slice) -> tuple[float, float, float]:
        anything = _lognormal(size[piece], median, spread) - np.log(2)
        odds = np.log1p(-share) + right[piece] - np.log(share) - anything
        likely = known[piece] / (1 + np.exp(np.clip(odds, -60, 60)))
        wrong[piece] = likely > 0.5
        moment = likely * size[piece]
        return float(likely.sum()), float(moment.sum()), float((moment * size[piece]).sum())

    for _ in range(_ROUNDS):
        before = (median, spread, share)
        total, first, second = np.sum(cells.in_pieces(work), axis=0)
        share = float(np.clip((total + _WRONG) / (len(scores) + 1), _FEWEST, _MOST))
        median = float((first + _PRIOR * _MEDIAN) / (total + _PRIOR))
        squares = second - 2 * median * first + median**2 * total + _PRIOR * _SPREAD**2
        spread = max(_NARROWEST, float(np.sqrt(squares / (total + _PRIOR))))
        if np.allclose(before, (median, spread, share), rtol=0.0, atol=_SETTLED):
            break
    return wrong


def _student(numbers: np.ndarray) -> np.ndarray:
    """Logarithm of the density."""
    half = (_FREEDOM + 1) / 2
    constant = special.gammaln(half) - special.gammaln(_FREEDOM / 2)
    return constant - 0.5 * np.log(_FREEDOM * np.pi) - half * np.log1p(numbers**2 / _FREEDOM)


def _lognormal(logarithms: np.ndarray, median: float, spread: float) -> np.ndarray:
    """Logarithm of the density, of numbers given by their logarithms.

    Above the median it is flat in the logarithm: what is larger is no less likely to be wrong.
    """
    below = np.minimum(logarithms - median, 0.0)
    normal = -0.5 * (below / spread) ** 2 - 0.5 * np.log(2 * np.pi)
    return normal - np.log(spread) - logarithms
