"""Derivatives of fitted parameters, by the implicit function theorem.

At a minimum the slope of the loss over the inliers vanishes, whatever the data, and so do the
residuals of data at a kink of the loss: that gives the derivative of the parameters from second
derivatives of the model there. No step of the search is differentiated, so that memory does not
depend on their number.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._tree import is_traced
from ..losses import AbstractLoss
from . import _constants as constants
from ._chosen_loss import Chosen
from ._program import outputs_as_vector
from .result import Fit


def differentiable(
    run: Callable[[PyTree, tuple, PyTree], Fit],
    model: Callable,
    y: PyTree,
    args: tuple,
    sigma: Any,
    loss: AbstractLoss,
) -> PyTree:
    """The fitted parameters as a function of data, arguments and sigma that JAX differentiates.

    ``run`` fits concrete values; under the loss, the inliers have a minimum there.
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
        keep, active = found.right, np.flatnonzero(found.interpolated)
        varied = ~np.isnan(np.diag(found.covariance))

        def residual(u: Array, values: list[Any]) -> Array:
            y, args, sigma = assembled(values)
            made = outputs_as_vector(
                model(layout.tree(full.at[places].set(u, unique_indices=True)), *args)
            )
            scaled = (made - outputs_as_vector(y)) / _as_vector(sigma, y)
            return jnp.where(keep, scaled, jnp.zeros_like(scaled))

        def slope(u: Array, at_kinks: Array, values: list[Any]) -> Array:
            """Of the loss along the free parameters; at its kinks it has the slopes given."""
            value, pull = jax.vjp(lambda v: residual(v, values), u)
            return pull(loss.subgradient(value).at[active].set(at_kinks))[0]

        u = full[places]
        jacobian = np.asarray(jax.jacfwd(residual)(u, values)) * varied
        others = np.asarray(slope(u, jnp.zeros(len(active)), values))
        minimum = Minimum(loss, np.asarray(residual(u, values)), jacobian, active, others * varied)
        at_kinks = jnp.asarray(minimum.slopes)
        curvature = np.asarray(jax.jacfwd(slope)(u, at_kinks, values))

        def conditions(them: list[Any]) -> tuple[Array, Array]:
            return slope(u, at_kinks, them), residual(u, them)[active]

        _, (of_slope, of_kinks) = jax.jvp(conditions, (values,), (changes,))
        inverse = minimum.inverse(curvature * np.outer(varied, varied))
        step = -inverse @ jnp.concatenate([jnp.where(varied, of_slope, 0), of_kinks])
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


class Minimum:
    """The conditions of a minimum, linearised: what they need to have a derivative.

    Parameters are scaled by the columns of the Jacobian. A parameter at a bound has a column of
    zeros, and does not move.
    """

    def __init__(
        self,
        loss: AbstractLoss,
        residual: np.ndarray,
        jacobian: np.ndarray,
        active: np.ndarray,
        others: np.ndarray,
    ):
        norms = np.linalg.norm(jacobian, axis=0)
        self.scale = np.where(norms > 0, norms, 1)
        self.matrix, self.active = jacobian / self.scale, active
        rows = self.matrix[active]
        if np.linalg.matrix_rank(rows, tol=constants.DEGENERATE) < len(active):
            raise ValueError(
                f"The parameters have no derivative: the curve goes through {len(active)} of the "
                "data, more than there are parameters to be determined by them."
            )
        self.slopes = -np.linalg.pinv(rows.T) @ (others / self.scale)
        chosen = Chosen(loss)
        if chosen.kink is None:
            bends = [
                chosen.bends(residual * (1 + side))
                for side in (-constants.DEGENERATE, constants.DEGENERATE)
            ]
            at_limit = np.any(bends[0] != bends[1])
        else:
            low, high = chosen.kink
            margin = constants.DEGENERATE * (high - low)
            at_limit = np.any((self.slopes <= low + margin) | (self.slopes >= high - margin))
        if at_limit:
            raise ValueError(
                "The parameters have no derivative: a datum is just where the loss changes, and "
                "they move differently to either side."
            )

    def inverse(self, curvature: np.ndarray) -> np.ndarray:
        """From changes of slopes and of active residuals to those of the parameters, negative."""
        p, k = len(self.scale), len(self.active)
        matrix = curvature / np.outer(self.scale, self.scale)
        unit = float(np.max(np.abs(matrix), initial=0.0)) or 1.0
        rows = self.matrix[self.active]
        whole = np.block([[matrix / unit, rows.T], [rows, np.zeros((k, k))]])
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        size = np.abs(values)
        clear = size > constants.FLAT_HESSIAN * np.finfo(float).eps * np.max(size, initial=0.0)
        # What is flat must be what no datum sees: else the minimum is not a point.
        if np.max(np.abs(self.matrix @ vectors[:p, ~clear]), initial=0.0) > constants.UNSEEN**0.5:
            raise ValueError(
                "The parameters have no derivative: the loss is flat along something that the data "
                "see, so that its minimum is not a single point."
            )
        inverse = (vectors[:, clear] / values[clear]) @ vectors[:, clear].T
        units = np.concatenate([self.scale * unit, np.ones(k)])
        return inverse[:p] / self.scale[:, None] / units
