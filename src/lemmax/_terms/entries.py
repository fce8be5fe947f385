"""Observed entries of a sum of outer products: what they say about the rows of its factors."""

import functools
import math
from collections.abc import Iterator

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

Places = tuple[np.ndarray, ...]
"""Indices of entries, one array for each mode."""


def product_of_others(factors: list[np.ndarray], places: Places, mode: int) -> np.ndarray:
    """At given entries, what the row of one factor is multiplied by."""
    rows = [other[index] for other, index in zip(factors, places, strict=True)]
    return functools.reduce(np.multiply, rows[:mode] + rows[mode + 1 :])


def unit_columns(factors: list[np.ndarray]) -> list[np.ndarray]:
    """Well-conditioned factors of another point that has the same tangents."""
    if len(factors) == 2:  # of a matrix the spans alone matter
        return [np.linalg.qr(factor)[0] for factor in factors]
    sizes = [np.linalg.norm(factor, axis=0) for factor in factors]
    return [f / np.where(size > 0, size, 1) for f, size in zip(factors, sizes, strict=True)]


def derivatives(factors: list[np.ndarray], places: Places, symmetric: bool) -> np.ndarray:
    """Derivatives of given entries with respect to all factors; one row for each entry."""
    count, rank = len(places[0]), factors[0].shape[1]
    entries, blocks = np.arange(count), []
    for mode, factor in enumerate(factors):
        others = product_of_others(factors, places, mode)
        block = np.zeros((count, len(factor), rank))
        block[entries, places[mode]] = others
        blocks.append(block.reshape(count, factor.size))
    return sum(blocks[1:], blocks[0]) if symmetric else np.hstack(blocks)


def connected_parts(shape: tuple[int, ...], places: Places | np.ndarray, symmetric: bool) -> int:
    """The number of parts into which the rows of all factors fall if entries connect them.

    The entries are given by their places, or as a mask of the whole array.
    """
    modes = range(1, len(shape))
    if isinstance(places, tuple):
        links = [(places[0], places[mode]) for mode in modes]
    else:  # it is enough to know between which indices there is any entry
        others = (tuple(k for k in modes if k != mode) for mode in modes)
        links = [np.nonzero(np.any(places.reshape(shape), axis=each)) for each in others]
    offsets = np.zeros(len(shape), int) if symmetric else np.cumsum((0, *shape[:-1]))
    nodes = shape[0] if symmetric else sum(shape)
    rows = np.concatenate([first for first, _ in links])
    columns = [other + offset for (_, other), offset in zip(links, offsets[1:], strict=True)]
    edges = sparse.coo_array(
        (np.ones(len(rows), bool), (rows, np.concatenate(columns))), shape=(nodes, nodes)
    )
    return csgraph.connected_components(edges, directed=False)[0]


def row_grams(factors: list[np.ndarray], places: Places | np.ndarray) -> Iterator[np.ndarray]:
    """For every mode, the normal matrices of the regressions of all rows of its factor.

    The entries are given by their places, or as a mask of the whole array.
    """
    rank = factors[0].shape[1]
    pairs = [(a, b) for a in range(rank) for b in range(a + 1)]
    products = [np.stack([f[:, a] * f[:, b] for a, b in pairs], axis=1) for f in factors]
    for mode, factor in enumerate(factors):
        others = [k for k in range(len(factors)) if k != mode]
        if isinstance(places, tuple):
            sums = [
                np.bincount(
                    places[mode],
                    math.prod(products[k][places[k], pair] for k in others),
                    minlength=len(factor),
                )
                for pair in range(len(pairs))
            ]
            columns = np.stack(sums, axis=1)
        else:  # one mode after the other is summed away
            seen = np.moveaxis(places, mode, -1).astype(np.float64)
            columns = np.tensordot(products[others[0]], seen, axes=(0, 0))
            for k in others[1:]:
                columns = np.einsum("pi...,ip->p...", columns, products[k])
            columns = columns.T
        grams = np.empty((len(factor), rank, rank))
        for pair, (a, b) in enumerate(pairs):
            grams[:, a, b] = grams[:, b, a] = columns[:, pair]
        yield grams


def without_copies(*listed: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows, columns, values and weights; a copy in the hold-out set would test nothing."""
    order = np.lexsort(listed[:3])
    ordered = [each[order] for each in listed]
    new = np.ones(len(order), bool)
    new[1:] = np.any([each[1:] != each[:-1] for each in ordered[:3]], axis=0)
    if np.all(new):
        return listed
    weights = np.add.reduceat(ordered[3], np.flatnonzero(new))
    return (*(each[new] for each in ordered[:3]), weights)
