"""Step rules: the length of a step along the direction."""

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

# Lower bound of the factor sqrt(1 - 2 p), since residuals far from the solution are not Gaussian.
_LEAST_TRUST = 0.15


class Gap(NamedTuple):
    """The estimated difference between the value and the minimum."""

    size: RealScalar
    bulk: RealScalar
    """The fraction of the residuals that the estimate uses."""


class AbstractStepRule(eqx.Module):
    """Computes the length of a step from the gap, the projection norms and the step number."""

    @property
    @abc.abstractmethod
    def known_target(self) -> RealLike | None:
        """The minimum of the objective, if known."""

    @property
    def tells_gap(self) -> bool:
        """Whether `gap` is an estimate of the gap, so that damping rules can use it."""
        return self.known_target is not None

    def gap(self, evaluation: Evaluation, loss: AbstractLoss) -> Gap:
        """The value minus the target; the value if there is no target."""
        target = 0.0 if self.known_target is None else self.known_target
        size = jnp.maximum(evaluation.value - target, 0)
        return Gap(size, jnp.ones_like(size))

    @abc.abstractmethod
    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """The factor that multiplies the direction."""


def damped_norm(projections: Projections) -> RealScalar:
    """``v'Pv = <gradient, direction>``: no extra cost, and convergence is proved for it."""
    return projections.damped


def range_norm(projections: Projections) -> RealScalar:
    """``|Pi v|^2``: the paper's choice; the shortest steps of the three."""
    return projections.range


def projected_norm(projections: Projections) -> RealScalar:
    """``|P v|^2``: the choice of the paper's code; the longest steps of the three."""
    return projections.projected


class Polyak(AbstractStepRule):
    """Polyak's step, ``scale * (value - target) / denominator``.

    Parameters
    ----------
    target : float
        The minimum of the objective; 0 if the model can fit the data exactly.
    scale : float
        The paper uses 1 for matrices, and one half for tensors and nonnegative least squares.
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
        """Polyak's length; 0 if the denominator is 0."""
        return _quotient(self.scale * gap.size, self.denominator(projections))


class BulkPolyak(AbstractStepRule):
    """Polyak's step with the gap estimated from the bulk of the residuals, for data with outliers.

    With outliers the minimum of the loss is unknown: it is the loss of the outliers. But most
    residuals go to zero at the solution. Let s be a robust estimate of their scale (a quantile of
    the absolute residuals, divided by that of a standard Gaussian). The bulk consists of the
    residuals up to ``threshold * s``, and the gap is the loss of the bulk. The step is
    ``sqrt(1 - 2 p) * gap / <gradient, direction>``, where p is the fraction of residuals outside
    of the bulk: the more outliers, the less reliable the subgradient.

    Losses that are functions of the norm (`L2`, `SquaredL2`) are not robust; their target is 0.

    Parameters
    ----------
    threshold : float
        Largest residual of the bulk, as a multiple of the estimated scale.
    quantile : float
        The quantile of the absolute residuals that estimates the scale; at most the fraction of
        inliers.

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
        """None: the target is unknown."""
        return

    @property
    def tells_gap(self) -> bool:
        """True: the gap is estimated."""
        return True

    def gap(self, evaluation: Evaluation, loss: AbstractLoss) -> Gap:
        """The loss of the bulk."""
        if loss.depends_on_norm_alone:
            return super().gap(evaluation, loss)
        return self.gap_of(evaluation.residual, loss)

    def gap_of(self, residual: Array, loss: AbstractLoss) -> Gap:
        """The loss of the bulk of the given residuals."""
        quantile = jnp.asarray(self.quantile, residual.dtype)
        return self.gap_below(residual, jnp.quantile(jnp.abs(residual), quantile), loss)

    def gap_below(self, residual: Array, level: RealLike, loss: AbstractLoss) -> Gap:
        """The loss of the bulk, given the quantile of the absolute residuals."""
        sizes = jnp.abs(residual)
        quantile = jnp.asarray(self.quantile, sizes.dtype)
        typical = level / norm.ppf((1 + quantile) / 2)
        inside = sizes <= self.threshold * typical
        bulk = loss.value(jnp.where(inside, residual, 0))
        return Gap(bulk, jnp.mean(inside, dtype=sizes.dtype))

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """Polyak's length, reduced if there are many outliers."""
        trust = jnp.sqrt(jnp.maximum(2 * gap.bulk - 1, _LEAST_TRUST**2))
        return _quotient(trust * gap.size, projections.damped)


def _quotient(length: RealLike, size: RealScalar) -> RealScalar:
    """``length / size``; 0 if the size is 0."""
    return jnp.where(size > 0, length / jnp.where(size > 0, size, 1), 0)


class Geometric(AbstractStepRule):
    """``initial * decay**k``, for data with outliers: no target is needed.

    The steps must be able to reach the solution: ``initial * |Pv| / (1 - decay)`` has to exceed
    the distance to it.

    Parameters
    ----------
    initial : float
        Length of the first step.
    decay : float
        In (0, 1). If the method converges, the error falls by this factor per step.

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
        """None: no target is needed."""
        return

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """``initial * decay**step``."""
        return jnp.asarray(self.initial * self.decay ** step.astype(gap.size.dtype), gap.size.dtype)


class NormalisedGeometric(AbstractStepRule):
    """``initial * decay**k / sqrt(<gradient, direction>)``: steps of prescribed length.

    The length is measured in the norm of the preconditioner. This is the schedule of the scaled
    subgradient method for an unknown minimum (Tong, Ma and Chi).

    Parameters
    ----------
    initial : float
        Length of the first step, measured as a change of ``F(x)``. The steps add up to ``initial /
        (1 - decay)``, which must exceed the distance of the first ``F(x)`` from the solution; too
        large a value only costs some steps. Use ``5 * (1 - decay)`` times an estimate of the
        distance.
    decay : float
        In (0, 1).

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
        """None: no target is needed."""
        return

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """The prescribed length; 0 if there is no direction."""
        scheduled = self.initial * self.decay ** step.astype(gap.size.dtype)
        return _quotient(scheduled, jnp.sqrt(projections.damped))


class Constant(AbstractStepRule):
    """Constant step length, for smooth losses.

    Parameters
    ----------
    size : float
        The length.
    target : float, optional
        The minimum of the objective, used by damping rules and for stopping.

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
        """The target, if given."""
        return self.target

    def length(self, gap: Gap, projections: Projections, step: Int[Array, ""]) -> RealScalar:
        """The constant."""
        return jnp.asarray(self.size, gap.size.dtype)
