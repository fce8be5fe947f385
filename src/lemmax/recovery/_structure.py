"""What a structured point consists of: its terms, how many there are, and fewer of them."""

import math
from typing import TypeGuard

import jax
import numpy as np

from .._typing import Parameters
from ..init._components import factors_of_tensor
from ..init._tensors import outer_products
from ..maps import CP, PSD, AbstractMap, LowRank, Square, SymmetricCP

# A fit of that many degrees of freedom goes through as many observations by construction. So many
# more that it goes through cannot be chance.
_SPARE, _SPARE_SHARE = 5, 0.05

Ranked = PSD | LowRank | CP | SymmetricCP
"""The maps whose rank can be cut."""


def is_ranked(map: AbstractMap) -> TypeGuard[Ranked]:
    """Whether the points of a map are sums of terms of which some may be superfluous."""
    return isinstance(map, (PSD, LowRank, CP, SymmetricCP))


def with_rank(map: Ranked, rank: int) -> Ranked:
    """The same kind of map with another rank."""
    if isinstance(map, PSD):
        return PSD(map.dim, rank)
    if isinstance(map, LowRank):
        return LowRank(map.dims, rank)
    if isinstance(map, SymmetricCP):
        return SymmetricCP(map.dim, rank, map.order)
    return CP(map.dims, rank)


def largest_rank(map: Ranked) -> int:
    """The rank beyond which a matrix has no more degrees of freedom; a tensor's own."""
    if isinstance(map, PSD):
        return min(map.rank, map.dim)
    return min(map.rank, *map.dims) if isinstance(map, LowRank) else map.rank


def degrees_of_freedom(map: Ranked, rank: int) -> int:
    """The dimension of the set of points of that rank."""
    if isinstance(map, PSD):
        rank = min(rank, map.dim)
        return map.dim * rank - rank * (rank - 1) // 2
    if isinstance(map, LowRank):
        rank = min(rank, *map.dims)
        return rank * (sum(map.dims) - rank)
    if isinstance(map, SymmetricCP):
        return min(map.dim * rank, math.comb(map.dim + map.order - 1, map.order))
    return min(rank * (sum(map.dims) - len(map.dims) + 1), math.prod(map.dims))


def lower_ranks(bound: int) -> list[int]:
    """Ranks below a bound: all the small ones, then fewer and fewer."""
    ranks = [1, 2, 3, 4]
    while ranks[-1] < bound:
        ranks.append(-(-ranks[-1] * 3 // 2))
    return [rank for rank in ranks if rank < bound]


def convincing_observations(freedom: int) -> int:
    """So many must be explained by a fit of so many degrees of freedom to be more than chance."""
    return freedom + max(_SPARE, int(_SPARE_SHARE * freedom))


def term_sizes(map: AbstractMap, x: Parameters) -> np.ndarray | None:
    """How large the terms of a point are, largest first.

    Singular values of a matrix; of a tensor those of its unfoldings, the largest over the modes;
    of squares the entries themselves. None for a map without such terms.
    """
    if isinstance(map, Square):
        return np.sort(np.asarray(x, np.float64) ** 2)[::-1]
    if not is_ranked(map):
        return None
    core, _ = _core(map, x)
    values = np.zeros(max(core.shape))
    for mode in range(core.ndim):
        unfolded = np.moveaxis(core, mode, 0).reshape(core.shape[mode], -1)
        found = np.linalg.svd(unfolded, compute_uv=False)
        values[: len(found)] = np.maximum(values[: len(found)], found)
    return values


def cut(map: Ranked, x: Parameters, rank: int, rng: np.random.Generator) -> Parameters:
    """The leading terms of a point in its first columns, the others zero.

    With columns that are zero the Jacobian sees less, not more: steps leave them zero. So a lower
    rank needs no other map, for which everything would have to be compiled again.
    """
    core, bases = _core(map, x)
    smaller = with_rank(map, rank)
    if isinstance(smaller, (CP, SymmetricCP)):
        found = factors_of_tensor(core, bases, smaller, rng)
        factors = found if isinstance(found, tuple) else (found,)
    else:
        left, values, right = np.linalg.svd(core)
        roots = np.sqrt(values[:rank])
        factors = bases[0] @ (left[:, :rank] * roots), bases[1] @ (right[:rank].T * roots)
    padded = tuple(np.pad(f, ((0, 0), (0, map.rank - f.shape[1]))) for f in factors)
    return padded[0] if map.symmetric else padded


def without_zero_terms(map: Ranked, x: Parameters, rank: int) -> tuple[Ranked, Parameters]:
    """The map of that rank, and the first columns of the parameters."""
    return with_rank(map, rank), jax.tree.map(lambda factor: factor[:, :rank], x)


def _core(map: Ranked, x: Parameters) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The point in orthonormal bases of its factors' columns, in float64."""
    factors = map(x).factors
    decompositions = [np.linalg.qr(np.asarray(factor, np.float64)) for factor in factors]
    core = outer_products(tuple(r for _, r in decompositions))
    return core, tuple(q for q, _ in decompositions)
