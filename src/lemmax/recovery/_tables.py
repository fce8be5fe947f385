"""Observed entries of a matrix of low rank: the robust factor model's fit, and what it proves."""

from typing import NamedTuple

import numpy as np

from .._dtype import cast_floats
from .._typing import Parameters
from ..factor import Options, fit_entries, fit_table
from ..losses import AbstractLoss
from ..maps import LowRank
from ..problem import Composite
from ..status import Stopped
from ._answer import Answer
from ._certificate import Certificate, Fit, certify_exact, certify_noise, nothing_found
from ._descent import Descent, Watch
from ._kept_aside import predictions
from ._left_over import left_over
from ._linearised import Workbench, weights_of
from ._noise import bulk_of, schwarz
from ._rivals import lines_of
from ._tangent import spread_of_entries, tangent_of_entries


class TableFit(NamedTuple):
    """A low-rank matrix that fits most of its observed entries."""

    map: LowRank
    """Of the rank that was found; of rank 1, with factors of zeros, if none was."""
    x: tuple[np.ndarray, np.ndarray]
    """Balanced factors."""
    residual: np.ndarray
    steps: int
    exact: bool
    """Whether entries that were kept aside are predicted to rounding errors."""
    interrupted: bool

    @property
    def freedom(self) -> int:
        """Degrees of freedom."""
        return self.map.degrees_of_freedom


def search_table(problem: Composite, seed: int, watch: Watch) -> tuple[Answer, int, int]:
    """The answer, the passes and the steps it took."""
    search = _TableSearch(problem, seed, watch)
    answer = search.run()
    return answer, 2 * search.steps, search.steps


class _TableSearch:
    """A fit, others to fewer entries, and what they took."""

    def __init__(self, problem: Composite, seed: int, watch: Watch):
        self.problem, self.seed, self.watch = problem, seed, watch
        self.robust, self.steps = problem.loss.robust, 0
        # It knows what vanishes.
        self.descent = Descent(Workbench(problem), self.robust, watch, np.random.default_rng(seed))

    def run(self) -> Answer:
        """The fit with its certificate."""
        found = self._fitted(self.problem)
        try:
            return self._answer(found, self._certified(found))
        except (Stopped, KeyboardInterrupt):
            nothing = Certificate.interrupted(self.descent.known, found.freedom)
            return self._answer(found, nothing)._replace(interrupted=True)

    def _certified(self, found: TableFit) -> Certificate:
        if found.interrupted:
            raise Stopped
        fit = self._seen(found)
        if fit.norm == 0:
            return nothing_found(fit, found.freedom)
        if self.descent.vanishes(fit.residual):
            return certify_exact(fit, self.descent.zero)
        used, scale = bulk_of(fit.residual, fit.known, found.freedom, self.robust)

        def again(part: Composite) -> np.ndarray:
            less = self._fitted(part)
            if less.interrupted:
                raise Stopped
            return less.residual

        def spread(hidden: np.ndarray) -> np.ndarray:
            shown = used & ~hidden
            return spread_of_entries(self.problem, found.map, found.x, shown, hidden)

        return certify_noise(
            fit, used, scale, lambda: predictions(self.problem, self.seed, again, spread)
        )

    def _fitted(self, problem: Composite) -> TableFit:
        found = fit_low_rank(problem, self.seed, self.watch)
        self.steps += found.steps
        return found

    def _seen(self, found: TableFit) -> Fit:
        map, x, known = found.map, found.x, self.descent.known
        return Fit(
            found.residual,
            np.asarray(self.problem.data, np.float64),
            known,
            self.descent.bench.labels,
            _norm(*x),
            lambda used: tangent_of_entries(self.problem, map, x, used, found.freedom),
            lines_of(self.problem, known, map, x) if self.robust else None,
            lambda level: left_over(self.problem, found.residual, known, level),
        )

    def _answer(self, found: TableFit, certificate: Certificate) -> Answer:
        x: Parameters = cast_floats(found.x, self.problem.data.dtype)
        sizes = found.map.term_sizes(found.x)
        return Answer(found.map, x, found.residual, sizes, certificate)


def fit_low_rank(problem: Composite, seed: int, watch: Watch) -> TableFit:
    """A table or a list of entries as the factor model has it, without location and effects."""
    map = problem.map
    assert isinstance(map, LowRank)
    options = Options(
        most=map.rank, robust=problem.loss.robust, common=True, centred=False, seed=seed
    )
    found = _factors(problem, map.dims, options, watch)
    if found.rank and not (found.exact or found.interrupted):
        # Surplus components are shrunk, and no harm to the point; but its rank is asked for, too.
        rank = _best_rank(problem, found)
        if rank < found.rank:
            again = _factors(problem, map.dims, options._replace(components=rank), watch)
            found = found if again.interrupted else again
    kept = LowRank(map.dims, max(1, found.rank))
    x = found.balanced(kept.rank)
    residual = _residual(problem, x)
    return TableFit(kept, x, residual, found.sweeps, found.exact, found.interrupted)


class _Factors(NamedTuple):
    """What the factor model has found."""

    left: np.ndarray
    right: np.ndarray
    sweeps: int
    exact: bool
    interrupted: bool

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    def balanced(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Factors of one size, of the largest components; of zeros if there are none."""
        if not self.rank:
            return np.zeros((len(self.left), 1)), np.zeros((len(self.right), 1))
        (left, first), (right, second) = np.linalg.qr(self.left), np.linalg.qr(self.right)
        inner_left, sizes, inner_right = np.linalg.svd(first @ second.T)
        roots = np.sqrt(sizes[:rank])
        return left @ inner_left[:, :rank] * roots, right @ inner_right[:rank].T * roots


def _factors(problem: Composite, dims: tuple[int, int], options: Options, watch: Watch) -> _Factors:
    """The factor model of a table that is no wider than long, whichever way it was given."""
    operator, data = problem.operator, np.asarray(problem.data, np.float64)
    weights, wide = precisions(problem.loss, data.shape), dims[0] < dims[1]

    def callback(stage: str, sweep: int, noise: float) -> bool:
        return watch("factor model", sweep, noise)

    if operator.point_shape is not None:
        rows, columns = operator.places(np.ones(data.shape, bool))
        if wide:
            rows, columns = columns, rows
        # The same value twice is one observation: a copy kept aside would be no test of the other.
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
    """The weights of a loss as the factor model has them: inverse variances, 1 in the median."""
    if loss.weights is None:
        return np.ones(shape)
    weights = np.broadcast_to(np.asarray(loss.weights, np.float64), shape)
    # A robust loss weighs residuals, a squared one their squares.
    weights = weights**2 if loss.robust else weights
    positive = weights[weights > 0]
    return weights / np.median(positive) if len(positive) else weights


def _best_rank(problem: Composite, found: _Factors) -> int:
    """The number of components with the smallest criterion of Schwarz."""
    known, robust = weights_of(problem) > 0, problem.loss.robust
    dims = len(found.left), len(found.right)
    criteria = []
    for rank in range(1, found.rank + 1):
        residual = _residual(problem, found.balanced(rank))
        freedom = LowRank(dims, rank).degrees_of_freedom
        used, scale = bulk_of(residual, known, freedom, robust)
        criteria.append(schwarz(problem, residual, used, scale, freedom))
    return 1 + int(np.argmin(criteria))


def _residual(problem: Composite, x: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    left, right = x
    data = np.asarray(problem.data, np.float64)
    if problem.operator.point_shape is not None:
        rows, columns = problem.operator.places(np.ones(data.shape, bool))
        return np.einsum("ij,ij->i", left[rows], right[columns]) - data
    return left @ right.T - data


def _norm(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.sqrt(max(np.sum((left.T @ left) * (right.T @ right)), 0.0)))
