"""Conversion of a truth's parameters, and of positions of corrupted data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._dtype import require_finite, to_device
from .._tree import is_traced
from .._typing import Parameters
from ..maps import AbstractMap
from ..points import AbstractPoint, KruskalPoint


def as_parameters(map: AbstractMap, given: Any, what: str) -> Parameters:
    """Parameters as floating-point arrays of the map's shapes; traced ones pass.

    Lists are converted as in `lemmax.solve`. A factored point, such as the truth of an instance,
    is converted by padding its factors with zero columns.
    """
    if isinstance(given, AbstractPoint):
        given = _padded(map, given, what)
    shapes = map.parameter_shapes
    flat = shapes is not None and not isinstance(shapes[0], tuple)
    if flat and isinstance(given, (list, tuple)):
        given = _array(given, what)
    elif isinstance(given, list):
        given = tuple(given)
    if shapes is not None and isinstance(given, tuple):
        given = tuple(_array(factor, what) for factor in given)
    found = jax.tree.map(_floating, given)
    actual = jax.tree.map(jnp.shape, found)
    if shapes is not None and actual != shapes:
        raise ValueError(
            f"{type(map).__name__} takes parameters of shape {shapes}, but {what} has {actual}."
        )
    require_finite(found, f"The parameters of {what}")
    return found


def corrupted_positions(corrupted: Any, measurements: int) -> np.ndarray:
    """Positions of corrupted measurements, checked."""
    positions = np.asarray(corrupted)
    if positions.dtype == bool and positions.shape == (measurements,):
        return np.flatnonzero(positions)
    whole = positions.size == 0 or positions.dtype.kind in "iu"
    if not whole or np.any(positions < 0) or np.any(positions >= measurements):
        raise ValueError(
            f"corrupted must contain positions of measurements, integers from 0 to "
            f"{measurements - 1}; got {corrupted!r}."
        )
    return np.ravel(positions).astype(int)


def _array(given: Any, what: str) -> Any:
    if is_traced(given) or hasattr(given, "shape"):
        return given
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The parameters of {what} are not numeric: {error}.") from error


def _floating(leaf: Any) -> Any:
    if is_traced(leaf):
        return leaf
    # NumPy arrays are kept: outside of an x64 context JAX would truncate them later. Inside jit, a
    # number on the device would be traced.
    with jax.ensure_compile_time_eval():
        found = to_device(leaf)
        return found if isinstance(leaf, jax.Array) else np.asarray(found)


def _padded(map: AbstractMap, point: AbstractPoint, what: str) -> Parameters:
    ranked = map.ranked
    if not isinstance(point, KruskalPoint) or ranked is None:
        raise ValueError(
            f"{type(map).__name__} takes parameters, but {what} is a {type(point).__name__}: pass "
            "the parameters of this point."
        )
    columns = point.factors[0].shape[1]
    if columns > ranked.rank:
        raise ValueError(
            f"{type(map).__name__} has rank {ranked.rank}, but {what} has {columns} columns; pass "
            "the parameters of this point."
        )
    factors = tuple(
        np.pad(np.asarray(factor), ((0, 0), (0, ranked.rank - columns))) for factor in point.factors
    )
    if not ranked.symmetric:
        return factors
    order = len(ranked.shape or ())
    if len(factors) != order or any(not np.array_equal(f, factors[0]) for f in factors):
        raise ValueError(
            f"{type(map).__name__} has equal factors, but those of {what} differ; pass the "
            "parameters of this point."
        )
    return factors[0]
