"""Whether the observations determine a point: their gains on its tangents."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._programs import compiled
from .._terms.entries import connected_parts, derivatives, row_grams, unit_columns
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
    lone: np.ndarray | None = None
    """Which of the inliers determine a direction nearly alone, if that is known."""


def tangent_of_measurements(
    problem: Composite,
    x: Parameters,
    used: np.ndarray,
    freedom: int | None,
    sizes: np.ndarray | None = None,
) -> Tangent:
    """Compare B with J; ``freedom`` is the rank of J where that is known.

    With ``sizes`` of the residuals in units of the noise, an observation that is too far from
    what the others predict of it has its own error.
    """
    matrix, outer = (np.asarray(a, np.float64) for a in _derivatives(problem, x))
    used = np.ravel(used)
    return _compared(matrix[used], outer, freedom, None if sizes is None else np.ravel(sizes)[used])


def _compared(
    seen: np.ndarray,
    outer: np.ndarray,
    freedom: int | None,
    sizes: np.ndarray | None = None,
) -> Tangent:
    """Gains of the observations on tangents of norm 1."""
    lengths, vectors = np.linalg.eigh(outer)
    if freedom is None:
        freedom = int(np.sum(lengths > constants.LEAST_GAIN**2 * lengths[-1]))
    kept = slice(len(lengths) - min(freedom, len(lengths)), None)
    basis = vectors[:, kept] / np.sqrt(np.maximum(lengths[kept], np.finfo(float).tiny))
    gains, turns = np.linalg.eigh(basis.T @ (seen.T @ seen) @ basis)
    error = _error(gains)
    if sizes is None or np.isinf(error):
        return Tangent(freedom, error)
    # Of the linearised fit without an observation: its residual there, in whose variance both
    # errors are, that of the observation and that of the prediction.
    squares = (seen @ (basis @ turns)) ** 2 / gains
    free = np.maximum(1 - np.sum(squares, axis=1), constants.LEAST_GAIN)
    # Nothing else tells the noise of one that determines a direction nearly alone.
    lone = 1 - free > constants.LONELY
    doubted = (sizes > constants.BULK * np.sqrt(free)) | lone
    own = np.where(doubted, np.maximum(sizes / free, 1.0), 1.0)
    return Tangent(freedom, float(np.sqrt(np.sum(squares / gains * own[:, None] ** 2))), lone)


def _error(gains: np.ndarray) -> float:
    if np.min(gains) <= constants.LEAST_GAIN**2 * np.max(gains):
        return np.inf
    return float(np.sqrt(np.sum(1 / gains)))


@compiled
def _derivatives(problem: Composite, x: Parameters) -> tuple[Array, Array]:
    """Of the observations, and ``J'J`` of the map."""
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        return ravel_pytree(problem.map.gram(x, unravel(direction)))[0]

    outer = jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))
    return measured_jacobian(problem, x), outer


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
        return _compared(inner, outer.T @ outer, freedom)
    places = _observed(problem, used)
    if connected_parts(shape, places, symmetric) > 1:
        return Tangent(freedom, np.inf)
    grams = _grams_of_rows(factors, places, symmetric)[: 1 if symmetric else None]
    return Tangent(freedom, _error(np.concatenate([np.linalg.eigvalsh(g).ravel() for g in grams])))


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
