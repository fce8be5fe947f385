"""The methods by name, each an assembly of the same parts."""

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
        Polyak steps to target 0 if not given (the paper's Configuration 1).
    damping : AbstractDampingRule, optional
        `SuitedToLoss` if not given.
    preconditioner : AbstractPreconditioner, optional
        `preconditioners.Damped`, the map's own solver, if not given. `preconditioners.TruncatedCG`
        is the paper's inexact one.

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
    """Gauss-Newton subgradient method (Davis and Jiang): no damping.

    It needs a map whose Jacobian has constant rank near the solution. Over-parameterised maps
    do not: there a step can be arbitrarily long, and the run often has to come back from far away.

    Parameters
    ----------
    step : AbstractStepRule, optional
        Polyak steps to target 0 if not given.

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

    Its speed depends on the conditioning of the map, and it is sublinear when the map is
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
        For data with outliers: ``steps.Geometric``.

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
    """Levenberg-Marquardt steps in a trust region (Moré 1978), for smooth losses.

    ``x + D`` where D minimises the linearised problem among steps of bounded length, in parameters
    that are scaled by the largest norm that their column of the Jacobian has had: nothing depends
    on their units. Other losses than squares are reweighted, residual by residual. An iterate is a
    trial: it is accepted if it brings some of the predicted decrease, and the next is closer if
    not, or if its value is not finite. A rejected trial costs one evaluation.

    The run ends with `STATIONARY` where the cosine between the residual and all that the parameters
    can change of it (Bates and Watts' offset) is no more than the ``tol`` of `lemmax.solve`, or
    than rounding errors allow. The predicted decrease, relative to the value, is then its square.

    Parameters
    ----------
    jacobian : AbstractJacobian, optional
        One of ``lm.jacobians``. If not given, ``Dense()`` where the matrix takes at most 30 MB,
        else ``Products()``.
    bounds : pair of pytrees, optional
        ``(low, high)``, both like the parameters; infinite where there is none.
    reach : float
        Radius of the first trust region, relative to the scaled norm of the start.
    target : float, optional
        The minimum of the objective, for the stopping test alone.

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
