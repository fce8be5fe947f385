"""Symmetric matrices, one for each row or column, stored as their upper triangles."""

import numpy as np


def outer(vectors: np.ndarray) -> np.ndarray:
    """The products of the entries of each row."""
    return vectors[:, :, None] * vectors[:, None, :]


def packed(matrices: np.ndarray) -> np.ndarray:
    """Symmetric matrices as rows of their upper triangles."""
    above = np.triu_indices(matrices.shape[-1])
    return matrices[:, above[0], above[1]]


def unpacked(rows: np.ndarray, size: int) -> np.ndarray:
    """Symmetric matrices from rows of their upper triangles."""
    above = np.triu_indices(size)
    matrices = np.empty((len(rows), size, size))
    matrices[:, above[0], above[1]] = rows
    matrices[:, above[1], above[0]] = rows
    return matrices


def twice(matrices: np.ndarray) -> np.ndarray:
    """Packed, so that products of packed matrices are traces: twice what is off the diagonal."""
    size = matrices.shape[-1]
    above = np.triu_indices(size)
    return packed(matrices) * np.where(above[0] == above[1], 1.0, 2.0)
