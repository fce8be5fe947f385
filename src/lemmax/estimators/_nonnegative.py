"""Nonnegative factors: a fit of squares, from a start that a fit without signs gives."""

from typing import Any

import numpy as np

from ..maps import CP, Composed, LowRank, Squares
from ..recovery._components_of_entries import components_of
from ._base import Observed, RecoveringEstimator

# Entries of a start, relative to the mean: the derivative of a square vanishes at 0.
_LEAST = 1e-2


def fit_nonnegative(
    estimator: RecoveringEstimator, observed: Observed, factors: tuple[np.ndarray, ...], rank: int
) -> tuple[Any, ...]:
    """Nonnegative factors near given ones, and where the data are wrong."""
    if estimator.status_ == "INTERRUPTED":
        raise KeyboardInterrupt
    rank = min(rank, factors[0].shape[1])
    shape = tuple(len(factor) for factor in factors)
    outer = LowRank(shape, rank) if len(shape) == 2 else CP(shape, rank)
    start = _positive_parts(factors, rank)
    found = estimator._recover(
        observed.operator,
        observed.data,
        Composed(outer, Squares()),
        observed.weights,
        x0=tuple(np.sqrt(factor) for factor in start),
        restarts=0,
    )
    squares = tuple(np.asarray(leaf, np.float64) ** 2 for leaf in found.x)
    return *squares, observed.outliers(found)


def _positive_parts(factors: tuple[np.ndarray, ...], rank: int) -> tuple[np.ndarray, ...]:
    """Of every term the larger of its positive and its negative part (Boutsidis, Gallopoulos).

    A matrix is decomposed into its singular vectors first: its factors are no more than a basis.
    """
    if len(factors) == 2:
        shape = len(factors[0]), len(factors[1])
        found = components_of(LowRank(shape, factors[0].shape[1]), factors, rank)
        factors = found.left * np.sqrt(found.values), found.right * np.sqrt(found.values)
    columns = []
    for term in range(rank):
        vectors = [factor[:, term] for factor in factors]
        parts = [[np.maximum(sign * v, 0) for v in vectors] for sign in (1, -1)]
        if len(vectors) > 2:  # an odd number of signs may be flipped in pairs only
            parts = [[_dominant(v) for v in vectors]]
        columns.append(max(parts, key=lambda p: np.prod([np.linalg.norm(v) for v in p])))
    filled = []
    for mode, factor in enumerate(factors):
        column = np.stack([each[mode] for each in columns], axis=1)
        filled.append(np.maximum(column, _LEAST * np.mean(np.abs(factor))))
    return tuple(filled)


def _dominant(vector: np.ndarray) -> np.ndarray:
    up, down = np.maximum(vector, 0), np.maximum(-vector, 0)
    return up if np.linalg.norm(up) >= np.linalg.norm(down) else down
