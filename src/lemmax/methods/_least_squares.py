"""The damped step to the minimum of linearised, weighted squares, with B or without.

B is the derivative of all observations with respect to the parameters.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array

from .._programs import compiled
from .._tree import tree_dot
from .._typing import Parameters, RealLike
from ..points import DensePoint
from ..problem import Composite
from ._measured import measured_jacobian

# Conjugate gradients end by themselves; this limits them. B'WB of products has at least this
# damping, relative to its mean eigenvalue.
_INNER_STEPS, _LEAST_DAMPING = 40, 1e-14
PASSES_BY_PRODUCTS = 2 * _INNER_STEPS + 1
"""At most so many passes over the data take a step without B."""


def least_squares(
    problem: Composite, x: Parameters, residual: np.ndarray, weights: np.ndarray, *, by_matrix: bool
) -> Callable[[float], Parameters]:
    """The step to the minimum of the linearised weighted squares, as a function of the damping.

    ``(B'WB + damping * its mean eigenvalue)^-1 B'W r`` is subtracted from x.
    """
    dtype = problem.data.dtype
    at, counted = jax.device_put((np.asarray(residual, dtype), np.asarray(weights, dtype)))
    if not by_matrix:
        return lambda damping: _step_by_products(
            problem, x, at, counted, np.asarray(damping, dtype)
        )
    parts = _normal_equations(problem, x, at, counted)
    return lambda damping: _solved(x, *parts, np.asarray(damping, dtype))


@compiled
def _normal_equations(
    problem: Composite, x: Parameters, residual: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Eigenvalues and vectors of ``B'WB``, and the coordinates of ``B'W r`` along these.

    Normal equations are accurate enough: the next step corrects the error of this one.
    """
    matrix = measured_jacobian(problem, x)
    weighted = matrix * jnp.ravel(weights)[:, None]
    values, vectors = jnp.linalg.eigh(weighted.T @ matrix)
    return values, vectors, vectors.T @ (weighted.T @ jnp.ravel(residual))


@compiled
def _solved(
    x: Parameters, values: Array, vectors: Array, along: Array, damping: RealLike
) -> Parameters:
    """``x - (B'WB + damping * its mean eigenvalue)^-1 B'W r`` on the range of B'."""
    flat, unravel = ravel_pytree(x)
    seen = values > jnp.finfo(values.dtype).eps * values.size * values[-1]
    shifted = jnp.where(seen, values + damping * jnp.mean(values), 1)
    return unravel(flat - vectors @ jnp.where(seen, along / shifted, 0))


@compiled
def _step_by_products(
    problem: Composite, x: Parameters, residual: Array, weights: Array, damping: RealLike
) -> Parameters:
    """Without B, by conjugate gradients preconditioned by J'J."""
    operator, map = problem.operator, problem.map
    # B'WB is about this gain of the operator times J'J, with a mean eigenvalue of |x|^2 / size.
    gain = jnp.sum(weights * (residual + problem.data) ** 2) / map(x).norm() ** 2
    shift = jnp.maximum(damping, _LEAST_DAMPING) * tree_dot(x, x) / ravel_pytree(x)[0].size

    def back(observations: Array) -> Parameters:
        return map.vjp(x, operator.adjoint(weights * observations))

    def normal(dx: Parameters) -> Parameters:
        seen = back(operator.measure(DensePoint(map.jvp(x, dx))))
        return jax.tree.map(lambda a, b: a + shift * gain * b, seen, dx)

    def preconditioner(g: Parameters) -> Parameters:
        return jax.tree.map(lambda a: a / gain, map.solve(x, shift, g))

    change, _ = cg(normal, back(residual), maxiter=_INNER_STEPS, M=preconditioner)
    return jax.tree.map(jnp.subtract, x, change)
