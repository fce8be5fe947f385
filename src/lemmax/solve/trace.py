"""The trace of a run, one row per iterate, in arrays of fixed size."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..methods._base import PASSES_OF_AN_EVALUATION


class Trace(eqx.Module):
    """The history of a run.

    Row k describes the k-th iterate (row 0 the start) and the step taken from it; no step is taken
    from the last row.
    """

    value: Float[Array, " *rows"]
    """Objective."""
    step: Float[Array, " *rows"]
    """Length given by the step rule."""
    damping: Float[Array, " *rows"]
    """Damping given by the damping rule."""
    movement: Float[Array, " *rows"]
    """Change of x, relative to its norm."""
    iterations: Int[Array, " *rows"]
    """Inner iterations of the linear solver; -1 if no step was taken."""
    passes: Int[Array, " *rows"]
    """Passes over the measurements for this iterate and the step from it."""
    metrics: dict[str, Array]
    """The user's metrics."""

    @property
    def passes_to_reach(self) -> np.ndarray:
        """Cumulative passes over the measurements, up to and including each iterate."""
        passes = np.asarray(self.passes)
        return np.cumsum(passes) - passes + PASSES_OF_AN_EVALUATION


def columns_of_trace(metrics: Mapping[str, Any]) -> int:
    """The number of columns of a trace."""
    return 6 + len(metrics)


def empty_trace(rows: int, dtype: Any, metrics: Mapping[str, Any]) -> Trace:
    """A trace with empty rows."""
    blank = jnp.full((rows,), jnp.nan, dtype)
    return Trace(
        value=blank,
        step=blank,
        damping=blank,
        movement=blank,
        iterations=jnp.full((rows,), -1, jnp.int32),
        passes=jnp.zeros((rows,), jnp.int32),
        metrics={name: jnp.full((rows,), jnp.nan, dtype) for name in metrics},
    )


def record(trace: Trace, row: Int[Array, ""], entries: Trace) -> Trace:
    """Write one row."""

    def write(column: Array, entry: Array) -> Array:
        return jax.lax.dynamic_update_index_in_dim(column, entry.astype(column.dtype), row, 0)

    return jax.tree.map(write, trace, entries)


def cut_trace(trace: Trace, rows: int) -> Trace:
    """Keep the first rows.

    On the host, since the device would compile a program for every number of rows.
    """
    return jax.tree.map(lambda column: jax.device_put(np.asarray(column)[:rows]), trace)
