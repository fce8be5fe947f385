"""What every way to solve the linearised problem offers."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..._typing import Parameters, RealScalar
from ...problem import Composite


class Linearised(NamedTuple):
    """A problem at a point: half of ``|vector + root * B step|^2``, B the measured Jacobian.

    Everything is flat; `unravel` makes parameters of a vector.
    """

    problem: Composite
    unravel: Callable[[Array], Parameters]
    x: Array
    vector: Array
    """The residual, times `root`."""
    root: Array
    """Roots of the weights, the largest of which is 1."""
    free: Array
    """1 for parameters that may move, 0 for those that are held by a bound."""

    def observe(self, x: Array) -> Array:
        """What is measured at other parameters."""
        return jnp.ravel(self.problem.operator.measure(self.problem.map(self.unravel(x))))


class Step(NamedTuple):
    """A step from a point, and what is known about it."""

    change: Array
    length: RealScalar
    """In parameters that are scaled by the norms of their columns."""
    limited: Bool[Array, ""]
    """Whether the trust region made it shorter."""
    decrease: RealScalar
    """Of the linearised problem."""
    part: RealScalar
    """Norm of what the parameters can change of `vector`; infinite if it is not known."""
    damping: RealScalar
    iterations: Int[Array, ""]
    passes: Int[Array, ""]
    """Over the measurements, beside those of linearising."""


class AbstractJacobian(eqx.Module):
    """How the derivatives of a model are had, and the linearised problem solved with them."""

    @property
    def on_host(self) -> bool:
        """Whether it works in Python, so that the loop cannot be compiled."""
        return False

    @property
    @abc.abstractmethod
    def passes(self) -> int:
        """Over the measurements, to linearise at a point."""

    @abc.abstractmethod
    def begin(self, problem: Composite, x0: Parameters, observations: int) -> Any:
        """What it keeps of a point, before there is one; it refuses what does not fit."""

    @abc.abstractmethod
    def linearise(
        self, at: Linearised, norms: Array, kept: Any, taken: Bool[Array, ""]
    ) -> tuple[Any, Array]:
        """What it keeps of a point, and the largest norms that columns have had.

        Where the point was not ``taken``, what was kept of the one before.
        """

    @abc.abstractmethod
    def step(self, at: Linearised, norms: Array, kept: Any, radius: RealScalar) -> Step:
        """Minimise the linearised problem in a ball of scaled parameters."""

    @abc.abstractmethod
    def decrease(self, at: Linearised, norms: Array, kept: Any, change: Array) -> RealScalar:
        """Of the linearised problem, by a step of one's own."""


def usable(norms: Array) -> Array:
    """What parameters are scaled by: 1 where nothing has been seen of them."""
    return jnp.where(norms > 0, norms, 1)
