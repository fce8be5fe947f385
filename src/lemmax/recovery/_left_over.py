"""Terms that a fit to noisy entries has left in the residuals, for which the bound had no room."""

import math

import numpy as np
from scipy.sparse.linalg import svds

from ..init._tensors import unfolded
from ..operators import Entries
from ..problem import Composite
from ._components import Components

# How far a singular value must be above the edge of those of noise: noise that is larger in some
# rows raises them, too.
_CLEARANCE = 1.5
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
