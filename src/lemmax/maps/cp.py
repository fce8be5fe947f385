"""Tensors of any order as sums of outer products (CP, PARAFAC)."""

import functools
import math
import operator
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._checks import as_whole, check_positive
from .._linalg import (
    coordinates_in,
    damped_inverse,
    divide_or_zero,
    khatri_rao,
    kruskal_to_dense,
    mttkrp,
    outside,
    thin_svd,
    unfold,
)
from .._tree import tree_dot
from .._typing import AnyArray, RealLike
from ..covectors import AbstractCovector
from ..points import KruskalPoint
from ._base import Preconditioned, Projections, spectral_projections
from ._core import CoreSolver, CoreSystem, choose_solver, inverse_from_the_right
from ._ranked import AbstractRankedMap

Factors = tuple[AnyArray, ...]


class CP(AbstractRankedMap):
    """``F(A_1, ..., A_N) = sum over l of a_1l x ... x a_Nl``, outer products of columns.

    Parameters
    ----------
    shape : tuple of three or more ints
        Shape of the tensor.
    rank : int
        Number of columns of each factor.
    solver : DirectSolver or ConjugateGradients, optional
        How to solve the core system; chosen by cost if not given.

    Notes
    -----
    J has a gauge null space: scaling the columns of one factor up and those of another down
    changes nothing. It is projected out explicitly; otherwise rounding errors along it would be
    divided by the damping.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> cp = lm.maps.CP((2, 3, 4), rank=2)
    >>> point = cp((jnp.ones((2, 2)), jnp.ones((3, 2)), jnp.ones((4, 2))))
    >>> print(point.dense()[0, 0])
    [2. 2. 2. 2.]
    """

    dims: tuple[int, ...] = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    solver: CoreSolver | None

    def __init__(self, shape: Sequence[int], rank: int, solver: CoreSolver | None = None):
        if np.ndim(shape) != 1 or len(shape) < 3:
            raise ValueError(
                "CP needs a shape with three or more modes, as in CP((30, 20, 10), 3); got shape "
                f"{shape}. Use LowRank for matrices."
            )
        check_positive(**{f"dimension {k}": d for k, d in enumerate(shape)}, rank=rank)
        self.dims = tuple(as_whole(dim) for dim in shape)
        self.rank = as_whole(rank)
        self.solver = solver

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.dims

    @property
    def symmetric(self) -> bool:
        """False: not symmetric in general."""
        return False

    @property
    def degree(self) -> int:
        """The number of modes: F is linear in every factor."""
        return len(self.dims)

    @property
    def parameter_shapes(self) -> tuple[tuple[int, int], ...]:
        """``(d_n, rank)`` for every mode."""
        return tuple((d, self.rank) for d in self.dims)

    def with_rank(self, rank: int) -> "CP":
        """The same map with another rank."""
        return CP(self.dims, rank, self.solver)

    @property
    def degrees_of_freedom(self) -> int:
        """Number of entries of the factors minus the scales, which are not determined."""
        return min(self.rank * (sum(self.dims) - len(self.dims) + 1), math.prod(self.dims))

    def __call__(self, x: Factors) -> KruskalPoint:
        """The tensor in factored form."""
        return KruskalPoint(x)

    def jvp(self, x: Factors, dx: Factors) -> Array:
        """Sum over modes, with that mode's factor replaced by its change."""
        return jax.jvp(kruskal_to_dense, (x,), (dx,))[1]

    def vjp(self, x: Factors, covector: AbstractCovector) -> Factors:
        """Matricised covector times Khatri-Rao products."""
        return tuple(covector.mttkrp(x, mode) for mode in range(len(x)))

    def gram(self, x: Factors, dx: Factors) -> Factors:
        """By products of small Gram matrices; the tensor is not formed."""
        return _gram(x, dx)

    def solve(self, x: Factors, damping: RealLike, g: Factors) -> Factors:
        """Solve for any right-hand side through the core.

        This uses an SVD of the core Jacobian, since g may have parts in the gauge null space.
        """
        decompositions = [thin_svd(factor) for factor in x]
        bases = tuple(left for left, _, _ in decompositions)
        small = _small_factors(decompositions, x)
        outer = []
        for mode, left in enumerate(bases):
            _, t, right = thin_svd(khatri_rao(_others(small, mode)))
            outer.append(damped_inverse(outside(left, g[mode]), t, right, damping))
        flat, unravel = ravel_pytree(tuple(u.T @ part for u, part in zip(bases, g, strict=True)))
        _, sigma, right = thin_svd(_core_jacobian(small))
        core = unravel(damped_inverse(flat[None, :], sigma, right, damping)[0])
        return tuple(u @ c + o for u, c, o in zip(bases, core, outer, strict=True))

    def block_direction(self, x: Factors, damping: RealLike, covector: AbstractCovector) -> Factors:
        """Matricised covector times Khatri-Rao product, divided by its damped Gram matrix."""
        decompositions = [thin_svd(factor) for factor in x]
        bases = tuple(left for left, _, _ in decompositions)
        small = _small_factors(decompositions, x)
        blocks = []
        for mode in range(len(x)):
            p, t, right = thin_svd(khatri_rao(_others(small, mode)))
            rows = unfold(covector.contract(bases, mode), mode)
            blocks.append((rows @ p * divide_or_zero(t, t**2 + damping)[None, :]) @ right)
        return tuple(blocks)

    def precondition(
        self, x: Factors, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """Closed forms outside the factors' ranges, the core system inside."""
        decompositions = [thin_svd(factor) for factor in x]
        bases = tuple(left for left, _, _ in decompositions)
        small = _small_factors(decompositions, x)

        outer, spectrum = [], []
        for mode, left in enumerate(bases):
            # Rows: V contracted with the other bases. J J' acts on them through KR(others).
            rows = outside(left, unfold(covector.contract(bases, mode), mode))
            p, t, right = thin_svd(khatri_rao(_others(small, mode)))
            coordinates = rows @ p
            outer.append((coordinates * divide_or_zero(t, t**2 + damping)[None, :]) @ right)
            spectrum.append((t**2, jnp.sum(coordinates**2, axis=0)))

        core_covector = covector.contract(bases)
        gradient = tuple(mttkrp(core_covector, small, mode) for mode in range(len(x)))
        order = sum(r.size for r in small)
        solver = choose_solver(order) if self.solver is None else self.solver
        system = _core_system(small, damping)
        answer = solver(system, damping, gradient, core_covector)
        core = _without_gauge(small, answer.solution)

        around = spectral_projections(damping, *spectrum)
        projections = Projections(
            range=solver.range_square(system, gradient, core_covector) + around.range,
            damped=tree_dot(gradient, core) + around.damped,
            projected=tree_dot(core, _gram(small, core)) + around.projected,
        )
        direction = tuple(u @ c + o for u, c, o in zip(bases, core, outer, strict=True))
        return Preconditioned(direction, projections, answer.iterations, answer.failed)


def _small_factors(decompositions: list, x: Factors) -> Factors:
    return tuple(
        coordinates_in(left, s, factor)
        for (left, s, _), factor in zip(decompositions, x, strict=True)
    )


def _others(items: tuple, *modes: int) -> tuple:
    return tuple(item for k, item in enumerate(items) if k not in modes)


def _product(matrices: tuple[Array, ...]) -> Array:
    return functools.reduce(operator.mul, matrices)


def _gram(x: Factors, dx: Factors) -> Factors:
    grams = tuple(factor.T @ factor for factor in x)
    cross = tuple(change.T @ factor for change, factor in zip(dx, x, strict=True))
    result = []
    for n in range(len(x)):
        total = dx[n] @ _product(_others(grams, n))
        for m in range(len(x)):
            if m != n:
                total = total + x[n] @ (cross[m] * _product(_others(grams, n, m)))
        result.append(total)
    return tuple(result)


def _core_jacobian(small: Factors) -> Array:
    """Rows: entries of the core tensor. Columns: entries of the small factors, row by row."""
    blocks = jax.jacfwd(kruskal_to_dense)(small)
    rows = blocks[0].size // small[0].size
    return jnp.concatenate([block.reshape(rows, -1) for block in blocks], axis=1)


def _core_system(small: Factors, damping: RealLike) -> CoreSystem:
    grams = tuple(factor.T @ factor for factor in small)
    reduced = tuple(_product(_others(grams, n)) for n in range(len(small)))

    def block_inverse() -> Callable[[Factors], Factors]:
        inverses = [inverse_from_the_right(gamma, damping) for gamma in reduced]
        return lambda c: tuple(inv(part) for inv, part in zip(inverses, c, strict=True))

    return CoreSystem(
        gram=lambda c: _gram(small, c),
        matrix=lambda: _gram_matrix(small, grams, reduced) + _gauge_fill(small, reduced),
        jacobian=lambda: _core_jacobian(small),
        block_inverse=block_inverse,
    )


def _gram_matrix(small: Factors, grams: Factors, reduced: Factors) -> Array:
    """J'J as a matrix: block (n, m) is indexed by (row of n, column), (row of m, column)."""
    rows = []
    for n, left in enumerate(small):
        row = []
        for m, right in enumerate(small):
            if n == m:
                eye = jnp.eye(left.shape[0], dtype=left.dtype)
                block = eye[:, None, :, None] * reduced[n][None, :, None, :]
            else:
                gamma = _product(_others(grams, n, m))
                block = jnp.einsum("lk,ik,jl->iljk", gamma, left, right)
            row.append(block.reshape(left.size, right.size))
        rows.append(jnp.concatenate(row, axis=1))
    return jnp.concatenate(rows, axis=0)


def _gauge_fill(small: Factors, reduced: Factors) -> Array:
    """A positive multiple, column by column, of the projector onto the gauge directions.

    For column l these are the combinations of the unit vectors along a_1l, ..., a_Nl orthogonal
    to (1/|a_1l|, ..., 1/|a_Nl|). The multiple matches the column's diagonal in J'J, so that badly
    scaled columns keep their scale; Cholesky is insensitive to it.
    """
    rank = small[0].shape[1]
    eye = jnp.eye(rank, dtype=small[0].dtype)
    norms = jnp.stack([jnp.sqrt(jnp.sum(r**2, axis=0)) for r in small])  # (N, rank)
    size = jnp.mean(jnp.stack([jnp.diagonal(gamma) for gamma in reduced]), axis=0)
    inverse = divide_or_zero(jnp.ones_like(norms), norms)
    across = divide_or_zero(inverse, jnp.sqrt(jnp.sum(inverse**2, axis=0))[None, :])
    columns = []
    for n in range(len(small)):
        unit = jnp.asarray(n == jnp.arange(len(small)), norms.dtype)[:, None]
        gauge = (unit - across[n][None, :] * across) * jnp.sqrt(size)[None, :]
        blocks = [
            ((r * (inverse[m] * gauge[m])[None, :])[:, :, None] * eye[None, :, :])
            for m, r in enumerate(small)
        ]
        columns.append(jnp.concatenate([b.reshape(-1, rank) for b in blocks], axis=0))
    basis = jnp.concatenate(columns, axis=1)
    return basis @ basis.T


def _without_gauge(small: Factors, core: Factors) -> Factors:
    """Remove the component along the gauge directions: <c_nl, a_nl> must not depend on n."""
    along = [jnp.sum(c * r, axis=0) for c, r in zip(core, small, strict=True)]
    sizes = [jnp.sum(r**2, axis=0) for r in small]
    slopes = jnp.stack([divide_or_zero(q, w) for q, w in zip(along, sizes, strict=True)])
    weights = jnp.stack([divide_or_zero(jnp.ones_like(w), w) for w in sizes])
    common = divide_or_zero(jnp.sum(slopes, axis=0), jnp.sum(weights, axis=0))
    return tuple(
        c - r * divide_or_zero(q - common, w)[None, :]
        for c, r, q, w in zip(core, small, along, sizes, strict=True)
    )
