"""Projections onto matrices of low rank, and the factors of what is found."""

from typing import NamedTuple

import numpy as np

from ..points import KruskalPoint
from ._rounds import Projected

# Directions that the data do not show get this fraction of the noise edge, or of the largest
# value if there is no noise: a start with columns that are zero lies on the singular set, where
# the Jacobian does not see those columns.
_OF_THE_EDGE = 0.1
_OF_THE_LARGEST = 1e-8


class Spectrum(NamedTuple):
    """Leading singular values, shrunk by the first that was left out, with their vectors."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray
    edge: float


def project_psd(array: np.ndarray, rank: int, *, noisy: bool = True) -> Projected:
    """The leading positive eigenpairs.

    Eigenvalues are counted from their median and shrunk by the first that is left out. The median
    is the bulk's place, not zero where measurements have a common multiple of the identity in
    them, as quadratic ones do. The first left out is the edge of the noise: it makes the
    directions that a generous rank adds small. Of an array without noise neither is true.
    """
    values, vectors = np.linalg.eigh((array + array.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    if noisy and 2 * rank < len(values):
        values = values - np.median(values)
    edge = max(float(values[rank]), 0.0) if noisy and rank < len(values) else 0.0
    vectors, values = vectors[:, :rank], np.maximum(values[:rank] - edge, 0)
    factor = vectors * np.sqrt(values)
    return Projected(
        factor @ factor.T, KruskalPoint((factor, factor)), Spectrum(vectors, values, vectors, edge)
    )


def project_low_rank(array: np.ndarray, rank: int, *, noisy: bool = True) -> Projected:
    """The leading singular triples, shrunk by the first that is left out if that is noise."""
    left, values, right = np.linalg.svd(array, full_matrices=False)
    edge = float(values[rank]) if noisy and rank < len(values) else 0.0
    left, right, values = left[:, :rank], right[:rank].T, np.maximum(values[:rank] - edge, 0)
    factors = left * np.sqrt(values), right * np.sqrt(values)
    return Projected(
        factors[0] @ factors[1].T, KruskalPoint(factors), Spectrum(left, values, right, edge)
    )


def balanced_factors(
    spectrum: Spectrum, rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the full rank, none of whose columns is zero."""
    floor = max(_OF_THE_EDGE * spectrum.edge, _OF_THE_LARGEST * spectrum.values[0])
    roots = np.sqrt(np.maximum(spectrum.values, floor))
    missing = rank - len(roots)

    def factor(vectors: np.ndarray) -> np.ndarray:
        extra = rng.standard_normal((len(vectors), missing)) * np.sqrt(floor / len(vectors))
        return np.concatenate([vectors * roots, extra], axis=1)

    return factor(spectrum.left), factor(spectrum.right)
