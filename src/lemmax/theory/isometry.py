"""Restricted isometry of a measurement operator, estimated on random low-rank directions."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import precision_context
from ..maps import CP, PSD, AbstractMap, LowRank, SymmetricCP
from ..operators import AbstractOperator
from ..points import DensePoint


@dataclasses.dataclass(frozen=True)
class Isometry:
    """How an operator A stretches low-rank directions Z of norm 1, as far as sampled.

    The true constants are extremes over all such directions. A sample only sees some of them,
    so these are estimates: too favourable ones, and no certificate.
    """

    delta: float
    """Largest ``| |A Z|^2 - 1 |``: the RIP constant."""
    omega0: float
    """Smallest ``|A Z|_1`` over the sound measurements less that over the corrupted ones."""
    omega1: float
    """Smallest ``|A Z|_1``."""
    omega2: float
    """Largest ``|A Z|_1``."""
    rank: int
    """Directions had up to this rank."""
    samples: int
    """Number of directions."""
    estimated: bool = True


def estimate_isometry(
    operator: AbstractOperator,
    map: AbstractMap,
    *,
    rank: int | None = None,
    corrupted: Any = None,
    samples: int = 2000,
    seed: int = 0,
) -> Isometry:
    """Estimate RIP, l1/l2-RIP and outlier constants of an operator by Monte Carlo.

    Parameters
    ----------
    operator : AbstractOperator
        What is measured.
    map : AbstractMap
        A matrix or CP map: it decides the kind of direction. For `PSD`, differences of two
        positive semidefinite matrices; otherwise sums of random outer products.
    rank : int, optional
        Largest rank of the directions; four times that of the map if not given, which is what
        the theorems want. Every rank up to it is sampled.
    corrupted : array of ints, optional
        Positions of the corrupted measurements.
    samples : int
        Number of directions.
    seed : int
        Of the sample.

    Returns
    -------
    Isometry

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> rng = np.random.default_rng(0)
    >>> operator = lm.operators.Dense(rng.standard_normal((400, 4, 3)) / 20)
    >>> found = lm.theory.estimate_isometry(operator, lm.maps.LowRank((4, 3), rank=1))
    >>> 0 < found.delta < 0.5, found.estimated
    (True, True)
    """
    if not isinstance(map, (PSD, LowRank, SymmetricCP, CP)):
        raise ValueError(
            f"Random low-rank directions are known for PSD, LowRank, SymmetricCP and CP, not for "
            f"{type(map).__name__}."
        )
    rng = np.random.default_rng(seed)
    rank = 4 * map.rank if rank is None else rank
    directions = _directions(rng, map, rank, samples)
    with precision_context(directions):
        measured = jax.vmap(lambda z: jnp.ravel(operator.measure(DensePoint(z))))(
            jnp.asarray(directions)
        )
        measured = np.asarray(measured)
    sizes = np.abs(measured)
    signs = np.ones(sizes.shape[1])
    if corrupted is not None:
        signs[np.asarray(corrupted)] = -1.0
    norms = np.sum(sizes, axis=1)
    return Isometry(
        delta=float(np.max(np.abs(np.sum(sizes**2, axis=1) - 1))),
        omega0=float(np.min(sizes @ signs)),
        omega1=float(np.min(norms)),
        omega2=float(np.max(norms)),
        rank=rank,
        samples=samples,
    )


def _directions(
    rng: np.random.Generator,
    map: PSD | LowRank | SymmetricCP | CP,
    rank: int,
    samples: int,
) -> np.ndarray:
    """Unit directions of rank 1 up to the given one, a sum of outer products each."""
    shape = map.shape
    symmetric = isinstance(map, (PSD, SymmetricCP))
    ranks = rng.integers(1, rank + 1, size=samples)
    weights = np.where(np.arange(rank) < ranks[:, None], 1.0, 0.0)
    if symmetric:  # a difference of two: every other term is subtracted
        weights = weights * np.where(np.arange(rank) % 2 == 0, 1.0, -1.0)
    total = weights
    first = rng.standard_normal((samples, shape[0], rank))
    for mode, size in enumerate(shape):
        same = symmetric or mode == 0
        factor = first if same else rng.standard_normal((samples, size, rank))
        total = total[..., None, :] * factor.reshape(samples, *[1] * mode, size, rank)
    total = np.sum(total, axis=-1)
    norms = np.sqrt(np.sum(total.reshape(samples, -1) ** 2, axis=1))
    return total / norms.reshape(samples, *[1] * len(shape))
