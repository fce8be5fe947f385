"""Random instances with a known solution; the same seed gives the same instance.

Solvers get ``instance.problem`` and ``instance.x0``; ``instance.truth`` is for metrics alone.
"""

import math
from typing import Any, NamedTuple

import numpy as np

import lemmax as lm


class Instance(NamedTuple):
    """A problem, where to start, and what ought to be found."""

    problem: lm.Composite
    x0: Any
    truth: lm.points.KruskalPoint

    @property
    def error(self) -> lm.metrics.RelativeError:
        """The relative error, as a metric for the trace."""
        return lm.metrics.RelativeError(self.truth)


def conditioned_factor(
    rng: np.random.Generator, dim: int, rank: int, condition: float, order: int = 2
) -> np.ndarray:
    """Orthogonal columns, uniformly random, with ``norm**order`` spaced from 1 to 1/condition."""
    basis, triangle = np.linalg.qr(rng.standard_normal((dim, rank)))
    basis = basis * np.sign(np.diagonal(triangle))  # without the signs, not uniform
    return basis * np.linspace(1.0, 1.0 / condition, rank) ** (1.0 / order)


def pad_columns(factor: np.ndarray, rank: int) -> np.ndarray:
    """Zero columns up to the given rank."""
    return np.pad(factor, ((0, 0), (0, rank - factor.shape[1])))


def perturb(rng: np.random.Generator, map: lm.maps.AbstractMap, solution: Any, error: float) -> Any:
    """Move from a solution in a Gaussian direction until the relative error is as given."""
    factors = solution if isinstance(solution, tuple) else (solution,)
    noise = tuple(rng.standard_normal(factor.shape) for factor in factors)
    truth = map(solution)
    size = float(truth.norm())

    def moved(length: float) -> Any:
        x = tuple(f + length * e for f, e in zip(factors, noise, strict=True))
        return x if isinstance(solution, tuple) else x[0]

    def reached(length: float) -> bool:
        return float(map(moved(length)).distance(truth)) >= error * size

    low, high = 0.0, 1e-8
    while not reached(high):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return moved(high)


def corrupt(
    rng: np.random.Generator, data: np.ndarray, fraction: float, scale: float = 10.0
) -> np.ndarray:
    """Replace a fraction of the observations by Gaussian noise of ``scale`` times their size."""
    wrong = rng.choice(data.size, math.floor(fraction * data.size), replace=False)
    corrupted = data.copy()
    corrupted[wrong] = scale * np.sqrt(np.mean(data**2)) * rng.standard_normal(wrong.size)
    return corrupted


def psd_sensing(
    seed: int,
    *,
    dim: int,
    rank: int,
    measurements: int,
    true_rank: int = 2,
    condition: float = 1.0,
    outliers: float = 0.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
) -> Instance:
    """Recover X X' from inner products with Gaussian matrices, some of them grossly wrong.

    Parameters
    ----------
    seed : int
        Of everything random.
    dim, rank, measurements : int
        Sizes; ``rank`` may exceed ``true_rank``.
    true_rank : int
        Rank of the truth.
    condition : float
        Ratio of its largest to its smallest nonzero eigenvalue; the largest is 1.
    outliers : float
        Fraction of the measurements replaced by gross errors.
    loss : AbstractLoss, optional
        `L1` if not given.
    start_error : float
        Relative error of the starting point.

    Examples
    --------
    >>> from lemmax.experiments.instances import psd_sensing
    >>> instance = psd_sensing(0, dim=6, rank=3, measurements=50)
    >>> instance.x0.shape
    (6, 3)
    """
    rng = np.random.default_rng(seed)
    factor = conditioned_factor(rng, dim, true_rank, condition)
    rows, columns = np.triu_indices(dim)
    # The symmetric part of a matrix of independent N(0, 1/m) entries, upper triangle only.
    spread = np.where(rows == columns, 1.0, math.sqrt(0.5)) / math.sqrt(measurements)
    packed = rng.standard_normal((measurements, len(rows)))
    packed *= spread
    operator = lm.operators.SymmetricDense.from_packed(packed, dim)
    truth = factor @ factor.T
    data = packed @ (truth[rows, columns] * np.where(rows == columns, 1.0, 2.0))
    psd = lm.maps.PSD(dim, rank)
    problem = lm.Composite(
        loss=lm.losses.L1() if loss is None else loss,
        map=psd,
        operator=operator,
        data=corrupt(rng, data, outliers),
    )
    x0 = perturb(rng, psd, pad_columns(factor, rank), start_error)
    return Instance(problem, x0, lm.points.KruskalPoint((factor, factor)))


def low_rank_sensing(
    seed: int,
    *,
    shape: tuple[int, int],
    rank: int,
    measurements: int,
    true_rank: int = 2,
    condition: float = 1.0,
    outliers: float = 0.0,
    loss: lm.losses.AbstractLoss | None = None,
    start_error: float = 1e-2,
) -> Instance:
    """Recover X Y' from inner products with Gaussian matrices; see `psd_sensing`.

    Examples
    --------
    >>> from lemmax.experiments.instances import low_rank_sensing
    >>> instance = low_rank_sensing(0, shape=(5, 4), rank=3, measurements=50)
    >>> [factor.shape for factor in instance.x0]
    [(5, 3), (4, 3)]
    """
    rng = np.random.default_rng(seed)
    factors = tuple(conditioned_factor(rng, d, true_rank, condition) for d in shape)
    array = rng.standard_normal((measurements, *shape))
    array /= math.sqrt(measurements)
    data = array.reshape(measurements, -1) @ np.ravel(factors[0] @ factors[1].T)
    low_rank = lm.maps.LowRank(shape, rank)
    problem = lm.Composite(
        loss=lm.losses.L1() if loss is None else loss,
        map=low_rank,
        operator=lm.operators.Dense(array),
        data=corrupt(rng, data, outliers),
    )
    padded = tuple(pad_columns(factor, rank) for factor in factors)
    x0 = perturb(rng, low_rank, padded, start_error)
    return Instance(problem, x0, lm.points.KruskalPoint(factors))


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
    """Factorise a positive semidefinite matrix that is known entirely.

    Parameters
    ----------
    seed, dim, rank, true_rank, condition, start_error
        As for `psd_sensing`.
    loss : AbstractLoss, optional
        `L2` if not given.
    redundant_scale : float
        Multiplies the singular values of the start beyond the true rank. Small values put the
        start next to where the Jacobian loses rank, on which Gauss-Newton fails.

    Examples
    --------
    >>> from lemmax.experiments.instances import psd_factorisation
    >>> psd_factorisation(0, dim=8, rank=3).x0.shape
    (8, 3)
    """
    rng = np.random.default_rng(seed)
    factor = conditioned_factor(rng, dim, true_rank, condition)
    truth = lm.points.KruskalPoint((factor, factor))
    psd = lm.maps.PSD(dim, rank)
    problem = lm.Composite(loss=lm.losses.L2() if loss is None else loss, map=psd, data=truth)
    x0 = perturb(rng, psd, pad_columns(factor, rank), start_error)
    left, s, right = np.linalg.svd(x0, full_matrices=False)
    s[true_rank:] *= redundant_scale
    return Instance(problem, left * s @ right, truth)
