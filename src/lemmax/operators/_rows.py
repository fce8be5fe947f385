"""Measurement arrays that are too large to be copied."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float

from .._checks import as_whole, check_positive
from .._dtype import aligned_empty, precision_context
from .._memory import require_memory

Operator = TypeVar("Operator")
Fill = Callable[[np.ndarray], Any]

# Small compared to an array that must not be copied, large compared to the cost of a call.
_BLOCK_BYTES = 2**26


def filled_rows(measurements: int, shape: tuple[int, ...], fill: Fill, dtype: Any) -> Array:
    """Allocate a device array (m, n) once and fill it block by block, without a copy.

    ``fill`` gets consecutive blocks of shape ``(k, *shape)`` and writes into them.
    """
    check_positive(measurements=measurements, **{f"dimension {k}": d for k, d in enumerate(shape)})
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}.")
    whole = (as_whole(measurements), *map(as_whole, shape))
    cure = "{rows} measurements would fit; float32 doubles that."
    require_memory(whole, np.dtype(dtype).itemsize, "The measurement array", cure)
    rows = aligned_empty(whole, dtype)
    at_a_time = max(1, _BLOCK_BYTES * len(rows) // rows.nbytes)
    for start in range(0, len(rows), at_a_time):
        fill(rows[start : start + at_a_time])
    flat = rows.reshape(len(rows), math.prod(whole[1:]))
    with precision_context(flat):
        return jax.device_put(flat)


def measured(rows: Float[Array, "m n"], entries: Float[Array, "n"]) -> Float[Array, "m"]:
    """The product of the stored rows with a point's entries.

    Under vmap there is one column per lane. The barrier prevents XLA from turning this into a
    transposed product, which its CPU backend computes six times slower for a few lanes of a
    large array.
    """
    return jax.lax.optimization_barrier(rows @ entries)


def assembled(kind: type[Operator], **fields: Any) -> Operator:
    """Create an operator from its fields, bypassing its initialiser."""
    operator = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(operator, name, value)
    return operator
