"""Components of a factored matrix or tensor, and rows with high leverage on one of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .tensors import term_columns

_ROUNDING = 1e-10


class Components(NamedTuple):
    """Singular triples of a matrix."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def standing(cls, left: np.ndarray, right: np.ndarray) -> "Components":
        """The components of a product ``left right'`` above rounding errors."""
        (left, first), (right, second) = np.linalg.qr(left), np.linalg.qr(right)
        inner_left, values, inner_right = np.linalg.svd(first @ second.T, full_matrices=False)
        kept = values > _ROUNDING * max(values[0], np.finfo(float).tiny)
        return cls(left @ inner_left[:, kept], values[kept], right @ inner_right[kept].T)


def unfoldings(factors: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The factors of the unfolding along each mode."""
    for mode, factor in enumerate(factors):
        others = tuple(other for k, other in enumerate(factors) if k != mode)
        yield factor, term_columns(others)


def lonely_lines(factors: Sequence[np.ndarray], leverage: float) -> tuple[list[int], ...]:
    """Rows and columns (for a tensor: slices along each mode) that determine a component alone.

    Their leverage on the column space is above a threshold near 1. None is returned if there are
    hardly more rows than components, since all leverages are high then.
    """
    lines = []
    for pair in unfoldings(factors):
        left = Components.standing(*pair).left
        lonely = np.flatnonzero(np.sum(left**2, axis=1) > leverage).tolist()
        lines.append(lonely if len(left) > left.shape[1] + 1 else [])
    return tuple(lines)
