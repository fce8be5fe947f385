"""What every method offers."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Int

from .._typing import Parameters, RealLike, RealScalar
from ..problem import Composite, Evaluation
from .scope import Scope

PASSES_OF_AN_EVALUATION = 2
"""The measurements are read once forward and once by the adjoint."""


class Move(eqx.Module):
    """One step of a method, and what it took."""

    x: Parameters
    """Where it leads."""
    length: RealScalar
    damping: RealScalar
    iterations: Int[Array, ""]
    """Inner iterations of a linear or convex solver."""
    failed: Bool[Array, ""]
    """Whether that solver gave up; x is then not to be trusted."""
    extra_passes: Int[Array, ""]
    """Passes over the measurements beyond those of the evaluation it began with."""


class AbstractMethod(eqx.Module):
    """How to move. The loop, the trace and the stopping rules are elsewhere."""

    @property
    @abc.abstractmethod
    def target(self) -> RealLike | None:
        """The value to reach, if the method knows one."""

    @property
    @abc.abstractmethod
    def scope(self) -> Scope:
        """The problems it is for."""

    @abc.abstractmethod
    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The method's own state before the first step."""

    @abc.abstractmethod
    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """Move once from the evaluated point."""
