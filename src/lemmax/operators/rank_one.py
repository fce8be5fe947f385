"""Quadratic and bilinear measurements of a matrix."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._dtype import keeps_float64, require_finite, to_device
from .._typing import AnyArray
from ..covectors import AbstractCovector, RankOneCovector
from ..points import AbstractPoint, KruskalPoint
from ._base import AbstractOperator


class RankOne(AbstractOperator):
    """Inner products with m matrices of rank one: ``measure(Z)[i] = left[i]' Z right[i]``.

    A factored point ``X Y'`` is measured through ``left @ X`` and ``right @ Y``, and the adjoint
    multiplies thin matrices in the same way; neither the point nor the covector is formed.

    Parameters
    ----------
    left : array of shape (m, d1)
        One vector per measurement.
    right : array of shape (m, d2), optional
        The vectors on the other side. Default: ``left``, which makes the measurements
        quadratic: ``left[i]' X X' left[i]`` is the squared length of ``X' left[i]``, the
        intensity that is observed in phase retrieval.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> intensities = lm.operators.RankOne(jnp.array([[1.0, 0.0], [1.0, 1.0]]))
    >>> x = jnp.array([[3.0], [-4.0]])
    >>> print(intensities.measure(lm.points.KruskalPoint((x, x))))
    [9. 1.]
    """

    left: Float[Array, "m d1"]
    right: Float[Array, "m d2"] | None

    def __init__(self, left: Any, right: Any = None):
        self.left = _vectors(left, "left")
        self.right = None if right is None else _vectors(right, "right")
        if self.right is None:
            return
        if self.right.shape[0] != self.left.shape[0]:
            raise ValueError(
                "RankOne needs the same number of vectors on the right and on the left; got "
                f"{self.right.shape[0]} and {self.left.shape[0]}."
            )
        if self.right.dtype != self.left.dtype:
            raise ValueError(
                "RankOne needs vectors of one precision; those on the left are "
                f"{self.left.dtype}, those on the right {self.right.dtype}."
            )

    @property
    def point_shape(self) -> tuple[int, int]:
        """``(d1, d2)``."""
        return self.left.shape[1], self._right.shape[1]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The number of measurements, as a shape."""
        return (self.left.shape[0],)

    @keeps_float64
    def measure(self, point: AbstractPoint) -> Array:
        """One number per pair of vectors."""
        if not isinstance(point, KruskalPoint):
            return jnp.sum((self.left @ point.dense()) * self._right, axis=1)
        x, y = point.factors
        # If left and right are the same, the compiler computes the product once.
        return jnp.sum((self.left @ x) * (self._right @ y), axis=1)

    @keeps_float64
    def adjoint(self, observations: AnyArray) -> AbstractCovector:
        """Sum of the rank-one matrices, weighted by the observations, in factored form."""
        return RankOneCovector(self.left, observations, self.right)

    @property
    def _right(self) -> Array:
        return self.left if self.right is None else self.right


def _vectors(array: Any, side: str) -> Array:
    array = to_device(array)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"RankOne needs a non-empty array of shape (m, d), one vector per row, on the {side}; "
            f"got shape {array.shape}."
        )
    require_finite(array, f"The vectors on the {side}")
    return array
