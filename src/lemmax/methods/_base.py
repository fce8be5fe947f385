"""What every method offers."""

import abc
import math
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
    offset: RealLike = math.inf
    """How far the best point is from being stationary, between 0 and 1, if the method knows: the
    cosine between the residual and what the parameters can change of it. 0 where rounding errors
    hide the difference."""


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

    @property
    def tries(self) -> bool:
        """Whether its iterates are trials that it may reject.

        The best of them is judged then: a trial may be as bad as it likes, also not finite. The run
        ends where the method says that the best point is stationary, or where it no longer moves.
        """
        return False

    @property
    def on_host(self) -> bool:
        """Whether its steps are computed by Python, so that the loop cannot be compiled."""
        return False

    @abc.abstractmethod
    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The method's own state before the first step."""

    @abc.abstractmethod
    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """Move once from the evaluated point."""
