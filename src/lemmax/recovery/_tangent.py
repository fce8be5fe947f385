"""Whether the observations determine a point: their gains on its tangents."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._programs import compiled
from .._terms.entries import connected_parts, derivatives, row_grams, row_variances, unit_columns
from .._typing import Parameters
from ..maps import AbstractRankedMap
from ..methods._measured import measured_jacobian
from ..problem import Composite
from . import _constants as constants


class Tangent(NamedTuple):
    """How well the observations see the directions in which a point can move."""

    freedom: int
    """Dimension of the tangent space."""
    error: float
    """Norm of the error of the point for independent errors of size 1 in the observations;
    infinite if there is a direction that they do not see."""


def tangent_of_measurements(
    problem: Composite, x: Parameters, used: np.ndarray, freedom: int | None
) -> Tangent:
    """Compare ``B'WB`` with ``J'J``; ``freedom`` is the rank of J where that is known."""
    weights = jnp.asarray(used, problem.data.dtype)
    inner, outer = (np.asarray(a, np.float64) for a in _grams(problem, x, weights))
    return _compared(inner, outer, freedom)


def _compared(inner: np.ndarray, outer: np.ndarray, freedom: int | None) -> Tangent:
    """Gains of the observations on tangents of norm 1."""
    lengths, vectors = np.linalg.eigh(outer)
    if freedom is None:
        freedom = int(np.sum(lengths > constants.LEAST_GAIN**2 * lengths[-1]))
    kept = slice(len(lengths) - min(freedom, len(lengths)), None)
    basis = vectors[:, kept] / np.sqrt(np.maximum(lengths[kept], np.finfo(float).tiny))
    return Tangent(freedom, _error(np.linalg.eigvalsh(basis.T @ inner @ basis)))


def _error(gains: np.ndarray) -> float:
    if np.min(gains) <= constants.LEAST_GAIN**2 * np.max(gains):
        return np.inf
    return float(np.sqrt(np.sum(1 / gains)))


@compiled
def _grams(problem: Composite, x: Parameters, weights: Array) -> tuple[Array, Array]:
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        return ravel_pytree(problem.map.gram(x, unravel(direction)))[0]

    matrix = measured_jacobian(problem, x)
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
    factors, symmetric = _unit_factors(map, x), bool(map.symmetric)
    shape = tuple(len(factor) for factor in factors)
    parameters = sum(factor.size for factor in factors)
    if parameters**2 * (math.prod(shape) + 4 * parameters) <= constants.LARGEST_B:
        seen = problem.operator.places(np.asarray(used))
        inner, outer = (
            derivatives(factors, places, symmetric)
            for places in (seen, tuple(np.indices(shape).reshape(len(shape), -1)))
        )
        return _compared(inner.T @ inner, outer.T @ outer, freedom)
    places = _observed(problem, used)
    if connected_parts(shape, places, symmetric) > 1:
        return Tangent(freedom, np.inf)
    grams = _grams_of_rows(factors, places, symmetric)[: 1 if symmetric else None]
    return Tangent(freedom, _error(np.concatenate([np.linalg.eigvalsh(g).ravel() for g in grams])))


def spread_of_entries(
    problem: Composite, map: AbstractRankedMap, x: Parameters, shown: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """The standard deviation of ``prediction - observation`` in units of that of the noise.

    Infinite where a row is not determined by what is shown.
    """
    factors, places = _unit_factors(map, x), _observed(problem, shown)
    grams = _grams_of_rows(factors, places, bool(map.symmetric))
    variances = row_variances(factors, grams, problem.operator.places(asked), constants.LEAST_GAIN)
    spread = np.ones(problem.data.shape)
    spread[asked] = np.sqrt(1 + variances)
    return spread


def _unit_factors(map: AbstractRankedMap, x: Parameters) -> list[np.ndarray]:
    return unit_columns([np.asarray(factor, np.float64) for factor in map(x).factors])


def _observed(problem: Composite, used: np.ndarray) -> tuple[np.ndarray, ...] | np.ndarray:
    """Places of entries of a list; the mask itself if the whole array is observed."""
    operator, used = problem.operator, np.asarray(used)
    return used if operator.point_shape is None else operator.places(used)


def _grams_of_rows(factors: list[np.ndarray], places: Any, symmetric: bool) -> list[np.ndarray]:
    """Of the regressions of all rows of each factor; every mode of a symmetric point sees all."""
    grams = list(row_grams(factors, places))
    return [sum(grams[1:], grams[0])] * len(grams) if symmetric else grams
