"""Methods that wrap another method."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._checks import check_kind, check_whole
from .._linalg import thin_qr, thin_svd
from .._tree import is_traced, tree_where
from .._typing import Parameters, RealLike, RealScalar
from ..maps import LowRank
from ..problem import Composite, Evaluation
from ._base import PASSES_OF_AN_EVALUATION, AbstractMethod, Move
from ._numbers import check_finite
from ._preconditioned import PreconditionedSubgradient
from .scope import Scope
from .steps import Polyak


class Rebalanced(AbstractMethod):
    """Give both factors of a matrix the same singular values after every step.

    ``X = U S^(1/2), Y = V S^(1/2)`` from the SVD of ``X Y'``; the matrix does not change.

    Parameters
    ----------
    method : AbstractMethod
        The method to wrap; its map is `LowRank`.
    """

    method: AbstractMethod

    def __check_init__(self):
        what = "a method such as lm.methods.opsa()"
        check_kind("method", self.method, AbstractMethod, what)
        inner = self.method.scope
        if inner.maps and not any(issubclass(LowRank, kind) for kind in inner.maps):
            raise ValueError(
                f"rebalanced needs a method that works on LowRank; {inner.name} does not."
            )

    @property
    def target(self) -> RealLike | None:
        """The target of the method."""
        return self.method.target

    @property
    def scope(self) -> Scope:
        """The scope of the method, restricted to `LowRank`."""
        inner = self.method.scope
        return inner._replace(name=f"rebalanced({inner.name})", maps=(LowRank,))

    @property
    def tries(self) -> bool:
        """As for the wrapped method."""
        return self.method.tries

    @property
    def on_host(self) -> bool:
        """As for the wrapped method."""
        return self.method.on_host

    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The state of the wrapped method."""
        return self.method.init(problem, x0)

    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """Move, then rebalance."""
        move, state = self.method.step(problem, evaluation, state)
        return eqx.tree_at(lambda m: m.x, move, _balance(*move.x)), state


def _balance(x: Array, y: Array) -> tuple[Array, Array]:
    (qx, rx), (qy, ry) = thin_qr(x), thin_qr(y)
    left, s, right = thin_svd(rx @ ry.T)
    root = jnp.sqrt(s)[None, :]
    balanced = (qx @ left) * root, (qy @ right.T) * root
    missing = x.shape[1] - s.size  # columns left empty if the rank exceeds the dimensions
    return tuple(jnp.pad(factor, ((0, 0), (0, missing))) for factor in balanced)  # pyright: ignore


class Stage(NamedTuple):
    """The state of a restarted method."""

    steps: Int[Array, ""]
    """Steps taken in this stage."""
    began: RealScalar
    """The value at the start of the stage."""
    guess: RealScalar
    """Estimate of the minimum: the target of the steps."""
    best_x: Parameters
    best_value: RealScalar


class RestartedPolyak(AbstractMethod):
    """Polyak steps with an estimated minimum that is corrected in stages (Davis and Jiang).

    The first estimate is the lower bound. If a stage halves the gap to its estimate, the next
    estimate is as far below the value reached as this one was below the starting value (twice as
    far if a single step closed nine tenths of the gap), but not below the lower bound. If a stage
    does not halve the gap within the given number of steps, the estimate was too low: the next
    stage starts from the best point, with an estimate half as far below it.

    Parameters
    ----------
    method : PreconditionedSubgradient
        Provides preconditioner and damping; its step rule is `Polyak`.
    lower_bound : float
        A lower bound of the objective; 0 for losses.
    stage_steps : int
        Maximum number of steps per stage, at least 2.
    """

    method: PreconditionedSubgradient
    lower_bound: RealLike = 0.0
    stage_steps: RealLike = 20

    def __check_init__(self):
        what = "a method with Polyak steps such as lm.methods.gauss_newton()"
        check_kind("method", self.method, PreconditionedSubgradient, what)
        if not isinstance(self.method.step_rule, Polyak):
            raise ValueError(
                f"method must be {what}; its step rule is "
                f"steps.{type(self.method.step_rule).__name__}."
            )
        check_finite(lower_bound=self.lower_bound)
        if not is_traced(self.stage_steps):
            # A single step from the best point rarely improves on it if the loss has a kink.
            check_whole(2, stage_steps=self.stage_steps)

    @property
    def target(self) -> None:
        """None: the minimum is unknown."""
        return

    @property
    def scope(self) -> Scope:
        """The scope of the wrapped method."""
        return self.method.scope._replace(name=f"restarted({self.method.scope.name})")

    def init(self, problem: Composite, x0: Parameters) -> Stage:
        """The state before the first evaluation."""
        infinite = jnp.full_like(problem.evaluate(x0).value, jnp.inf)
        guess = jnp.asarray(self.lower_bound, infinite.dtype)
        return Stage(jnp.zeros((), jnp.int32), infinite, guess, x0, infinite)

    def step(self, problem: Composite, evaluation: Evaluation, state: Stage) -> tuple[Move, Stage]:
        """A Polyak step to the estimate; the first step of a stage starts at the best point."""
        better = evaluation.value < state.best_value
        best_x = tree_where(better, evaluation.x, state.best_x)
        best_value = jnp.where(better, evaluation.value, state.best_value)

        first = jnp.isinf(state.began)
        aimed = jnp.where(first, best_value, state.began) - state.guess
        halfway = ~first & (best_value <= state.began - aimed / 2)
        too_low = ~halfway & (state.steps >= jnp.asarray(self.stage_steps))
        begins = first | halfway | too_low
        timid = (state.steps == 1) & (best_value <= state.began - 0.9 * aimed)
        aim = jnp.where(too_low, (best_value - state.guess) / 2, jnp.where(timid, 2, 1) * aimed)
        bound = jnp.asarray(self.lower_bound, aim.dtype)
        guess = jnp.where(begins, jnp.maximum(best_value - aim, bound), state.guess)

        # Returning to the best point without a step would count as convergence. So the step from
        # there is taken at once, after evaluating that point again unless it is the current one.
        goes_back = too_low & ~better
        evaluation = jax.lax.cond(goes_back, lambda: problem.evaluate(best_x), lambda: evaluation)
        rule = self.method.step_rule
        towards = PreconditionedSubgradient(
            self.method.preconditioner,
            self.method.damping_rule,
            Polyak(guess, rule.scale, rule.denominator),  # pyright: ignore
            self.method.scope,
        )
        number = jnp.where(begins, 0, state.steps)
        move, _ = towards.step(problem, evaluation, number)
        again = jnp.where(goes_back, PASSES_OF_AN_EVALUATION, 0).astype(jnp.int32)
        move = eqx.tree_at(lambda m: m.extra_passes, move, move.extra_passes + again)
        began = jnp.where(begins, best_value, state.began)
        return move, Stage(number + 1, began, guess, best_x, best_value)
