"""Derivatives of fitted parameters, by the implicit function theorem.

At a minimum the slope of the sum of squares over the right data vanishes, whatever the data: that
gives the derivative of the parameters from second derivatives of the model there. No step of the
search is differentiated, so that memory does not depend on their number.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._tree import is_traced
from ._program import outputs_as_vector
from .result import Fit

# Directions along which the curvature is below this part of the largest are not determined: the
# parameters do not move along them. (A multiple of the rounding errors of second derivatives.)
_FLAT = 1e4


def differentiable(
    run: Callable[[PyTree, tuple, PyTree], Fit], model: Callable, y: PyTree, args: tuple, sigma: Any
) -> PyTree:
    """The fitted parameters as a function of data, arguments and sigma that JAX differentiates.

    ``run`` fits concrete values.
    """
    # What may be differentiated: everything that is an array of floating-point numbers.
    leaves, structure = jax.tree.flatten((y, args, sigma))
    moving = [k for k, leaf in enumerate(leaves) if is_traced(leaf)]

    def assembled(values: list[Any]) -> tuple[PyTree, tuple, PyTree]:
        filled = list(leaves)
        for k, value in zip(moving, values, strict=True):
            filled[k] = value
        return jax.tree.unflatten(structure, filled)

    def fitted(values: list[Any]) -> Fit:
        if is_traced(values):
            raise ValueError(
                "lm.fit searches in NumPy, so that it cannot run inside jit or vmap. Differentiate "
                "outside of jit, or fit many curves at once by lm.fit_many."
            )
        found = run(*assembled([np.asarray(value) for value in values]))
        if not found.status.succeeded and found.status.name != "NOT_IDENTIFIED":
            raise ValueError(
                f"The parameters have no derivative: {found.status.name}, {found.status.message}"
            )
        return found

    @jax.custom_jvp
    def solution(values: list[Any]) -> PyTree:
        return jax.tree.map(jnp.asarray, fitted(values).x)

    @solution.defjvp
    def derivative(primals: tuple, tangents: tuple) -> tuple[PyTree, PyTree]:
        (values,), (changes,) = primals, tangents
        found = fitted(values)
        layout = found.task.layout
        full = jnp.asarray(np.concatenate([np.ravel(u) for u in jax.tree.leaves(found.x)]))
        places = np.array(layout.free)
        keep = found.right
        held = np.isnan(np.diag(found.covariance))

        def slope(u: Array, values: list[Any]) -> Array:
            """Of half the sum of squares, along the free parameters."""
            y, args, sigma = assembled(values)
            data = outputs_as_vector(y)

            def residual(v: Array) -> Array:
                made = outputs_as_vector(
                    model(layout.tree(full.at[places].set(v, unique_indices=True)), *args)
                )
                scaled = (made - data) / _as_vector(sigma, y)
                return jnp.where(keep, scaled, jnp.zeros_like(scaled))

            value, pull = jax.vjp(residual, u)
            return pull(value)[0]

        u = full[places]
        curvature = jax.jacfwd(slope)(u, values)
        _, change = jax.jvp(lambda them: slope(u, them), (values,), (changes,))
        step = -_inverse(np.asarray(curvature), held) @ change
        moved = jnp.asarray(np.eye(full.size)[:, places]) @ step
        return layout.tree(full), layout.tree(moved)

    return solution([leaves[k] for k in moving])


def _as_vector(sigma: Any, y: PyTree) -> Array:
    """The standard deviation of each output."""
    if sigma is None:
        return jnp.ones(())
    if jnp.ndim(sigma) == 0 and not isinstance(sigma, (dict, list, tuple)):
        return jnp.asarray(sigma)

    def like(s: Any, data: Any) -> Array:
        spread = jnp.broadcast_to(s, jnp.shape(data))
        both = jnp.issubdtype(jnp.asarray(data).dtype, jnp.complexfloating)
        return jnp.stack([spread, spread], axis=-1) if both else spread

    return outputs_as_vector(jax.tree.map(like, sigma, y))


def _inverse(curvature: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The pseudo-inverse in scaled parameters; parameters at bounds do not move."""
    free = ~held
    matrix = curvature * np.outer(free, free)
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1)
    matrix = matrix / np.outer(scale, scale)
    eps = np.finfo(matrix.dtype).eps
    return np.linalg.pinv(matrix, rcond=_FLAT * eps, hermitian=True) / np.outer(scale, scale)
