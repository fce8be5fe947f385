"""Observed entries of a low-rank matrix: the fit of the robust factor model."""

from typing import NamedTuple

import numpy as np

from ..factor import Options, fit_entries, fit_table
from ..losses import AbstractLoss
from ..problem import Composite
from ._facts import Watch


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
    dims, ranked, operator = problem.map.shape, problem.map.ranked, problem.operator
    assert ranked is not None
    assert dims is not None
    assert len(dims) == 2
    options = Options(
        most=ranked.rank, robust=problem.loss.robust, common=True, centred=False, seed=seed
    )
    data, wide = np.asarray(problem.data, np.float64), dims[0] < dims[1]
    weights = precisions(problem.loss, data.shape)

    def callback(stage: str, sweep: int, noise: float) -> bool:
        return watch("factor model", sweep, noise)

    # The model is that of a long table: of the transpose, if this one is wide.
    if operator.point_shape is not None:
        places = operator.places(np.ones(data.shape, bool))
        rows, columns = places[::-1] if wide else places
        # A repeated value is one observation: a copy in the hold-out set would test nothing.
        rows, columns, values, weights = _without_copies(rows, columns, data, weights)
        shape = max(dims), min(dims)
        found, _ = fit_entries(rows, columns, values, shape, weights, options, callback=callback)
    else:
        places = None
        table = np.where(weights > 0, data, np.nan)
        table, weights = (table.T, weights.T) if wide else (table, weights)
        found = fit_table(table, weights, options, callback=callback)
    x = _balanced(*(found.loadings, found.scores) if wide else (found.scores, found.loadings))
    if places is None:
        observed = x[0] @ x[1].T
    else:
        observed = np.einsum("ij,ij->i", x[0][places[0]], x[1][places[1]])
    return TableFit(x, observed - data, found.sweeps, found.exact, found.interrupted)


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
