"""Vector-space operations on pytrees of arrays."""

import functools
import operator

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, PyTree

from ._typing import RealScalar


def tree_dot(a: PyTree, b: PyTree) -> RealScalar:
    """Inner product, summed over all leaves."""
    products = jax.tree.map(lambda u, v: jnp.sum(u * v), a, b)
    return functools.reduce(operator.add, jax.tree.leaves(products))


def tree_max_abs(a: PyTree) -> RealScalar:
    """Largest magnitude over all leaves."""
    magnitudes = [jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(a)]
    return functools.reduce(jnp.maximum, magnitudes)


def tree_norm(a: PyTree) -> RealScalar:
    """Euclidean norm, safe from overflow and underflow, zero (not NaN) at zero."""
    scale = tree_max_abs(a)
    usable = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    scaled = jax.tree.map(lambda u: u / usable, a)
    return jnp.where(scale > 0, usable * jnp.sqrt(tree_dot(scaled, scaled)), scale)


def tree_move(x: PyTree, length: RealScalar, direction: PyTree) -> PyTree:
    """Return ``x - length * direction``."""
    return jax.tree.map(lambda u, d: u - length * d, x, direction)


def tree_where(condition: Bool[Array, ""], a: PyTree, b: PyTree) -> PyTree:
    """Select all of ``a`` or all of ``b``; NaN in the other one does not leak."""
    return jax.tree.map(lambda u, v: jnp.where(condition, u, v), a, b)


def tree_all_finite(a: PyTree) -> Bool[Array, ""]:
    """Whether all leaves are finite."""
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(a)]
    return functools.reduce(jnp.logical_and, finite)


def is_traced(tree: PyTree) -> bool:
    """Whether any leaf is a tracer: inside ``jit``, ``vmap`` or ``grad``."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
