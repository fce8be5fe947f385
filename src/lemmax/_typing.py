"""Names for the kinds of values that pass between layers."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float

if TYPE_CHECKING:
    AnyArray: TypeAlias = Array
else:
    AnyArray: TypeAlias = Array | np.ndarray
"""A JAX array, or a NumPy array that stands in for one: to a type checker they are the same."""

Parameters: TypeAlias = Any
"""A pytree of floating-point arrays: what the optimiser moves."""

RealScalar: TypeAlias = Float[Array, ""]
"""A real number on the device."""

RealLike: TypeAlias = float | int | Array | np.ndarray | np.floating
"""A hyper-parameter: a Python number, or an array when a batch of them is mapped over."""
