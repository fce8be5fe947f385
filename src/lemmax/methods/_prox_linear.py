"""The prox-linear method: a convex subproblem in each step, few passes over the data."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int

from .._checks import check_positive
from .._linalg import thin_svd
from .._memory import require_memory
from .._typing import Parameters, RealLike, RealScalar
from ..losses import AbstractLoss
from ..problem import Composite, Evaluation
from ._base import AbstractMethod, Move
from ._measured import measured_jacobian, observed_residual
from ._numbers import check_dampings, check_sizes, check_target
from .scope import SCOPES, Scope

# Lower bound of the estimated relative error of the linearisation, as a multiple of |D| / |x|.
_LEAST_CURVATURE = 10.0


class Promise(NamedTuple):
    """Predictions for the last step, to be compared with its outcome."""

    start: RealScalar
    """The value before the last step; infinite at the start."""
    value: RealScalar
    """The value of the linearised model at the new point."""
    decrease: RealScalar
    """The predicted decrease."""
    relative: RealScalar
    """Length of the step relative to x."""


class ProxLinear(AbstractMethod):
    """The prox-linear method.

    The step D minimises ``loss(r + B D) + proximal / 2 * |D|^2``, where r is the residual and B
    the measured Jacobian (the operator applied to J). B is formed in one pass over the
    measurements, so a matrix of observations x parameters must fit in memory. The convex problem
    is solved by ADMM with a single factorisation, for any loss with a prox, to the accuracy of
    the linearisation.

    Near a sharp solution at the exact rank, convergence is quadratic. If the model predicts no
    decrease beyond rounding errors, x does not move, which ends the run.

    Parameters
    ----------
    known_target : float, optional
        The minimum of the objective, for the stopping test.
    proximal : float
        Weight of the proximal term, times the objective value; it vanishes with the value.
    inner_tol : float
        Upper bound of the relative accuracy of ADMM. The linearisation is accurate to a multiple
        of ``|D| / |x|``, estimated at the previous step; this accuracy is used if it is smaller.
    inner_steps : int
        Maximum number of ADMM iterations per step.
    """

    known_target: RealLike | None = None
    proximal: RealLike = 1e-6
    inner_tol: RealLike = 1e-2
    inner_steps: int = eqx.field(static=True, default=3000)

    def __check_init__(self):
        check_target(self.known_target)
        check_dampings(proximal=self.proximal)
        check_sizes(inner_tol=self.inner_tol)
        check_positive(inner_steps=self.inner_steps)

    @property
    def target(self) -> RealLike | None:
        """The target, if given."""
        return self.known_target

    @property
    def scope(self) -> Scope:
        """Any problem."""
        return SCOPES["prox_linear"]

    def init(self, problem: Composite, x0: Parameters) -> Promise:
        """Check that B fits in memory."""
        residual = jax.eval_shape(lambda x: observed_residual(problem, problem.evaluate(x)), x0)
        parameters = sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(x0))
        require_memory(
            (residual.size, parameters),
            residual.dtype.itemsize,
            "prox_linear forms the measured Jacobian, observations x parameters: an array",
            "Use lmm, which never forms it.",
        )
        unknown = jnp.full((), jnp.inf, residual.dtype)
        return Promise(unknown, unknown, unknown, unknown)

    def step(
        self, problem: Composite, evaluation: Evaluation, state: Promise
    ) -> tuple[Move, Promise]:
        """Form B, solve for D, and move by it."""
        matrix = measured_jacobian(problem, evaluation.x)
        residual = observed_residual(problem, evaluation)
        return self.move(problem, evaluation.x, matrix, residual, state)

    def move(
        self, problem: Composite, x: Parameters, matrix: Array, residual: Array, state: Promise
    ) -> tuple[Move, Promise]:
        """Solve for D and move by it, given B and the residual."""
        value = problem.loss.value(residual)
        start = jnp.where(jnp.isinf(state.start), value, state.start)
        flat, unravel = ravel_pytree(x)
        shape, residual = residual.shape, jnp.ravel(residual)
        weight = self.proximal * value
        size = jnp.linalg.norm(flat)
        eps = jnp.finfo(flat.dtype).eps
        curvature = _curvature(state, value)

        def accuracy(length: RealScalar) -> RealScalar:
            return jnp.clip(curvature * length / size, 10 * eps, self.inner_tol)

        _, rounding = problem.value_scales(x)
        rounding = rounding / 8  # the estimate is generous: right for stopping, too loose as a goal
        change, count = linearised_step(
            problem.loss, matrix, residual, shape, weight, accuracy, self.inner_steps, rounding
        )
        model = problem.loss.value((residual + matrix @ change).reshape(shape))
        decrease = value - model
        settled = (count < self.inner_steps) & (decrease <= 100 * eps * start)
        change = jnp.where(settled, 0, change)
        move = Move(
            x=unravel(flat + change),
            length=jnp.ones_like(value),
            damping=jnp.asarray(weight, value.dtype),
            iterations=count,
            failed=~jnp.all(jnp.isfinite(change)),
            extra_passes=jnp.ones((), jnp.int32),
        )
        return move, Promise(start, model, decrease, jnp.linalg.norm(change) / size)


def _curvature(promise: Promise, value: RealScalar) -> RealScalar:
    """Error of the last linearisation, relative to the decrease and to ``|D| / |x|``.

    It is large if the rank is over-parameterised: the superfluous columns of X are small, and D
    is not small compared to them.
    """
    expected = promise.decrease * promise.relative
    known = jnp.isfinite(expected) & (expected > 0)
    measured = jnp.where(known, (value - promise.value) / jnp.where(known, expected, 1), 0)
    return jnp.clip(measured, _LEAST_CURVATURE, 1 / jnp.finfo(value.dtype).eps)


def linearised_step(
    loss: AbstractLoss,
    matrix: Array,
    residual: Array,
    shape: tuple[int, ...],
    weight: RealLike,
    accuracy: Callable[[RealScalar], RealScalar],
    max_steps: int,
    rounding: RealLike = 0.0,
) -> tuple[Array, Int[Array, ""]]:
    """Minimise ``loss(residual + matrix D) + weight / 2 |D|^2`` over D by ADMM.

    ``accuracy(|D|)`` is the relative accuracy to reach; values up to ``rounding`` count as 0. The
    splitting is ``w = residual + matrix D``. The penalty is adapted to balance the primal and the
    dual residual. D is represented in the right singular vectors, so a single SVD serves all
    penalties, and an iteration reads the left singular vectors twice.
    """
    left, s, right = thin_svd(matrix)
    eps = jnp.finfo(residual.dtype).eps
    size = jnp.max(jnp.abs(residual))

    def prox(w: Array, step: RealScalar) -> Array:
        return jnp.ravel(loss.prox(w.reshape(shape), step))

    def value(w: Array) -> RealScalar:
        return loss.value(w.reshape(shape))

    start_value = value(residual)

    def project(*vectors: Array) -> tuple[Array, ...]:
        return tuple((left.T @ jnp.stack(vectors, axis=1)).T)

    def step(state: Any) -> Any:
        count, _, w, dual, (w_along, dual_along), penalty, _ = state
        # D: ridge regression of w - residual - dual on the columns of the matrix. Directions with
        # s = 0, which no measurement depends on (such as rotations of X), do not move.
        wanted = s * (w_along - residual_along - dual_along)
        along = jnp.where(s > 0, wanted / (s**2 + weight / penalty), 0)
        image = residual + left @ (s * along)
        relaxed = 1.6 * image + (1 - 1.6) * w
        new_w = prox(relaxed + dual, 1 / penalty)
        dual = dual + relaxed - new_w
        new_along, dual_along = project(new_w, dual)
        primal = jnp.linalg.norm(image - new_w)
        drift = penalty * jnp.linalg.norm(new_along - w_along)
        scale = jnp.linalg.norm(s * along)
        model = value(image)
        decrease = jnp.maximum(start_value - model, 0)
        tol = accuracy(jnp.linalg.norm(along))
        # A decrease is not known more accurately than the values it is the difference of.
        certain = jnp.maximum(tol * decrease, 10 * eps * start_value)
        close = (primal <= tol * scale) & (drift * scale <= certain)
        done = close | (primal <= 100 * eps * size) | (model <= rounding)
        # Balance the two residuals, but rarely, so that ADMM converges between changes.
        lopsided = primal * decrease / jnp.maximum(drift * scale**2, jnp.finfo(residual.dtype).tiny)
        change_now = (count % 20 == 19) & (count < max_steps // 2)
        factor = jnp.where(lopsided > 10, 2.0, jnp.where(lopsided < 0.1, 0.5, 1.0))
        factor = jnp.where(change_now, factor, 1.0).astype(residual.dtype)
        projected = new_along, dual_along / factor
        return count + 1, along, new_w, dual / factor, projected, penalty * factor, ~done

    # With this penalty the prox moves an entry by about the median residual. The mean would not do:
    # a few outliers would make the penalty smaller by orders of magnitude.
    slopes = jnp.ravel(loss.subgradient(residual.reshape(shape)))
    slope = jnp.linalg.norm(slopes) / residual.size**0.5
    typical = jnp.median(jnp.abs(residual))
    typical = jnp.where(typical > 0, typical, size)
    penalty = jnp.where(typical > 0, slope / jnp.where(typical > 0, typical, 1), 1)
    (residual_along,) = project(residual)
    begin = (
        jnp.zeros((), jnp.int32),
        jnp.zeros_like(s),
        residual,
        jnp.zeros_like(residual),
        (residual_along, jnp.zeros_like(residual_along)),
        penalty,
        size > 0,
    )
    count, along, *_ = jax.lax.while_loop(
        lambda state: state[-1] & (state[0] < max_steps), step, begin
    )
    return right.T @ along, count
