"""Sentences for the numbers a method is given."""

import math
from typing import Any

import numpy as np

from .._checks import check_real


def check_finite(**values: Any) -> None:
    """Raise a sentence unless every value is a finite number; traced values pass."""
    for name, value in values.items():
        check_real(-math.inf, **{name: value})
        if isinstance(value, (list, tuple, dict)):
            raise ValueError(f"{name} must be a number; got {value!r}.")
        if isinstance(value, (int, float, np.floating, np.integer)) and math.isinf(value):
            raise ValueError(f"{name} must be finite; got {value!r}.")


def check_sizes(**sizes: Any) -> None:
    """Raise a sentence unless every size is a finite number above 0."""
    check_finite(**sizes)
    check_real(0, open_low=True, **sizes)


def check_dampings(**values: Any) -> None:
    """Raise a sentence unless every value is a finite number, 0 or above."""
    check_finite(**values)
    check_real(0, **values)


def check_target(target: Any) -> None:
    """Raise a sentence unless the target is a finite number, or None where none is known."""
    if target is not None:
        check_finite(target=target)
