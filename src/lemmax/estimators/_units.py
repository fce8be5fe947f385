"""Columns of a table in units of their own."""

from typing import Any

import numpy as np

# Spreads that differ by more than this are those of different units.
_DIFFERENT = 100.0
# Noise that differs by more than this between columns is worth another fit.
_UNEVEN = 3.0


def units_of(table: np.ndarray, scale: Any, centred: bool) -> np.ndarray:
    """The unit of every column: its median deviation, or one for all."""
    if scale not in ("auto", True, False):
        raise ValueError(f"scale must be 'auto', True or False, got {scale!r}.")
    ones = np.ones(table.shape[1])
    if not scale:
        return ones
    middle = np.nanmedian(table, axis=0) if centred else 0.0
    spread = np.nanmedian(np.abs(table - middle), axis=0)
    known = spread > 0
    if not np.any(known):
        return ones
    # A column of which most entries are the same has no spread of its own.
    units = np.where(known, spread, np.median(spread[known]))
    if scale == "auto" and np.max(units) <= _DIFFERENT * np.min(units):
        return ones
    return units


def equalised(units: np.ndarray, residual: np.ndarray, noise: float) -> np.ndarray | None:
    """Units in which all columns have the same noise, if those at hand are not such units.

    None if nothing was scaled, or the noise is even, or there is none.
    """
    if np.all(units == 1) or not (np.isfinite(noise) and noise > 0):
        return None
    typical = np.nanmedian(np.abs(residual), axis=0)
    # A column that is fitted perfectly may be so by chance: its noise is not taken to be nothing.
    typical = np.maximum(typical, np.median(typical) / _UNEVEN)
    if np.min(typical) == 0 or np.max(typical) <= _UNEVEN * np.min(typical):
        return None
    return units * typical / np.median(typical)
