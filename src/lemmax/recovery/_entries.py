"""Starts from observed entries: the robust factor model finds the rank and the wrong entries."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from .._memory import require_bytes
from .._terms import Components, Tucker, decompose, nearest_tucker
from .._terms.entries import without_copies
from .._terms.unfolding import core_from_entries, squarest_order
from .._typing import Parameters
from ..factor import Options, fit_entries, fit_table, fit_tensor
from ..factor._constants import BYTES_OF_A_CELL
from ..init._matrices import project_psd
from ..maps import LowRank
from ..problem import Composite
from . import _constants as constants
from ._facts import Facts, convincing_observations
from ._select import judged


class Start(NamedTuple):
    """Parameters of a point that most entries agree with."""

    x: Any
    rank: int
    """The number of columns; one column of zeros if nothing was found."""
    sweeps: int
    interrupted: bool
    exact: bool = False
    """Whether hold-out entries of a matrix are predicted up to rounding errors."""
    residual: np.ndarray | None = None
    """Of a point that is a fit already."""


def factor_starts(facts: Facts, seed: int) -> Iterator[Start]:
    """The factor model's points, padded to the rank of the map; none if zero, or too large."""
    map, size = facts.ranked, facts.data.size
    assert map is not None
    shape = map.shape or ()
    kinds: list[Callable[[], Start | None]] = []
    if len(shape) == 2 and not map.symmetric:
        kinds = [lambda: low_rank(facts, seed)]
    elif math.prod(shape) <= max(size, constants.LARGE):
        array = Array(facts, seed)
        kinds = [array.semidefinite] if len(shape) == 2 else [array.unfolded, array.tensor]
    if kinds:
        what = f"recover: a fit of data of shape {facts.data.shape}"
        require_bytes(BYTES_OF_A_CELL * size, what, "Recover a part of the data.")
    for kind in kinds:
        start = kind()
        zero = start is None or not any(np.any(factor) for factor in jax.tree.leaves(start.x))
        if start is not None and (not zero or start.interrupted or start.residual is not None):
            missing = functools.partial(np.pad, pad_width=((0, 0), (0, map.rank - start.rank)))
            yield start._replace(x=jax.tree.map(missing, start.x))


def low_rank(facts: Facts, seed: int) -> Start:
    """Fit a table or a list of entries, without location and effects."""
    assert facts.ranked is not None
    options = Options(
        most=facts.ranked.rank, robust=facts.robust, common=True, centred=False, seed=seed
    )
    found = _fitted(facts, options)
    if found.exact or found.interrupted:
        return found
    # Shrinkage makes surplus components harmless to the point, not to its rank.
    criteria = [_criterion(facts, found, rank) for rank in range(1, found.rank + 1)]
    rank, best, least = 1 + int(np.argmin(criteria)), found, criteria[-1]
    # A component of a few wrong entries mixes with the others, which do not fit alone: fit fewer.
    for fewer in range(min(rank, found.rank - 1), 0, -1):
        again = _fitted(facts, options._replace(components=fewer))
        criterion = _criterion(facts, again, again.rank)
        if again.interrupted or (criterion >= least and fewer < rank):
            break
        best, least = again, criterion
    return best


def _criterion(facts: Facts, found: Start, rank: int) -> float:
    """Schwarz's criterion of the first components."""
    residual = _residual(facts, [factor[:, :rank] for factor in found.x])
    return judged(facts, found.x, rank, residual).criterion


def _fitted(facts: Facts, options: Options) -> Start:
    """The factor model of a table, or of its transpose if it is wider than long."""
    shape, operator, data = facts.map.shape, facts.operator, facts.data
    assert shape is not None
    wide, weights = shape[0] < shape[1], facts.problem.loss.precisions(data.shape)
    if operator.point_shape is not None:
        places = operator.places(np.ones(data.shape, bool))
        places = places[::-1] if wide else places
        rows, columns, values, weights = without_copies(*places, data, weights)
        sides = max(shape), min(shape)
        found, _ = fit_entries(
            rows, columns, values, sides, weights, options, callback=facts.watch_factors
        )
    else:
        table = np.where(weights > 0, data, np.nan)
        table, weights = (table.T, weights.T) if wide else (table, weights)
        found = fit_table(table, weights, options, callback=facts.watch_factors)
    x = _balanced(*(found.loadings, found.scores) if wide else (found.scores, found.loadings))
    residual = _residual(facts, x)
    return Start(x, x[0].shape[1], found.sweeps, found.interrupted, found.exact, residual)


def _residual(facts: Facts, x: Any) -> np.ndarray:
    left, right = x
    if facts.operator.point_shape is None:
        return left @ right.T - facts.data
    rows, columns = facts.operator.places(np.ones(facts.data.shape, bool))
    return np.einsum("ij,ij->i", left[rows], right[columns]) - facts.data


def _balanced(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the same matrix with orthogonal columns of equal norms."""
    found = Components.standing(left, right) if left.shape[1] else None
    if found is None or not found.values.size:
        return np.zeros((len(left), 1)), np.zeros((len(right), 1))
    roots = np.sqrt(found.values)
    return found.left * roots, found.right * roots


class Array:
    """The observed entries of a symmetric matrix or a tensor in their places."""

    def __init__(self, facts: Facts, seed: int):
        assert facts.ranked is not None
        self.facts, self.map, self.seed = facts, facts.ranked, seed
        self.values, self.weights = _in_their_places(facts, facts.ranked.shape or ())

    def semidefinite(self) -> Start:
        """The symmetric, positive part of a low-rank table."""
        found = self._table(self.values, self.weights, self.map.rank)
        left, right = found.x
        spectrum = project_psd(left @ right.T, found.rank, noisy=False).parts
        return found._replace(x=spectrum.left * np.sqrt(spectrum.values), residual=None)

    def unfolded(self) -> Start | None:
        """The terms of a tensor whose squarest unfolding is an exact matrix; None if it is not.

        Rank and wrong entries of a matrix are found more surely than those of a tensor.
        """
        shape = self.values.shape
        order, sides = squarest_order(shape)
        values, weights = (
            np.transpose(each, order).reshape(sides) for each in (self.values, self.weights)
        )
        known = weights > 0
        bound = _most_terms(sides, self.map.rank, int(known.sum()))
        found = self._table(values, weights, bound) if bound else None
        if found is None or not (found.exact or found.interrupted) or not np.any(found.x[0]):
            return None
        assert found.residual is not None
        matrix = found.x[0] @ found.x[1].T
        # Short columns with many wrong entries may be anything: the other modes determine them.
        zero = math.sqrt(np.finfo(float).eps) * np.max(np.abs(matrix))
        wrong, lost = known & (np.abs(found.residual) > zero), np.zeros(sides, bool)
        for axis in (0, 1) if found.exact else ():
            lost |= 2 * wrong.sum(axis, keepdims=True) >= known.sum(axis, keepdims=True)
        matrix, lost = (
            np.transpose(each.reshape([shape[mode] for mode in order]), np.argsort(order))
            for each in (matrix, lost)
        )
        rng, symmetric = np.random.default_rng(self.seed), bool(self.map.symmetric)
        tucker = core_from_entries(matrix, lost, found.rank, symmetric=symmetric, rng=rng)
        if tucker is None:
            return None
        return found._replace(x=self._parameters(tucker, found.rank), residual=None)

    def tensor(self) -> Start:
        """The factor model of the tensor itself."""
        options = Options(most=self.map.rank, robust=self.facts.robust, seed=self.seed)
        found = fit_tensor(self.values, self.weights, options, callback=self.facts.watch_factors)
        x: Parameters = found.factors
        if self.map.symmetric:
            tucker = nearest_tucker(found.values(), found.rank, symmetric=True)
            x = self._parameters(tucker, found.rank)
        return Start(x, found.rank, found.sweeps, found.interrupted)

    def _table(self, values: np.ndarray, weights: np.ndarray, rank: int) -> Start:
        """The factor model of the entries as a matrix, with the loss of the problem."""
        loss = self.facts.problem.loss
        loss = loss.with_weights(np.sqrt(weights) if loss.robust else weights)
        table = Composite(loss, LowRank(values.shape, rank), np.nan_to_num(values))
        return low_rank(Facts(table, self.facts.watch), self.seed)

    def _parameters(self, tucker: Tucker, rank: int) -> Parameters:
        """Parameters of so many terms whose point is near a tensor."""
        rng, symmetric = np.random.default_rng(self.seed), bool(self.map.symmetric)
        return self.map.parameters(decompose(tucker, rank, rng, symmetric=symmetric))


def _most_terms(sides: tuple[int, int], bound: int, known: int) -> int:
    """The largest rank of a matrix whose freedom is less than half of what is known."""

    def wanted(rank: int) -> int:
        return convincing_observations(LowRank(sides, rank).degrees_of_freedom)

    ranks = range(1, min(bound, *sides) + 1)
    return max((r for r in ranks if wanted(r) <= (known if r == 1 else known / 2)), default=0)


def _in_their_places(facts: Facts, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The entries, NaN where none is known, and their inverse variances.

    An entry of a symmetric point is also that with permuted indices.
    """
    data, weights = facts.data, facts.problem.loss.precisions(facts.data.shape)
    if facts.operator.point_shape is not None:
        places = np.ravel_multi_index(facts.operator.places(np.ones(data.shape, bool)), shape)
        size = math.prod(shape)
        total, sums = (np.bincount(places, w, minlength=size) for w in (weights, weights * data))
        weights = total.reshape(shape)
        data = np.divide(sums, total, out=np.zeros(size), where=total > 0).reshape(shape)
    values = np.where(weights > 0, data, np.nan)
    if facts.map.symmetric:
        for order in itertools.permutations(range(len(shape))):
            missing = np.isnan(values)
            values = np.where(missing, np.transpose(values, order), values)
            weights = np.where(missing, np.transpose(weights, order), weights)
    return values, np.where(np.isnan(values), 0.0, weights)
