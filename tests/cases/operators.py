"""One line per operator and point for the law checks."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from lemmax.operators import AbstractOperator, Dense, Entries, Identity, RankOne, SymmetricDense
from lemmax.points import AbstractPoint, DensePoint, KruskalPoint

_rng = np.random.default_rng(20)


def _normal(*shape):
    return jnp.asarray(_rng.standard_normal(shape))


def _kruskal(*dims):
    return KruskalPoint(tuple(_normal(d, 2) for d in dims))


def _symmetric(dim, order):
    return KruskalPoint((_normal(dim, 2),) * order)


def _entries(count, *dims):
    """Few entries of a large array: in no order, and with some of them twice."""
    rows = np.stack([_rng.integers(d, size=count) for d in dims], axis=1)
    return Entries(np.concatenate([rows, rows[:2]]), dims)


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
    OperatorCase("RankOne-quadratic", RankOne(_normal(5, 4)), _symmetric(4, 2)),
    OperatorCase("RankOne-quadratic-unsymmetric-point", RankOne(_normal(5, 4)), _kruskal(4, 4)),
    OperatorCase("RankOne-quadratic-dense", RankOne(_normal(5, 4)), DensePoint(_normal(4, 4))),
    OperatorCase("RankOne-bilinear", RankOne(_normal(5, 3), _normal(5, 4)), _kruskal(3, 4)),
    OperatorCase(
        "RankOne-bilinear-square", RankOne(_normal(5, 3), _normal(5, 3)), _symmetric(3, 2)
    ),
    OperatorCase(
        "RankOne-bilinear-dense", RankOne(_normal(5, 3), _normal(5, 4)), DensePoint(_normal(3, 4))
    ),
    OperatorCase("Entries-matrix", _entries(20, 15, 12), _kruskal(15, 12)),
    OperatorCase("Entries-matrix-crowded", _entries(9, 3, 4), _kruskal(3, 4)),
    OperatorCase("Entries-symmetric-point", _entries(20, 12, 12), _symmetric(12, 2)),
    OperatorCase("Entries-dense-point", _entries(20, 15, 12), DensePoint(_normal(15, 12))),
    OperatorCase("Entries-one-full-row", Entries(([1] * 20, range(20)), (9, 20)), _kruskal(9, 20)),
    OperatorCase(
        "Entries-all-of-a-matrix", Entries.from_mask(np.ones((3, 4), bool)), _kruskal(3, 4)
    ),
    OperatorCase("Entries-tensor", _entries(20, 8, 9, 10), _kruskal(8, 9, 10)),
    OperatorCase("Entries-tensor-crowded", _entries(9, 2, 3, 4), _kruskal(2, 3, 4)),
    OperatorCase("Entries-symmetric-tensor", _entries(20, 9, 9, 9), _symmetric(9, 3)),
    OperatorCase("Entries-order-4", _entries(20, 4, 5, 6, 7), _kruskal(4, 5, 6, 7)),
]
