"""Projections onto low-rank matrices, and balanced factors."""

from typing import NamedTuple

import numpy as np

from ..points import KruskalPoint
from ._rounds import Projected

# Directions without signal get this fraction of the noise edge (of the largest value if there is no
# noise). A start with zero columns would be singular: the Jacobian vanishes along those columns.
_OF_THE_EDGE = 0.1
_OF_THE_LARGEST = 1e-8


class Spectrum(NamedTuple):
    """Leading singular values, shrunk by the first omitted one, with their vectors."""

    left: np.ndarray
    values: np.ndarray
    right: np.ndarray
    edge: float


def project_psd(array: np.ndarray, rank: int, *, noisy: bool = True) -> Projected:
    """The leading positive eigenpairs.

    Eigenvalues are centred at their median and shrunk by the first omitted one. The median is
    nonzero if the measurements contain a common multiple of the identity, as quadratic ones do. The
    first omitted eigenvalue is the edge of the noise; shrinking makes the directions of a
    superfluous rank small. Neither applies to an array without noise.
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
    """The leading singular triples, shrunk by the first omitted one if there is noise."""
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
    """Factors of the full rank without zero columns."""
    floor = max(_OF_THE_EDGE * spectrum.edge, _OF_THE_LARGEST * spectrum.values[0])
    roots = np.sqrt(np.maximum(spectrum.values, floor))
    missing = rank - len(roots)

    def factor(vectors: np.ndarray) -> np.ndarray:
        extra = rng.standard_normal((len(vectors), missing)) * np.sqrt(floor / len(vectors))
        return np.concatenate([vectors * roots, extra], axis=1)

    return factor(spectrum.left), factor(spectrum.right)
