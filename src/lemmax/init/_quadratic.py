"""Quadratic measurements ``a'Za`` of a positive semidefinite matrix, such as phase retrieval.

Their adjoint is not an inverse, not even on average: ``A*(A(Z))`` is about ``2 Z + trace(Z) I``,
with heavy tails. So the weights are bounded, and the refinement works on amplitudes ``|X'a|``,
whose tails are Gaussian, and on X instead of the matrix.
"""

import numpy as np

from ..points import KruskalPoint
from ._matrices import Spectrum, project_psd
from ._rounds import CONSPICUOUS, ROUNDS
from ._start import Observations

# Median of the square of a standard Gaussian: the median of rank-one measurements over their mean.
_MEDIAN_SQUARE = 0.455
# Lower bound of the weight 1 - mean / value of small measurements.
_LEAST_WEIGHT = -2.0
# Share of negative data up to which measurements may be quadratic: 0 without outliers, 22 % with
# 45 % outliers of random sign.
_NEGATIVE = 0.25


def is_quadratic(observed: Observations, dim: int, rng: np.random.Generator) -> bool:
    """Whether most data, and all measurements of a random PSD matrix, are nonnegative."""
    if np.mean(observed.values[observed.known] < 0) > _NEGATIVE:
        return False
    vector = rng.standard_normal((dim, 1))
    return bool(np.all(observed.measure(KruskalPoint((vector, vector))) >= 0))


def fit_quadratic(observed: Observations, rank: int) -> Spectrum | None:
    """Spectral start with bounded weights, then trimmed steps on amplitudes; 2 passes a round.

    With the weights ``1 - mean / value`` the leading eigenvector is informative from the fewest
    measurements (Mondelli and Montanari, 2017), and outliers have weight at most 1. The steps are
    median-truncated reshaped Wirtinger flow (Zhang, Chi and Liang, 2016), scaled by the size of
    the measurement vectors.
    """
    possible = observed.known & (observed.values > 0)
    if not np.any(possible):
        return None
    values = np.where(possible, observed.values, np.inf)
    mean = np.median(values[possible]) / _MEDIAN_SQUARE
    weights = np.where(possible, np.maximum(1 - mean / values, _LEAST_WEIGHT), 0)
    spectrum = project_psd(observed.adjoint(weights), rank).parts
    factor = spectrum.left * np.sqrt(spectrum.values)
    if not np.any(factor):
        return None

    def amplitudes_of(factor: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(observed.measure(KruskalPoint((factor, factor))), 0))

    wanted = np.sqrt(np.where(possible, observed.values, 0))
    seen = amplitudes_of(factor)
    scale = np.median(wanted[possible]) / np.median(seen[possible])
    factor, seen = scale * factor, scale * seen
    best, least = factor, np.inf
    for _ in range(ROUNDS):
        excess = np.where(possible, seen - wanted, 0)
        bulk = np.median(np.abs(excess[possible]))
        if bulk < least:
            best, least = factor, bulk
        used = possible & (np.abs(excess) <= CONSPICUOUS * bulk) & (seen > 0)
        # Mean square of an entry of the measurement vectors.
        size = np.mean(seen[observed.known] ** 2) / np.sum(factor**2)
        weights = np.where(used, excess / np.where(used, seen, 1), 0)
        change = observed.adjoint(weights) @ factor
        factor = factor - change / (size * np.count_nonzero(used))
        seen = amplitudes_of(factor)
    if np.median(np.abs(seen - wanted)[possible]) < least:
        best = factor
    left, roots, _ = np.linalg.svd(best, full_matrices=False)
    return Spectrum(left, roots**2, left, edge=0.0)
