"""Whether the observations determine a point: what they see of its tangents."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._typing import Parameters
from ..maps import PSD, AbstractMap
from ..operators import Entries, Identity
from ..problem import Composite

_UNSEEN = 1e-12


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
    lengths, vectors = np.linalg.eigh(outer)
    if freedom is None:
        freedom = int(np.sum(lengths > _UNSEEN * lengths[-1]))
    kept = slice(len(lengths) - min(freedom, len(lengths)), None)
    basis = vectors[:, kept] / np.sqrt(np.maximum(lengths[kept], np.finfo(float).tiny))
    gains = np.linalg.eigvalsh(basis.T @ inner @ basis)
    return Tangent(freedom, *_weakest_and_error(gains))


@eqx.filter_jit
def _grams(map: AbstractMap, x: Parameters, matrix: Array, weights: Array) -> tuple[Array, Array]:
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        return ravel_pytree(map.gram(x, unravel(direction)))[0]

    outer = jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))
    return matrix.T @ (jnp.ravel(weights)[:, None] * matrix), outer


def tangent_of_entries(
    problem: Composite, x: Parameters, used: np.ndarray, freedom: int
) -> Tangent:
    """For observed entries of a matrix: every row as a regression on the other factor, given that.

    A lower bound of what can go wrong: a row with fewer observations than terms cannot be known.
    """
    left, right = (x, x) if isinstance(problem.map, PSD) else x
    left, right = (np.linalg.qr(np.asarray(f, np.float64))[0] for f in (left, right))
    operator = problem.operator
    if isinstance(operator, Entries):
        rows, columns = (np.asarray(index) for index in operator.indices)
    else:
        assert isinstance(operator, Identity)
        rows, columns = (index.ravel() for index in np.indices(used.shape))
    seen = np.ravel(used)
    gains = [
        _row_gains(len(left), rows[seen], right[columns[seen]]),
        _row_gains(len(right), columns[seen], left[rows[seen]]),
    ]
    return Tangent(freedom, *_weakest_and_error(np.sort(np.concatenate(gains))))


def _row_gains(count: int, rows: np.ndarray, regressors: np.ndarray) -> np.ndarray:
    """Eigenvalues of every row's normal matrix."""
    rank = regressors.shape[1]
    grams = np.empty((count, rank, rank))
    for a in range(rank):
        for b in range(a + 1):
            products = regressors[:, a] * regressors[:, b]
            grams[:, a, b] = grams[:, b, a] = np.bincount(rows, products, minlength=count)
    return np.linalg.eigvalsh(grams).ravel()


def _weakest_and_error(gains: np.ndarray) -> tuple[float, float]:
    if gains[0] <= _UNSEEN * gains[-1]:
        return 0.0, np.inf
    return float(np.sqrt(gains[0] / gains[-1])), float(np.sqrt(np.sum(1 / gains)))


def tangent_unseen(gain: float, freedom: int) -> Tangent:
    """Where nothing of the kind can be computed: as if all tangents were seen like the point."""
    return Tangent(freedom, np.nan, np.sqrt(freedom) / gain if gain > 0 else np.inf)
