"""Alignment measured at a point, for any map, from the singular values of its Jacobian."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._dtype import keeps_float64, to_device
from .._tree import is_traced
from .._typing import AnyArray, Parameters, RealLike, RealScalar
from ..maps import AbstractMap
from ..points import AbstractPoint
from ._parameters import as_parameters

SIZE_LIMIT = 4_000_000
"""Largest number of entries of a Jacobian that is formed; beyond, its SVD takes minutes."""


@keeps_float64
def dense_jacobian(map: AbstractMap, x: Parameters) -> Array:
    """The Jacobian of a map by automatic differentiation, independent of its closed forms.

    Parameters
    ----------
    map : AbstractMap
        Any small enough map.
    x : array or pytree of arrays
        The point of differentiation.

    Returns
    -------
    array
        One row per entry of the point, one column per parameter.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> print(lm.theory.dense_jacobian(lm.maps.Square(2), jnp.array([1.0, 3.0])))
    [[2. 0.]
     [0. 6.]]
    """
    flat, unravel = ravel_pytree(jax.tree.map(to_device, as_parameters(map, x, "x")))

    def value(parameters: Array) -> Array:
        return flatten(map(unravel(parameters)).dense())

    rows = jax.eval_shape(value, flat).size
    if rows * flat.size > SIZE_LIMIT:
        raise ValueError(
            f"The Jacobian has {rows} x {flat.size} entries; this check forms it and is limited "
            f"to {SIZE_LIMIT} entries. Use a smaller instance of the problem."
        )
    return jax.jacfwd(value)(flat)


def flatten(tree: Any) -> Array:
    """All entries of a pytree of arrays as one vector."""
    return ravel_pytree(tree)[0]


def dense_point(z: AbstractPoint) -> Array:
    """The entries of a point as one vector."""
    return flatten(z.dense())


def _entries_like(point: Any, z_star: Any) -> Array:
    """The entries of z*; raises an error if its shape is not the point's."""
    if isinstance(z_star, AbstractPoint):
        z_star = z_star.dense()
    plain = isinstance(point, jax.Array)
    entries = to_device(z_star) if plain else jax.tree.map(to_device, z_star)
    wanted, shape = jax.tree.map(jnp.shape, point), jax.tree.map(jnp.shape, entries)
    if shape != wanted:
        raise ValueError(f"The map's points have shape {wanted}, but z_star has {shape}.")
    return flatten(entries)


def left_singular(jacobian: Array) -> tuple[Array, Array]:
    """Left singular vectors and singular values; those at rounding level are set to zero."""
    left, values, _ = jnp.linalg.svd(jacobian, full_matrices=False)
    cut = jnp.finfo(jacobian.dtype).eps * max(jacobian.shape) * values[:1]
    return left, jnp.where(values > cut, values, 0)


class MeasuredAlignment(NamedTuple):
    """How much of the error lies in the leading singular spaces of the Jacobian.

    Entry ``j - 1`` of each array belongs to the space of the top j left singular vectors.
    """

    error: RealScalar
    """``e = |F(x) - z*|``."""
    tails: AnyArray
    """``|(I - Pi_j) (F(x) - z*)|``: the part of the error outside of that space."""
    squares: AnyArray
    """``sigma_j^2``."""

    @property
    def relative_tails(self) -> AnyArray:
        """Tails divided by the error; alignment needs at most rho."""
        return self.tails / self._positive_error

    @property
    def relative_squares(self) -> AnyArray:
        """``sigma_j^2 / e``; weak alignment needs at least ``s(rho)``."""
        return self.squares / self._positive_error

    @property
    def _positive_error(self) -> Any:
        error = self.error[..., None]
        where = jnp.where if isinstance(error, jax.Array) else np.where
        return where(error > 0, error, 1.0)

    def aligned(self, rho: RealLike, s: RealLike, *, strong: bool = False) -> AnyArray:
        """For every index, whether it satisfies the definition of alignment."""
        squares = self.squares if strong else self.relative_squares
        return (self.relative_tails <= rho) & (squares >= s)

    def aligned_index(self, rho: RealLike, s: RealLike, *, strong: bool = False) -> int | None:
        """The smallest aligned index j, or None if alignment fails at this point."""
        indices = np.flatnonzero(np.asarray(self.aligned(rho, s, strong=strong)))
        return int(indices[0]) + 1 if indices.size else None


@keeps_float64
def measure_alignment(map: AbstractMap, x: Parameters, z_star: Any) -> MeasuredAlignment:
    """Measure weak or strong alignment at one point, for any map.

    Parameters
    ----------
    map : AbstractMap
        Any map, including `lemmax.maps.FromFunction`; its Jacobian is formed.
    x : array or pytree of arrays
        The point's parameters.
    z_star : AbstractPoint or array
        The true point, of the same shape as the map's points.

    Returns
    -------
    MeasuredAlignment

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> found = lm.theory.measure_alignment(
    ...     lm.maps.Square(2), jnp.array([1.1, 0.1]), jnp.array([1.0, 0.0]))
    >>> print(jnp.round(found.relative_tails, 3), found.aligned_index(0.125, 0.125))
    [0.048 0.   ] 1
    """
    x = jax.tree.map(to_device, as_parameters(map, x, "x"))
    left, values = left_singular(dense_jacobian(map, x))
    point = map(x).dense()
    difference = flatten(point) - _entries_like(point, z_star)
    coordinates = left.T @ difference
    # Computed from the complement inwards, to avoid cancellation in small tails.
    beyond = difference - left @ coordinates
    reversed_squares = jnp.concatenate([jnp.sum(beyond**2)[None], coordinates[:0:-1] ** 2])
    tails = jnp.sqrt(jnp.cumsum(reversed_squares)[::-1])
    return MeasuredAlignment(jnp.linalg.norm(difference), tails, values**2)


def require_concrete(tree: Any, what: str) -> None:
    """Raise an error inside jit and vmap, where values are not concrete."""
    if is_traced(tree):
        raise ValueError(f"{what} needs concrete values: call it outside of jit and vmap.")
