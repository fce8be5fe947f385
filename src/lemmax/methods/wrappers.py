"""Methods that change what another method does between its steps."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from .._linalg import thin_svd
from .._tree import tree_where
from .._typing import Parameters, RealLike, RealScalar
from ..maps import LowRank
from ..problem import Composite, Evaluation
from ._base import AbstractMethod, Move
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

    @property
    def target(self) -> RealLike | None:
        """The method's own."""
        return self.method.target

    @property
    def scope(self) -> Scope:
        """The method's own, for `LowRank` alone."""
        return self.method.scope._replace(maps=(LowRank,))

    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The method's own."""
        return self.method.init(problem, x0)

    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """Move, then rebalance."""
        move, state = self.method.step(problem, evaluation, state)
        balanced = Move(
            x=_balance(*move.x),
            length=move.length,
            damping=move.damping,
            iterations=move.iterations,
            failed=move.failed,
            extra_passes=move.extra_passes,
        )
        return balanced, state


def _balance(x: Array, y: Array) -> tuple[Array, Array]:
    (qx, rx), (qy, ry) = jnp.linalg.qr(x), jnp.linalg.qr(y)
    left, s, right = thin_svd(rx @ ry.T)
    root = jnp.sqrt(s)[None, :]
    balanced = (qx @ left) * root, (qy @ right.T) * root
    missing = x.shape[1] - s.size  # columns that a rank above the dimensions leaves empty
    return tuple(jnp.pad(factor, ((0, 0), (0, missing))) for factor in balanced)  # pyright: ignore


class Stage(NamedTuple):
    """What a restarted method remembers."""

    step: Int[Array, ""]
    bound: RealScalar
    """The current guess of the minimum value."""
    best_x: Parameters
    best_value: RealScalar


class RestartedPolyak(AbstractMethod):
    """Polyak steps to a guess of the minimum value that is raised stage by stage.

    A stage takes a number of steps towards the guess. Then the guess moves half of the way up to
    the smallest value seen, and the next stage starts from that point (Davis and Jiang's rule for
    an unknown minimum).

    Parameters
    ----------
    method : PreconditionedSubgradient
        Whose preconditioner and damping are used; its step rule is `Polyak`.
    lower_bound : float
        A number the objective cannot fall below; 0 for losses.
    stage_steps : int
        Steps in a stage.
    """

    method: PreconditionedSubgradient
    lower_bound: RealLike = 0.0
    stage_steps: RealLike = 50

    def __check_init__(self):
        if not isinstance(self.method.step_rule, Polyak):
            raise ValueError("RestartedPolyak needs a method whose step rule is steps.Polyak.")

    @property
    def target(self) -> None:
        """The minimum is unknown."""
        return

    @property
    def scope(self) -> Scope:
        """The method's own."""
        return self.method.scope

    def init(self, problem: Composite, x0: Parameters) -> Stage:
        """No point has been seen yet."""
        value = jnp.zeros((), problem.evaluate(x0).value.dtype)
        bound = jnp.asarray(self.lower_bound, value.dtype)
        return Stage(jnp.zeros((), jnp.int32), bound, x0, value + jnp.inf)

    def step(self, problem: Composite, evaluation: Evaluation, state: Stage) -> tuple[Move, Stage]:
        """A Polyak step to the current guess, or back to the best point with a higher guess."""
        better = evaluation.value < state.best_value
        best_x = tree_where(better, evaluation.x, state.best_x)
        best_value = jnp.where(better, evaluation.value, state.best_value)
        rule = self.method.step_rule
        towards = PreconditionedSubgradient(
            self.method.preconditioner,
            self.method.damping_rule,
            Polyak(state.bound, rule.scale, rule.denominator),  # pyright: ignore
            self.method.scope,
        )
        move, _ = towards.step(problem, evaluation, state.step)
        ends = (state.step + 1) % jnp.asarray(self.stage_steps) == 0
        move = Move(
            x=tree_where(ends, best_x, move.x),
            length=jnp.where(ends, 0, move.length),
            damping=move.damping,
            iterations=move.iterations,
            failed=move.failed & ~ends,
            extra_passes=move.extra_passes,
        )
        bound = jnp.where(ends, (best_value + state.bound) / 2, state.bound)
        return move, Stage(state.step + 1, bound, best_x, best_value)
