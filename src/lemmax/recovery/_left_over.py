"""Terms that a fit to noisy data has left in the residuals, for which the bound had no room."""

import math

import numpy as np
from scipy.sparse.linalg import svds

from ..init._start import Observations
from ..init._tensors import leading_vectors, multiplied, unfolded
from ..operators import Entries
from ..points import KruskalPoint
from ..problem import Composite
from ._components import Components

# How far a singular value must be above the edge of those of noise: noise that is larger in some
# rows raises them, too.
_CLEARANCE = 1.5
# Of measurements: residuals with so many random signs are looked at, above which a term must stand
# out by this factor.
_FLIPS, _STANDS_OUT = 19, 1.2
_TINY = float(np.finfo(np.float64).tiny)
# A larger array is not formed for this.
_LARGE = 2e7
# With more rows than this, so many singular values are looked at.
_SHORT, _FEW = 1500, 10


def left_over(problem: Composite, residual: np.ndarray, known: np.ndarray, level: float) -> float:
    """The norm of what stands out of the noise in the residuals, clipped at a level.

    Of a matrix or tensor of independent entries of variance 1 the singular values of an unfolding
    are below the sum of the roots of its sides (Geman, 1980). What lives on a few rows are the
    outliers of those.
    """
    operator, clipped = problem.operator, np.clip(residual, -level, level)
    if isinstance(operator, Entries):
        if math.prod(operator.shape) > _LARGE:
            return 0.0
        rest = np.zeros(operator.shape)
        np.add.at(rest, tuple(np.asarray(i)[known] for i in operator.indices), clipped[known])
    else:
        rest = np.where(known, clipped, 0.0)
    share = float(known.sum()) / rest.size
    size = math.sqrt(float(np.mean(rest**2)))
    norms = []
    for mode in range(rest.ndim if rest.ndim > 2 else 1):
        matrix = unfolded(rest, mode)
        matrix = matrix if len(matrix) <= matrix.shape[1] else matrix.T
        squares, left = _leading(matrix)
        edge = _CLEARANCE * size * sum(math.sqrt(d) for d in matrix.shape)
        standing = squares > max(edge**2, np.finfo(float).tiny)
        values = np.sqrt(squares[standing])
        right = matrix.T @ left[:, standing] / values
        found = Components(left[:, standing], values, right)
        # What is seen of a component is the share of it that is observed.
        norms.append(float(np.linalg.norm(values[found.spread()])) / share)
    return max(norms)


def _leading(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares of singular values and left vectors: all of a short matrix, a few of a long one."""
    if len(matrix) <= _SHORT:
        return np.linalg.eigh(matrix @ matrix.T)
    left, values, _ = svds(matrix, k=_FEW, v0=np.ones(len(matrix)))
    return np.asarray(values) ** 2, np.asarray(left)


def left_over_of_measurements(problem: Composite, residual: np.ndarray, level: float) -> float:
    """The size of a term that stands out of the noise in the residuals, clipped at a level.

    Of noise, a residual may as well have the other sign: the leading singular value of its adjoint
    is compared with those of residuals with random signs, whatever the measurements are.
    """
    observed = Observations(problem)
    clipped = np.where(observed.known, np.clip(residual, -level, level), 0.0)
    rng = np.random.default_rng(0)
    point, value = _leading_term(observed.adjoint(clipped))
    signs = rng.choice([-1.0, 1.0], (_FLIPS, *clipped.shape))
    by_chance = max(_leading_term(observed.adjoint(clipped * sign))[1] for sign in signs)
    if value <= _STANDS_OUT * by_chance:
        return 0.0
    seen = np.where(observed.known, observed.measure(point), 0.0)
    return abs(float(np.vdot(seen, clipped))) / max(float(np.vdot(seen, seen)), _TINY)


def _leading_term(array: np.ndarray) -> tuple[KruskalPoint, float]:
    """An outer product of unit vectors nearly parallel to an array, and its part in that."""
    vectors = tuple(leading_vectors(unfolded(array, mode), 1) for mode in range(array.ndim))
    part = multiplied(array, vectors)
    return KruskalPoint(vectors), abs(float(part.reshape(())))
