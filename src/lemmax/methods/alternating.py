"""Methods that update one factor after the other."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .._typing import RealLike
from ..problem import Composite, Evaluation
from ._base import PASSES_OF_AN_EVALUATION, AbstractMethod, Move
from ._numbers import check_sizes, check_target
from .scope import Scope

Factors = tuple[Array, Array]


class Alternating(AbstractMethod):
    """Two half steps, each preconditioned by its own block without damping.

    ``X <- X - size * V Y (Y'Y)^+``, a new evaluation of V, then ``Y <- Y - size * V'X (X'X)^+``.
    A step reads the measurements four times.

    Parameters
    ----------
    size : float
        Length of both half steps.
    known_target : float, optional
        The minimum of the objective, for the stopping test.
    covers : Scope
        The problems that the method accepts.
    """

    size: RealLike
    known_target: RealLike | None
    covers: Scope = eqx.field(static=True)

    def __check_init__(self):
        check_sizes(size=self.size)
        check_target(self.known_target)

    @property
    def target(self) -> RealLike | None:
        """The target, if given."""
        return self.known_target

    @property
    def scope(self) -> Scope:
        """The problems that the method accepts."""
        return self.covers

    def init(self, problem: Composite, x0: Factors) -> None:
        """No state."""

    def step(self, problem: Composite, evaluation: Evaluation, state: None) -> tuple[Move, None]:
        """Update X, then Y."""
        x, y = evaluation.x
        value = evaluation.value
        size = jnp.asarray(self.size, value.dtype)
        x = x - size * problem.map.block_direction((x, y), 0.0, evaluation.covector)[0]
        between = problem.evaluate((x, y))
        y = y - size * problem.map.block_direction((x, y), 0.0, between.covector)[1]
        move = Move(
            x=(x, y),
            length=size,
            damping=jnp.zeros_like(value),
            iterations=jnp.zeros((), jnp.int32),
            failed=jnp.zeros((), jnp.bool_),
            extra_passes=jnp.asarray(PASSES_OF_AN_EVALUATION, jnp.int32),
        )
        return move, None
