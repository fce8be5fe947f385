"""The interface of methods."""

import abc
import math
from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Int

from .._typing import Parameters, RealLike, RealScalar
from ..problem import Composite, Evaluation
from .scope import Scope

PASSES_OF_AN_EVALUATION = 2
"""Passes over the measurements per evaluation: one forward, one adjoint."""


class Move(eqx.Module):
    """One step of a method, and its cost."""

    x: Parameters
    """The new iterate."""
    length: RealScalar
    damping: RealScalar
    iterations: Int[Array, ""]
    """Inner iterations of a linear or convex solver."""
    failed: Bool[Array, ""]
    """Whether the inner solver failed; x is then unreliable."""
    extra_passes: Int[Array, ""]
    """Passes over the measurements, not counting those of the evaluation."""
    offset: RealLike = math.inf
    """Distance of the best point from stationarity, between 0 and 1, if the method measures it: the
    cosine between the residual and the range of the Jacobian. 0 if it is below rounding errors."""


class AbstractMethod(eqx.Module):
    """Computes steps. The loop, the trace and the stopping rules are in `lemmax.solve`."""

    @property
    @abc.abstractmethod
    def target(self) -> RealLike | None:
        """The minimum of the objective, if known."""

    @property
    @abc.abstractmethod
    def scope(self) -> Scope:
        """The problems that the method accepts."""

    @property
    def tries(self) -> bool:
        """Whether its iterates are trial points that it may reject.

        If so, the stopping rules test the best point, and trial points may have any value, even a
        nonfinite one. The run ends when the method reports a stationary point, or does not move.
        """
        return False

    @property
    def on_host(self) -> bool:
        """Whether steps are computed in Python, so that the loop cannot be compiled."""
        return False

    @abc.abstractmethod
    def init(self, problem: Composite, x0: Parameters) -> Any:
        """The state of the method before the first step."""

    @abc.abstractmethod
    def step(self, problem: Composite, evaluation: Evaluation, state: Any) -> tuple[Move, Any]:
        """One step from the evaluated point."""
