"""The methods that LMM is compared with.

The scaled methods are LMM with J'J replaced by its block diagonal: ``2 X'X`` for ``X X'``, and
``Y'Y`` and ``X'X`` for ``X Y'``.
"""

from .._typing import RealLike
from ._base import AbstractMethod
from ._numbers import check_dampings, check_sizes
from ._preconditioned import PreconditionedSubgradient
from ._prox_linear import ProxLinear
from ._super_polyak import SuperPolyak
from .alternating import Alternating
from .damping import Fixed, NoDamping, ProportionalToRootGap
from .preconditioners import DampedBlocks
from .scope import SCOPES
from .steps import AbstractStepRule, Constant, Polyak
from .wrappers import Rebalanced, RestartedPolyak


def scaled_gd(size: RealLike = 0.5, target: RealLike = 0.0) -> PreconditionedSubgradient:
    """ScaledGD (Tong, Ma and Chi): no damping, constant step.

    At the exact rank it converges linearly, at a rate independent of the condition number. If
    over-parameterised, ``X'X`` becomes singular.

    Parameters
    ----------
    size : float
        Step size; the authors use one half.
    target : float
        The minimum of the objective, used only for stopping.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.scaled_gd()
    """
    check_sizes(size=size)
    rule = Constant(size, target)
    return PreconditionedSubgradient(DampedBlocks(), NoDamping(), rule, SCOPES["scaled_gd"])


def scaled_gd_damped(
    damping: RealLike = 1e-8, size: RealLike = 0.5, target: RealLike = 0.0
) -> PreconditionedSubgradient:
    """ScaledGD(λ) (Xu, Shen, Chi and Ma): constant damping, constant step.

    Designed for `PSD`; the LMM paper's experiments extend it to `LowRank`. If over-parameterised,
    it slows down when the error reaches the size of the damping.

    Parameters
    ----------
    damping : float
        Added to the blocks of J'J, which gives ``X'X + damping / 2`` for `PSD`.
    size : float
        Step size.
    target : float
        The minimum of the objective, used only for stopping.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.scaled_gd_damped(1e-8)
    """
    check_dampings(damping=damping)
    check_sizes(size=size)
    rule, scope = Constant(size, target), SCOPES["scaled_gd_damped"]
    return PreconditionedSubgradient(DampedBlocks(), Fixed(damping), rule, scope)


def prec_gd(
    factor: RealLike = 2.5e-3, size: RealLike = 0.5, target: RealLike = 0.0
) -> PreconditionedSubgradient:
    """PrecGD (Zhang, Fattahi and Zhang): damping proportional to the error, symmetric matrices.

    Parameters
    ----------
    factor : float
        Multiplies the square root of the gap.
    size : float
        Step size.
    target : float
        The minimum of the objective, used for the damping.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.prec_gd()
    """
    check_sizes(size=size)
    damping, step = ProportionalToRootGap(factor), Constant(size, target)
    return PreconditionedSubgradient(DampedBlocks(), damping, step, SCOPES["prec_gd"])


def prec_gd_asymmetric(
    factor: RealLike = 2.5e-3, size: RealLike = 0.5, target: RealLike = 0.0
) -> PreconditionedSubgradient:
    """PrecGD for asymmetric matrices (Cheng and Zhao).

    The form is inferred from the abstract: damping proportional to the error in both blocks.

    Parameters
    ----------
    factor : float
        Multiplies the square root of the gap.
    size : float
        Step size.
    target : float
        The minimum of the objective, used for the damping.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.prec_gd_asymmetric()
    """
    check_sizes(size=size)
    damping, step = ProportionalToRootGap(factor), Constant(size, target)
    return PreconditionedSubgradient(DampedBlocks(), damping, step, SCOPES["prec_gd_asymmetric"])


def scaled_subgradient(step: AbstractStepRule | None = None) -> PreconditionedSubgradient:
    """ScaledSM (Tong, Ma and Chi): the scaled subgradient method, no damping.

    Parameters
    ----------
    step : AbstractStepRule, optional
        Default: Polyak steps with target 0. Use `NormalisedGeometric` for data with outliers.

    Returns
    -------
    PreconditionedSubgradient

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.scaled_subgradient()
    """
    rule = Polyak() if step is None else step
    scope = SCOPES["scaled_subgradient"]
    return PreconditionedSubgradient(DampedBlocks(), NoDamping(), rule, scope)


def opsa(
    damping: RealLike = 1e-8, step: AbstractStepRule | None = None
) -> PreconditionedSubgradient:
    """OPSA (Giampouras, Cai and Vidal): the scaled subgradient method with constant damping.

    If over-parameterised, the error stagnates at a multiple of the damping.

    Parameters
    ----------
    damping : float
        The authors use 2 for singular values between 1 and κ, the LMM paper uses 1e-8.
    step : AbstractStepRule, optional
        Default: Polyak steps with target 0.

    Returns
    -------
    PreconditionedSubgradient

    See Also
    --------
    rebalanced : ``rebalanced(opsa())`` is the variant in the LMM paper.

    Examples
    --------
    >>> import lemmax as lm
    >>> authors = lm.methods.opsa(2.0)
    >>> variant = lm.methods.rebalanced(lm.methods.opsa(1e-8))
    """
    check_dampings(damping=damping)
    rule = Polyak() if step is None else step
    return PreconditionedSubgradient(DampedBlocks(), Fixed(damping), rule, SCOPES["opsa"])


def rebalanced(method: AbstractMethod) -> Rebalanced:
    """A method on `LowRank` whose factors get equal singular values after every step.

    Parameters
    ----------
    method : AbstractMethod
        The method to wrap.

    Returns
    -------
    Rebalanced

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.rebalanced(lm.methods.lmm())
    """
    return Rebalanced(method)


def apgd(size: RealLike = 0.5, target: RealLike = 0.0) -> Alternating:
    """Alternating preconditioned gradient descent (Liu and co-authors), without damping.

    The same iteration as `approximate_gauss_newton`, with a shorter default step.

    Parameters
    ----------
    size : float
        Size of both half steps.
    target : float
        The minimum of the objective, used only for stopping.

    Returns
    -------
    Alternating

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.apgd()
    """
    return Alternating(size, target, SCOPES["apgd"])


def approximate_gauss_newton(size: RealLike = 1.0, target: RealLike = 0.0) -> Alternating:
    """Approximated Gauss-Newton (Jia and co-authors): alternating least-squares corrections.

    Symmetric problems need the asymmetric parameterisation.

    Parameters
    ----------
    size : float
        Size of both half steps, at most 2 / (1 + δ) by theory; the authors' code uses one half.
    target : float
        The minimum of the objective, used only for stopping.

    Returns
    -------
    Alternating

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.approximate_gauss_newton()
    """
    return Alternating(size, target, SCOPES["approximate_gauss_newton"])


def prox_linear(target: RealLike | None = None) -> ProxLinear:
    """Prox-linear method: minimise the loss of the linearised residual in every step.

    A step takes three passes over the measurements, and few steps are needed: at the exact rank
    convergence is quadratic. Each step forms a matrix of observations x parameters and its SVD, so
    it suits small models. A MemoryError is raised if the matrix does not fit.

    Parameters
    ----------
    target : float, optional
        The minimum of the objective, used only for stopping. Without it the run ends when the
        linearised model predicts no further decrease.

    Returns
    -------
    ProxLinear

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.prox_linear()
    """
    return ProxLinear(target)


def super_polyak(target: RealLike = 0.0, bundle_size: int = 200) -> SuperPolyak:
    """SuperPolyak (Charisopoulos and Davis): superlinear bundle steps, Polyak steps as fallback.

    Parameters
    ----------
    target : float
        The minimum of the objective.
    bundle_size : int
        Maximum number of subgradients in a bundle, at most the number of parameters. Each takes
        two passes over the measurements.

    Returns
    -------
    SuperPolyak

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.super_polyak()
    """
    return SuperPolyak(target, bundle_size)


def restarted(
    method: PreconditionedSubgradient, lower_bound: RealLike = 0.0, stage_steps: int = 20
) -> RestartedPolyak:
    """A method with Polyak steps for an unknown minimum, which is estimated in stages.

    Parameters
    ----------
    method : PreconditionedSubgradient
        Any method with Polyak steps; ``gauss_newton()`` in Davis and Jiang's paper.
    lower_bound : float
        A lower bound of the objective.
    stage_steps : int
        Number of steps after which an unsuccessful estimate is corrected; at least 2.

    Returns
    -------
    RestartedPolyak

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.restarted(lm.methods.gauss_newton())
    """
    return RestartedPolyak(method, lower_bound, stage_steps)
