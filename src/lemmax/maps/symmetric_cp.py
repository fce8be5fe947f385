"""Symmetric tensors of any order as sums of powers of vectors."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._checks import as_whole, check_positive
from .._linalg import (
    coordinates_in,
    damped_inverse,
    divide_or_zero,
    khatri_rao,
    kruskal_to_dense,
    outside,
    thin_svd,
)
from .._tree import tree_dot
from .._typing import AnyArray, RealLike
from ..covectors import AbstractCovector, DenseCovector
from ..points import KruskalPoint
from ._base import Preconditioned, Projections, spectral_projections
from ._core import CoreSolver, CoreSystem, choose_solver, inverse_from_the_right
from ._ranked import AbstractRankedMap


class SymmetricCP(AbstractRankedMap):
    """``F(X) = sum over l of x_l x ... x x_l``, the order-fold outer power of each column.

    Parameters
    ----------
    dim : int
        Length of each mode.
    rank : int
        Number of columns of X.
    order : int
        Number of modes, 3 or more.
    solver : DirectSolver or ConjugateGradients, optional
        How to solve the core system; chosen by cost if not given.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> point = lm.maps.SymmetricCP(2, rank=1)(jnp.array([[1.0], [2.0]]))
    >>> print(point.dense()[1])
    [[2. 4.]
     [4. 8.]]
    """

    dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    order: int = eqx.field(static=True)
    solver: CoreSolver | None

    def __init__(self, dim: int, rank: int, order: int = 3, solver: CoreSolver | None = None):
        check_positive(dim=dim, rank=rank, order=order)
        if order < 3:
            raise ValueError(
                f"SymmetricCP needs an order of 3 or more; got order {order}. Use PSD for matrices."
            )
        self.dim, self.rank, self.order = as_whole(dim), as_whole(rank), as_whole(order)
        self.solver = solver

    @property
    def shape(self) -> tuple[int, ...]:
        """``(dim,) * order``."""
        return (self.dim,) * self.order

    @property
    def symmetric(self) -> bool:
        """True."""
        return True

    @property
    def degree(self) -> int:
        """The number of modes."""
        return self.order

    @property
    def parameter_shapes(self) -> tuple[int, int]:
        """``(dim, rank)``."""
        return (self.dim, self.rank)

    def with_rank(self, rank: int) -> "SymmetricCP":
        """The same map with another rank."""
        return SymmetricCP(self.dim, rank, self.order, self.solver)

    @property
    def degrees_of_freedom(self) -> int:
        """Number of entries of X."""
        return min(self.dim * self.rank, math.comb(self.dim + self.order - 1, self.order))

    def __call__(self, x: AnyArray) -> KruskalPoint:
        """The tensor in factored form."""
        return KruskalPoint((x,) * self.order)

    def jvp(self, x: AnyArray, dx: AnyArray) -> Array:
        """Sum over modes, x replaced by dx in that mode."""
        return jax.jvp(self._dense, (x,), (dx,))[1]

    def vjp(self, x: AnyArray, covector: AbstractCovector) -> Array:
        """Sum over modes of the matricised covector times a Khatri-Rao product."""
        return covector.mttkrp_in_every_mode(x)

    def gram(self, x: AnyArray, dx: AnyArray) -> Array:
        """By powers of the small Gram matrix; the tensor is not formed."""
        n, gram = self.order, x.T @ x
        cross = (dx.T @ x) * gram ** (n - 2)
        return n * dx @ gram ** (n - 1) + n * (n - 1) * x @ cross

    def solve(self, x: AnyArray, damping: RealLike, g: AnyArray) -> Array:
        """Solve for any right-hand side through the core."""
        left, s, _ = thin_svd(x)
        small = coordinates_in(left, s, x)
        _, t, powers = thin_svd(khatri_rao((small,) * (self.order - 1)))
        outer = damped_inverse(outside(left, g), self.order**0.5 * t, powers, damping)
        _, sigma, right = thin_svd(self._core_jacobian(small))
        core = damped_inverse(jnp.ravel(left.T @ g)[None, :], sigma, right, damping)
        return left @ core.reshape(small.shape) + outer

    def block_direction(self, x: AnyArray, damping: RealLike, covector: AbstractCovector) -> Array:
        """The gradient times ``(order * (X'X)^(order - 1) + damping)^-1``, powers entrywise."""
        left, s, _ = thin_svd(x)
        p, t, powers = thin_svd(khatri_rao((coordinates_in(left, s, x),) * (self.order - 1)))
        weights = divide_or_zero(t, self.order * t**2 + damping)
        return (covector.contract_all_but_one(left) @ p * weights[None, :]) @ powers

    def precondition(
        self, x: AnyArray, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """Closed form outside the range of x, the core system inside."""
        n = self.order
        left, s, _ = thin_svd(x)
        small = coordinates_in(left, s, x)
        rows = outside(left, covector.contract_all_but_one(left))
        p, t, powers = thin_svd(khatri_rao((small,) * (n - 1)))
        coordinates = rows @ p
        outer = (coordinates * divide_or_zero(t, n * t**2 + damping)[None, :]) @ powers
        around = spectral_projections(damping, (n * t**2, jnp.sum(coordinates**2, axis=0) / n))

        core_covector = covector.contract((left,) * n)
        gradient = self.vjp(small, DenseCovector(core_covector))
        solver = choose_solver(small.size) if self.solver is None else self.solver
        system = self._core_system(small, damping)
        answer = solver(system, damping, gradient, core_covector)

        core = answer.solution
        projections = Projections(
            range=solver.range_square(system, gradient, core_covector) + around.range,
            damped=tree_dot(gradient, core) + around.damped,
            projected=tree_dot(core, self.gram(small, core)) + around.projected,
        )
        return Preconditioned(left @ core + outer, projections, answer.iterations, answer.failed)

    def _dense(self, x: AnyArray) -> Array:
        return kruskal_to_dense((x,) * self.order)

    def _core_jacobian(self, small: Array) -> Array:
        return jax.jacfwd(self._dense)(small).reshape(-1, small.size)

    def _core_system(self, small: Array, damping: RealLike) -> CoreSystem:
        n, p = self.order, small.shape[0]
        gram = small.T @ small

        def matrix() -> Array:
            diagonal = (
                jnp.eye(p, dtype=small.dtype)[:, None, :, None]
                * (n * gram ** (n - 1))[None, :, None, :]
            )
            mixed = jnp.einsum("lk,ik,jl->iljk", gram ** (n - 2), small, small)
            return (diagonal + n * (n - 1) * mixed).reshape(small.size, small.size)

        return CoreSystem(
            gram=lambda c: self.gram(small, c),
            matrix=matrix,
            jacobian=lambda: self._core_jacobian(small),
            block_inverse=lambda: inverse_from_the_right(n * gram ** (n - 1), damping),
        )
