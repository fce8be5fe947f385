"""Starts for observed entries: the robust factor model finds the rank and the wrong entries."""

import itertools
import math
from typing import NamedTuple

import jax
import numpy as np

from .._typing import Parameters
from ..factor import Options, fit_tensor
from ..init._components import decompose
from ..init._matrices import project_psd
from ..init._tensors import project_tucker
from ..maps import CP, PSD, LowRank, SymmetricCP
from ..operators import Entries
from ..problem import Composite
from ._descent import Watch
from ._linearised import with_weights
from ._structure import with_rank
from ._tables import fit_low_rank, precisions

# A larger tensor is formed only if so many of its entries were observed.
_LARGE = 1e7


class FactorStart(NamedTuple):
    """Parameters of a point that most entries agree with."""

    x: Parameters
    """Of the full rank of the map; columns of zeros beyond the rank that was found."""
    rank: int
    sweeps: int
    interrupted: bool


def factor_start(problem: Composite, seed: int, watch: Watch) -> FactorStart | None:
    """The factor model's point as parameters of the map; None if it is zero, or too large."""
    map = problem.map
    assert isinstance(map, (PSD, CP, SymmetricCP))
    assert map.shape is not None
    if math.prod(map.shape) > max(problem.data.size, _LARGE):
        return None
    array, weights = _as_array(problem, map.shape)
    if isinstance(map, PSD):
        found = _semidefinite(problem, map, array, weights, seed, watch)
    else:
        found = _tensor(problem, map, array, weights, seed, watch)
    if not any(np.any(factor) for factor in jax.tree.leaves(found.x)):
        return None
    missing = ((0, 0), (0, map.rank - found.rank))
    return found._replace(x=jax.tree.map(lambda factor: np.pad(factor, missing), found.x))


def _semidefinite(
    problem: Composite, map: PSD, array: np.ndarray, weights: np.ndarray, seed: int, watch: Watch
) -> FactorStart:
    """A low-rank table, and what is symmetric and positive of it."""
    roots = np.sqrt(weights) if problem.loss.robust else weights
    table = Composite(
        with_weights(problem.loss, roots), LowRank(array.shape, map.rank), np.nan_to_num(array)
    )
    found = fit_low_rank(table, seed, watch)
    left, right = found.x
    spectrum = project_psd(left @ right.T, found.map.rank, noisy=False).parts
    x = spectrum.left * np.sqrt(spectrum.values)
    return FactorStart(x, found.map.rank, found.steps, found.interrupted)


def _tensor(
    problem: Composite,
    map: CP | SymmetricCP,
    array: np.ndarray,
    weights: np.ndarray,
    seed: int,
    watch: Watch,
) -> FactorStart:
    options = Options(most=map.rank, robust=problem.loss.robust, seed=seed)
    found = fit_tensor(
        array,
        weights,
        options,
        callback=lambda stage, sweep, noise: watch("factor model", sweep, noise),
    )
    x: Parameters = found.factors
    if isinstance(map, SymmetricCP):
        tucker = project_tucker(found.values(), found.rank, symmetric=True, noisy=False).parts
        fewer = with_rank(map, found.rank)
        assert isinstance(fewer, SymmetricCP)
        x = decompose(tucker, fewer, np.random.default_rng(seed))
    return FactorStart(x, found.rank, found.sweeps, found.interrupted)


def _as_array(problem: Composite, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The entries in their places, NaN where none is known, and their precisions.

    Of a symmetric point an entry is also that with permuted indices.
    """
    data = np.asarray(problem.data, np.float64)
    weights = precisions(problem.loss, data.shape)
    if isinstance(problem.operator, Entries):
        places = np.ravel_multi_index([np.asarray(i) for i in problem.operator.indices], shape)
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
