"""One line per operator and point for the law checks."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from lemmax.operators import AbstractOperator, Dense, Identity, SymmetricDense
from lemmax.points import AbstractPoint, DensePoint, KruskalPoint

_rng = np.random.default_rng(20)


def _normal(*shape):
    return jnp.asarray(_rng.standard_normal(shape))


def _kruskal(*dims):
    return KruskalPoint(tuple(_normal(d, 2) for d in dims))


def _symmetric(dim, order):
    return KruskalPoint((_normal(dim, 2),) * order)


class OperatorCase(NamedTuple):
    name: str
    operator: AbstractOperator
    point: AbstractPoint


OPERATORS = [
    OperatorCase("Identity-vector", Identity(), DensePoint(_normal(4))),
    OperatorCase("Identity-matrix", Identity(), _kruskal(3, 4)),
    OperatorCase("Identity-tensor", Identity(), _symmetric(3, 3)),
    OperatorCase("Identity-pytree", Identity(), DensePoint({"a": _normal(2, 3), "b": _normal(4)})),
    OperatorCase("Dense-vector", Dense(_normal(5, 4)), DensePoint(_normal(4))),
    OperatorCase("Dense-matrix", Dense(_normal(5, 3, 4)), _kruskal(3, 4)),
    OperatorCase("Dense-square", Dense(_normal(5, 3, 3)), _symmetric(3, 2)),
    OperatorCase("Dense-tensor", Dense(_normal(5, 2, 3, 4)), _kruskal(2, 3, 4)),
    OperatorCase("SymmetricDense-matrix", SymmetricDense(_normal(5, 4, 4)), _symmetric(4, 2)),
    OperatorCase("SymmetricDense-tensor", SymmetricDense(_normal(5, 3, 3, 3)), _symmetric(3, 3)),
    OperatorCase(
        "SymmetricDense-order-4", SymmetricDense(_normal(5, 2, 2, 2, 2)), _symmetric(2, 4)
    ),
    OperatorCase(
        "SymmetricDense-numpy", SymmetricDense(np.asarray(_normal(5, 4, 4))), _symmetric(4, 2)
    ),
    OperatorCase(
        "SymmetricDense-packed-matrix",
        SymmetricDense.from_packed(_normal(5, 10), dim=4),
        _symmetric(4, 2),
    ),
    OperatorCase(
        "SymmetricDense-packed-tensor",
        SymmetricDense.from_packed(_normal(5, 10), dim=3, order=3),
        _symmetric(3, 3),
    ),
]
