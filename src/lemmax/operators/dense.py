"""Measurements by an explicit array."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import as_whole
from .._dtype import keeps_float64, require_finite, to_device
from ..covectors import AbstractCovector, DenseCovector
from ..points import AbstractPoint
from ._base import AbstractOperator
from ._rows import Fill, assembled, filled_rows, measured


class Dense(AbstractOperator):
    """Inner products with m given arrays: ``measure(Z)[i] = <A[i], Z>``.

    Parameters
    ----------
    array : array of shape (m, ...)
        The measurement vectors, matrices or tensors, stacked along the first axis. It is read
        exactly twice per iteration. JAX arrays and read-only NumPy arrays (such as
        ``np.load(file, mmap_mode="r")``) are used without a copy; others are copied once.

    See Also
    --------
    Dense.generate : for an array that is too large to be copied.

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
        # Before the transfer: on the device a reshape is a copy.
        self.matrix = to_device(array.reshape(array.shape[0], math.prod(self.shape)))
        require_finite(self.matrix, "The measurement arrays")

    @classmethod
    def generate(
        cls, measurements: int, shape: Sequence[int], fill: Fill, dtype: Any = np.float64
    ) -> "Dense":
        """Generate the measurement arrays in place: one allocation, no copy.

        Parameters
        ----------
        measurements : int
            Number of measurement arrays.
        shape : sequence of int
            Shape of one measurement array.
        fill : callable
            Called with consecutive blocks, NumPy arrays of shape ``(k, *shape)``, and writes
            every entry. It must not keep a reference: the memory belongs to the operator.
        dtype : float64 or float32
            Precision of the arrays.

        Returns
        -------
        Dense

        Raises
        ------
        MemoryError
            If the arrays do not fit in memory; raised before anything is allocated.

        Examples
        --------
        >>> import numpy as np
        >>> import lemmax as lm
        >>> rng = np.random.default_rng(0)
        >>> operator = lm.operators.Dense.generate(
        ...     100, (4, 5), lambda rows: rng.standard_normal(out=rows))
        >>> operator.matrix.shape
        (100, 20)
        """
        matrix = filled_rows(measurements, tuple(shape), fill, dtype)
        require_finite(matrix, "The measurement arrays")
        return assembled(cls, matrix=matrix, shape=tuple(as_whole(d) for d in shape))

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
        return measured(self.matrix, jnp.ravel(point.dense()))

    @keeps_float64
    def adjoint(self, observations: Array) -> AbstractCovector:
        """Sum of the measurement arrays, weighted by the observations."""
        # s @ A, not A.T @ s: XLA's CPU product is several times slower on the transpose.
        return DenseCovector((observations @ self.matrix).reshape(self.shape))
