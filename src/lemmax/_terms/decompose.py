"""CP decomposition of a small core: candidates, refined by damped Gauss-Newton, the best kept."""

import itertools
from collections.abc import Iterator

import numpy as np

from .polish import polish
from .tensors import (
    Tucker,
    balanced,
    mode_order,
    nearest_tucker,
    simultaneous_diagonalisation,
    symmetric_terms,
)

Factors = tuple[np.ndarray, ...]

_TRIES = 3
# Relative to the core: the error at which the search ends, and the size of terms that are added to
# a candidate with too few.
_GOOD_FIT, _PADDING = 1e-6, 1e-2
# Smallest size of a term, as a fraction of the error. A zero term would be singular: the Jacobian
# vanishes there.
_OF_THE_ERROR = 0.1


def decompose(
    tucker: Tucker,
    rank: int,
    rng: np.random.Generator,
    *,
    symmetric: bool,
    tries: int | None = None,
) -> Factors:
    """CP factors of a tensor in Tucker form; all equal if symmetric.

    With noise no candidate is exact, and the first `tries` suffice for a start.
    """
    order, size = tucker.core.ndim, float(np.linalg.norm(tucker.core))
    if size == 0:  # no direction to start from
        return tuple(np.zeros((len(basis), rank)) for basis in tucker.bases)
    # Jennrich's algorithm treats modes differently: the first two have the longest sides.
    modes = mode_order(tuple(len(basis) for basis in tucker.bases), tucker.core)
    core = np.transpose(tucker.core, modes) / size
    best: Factors = ()
    error = np.inf
    for candidate in itertools.islice(_candidates(core, rank, symmetric, rng), tries):
        polished, left = polish(candidate, core, symmetric)
        if left < error:
            best, error = polished, left
        if error < _GOOD_FIT:
            break
    factors = best if symmetric else balanced(tuple(best[modes.index(k)] for k in range(order)))
    factors = tuple(
        size ** (1 / order) * (basis @ factor)
        for basis, factor in zip(tucker.bases, factors, strict=True)
    )
    least = (_OF_THE_ERROR * max(error, _GOOD_FIT) * size) ** (1 / order)
    enough = np.linalg.norm(factors[0], axis=0) >= least
    if symmetric:
        filled = np.where(enough, factors[0], least * _directions(rng, factors[0].shape))
        return (filled,) * order
    return tuple(np.where(enough, f, least * _directions(rng, f.shape)) for f in factors)


def leading_terms(
    tucker: Tucker, rank: int, rng: np.random.Generator, *, symmetric: bool
) -> Factors:
    """Factors of the leading terms of a tensor that is given exactly, perhaps of a higher rank."""
    found = nearest_tucker(tucker.core, rank, symmetric=symmetric)
    lifted = tuple(q @ basis for q, basis in zip(tucker.bases, found.bases, strict=True))
    return decompose(Tucker(found.core, lifted), rank, rng, symmetric=symmetric)


def _candidates(
    core: np.ndarray, rank: int, symmetric: bool, rng: np.random.Generator
) -> Iterator[Factors]:
    """Jennrich's factors for fewer and fewer terms, in case the rank is too high; then random."""
    order = core.ndim
    count = min(rank, *core.shape[:2])
    tries = _TRIES
    while count:
        for _ in range(tries):
            factors = balanced(simultaneous_diagonalisation(core, count, rng))
            if symmetric:
                factors = (symmetric_terms(factors, core),)
            yield _with_more_terms(factors, rank - count, _PADDING ** (1 / order), rng, order)
        # One by one for few terms, by halves for many.
        count, tries = count - 1 if count <= 4 else count // 2 + 1, 1
    nothing = tuple(np.zeros((d, 0)) for d in (core.shape[:1] if symmetric else core.shape))
    for _ in range(_TRIES):
        yield _with_more_terms(nothing, rank, rank ** (-0.5 / order), rng, order)


def _with_more_terms(
    factors: Factors,
    count: int,
    size: float,
    rng: np.random.Generator,
    order: int,
) -> Factors:
    """Add random terms; for a symmetric tensor the factor is repeated for each mode."""
    more = tuple(
        np.concatenate([f, size * _directions(rng, (len(f), count))], axis=1) for f in factors
    )
    return more if len(more) == order else more * order


def _directions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random columns of norm 1."""
    columns = rng.standard_normal(shape)
    return columns / np.linalg.norm(columns, axis=0)
