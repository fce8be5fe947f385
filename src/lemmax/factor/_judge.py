"""Which cells are wrong, and how precisely the other cells of a row and column tell a cell."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from ._cells import AbstractCells
from ._packed import outer, packed, twice
from ._sweeps import Model

# Right cells of real tables have heavier tails than the normal law: Student's, with the likeliest
# of these degrees of freedom, for the table and for each column. (League and 111 other tables: F1
# of spikes .943 and .926 at 8 standard deviations, .766 and .718 at 4; .940, .916, .755 and .694
# with 5 everywhere. 90 % intervals cover less than 80 % of 13 instances; else of 23.)
_FREEDOMS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 16.0)
# A column has tails of its own if they are likelier than the table's by this much (logarithm); with
# 0, F1 of spikes of 4 standard deviations is .03 smaller. Twice as much changes .002.
_MARGIN = 2.0
# A column with scores this much smaller than those of the others is explained nearly exactly.
_EXACT = 0.1
# The tails of the table are found from so many cells at the most.
_ENOUGH = 10_000
# Sizes of wrong cells are lognormal. The prior: as if so many were known, 8 units in the median,
# within a factor of e^.5; never narrower than e^.3.
_PRIOR, _MEDIAN, _SPREAD, _NARROWEST = 5.0, np.log(8.0), 0.5, 0.3
_WRONG, _FEWEST, _MOST = 0.05, 1e-4, 0.5
# The law of wrong cells is found in so many rounds at the most, or once none of its numbers changes
# by this much: a round changes a third of what the one before has changed.
_ROUNDS, _SETTLED = 30, 1e-6
# A cell that its row does not explain may still be usual in its column, by Student's law.
_USUAL_FREEDOM, _USUAL, _NEARLY_SETTLED = 5.0, 0.02, 1e-3
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


class _Law(NamedTuple):
    """Of wrong cells: their share, and the logarithms of their sizes."""

    median: float
    spread: float
    share: float


class Judgement(NamedTuple):
    """At the cells."""

    wrong: np.ndarray
    """Which are wrong, more likely than not."""
    counts: np.ndarray
    """How much the error of a cell tells about the errors of right ones."""


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
    freedom, scale = np.array(_FREEDOMS)[tails], scales[tails]
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

    law = _settled(law, sums, int(np.count_nonzero(known)))
    wrong = np.empty(away.shape, bool)

    def judge(piece: slice) -> None:
        wrong[piece] = known[piece] & (_odds(right[piece], size[piece], law) > 0)

    cells.in_pieces(judge)
    if away.ndim < 2:
        return Judgement(wrong, 1.0 * (known & ~wrong))
    return Judgement(wrong, _counting(cells, known, right, size))


def _counting(
    cells: AbstractCells, known: np.ndarray, right: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Probabilities that a cell is not wrong, though the others may not explain it.

    A cell far from its prediction, but usual in its column, may be right: then it is one of those
    that intervals have to cover. So a cell is explained, or anything that is usual in its column,
    or wrong; the shares of the last two and the sizes of wrong cells are found together.
    """
    usual = _student(np.abs(cells.values), 1.0, _USUAL_FREEDOM)
    law, share = _Law(_MEDIAN, _SPREAD, _WRONG), _USUAL  # the law of the judgement explains both
    some = _places(known)
    parts = right.flat[some], usual.flat[some], size.flat[some]
    for _ in range(_ROUNDS):
        before = law
        odd, wrong = _posteriors(*parts, law, share)
        moment = wrong * parts[2]
        law = _updated(np.array([wrong.sum(), moment.sum(), (moment * parts[2]).sum()]), len(some))
        share = float(np.clip(np.mean(odd), _FEWEST, _MOST))
        if np.allclose(before, law, rtol=0.0, atol=_NEARLY_SETTLED):
            break
    counts = np.empty(known.shape)

    def work(piece: slice) -> None:
        wrong = _posteriors(right[piece], usual[piece], size[piece], law, share)[1]
        counts[piece] = np.where(known[piece], 1 - wrong, 0.0)

    cells.in_pieces(work)
    return counts


def _posteriors(
    right: np.ndarray, usual: np.ndarray, size: np.ndarray, law: _Law, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that a cell is unexplained but usual, and that it is wrong."""
    noise = right + np.log(max(1 - law.share - share, _FEWEST))
    odd = usual + np.log(share)
    wrong = np.log(law.share) + _wrong_density(size, law)
    total = np.logaddexp(np.logaddexp(noise, odd), wrong)
    return np.exp(odd - total), np.exp(wrong - total)


def _telling(known: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Which columns are not explained by others nearly exactly, as a duplicate is.

    Those would look like the middle of a law with heavy tails, by which nothing is wrong.
    """
    if known.ndim < 2 or known.shape[1] < 2:
        return np.ones(known.shape[1:], bool)
    own = [np.median(scores[some, k]) if some.any() else 0.0 for k, some in enumerate(known.T)]
    return np.array(own) > _EXACT * np.median(own)


def _places(known: np.ndarray) -> np.ndarray:
    """Of known cells, in the flattened array: all of them, or enough."""
    if known.size <= _ENOUGH:
        return np.flatnonzero(known)
    places = np.random.default_rng(0).integers(0, known.size, _ENOUGH)
    chosen = places[known.flat[places]]
    return chosen if len(chosen) else np.flatnonzero(known)


def _scales(scores: np.ndarray) -> np.ndarray:
    """By which factor the errors of the fit are corrected, for each of the degrees of freedom."""
    middle = float(np.median(scores)) / special.stdtrit(np.array(_FREEDOMS), 0.75)
    return np.maximum(middle, _SMALLEST_UNIT)


def _likeliest(away: np.ndarray, unit: np.ndarray, scales: np.ndarray) -> tuple[int, _Law]:
    """Which degrees of freedom make all cells the likeliest, and the law of the wrong ones."""
    found, size = [], _logarithm(away)
    for freedom, scale in zip(_FREEDOMS, scales, strict=True):
        right = _student(away, unit * scale, freedom)

        def sums(law: _Law, right: np.ndarray = right) -> np.ndarray:
            return _moments(_odds(right, size, law), size, 1.0)

        law = _settled(_Law(_MEDIAN, _SPREAD, _WRONG), sums, len(away))
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
        for freedom, scale in zip(_FREEDOMS, scales, strict=True):
            likely = _likelihood(_student(away[piece], unit[piece] * scale, freedom), size, law)
            gains.append(np.sum(likely, axis=0, where=known))
        return np.array(gains)

    gains = np.sum(cells.in_pieces(work), axis=0)
    gains[best] += _MARGIN
    return np.argmax(gains, axis=0)


def _settled(law: _Law, sums: Callable[[_Law], np.ndarray], count: int) -> _Law:
    """The law that agrees with the moments of the cells that it calls wrong."""
    for _ in range(_ROUNDS):
        before, law = law, _updated(sums(law), count)
        if np.allclose(before, law, rtol=0.0, atol=_SETTLED):
            break
    return law


def _updated(sums: np.ndarray, count: int) -> _Law:
    """The law of wrong cells from their moments."""
    total, first, second = sums
    median = float((first + _PRIOR * _MEDIAN) / (total + _PRIOR))
    squares = second - 2 * median * first + median**2 * total + _PRIOR * _SPREAD**2
    return _Law(
        median,
        max(_NARROWEST, float(np.sqrt(squares / (total + _PRIOR)))),
        float(np.clip((total + _WRONG) / (count + 1), _FEWEST, _MOST)),
    )


def _moments(odds: np.ndarray, size: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """How many cells are wrong, and the sums of their sizes and of the squares of these."""
    likely = known / (1 + np.exp(np.clip(-odds, -60, 60)))
    moment = likely * size
    return np.array([likely.sum(), moment.sum(), (moment * size).sum()])


def _odds(right: np.ndarray, size: np.ndarray, law: _Law) -> np.ndarray:
    """Logarithm of the odds of being wrong."""
    return np.log(law.share) + _wrong_density(size, law) - np.log1p(-law.share) - right


def _wrong_density(size: np.ndarray, law: _Law) -> np.ndarray:
    """Logarithm of the density of wrong cells; to both sides."""
    return _lognormal(size, law.median, law.spread) - np.log(2)


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


def _lognormal(logarithms: np.ndarray, median: float, spread: float) -> np.ndarray:
    """Logarithm of the density, of numbers given by their logarithms.

    Above the median it is flat in the logarithm: what is larger is no less likely to be wrong.
    """
    below = np.minimum(logarithms - median, 0.0)
    normal = -0.5 * (below / spread) ** 2 - 0.5 * np.log(2 * np.pi)
    return normal - np.log(spread) - logarithms
