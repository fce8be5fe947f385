"""Reference solutions with many digits, by the plain definition."""

from types import ModuleType

import numpy as np

DIGITS = 60


def import_mpmath() -> ModuleType:
    """Load mpmath only when a reference is asked for."""
    try:
        import mpmath
    except ImportError as error:
        raise ImportError(
            "The reference solutions of lemmax.testing need mpmath: pip install 'lemmax[testing]'."
        ) from error
    return mpmath


def exact(array: np.ndarray) -> np.ndarray:
    """The same floating-point numbers as an object array of mpmath's."""
    mpf = import_mpmath().mpf
    return np.array([mpf(entry) for entry in np.ravel(array).tolist()]).reshape(np.shape(array))


def damped_solve(gram: np.ndarray, damping: float, right: np.ndarray) -> np.ndarray:
    """``(gram + damping)^-1 right`` for object arrays, by elimination with `DIGITS` digits.

    The matrix is symmetric positive definite, so no pivoting is needed. Rounded to float64 at
    the end.
    """
    mpmath = import_mpmath()
    size = gram.shape[0]
    with mpmath.workdps(DIGITS):
        # Only the upper triangle is kept up to date, which halves the work.
        matrix = gram + exact(np.eye(size)) * mpmath.mpf(float(damping))
        solution = right.copy()
        for k in range(size):
            factor = matrix[k, k + 1 :] / matrix[k, k]
            for i, share in enumerate(factor, start=k + 1):
                matrix[i, i:] -= share * matrix[k, i:]
            solution[k + 1 :] -= factor[:, None] * solution[k][None, :]
        for k in reversed(range(size)):
            solution[k] = (solution[k] - matrix[k, k + 1 :] @ solution[k + 1 :]) / matrix[k, k]
        return solution.astype(np.float64)
