"""Restricted isometry of a measurement operator, estimated on low-rank directions."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import check_positive, check_whole
from .._dtype import precision_context
from ..maps import AbstractMap
from ..operators import AbstractOperator
from ._directions import climb_all, measure_all, random_directions
from ._parameters import corrupted_positions

# Number of extreme samples from which the ascent starts, for each constant.
_STARTS = 8


@dataclasses.dataclass(frozen=True)
class Isometry:
    """Estimated restricted-isometry constants of an operator A on low-rank directions Z of norm 1.

    The true constants are extremes over all such directions. Samples with gradient ascent find
    local extremes, so these estimates may be too favourable; they are no certificate.
    """

    lower: float
    """Smallest ``|A Z|^2``."""
    upper: float
    """Largest ``|A Z|^2``."""
    omega0: float
    """Smallest difference of ``|A Z|_1`` over the sound and over the corrupted measurements."""
    omega1: float
    """Smallest ``|A Z|_1``."""
    omega2: float
    """Largest ``|A Z|_1``."""
    rank: int
    """Largest rank of the directions."""
    samples: int
    """Number of random directions."""
    refinements: int
    """Steps of the ascent from the most extreme samples."""
    estimated: bool = True

    @property
    def delta(self) -> float:
        """Largest ``| |A Z|^2 - 1 |``: the RIP constant."""
        return max(abs(self.lower - 1), abs(self.upper - 1))


def estimate_isometry(
    operator: AbstractOperator,
    map: AbstractMap,
    *,
    rank: int | None = None,
    corrupted: Any = None,
    samples: int = 2000,
    refinements: int = 100,
    seed: int = 0,
) -> Isometry:
    """Estimate RIP, l1/l2-RIP and outlier constants of an operator by sampling and ascent.

    Parameters
    ----------
    operator : AbstractOperator
        The measurement operator.
    map : AbstractMap
        A matrix or CP map, which determines the directions: symmetric ones for `PSD` and
        `SymmetricCP`, otherwise sums of outer products.
    rank : int, optional
        Largest rank of the directions. Default: four times that of the map, as in the theorems.
        All ranks up to it are sampled.
    corrupted : array of ints, optional
        Positions of the corrupted measurements.
    samples : int
        Number of random directions.
    refinements : int
        Steps of gradient ascent, in the factors of the direction, from the most extreme samples
        of each constant. With 0 only the samples are used, and the constants are far too
        favourable.
    seed : int
        Random seed.

    Returns
    -------
    Isometry

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> scaling = np.diag([1.0, 0.9, 1.1, 1.0]).reshape(4, 2, 2)  # entries, each with a factor
    >>> found = lm.theory.estimate_isometry(
    ...     lm.operators.Dense(scaling), lm.maps.LowRank((2, 2), rank=1))
    >>> round(found.delta, 3), found.estimated
    (0.21, True)
    """
    ranked = map.ranked
    if ranked is None or ranked.shape is None:
        raise ValueError(
            "Random directions need a map of low rank, such as PSD, LowRank, SymmetricCP or CP; "
            f"{type(map).__name__} is none."
        )
    shape = ranked.shape
    check_positive(samples=samples)
    check_whole(0, refinements=refinements)
    if operator.point_shape not in (None, shape):
        raise ValueError(
            f"The operator measures points of shape {operator.point_shape}, but the map's have "
            f"shape {shape}."
        )
    order = len(shape)
    # Bound of the rank of a matrix; for tensors it is not known in general.
    most = min(shape) if order == 2 else math.inf
    if rank is None:
        rank = 4 * ranked.rank
    else:
        check_positive(rank=rank)
        if rank > most:
            raise ValueError(f"Matrices of shape {shape} have rank at most {most}; got {rank}.")
    sample = random_directions(np.random.default_rng(seed), ranked, rank, samples)
    with precision_context(sample):
        sample = jax.tree.map(jnp.asarray, sample)
        sizes = np.asarray(measure_all(operator, order, sample))
        criteria = _criteria(sizes.shape[1], corrupted)
        lengths = np.linalg.norm(sizes, axis=1)
        heights = np.outer(criteria[:, 0], lengths) + criteria[:, 1:] @ sizes.T
        best = np.max(heights, axis=1)
        if refinements > 0:
            highest = np.argsort(-heights, axis=1)[:, :_STARTS]
            starts = jax.tree.map(lambda u: u[highest.ravel()], sample)
            rows = jnp.asarray(np.repeat(criteria, highest.shape[1], axis=0))
            found = np.asarray(climb_all(operator, order, starts, _height, rows, refinements))
            best = np.maximum(best, np.max(found.reshape(highest.shape), axis=1))
    longest, shortest, omega2, omega1, omega0 = (float(height) for height in best)
    return Isometry(
        lower=shortest**2,
        upper=longest**2,
        omega0=-omega0,
        omega1=-omega1,
        omega2=omega2,
        rank=int(min(rank, most)),
        samples=samples,
        refinements=refinements,
    )


def _criteria(measurements: int, corrupted: Any) -> np.ndarray:
    """Objectives, one per row: coefficients of ``|a|_2`` and of the entries of ``|a|``."""
    signs = np.ones(measurements)
    if corrupted is not None:
        signs[corrupted_positions(corrupted, measurements)] = -1.0
    ones, zeros = np.ones(measurements), np.zeros(measurements)
    lengths = [1.0, -1.0, 0.0, 0.0, 0.0]
    return np.column_stack([lengths, np.stack([zeros, zeros, ones, -ones, -signs])])


def _height(sizes: Array, row: Array) -> Array:
    return row[0] * jnp.linalg.norm(sizes) + jnp.dot(row[1:], sizes)
