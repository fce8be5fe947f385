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
    """Gives the damping from the gap (value - target), the loss and the step's number."""

    needs_gap: eqx.AbstractClassVar[bool]
    """Whether the rule works only together with a step rule that knows a target value."""

    @abc.abstractmethod
    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """A nonnegative number."""


class ProportionalToGap(AbstractDampingRule):
    """``factor * (value - target)``: proportional to the error for a sharp loss.

    Parameters
    ----------
    factor : float
        1e-3 works throughout the paper's experiments; its text uses 1e-5 for matrices.

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
        """Follow the gap."""
        return jnp.asarray(self.factor * gap)


class ProportionalToRootGap(AbstractDampingRule):
    """``factor * sqrt(value - target)``: proportional to the error for a squared loss.

    Parameters
    ----------
    factor : float
        2.5e-3 is the paper's.

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
        """Follow the root of the gap."""
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
        """Let the loss choose."""
        rule = ProportionalToRootGap() if loss.quadratic else ProportionalToGap()
        return rule.damping(gap, loss, step)


class Geometric(AbstractDampingRule):
    """``initial * decay**k``: for step rules that know no target.

    Parameters
    ----------
    initial : float
        Damping of the first step.
    decay : float
        Between 0 and 1; usually that of the step rule.

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
        """Follow the schedule."""
        return jnp.asarray(self.initial * self.decay ** step.astype(gap.dtype), gap.dtype)


class Fixed(AbstractDampingRule):
    """Always the same damping.

    Parameters
    ----------
    size : float
        The damping. With a superfluous rank the error slows down, or stops, near it.

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
    """Zero: the pseudo-inverse, which makes the method Gauss-Newton.

    Examples
    --------
    >>> import lemmax as lm
    >>> rule = lm.damping.NoDamping()
    """

    needs_gap: ClassVar[bool] = False

    def damping(self, gap: RealScalar, loss: AbstractLoss, step: Int[Array, ""]) -> RealScalar:
        """Zero."""
        return jnp.zeros_like(gap)
