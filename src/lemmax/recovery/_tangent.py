"""Whether the observations determine a point: what they see of its tangents."""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from scipy import sparse
from scipy.sparse import csgraph

from .._programs import compiled
from .._typing import Parameters
from ..maps import AbstractMap, AbstractRankedMap
from ..operators import AbstractOperator
from ..problem import Composite
from . import _constants as constants

Places = tuple[np.ndarray, ...]
"""Indices of entries, one array for each mode."""


class Tangent(NamedTuple):
    """How well the observations see the directions in which a point can move."""

    freedom: int
    """Dimension of the tangent space."""
    weakest: float
    """Smallest gain of the observations on a tangent of norm 1, relative to the largest."""
    error: float
    """Norm of the error of the point for independent errors of size 1 in the observations."""


def tangent_of_matrix(
    map: AbstractMap, x: Parameters, matrix: Array, used: np.ndarray, freedom: int | None
) -> Tangent:
    """Compare ``B'WB`` with ``J'J``; ``freedom`` is the rank of J where that is known."""
    weights = jnp.asarray(used, matrix.dtype)
    inner, outer = (np.asarray(a, np.float64) for a in _grams(map, x, matrix, weights))
    return _compared(inner, outer, freedom)


def _compared(inner: np.ndarray, outer: np.ndarray, freedom: int | None) -> Tangent:
    """What is seen of the tangents, relative to what there is."""
    lengths, vectors = np.linalg.eigh(outer)
    if freedom is None:
        freedom = int(np.sum(lengths > constants.LEAST_GAIN**2 * lengths[-1]))
    kept = slice(len(lengths) - min(freedom, len(lengths)), None)
    basis = vectors[:, kept] / np.sqrt(np.maximum(lengths[kept], np.finfo(float).tiny))
    gains = np.linalg.eigvalsh(basis.T @ inner @ basis)
    return Tangent(freedom, *_weakest_and_error(gains))


@compiled
def _grams(map: AbstractMap, x: Parameters, matrix: Array, weights: Array) -> tuple[Array, Array]:
    flat, unravel = ravel_pytree(x)

    def column(direction: Array) -> Array:
        return ravel_pytree(map.gram(x, unravel(direction)))[0]

    outer = jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))
    return matrix.T @ (jnp.ravel(weights)[:, None] * matrix), outer


def tangent_of_entries(
    problem: Composite, map: AbstractRankedMap, x: Parameters, used: np.ndarray, freedom: int
) -> Tangent:
    """For observed entries of a matrix or tensor.

    Exactly where that is small. Otherwise every row of a factor as a regression on the others,
    given those: a lower bound of what can go wrong. A row with fewer observations than terms
    cannot be known; nor can parts of the point that no observations connect.
    """
    factors = _balanced([np.asarray(factor, np.float64) for factor in map(x).factors])
    operator, used = problem.operator, np.asarray(used)
    shape = tuple(len(factor) for factor in factors)
    parameters = sum(factor.size for factor in factors)
    if parameters**2 * (math.prod(shape) + 4 * parameters) <= constants.LARGEST_B:
        seen = operator.places(used)
        inner, outer = (
            _derivatives(factors, places, bool(map.symmetric))
            for places in (seen, tuple(np.indices(shape).reshape(len(shape), -1)))
        )
        return _compared(inner.T @ inner, outer.T @ outer, freedom)
    if _parts(shape, _links(operator, shape, used), bool(map.symmetric)) > 1:
        return Tangent(freedom, 0.0, np.inf)
    grams = list(_row_grams(operator, factors, used))
    if map.symmetric:  # every mode sees the same rows
        grams = [sum(grams[1:], grams[0])]
    gains = np.concatenate([np.linalg.eigvalsh(gram).ravel() for gram in grams])
    return Tangent(freedom, *_weakest_and_error(np.sort(gains)))


def spread_of_entries(
    problem: Composite, map: AbstractRankedMap, x: Parameters, shown: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """The standard deviation of ``prediction - observation`` in units of that of the noise.

    Every row of a factor is a regression on the others, on the entries of it that are shown; the
    variances of all that an entry is made of add up. Infinite where a row cannot be known.
    """
    factors = _balanced([np.asarray(factor, np.float64) for factor in map(x).factors])
    places = problem.operator.places(asked)
    grams = list(_row_grams(problem.operator, factors, shown))
    if map.symmetric:
        grams = [sum(grams[1:], grams[0])] * len(grams)
    variance = np.ones(len(places[0]))
    for mode, gram in enumerate(grams):
        values, vectors = np.linalg.eigh(gram)
        seen = values > constants.LEAST_GAIN**2 * np.max(values)
        roots = vectors / np.sqrt(np.where(seen, values, 1))[:, None, :]
        others = _product_of_others(factors, places, mode)
        for k in range(roots.shape[2]):
            along = np.sum(others * roots[places[mode], :, k], axis=1)
            variance += np.where(seen[places[mode], k], along**2, np.inf)
    spread = np.ones(problem.data.shape)
    spread[asked] = np.sqrt(variance)
    return spread


def _product_of_others(factors: list[np.ndarray], places: Places, mode: int) -> np.ndarray:
    """What the row of one factor is multiplied by in given entries."""
    rows = [other[index] for other, index in zip(factors, places, strict=True)]
    return functools.reduce(np.multiply, rows[:mode] + rows[mode + 1 :])


def _balanced(factors: list[np.ndarray]) -> list[np.ndarray]:
    """Factors of another point whose tangents are those of the point, well conditioned."""
    if len(factors) == 2:  # of a matrix the spans alone matter
        return [np.linalg.qr(factor)[0] for factor in factors]
    sizes = [np.linalg.norm(factor, axis=0) for factor in factors]
    return [f / np.where(size > 0, size, 1) for f, size in zip(factors, sizes, strict=True)]


def _derivatives(factors: list[np.ndarray], places: Places, symmetric: bool) -> np.ndarray:
    """Of given entries with respect to all factors; one row for each entry."""
    count, rank = len(places[0]), factors[0].shape[1]
    entries, blocks = np.arange(count), []
    for mode, factor in enumerate(factors):
        others = _product_of_others(factors, places, mode)
        block = np.zeros((count, len(factor), rank))
        block[entries, places[mode]] = others
        blocks.append(block.reshape(count, factor.size))
    return sum(blocks[1:], blocks[0]) if symmetric else np.hstack(blocks)


def _links(
    operator: AbstractOperator, shape: tuple[int, ...], used: np.ndarray
) -> list[tuple[np.ndarray, ...]]:
    """For each mode but the first: pairs of indices of the first and of it that an entry has."""
    modes = range(1, len(shape))
    if operator.point_shape is not None:
        places = operator.places(used)
        return [(places[0], places[mode]) for mode in modes]
    # Of a whole array it is enough to know between which indices there is any entry.
    others = (tuple(k for k in modes if k != mode) for mode in modes)
    return [np.nonzero(np.any(used.reshape(shape), axis=each)) for each in others]


def _parts(shape: tuple[int, ...], links: list[tuple[np.ndarray, ...]], symmetric: bool) -> int:
    """Into how many parts the rows of all factors fall, entries connecting those they are in."""
    offsets = np.zeros(len(shape), int) if symmetric else np.cumsum((0, *shape[:-1]))
    nodes = shape[0] if symmetric else sum(shape)
    rows = np.concatenate([first for first, _ in links])
    others = [other + offset for (_, other), offset in zip(links, offsets[1:], strict=True)]
    edges = sparse.coo_array(
        (np.ones(len(rows), bool), (rows, np.concatenate(others))), shape=(nodes, nodes)
    )
    return csgraph.connected_components(edges, directed=False)[0]


def _row_grams(
    operator: AbstractOperator, factors: list[np.ndarray], used: np.ndarray
) -> Iterator[np.ndarray]:
    """For every mode, the normal matrices of all rows of its factor."""
    rank = factors[0].shape[1]
    pairs = [(a, b) for a in range(rank) for b in range(a + 1)]
    products = [np.stack([f[:, a] * f[:, b] for a, b in pairs], axis=1) for f in factors]
    for mode, factor in enumerate(factors):
        others = [k for k in range(len(factors)) if k != mode]
        if operator.point_shape is not None:
            indices = operator.places(used)
            sums = [
                np.bincount(
                    indices[mode],
                    math.prod(products[k][indices[k], pair] for k in others),
                    minlength=len(factor),
                )
                for pair in range(len(pairs))
            ]
            columns = np.stack(sums, axis=1)
        else:
            # One mode after the other is summed away.
            seen = np.moveaxis(used, mode, -1).astype(np.float64)
            columns = np.tensordot(products[others[0]], seen, axes=(0, 0))
            for k in others[1:]:
                columns = np.einsum("pi...,ip->p...", columns, products[k])
            columns = columns.T
        grams = np.empty((len(factor), rank, rank))
        for pair, (a, b) in enumerate(pairs):
            grams[:, a, b] = grams[:, b, a] = columns[:, pair]
        yield grams


def _weakest_and_error(gains: np.ndarray) -> tuple[float, float]:
    if gains[0] <= constants.LEAST_GAIN**2 * gains[-1]:
        return 0.0, np.inf
    return float(np.sqrt(gains[0] / gains[-1])), float(np.sqrt(np.sum(1 / gains)))


def tangent_unseen(gain: float, freedom: int) -> Tangent:
    """Where nothing of the kind can be computed: as if all tangents were seen like the point."""
    return Tangent(freedom, np.nan, np.sqrt(freedom) / gain if gain > 0 else np.inf)
