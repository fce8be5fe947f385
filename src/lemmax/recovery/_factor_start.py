"""Starts for observed entries: the robust factor model finds the rank and the wrong entries."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from .._terms import Tucker, decompose, leading_vectors, nearest_tucker, unfolded
from .._typing import Parameters
from ..factor import Options, fit_tensor
from ..init._matrices import project_psd
from ..maps import AbstractRankedMap, LowRank
from ..problem import Composite
from . import _constants as constants
from ._facts import Watch, convincing_observations, with_weights
from ._tables import TableFit, fit_low_rank, precisions

# Rounding errors of an exact table, relative to its largest entry. The core of a tensor is told
# from so many entries for each of its own.
_ROUNDING, _PER_UNKNOWN = 1e-9, 20


class FactorStart(NamedTuple):
    """Parameters of a point that most entries agree with."""

    x: Parameters
    """Of the full rank of the map; columns of zeros beyond the rank that was found."""
    rank: int
    sweeps: int
    interrupted: bool
    """Whether it was stopped on the way, and this is all there is."""


def factor_starts(problem: Composite, seed: int, watch: Watch) -> Iterator[FactorStart]:
    """The factor model's points as parameters of the map; none if they are zero, or too large.

    A tensor may be exact as a matrix, whose rank and wrong entries are found more surely.
    """
    map = problem.map.ranked
    assert map is not None
    assert map.shape is not None
    if math.prod(map.shape) > max(problem.data.size, constants.LARGE):
        return
    array, weights = _as_array(problem, map.shape)
    kinds = (_semidefinite,) if len(map.shape) == 2 else (_unfolded, _tensor)
    for kind in kinds:
        found = kind(problem, map, array, weights, seed, watch)
        if found is None:
            continue
        nothing = not any(np.any(factor) for factor in jax.tree.leaves(found.x))
        if nothing and not found.interrupted:
            continue
        missing = ((0, 0), (0, map.rank - found.rank))
        yield found._replace(x=jax.tree.map(lambda factor, m=missing: np.pad(factor, m), found.x))


def _table(
    problem: Composite, array: np.ndarray, weights: np.ndarray, rank: int, seed: int, watch: Watch
) -> TableFit:
    """The factor model of a table, with the loss of a problem."""
    roots = np.sqrt(weights) if problem.loss.robust else weights
    loss = with_weights(problem.loss, roots)
    return fit_low_rank(
        Composite(loss, LowRank(array.shape, rank), np.nan_to_num(array)), seed, watch
    )


def _semidefinite(
    problem: Composite,
    map: AbstractRankedMap,
    array: np.ndarray,
    weights: np.ndarray,
    seed: int,
    watch: Watch,
) -> FactorStart:
    """What is symmetric and positive of a low-rank table."""
    found = _table(problem, array, weights, map.rank, seed, watch)
    rank, (left, right) = found.map.rank, found.x
    spectrum = project_psd(left @ right.T, rank, noisy=False).parts
    x = spectrum.left * np.sqrt(spectrum.values)
    return FactorStart(x, rank, found.steps, found.interrupted)


def _unfolded(
    problem: Composite,
    map: AbstractRankedMap,
    array: np.ndarray,
    weights: np.ndarray,
    seed: int,
    watch: Watch,
) -> FactorStart | None:
    """The terms of a tensor that is exact as the squarest of its matrices; None if none is."""
    rows, columns = _balanced_modes(array.shape)
    order, sides = (*rows, *columns), (_size(array.shape, rows), _size(array.shape, columns))
    bound = _most_terms(sides, map.rank, int(np.sum(weights > 0)))
    if not bound:
        return None

    def flat(each: np.ndarray) -> np.ndarray:
        return np.transpose(each, order).reshape(sides)

    found = _table(problem, flat(array), flat(weights), bound, seed, watch)
    if not (found.exact or found.interrupted):
        return None
    left, right = found.x
    matrix = left @ right.T
    if not np.any(matrix):
        return None  # stopped before there was anything
    # Short columns with many wrong entries may be anything: the other modes tell them.
    known = flat(weights) > 0
    wrong = np.abs(found.residual) > _ROUNDING * np.max(np.abs(matrix))
    lost = np.zeros(sides, bool)
    for axis in (0, 1) if found.exact else ():
        seen, missed = (np.sum(each, axis=axis, keepdims=True) for each in (known, known & wrong))
        lost |= missed >= constants.HALF * seen

    def folded(each: np.ndarray) -> np.ndarray:
        return np.transpose(each.reshape([array.shape[mode] for mode in order]), np.argsort(order))

    tucker = _core(folded(matrix), folded(lost), map, found.map.rank, seed)
    if tucker is None:
        return None
    x = _terms(tucker, map, found.map.rank, seed)
    return FactorStart(x, found.map.rank, found.steps, found.interrupted)


def _core(
    tensor: np.ndarray, lost: np.ndarray, map: AbstractRankedMap, rank: int, seed: int
) -> Tucker | None:
    """A tensor in bases of its modes, told from the entries that are not lost; None if too few."""
    if not np.any(lost):
        return nearest_tucker(tensor, rank, symmetric=bool(map.symmetric))
    bases = []
    for mode in range(tensor.ndim):
        whole = ~np.any(unfolded(lost, mode), axis=0)
        if np.sum(whole) < rank:
            return None
        bases.append(leading_vectors(unfolded(tensor, mode)[:, whole], rank))
    bases = tuple(bases[:1] * tensor.ndim if map.symmetric else bases)
    shape = [basis.shape[1] for basis in bases]
    places = np.flatnonzero(~lost)
    enough = _PER_UNKNOWN * math.prod(shape)
    if len(places) > enough:
        places = np.random.default_rng(seed).choice(places, enough, replace=False)
    rows = [b[k] for b, k in zip(bases, np.unravel_index(places, tensor.shape), strict=True)]
    design = functools.reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), rows)
    core = np.linalg.lstsq(design, tensor.ravel()[places], rcond=None)[0]
    return Tucker(core.reshape(shape), bases)


def _tensor(
    problem: Composite,
    map: AbstractRankedMap,
    array: np.ndarray,
    weights: np.ndarray,
    seed: int,
    watch: Watch,
) -> FactorStart:
    found = fit_tensor(
        array,
        weights,
        Options(most=map.rank, robust=problem.loss.robust, seed=seed),
        callback=lambda stage, sweep, noise: watch("factor model", sweep, noise),
    )
    x: Parameters = found.factors
    if map.symmetric:
        tucker = nearest_tucker(found.values(), found.rank, symmetric=True)
        x = _terms(tucker, map, found.rank, seed)
    return FactorStart(x, found.rank, found.sweeps, found.interrupted)


def _terms(tucker: Tucker, map: AbstractRankedMap, rank: int, seed: int) -> Parameters:
    """Parameters of so many terms whose point is near a tensor."""
    rng = np.random.default_rng(seed)
    return map.parameters(decompose(tucker, rank, rng, symmetric=bool(map.symmetric)))


def _most_terms(sides: tuple[int, int], bound: int, known: int) -> int:
    """The largest rank of a matrix whose freedom is less than half of what is known."""
    most = 0
    for rank in range(1, min(bound, *sides) + 1):
        wanted = convincing_observations(LowRank(sides, rank).degrees_of_freedom)
        if wanted > (known if rank == 1 else known / 2):
            break
        most = rank
    return most


def _balanced_modes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Modes for the rows and for the columns of a matrix that is as square as can be."""
    modes = range(len(shape))
    choices = [
        chosen for count in range(1, len(shape)) for chosen in itertools.combinations(modes, count)
    ]
    rows = max(choices, key=lambda c: min(_size(shape, c), math.prod(shape) // _size(shape, c)))
    return rows, tuple(mode for mode in modes if mode not in rows)


def _size(shape: tuple[int, ...], modes: tuple[int, ...]) -> int:
    return math.prod(shape[mode] for mode in modes)


def _as_array(problem: Composite, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The entries in their places, NaN where none is known, and their precisions.

    Of a symmetric point an entry is also that with permuted indices.
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
            known = np.isnan(array)
            array = np.where(known, np.transpose(array, order), array)
            weights = np.where(known, np.transpose(weights, order), weights)
    return array, np.where(np.isnan(array), 0.0, weights)
