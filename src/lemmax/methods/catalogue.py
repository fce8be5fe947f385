"""The methods by name, each an assembly of the same parts."""

from .._typing import RealLike
from ._preconditioned import PreconditionedSubgradient
from .damping import AbstractDampingRule, NoDamping, SuitedToLoss
from .preconditioners import Damped, Unpreconditioned
from .scope import SCOPES
from .steps import AbstractStepRule, Polyak


def lmm(
    step: AbstractStepRule | None = None, damping: AbstractDampingRule | None = None
) -> PreconditionedSubgradient:
    """Levenberg-Morrison-Marquardt subgradient method (Díaz, Jiang and Labassi).

    Parameters
    ----------
    step : AbstractStepRule, optional
        Polyak steps to target 0 if not given (the paper's Configuration 1).
    damping : AbstractDampingRule, optional
        `SuitedToLoss` if not given.

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
        Damped(),
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
