"""Weighted sums of rank-one matrices."""

import jax.numpy as jnp
from jaxtyping import Float

from .._dtype import keeps_float64
from .._typing import AnyArray
from ._base import AbstractCovector


class RankOneCovector(AbstractCovector):
    """The matrix ``V = sum over i of weights[i] * outer(left[i], right[i])``, never formed.

    Parameters
    ----------
    left : array of shape (m, d1)
        The vectors that span the columns of V.
    weights : array of shape (m,)
        One weight per term.
    right : array of shape (m, d2), optional
        The vectors that span the rows of V. Default: ``left``, which makes V symmetric.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from lemmax.covectors import RankOneCovector
    >>> covector = RankOneCovector(jnp.eye(2), jnp.array([3.0, 4.0]))
    >>> print(covector.contract((jnp.ones((2, 1)),) * 2))
    [[7.]]
    """

    left: Float[AnyArray, "m d1"]
    weights: Float[AnyArray, " m"]
    right: Float[AnyArray, "m d2"] | None = None

    @keeps_float64
    def dense(self) -> AnyArray:
        """Form all entries."""
        weighted = jnp.asarray(self.weights)[:, None] * self.left
        return weighted.T @ self._right

    @keeps_float64
    def contract(self, matrices: tuple[AnyArray, ...], skip: int | None = None) -> AnyArray:
        """Multiply every mode ``k != skip`` by ``matrices[k].T``."""
        if skip == 0:
            return self._from_the_right(matrices[1])
        if skip == 1:
            return self._from_the_left(matrices[0])
        images = self._weighted(self._right @ matrices[1])
        return (jnp.asarray(self.left) @ matrices[0]).T @ images

    @keeps_float64
    def mttkrp(self, factors: tuple[AnyArray, ...], mode: int) -> AnyArray:
        """The product with the factor of the other mode: ``V Y`` or ``V' X``."""
        return self.contract(factors, mode) if mode == 0 else self.contract(factors, mode).T

    @keeps_float64
    def contract_all_but_one(self, matrix: AnyArray) -> AnyArray:
        """``(V + V') @ matrix``."""
        product = self._from_the_right(matrix)
        return 2 * product if self.right is None else product + self._from_the_left(matrix).T

    @keeps_float64
    def mttkrp_in_every_mode(self, factor: AnyArray) -> AnyArray:
        """``(V + V') @ factor``."""
        return self.contract_all_but_one(factor)

    @property
    def _right(self) -> AnyArray:
        return jnp.asarray(self.left if self.right is None else self.right)

    def _weighted(self, rows: AnyArray) -> AnyArray:
        return jnp.asarray(self.weights)[:, None] * rows

    # The thin matrix first, not left.T @ images: XLA's CPU product is up to ten times slower on
    # the transpose of a tall matrix.

    def _from_the_right(self, matrix: AnyArray) -> AnyArray:
        """``V @ matrix``."""
        return (self._weighted(self._right @ matrix).T @ self.left).T

    def _from_the_left(self, matrix: AnyArray) -> AnyArray:
        """``matrix.T @ V``."""
        return self._weighted(jnp.asarray(self.left) @ matrix).T @ self._right
