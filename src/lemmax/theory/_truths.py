"""Linear algebra at the truth, given by its parameters."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._dtype import precision_context, to_device
from .._typing import Parameters
from ..losses import L1, Quantile
from ..maps import AbstractMap
from ..problem import Composite
from .measure import dense_jacobian, require_concrete

# Singular values below this fraction of the largest do not count towards the rank of the truth.
_RANK_TOLERANCE = 1e-10

ZERO_TRUTH = "The truth is zero; alignment is only defined for nonzero truths."


def as_array(parameters: Any) -> np.ndarray:
    """A float64 NumPy array; raises an error inside jit."""
    require_concrete(parameters, "The theory of a problem")
    return np.asarray(parameters, np.float64)


def nonzero_singular_values(factor: np.ndarray) -> np.ndarray:
    """Singular values above rounding level, in descending order."""
    values = np.linalg.svd(factor, compute_uv=False)
    values = values[values > _RANK_TOLERANCE * values[0]]
    if values.size == 0:
        raise ValueError(ZERO_TRUTH)
    return values


def have_same_right_vectors(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether one orthonormal basis diagonalises both Gram matrices, in descending order."""
    grams = [factor.T @ factor / np.sum(factor**2) for factor in (left, right)]
    # Commuting matrices share the eigenvectors of a generic combination of them.
    _, basis = np.linalg.eigh(grams[0] + math.pi * grams[1])
    rotated = [basis.T @ gram @ basis for gram in grams]
    a, b = (np.diagonal(gram) for gram in rotated)
    diagonal = all(np.allclose(g, np.diag(np.diagonal(g)), atol=1e-8) for g in rotated)
    disagree = (a[:, None] - a[None, :]) * (b[:, None] - b[None, :]) < -1e-16
    return bool(diagonal and not np.any(disagree))


def singular_value_at(map: AbstractMap, truth: Parameters, index: int) -> float:
    """A singular value of the Jacobian at the truth, which must be nonzero."""
    with precision_context(truth):
        jacobian = np.asarray(dense_jacobian(map, jax.tree.map(to_device, truth)))
    values = np.linalg.svd(jacobian, compute_uv=False)
    if index > len(values) or not values[index - 1] > _RANK_TOLERANCE * values[0]:
        raise ValueError(
            f"The Jacobian at the truth has no nonzero singular value number {index}: the truth "
            "is over-parameterised or its factors are degenerate, and strong alignment fails."
        )
    return float(values[index - 1])


class AtTruth(NamedTuple):
    """Quantities of a problem at its truth."""

    residual: np.ndarray
    """The residual, flattened."""
    value: float
    """The objective."""
    size: float
    """The norm of the point."""
    tolerance: float
    """Residuals up to this are rounding errors."""


def at_truth(problem: Composite, truth: Parameters) -> AtTruth:
    """Residual and objective at the truth, and the norm of its point."""
    problem.check_start(truth)
    with precision_context(problem, truth):
        found = _evaluate(problem, jax.tree.map(to_device, truth))
        residual, value, size = (np.asarray(u) for u in found)
    digits = 1e-6 if residual.dtype == np.float64 else 1e-4
    residual = np.ravel(residual).astype(np.float64)
    return AtTruth(residual, float(value), float(size), digits * float(size))


def require_fit(problem: Composite, truth: Parameters) -> AtTruth:
    """The quantities at the truth; raises an error if it does not fit the data."""
    found = at_truth(problem, truth)
    # Absolute values tolerate a minority of wrong measurements; other losses tolerate none.
    forgiven = 0.5 if isinstance(problem.loss, (L1, Quantile)) else 0.0
    if np.mean(~(np.abs(found.residual) <= found.tolerance)) > forgiven:
        raise ValueError(
            "The truth does not fit the data. The theory needs exact data, or the loss L1 with a "
            "minority of corrupted measurements."
        )
    return found


@eqx.filter_jit
def _evaluate(problem, truth):
    evaluation = problem.evaluate(truth)
    return evaluation.residual, evaluation.value, evaluation.point.norm()
