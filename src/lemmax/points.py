"""Points: what a map returns, dense or factored.

A factored point computes norms, distances and entries without forming the matrix or tensor. The
dual objects, which adjoints of operators return, are in `covectors`.
"""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._dtype import keeps_float64
from ._linalg import kruskal_to_dense, thin_qr
from ._memory import require_memory
from ._tree import tree_dot, tree_norm
from ._typing import AnyArray, RealScalar


class AbstractPoint(eqx.Module):
    """An element of the ambient space: the value F(x) of a map."""

    @abc.abstractmethod
    def dense(self) -> PyTree:
        """The point as an array (or a pytree of arrays, for a user's own map)."""

    @abc.abstractmethod
    def norm(self) -> RealScalar:
        """Euclidean (Frobenius) norm."""

    @abc.abstractmethod
    def inner(self, other: "AbstractPoint") -> RealScalar:
        """Inner product with another point of the same shape."""

    @abc.abstractmethod
    def distance(self, other: "AbstractPoint") -> RealScalar:
        """Norm of the difference, to full relative accuracy."""

    @abc.abstractmethod
    def entries(self, *indices: AnyArray) -> Array:
        """Values at given positions, one index array per mode."""


class DensePoint(AbstractPoint):
    """A point that stores every entry.

    Parameters
    ----------
    value : array or pytree of arrays
        The entries.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from lemmax.points import DensePoint
    >>> print(DensePoint(jnp.array([3.0, 4.0])).norm())
    5.0
    """

    value: PyTree

    def dense(self) -> PyTree:
        """The entries."""
        return self.value

    @keeps_float64
    def norm(self) -> RealScalar:
        """Euclidean norm."""
        return tree_norm(self.value)

    @keeps_float64
    def inner(self, other: AbstractPoint) -> RealScalar:
        """Inner product with another point of the same shape."""
        return tree_dot(self.value, other.dense())

    @keeps_float64
    def distance(self, other: AbstractPoint) -> RealScalar:
        """Norm of the difference."""
        return tree_norm(jax.tree.map(jnp.subtract, self.value, other.dense()))

    @keeps_float64
    def entries(self, *indices: AnyArray) -> Array:
        """Values at given positions, one index array per mode."""
        return jnp.asarray(self.value)[indices]


class KruskalPoint(AbstractPoint):
    """A matrix or tensor as a sum of outer products of the factors' columns.

    Two factors ``(X, Y)`` represent the matrix ``X Y'``, three a CP tensor of order 3.

    Parameters
    ----------
    factors : tuple of arrays
        One array of shape ``(d_n, r)`` per mode, all with the same number of columns.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from lemmax.points import KruskalPoint
    >>> ones = jnp.ones((100, 1))
    >>> print(KruskalPoint((ones, ones, ones)).norm())   # of a million ones
    1000.0
    """

    factors: tuple[AnyArray, ...]

    def __init__(self, factors: Sequence[Any]):
        factors = tuple(f if hasattr(f, "shape") else np.asarray(f, float) for f in factors)
        shapes = [jnp.shape(factor) for factor in factors]
        if len(factors) < 2 or any(len(s) != 2 or s[1] != shapes[0][-1] for s in shapes):
            raise ValueError(
                "A KruskalPoint needs two or more factors of shape (d_n, r) with the same number "
                f"of columns r; got shapes {shapes}."
            )
        self.factors = factors  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix or tensor."""
        return tuple(factor.shape[0] for factor in self.factors)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return tuple(jnp.asarray(factor) for factor in self.factors)

    @keeps_float64
    def dense(self) -> Array:
        """Form the matrix or tensor; raises MemoryError if it does not fit."""
        require_memory(self.shape, self.factors[0].dtype.itemsize, "The dense point")
        return kruskal_to_dense(self._arrays)

    @keeps_float64
    def norm(self) -> RealScalar:
        """Frobenius norm."""
        core, _ = _compress(self._arrays)
        return tree_norm(core)

    @keeps_float64
    def inner(self, other: AbstractPoint) -> RealScalar:
        """Inner product with another point of the same shape."""
        if isinstance(other, KruskalPoint):
            gram = jnp.ones((1, 1), self.factors[0].dtype)
            for mine, theirs in zip(self._arrays, other._arrays, strict=True):
                gram = gram * (mine.T @ theirs)
            return jnp.sum(gram)
        return tree_dot(self.dense(), other.dense())

    @keeps_float64
    def distance(self, other: AbstractPoint) -> RealScalar:
        """Norm of the difference.

        Between factored points it is computed from the orthogonal core of the difference.
        ``|a|^2 - 2<a,b> + |b|^2`` would lose half of the digits.
        """
        if isinstance(other, KruskalPoint):
            return tree_norm(compressed_difference(self, other)[0])
        return tree_norm(self.dense() - other.dense())

    @keeps_float64
    def entries(self, *indices: AnyArray) -> Array:
        """Values at given positions, one index array per mode."""
        product = jnp.ones((1, 1), self.factors[0].dtype)
        for factor, index in zip(self._arrays, indices, strict=True):
            product = product * factor[jnp.ravel(jnp.asarray(index))]
        return jnp.sum(product, axis=1)


def compressed_difference(a: KruskalPoint, b: KruskalPoint) -> tuple[Array, tuple[Array, ...]]:
    """``a - b`` as a small core and one orthonormal basis per mode.

    The bases span the columns of both points. The core has the norm of the difference, and its
    size depends only on the two ranks.
    """
    joined = tuple(
        jnp.concatenate([f, g], axis=1) for f, g in zip(a._arrays, b._arrays, strict=True)
    )
    dtype = joined[0].dtype
    ones = jnp.ones(a.factors[0].shape[1], dtype)
    signs = jnp.concatenate([ones, -jnp.ones(b.factors[0].shape[1], dtype)])
    return _compress(joined, signs)


def _compress(
    factors: tuple[AnyArray, ...], weights: Array | None = None
) -> tuple[Array, tuple[Array, ...]]:
    decompositions = [thin_qr(factor) for factor in factors]
    bases = tuple(q for q, _ in decompositions)
    return kruskal_to_dense(tuple(r for _, r in decompositions), weights), bases
