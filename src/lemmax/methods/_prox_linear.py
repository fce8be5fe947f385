"""The prox-linear method: few passes over the data, a convex problem in each step."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int

from .._linalg import thin_svd
from .._typing import Parameters, RealLike, RealScalar
from ..losses import AbstractLoss
from ..points import DensePoint
from ..problem import Composite, Evaluation
from ._base import AbstractMethod, Move
from .scope import Scope


class ProxLinear(AbstractMethod):
    """Minimise the loss of the linearised residual, exactly enough.

    ``x + D`` where D minimises ``loss(r + B D) + proximal / 2 * |D|^2``, r the residual and B the
    measured Jacobian: what the operator makes of J. B is formed in one pass over the
    measurements (a matrix-matrix product), so the number of parameters must allow a matrix of
    observations x parameters. The convex problem is solved by ADMM with a single
    factorisation, for any loss with a prox, to an accuracy tied to the progress it promises.

    Close to a sharp solution at the exact rank the error squares with every step.

    Parameters
    ----------
    target : float, optional
        The minimum of the objective, for the stopping test.
    proximal : float
        Weight of the proximal term, times the value: it vanishes at a solution with value 0.
    inner_tol : float
        The loosest relative accuracy asked of ADMM. The linearisation itself is accurate to about
        ``|D| / |x|``; so much is asked, and not more, as soon as it is less than this.
    inner_steps : int
        Most iterations of ADMM in one step.
    """

    known_target: RealLike | None = None
    proximal: RealLike = 1e-6
    inner_tol: RealLike = 1e-2
    inner_steps: int = eqx.field(static=True, default=3000)

    @property
    def target(self) -> RealLike | None:
        """As given."""
        return self.known_target

    @property
    def scope(self) -> Scope:
        """Any problem small enough for B."""
        return Scope("prox_linear")

    def init(self, problem: Composite, x0: Parameters) -> None:
        """Nothing is remembered."""

    def step(self, problem: Composite, evaluation: Evaluation, state: None) -> tuple[Move, None]:
        """Form B, solve for D, move by it."""
        flat, unravel = ravel_pytree(evaluation.x)
        matrix = measured_jacobian(problem, evaluation.x)
        residual = jnp.ravel(evaluation.residual)
        shape = evaluation.residual.shape
        weight = self.proximal * evaluation.value
        size = jnp.linalg.norm(flat)

        def accuracy(change: Array) -> RealScalar:
            floor = 10 * jnp.finfo(flat.dtype).eps
            return jnp.clip(jnp.linalg.norm(change) / size, floor, self.inner_tol)

        change, count = linearised_step(
            problem.loss, matrix, residual, shape, weight, accuracy, self.inner_steps
        )
        move = Move(
            x=unravel(flat + change),
            length=jnp.ones_like(evaluation.value),
            damping=jnp.asarray(weight, evaluation.value.dtype),
            iterations=count,
            failed=~jnp.all(jnp.isfinite(change)),
            extra_passes=jnp.ones((), jnp.int32),
        )
        return move, None


def measured_jacobian(problem: Composite, x: Parameters) -> Array:
    """Derivative of the observations with respect to the parameters, as a matrix.

    All parameters at once, so that the measurements are read a single time.
    """
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        tangent = DensePoint(problem.map.jvp(x, unravel(direction)))
        return jnp.ravel(problem.operator.measure(tangent))

    return jax.vmap(column, out_axes=1)(jnp.eye(flat.size, dtype=flat.dtype))


def linearised_step(
    loss: AbstractLoss,
    matrix: Array,
    residual: Array,
    shape: tuple[int, ...],
    weight: RealLike,
    accuracy: Callable[[Array], RealScalar],
    max_steps: int,
) -> tuple[Array, Int[Array, ""]]:
    """Minimise ``loss(residual + matrix D) + weight / 2 |D|^2`` over D by ADMM.

    ``accuracy(D)`` is the relative accuracy to reach. The split is ``w = residual + matrix D``. The
    penalty adapts so that both residuals of the method fall together; one SVD serves them all.
    """
    # Directions that no measurement sees (rotations of X, say) have s = 0 and are left alone.
    left, s, right = thin_svd(matrix)
    size = jnp.max(jnp.abs(residual))
    rounding = 100 * jnp.finfo(residual.dtype).eps

    def prox(w: Array, step: RealScalar) -> Array:
        return jnp.ravel(loss.prox(w.reshape(shape), step))

    def value(w: Array) -> RealScalar:
        return loss.value(w.reshape(shape))

    start_value = value(residual)

    def step(state: Any) -> Any:
        count, change, w, dual, penalty, _ = state
        # D: ridge regression of w - residual - dual on the columns of the matrix.
        coordinates = s * (left.T @ (w - residual - dual))
        change = right.T @ jnp.where(s > 0, coordinates / (s**2 + weight / penalty), 0)
        image = residual + matrix @ change
        relaxed = 1.6 * image + (1 - 1.6) * w
        new_w = prox(relaxed + dual, 1 / penalty)
        dual = dual + relaxed - new_w
        primal = jnp.linalg.norm(image - new_w)
        drift = penalty * jnp.linalg.norm(left.T @ (new_w - w))
        scale = jnp.linalg.norm(image - residual)
        decrease = jnp.maximum(start_value - value(image), 0)
        tol = accuracy(change)
        close = (primal <= tol * scale) & (drift * scale <= tol * decrease)
        done = close | (primal <= rounding * size)
        # Balance the two residuals, seldom, so that the method settles between changes.
        lopsided = primal * penalty * jnp.sqrt(residual.size) / jnp.maximum(drift, rounding)
        change_now = (count % 40 == 39) & (count < max_steps // 2)
        factor = jnp.where(lopsided > 10, 2.0, jnp.where(lopsided < 0.1, 0.5, 1.0))
        factor = jnp.where(change_now, factor, 1.0).astype(residual.dtype)
        return count + 1, change, new_w, dual / factor, penalty * factor, ~done

    # At this penalty the prox moves an entry by about the size of the residual.
    slope = jnp.linalg.norm(jnp.ravel(loss.subgradient(residual.reshape(shape))))
    typical = jnp.linalg.norm(residual)
    penalty = jnp.where(typical > 0, slope / jnp.where(typical > 0, typical, 1), 1)
    change = jnp.zeros(matrix.shape[1], matrix.dtype)
    begin = (
        jnp.zeros((), jnp.int32),
        change,
        residual,
        jnp.zeros_like(residual),
        penalty,
        size > 0,
    )
    count, change, *_ = jax.lax.while_loop(
        lambda state: state[-1] & (state[0] < max_steps), step, begin
    )
    return change, count
