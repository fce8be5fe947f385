"""Low-rank matrices: from measurements, or fully observed."""

import numpy as np

import lemmax as lm
from lemmax._checks import check_real

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


def psd_sensing(
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
) -> Instance:
    """Recover X X' from inner products with Gaussian matrices, some of them outliers.

    Parameters
    ----------
    seed : int
        Random seed.
    dim, rank, measurements : int
        Sizes; ``rank`` may exceed ``true_rank``.
    true_rank : int
        Rank of the truth.
    condition : float
        Ratio of its largest to its smallest nonzero eigenvalue; the largest is 1.
    outliers : float
        Fraction of outliers among the measurements, at least 0 and below 1.
    outlier_law : {"noise", "signal"}
        Distribution of the outliers: independent Gaussian noise, ten times the size of the data;
        or, as in the paper, measurements of another array, the same for all of them (here with
        entries uniform between 0 and 1).
    loss : AbstractLoss, optional
        Default: `L1`.
    start_error : float
        Relative error of the starting point.
    operator : AbstractOperator, optional
        The operator of another instance, to be reused. Nothing else changes.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import psd_sensing
    >>> instance = psd_sensing(0, dim=6, rank=3, measurements=50)
    >>> instance.x0.shape
    (6, 3)
    >>> harder = psd_sensing(0, dim=6, rank=3, measurements=50, condition=100.0,
    ...                      operator=instance.problem.operator)
    """
    random = streams(seed)
    check_model((dim, dim), rank, true_rank)
    check_law(condition=condition, start_error=start_error, outliers=outliers)
    operator = chosen_operator(operator, random.operator, measurements, (dim, dim), symmetric=True)
    factor = conditioned_factor(random.truth, dim, true_rank, condition)
    return sensing(
        random,
        lm.maps.PSD(dim, rank),
        pad_columns(factor, rank),
        lm.points.KruskalPoint((factor, factor)),
        operator,
        outliers=outliers,
        outlier_law=outlier_law,
        loss=loss,
        start_error=start_error,
    )


def low_rank_sensing(
    seed: int,
    *,
    shape: tuple[int, int],
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
    """Recover X Y' from inner products with Gaussian matrices; see `psd_sensing`.

    Examples
    --------
    >>> from lemmax.experiments.instances import low_rank_sensing
    >>> instance = low_rank_sensing(0, shape=(5, 4), rank=3, measurements=50)
    >>> [factor.shape for factor in instance.x0]
    [(5, 3), (4, 3)]
    """
    random = streams(seed)
    check_model(shape, rank, true_rank)
    check_law(condition=condition, start_error=start_error, outliers=outliers)
    operator = chosen_operator(
        operator, random.operator, measurements, tuple(shape), symmetric=False
    )
    factors = tuple(conditioned_factor(random.truth, d, true_rank, condition) for d in shape)
    return sensing(
        random,
        lm.maps.LowRank(shape, rank),
        tuple(pad_columns(factor, rank) for factor in factors),
        lm.points.KruskalPoint(factors),
        operator,
        outliers=outliers,
        outlier_law=outlier_law,
        loss=loss,
        start_error=start_error,
    )


def matrix_sensing(
    symmetric: bool,
    seed: int,
    *,
    dim: int,
    rank: int,
    measurements: int | None = None,
    true_rank: int = 2,
    condition: float = 1.0,
    outliers: float = 0.0,
    outlier_law: OutlierLaw = "noise",
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
    operator: lm.operators.AbstractOperator | None = None,
) -> Instance:
    """Recover a square matrix, by `psd_sensing` or `low_rank_sensing`.

    Parameters
    ----------
    symmetric : bool
        Whether it is positive semidefinite.
    measurements : int, optional
        Default: the paper's, ``2 * dim * rank`` if symmetric, otherwise ``4 * dim * rank``; twice
        the number of parameters.
    seed, dim, rank, true_rank, condition, outliers, outlier_law, loss, start_error, operator
        As for `psd_sensing`.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import matrix_sensing
    >>> matrix_sensing(True, 0, dim=6, rank=3).problem.data.shape
    (36,)
    >>> matrix_sensing(False, 0, dim=6, rank=3).problem.data.shape
    (72,)
    """
    settings = {
        "rank": rank,
        "true_rank": true_rank,
        "condition": condition,
        "outliers": outliers,
        "outlier_law": outlier_law,
        "loss": loss,
        "start_error": start_error,
        "operator": operator,
    }
    check_model((dim, dim), rank, true_rank)
    if measurements is None:
        measurements = (2 if symmetric else 4) * dim * rank
    if symmetric:
        return psd_sensing(seed, dim=dim, measurements=measurements, **settings)
    return low_rank_sensing(seed, shape=(dim, dim), measurements=measurements, **settings)


def psd_factorisation(
    seed: int,
    *,
    dim: int,
    rank: int,
    true_rank: int = 2,
    condition: float = 1.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
    redundant_scale: float = 1.0,
) -> Instance:
    """Factorise a fully observed positive semidefinite matrix.

    Parameters
    ----------
    seed, dim, rank, true_rank, condition, start_error
        As for `psd_sensing`.
    loss : AbstractLoss, optional
        Default: `L2`.
    redundant_scale : float
        Multiplies the singular values of the start beyond the true rank. Small values put the
        start near a rank loss of the Jacobian, where Gauss-Newton fails.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import psd_factorisation
    >>> psd_factorisation(0, dim=8, rank=3).x0.shape
    (8, 3)
    """
    random = streams(seed)
    check_model((dim, dim), rank, true_rank)
    check_law(condition=condition, start_error=start_error)
    check_real(0, redundant_scale=redundant_scale)
    factor = conditioned_factor(random.truth, dim, true_rank, condition)
    truth = lm.points.KruskalPoint((factor, factor))
    psd = lm.maps.PSD(dim, rank)
    problem = lm.Composite(loss=lm.losses.L2() if loss is None else loss, map=psd, data=truth)
    x0 = perturb(random.start, psd, pad_columns(factor, rank), start_error)
    left, s, right = np.linalg.svd(x0, full_matrices=False)
    s[true_rank:] *= redundant_scale
    return Instance(problem, left * s @ right, truth)
