"""Levenberg-Marquardt on a small core, in NumPy: compiling would take longer than running."""

import numpy as np
import scipy.linalg

from .tensors import outer_products, term_columns, unfolded

_STEPS = 100
# The damping is the error times a factor: its first value, its changes, and its limit.
_CAUTION, _BOLDER, _MORE_CAREFUL, _TOO_CAREFUL = 0.1, 1 / 3, 10.0, 1e8
# Lower bound of the damping relative to J'J, which is singular along the gauge directions.
_LEAST_DAMPING = 1e-13
# Stop at steps with a smaller relative gain than this, or at errors this small.
_GAIN, _NOTHING_LEFT = 1e-7, 1e-14

Factors = tuple[np.ndarray, ...]


def polish(factors: Factors, core: np.ndarray, symmetric: bool) -> tuple[Factors, float]:
    """Refine the factors of a tensor; returns them and the remaining error.

    Parameters
    ----------
    factors : arrays of shape (side, rank)
        One per mode; if symmetric, all the same, and they stay the same.
    core : array
    symmetric : bool
    """
    left, caution, least = _error(factors, core), _CAUTION, _NOTHING_LEFT * np.linalg.norm(core)
    for _ in range(_STEPS):
        if left <= least or caution > _TOO_CAREFUL:
            break
        moved = _moved(factors, core, caution * left, symmetric)
        after = _error(moved, core)
        if not after < left:
            caution *= _MORE_CAREFUL
            continue
        factors, before, left = moved, left, after
        caution *= _BOLDER
        if before - after < _GAIN * before:
            break
    return factors, left


def _error(factors: Factors, core: np.ndarray) -> float:
    return float(np.linalg.norm(outer_products(factors) - core))


def _moved(factors: Factors, core: np.ndarray, damping: float, symmetric: bool) -> Factors:
    residual = outer_products(factors) - core
    sizes = [factor.size for factor in factors]
    parameters = sizes[0] if symmetric else sum(sizes)
    if residual.size < parameters:
        jacobian = _jacobian(factors)
        if symmetric:
            jacobian = jacobian.reshape(residual.size, len(factors), -1).sum(axis=1)
        step = jacobian.T @ _solved(jacobian @ jacobian.T, damping, residual.ravel())
    else:
        gram, gradient = _gram_matrix(factors), _gradient(factors, residual)
        if symmetric:
            gram = gram.reshape(len(factors), parameters, len(factors), parameters).sum((0, 2))
            gradient = gradient.reshape(len(factors), parameters).sum(axis=0)
        step = _solved(gram, damping, gradient)
    steps = [step] * len(factors) if symmetric else np.split(step, np.cumsum(sizes)[:-1])
    return tuple(f - s.reshape(f.shape) for f, s in zip(factors, steps, strict=True))


def _solved(matrix: np.ndarray, damping: float, right: np.ndarray) -> np.ndarray:
    damping = max(damping, _LEAST_DAMPING * float(np.max(np.diagonal(matrix))))
    damped = matrix + damping * np.eye(len(matrix))
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(damped), right)


def _others(items: list[np.ndarray] | Factors, *modes: int) -> Factors:
    return tuple(item for k, item in enumerate(items) if k not in modes)


def _jacobian(factors: Factors) -> np.ndarray:
    """Rows: entries of the tensor. Columns: entries of the factors, row by row."""
    shape = tuple(len(factor) for factor in factors)
    blocks = []
    for mode, side in enumerate(shape):
        columns = term_columns(_others(factors, mode))
        block = np.einsum("ij,kl->ikjl", np.eye(side), columns)
        rest = tuple(d for k, d in enumerate(shape) if k != mode)
        block = np.moveaxis(block.reshape(side, *rest, -1), 0, mode)
        blocks.append(block.reshape(np.prod(shape), -1))
    return np.concatenate(blocks, axis=1)


def _gradient(factors: Factors, residual: np.ndarray) -> np.ndarray:
    """J' residual."""
    return np.concatenate(
        [
            (unfolded(residual, mode) @ term_columns(_others(factors, mode))).ravel()
            for mode in range(residual.ndim)
        ]
    )


def _gram_matrix(factors: Factors) -> np.ndarray:
    """J'J from the Gram matrices of the factors; the Jacobian is not formed."""
    grams, rank = [factor.T @ factor for factor in factors], factors[0].shape[1]
    rows = []
    for n, left in enumerate(factors):
        row = []
        for m, right in enumerate(factors):
            product = np.ones((rank, rank))
            for gram in _others(grams, n, m):
                product = product * gram
            if n == m:
                block = np.einsum("ij,kl->ikjl", np.eye(len(left)), product)
            else:
                block = np.einsum("lk,ik,jl->iljk", product, left, right, optimize=True)
            row.append(block.reshape(left.size, right.size))
        rows.append(np.concatenate(row, axis=1))
    return np.concatenate(rows, axis=0)
