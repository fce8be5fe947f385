"""Components of a factored matrix or tensor."""

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
