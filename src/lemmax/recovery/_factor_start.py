"""Starts from observed entries: the robust factor model finds the rank and the wrong entries."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from .._memory import require_bytes
from .._terms import Tucker, decompose, nearest_tucker
from .._terms.unfolding import core_from_entries, squarest_order
from .._typing import Parameters
from ..factor import Options, fit_tensor
from ..init._matrices import project_psd
from ..maps import AbstractRankedMap, LowRank
from ..problem import Composite
from . import _constants as constants
from ._facts import Watch, convincing_observations
from ._tables import TableFit, fit_low_rank, precisions


class FactorStart(NamedTuple):
    """Parameters of a point that most entries agree with."""

    x: Parameters
    """Of the full rank of the map; columns of zeros beyond the rank that was found."""
    rank: int
    sweeps: int
    interrupted: bool
    residual: np.ndarray | None = None
    """Of a point that is a fit already."""


class Entries(NamedTuple):
    """The observed entries of a problem in their places."""

    problem: Composite
    map: AbstractRankedMap
    array: np.ndarray
    """NaN where nothing is known."""
    weights: np.ndarray
    """Inverse variances."""
    seed: int
    watch: Watch

    def table(self, rank: int, flat: Callable[[np.ndarray], np.ndarray] | None = None) -> TableFit:
        """The factor model of the entries as a matrix, with the loss of the problem."""
        array, weights = (each if flat is None else flat(each) for each in self[2:4])
        loss = self.problem.loss
        loss = loss.with_weights(np.sqrt(weights) if loss.robust else weights)
        table = Composite(loss, LowRank(array.shape, rank), np.nan_to_num(array))
        return fit_low_rank(table, self.seed, self.watch)

    def parameters(self, tucker: Tucker, rank: int) -> Parameters:
        """Parameters of so many terms whose point is near a tensor."""
        rng, symmetric = np.random.default_rng(self.seed), bool(self.map.symmetric)
        return self.map.parameters(decompose(tucker, rank, rng, symmetric=symmetric))


def factor_starts(problem: Composite, seed: int, watch: Watch) -> Iterator[FactorStart]:
    """The factor model's points as parameters of the map; none if they are zero, or too large."""
    map = problem.map.ranked
    assert map is not None
    assert map.shape is not None
    needed = constants.BYTES_OF_AN_ENTRY * problem.data.size
    what = f"recover: a fit of data of shape {problem.data.shape}"
    require_bytes(needed, what, "Recover a part of the data.")

    def padded(found: FactorStart) -> FactorStart:
        missing = ((0, 0), (0, map.rank - found.rank))
        return found._replace(x=jax.tree.map(lambda factor: np.pad(factor, missing), found.x))

    if len(map.shape) == 2 and not map.symmetric:
        fit = fit_low_rank(problem, seed, watch)
        start = FactorStart(fit.x, fit.rank, fit.sweeps, fit.interrupted, fit.residual)
        yield padded(start)
        return
    if math.prod(map.shape) > max(problem.data.size, constants.LARGE):
        return
    entries = Entries(problem, map, *_as_array(problem, map.shape), seed, watch)
    kinds = (_semidefinite,) if len(map.shape) == 2 else (_unfolded, _tensor)
    for found in filter(None, (kind(entries) for kind in kinds)):
        if found.interrupted or any(np.any(factor) for factor in jax.tree.leaves(found.x)):
            yield padded(found)


def _semidefinite(entries: Entries) -> FactorStart:
    """The symmetric, positive part of a low-rank table."""
    found = entries.table(entries.map.rank)
    left, right = found.x
    spectrum = project_psd(left @ right.T, found.rank, noisy=False).parts
    x = spectrum.left * np.sqrt(spectrum.values)
    return FactorStart(x, found.rank, found.sweeps, found.interrupted)


def _unfolded(entries: Entries) -> FactorStart | None:
    """The terms of a tensor whose squarest unfolding is an exact matrix; None if it is not.

    Rank and wrong entries of a matrix are found more surely than those of a tensor.
    """
    shape = entries.array.shape
    order, sides = squarest_order(shape)

    def flat(each: np.ndarray) -> np.ndarray:
        return np.transpose(each, order).reshape(sides)

    known = flat(entries.weights) > 0
    bound = _most_terms(sides, entries.map.rank, int(known.sum()))
    if not bound:
        return None
    found = entries.table(bound, flat)
    left, right = found.x
    matrix, rank = left @ right.T, found.rank
    if not (found.exact or found.interrupted) or not np.any(matrix):
        return None
    # Short columns with many wrong entries may be anything: the other modes determine them.
    lost = np.zeros(sides, bool)
    if found.exact:
        zero = math.sqrt(np.finfo(float).eps) * np.max(np.abs(matrix))
        wrong = known & (np.abs(found.residual) > zero)
        for axis in (0, 1):
            lost |= 2 * wrong.sum(axis, keepdims=True) >= known.sum(axis, keepdims=True)

    def folded(each: np.ndarray) -> np.ndarray:
        return np.transpose(each.reshape([shape[mode] for mode in order]), np.argsort(order))

    rng, symmetric = np.random.default_rng(entries.seed), bool(entries.map.symmetric)
    tucker = core_from_entries(folded(matrix), folded(lost), rank, symmetric=symmetric, rng=rng)
    if tucker is None:
        return None
    return FactorStart(entries.parameters(tucker, rank), rank, found.sweeps, found.interrupted)


def _tensor(entries: Entries) -> FactorStart:
    """The factor model of the tensor itself."""
    map, watch = entries.map, entries.watch
    found = fit_tensor(
        entries.array,
        entries.weights,
        Options(most=map.rank, robust=entries.problem.loss.robust, seed=entries.seed),
        callback=lambda stage, sweep, noise: watch("factor model", sweep, noise),
    )
    x: Parameters = found.factors
    if map.symmetric:
        tucker = nearest_tucker(found.values(), found.rank, symmetric=True)
        x = entries.parameters(tucker, found.rank)
    return FactorStart(x, found.rank, found.sweeps, found.interrupted)


def _most_terms(sides: tuple[int, int], bound: int, known: int) -> int:
    """The largest rank of a matrix whose freedom is less than half of what is known."""
    most = 0
    for rank in range(1, min(bound, *sides) + 1):
        wanted = convincing_observations(LowRank(sides, rank).degrees_of_freedom)
        if wanted > (known if rank == 1 else known / 2):
            break
        most = rank
    return most


def _as_array(problem: Composite, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The entries in their places, NaN where none is known, and their inverse variances.

    An entry of a symmetric point is also that with permuted indices.
    """
    data = np.asarray(problem.data, np.float64)
    weights = precisions(problem.loss, data.shape)
    if problem.operator.point_shape is not None:
        places = problem.operator.places(np.ones(data.shape, bool))
        places = np.ravel_multi_index(places, shape)
        size = math.prod(shape)
        total = np.bincount(places, weights, minlength=size)
        sums = np.bincount(places, weights * data, minlength=size)
        weights = total.reshape(shape)
        data = np.divide(sums, total, out=np.zeros(size), where=total > 0).reshape(shape)
    array = np.where(weights > 0, data, np.nan)
    if problem.map.symmetric:
        for order in itertools.permutations(range(len(shape))):
            missing = np.isnan(array)
            array = np.where(missing, np.transpose(array, order), array)
            weights = np.where(missing, np.transpose(weights, order), weights)
    return array, np.where(np.isnan(array), 0.0, weights)
