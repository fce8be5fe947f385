"""The methods LMM is compared with, each an assembly of the same parts.

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

    Linear at a rate free of the condition number at the exact rank. When over-parameterised,
    ``X'X`` becomes singular.

    Parameters
    ----------
    size : float
        Step; one half is its authors'.
    target : float
        The minimum of the objective, for the stopping test alone.

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

    Made for `PSD`; its use on `LowRank` is the extension in the LMM paper's experiments. When
    over-parameterised it slows down as soon as the error is as small as the damping.

    Parameters
    ----------
    damping : float
        Added to the blocks of J'J, so ``X'X + damping / 2`` for `PSD`.
    size : float
        Step.
    target : float
        The minimum of the objective, for the stopping test alone.

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
        Multiplies the root of the gap.
    size : float
        Step.
    target : float
        The minimum of the objective, which the damping follows.

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
        Multiplies the root of the gap.
    size : float
        Step.
    target : float
        The minimum of the objective, which the damping follows.

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
        Polyak steps to target 0 if not given; `NormalisedGeometric` for data with outliers.

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

    When over-parameterised the error levels off at a multiple of the damping.

    Parameters
    ----------
    damping : float
        Its authors use 2 for singular values between 1 and κ; the LMM paper 1e-8.
    step : AbstractStepRule, optional
        Polyak steps to target 0 if not given.

    See Also
    --------
    rebalanced : the LMM paper's variant is ``rebalanced(opsa())``.

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
    """Any method on `LowRank`, its factors given equal singular values after every step.

    Parameters
    ----------
    method : AbstractMethod
        What moves.

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
        Step of both half steps.
    target : float
        The minimum of the objective, for the stopping test alone.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.apgd()
    """
    return Alternating(size, target, SCOPES["apgd"])


def approximate_gauss_newton(size: RealLike = 1.0, target: RealLike = 0.0) -> Alternating:
    """Approximated Gauss-Newton (Jia and co-authors): alternating least-squares corrections.

    Symmetric problems only through the asymmetric parameterisation.

    Parameters
    ----------
    size : float
        Step of both half steps, at most 2 / (1 + δ) by its theory; their code uses one half.
    target : float
        The minimum of the objective, for the stopping test alone.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.approximate_gauss_newton()
    """
    return Alternating(size, target, SCOPES["approximate_gauss_newton"])


def prox_linear(target: RealLike | None = None) -> ProxLinear:
    """Prox-linear method: the loss of the linearised residual, minimised in every step.

    Three passes over the measurements a step, and few steps: at the exact rank the error squares.
    The cost is a matrix of observations x parameters and its SVD in every step, so it is for small
    models; one that does not fit is refused with a MemoryError.

    Parameters
    ----------
    target : float, optional
        The minimum of the objective, for the stopping test alone. Without it the run ends where the
        linearised model promises no further decrease.

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
        Most subgradients in a bundle; each takes two passes over the measurements. No more than
        there are parameters are taken.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.super_polyak()
    """
    return SuperPolyak(target, bundle_size)


def restarted(
    method: PreconditionedSubgradient, lower_bound: RealLike = 0.0, stage_steps: int = 20
) -> RestartedPolyak:
    """A method with Polyak steps, when the minimum is unknown: the target is guessed.

    Parameters
    ----------
    method : PreconditionedSubgradient
        ``gauss_newton()`` in Davis and Jiang's paper; any with Polyak steps will do.
    lower_bound : float
        A number the objective cannot fall below.
    stage_steps : int
        Steps after which a guess that was not approached is given up; at least 2.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.restarted(lm.methods.gauss_newton())
    """
    return RestartedPolyak(method, lower_bound, stage_steps)
