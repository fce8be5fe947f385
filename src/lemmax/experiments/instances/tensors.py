"""Tensors of low CP rank: fully observed, or from measurements."""

from collections.abc import Sequence

import lemmax as lm
from lemmax._checks import check_whole

from ._assembly import OutlierLaw, chosen_operator, sensing
from ._parts import (
    Instance,
    check_law,
    check_model,
    conditioned_factor,
    pad_columns,
    perturb,
    streams,
)


def cp_factorisation(
    seed: int,
    *,
    dims: Sequence[int],
    rank: int,
    true_rank: int = 2,
    condition: float = 1.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
) -> Instance:
    """Decompose a fully observed tensor that is never formed.

    Parameters
    ----------
    seed : int
        Random seed.
    dims : sequence of int
        Shape of the tensor.
    rank, true_rank : int
        Number of fitted terms, and of true ones.
    condition : float
        Ratio of the largest to the smallest term. Terms are orthogonal in every mode, and the
        largest has norm 1.
    loss : AbstractLoss, optional
        Default: `L2`. With a separable loss (`L1`) the tensor is formed.
    start_error : float
        Relative error of the starting point.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import cp_factorisation
    >>> instance = cp_factorisation(0, dims=(500, 400, 300), rank=3)
    >>> [factor.shape for factor in instance.x0]
    [(500, 3), (400, 3), (300, 3)]
    """
    random = streams(seed)
    check_model(dims, rank, true_rank)
    check_law(condition=condition, start_error=start_error)
    factors = tuple(
        conditioned_factor(random.truth, dim, true_rank, condition, len(dims)) for dim in dims
    )
    truth, cp = lm.points.KruskalPoint(factors), lm.maps.CP(dims, rank)
    problem = lm.Composite(loss=lm.losses.L2() if loss is None else loss, map=cp, data=truth)
    solution = tuple(pad_columns(factor, rank) for factor in factors)
    return Instance(problem, perturb(random.start, cp, solution, start_error), truth)


def symmetric_cp_factorisation(
    seed: int,
    *,
    dim: int,
    rank: int,
    true_rank: int = 2,
    condition: float = 1.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
    order: int = 3,
) -> Instance:
    """Decompose a symmetric tensor of any order; see `cp_factorisation`.

    Examples
    --------
    >>> from lemmax.experiments.instances import symmetric_cp_factorisation
    >>> symmetric_cp_factorisation(0, dim=500, rank=3).x0.shape
    (500, 3)
    """
    random = streams(seed)
    check_whole(2, order=order)
    check_model((dim,) * order, rank, true_rank)
    check_law(condition=condition, start_error=start_error)
    factor = conditioned_factor(random.truth, dim, true_rank, condition, order)
    truth = lm.points.KruskalPoint((factor,) * order)
    cp = lm.maps.SymmetricCP(dim, rank, order)
    problem = lm.Composite(loss=lm.losses.L2() if loss is None else loss, map=cp, data=truth)
    x0 = perturb(random.start, cp, pad_columns(factor, rank), start_error)
    return Instance(problem, x0, truth)


def cp_sensing(
    seed: int,
    *,
    dims: Sequence[int],
    rank: int,
    measurements: int,
    true_rank: int = 2,
    condition: float = 1.0,
    outliers: float = 0.0,
    outlier_law: OutlierLaw = "noise",
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
    operator: lm.operators.AbstractOperator | None = None,
) -> Instance:
    """Recover a tensor from inner products with Gaussian tensors, some of them outliers.

    The array of measurements is allocated once and never copied; it is refused if it does not fit.

    Parameters
    ----------
    dims, rank, true_rank, condition
        As for `cp_factorisation`.
    seed, measurements, outliers, outlier_law, loss, start_error, operator
        As for `psd_sensing`.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import cp_sensing
    >>> instance = cp_sensing(0, dims=(5, 4, 3), rank=2, measurements=80, outliers=0.1)
    >>> instance.problem.operator.matrix.shape
    (80, 60)
    """
    random = streams(seed)
    check_model(dims, rank, true_rank)
    check_law(condition=condition, start_error=start_error, outliers=outliers)
    operator = chosen_operator(
        operator, random.operator, measurements, tuple(dims), symmetric=False
    )
    factors = tuple(
        conditioned_factor(random.truth, dim, true_rank, condition, len(dims)) for dim in dims
    )
    return sensing(
        random,
        lm.maps.CP(dims, rank),
        tuple(pad_columns(factor, rank) for factor in factors),
        lm.points.KruskalPoint(factors),
        operator,
        outliers=outliers,
        outlier_law=outlier_law,
        loss=loss,
        start_error=start_error,
    )


def symmetric_cp_sensing(
    seed: int,
    *,
    dim: int,
    rank: int,
    measurements: int,
    true_rank: int = 2,
    condition: float = 1.0,
    outliers: float = 0.0,
    outlier_law: OutlierLaw = "noise",
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
    operator: lm.operators.AbstractOperator | None = None,
    order: int = 3,
) -> Instance:
    """Recover a symmetric tensor; see `cp_sensing`.

    Only the symmetric parts of the Gaussian tensors act on a symmetric tensor, and only these are
    drawn and stored: a sixth of the memory for order 3.

    Examples
    --------
    >>> from lemmax.experiments.instances import symmetric_cp_sensing
    >>> instance = symmetric_cp_sensing(0, dim=5, rank=2, measurements=80, outliers=0.1)
    >>> instance.problem.operator.packed.shape
    (80, 35)
    """
    random = streams(seed)
    check_whole(2, order=order)
    check_model((dim,) * order, rank, true_rank)
    check_law(condition=condition, start_error=start_error, outliers=outliers)
    shape = (dim,) * order
    operator = chosen_operator(operator, random.operator, measurements, shape, symmetric=True)
    factor = conditioned_factor(random.truth, dim, true_rank, condition, order)
    return sensing(
        random,
        lm.maps.SymmetricCP(dim, rank, order),
        pad_columns(factor, rank),
        lm.points.KruskalPoint((factor,) * order),
        operator,
        outliers=outliers,
        outlier_law=outlier_law,
        loss=loss,
        start_error=start_error,
    )
