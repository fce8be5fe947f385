"""Type aliases shared by all layers."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float

if TYPE_CHECKING:
    AnyArray: TypeAlias = Array
else:
    AnyArray: TypeAlias = Array | np.ndarray
"""A JAX or NumPy array; for a type checker both are the same."""

Parameters: TypeAlias = Any
"""A pytree of floating-point arrays: the optimisation variables."""

RealScalar: TypeAlias = Float[Array, ""]
"""A real scalar on the device."""

RealLike: TypeAlias = float | int | Array | np.ndarray | np.floating
"""A hyper-parameter: a Python number, or an array of them under vmap."""
