"""Components of a factored matrix or tensor, and the rows that have one for themselves."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .tensors import term_columns

# A vector that lives on fewer than these many rows, and part of all rows, fits their outliers.
# Of short vectors less is asked: a part of their length.
_FEW_ROWS, _PART_OF_ROWS, _SHORT = 4, 0.02, 6
_ROUNDING = 1e-10


class Components(NamedTuple):
    """Singular triples of a matrix."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def standing(cls, left: np.ndarray, right: np.ndarray) -> "Components":
        """Those of a product ``left right'`` that are more than rounding errors."""
        (left, first), (right, second) = np.linalg.qr(left), np.linalg.qr(right)
        inner_left, values, inner_right = np.linalg.svd(first @ second.T, full_matrices=False)
        kept = values > _ROUNDING * max(values[0], np.finfo(float).tiny)
        return cls(left @ inner_left[:, kept], values[kept], right @ inner_right[kept].T)

    def spread(self) -> np.ndarray:
        """Which live on more than a few rows, and columns: others fit the outliers of those."""
        spread = np.ones(len(self.values), bool)
        for vectors in (self.left, self.right):
            rows = len(vectors)
            needed = min(rows / _SHORT, max(_FEW_ROWS, _PART_OF_ROWS * rows))
            participation = 1 / np.maximum(np.sum(vectors**4, axis=0), np.finfo(float).tiny)
            spread &= participation >= needed
        return spread


def unfoldings(factors: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A matrix or tensor as a matrix with each mode as its rows: the factors of both sides."""
    for mode, factor in enumerate(factors):
        others = tuple(other for k, other in enumerate(factors) if k != mode)
        yield factor, term_columns(others)


def lonely_lines(factors: Sequence[np.ndarray], leverage: float) -> tuple[list[int], ...]:
    """Rows and columns (of a tensor: slices along each mode) that have a component for themselves.

    Their leverage on the column space is above a level near 1. Of so few rows that there are
    hardly more than components, none: they have no other choice.
    """
    lines = []
    for pair in unfoldings(factors):
        left = Components.standing(*pair).left
        lonely = np.flatnonzero(np.sum(left**2, axis=1) > leverage).tolist()
        lines.append(lonely if len(left) > left.shape[1] + 1 else [])
    return tuple(lines)
