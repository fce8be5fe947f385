"""Names for the kinds of values that pass between layers."""

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float

Parameters: TypeAlias = Any
"""A pytree of floating-point arrays: what the optimiser moves."""

RealScalar: TypeAlias = Float[Array, ""]
"""A real number on the device."""

RealLike: TypeAlias = float | int | Array | np.ndarray | np.floating
"""A hyper-parameter: a Python number, or an array when a batch of them is mapped over."""
