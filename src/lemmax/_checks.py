"""Sentences for arguments that cannot be right. Traced values pass: they are not known yet."""

import operator
import sys
import warnings
from typing import Any

import numpy as np


def as_whole(number: Any) -> Any:
    """Turn any kind of integer into an int; leave the rest for `check_positive` to refuse."""
    if isinstance(number, bool):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return number


def check_positive(**sizes: Any) -> None:
    """Raise a sentence unless every size is a whole number of at least 1."""
    check_whole(1, **sizes)


def check_whole(least: int, **sizes: Any) -> None:
    """Raise a sentence unless every size is a whole number of at least ``least``."""
    for name, size in sizes.items():
        size = as_whole(size)
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ValueError(f"{name} must be a whole number of at least {least}; got {size!r}.")


def check_real(low: float, high: float = float("inf"), *, open_low: bool = False, **values: Any):
    """Raise a sentence unless every value is a real number between two bounds."""
    for name, value in values.items():
        if isinstance(value, (str, bytes, bool)) or value is None or callable(value):
            raise ValueError(f"{name} must be a number; got {value!r}.")
        if not isinstance(value, (int, float, np.floating, np.integer)):
            continue  # an array of hyper-parameters, or a tracer
        inside = (low < value if open_low else low <= value) and value <= high
        if not inside:
            above = f"above {low:g}" if open_low else f"at least {low:g}"
            below = "" if high == float("inf") else f" and at most {high:g}"
            raise ValueError(f"{name} must be {above}{below}; got {value!r}.")


def describe(thing: Any) -> str:
    """What a misplaced argument is, in a few words."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}: did you mean {thing.__name__}()?"
    if getattr(thing, "__name__", "<").startswith("<"):
        return f"a {type(thing).__name__}"
    return f"the function {thing.__name__}: did you mean {thing.__name__}()?"


def check_kind(name: str, thing: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise a sentence unless a thing is of the kind it ought to be."""
    if not isinstance(thing, kind):
        raise TypeError(f"{name} must be {what}; got {describe(thing)}.")


def warn_user(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the user's code that led here, however deep."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level)


# Modules between the user's code and a warning.
_INSIDE = ("lemmax", "sklearn", "beartype", "jaxtyping")
