"""Whether the observations determine a point: their gains on its tangents."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._programs import compiled
from .._terms.entries import (
    Places,
    connected_parts,
    derivatives,
    product_of_others,
    row_grams,
    unit_columns,
)
from .._typing import Parameters
from ..maps import AbstractMap, AbstractRankedMap
from ..operators import AbstractOperator
from ..problem import Composite
from . import _constants as constants


class Tangent(NamedTuple):
    """How well the observations see the directions in which a point can move."""

    freedom: int
    """Dimension of the tangent space."""
    weakest: float
    """Smallest gain of the observations on a tangent of norm 1, relative to the largest."""
    error: float
    """Norm of the error of the point for independent errors of size 1 in the observations."""


def tangent_of_matrix(
    map: AbstractMap, x: Parameters, matrix: Array, used: np.ndarray, freedom: int | None
) -> Tangent:
    """Compare ``B'WB`` with ``J'J``; ``freedom`` is the rank of J where that is known."""
    weights = jnp.asarray(used, matrix.dtype)
    inner, outer = (np.asarray(a, np.float64) for a in _grams(map, x, matrix, weights))
    return _compared(inner, outer, freedom)


def _compared(inner: np.ndarray, outer: np.ndarray, freedom: int | None) -> Tangent:
    """Gains of the observations on tangents of norm 1."""
    lengths, vectors = np.linalg.eigh(outer)
    if freedom is None:
        freedom = int(np.sum(lengths > constants.LEAST_GAIN**2 * lengths[-1]))
    kept = slice(len(lengths) - min(freedom, len(lengths)), None)
    basis = vectors[:, kept] / np.sqrt(np.maximum(lengths[kept], np.finfo(float).tiny))
    gains = np.linalg.eigvalsh(basis.T @ inner @ basis)
    return Tangent(freedom, *_weakest_and_error(gains))


@compiled
def _grams(map: AbstractMap, x: Parameters, matrix: Array, weights: Array) -> tuple[Array, Array]:
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        return ravel_pytree(map.gram(x, unravel(direction)))[0]

    outer = jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))
    return matrix.T @ (jnp.ravel(weights)[:, None] * matrix), outer


def tangent_of_entries(
    problem: Composite, map: AbstractRankedMap, x: Parameters, used: np.ndarray, freedom: int
) -> Tangent:
    """For observed entries of a matrix or tensor.

    Exact for small points. For others, every row of a factor is a regression with the other
    factors given, which is a lower bound of the error. A row with fewer observations than terms is
    not determined, nor are parts of the point that no observation connects.
    """
    factors = unit_columns([np.asarray(factor, np.float64) for factor in map(x).factors])
    operator, used = problem.operator, np.asarray(used)
    shape = tuple(len(factor) for factor in factors)
    parameters = sum(factor.size for factor in factors)
    if parameters**2 * (math.prod(shape) + 4 * parameters) <= constants.LARGEST_B:
        seen = operator.places(used)
        inner, outer = (
            derivatives(factors, places, bool(map.symmetric))
            for places in (seen, tuple(np.indices(shape).reshape(len(shape), -1)))
        )
        return _compared(inner.T @ inner, outer.T @ outer, freedom)
    places = _observed(operator, used)
    if connected_parts(shape, places, bool(map.symmetric)) > 1:
        return Tangent(freedom, 0.0, np.inf)
    grams = list(row_grams(factors, places))
    if map.symmetric:  # every mode sees the same rows
        grams = [sum(grams[1:], grams[0])]
    gains = np.concatenate([np.linalg.eigvalsh(gram).ravel() for gram in grams])
    return Tangent(freedom, *_weakest_and_error(np.sort(gains)))


def spread_of_entries(
    problem: Composite, map: AbstractRankedMap, x: Parameters, shown: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """The standard deviation of ``prediction - observation`` in units of that of the noise.

    Every row of a factor is a regression on its shown entries with the other factors given; the
    variances of the rows that make an entry add up. Infinite where a row is not determined.
    """
    factors = unit_columns([np.asarray(factor, np.float64) for factor in map(x).factors])
    places = problem.operator.places(asked)
    grams = list(row_grams(factors, _observed(problem.operator, shown)))
    if map.symmetric:
        grams = [sum(grams[1:], grams[0])] * len(grams)
    variance = np.ones(len(places[0]))
    for mode, gram in enumerate(grams):
        values, vectors = np.linalg.eigh(gram)
        seen = values > constants.LEAST_GAIN**2 * np.max(values)
        roots = vectors / np.sqrt(np.where(seen, values, 1))[:, None, :]
        others = product_of_others(factors, places, mode)
        for k in range(roots.shape[2]):
            along = np.sum(others * roots[places[mode], :, k], axis=1)
            variance += np.where(seen[places[mode], k], along**2, np.inf)
    spread = np.ones(problem.data.shape)
    spread[asked] = np.sqrt(variance)
    return spread


def _observed(operator: AbstractOperator, used: np.ndarray) -> Places | np.ndarray:
    """Places of entries of a list; the mask itself if the whole array is observed."""
    return used if operator.point_shape is None else operator.places(used)


def _weakest_and_error(gains: np.ndarray) -> tuple[float, float]:
    if gains[0] <= constants.LEAST_GAIN**2 * gains[-1]:
        return 0.0, np.inf
    return float(np.sqrt(gains[0] / gains[-1])), float(np.sqrt(np.sum(1 / gains)))


def tangent_unseen(gain: float, freedom: int) -> Tangent:
    """For large problems: as if all tangents had the gain of the point itself."""
    return Tangent(freedom, np.nan, np.sqrt(freedom) / gain if gain > 0 else np.inf)
