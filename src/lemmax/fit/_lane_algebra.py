"""Losses, products and solutions of linear systems for many lanes at once, in compiled programs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def loss_of(shape: Array, residual: Array, scale: Array) -> tuple[Array, Array]:
    """Twice the loss, and the weights of squares with its slope; as `_losses.Loss`.

    The shape is known only when the program runs: one program serves for all three.
    """

    def plain():
        return residual**2, jnp.ones_like(residual)

    def absolute():
        root = jnp.sqrt((residual / scale) ** 2 + 1)
        return 2 * scale**2 * (root - 1), 1 / root

    def redescending():
        fall = 1 / ((residual / scale) ** 2 / 4 + 1)
        return 4 * scale**2 * (1 - fall), fall**2

    return jax.lax.switch(shape, (plain, absolute, redescending))


def products(rows: Any, weights: Array) -> tuple[Array, Array]:
    """Weighted products of the columns of the Jacobian with each other and with the residual.

    Either one array of them all, or a list of arrays, one for each.
    """
    p = len(rows) - 1 if isinstance(rows, list) else rows.shape[1] - 1
    if not isinstance(rows, list):
        products = [
            jnp.einsum("ln,lkn->lk", rows[:, k] * weights, rows, precision="highest")
            for k in range(p)
        ]
        gram = jnp.stack([product[:, :p] for product in products], axis=1)
        return gram, jnp.stack([product[:, p] for product in products], axis=1)
    weighted, one = [row * weights for row in rows[:p]], np.ones(weights.shape[1])
    upper = {(j, k): (weighted[j] * rows[k]) @ one for j in range(p) for k in range(j, p + 1)}
    gram = [[upper[min(j, k), max(j, k)] for k in range(p)] for j in range(p)]
    slope = jnp.stack([upper[j, p] for j in range(p)], axis=1)
    return jnp.stack([jnp.stack(row, axis=1) for row in gram], axis=1), slope


def leverages(rows: Any, inverse: Array) -> Array:
    """Those of all data, of which `rows` are as for `products`."""
    p = inverse.shape[1]
    if not isinstance(rows, list):
        return jnp.einsum("ljn,ljk,lkn->ln", rows[:, :p], inverse, rows[:, :p], precision="highest")
    total = jnp.zeros_like(rows[p])
    for j in range(p):
        for k in range(j, p):
            total += inverse[:, j, k, None] * (1 if j == k else 2) * (rows[j] * rows[k])
    return total


def solve(matrix: Array, vector: Array) -> Array:
    """Solve positive definite systems by elimination, all lanes at once."""
    p = vector.shape[1]
    rows = jnp.concatenate([matrix, vector[:, :, None]], axis=2)
    for k in range(p):
        pivot = rows[:, k : k + 1] / rows[:, k : k + 1, k : k + 1]
        rest = rows - rows[:, :, k : k + 1] * pivot
        rows = jnp.where((np.arange(p) == k)[None, :, None], pivot, rest)
    return rows[:, :, p]
