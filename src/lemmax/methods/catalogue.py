"""The main methods by name."""

from jaxtyping import PyTree

from .._typing import RealLike
from ._preconditioned import PreconditionedSubgradient
from ._trust_region import TrustRegion
from .damping import AbstractDampingRule, NoDamping, SuitedToLoss
from .jacobians import AbstractJacobian
from .preconditioners import AbstractPreconditioner, Damped, Unpreconditioned
from .scope import SCOPES
from .steps import AbstractStepRule, Polyak


def lmm(
    step: AbstractStepRule | None = None,
    damping: AbstractDampingRule | None = None,
    preconditioner: AbstractPreconditioner | None = None,
) -> PreconditionedSubgradient:
    """Levenberg-Morrison-Marquardt subgradient method (Díaz, Jiang and Labassi).

    Parameters
    ----------
    step : AbstractStepRule, optional
        Default: Polyak steps with target 0 (the paper's Configuration 1).
    damping : AbstractDampingRule, optional
        Default: `SuitedToLoss`.
    preconditioner : AbstractPreconditioner, optional
        Default: `preconditioners.Damped`, the map's exact solver. `preconditioners.TruncatedCG` is
        the inexact solver of the paper.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> configuration_1 = lm.methods.lmm()
    >>> configuration_2 = lm.methods.lmm(
    ...     lm.steps.Geometric(1e-2, 0.97), lm.damping.Geometric(1e-5, 0.97))
    >>> configuration_3 = lm.methods.lmm(
    ...     lm.steps.Constant(0.5), lm.damping.Geometric(1e-2, 0.9))
    """
    return PreconditionedSubgradient(
        Damped() if preconditioner is None else preconditioner,
        SuitedToLoss() if damping is None else damping,
        Polyak() if step is None else step,
        SCOPES["lmm"],
    )


def gauss_newton(step: AbstractStepRule | None = None) -> PreconditionedSubgradient:
    """Gauss-Newton subgradient method (Davis and Jiang), without damping.

    It needs a map whose Jacobian has constant rank near the solution. For over-parameterised maps
    this fails: steps can be arbitrarily long.

    Parameters
    ----------
    step : AbstractStepRule, optional
        Default: Polyak steps with target 0.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.gauss_newton()
    """
    rule = Polyak() if step is None else step
    return PreconditionedSubgradient(Damped(), NoDamping(), rule, SCOPES["gauss_newton"])


def polyak_subgradient(target: RealLike = 0.0, scale: RealLike = 1.0) -> PreconditionedSubgradient:
    """Subgradient method with Polyak's step; gradient descent if the loss is smooth.

    The rate depends on the condition number of the map, and is sublinear if the map is
    over-parameterised.

    Parameters
    ----------
    target : float
        The minimum of the objective.
    scale : float
        Multiplies the step.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.polyak_subgradient()
    """
    return subgradient(Polyak(target, scale))


def subgradient(step: AbstractStepRule) -> PreconditionedSubgradient:
    """Subgradient method with any step rule.

    Parameters
    ----------
    step : AbstractStepRule
        The step rule; ``steps.Geometric`` for data with outliers.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.subgradient(lm.steps.Geometric(1e-2, 0.97))
    """
    return PreconditionedSubgradient(Unpreconditioned(), NoDamping(), step, SCOPES["subgradient"])


def trust_region(
    jacobian: AbstractJacobian | None = None,
    *,
    bounds: tuple[PyTree, PyTree] | None = None,
    reach: RealLike = 1.0,
    target: RealLike | None = None,
) -> TrustRegion:
    """Levenberg-Marquardt method with a trust region (Moré 1978), for smooth losses.

    The step D minimises the linearised problem over steps of bounded length. Parameters are scaled
    by the largest norm so far of their Jacobian column, so that results do not depend on units.
    Losses other than squares are reweighted, residual by residual. Each iterate is a trial point:
    it is accepted if it achieves a share of the predicted decrease. If it does not, or if its
    value is not finite, the next trial is closer. A rejected trial costs one evaluation.

    The run ends with `STATIONARY` when the cosine between the residual and the range of the
    Jacobian (Bates and Watts' offset) is at most ``tol`` of `lemmax.solve`, or below rounding
    errors. The predicted relative decrease is the square of this cosine.

    Parameters
    ----------
    jacobian : AbstractJacobian, optional
        One of ``lm.jacobians``. Default: ``Dense()`` if the matrix takes at most 30 MB, otherwise
        ``Products()``.
    bounds : pair of pytrees, optional
        ``(low, high)``, both structured like the parameters; infinite where there is no bound.
    reach : float
        Radius of the first trust region, relative to the scaled norm of the start.
    target : float, optional
        The minimum of the objective, used only for stopping.

    Returns
    -------
    TrustRegion

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> t = jnp.linspace(0.0, 1.0, 5)
    >>> decay = lm.maps.FromFunction(lambda x: x[0] * jnp.exp(-x[1] * t))
    >>> problem = lm.Composite(
    ...     lm.losses.SquaredL2(), decay, data=jnp.array([2.0, 1.4, 1.1, 0.7, 0.5]))
    >>> result = lm.solve(problem, lm.methods.trust_region(), jnp.array([1.0, 1.0]))
    >>> result.status.name
    'STATIONARY'
    >>> print(jnp.round(result.x, 2))
    [2.   1.34]
    """
    return TrustRegion(jacobian, bounds, reach, target)
