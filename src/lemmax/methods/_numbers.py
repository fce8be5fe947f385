"""Checks of the numbers that a method takes."""

import math
from typing import Any

import numpy as np

from .._checks import check_real, describe
from .._tree import is_traced


def check_finite(**values: Any) -> None:
    """Raise an error unless every value is a finite number; traced values pass."""
    for name, value in values.items():
        check_real(-math.inf, **{name: value})
        known = isinstance(value, (int, float)) or hasattr(value, "dtype")
        if not known and not is_traced(value):
            raise ValueError(f"{name} must be a number; got {describe(value)}.")
        if isinstance(value, (int, float, np.floating, np.integer)) and math.isinf(value):
            raise ValueError(f"{name} must be finite; got {value!r}.")


def check_sizes(**sizes: Any) -> None:
    """Raise an error unless every size is finite and positive."""
    check_finite(**sizes)
    check_real(0, open_low=True, **sizes)


def check_dampings(**values: Any) -> None:
    """Raise an error unless every value is finite and nonnegative."""
    check_finite(**values)
    check_real(0, **values)


def check_target(target: Any) -> None:
    """Raise an error unless the target is a finite number or None."""
    if target is not None:
        check_finite(target=target)
