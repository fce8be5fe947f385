"""Measurement arrays too large to exist twice."""

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

# A block is small beside an array for which this matters, and large beside a call.
_BLOCK_BYTES = 2**26


def filled_rows(measurements: int, shape: tuple[int, ...], fill: Fill, dtype: Any) -> Array:
    """Allocate once, fill block by block, hand over to JAX: a device array (m, n), no copy.

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

    Under vmap it has one column for each lane. The barrier keeps the lanes from becoming the rows
    of a transposed product instead, which XLA's CPU backend computes six times slower for a few
    lanes of a large array.
    """
    return jax.lax.optimization_barrier(rows @ entries)


def assembled(kind: type[Operator], **fields: Any) -> Operator:
    """An operator from its fields, past an initialiser that takes something else."""
    operator = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(operator, name, value)
    return operator
