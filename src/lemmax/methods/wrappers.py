"""Methods that change what another method does between its steps."""

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
    """After every step, give both factors of a matrix the same singular values.

    ``X = U S^(1/2), Y = V S^(1/2)`` from the SVD of ``X Y'``; the matrix does not change.

    Parameters
    ----------
    method : AbstractMethod
        What moves; its map is `LowRank`.
    """

    method: AbstractMethod

    def __check_init__(self):
        what = "a method such as lm.methods.opsa()"
        check_kind("method", self.method, AbstractMethod, what)
        inner = self.method.scope
        if inner.maps and not any(issubclass(LowRank, kind) for kind in inner.maps):
            raise ValueError(
                f"rebalanced is for methods that work on LowRank; {inner.name} does not."
            )

    @property
    def target(self) -> RealLike | None:
        """The method's own."""
        return self.method.target

    @property
    def scope(self) -> Scope:
        """The method's own, for `LowRank` alone."""
        inner = self.method.scope
        return inner._replace(name=f"rebalanced({inner.name})", maps=(LowRank,))

    @property
    def tries(self) -> bool:
        """As the method does."""
        return self.method.tries

    @property
    def on_host(self) -> bool:
        """As the method is."""
        return self.method.on_host

    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The method's own."""
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
    missing = x.shape[1] - s.size  # columns that a rank above the dimensions leaves empty
    return tuple(jnp.pad(factor, ((0, 0), (0, missing))) for factor in balanced)  # pyright: ignore


class Stage(NamedTuple):
    """What a restarted method remembers."""

    steps: Int[Array, ""]
    """Taken in this stage."""
    began: RealScalar
    """The value it began with."""
    guess: RealScalar
    """Of the minimum value, which the steps aim at."""
    best_x: Parameters
    best_value: RealScalar


class RestartedPolyak(AbstractMethod):
    """Polyak steps to a guess of the minimum value that is corrected stage by stage.

    A stage aims at a guess, at first the lower bound. If it comes half of the way, the next guess
    is as far below the value reached as this one was below the value it began with (twice as far
    if a single step came nine tenths of the way), though not below the lower bound. If it does not
    come that far within a number of steps, the guess was too low: the next stage starts from the
    best point seen, with a guess half as far below it (Davis and Jiang's rule for an unknown
    minimum).

    Parameters
    ----------
    method : PreconditionedSubgradient
        Whose preconditioner and damping are used; its step rule is `Polyak`.
    lower_bound : float
        A number the objective cannot fall below; 0 for losses.
    stage_steps : int
        Most steps in a stage, at least 2.
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
            # One step from the best point rarely finds a better one where the loss has a kink.
            check_whole(2, stage_steps=self.stage_steps)

    @property
    def target(self) -> None:
        """The minimum is unknown."""
        return

    @property
    def scope(self) -> Scope:
        """The method's own."""
        return self.method.scope._replace(name=f"restarted({self.method.scope.name})")

    def init(self, problem: Composite, x0: Parameters) -> Stage:
        """No point has been seen yet."""
        infinite = jnp.full_like(problem.evaluate(x0).value, jnp.inf)
        guess = jnp.asarray(self.lower_bound, infinite.dtype)
        return Stage(jnp.zeros((), jnp.int32), infinite, guess, x0, infinite)

    def step(self, problem: Composite, evaluation: Evaluation, state: Stage) -> tuple[Move, Stage]:
        """A Polyak step to the guess; the first of a stage is taken from the best point."""
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

        # Standing still at the best point would pass for convergence; so the step from there is
        # taken at once, for which that point has to be evaluated again unless it is this one.
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
