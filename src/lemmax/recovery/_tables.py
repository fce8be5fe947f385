"""Observed entries of a low-rank matrix: the fit of the robust factor model."""

from typing import NamedTuple

import numpy as np

from ..factor import Options, fit_entries, fit_table
from ..losses import AbstractLoss
from ..maps import LowRank
from ..problem import Composite
from ._facts import Facts, Watch
from ._select import bulk_of, schwarz


class TableFit(NamedTuple):
    """A low-rank matrix that fits most of its observed entries."""

    map: LowRank
    """Of the rank that was found; of rank 1 with zero factors if that is 0."""
    x: tuple[np.ndarray, np.ndarray]
    """Balanced factors."""
    residual: np.ndarray
    steps: int
    exact: bool
    """Whether hold-out entries are predicted up to rounding errors."""
    interrupted: bool


def fit_low_rank(problem: Composite, seed: int, watch: Watch) -> TableFit:
    """Fit a table or a list of entries, without location and effects."""
    dims = problem.map.shape
    assert problem.map.ranked is not None
    assert dims is not None
    assert len(dims) == 2
    options = Options(
        most=problem.map.ranked.rank,
        robust=problem.loss.robust,
        common=True,
        centred=False,
        seed=seed,
    )
    found = _factors(problem, dims, options, watch)
    if found.rank and not (found.exact or found.interrupted):
        # Shrinkage makes surplus components harmless to the point, but not to its rank.
        rank = _best_rank(problem, found)
        if rank < found.rank:
            again = _factors(problem, dims, options._replace(components=rank), watch)
            found = found if again.interrupted else again
    kept = LowRank(dims, max(1, found.rank))
    x = found.balanced(kept.rank)
    residual = _residual(problem, x)
    return TableFit(kept, x, residual, found.sweeps, found.exact, found.interrupted)


class _Factors(NamedTuple):
    """The components that the factor model has found."""

    left: np.ndarray
    right: np.ndarray
    sweeps: int
    exact: bool
    interrupted: bool

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    def balanced(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Balanced factors of the largest components; zeros if there are none."""
        if not self.rank:
            return np.zeros((len(self.left), 1)), np.zeros((len(self.right), 1))
        (left, first), (right, second) = np.linalg.qr(self.left), np.linalg.qr(self.right)
        inner_left, sizes, inner_right = np.linalg.svd(first @ second.T)
        roots = np.sqrt(sizes[:rank])
        return left @ inner_left[:, :rank] * roots, right @ inner_right[:rank].T * roots


def _factors(problem: Composite, dims: tuple[int, int], options: Options, watch: Watch) -> _Factors:
    """Fit the table, or its transpose if it is wider than long."""
    operator, data = problem.operator, np.asarray(problem.data, np.float64)
    weights, wide = precisions(problem.loss, data.shape), dims[0] < dims[1]

    def callback(stage: str, sweep: int, noise: float) -> bool:
        return watch("factor model", sweep, noise)

    if operator.point_shape is not None:
        rows, columns = operator.places(np.ones(data.shape, bool))
        if wide:
            rows, columns = columns, rows
        # A repeated value is one observation: a copy in the hold-out set would test nothing.
        rows, columns, data, weights = _without_copies(rows, columns, data, weights)
        shape = max(dims), min(dims)
        found, _ = fit_entries(rows, columns, data, shape, weights, options, callback=callback)
    else:
        table = np.where(weights > 0, data, np.nan)
        table, weights = (table.T, weights.T) if wide else (table, weights)
        found = fit_table(table, weights, options, callback=callback)
    factors = (found.loadings, found.scores) if wide else (found.scores, found.loadings)
    return _Factors(*factors, found.sweeps, found.exact, found.interrupted)


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


def _best_rank(problem: Composite, found: _Factors) -> int:
    """The number of components with the smallest Schwarz criterion."""
    facts, dims = Facts(problem, lambda *_: False), (len(found.left), len(found.right))
    criteria = []
    for rank in range(1, found.rank + 1):
        residual = _residual(problem, found.balanced(rank))
        freedom = LowRank(dims, rank).degrees_of_freedom
        used, scale = bulk_of(residual, facts.known, freedom, facts.robust)
        criteria.append(schwarz(facts, residual, used, scale, freedom))
    return 1 + int(np.argmin(criteria))


def _residual(problem: Composite, x: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    left, right = x
    data = np.asarray(problem.data, np.float64)
    if problem.operator.point_shape is not None:
        rows, columns = problem.operator.places(np.ones(data.shape, bool))
        return np.einsum("ij,ij->i", left[rows], right[columns]) - data
    return left @ right.T - data
