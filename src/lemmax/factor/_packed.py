"""Symmetric matrices, one for each row or column, stored as their upper triangles."""

import functools

import numpy as np


def outer(vectors: np.ndarray) -> np.ndarray:
    """The products of the entries of each row."""
    return vectors[:, :, None] * vectors[:, None, :]


def packed(matrices: np.ndarray) -> np.ndarray:
    """Symmetric matrices as rows of their upper triangles."""
    size = matrices.shape[-1]
    return matrices.reshape(len(matrices), size * size).take(_above(size), axis=1)


def unpacked(rows: np.ndarray, size: int) -> np.ndarray:
    """Symmetric matrices from rows of their upper triangles."""
    return rows.take(_places(size), axis=1)


@functools.cache
def _above(size: int) -> np.ndarray:
    """Where the entries of an upper triangle are in a matrix."""
    return np.ravel_multi_index(np.triu_indices(size), (size, size))


@functools.cache
def _places(size: int) -> np.ndarray:
    """For every entry of a matrix: where it is in the packed triangle."""
    places = np.zeros((size, size), np.int64)
    above = np.triu_indices(size)
    places[above] = places.T[above] = np.arange(len(above[0]))
    return places


def twice(matrices: np.ndarray) -> np.ndarray:
    """Packed, so that products of packed matrices are traces: twice what is off the diagonal."""
    return packed(matrices) * doubled(matrices.shape[-1])


@functools.cache
def doubled(size: int) -> np.ndarray:
    """2 for entries of a packed triangle off the diagonal, 1 for those on it."""
    above = np.triu_indices(size)
    return np.where(above[0] == above[1], 1.0, 2.0)
