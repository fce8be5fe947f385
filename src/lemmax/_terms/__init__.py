"""Sums of outer products in NumPy: unfoldings, Tucker form, and the terms of a given tensor."""

from .decompose import decompose, leading_terms
from .tensors import (
    Tucker,
    balanced,
    leading_vectors,
    multiplied,
    nearest_tucker,
    outer_products,
    term_columns,
    unfolded,
)

__all__ = [
    "Tucker",
    "balanced",
    "decompose",
    "leading_terms",
    "leading_vectors",
    "multiplied",
    "nearest_tucker",
    "outer_products",
    "term_columns",
    "unfolded",
]
