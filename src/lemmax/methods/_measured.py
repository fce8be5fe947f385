"""The residual and the Jacobian in the coordinates of the observations."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._typing import Parameters
from ..points import AbstractPoint, DensePoint
from ..problem import Composite, Evaluation


def observed_residual(problem: Composite, evaluation: Evaluation) -> Array:
    """The residual in the coordinates of the observations, even if it is stored in others."""
    if isinstance(problem.data, AbstractPoint):
        return problem.operator.measure(evaluation.point) - problem.data.dense()
    return evaluation.residual


def measured_jacobian(problem: Composite, x: Parameters) -> Array:
    """Derivative of the observations with respect to the parameters, as a matrix.

    All columns are computed together, so the measurements are read once.
    """
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        tangent = DensePoint(problem.map.jvp(x, unravel(direction)))
        return jnp.ravel(problem.operator.measure(tangent))

    return jax.vmap(column, out_axes=1)(jnp.eye(flat.size, dtype=flat.dtype))
