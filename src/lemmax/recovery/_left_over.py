"""Terms that a fit to noisy data has left in the residuals, for which the bound had no room.

Of noise, a residual may as well have the other sign. So what is left is compared with the same
residuals under random signs, whatever their sizes and the measurements are.
"""

import math

import numpy as np
from scipy.sparse.linalg import svds

from .._terms import Components, leading_vectors, multiplied, unfolded
from ..init._start import Observations
from ..points import KruskalPoint
from ..problem import Composite
from . import _constants as constants

_TINY = float(np.finfo(np.float64).tiny)


def left_over(problem: Composite, residual: np.ndarray, known: np.ndarray, level: float) -> float:
    """The norm of what stands out of the noise in the residuals of entries up to a level.

    Components that live on a few rows are the outliers of those.
    """
    used, shape = known & (np.abs(residual) <= level), problem.operator.point_shape
    if shape is None:
        rest = np.where(used, residual, 0.0)
    elif math.prod(shape) > constants.LARGE:
        return 0.0
    else:
        rest = np.zeros(shape)
        np.add.at(rest, problem.operator.places(used), residual[used])
    share = float(used.sum()) / rest.size
    if not share:
        return 0.0
    rng, norms = np.random.default_rng(0), []
    for mode in range(rest.ndim if rest.ndim > 2 else 1):
        matrix = unfolded(rest, mode)
        matrix = matrix if len(matrix) <= matrix.shape[1] else matrix.T
        by_chance = max(_largest(matrix * signs) for signs in _signs(rng, matrix.shape))
        values, left = _leading(matrix)
        standing = values > max(constants.STANDS_OUT * by_chance, _TINY)
        values, left = values[standing], left[:, standing]
        found = Components(left, values, matrix.T @ left / values)
        # What is seen of a component is the share of it that is observed.
        norms.append(float(np.linalg.norm(values[found.spread()])) / share)
    return max(norms)


def left_over_of_measurements(problem: Composite, residual: np.ndarray, level: float) -> float:
    """The size of a term that stands out of the noise in the residuals up to a level."""
    observed = Observations(problem)
    counted = np.where(observed.known & (np.abs(residual) <= level), residual, 0.0)
    point, value = _leading_term(observed.adjoint(counted))
    signs = _signs(np.random.default_rng(0), counted.shape)
    by_chance = max(_leading_term(observed.adjoint(counted * sign))[1] for sign in signs)
    if value <= constants.STANDS_OUT * by_chance:
        return 0.0
    seen = np.where(counted != 0, observed.measure(point), 0.0)
    return abs(float(np.vdot(seen, counted))) / max(float(np.vdot(seen, seen)), _TINY)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    # Of many residuals the largest singular value hardly varies, and fewer signs do.
    flips = max(1, min(constants.FLIPS, int(constants.LARGE / math.prod(shape))))
    return rng.integers(0, 2, (flips, *shape), dtype=np.int8) * 2 - 1


def _leading(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and left vectors: all of a short matrix, a few of a long one."""
    if len(matrix) <= constants.SHORT:
        squares, left = np.linalg.eigh(matrix @ matrix.T)
        return np.sqrt(np.maximum(squares, 0)), left
    left, values, _ = svds(matrix, k=constants.FEW, v0=np.ones(len(matrix)))
    return np.asarray(values), np.asarray(left)


def _largest(matrix: np.ndarray) -> float:
    """The largest singular value."""
    if len(matrix) <= constants.SHORT:
        return float(np.sqrt(max(np.linalg.eigvalsh(matrix @ matrix.T)[-1], 0.0)))
    values = svds(matrix, k=1, v0=np.ones(len(matrix)), return_singular_vectors=False)
    return float(np.asarray(values)[0])


def _leading_term(array: np.ndarray) -> tuple[KruskalPoint, float]:
    """An outer product of unit vectors nearly parallel to an array, and its part in that."""
    vectors = tuple(leading_vectors(unfolded(array, mode), 1) for mode in range(array.ndim))
    part = multiplied(array, vectors)
    return KruskalPoint(vectors), abs(float(part.reshape(())))
