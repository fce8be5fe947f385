"""Sums of outer products in NumPy: unfoldings, Tucker form, CP decomposition."""

from .components import Components, unfoldings
from .decompose import decompose, leading_terms
from .tensors import (
    Tucker,
    balanced,
    leading_vectors,
    mode_order,
    multiplied,
    nearest_tucker,
    outer_products,
    term_columns,
    unfolded,
)

__all__ = [
    "Components",
    "Tucker",
    "balanced",
    "decompose",
    "leading_terms",
    "leading_vectors",
    "mode_order",
    "multiplied",
    "nearest_tucker",
    "outer_products",
    "term_columns",
    "unfolded",
    "unfoldings",
]
