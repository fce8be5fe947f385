"""The damping that the theorems need: proportional to the distance from the truth."""

import math
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int

from .._typing import RealLike, RealScalar
from ..losses import AbstractLoss
from ..methods.damping import AbstractDampingRule
from .constants import OuterConstants


class ProportionalToError(AbstractDampingRule):
    """``factor * e``, with e computed from the gap: ``gap``, or ``sqrt(2 gap)`` if quadratic.

    With `Identity` and the losses `L2` or `SquaredL2`, e is the distance to the truth. Otherwise
    it is the distance up to the constants of the outer function; see `interval`.

    Parameters
    ----------
    factor : float
        The constant of proportionality.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(damping=lm.theory.ProportionalToError(1e-2))
    """

    factor: RealLike
    needs_gap: ClassVar[bool] = True

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """``factor`` times the gap, or times the root of twice the gap."""
        return jnp.asarray(self.factor * (jnp.sqrt(2 * gap) if loss.quadratic else gap))

    def interval(self, constants: OuterConstants) -> tuple[float, float]:
        """C_lb and C_ub: the damping is between these multiples of the error."""
        low, high = constants.lower, constants.upper
        if constants.quadratic:
            low, high = math.sqrt(low), math.sqrt(high)
        return float(self.factor) * low, float(self.factor) * high
