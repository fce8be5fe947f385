"""Which cells are wrong, and how precisely the other cells of a row and column tell a cell."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from . import _constants as constants
from ._cells import AbstractCells
from ._packed import doubled, moments, packed
from ._relative import shrunk
from ._sweeps import Model


class Prediction(NamedTuple):
    """What the other cells say about each cell; all in standardised units, at the cells."""

    residual: np.ndarray
    """Value less its prediction without the cell; 0 at holes."""
    variance: np.ndarray
    """Of that prediction, the noise of the cell included."""

    def scores(self) -> np.ndarray:
        """Sizes of residuals in their standard errors."""
        return np.abs(self.residual) / np.sqrt(self.variance)


def predictions(cells: AbstractCells, model: Model, residual: np.ndarray) -> Prediction:
    """Every cell predicted without itself, exactly for given columns and noise."""
    from_rows, from_columns = uncertainty_factors(model)
    away, variance = np.empty(cells.values.shape), np.empty(cells.values.shape)

    def work(piece: slice) -> None:
        inside = cells.products(*from_rows, piece)
        fitted = inside + cells.products(*from_columns, piece)
        noise = cells.of_columns(model.variance, piece)
        weights = cells.weights[piece]
        leverage = np.minimum(
            weights * model.right[piece] * inside / noise, constants.LARGEST_LEVERAGE
        )
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
    second = np.hstack([moments(model.rows.mean[:, :rank], model.rows.covariance), scores])
    by_row = packed(model.rows.covariance), moments(design) * doubled(size)
    return by_row, (second, packed(covariance) * doubled(rank + 1))


class _Law(NamedTuple):
    """Of wrong cells: their share, and the logarithms of their sizes."""

    median: float
    spread: float
    share: float


class WrongLaw(NamedTuple):
    """What is known about right and wrong cells of a table, to judge new rows by."""

    freedom: np.ndarray
    """Degrees of freedom of the errors of right cells, for each column."""
    scale: np.ndarray
    """By which factor their standard errors are corrected, for each column."""
    wrong: tuple[float, float, float]
    """Median and spread of the logarithms of the sizes of wrong cells, and their share."""

    def calls_wrong(self, predicted: Prediction) -> np.ndarray:
        """Which cells are wrong, more likely than not."""
        away, unit = np.abs(predicted.residual), np.sqrt(predicted.variance)
        right = _student(away, unit * self.scale, self.freedom)
        return _odds(right, _logarithm(away), _Law(*self.wrong)) > 0


class Judgement(NamedTuple):
    """At the cells."""

    wrong: np.ndarray
    """Which are wrong, more likely than not."""
    counts: np.ndarray
    """How much the error of a cell tells about the errors of right ones."""
    law: WrongLaw | None = None
    """By which they were judged, if they were."""


def judged(cells: AbstractCells, predicted: Prediction) -> Judgement:
    """Which cells are wrong.

    The share and the sizes of wrong cells are found together with them: a few spikes of eight
    standard deviations do not make every cell beyond four suspect, and many of four are found. So
    are the tails of the right cells: sizes of spikes are alike, those of heavy tails are not.
    """
    known = cells.known
    away, unit = np.abs(predicted.residual), np.sqrt(predicted.variance)
    if not known.any():
        return Judgement(known, known * 1.0)
    telling = _telling(known, away / unit)
    places = _places(known & telling)
    scales = _scales(away.flat[places] / unit.flat[places])
    best, law = _likeliest(away.flat[places], unit.flat[places], scales)
    tails = np.full(cells.shape[1], best)
    if away.ndim == 2:  # columns of a list have few entries each
        # Columns that tell nothing about tails have those of the others.
        tails = np.where(telling, _tails(cells, away, unit, scales, best, law), best)
    freedom, scale = np.array(constants.FREEDOMS)[tails], scales[tails]
    right, size = np.empty(away.shape), np.empty(away.shape)

    def prepare(piece: slice) -> None:
        own = unit[piece] * cells.of_columns(scale, piece)
        right[piece] = _student(away[piece], own, cells.of_columns(freedom, piece))
        size[piece] = _logarithm(away[piece])

    cells.in_pieces(prepare)

    def sums(law: _Law) -> np.ndarray:
        def work(piece: slice) -> np.ndarray:
            return _moments(_odds(right[piece], size[piece], law), size[piece], known[piece])

        return np.sum(cells.in_pieces(work), axis=0)

    law = _settled(law, sums, int(np.count_nonzero(known)), constants.SETTLED)
    wrong = np.empty(away.shape, bool)

    def judge(piece: slice) -> None:
        wrong[piece] = known[piece] & (_odds(right[piece], size[piece], law) > 0)

    cells.in_pieces(judge)
    if away.ndim < 2:
        return Judgement(wrong, 1.0 * (known & ~wrong))
    return Judgement(
        wrong,
        _counting(cells, wrong),
        WrongLaw(freedom, scale, (law.median, law.spread, law.share)),
    )


def _counting(cells: AbstractCells, wrong: np.ndarray) -> np.ndarray:
    """How much the error of each cell counts for intervals: the probability that it is right.

    Wrong cells may be anywhere in the table. So if a row or a column has more cells that look wrong
    than most rows or columns have, the surplus are its tails, or rows that the model does not
    explain: right cells, and intervals have to cover such cells (but no more of them than there are
    in the heaviest tails). So are cells that others do not explain, but that are within the
    interval of their column alone.
    """
    wrong = wrong & (np.abs(cells.values) > constants.QUANTILE)
    known, likely = 1.0 * cells.known, 1.0 * wrong
    for sums, side, spread in (
        (cells.row_sums, 1, cells.of_rows),
        (cells.column_sums, 0, cells.of_columns),
    ):
        ones = np.ones((cells.shape[side], 1))
        counts, found = sums(known, ones)[:, 0], sums(1.0 * wrong, ones)[:, 0]
        share = found.sum() / counts.sum()
        if share == 0:
            break
        away = found / np.maximum(counts, 1.0) - share
        shares = share + shrunk(away, counts, share * (1 - share))
        usual = float(np.median(shares[counts > 0]))
        likely = likely * spread(np.minimum(1.0, usual / np.maximum(shares, usual)))
    known[wrong] = (1 - likely[wrong]) * _share_of_tails(np.abs(cells.values), cells.known, wrong)
    return known


def _share_of_tails(away: np.ndarray, known: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """How many cells as far out the heaviest tails have, for each that the column has; at most 1.

    Codes of missing values, such as -999, are more than that.
    """
    freedom = min(constants.FREEDOMS)
    unit = special.stdtrit(freedom, 0.75) * constants.NORMAL
    counts = np.sum(known, axis=0)[np.nonzero(chosen)[1]]
    order = np.argsort(np.where(known, -away, np.inf), axis=0)
    there = np.empty(away.shape)
    np.put_along_axis(there, order, np.arange(1.0, len(away) + 1)[:, None], axis=0)
    expected = 2 * counts * special.stdtr(freedom, -away[chosen] * unit)
    return np.minimum(1.0, expected / there[chosen])


def _telling(known: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Which columns are not explained by others nearly exactly, as a duplicate is.

    Those would look like the middle of a law with heavy tails, by which nothing is wrong.
    """
    if known.ndim < 2 or known.shape[1] < 2:
        return np.ones(known.shape[1:], bool)
    own = [np.median(scores[some, k]) if some.any() else 0.0 for k, some in enumerate(known.T)]
    return np.array(own) >= constants.DUPLICATE * np.median(own)


def _places(known: np.ndarray) -> np.ndarray:
    """Of known cells, in the flattened array: all of them, or enough."""
    if known.size <= constants.ENOUGH_CELLS:
        return np.flatnonzero(known)
    places = np.random.default_rng(0).integers(0, known.size, constants.ENOUGH_CELLS)
    chosen = places[known.flat[places]]
    return chosen if len(chosen) else np.flatnonzero(known)


def _scales(scores: np.ndarray) -> np.ndarray:
    """By which factor the errors of the fit are corrected, for each of the degrees of freedom."""
    middle = float(np.median(scores)) / special.stdtrit(np.array(constants.FREEDOMS), 0.75)
    return np.maximum(middle, constants.SMALLEST_UNIT)


def _likeliest(away: np.ndarray, unit: np.ndarray, scales: np.ndarray) -> tuple[int, _Law]:
    """Which degrees of freedom make all cells the likeliest, and the law of the wrong ones."""
    found, size = [], _logarithm(away)
    for freedom, scale in zip(constants.FREEDOMS, scales, strict=True):
        right = _student(away, unit * scale, freedom)

        def sums(law: _Law, right: np.ndarray = right) -> np.ndarray:
            return _moments(_odds(right, size, law), size, 1.0)

        law = _settled(
            _Law(constants.WRONG_MEDIAN, constants.WRONG_SPREAD, constants.WRONG),
            sums,
            len(away),
            constants.NEARLY_SETTLED,
        )
        found.append((float(np.sum(_likelihood(right, size, law))), law))
    best = int(np.argmax([each[0] for each in found]))
    return best, found[best][1]


def _tails(
    cells: AbstractCells,
    away: np.ndarray,
    unit: np.ndarray,
    scales: np.ndarray,
    best: int,
    law: _Law,
) -> np.ndarray:
    """Which degrees of freedom make the cells of each column the likeliest."""

    def work(piece: slice) -> np.ndarray:
        size, known, gains = _logarithm(away[piece]), cells.weights[piece] > 0, []
        for freedom, scale in zip(constants.FREEDOMS, scales, strict=True):
            likely = _likelihood(_student(away[piece], unit[piece] * scale, freedom), size, law)
            gains.append(np.sum(likely, axis=0, where=known))
        return np.array(gains)

    gains = np.sum(cells.in_pieces(work), axis=0)
    gains[best] += constants.TAIL_MARGIN
    return np.argmax(gains, axis=0)


def _settled(law: _Law, sums: Callable[[_Law], np.ndarray], count: int, changes: float) -> _Law:
    """The law that agrees with the moments of the cells that it calls wrong."""
    for _ in range(constants.SWEEPS):
        before, law = law, _updated(sums(law), count)
        if np.allclose(before, law, rtol=0.0, atol=changes):
            break
    return law


def _updated(sums: np.ndarray, count: int) -> _Law:
    """The law of wrong cells from their moments."""
    total, first, second = sums
    median = float(
        (first + constants.WRONG_PRIOR * constants.WRONG_MEDIAN) / (total + constants.WRONG_PRIOR)
    )
    squares = (
        second
        - 2 * median * first
        + median**2 * total
        + constants.WRONG_PRIOR * constants.WRONG_SPREAD**2
    )
    return _Law(
        median,
        max(constants.WRONG_NARROWEST, float(np.sqrt(squares / (total + constants.WRONG_PRIOR)))),
        float(np.clip((total + constants.WRONG) / (count + 1), constants.FEWEST, constants.HALF)),
    )


def _moments(odds: np.ndarray, size: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """How many cells are wrong, and the sums of their sizes and of the squares of these."""
    np.clip(odds, -constants.SURE, constants.SURE, out=odds)
    np.negative(odds, out=odds)
    np.exp(odds, out=odds)
    odds += 1
    likely = np.divide(known, odds, out=odds)
    moment = likely * size
    return np.array([likely.sum(), moment.sum(), np.vdot(moment, size)])


def _odds(right: np.ndarray, size: np.ndarray, law: _Law) -> np.ndarray:
    """Logarithm of the odds of being wrong.

    Sizes of wrong cells are lognormal, to both sides. Above the median the density is flat in the
    logarithm: what is larger is no less likely to be wrong.
    """
    odds = np.minimum(size - law.median, 0.0)
    odds *= odds
    odds *= -0.5 / law.spread**2
    odds -= size
    odds -= right
    share = np.log(law.share) - np.log1p(-law.share)
    odds += share - np.log(2 * law.spread) - 0.5 * np.log(2 * np.pi)
    return odds


def _likelihood(right: np.ndarray, size: np.ndarray, law: _Law) -> np.ndarray:
    """Logarithm of the density of a cell that may be wrong."""
    return np.log1p(-law.share) + right + np.logaddexp(0.0, _odds(right, size, law))


def _logarithm(away: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(away, np.finfo(float).tiny))


def _student(away: np.ndarray, unit: Any, freedom: Any) -> np.ndarray:
    """Logarithm of the density, for a unit and degrees of freedom."""
    half = (freedom + 1) / 2
    constant = special.gammaln(half) - special.gammaln(freedom / 2)
    tail = half * np.log1p((away / unit) ** 2 / freedom)
    return constant - 0.5 * np.log(freedom * np.pi) - tail - np.log(unit)
