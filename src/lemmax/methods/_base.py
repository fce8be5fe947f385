"""A method: preconditioner, damping rule and step rule."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .._tree import tree_move
from .._typing import Parameters, RealLike, RealScalar
from ..problem import Composite, Evaluation
from .damping import AbstractDampingRule
from .preconditioners import AbstractPreconditioner
from .steps import AbstractStepRule


class Move(eqx.Module):
    """One step of a method, and what it took."""

    x: Parameters
    """Where it leads."""
    length: RealScalar
    damping: RealScalar
    iterations: Int[Array, ""]
    """Inner iterations of a linear solver."""
    failed: Bool[Array, ""]
    """Whether that solver gave up; x is then not to be trusted."""


class AbstractMethod(eqx.Module):
    """How to move. The loop, the trace and the stopping rules are elsewhere."""

    @property
    @abc.abstractmethod
    def target(self) -> RealLike | None:
        """The value to reach, if the method knows one."""

    @abc.abstractmethod
    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The method's own state before the first step."""

    @abc.abstractmethod
    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """Move once from the evaluated point."""


class PreconditionedSubgradient(AbstractMethod):
    """``x - length * (J'J + damping)^-1 J'v``, assembled from three parts.

    Parameters
    ----------
    preconditioner : AbstractPreconditioner
        What the subgradient is multiplied by.
    damping_rule : AbstractDampingRule
        How much damping.
    step_rule : AbstractStepRule
        How far to go.
    """

    preconditioner: AbstractPreconditioner
    damping_rule: AbstractDampingRule
    step_rule: AbstractStepRule

    def __check_init__(self):
        if self.damping_rule.needs_gap and self.step_rule.known_target is None:
            raise ValueError(
                f"damping.{type(self.damping_rule).__name__} follows the gap to a target value, "
                f"but steps.{type(self.step_rule).__name__} knows no target. Use "
                "damping.Geometric with it, or steps.Polyak."
            )

    @property
    def target(self) -> RealLike | None:
        """The step rule's."""
        return self.step_rule.known_target

    def init(self, problem: Composite, x0: Parameters) -> Int[Array, ""]:
        """The number of steps taken."""
        return jnp.zeros((), jnp.int32)

    def step(
        self, problem: Composite, evaluation: Evaluation, state: Int[Array, ""]
    ) -> tuple[Move, Int[Array, ""]]:
        """Damping, then direction, then length."""
        target = 0.0 if self.target is None else self.target
        gap = jnp.maximum(evaluation.value - target, 0)
        damping = self.damping_rule.damping(gap, problem.loss, state)
        found = self.preconditioner.apply(problem, evaluation, damping)
        length = self.step_rule.length(evaluation.value, found.projections, state)
        x = tree_move(evaluation.x, length, found.direction)
        return Move(x, length, damping, found.iterations, found.failed), state + 1
