"""Damping rules: the multiple of the identity added to J'J."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._checks import check_real
from .._typing import RealLike, RealScalar
from ..losses import AbstractLoss
from ._numbers import check_dampings


class AbstractDampingRule(eqx.Module):
    """Computes the damping from the gap (value - target), the loss and the step number."""

    needs_gap: eqx.AbstractClassVar[bool]
    """Whether the rule needs a step rule with a target value."""

    @abc.abstractmethod
    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """The damping, nonnegative."""


class ProportionalToGap(AbstractDampingRule):
    """``factor * (value - target)``, proportional to the error for a sharp loss.

    Parameters
    ----------
    factor : float
        1e-3 works in all experiments of the paper; its text uses 1e-5 for matrices.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(damping=lm.damping.ProportionalToGap(1e-5))
    """

    factor: RealLike = 1e-3
    needs_gap: ClassVar[bool] = True

    def __check_init__(self):
        check_dampings(factor=self.factor)

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """``factor * gap``."""
        return jnp.asarray(self.factor * gap)


class ProportionalToRootGap(AbstractDampingRule):
    """``factor * sqrt(value - target)``, proportional to the error for a squared loss.

    Parameters
    ----------
    factor : float
        The paper uses 2.5e-3.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(damping=lm.damping.ProportionalToRootGap(1e-2))
    """

    factor: RealLike = 2.5e-3
    needs_gap: ClassVar[bool] = True

    def __check_init__(self):
        check_dampings(factor=self.factor)

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """``factor * sqrt(gap)``."""
        return jnp.asarray(self.factor * jnp.sqrt(gap))


class SuitedToLoss(AbstractDampingRule):
    """`ProportionalToGap` for sharp losses, `ProportionalToRootGap` for quadratic ones.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(damping=lm.damping.SuitedToLoss())   # the default
    """

    needs_gap: ClassVar[bool] = True

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """The damping of the rule that suits the loss."""
        rule = ProportionalToRootGap() if loss.quadratic else ProportionalToGap()
        return rule.damping(gap, loss, step)


class Geometric(AbstractDampingRule):
    """``initial * decay**k``, for step rules without a target.

    Parameters
    ----------
    initial : float
        Damping of the first step.
    decay : float
        In (0, 1); usually the decay of the step rule.

    Examples
    --------
    >>> import lemmax as lm
    >>> rule = lm.damping.Geometric(1e-5, 0.97)
    """

    initial: RealLike
    decay: RealLike
    needs_gap: ClassVar[bool] = False

    def __check_init__(self):
        check_dampings(initial=self.initial)
        check_real(0, 1, decay=self.decay, open_low=True)

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """``initial * decay**step``."""
        return jnp.asarray(self.initial * self.decay ** step.astype(gap.dtype), gap.dtype)


class Fixed(AbstractDampingRule):
    """Constant damping.

    Parameters
    ----------
    size : float
        The damping. If the map is over-parameterised, convergence slows down or stops when the
        error is of this size.

    Examples
    --------
    >>> import lemmax as lm
    >>> rule = lm.damping.Fixed(1e-8)
    """

    size: RealLike
    needs_gap: ClassVar[bool] = False

    def __check_init__(self):
        check_dampings(size=self.size)

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """The constant."""
        return jnp.asarray(self.size, gap.dtype)


class NoDamping(AbstractDampingRule):
    """No damping: the pseudo-inverse, which makes the method Gauss-Newton.

    Examples
    --------
    >>> import lemmax as lm
    >>> rule = lm.damping.NoDamping()
    """

    needs_gap: ClassVar[bool] = False

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """Zero."""
        return jnp.zeros_like(gap)
