"""The interface of solvers for the linearised problem."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..._typing import Parameters, RealScalar
from ...problem import Composite


class Linearised(NamedTuple):
    """The linearised problem ``|vector + root * B step|^2 / 2`` with the measured Jacobian B.

    All arrays are flat; `unravel` turns a vector into parameters.
    """

    problem: Composite
    unravel: Callable[[Array], Parameters]
    x: Array
    vector: Array
    """The residual, times `root`."""
    root: Array
    """Square roots of the weights, scaled to a maximum of 1."""
    free: Array
    """1 for free parameters, 0 for those at a bound."""

    def observe(self, x: Array) -> Array:
        """The measurements at other parameters."""
        return jnp.ravel(self.problem.operator.measure(self.problem.map(self.unravel(x))))


class Step(NamedTuple):
    """A step of the linearised problem, and its properties."""

    change: Array
    length: RealScalar
    """Length in parameters scaled by the norms of their columns."""
    limited: Bool[Array, ""]
    """Whether the trust region limited the step."""
    decrease: RealScalar
    """Predicted decrease of the linearised problem."""
    part: RealScalar
    """Norm of the projection of `vector` onto the range of B; infinite if unknown."""
    damping: RealScalar
    iterations: Int[Array, ""]
    passes: Int[Array, ""]
    """Passes over the measurements, without those for linearising."""


class AbstractJacobian(eqx.Module):
    """Computes derivatives of a model and solves the linearised problem with them."""

    @property
    def on_host(self) -> bool:
        """Whether it runs in Python, so that the loop cannot be compiled."""
        return False

    @property
    @abc.abstractmethod
    def passes(self) -> int:
        """Passes over the measurements to linearise at a point."""

    @abc.abstractmethod
    def begin(self, problem: Composite, x0: Parameters, observations: int) -> Any:
        """The stored data before the first point; raises an error if they do not fit in memory."""

    @abc.abstractmethod
    def linearise(
        self, at: Linearised, norms: Array, kept: Any, taken: Bool[Array, ""]
    ) -> tuple[Any, Array]:
        """The data stored for a point, and the largest norm of each column so far.

        If the point was not ``taken``, the data of the previous point are returned.
        """

    @abc.abstractmethod
    def step(self, at: Linearised, norms: Array, kept: Any, radius: RealScalar) -> Step:
        """Minimise the linearised problem over a ball in scaled parameters."""

    @abc.abstractmethod
    def decrease(self, at: Linearised, norms: Array, kept: Any, change: Array) -> RealScalar:
        """Decrease of the linearised problem by a given step."""


def usable(norms: Array) -> Array:
    """Scales of the parameters: the norms, with 1 in place of 0."""
    return jnp.where(norms > 0, norms, 1)
