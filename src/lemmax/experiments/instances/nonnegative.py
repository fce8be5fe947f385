"""Nonnegative least squares, as a squared variable."""

import numpy as np

import lemmax as lm
from lemmax._checks import check_positive

from ._parts import Instance, check_law, haar_columns, streams


def nonnegative_least_squares(
    seed: int,
    *,
    dim: int,
    true_rank: int,
    measurements: int,
    condition: float = 1.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
) -> Instance:
    """Recover a nonnegative vector z from A z, with z the entrywise square of the parameters.

    A has singular values evenly spaced from 1 to 0.1 and uniformly distributed singular vectors.
    The start differs from the truth by a nonnegative vector, so that it is a square, too.

    Parameters
    ----------
    seed : int
        Random seed.
    dim, measurements : int
        Columns and rows of A.
    true_rank : int
        Number of nonzero entries of the truth; the other parameters are superfluous.
    condition : float
        Ratio of the largest to the smallest nonzero entry; they are evenly spaced from 1.
    loss : AbstractLoss, optional
        Default: `SquaredL2`.
    start_error : float
        Relative error of the starting point.

    Returns
    -------
    Instance

    Examples
    --------
    >>> from lemmax.experiments.instances import nonnegative_least_squares
    >>> instance = nonnegative_least_squares(0, dim=8, true_rank=3, measurements=16)
    >>> print(instance.truth.dense())
    [1. 1. 1. 0. 0. 0. 0. 0.]
    """
    random = streams(seed)
    check_positive(dim=dim, true_rank=true_rank, measurements=measurements)
    if true_rank > dim:
        raise ValueError(
            f"The true rank must be at most the dimension; got true_rank {true_rank}, dim {dim}."
        )
    check_law(condition=condition, start_error=start_error)
    smaller = min(measurements, dim)
    left = haar_columns(random.operator, measurements, smaller)
    right = haar_columns(random.operator, dim, smaller)
    matrix = left * np.linspace(1.0, 0.1, smaller) @ right.T
    truth = np.zeros(dim)
    truth[:true_rank] = np.linspace(1.0, 1.0 / condition, true_rank)
    off = np.abs(random.start.standard_normal(dim))
    start = truth + start_error * np.linalg.norm(truth) * off / np.linalg.norm(off)
    problem = lm.Composite(
        loss=lm.losses.SquaredL2() if loss is None else loss,
        map=lm.maps.Square(dim),
        operator=lm.operators.Dense(matrix),
        data=matrix @ truth,
    )
    return Instance(problem, np.sqrt(start), lm.points.DensePoint(truth))
