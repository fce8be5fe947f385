"""Observed entries of a low-rank matrix: the fit of the robust factor model."""

from typing import NamedTuple

import numpy as np

from ..factor import Options, fit_entries, fit_table
from ..losses import AbstractLoss
from ..problem import Composite
from ._facts import Facts, Watch
from ._select import judged


class TableFit(NamedTuple):
    """A low-rank matrix that fits most of its observed entries."""

    x: tuple[np.ndarray, np.ndarray]
    """Balanced factors; one column of zeros if the rank is 0."""
    residual: np.ndarray
    sweeps: int
    exact: bool
    """Whether hold-out entries are predicted up to rounding errors."""
    interrupted: bool

    @property
    def rank(self) -> int:
        """The number of columns of the factors."""
        return self.x[0].shape[1]


def fit_low_rank(problem: Composite, seed: int, watch: Watch) -> TableFit:
    """Fit a table or a list of entries, without location and effects."""
    ranked, robust = problem.map.ranked, problem.loss.robust
    assert ranked is not None
    options = Options(most=ranked.rank, robust=robust, common=True, centred=False, seed=seed)
    found = _fitted(problem, options, watch)
    if not (found.exact or found.interrupted):
        # Shrinkage makes surplus components harmless to the point, but not to its rank.
        rank = _best_rank(problem, found)
        if rank < found.rank:
            again = _fitted(problem, options._replace(components=rank), watch)
            return found if again.interrupted else again
    return found


def _fitted(problem: Composite, options: Options, watch: Watch) -> TableFit:
    """The factor model of a table, or of its transpose if it is wider than long."""
    dims, operator, data = problem.map.shape, problem.operator, _values(problem)
    assert dims is not None
    assert len(dims) == 2
    wide, weights = dims[0] < dims[1], precisions(problem.loss, data.shape)

    def callback(stage: str, sweep: int, noise: float) -> bool:
        return watch("factor model", sweep, noise)

    if operator.point_shape is not None:
        places = operator.places(np.ones(data.shape, bool))
        rows, columns = places[::-1] if wide else places
        # A repeated value is one observation: a copy in the hold-out set would test nothing.
        rows, columns, values, weights = _without_copies(rows, columns, data, weights)
        shape = max(dims), min(dims)
        found, _ = fit_entries(rows, columns, values, shape, weights, options, callback=callback)
    else:
        table = np.where(weights > 0, data, np.nan)
        table, weights = (table.T, weights.T) if wide else (table, weights)
        found = fit_table(table, weights, options, callback=callback)
    x = _balanced(*(found.loadings, found.scores) if wide else (found.scores, found.loadings))
    return TableFit(x, _residual(problem, x), found.sweeps, found.exact, found.interrupted)


def _best_rank(problem: Composite, found: TableFit) -> int:
    """The number of components with the smallest Schwarz criterion."""
    facts, criteria = Facts(problem, lambda *_: False), []
    for rank in range(1, found.rank + 1):
        residual = _residual(problem, tuple(factor[:, :rank] for factor in found.x))
        criteria.append(judged(facts, found.x, rank, residual).criterion)
    return 1 + int(np.argmin(criteria))


def _values(problem: Composite) -> np.ndarray:
    return np.asarray(problem.data, np.float64)


def _residual(problem: Composite, x: tuple[np.ndarray, ...]) -> np.ndarray:
    left, right = x
    data = _values(problem)
    if problem.operator.point_shape is None:
        return left @ right.T - data
    rows, columns = problem.operator.places(np.ones(data.shape, bool))
    return np.einsum("ij,ij->i", left[rows], right[columns]) - data


def _balanced(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the same matrix with orthogonal columns of equal norms."""
    if not left.shape[1]:
        return np.zeros((len(left), 1)), np.zeros((len(right), 1))
    (left, first), (right, second) = np.linalg.qr(left), np.linalg.qr(right)
    inner_left, sizes, inner_right = np.linalg.svd(first @ second.T)
    roots = np.sqrt(sizes)
    return left @ inner_left * roots, right @ inner_right.T * roots


def _without_copies(*listed: np.ndarray) -> tuple[np.ndarray, ...]:
    order = np.lexsort(listed[:3])
    ordered = [each[order] for each in listed]
    new = np.ones(len(order), bool)
    new[1:] = np.any([each[1:] != each[:-1] for each in ordered[:3]], axis=0)
    if np.all(new):
        return listed
    weights = np.add.reduceat(ordered[3], np.flatnonzero(new))
    return (*(each[new] for each in ordered[:3]), weights)


def precisions(loss: AbstractLoss, shape: tuple[int, ...]) -> np.ndarray:
    """The weights of a loss as inverse variances with median 1."""
    if loss.weights is None:
        return np.ones(shape)
    weights = np.broadcast_to(np.asarray(loss.weights, np.float64), shape)
    # A robust loss multiplies residuals by its weights, a squared one their squares.
    weights = weights**2 if loss.robust else weights
    positive = weights[weights > 0]
    return weights / np.median(positive) if len(positive) else weights
