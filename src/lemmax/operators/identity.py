"""The identity operator: every entry is observed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ..covectors import AbstractCovector, DenseCovector, TuckerCovector
from ..points import AbstractPoint, KruskalPoint, compressed_difference
from ._base import AbstractOperator


class Identity(AbstractOperator):
    """Observe the point itself.

    The data may be an array, a pytree of arrays (for your own map), or a `KruskalPoint`. With a
    `KruskalPoint` and a loss that is a function of the norm (`L2`, `SquaredL2` without weights),
    the residual is computed in orthonormal bases of the columns of both points: a
    500 x 500 x 500 tensor is factorised without being formed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> x = jnp.ones((500, 1))
    >>> target = lm.points.KruskalPoint((x, x, x))
    >>> problem = lm.Composite(
    ...     loss=lm.losses.L2(), map=lm.maps.SymmetricCP(500, rank=2), data=target)
    >>> problem.evaluate(jnp.zeros((500, 2))).residual.shape
    (3, 3, 3)
    """

    @property
    def point_shape(self) -> None:
        """None: points of any shape."""
        return

    @property
    def observation_shape(self) -> None:
        """None: the shape of the point."""
        return

    def shape_of_points(self, data: PyTree) -> Any:
        """Those of the data."""
        return jax.tree.map(jnp.shape, data)

    @property
    def entrywise(self) -> bool:
        """Always true."""
        return True

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """The indices where ``chosen`` is True."""
        return np.nonzero(chosen)

    def measure(self, point: AbstractPoint) -> Array:
        """The entries; a pytree of arrays is flattened into one vector."""
        return _as_array(point.dense())

    def adjoint(self, observations: Array) -> AbstractCovector:
        """The same entries, as a covector."""
        return DenseCovector(observations)

    def residual(
        self, point: AbstractPoint, data: PyTree
    ) -> tuple[Array, Callable[[Array], AbstractCovector]]:
        """Difference to the data; between factored points, in a small orthonormal basis."""
        if isinstance(point, KruskalPoint) and isinstance(data, KruskalPoint):
            core, bases = compressed_difference(point, data)
            return core, lambda s: TuckerCovector(s, bases)
        dense = point.dense()
        if isinstance(dense, jax.Array):
            return dense - data, self.adjoint
        flat, unravel = ravel_pytree(dense)
        return flat - _as_array(data), lambda s: DenseCovector(unravel(s))


def _as_array(tree: PyTree) -> Array:
    return jnp.asarray(tree) if hasattr(tree, "shape") else ravel_pytree(tree)[0]
