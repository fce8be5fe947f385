"""Checks of arguments, with clear messages. Traced values pass, since they are not known."""

import operator
import sys
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np


def as_whole(number: Any) -> Any:
    """Convert any type of integer to int; other values are left for `check_positive` to refuse."""
    if isinstance(number, bool):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return number


def check_positive(**sizes: Any) -> None:
    """Raise an error unless every size is an integer of at least 1."""
    check_whole(1, **sizes)


def check_whole(least: int, **sizes: Any) -> None:
    """Raise an error unless every size is an integer of at least ``least``."""
    for name, size in sizes.items():
        size = as_whole(size)
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ValueError(f"{name} must be a whole number of at least {least}; got {size!r}.")


def check_real(low: float, high: float = float("inf"), *, open_low: bool = False, **values: Any):
    """Raise an error unless every value is a real number between two bounds."""
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


def check_level(level: Any) -> None:
    """Raise an error unless a level of confidence is above 0 and below 1."""
    check_real(0, 1, open_low=True, level=level)
    if level == 1:
        raise ValueError("level must be below 1: no finite interval is certain.")


def describe(thing: Any) -> str:
    """A short description of an argument of the wrong type."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}: did you mean {thing.__name__}()?"
    if getattr(thing, "__name__", "<").startswith("<"):
        return f"a {type(thing).__name__}"
    return f"the function {thing.__name__}: did you mean {thing.__name__}()?"


def check_kind(name: str, thing: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise an error unless an argument has the expected type."""
    if not isinstance(thing, kind):
        raise TypeError(f"{name} must be {what}; got {describe(thing)}.")


def first_few(names: Iterable[str], most: int, between: str = ", ") -> str:
    """The first names and the number of the others, as in ``a, b and 3 more``."""
    names = list(names)
    more = len(names) - most
    return between.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def warn_user(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the user's code that called lemmax, at any depth."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level)


# Modules between the user's code and a warning.
_INSIDE = ("lemmax", "sklearn", "beartype", "jaxtyping")
