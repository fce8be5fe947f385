"""CP factors of a small core: candidates, polished by damped Gauss-Newton steps, the best kept."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._tree import tree_move, tree_where
from .._typing import Parameters
from ..covectors import DenseCovector
from ..maps import CP, SymmetricCP
from ._tensors import (
    Tucker,
    balanced,
    project_tucker,
    simultaneous_diagonalisation,
    symmetric_terms,
)

_TRIES = 3
_POLISH_STEPS = 30
# Relative to the core: a fit this good ends the search, and terms that a candidate lacks begin
# with this size.
_GOOD_FIT, _PADDING = 1e-6, 1e-2
# The least size of a term, as a fraction of the error. A term that is zero lies on the singular
# set, where the Jacobian does not see it.
_OF_THE_ERROR = 0.1


def decompose(tucker: Tucker, map: CP | SymmetricCP, rng: np.random.Generator) -> Parameters:
    """Parameters of the map, of its full rank, whose point is near a tensor in Tucker form."""
    order, size = tucker.core.ndim, float(np.linalg.norm(tucker.core))
    core = tucker.core / size
    symmetric = isinstance(map, SymmetricCP)
    if symmetric:
        small = SymmetricCP(core.shape[0], map.rank, map.order)
    else:
        small = CP(core.shape, map.rank)
    target = jnp.asarray(core)
    best: Any = None
    error = np.inf
    for candidate in _candidates(core, map.rank, symmetric, rng):
        x = candidate[0] if symmetric else candidate
        polished, left = _polish(small, jax.tree.map(jnp.asarray, x), target)
        if float(left) < error:
            best, error = jax.tree.map(np.asarray, polished), float(left)
        if error < _GOOD_FIT:
            break
    factors = (best,) * order if symmetric else balanced(best)
    factors = tuple(
        size ** (1 / order) * (basis @ factor)
        for basis, factor in zip(tucker.bases, factors, strict=True)
    )
    least = (_OF_THE_ERROR * max(error, _GOOD_FIT) * size) ** (1 / order)
    enough = np.linalg.norm(factors[0], axis=0) >= least
    filled = tuple(np.where(enough, f, least * _directions(rng, f.shape)) for f in factors)
    return filled[0] if symmetric else filled


def factors_of_tensor(
    core: np.ndarray,
    bases: tuple[np.ndarray, ...],
    map: CP | SymmetricCP,
    rng: np.random.Generator,
) -> Parameters:
    """Parameters of a map for a tensor given exactly by a core and orthonormal bases."""
    found = project_tucker(core, map.rank, symmetric=bool(map.symmetric), noisy=False).parts
    lifted = tuple(q @ basis for q, basis in zip(bases, found.bases, strict=True))
    return decompose(Tucker(found.core, lifted), map, rng)


def _candidates(
    core: np.ndarray, rank: int, symmetric: bool, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, ...]]:
    """Jennrich's factors for fewer and fewer terms, in case the rank is generous; then any."""
    order = core.ndim
    count = min(rank, *core.shape[:2])
    tries = _TRIES
    while count:
        for _ in range(tries):
            factors = balanced(simultaneous_diagonalisation(core, count, rng))
            if symmetric:
                factors = (symmetric_terms(factors, core),)
            yield _with_more_terms(factors, rank - count, _PADDING ** (1 / order), rng)
        # One by one where that is cheap, by halves where it would be many.
        count, tries = count - 1 if count <= 4 else count // 2 + 1, 1
    nothing = tuple(np.zeros((d, 0)) for d in (core.shape[:1] if symmetric else core.shape))
    for _ in range(_TRIES):
        yield _with_more_terms(nothing, rank, rank ** (-0.5 / order), rng)


def _with_more_terms(
    factors: tuple[np.ndarray, ...], count: int, size: float, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    return tuple(
        np.concatenate([f, size * _directions(rng, (len(f), count))], axis=1) for f in factors
    )


def _directions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random columns of norm 1."""
    columns = rng.standard_normal(shape)
    return columns / np.linalg.norm(columns, axis=0)


@eqx.filter_jit
def _polish(map: Any, x: Parameters, core: Array) -> tuple[Parameters, Array]:
    """Levenberg-Marquardt on the core, the damping proportional to the error; the best iterate."""

    def error(x: Parameters) -> Array:
        return jnp.linalg.norm(jnp.ravel(map(x).dense() - core))

    def step(_: Any, state: tuple) -> tuple:
        x, left, caution = state
        residual = DenseCovector(map(x).dense() - core)
        moved = tree_move(x, one, map.direction(x, caution * left, residual))
        after = error(moved)
        better = after < left
        caution = jnp.where(better, caution / 3, caution * 10)
        return tree_where(better, moved, x), jnp.where(better, after, left), caution

    one = jnp.ones((), core.dtype)
    start = (x, error(x), jnp.asarray(0.1, core.dtype))
    polished, left, _ = jax.lax.fori_loop(0, _POLISH_STEPS, step, start)
    return polished, left
