"""Symmetric matrices, one for each row or column, stored as their lower triangles.

A triangle begins with that of the leading rows and columns; the last row of the matrix follows.
"""

import functools

import numpy as np


def packed(matrices: np.ndarray, size: int | None = None) -> np.ndarray:
    """Symmetric matrices, or so many of their leading rows and columns, as rows of triangles."""
    stride = matrices.shape[-1]
    places = _below(stride if size is None else size, stride)
    return matrices.reshape(len(matrices), stride**2).take(places, axis=1)


def unpacked(rows: np.ndarray, size: int) -> np.ndarray:
    """Symmetric matrices from rows of their triangles."""
    return rows.take(_places(size), axis=1)


def moments(means: np.ndarray, covariances: np.ndarray | None = None) -> np.ndarray:
    """Packed second moments, from means and covariances that may have more rows than are needed."""
    size = means.shape[1]
    row, column = _triangle(size)
    products = means.take(row, axis=1)
    products *= means.take(column, axis=1)
    if covariances is not None:
        products += packed(covariances, size)
    return products


@functools.cache
def doubled(size: int) -> np.ndarray:
    """2 for entries of a packed triangle off the diagonal, 1 for those on it.

    Products of packed matrices, one of them times this, are traces.
    """
    row, column = _triangle(size)
    return np.where(row == column, 1.0, 2.0)


@functools.cache
def _triangle(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a lower triangle."""
    row, column = np.tril_indices(size)
    return row, column


@functools.cache
def _below(size: int, stride: int) -> np.ndarray:
    """Where the entries of a lower triangle are in a flattened matrix with so many columns."""
    row, column = _triangle(size)
    return row * stride + column


@functools.cache
def _places(size: int) -> np.ndarray:
    """For every entry of a matrix: where it is in the packed triangle."""
    places = np.zeros((size, size), np.int64)
    below = _triangle(size)
    places[below] = places.T[below] = np.arange(len(below[0]))
    return places
