"""Preconditioned subgradient methods: preconditioner, damping rule and step rule."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._checks import check_kind
from .._tree import tree_move
from .._typing import Parameters, RealLike
from ..problem import Composite, Evaluation
from ._base import AbstractMethod, Move
from .damping import AbstractDampingRule
from .preconditioners import AbstractPreconditioner
from .scope import Scope
from .steps import AbstractStepRule


class PreconditionedSubgradient(AbstractMethod):
    """A preconditioned subgradient method, ``x <- x - length * (J'J + damping)^-1 J'v``.

    Parameters
    ----------
    preconditioner : AbstractPreconditioner
        Applied to the subgradient.
    damping_rule : AbstractDampingRule
        Computes the damping.
    step_rule : AbstractStepRule
        Computes the step length.
    scope : Scope
        The problems that the method accepts. Default: all.
    """

    preconditioner: AbstractPreconditioner
    damping_rule: AbstractDampingRule
    step_rule: AbstractStepRule
    covers: Scope = eqx.field(static=True)

    def __init__(
        self,
        preconditioner: AbstractPreconditioner,
        damping_rule: AbstractDampingRule,
        step_rule: AbstractStepRule,
        scope: Scope | None = None,
    ):
        check_kind(
            "preconditioner",
            preconditioner,
            AbstractPreconditioner,
            "an object such as lm.methods.preconditioners.Damped()",
        )
        check_kind("step", step_rule, AbstractStepRule, "a rule such as lm.steps.Polyak()")
        check_kind(
            "damping", damping_rule, AbstractDampingRule, "a rule such as lm.damping.Fixed(0.1)"
        )
        if damping_rule.needs_gap and not step_rule.tells_gap:
            raise ValueError(
                f"damping.{type(damping_rule).__name__} needs the gap to a target value, "
                f"but steps.{type(step_rule).__name__} has no target. Use "
                "damping.Geometric with it, or steps.Polyak or steps.BulkPolyak."
            )
        self.preconditioner = preconditioner
        self.damping_rule = damping_rule
        self.step_rule = step_rule
        self.covers = Scope() if scope is None else scope

    @property
    def target(self) -> RealLike | None:
        """The target of the step rule."""
        return self.step_rule.known_target

    @property
    def scope(self) -> Scope:
        """The problems that the method accepts."""
        return self.covers

    def init(self, problem: Composite, x0: Parameters) -> Int[Array, ""]:
        """The step counter."""
        return jnp.zeros((), jnp.int32)

    def step(
        self, problem: Composite, evaluation: Evaluation, state: Int[Array, ""]
    ) -> tuple[Move, Int[Array, ""]]:
        """Compute the damping, the direction, and the step length."""
        gap = self.step_rule.gap(evaluation, problem.loss)
        damping = self.damping_rule.damping(gap.size, problem.loss, state)
        found = self.preconditioner.apply(problem, evaluation, damping)
        length = self.step_rule.length(gap, found.projections, state)
        move = Move(
            x=tree_move(evaluation.x, length, found.direction),
            length=length,
            damping=damping,
            iterations=found.iterations,
            failed=found.failed,
            extra_passes=jnp.zeros((), jnp.int32),
        )
        return move, state + 1
