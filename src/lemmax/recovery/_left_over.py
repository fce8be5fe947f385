"""Terms that remain in the residuals of a noisy fit because the rank was too low for them.

A randomisation test: if residuals are noise, their signs are exchangeable. Singular values above
those under all of 19 random choices of signs have a probability of at most 5 % under noise, for
any sizes of residuals and any measurements.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import svds

from .._terms import leading_vectors, multiplied, unfolded
from ..init._start import Observations
from ..points import KruskalPoint
from . import _constants as constants
from ._facts import Facts


def left_over(facts: Facts, residual: np.ndarray, level: float) -> float:
    """The norm of what stands out of the noise in the residuals up to a level."""
    used = facts.known & (np.abs(residual) <= level)
    counted, shape = np.where(used, residual, 0.0), facts.operator.point_shape
    if not np.any(counted) or (facts.entrywise and math.prod(shape or ()) > constants.LARGE):
        return 0.0
    if not facts.entrywise:
        return _left_over_of_measurements(facts, counted)
    rest = counted if shape is None else Observations(facts.problem).adjoint(counted)
    rng, norms = np.random.default_rng(0), []
    for mode in range(rest.ndim if rest.ndim > 2 else 1):
        matrix = unfolded(rest, mode)
        matrix = matrix if len(matrix) <= matrix.shape[1] else matrix.T
        by_chance = _by_chance(rng, matrix, lambda signed: float(np.max(_singular_values(signed))))
        values = _singular_values(matrix)
        norms.append(float(np.linalg.norm(values[values > by_chance])))
    # What is seen of a component is the share of it that is observed.
    return max(norms) * rest.size / float(used.sum())


def _left_over_of_measurements(facts: Facts, counted: np.ndarray) -> float:
    """The size of a term that stands out of the noise."""
    observed = Observations(facts.problem)
    point, value = _leading_term(observed.adjoint(counted))

    def of_term(signed: np.ndarray) -> float:
        return _leading_term(observed.adjoint(signed))[1]

    if value <= _by_chance(np.random.default_rng(0), counted, of_term):
        return 0.0
    seen = np.where(counted != 0, observed.measure(point), 0.0)
    squares = float(np.vdot(seen, seen))
    return abs(float(np.vdot(seen, counted))) / squares if squares else 0.0


def _by_chance(
    rng: np.random.Generator, residual: np.ndarray, largest: Callable[[np.ndarray], float]
) -> float:
    """The largest size of a term in the residuals under random signs."""
    flips = max(1, min(constants.FLIPS, int(constants.LARGE / residual.size)))
    signs = (rng.integers(0, 2, residual.shape, dtype=np.int8) * 2 - 1 for _ in range(flips))
    # Of a large matrix the largest singular value varies by this part of it (Tracy and Widom).
    margin = 2 * min(residual.shape) ** (-2 / 3) if flips < constants.FLIPS else 0.0
    return (1 + margin) * max(largest(residual * sign) for sign in signs)


def _singular_values(matrix: np.ndarray) -> np.ndarray:
    """All singular values of a short matrix, the largest of a long one."""
    if len(matrix) ** 3 <= constants.LARGE:
        return np.sqrt(np.maximum(np.linalg.eigvalsh(matrix @ matrix.T), 0))
    start = np.ones(len(matrix))
    return np.asarray(svds(matrix, k=constants.FEW, v0=start, return_singular_vectors=False))


def _leading_term(array: np.ndarray) -> tuple[KruskalPoint, float]:
    """An outer product of unit vectors nearly parallel to an array, and its part in that."""
    vectors = tuple(leading_vectors(unfolded(array, mode), 1) for mode in range(array.ndim))
    part = multiplied(array, vectors)
    return KruskalPoint(vectors), abs(float(part.reshape(())))
