"""The default Jacobian."""

from ._base import AbstractJacobian
from .dense import Dense
from .products import Products

# Jacobians with more bytes than this are not formed by default.
_DENSE_BYTES = 3e7


def chosen_jacobian(
    asked: AbstractJacobian | None, observations: int, parameters: int, itemsize: int = 8
) -> AbstractJacobian:
    """The given Jacobian, or one chosen by the size of the dense matrix."""
    if asked is not None:
        return asked
    return Dense() if observations * parameters * itemsize <= _DENSE_BYTES else Products()
