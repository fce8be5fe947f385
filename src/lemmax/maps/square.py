"""Nonnegative vectors as squares."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .._checks import as_whole, check_positive
from .._linalg import divide_or_zero
from .._typing import AnyArray, RealLike
from ..covectors import AbstractCovector
from ..points import DensePoint
from ._base import AbstractMap, Preconditioned, closed_form, spectral_projections


class Square(AbstractMap):
    """Nonnegative vectors ``F(x) = x * x``; the Jacobian vanishes where x is 0.

    Parameters
    ----------
    dim : int
        Length of the vector.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> print(lm.maps.Square(2)(jnp.array([3.0, -2.0])).dense())
    [9. 4.]
    """

    dim: int = eqx.field(static=True, converter=as_whole)

    def __check_init__(self):
        check_positive(dim=self.dim)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(dim,)``."""
        return (self.dim,)

    @property
    def degree(self) -> int:
        """2: quadratic."""
        return 2

    @property
    def parameter_shapes(self) -> tuple[int, ...]:
        """``(dim,)``."""
        return (self.dim,)

    def term_sizes(self, x: AnyArray) -> np.ndarray:
        """The entries of the vector in descending order."""
        return np.sort(np.asarray(x, np.float64) ** 2)[::-1]

    def nearest(self, array: np.ndarray) -> np.ndarray:
        """Square roots of the nonnegative part."""
        return np.sqrt(np.maximum(array, 0))

    def __call__(self, x: Float[AnyArray, " dim"]) -> DensePoint:
        """Square every entry."""
        return DensePoint(x * x)

    def jvp(self, x: AnyArray, dx: AnyArray) -> Array:
        """``2 x dx``."""
        return 2 * x * dx

    def vjp(self, x: AnyArray, covector: AbstractCovector) -> Array:
        """``2 x v``."""
        return 2 * x * covector.dense()

    def gram(self, x: AnyArray, dx: AnyArray) -> Array:
        """``4 x^2 dx``."""
        return 4 * x * x * dx

    def solve(self, x: AnyArray, damping: RealLike, g: AnyArray) -> Array:
        """``g / (4 x^2 + damping)``."""
        return divide_or_zero(g, 4 * x * x + damping)

    def block_direction(self, x: AnyArray, damping: RealLike, covector: AbstractCovector) -> Array:
        """The damped direction: J'J is a single block."""
        return divide_or_zero(2 * x * covector.dense(), 4 * x * x + damping)

    def precondition(
        self, x: AnyArray, damping: RealLike, covector: AbstractCovector
    ) -> Preconditioned:
        """``2 x v / (4 x^2 + damping)``; J is diagonal with entries 2 x."""
        v = covector.dense()
        eigenvalue = 4 * x * x
        projections = spectral_projections(damping, (eigenvalue, v**2))
        return closed_form(self.block_direction(x, damping, covector), projections)
