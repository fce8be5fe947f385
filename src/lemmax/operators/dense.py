"""Measurements by an explicit array."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._dtype import keeps_float64, require_finite, to_device
from ..covectors import AbstractCovector, DenseCovector
from ..points import AbstractPoint
from ._base import AbstractOperator


class Dense(AbstractOperator):
    """Inner products with m given arrays: ``measure(Z)[i] = <A[i], Z>``.

    Parameters
    ----------
    array : array of shape (m, ...)
        The measurement vectors, matrices or tensors, stacked along the first axis. It is read
        exactly twice per iteration, and never copied.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> operator = lm.operators.Dense(jnp.ones((7, 3, 4)))
    >>> point = lm.points.KruskalPoint((jnp.ones((3, 1)), jnp.ones((4, 1))))
    >>> print(operator.measure(point)[0])
    12.0
    """

    matrix: Float[Array, "m n"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, array: Any):
        if not isinstance(array, np.ndarray):
            array = to_device(array)
        if array.ndim < 2 or array.size == 0:
            raise ValueError(
                "Dense needs a non-empty array of shape (m, ...): one measurement vector, matrix "
                f"or tensor per row; got shape {array.shape}."
            )
        self.shape = array.shape[1:]
        # Before it goes to the device, where a reshape is a copy.
        self.matrix = to_device(array.reshape(array.shape[0], math.prod(self.shape)))
        require_finite(self.matrix, "The measurement arrays")

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of one measurement array."""
        return self.shape

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The number of measurements, as a shape."""
        return (self.matrix.shape[0],)

    @keeps_float64
    def measure(self, point: AbstractPoint) -> Array:
        """Inner product of every measurement array with the point."""
        return self.matrix @ jnp.ravel(point.dense())

    @keeps_float64
    def adjoint(self, observations: Array) -> AbstractCovector:
        """Sum of the measurement arrays, weighted by the observations."""
        # s @ A, not A.T @ s: XLA's CPU product is several times slower on the transpose.
        return DenseCovector((observations @ self.matrix).reshape(self.shape))
