"""Rectangular low-rank matrices as X Y'."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import as_whole, check_positive
from .._linalg import divide_or_zero, outside, outside_rows, thin_svd
from .._typing import AnyArray, RealLike
from ..covectors import AbstractCovector
from ..points import KruskalPoint
from ._base import Preconditioned, closed_form, spectral_projections
from ._ranked import AbstractRankedMap

Factors = tuple[AnyArray, AnyArray]


class LowRank(AbstractRankedMap):
    """Matrices ``F(X, Y) = X Y'`` of bounded rank.

    Parameters
    ----------
    shape : tuple of two ints
        Shape of the matrix.
    rank : int
        Number of columns of both factors: an upper bound on the rank of the matrix.

    Notes
    -----
    With thin SVDs ``X = U_x diag(a) Q_x'`` and ``Y = U_y diag(b) Q_y'``, ``J J'`` has the
    eigenvectors ``u_i^x (u_j^y)'`` with eigenvalues ``a_i^2 + b_j^2``; a and b are 0 outside the
    ranges. The two right factors need not agree.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> factors = (jnp.array([[1.0], [2.0]]), jnp.array([[1.0], [0.0], [3.0]]))
    >>> print(lm.maps.LowRank((2, 3), rank=1)(factors).dense())
    [[1. 0. 3.]
     [2. 0. 6.]]
    """

    dims: tuple[int, int] = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, shape: Sequence[int], rank: int):
        if np.shape(shape) != (2,):
            raise ValueError(
                f"LowRank needs a shape with two entries, as in LowRank((30, 20), 3); got {shape}."
            )
        check_positive(rows=shape[0], columns=shape[1], rank=rank)
        self.dims = (as_whole(shape[0]), as_whole(shape[1]))
        self.rank = as_whole(rank)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.dims

    @property
    def symmetric(self) -> bool:
        """False: not symmetric in general."""
        return False

    @property
    def degree(self) -> int:
        """2: bilinear."""
        return 2

    @property
    def parameter_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """``((d1, rank), (d2, rank))``."""
        return (self.dims[0], self.rank), (self.dims[1], self.rank)

    def with_rank(self, rank: int) -> "LowRank":
        """The same map with another rank."""
        return LowRank(self.dims, rank)

    @property
    def degrees_of_freedom(self) -> int:
        """The dimension of the set of matrices of this rank, ``r (d1 + d2 - r)``."""
        rank = self.largest_rank
        return rank * (sum(self.dims) - rank)

    def __call__(self, x: Factors) -> KruskalPoint:
        """The matrix in factored form."""
        return KruskalPoint(x)

    def jvp(self, x: Factors, dx: Factors) -> Array:
        """``dX Y' + X dY'``."""
        return dx[0] @ x[1].T + x[0] @ dx[1].T

    def vjp(self, x: Factors, covector: AbstractCovector) -> Factors:
        """``(V Y, V' X)``."""
        return covector.contract(x, 0), covector.contract(x, 1).T

    def gram(self, x: Factors, dx: Factors) -> Factors:
        """``(dX Y'Y + X dY'Y, dY X'X + Y dX'X)``."""
        (left, right), (change_left, change_right) = x, dx
        return (
            change_left @ (right.T @ right) + left @ (change_right.T @ right),
            change_right @ (left.T @ left) + right @ (change_left.T @ left),
        )

    def solve(self, x: Factors, damping: RealLike, g: Factors) -> Factors:
        """Closed form for any right-hand side: a 2 x 2 system per pair of singular vectors."""
        (ux, a, qx), (uy, b, qy) = thin_svd(x[0]), thin_svd(x[1])
        rotated_x, rotated_y = g[0] @ qy.T, g[1] @ qx.T
        block_x, block_y = ux.T @ rotated_x, (uy.T @ rotated_y).T
        first, second = jnp.broadcast_arrays(a[:, None], b[None, :])
        squares = first**2 + second**2
        along = divide_or_zero(second * block_x + first * block_y, squares)
        along = divide_or_zero(along, squares + damping)
        across = divide_or_zero(first * block_x - second * block_y, squares)
        across = divide_or_zero(across, jnp.full_like(squares, damping))
        null = jnp.full_like(squares, damping)
        solved_x = second * along + first * across
        solved_x += jnp.where(squares == 0, divide_or_zero(block_x, null), 0)
        solved_y = first * along - second * across
        solved_y += jnp.where(squares == 0, divide_or_zero(block_y, null), 0)

        def assemble(basis, solved, rotated, s, right, full):
            scale = jnp.broadcast_to(s[None, :] ** 2 + damping, rotated.shape)
            beyond = divide_or_zero(outside(basis, rotated), scale)
            unseen = outside_rows(right, full)  # nonzero if the rank exceeds a dimension
            return (basis @ solved + beyond) @ right + divide_or_zero(
                unseen, jnp.full_like(unseen, damping)
            )

        return (
            assemble(ux, solved_x, rotated_x, b, qy, g[0]),
            assemble(uy, solved_y.T, rotated_y, a, qx, g[1]),
        )

    def block_direction(self, x: Factors, damping: RealLike, covector: AbstractCovector) -> Factors:
        """``(V Y (Y'Y + damping)^-1, V'X (X'X + damping)^-1)``."""
        (ux, a, qx), (uy, b, qy) = thin_svd(x[0]), thin_svd(x[1])
        dx = covector.contract((ux, uy), 0) * divide_or_zero(b, b**2 + damping)[None, :]
        dy = covector.contract((ux, uy), 1).T * divide_or_zero(a, a**2 + damping)[None, :]
        return dx @ qy, dy @ qx

    def precondition(
        self, x: Factors, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """Closed form: two products of the covector with thin matrices, plus O((d1+d2) rank^2)."""
        (ux, a, qx), (uy, b, qy) = thin_svd(x[0]), thin_svd(x[1])
        across_rows = covector.contract((ux, uy), 0)  # V U_y
        across_columns = covector.contract((ux, uy), 1).T  # V' U_x
        block = ux.T @ across_rows
        beyond_x, beyond_y = outside(ux, across_rows), outside(uy, across_columns)
        pairs = a[:, None] ** 2 + b[None, :] ** 2
        weighted = divide_or_zero(block, pairs + damping)
        dx = ux @ (weighted * b[None, :]) + beyond_x * divide_or_zero(b, b**2 + damping)[None, :]
        dy = uy @ (a[:, None] * weighted).T
        dy = dy + beyond_y * divide_or_zero(a, a**2 + damping)[None, :]

        # Squared coordinates of V along the eigenvectors of J J'.
        projections = spectral_projections(
            damping,
            (pairs, block**2),
            (b**2, jnp.sum(beyond_x**2, axis=0)),
            (a**2, jnp.sum(beyond_y**2, axis=0)),
        )
        return closed_form((dx @ qy, dy @ qx), projections)
