"""Observed entries of a matrix, fitted by the robust factor model."""

import numpy as np

from .._dtype import cast_floats
from ..factor import FactorFit, Options, fit_entries, fit_table
from ..maps import LowRank
from ..operators import Entries
from ..problem import Composite
from ._components_of_entries import residual_weights
from ._descent import Watch
from ._entrywise import EntrywiseFit
from ._linearised import weights_of
from ._noise import bulk_of, schwarz
from ._structure import degrees_of_freedom


def fit_factor_model(problem: Composite, seed: int, watch: Watch) -> EntrywiseFit:
    """A table or a list of entries as the factor model has it, without location and effects."""
    map = problem.map
    assert isinstance(map, LowRank)
    options = Options(
        most=map.rank, robust=problem.loss.robust, common=True, centred=False, seed=seed
    )
    found = _fitted(problem, options, watch)
    if found.rank and not (found.exact or found.interrupted):
        # Surplus components are shrunk, and no harm to the point; but its rank is asked for, too.
        rank = _best_rank(problem, found)
        if rank < found.rank:
            again = _fitted(problem, options._replace(components=rank), watch)
            found = found if again.interrupted else again
    x = _balanced(found, max(1, found.rank))
    kept = LowRank(map.dims, max(1, found.rank))
    return EntrywiseFit(
        map=kept,
        x=cast_floats(x, problem.data.dtype),
        residual=_residual(problem, x),
        steps=found.sweeps,
        passes=2 * found.sweeps,
        converged=found.converged,
        interrupted=found.interrupted,
    )


def _fitted(problem: Composite, options: Options, watch: Watch) -> FactorFit:
    operator, data = problem.operator, np.asarray(problem.data, np.float64)
    # The factor model's weights are precisions: squares of what residuals are multiplied by.
    weights = residual_weights(problem.loss, data.shape) ** 2

    def callback(stage: str, sweep: int, noise: float) -> bool:
        return watch("factor model", sweep, noise)

    if not isinstance(operator, Entries):
        table = np.where(weights > 0, data, np.nan)
        return fit_table(table, weights, options, callback=callback)
    rows, columns = (np.asarray(index) for index in operator.indices)
    shape = operator.shape[0], operator.shape[1]
    return fit_entries(rows, columns, data, shape, weights, options, callback=callback)[0]


def _best_rank(problem: Composite, found: FactorFit) -> int:
    """The number of components with the smallest criterion of Schwarz."""
    known, robust = weights_of(problem) > 0, problem.loss.robust
    dims = len(found.scores), len(found.loadings)
    criteria = []
    for rank in range(1, found.rank + 1):
        residual = _residual(problem, _balanced(found, rank))
        freedom = degrees_of_freedom(LowRank(dims, rank), rank)
        used, scale = bulk_of(residual, known, freedom, robust)
        criteria.append(schwarz(problem, residual, used, scale, freedom))
    return 1 + int(np.argmin(criteria))


def _residual(problem: Composite, x: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    left, right = x
    data = np.asarray(problem.data, np.float64)
    if isinstance(problem.operator, Entries):
        rows, columns = (np.asarray(index) for index in problem.operator.indices)
        return np.einsum("ij,ij->i", left[rows], right[columns]) - data
    return left @ right.T - data


def _balanced(found: FactorFit, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors of one size, of the largest components; of zeros if there are none."""
    if not found.rank:
        return np.zeros((len(found.scores), 1)), np.zeros((len(found.loadings), 1))
    (left, first), (right, second) = np.linalg.qr(found.scores), np.linalg.qr(found.loadings)
    inner_left, sizes, inner_right = np.linalg.svd(first @ second.T)
    roots = np.sqrt(sizes[:rank])
    return left @ inner_left[:, :rank] * roots, right @ inner_right[:rank].T * roots
