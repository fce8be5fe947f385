"""Which Jacobian, if none is asked for."""

from ._base import AbstractJacobian
from .dense import Dense
from .products import Products

# A Jacobian of more bytes is not formed unless asked for.
_DENSE_BYTES = 3e7


def chosen_jacobian(
    asked: AbstractJacobian | None, observations: int, parameters: int, itemsize: int = 8
) -> AbstractJacobian:
    """The one asked for, or by the bytes that a dense one takes."""
    if asked is not None:
        return asked
    return Dense() if observations * parameters * itemsize <= _DENSE_BYTES else Products()
