"""Positive semidefinite matrices as X X'."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._checks import as_whole, check_positive
from .._linalg import divide_or_zero, outside, outside_rows, thin_svd
from .._typing import AnyArray, RealLike
from ..covectors import AbstractCovector
from ..points import KruskalPoint
from ._base import Preconditioned, closed_form, spectral_projections
from ._ranked import AbstractRankedMap


class PSD(AbstractRankedMap):
    """Positive semidefinite matrices ``F(X) = X X'`` (Burer-Monteiro factorisation).

    Parameters
    ----------
    dim : int
        Number of rows of the matrix.
    rank : int
        Number of columns of X: an upper bound on the rank. It may exceed ``dim``.

    Notes
    -----
    With the thin SVD ``X = U diag(s) Q'``, the operator ``J J'`` on symmetric matrices has the
    eigenvectors ``u_i u_j' + u_j u_i'`` with eigenvalues ``2 (s_i^2 + s_j^2)``, where ``s_j = 0``
    for u_j outside the range of X. The closed forms below follow from this. They use the SVD of X
    and not ``X'X``, whose small eigenvalues have lost their digits.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> point = lm.maps.PSD(3, rank=1)(jnp.array([[1.0], [2.0], [0.0]]))
    >>> print(point.dense()[1])
    [2. 4. 0.]
    """

    dim: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, dim: int, rank: int):
        check_positive(dim=dim, rank=rank)
        self.dim, self.rank = as_whole(dim), as_whole(rank)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(dim, dim)``."""
        return (self.dim, self.dim)

    @property
    def symmetric(self) -> bool:
        """True."""
        return True

    @property
    def degree(self) -> int:
        """2: quadratic."""
        return 2

    @property
    def parameter_shapes(self) -> tuple[int, ...]:
        """``(dim, rank)``."""
        return (self.dim, self.rank)

    def with_rank(self, rank: int) -> "PSD":
        """The same map with another rank."""
        return PSD(self.dim, rank)

    @property
    def degrees_of_freedom(self) -> int:
        """The dimension of the set of PSD matrices of this rank."""
        rank = self.largest_rank
        return self.dim * rank - rank * (rank - 1) // 2

    def __call__(self, x: Float[AnyArray, "dim rank"]) -> KruskalPoint:
        """The matrix in factored form."""
        return KruskalPoint((x, x))

    def jvp(self, x: AnyArray, dx: AnyArray) -> Array:
        """``dX X' + X dX'``."""
        change = dx @ x.T
        return change + change.T

    def vjp(self, x: AnyArray, covector: AbstractCovector) -> Array:
        """``(V + V') X``."""
        return covector.contract_all_but_one(x)

    def gram(self, x: AnyArray, dx: AnyArray) -> Array:
        """``2 dX X'X + 2 X dX'X``."""
        return 2 * dx @ (x.T @ x) + 2 * x @ (dx.T @ x)

    def solve(self, x: AnyArray, damping: RealLike, g: AnyArray) -> Array:
        """Closed form for any right-hand side.

        Each pair of entries (i, j), (j, i) of U' D Q is a 2 x 2 system with eigenvalues
        ``2 (s_i^2 + s_j^2) + damping`` (along the range of J') and ``damping`` (across it).
        """
        left, s, right = thin_svd(x)
        rotated = g @ right.T
        block = left.T @ rotated
        squares = s[:, None] ** 2 + s[None, :] ** 2
        along = divide_or_zero(s[None, :] * block + s[:, None] * block.T, squares)
        across = divide_or_zero(s[:, None] * block - s[None, :] * block.T, squares)
        solved = (
            s[None, :] * divide_or_zero(along, 2 * squares + damping)
            + s[:, None] * divide_or_zero(across, jnp.full_like(squares, damping))
            + jnp.where(squares == 0, divide_or_zero(block, jnp.full_like(block, damping)), 0)
        )
        beyond = outside(left, rotated)
        beyond = divide_or_zero(
            beyond, jnp.broadcast_to(2 * s[None, :] ** 2 + damping, beyond.shape)
        )
        unseen = outside_rows(right, g)  # nonzero if rank > dim
        return (left @ solved + beyond) @ right + divide_or_zero(
            unseen, jnp.full_like(unseen, damping)
        )

    def block_direction(self, x: AnyArray, damping: RealLike, covector: AbstractCovector) -> Array:
        """``(V + V') X (2 X'X + damping)^-1``."""
        left, s, right = thin_svd(x)
        weights = divide_or_zero(s, 2 * s**2 + damping)
        return (covector.contract_all_but_one(left) * weights[None, :]) @ right

    def precondition(
        self, x: AnyArray, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """Closed form: one product of the covector with a thin matrix, plus O(dim rank^2)."""
        left, s, right = thin_svd(x)
        product = covector.contract_all_but_one(left)  # (V + V') U
        block, beyond = left.T @ product, outside(left, product)
        pairs, singles = 2 * (s[:, None] ** 2 + s[None, :] ** 2), 2 * s**2
        direction = left @ (block * divide_or_zero(s[None, :], pairs + damping))
        direction = direction + beyond * divide_or_zero(s, singles + damping)[None, :]

        # Squared coordinates of sym(V) along the eigenvectors of J J'.
        projections = spectral_projections(
            damping, (pairs, block**2 / 4), (singles, jnp.sum(beyond**2, axis=0) / 2)
        )
        return closed_form(direction @ right, projections)
