"""Step rules: how far to go along the direction."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Int

from .._checks import check_real
from .._typing import RealLike, RealScalar
from ..losses import AbstractLoss
from ..maps import Projections
from ..problem import Evaluation
from ._numbers import check_finite, check_sizes, check_target

# Far from the solution residuals need not look Gaussian; even then steps are not shorter than this.
_LEAST_TRUST = 0.15


class Gap(NamedTuple):
    """How far the value is above the minimum, as far as a step rule can tell."""

    size: RealScalar
    bulk: RealScalar
    """The fraction of the residuals that it was told from."""


class AbstractStepRule(eqx.Module):
    """Gives the length of a step from the gap, the projection norms and the step's number."""

    @property
    @abc.abstractmethod
    def known_target(self) -> RealLike | None:
        """The value to reach, if the rule knows one."""

    @property
    def tells_gap(self) -> bool:
        """Whether `gap` is one, so that a damping rule may follow it."""
        return self.known_target is not None

    def gap(self, evaluation: Evaluation, loss: AbstractLoss) -> Gap:
        """The value less the target; less 0 if that is unknown."""
        target = 0.0 if self.known_target is None else self.known_target
        size = jnp.maximum(evaluation.value - target, 0)
        return Gap(size, jnp.ones_like(size))

    @abc.abstractmethod
    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """The factor by which the direction is multiplied."""


def damped_norm(projections: Projections) -> RealScalar:
    """``v'Pv = <gradient, direction>``: free, and convergence is provable with it."""
    return projections.damped


def range_norm(projections: Projections) -> RealScalar:
    """``|Pi v|^2``: the paper's; the shortest steps of the three."""
    return projections.range


def projected_norm(projections: Projections) -> RealScalar:
    """``|P v|^2``: what the paper's code uses; the longest steps of the three."""
    return projections.projected


class Polyak(AbstractStepRule):
    """``scale * (value - target) / denominator``: right for exact data, where the target is 0.

    Parameters
    ----------
    target : float
        The minimum of the objective. 0 when the model can fit the data exactly.
    scale : float
        1 for matrices; one half for tensors and nonnegative least squares in the paper.
    denominator : callable
        `damped_norm` (default), `range_norm` or `projected_norm`.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(step=lm.steps.Polyak(scale=0.5))
    """

    target: RealLike = 0.0
    scale: RealLike = 1.0
    denominator: Callable[[Projections], RealScalar] = eqx.field(static=True, default=damped_norm)

    def __check_init__(self):
        check_sizes(scale=self.scale)
        check_finite(target=self.target)

    @property
    def known_target(self) -> RealLike:
        """The target."""
        return self.target

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """0 where the denominator is 0: there is no direction then."""
        return _quotient(self.scale * gap.size, self.denominator(projections))


class BulkPolyak(AbstractStepRule):
    """Polyak's step without a target: the gap is told from the bulk of the residuals.

    Data of which some are grossly wrong leave a loss whose minimum value is unknown: what the
    wrong ones contribute. But most residuals are of one size, which goes to zero at the solution.
    With s a robust estimate of that size (a quantile of the absolute residuals, divided by that of
    a standard Gaussian), the bulk are the residuals up to ``threshold * s``, and the gap is the
    loss of the bulk alone. The step is ``sqrt(1 - 2 p) * gap / <gradient, direction>``, where p is
    the fraction outside of the bulk: the more data are wrong, the less the subgradient, in which
    they all have their say, is to be trusted. At one half nothing is left.

    Losses of the norm alone (`L2`, `SquaredL2`) are not robust: their minimum is where all
    residuals pull, and their target is 0.

    Parameters
    ----------
    threshold : float
        How many times the typical size a residual of the bulk may have.
    quantile : float
        Of the absolute residuals, from which the typical size is told; at most the fraction of
        data that are right.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(step=lm.steps.BulkPolyak())
    """

    threshold: RealLike = 3.0
    quantile: RealLike = 0.5

    def __check_init__(self):
        check_sizes(threshold=self.threshold)
        check_real(0, 1, quantile=self.quantile, open_low=True)

    @property
    def known_target(self) -> None:
        """None."""
        return

    @property
    def tells_gap(self) -> bool:
        """It estimates one."""
        return True

    def gap(self, evaluation: Evaluation, loss: AbstractLoss) -> Gap:
        """The loss of the bulk."""
        if loss.depends_on_norm_alone:
            return super().gap(evaluation, loss)
        return self.gap_of(evaluation.residual, loss)

    def gap_of(self, residual: Array, loss: AbstractLoss) -> Gap:
        """The loss of the bulk of these residuals."""
        quantile = jnp.asarray(self.quantile, residual.dtype)
        return self.gap_below(residual, jnp.quantile(jnp.abs(residual), quantile), loss)

    def gap_below(self, residual: Array, level: RealLike, loss: AbstractLoss) -> Gap:
        """The same where the quantile of the sizes is known."""
        sizes = jnp.abs(residual)
        quantile = jnp.asarray(self.quantile, sizes.dtype)
        typical = level / norm.ppf((1 + quantile) / 2)
        inside = sizes <= self.threshold * typical
        bulk = loss.value(jnp.where(inside, residual, 0))
        return Gap(bulk, jnp.mean(inside, dtype=sizes.dtype))

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """Shorter, the smaller the bulk."""
        trust = jnp.sqrt(jnp.maximum(2 * gap.bulk - 1, _LEAST_TRUST**2))
        return _quotient(trust * gap.size, projections.damped)


def _quotient(length: RealLike, size: RealScalar) -> RealScalar:
    """0 where the size is 0: there is no direction then."""
    return jnp.where(size > 0, length / jnp.where(size > 0, size, 1), 0)


class Geometric(AbstractStepRule):
    """``initial * decay**k``: needs no target, so it is right for data with outliers.

    To get there, the steps must add up: ``initial * |Pv| / (1 - decay)`` has to exceed the
    distance to the solution.

    Parameters
    ----------
    initial : float
        Length of the first step.
    decay : float
        Between 0 and 1; the error then falls by this factor per step, if at all.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(
    ...     step=lm.steps.Geometric(1e-2, 0.97), damping=lm.damping.Geometric(1e-5, 0.97))
    """

    initial: RealLike
    decay: RealLike

    def __check_init__(self):
        check_sizes(initial=self.initial)
        check_real(0, 1, decay=self.decay, open_low=True)

    @property
    def known_target(self) -> None:
        """None."""
        return

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """Follow the schedule."""
        return jnp.asarray(self.initial * self.decay ** step.astype(gap.size.dtype), gap.size.dtype)


class NormalisedGeometric(AbstractStepRule):
    """``initial * decay**k / sqrt(<gradient, direction>)``: the length of the step is prescribed.

    Length in the norm that belongs to the preconditioner. It is the schedule of the scaled
    subgradient method when the minimum is unknown (Tong, Ma and Chi).

    Parameters
    ----------
    initial : float
        Length of the first step, measured as a change of ``F(x)``: the steps add up to ``initial /
        (1 - decay)``, which must exceed the distance of the first ``F(x)`` from the solution. Half
        of that never arrives; too much costs no more than the steps until the schedule has come
        down. So take ``5 * (1 - decay)`` times a guess of the distance.
    decay : float
        Between 0 and 1.

    Examples
    --------
    A tenth of the data is wrong; the start is off by a hundredth of a matrix of norm 1.4.

    >>> import lemmax as lm
    >>> from lemmax.experiments.instances import low_rank_sensing
    >>> instance = low_rank_sensing(
    ...     0, shape=(8, 8), rank=2, measurements=300, outliers=0.1, start_error=0.01)
    >>> rule = lm.steps.NormalisedGeometric(5 * (1 - 0.9) * 0.014, 0.9)
    >>> result = lm.solve(instance.problem, lm.methods.scaled_subgradient(rule), instance.x0)
    >>> error = result.point.distance(instance.truth) / instance.truth.norm()
    >>> bool(error < 1e-6)
    True
    """

    initial: RealLike
    decay: RealLike

    def __check_init__(self):
        check_sizes(initial=self.initial)
        check_real(0, 1, decay=self.decay, open_low=True)

    @property
    def known_target(self) -> None:
        """None."""
        return

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """0 where there is no direction."""
        scheduled = self.initial * self.decay ** step.astype(gap.size.dtype)
        return _quotient(scheduled, jnp.sqrt(projections.damped))


class Constant(AbstractStepRule):
    """Always the same length: for smooth losses.

    Parameters
    ----------
    size : float
        The length.
    target : float, optional
        The minimum of the objective, if a damping rule or the stopping test is to know it.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.lmm(
    ...     step=lm.steps.Constant(0.5), damping=lm.damping.Geometric(1e-2, 0.9))
    """

    size: RealLike
    target: RealLike | None = None

    def __check_init__(self):
        check_finite(size=self.size)
        check_target(self.target)

    @property
    def known_target(self) -> RealLike | None:
        """The target, if there is one."""
        return self.target

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """The constant."""
        return jnp.asarray(self.size, gap.size.dtype)
