"""Dense linear algebra shared by points and maps."""

import string
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from ._typing import RealLike


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``vmap`` run a function of matrices one matrix at a time on a CPU.

    JAX's LAPACK kernels for CPUs distribute a batch over a thread pool, in which they run
    themselves, and wait. If as many batches run at once as there are threads (two, on two cores),
    no thread is left to do the work, and the program deadlocks. Small matrices gain little from
    threads anyway.
    """
    looped = custom_vmap(function)

    @looped.def_vmap
    def rule(axis_size, in_batched, *arrays):
        stacks = [
            array if batched else jnp.broadcast_to(array, (axis_size, *array.shape))
            for array, batched in zip(arrays, in_batched, strict=True)
        ]
        out = jax.lax.platform_dependent(
            *stacks,
            cpu=lambda *stacks: jax.lax.map(lambda arrays: looped(*arrays), stacks),
            default=jax.vmap(function),
        )
        return out, jax.tree.map(lambda _: True, out)

    @jax.custom_jvp
    def wrapped(*arrays):
        return looped(*arrays)

    @wrapped.defjvp
    def derivative(primals, tangents):
        # The vmap rule above has no reverse mode; the function itself has.
        return jax.jvp(function, primals, tangents)

    return wrapped


thin_qr = one_by_one(lambda a: jnp.linalg.qr(a))
"""``a = Q R`` with as many columns in Q as in a."""

upper_factor = one_by_one(lambda a: jnp.linalg.qr(a, mode="r"))
"""R of ``a = Q R`` alone."""

cholesky = one_by_one(lambda a: jnp.linalg.cholesky(a))
"""The lower triangular factor."""

cholesky_solve = one_by_one(lambda factor, b: jax.scipy.linalg.cho_solve((factor, True), b))
"""Solve with a matrix given by its lower triangular factor."""

_svd = one_by_one(lambda a: jnp.linalg.svd(a, full_matrices=False))


def divide_or_zero(a: Array, b: Array) -> Array:
    """``a / b``, and 0 where ``b`` is 0: the pseudo-inverse convention."""
    zero = b == 0
    return jnp.where(zero, 0, a / jnp.where(zero, 1, b))


def thin_svd(a: Float[Array, "d r"]) -> tuple[Array, Array, Array]:
    """``a = U diag(s) Q'`` with numerically zero singular values set to zero.

    The cutoff is at rounding level, ``eps * max(d, r) * s[0]``: smaller values have no correct
    digit, and their inverses would be noise if there is no damping.
    """
    left, s, right = _svd(a)
    cut = jnp.finfo(a.dtype).eps * max(a.shape) * s[:1]
    return left, jnp.where(s > cut, s, 0), right


def coordinates_in(left: Array, s: Array, a: Array) -> Array:
    """The small factor ``U'a = diag(s) Q'`` of a thin SVD, accurate in every column.

    It is computed from a: in the SVD's own ``diag(s) Q'`` the errors of every column are relative
    to the largest one, and zero columns contain noise.
    """
    return jnp.where(s[:, None] > 0, left.T @ a, 0)


def outside_rows(rows: Float[Array, "p r"], a: Float[Array, "k r"]) -> Float[Array, "k r"]:
    """The part of each row of ``a`` orthogonal to orthonormal rows.

    It is exactly zero if the rows are a complete basis: a rounding error would be divided by the
    damping.
    """
    if rows.shape[0] == rows.shape[1]:
        return jnp.zeros_like(a)
    return a - (a @ rows.T) @ rows


def damped_inverse(
    a: Float[Array, "k r"], s: Array, rows: Float[Array, "p r"], damping: RealLike
) -> Float[Array, "k r"]:
    """``a (rows' diag(s^2) rows + damping)^-1`` for orthonormal rows; pseudo-inverse at 0."""
    inside = (a @ rows.T) * divide_or_zero(jnp.ones_like(s), s**2 + damping)[None, :]
    beyond = divide_or_zero(outside_rows(rows, a), jnp.full_like(a, damping))
    return inside @ rows + beyond


def outside(basis: Float[Array, "d p"], a: Float[Array, "d k"]) -> Float[Array, "d k"]:
    """The part of ``a`` orthogonal to an orthonormal basis; projected twice for accuracy."""
    for _ in range(2):
        a = a - basis @ (basis.T @ a)
    return a


def kruskal_to_dense(factors: tuple[Array, ...], weights: Array | None = None) -> Array:
    """The sum over l of ``weights[l]`` times the outer product of the l-th columns."""
    first, *rest = factors
    if weights is not None:
        first = first * weights[None, :]
    if not rest:
        return jnp.sum(first, axis=1)
    if len(rest) == 1:
        return first @ rest[0].T
    unfolded = first @ khatri_rao(tuple(rest)).T
    return unfolded.reshape(tuple(factor.shape[0] for factor in factors))


def khatri_rao(factors: tuple[Array, ...]) -> Array:
    """Column-wise Kronecker product; the index of the last factor runs fastest."""
    product, *rest = factors
    for factor in rest:
        rows = product.shape[0] * factor.shape[0]
        product = (product[:, None, :] * factor[None, :, :]).reshape(rows, -1)
    return product


def contract(tensor: Array, matrices: tuple[Array, ...], skip: int | None = None) -> Array:
    """Multiply every mode ``k != skip`` of a tensor by ``matrices[k].T``.

    The order of modes is kept: entry k of the result's shape is the number of columns of
    ``matrices[k]``, or the length of the mode if it is skipped. The last mode is multiplied first,
    since that product needs no transpose of the large array.
    """
    for k in reversed(range(tensor.ndim)):
        if k != skip:
            tensor = jnp.moveaxis(jnp.tensordot(tensor, matrices[k], axes=((k,), (0,))), -1, k)
    return tensor


def unfold(tensor: Array, mode: int) -> Array:
    """Matrix whose rows are the given mode, columns the other modes in their order."""
    return jnp.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def mttkrp(tensor: Array, factors: tuple[Array, ...], mode: int) -> Array:
    """Matricised tensor times Khatri-Rao product of all factors but the one of ``mode``."""
    letters = string.ascii_lowercase[: tensor.ndim]
    others = [letters[k] + "z" for k in range(tensor.ndim) if k != mode]
    operands = [factors[k] for k in range(tensor.ndim) if k != mode]
    return jnp.einsum(f"{letters},{','.join(others)}->{letters[mode]}z", tensor, *operands)
