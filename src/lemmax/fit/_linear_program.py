"""Linear programs of losses that are linear on either side of 0."""

from typing import Any

import numpy as np
import scipy.sparse

from . import _constants as constants
from ._steps import Box


def linearised(
    point: Any, frame: Any, kink: tuple[float, float], radius: float, box: Box
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the linearised loss in a trust region: the step, and the data it goes through.

    Parameters
    ----------
    point : Point
    frame : Frame
        Coordinates of the step, each of which moves by at most the radius.
    kink : pair of floats
        Slopes of the loss left and right of 0.
    radius : float
    box : Box
    """
    matrix, residual = frame.basis, point.residual / radius
    p = matrix.shape[1]
    # Data whose residuals keep their signs in all of the region have a slope, and nothing else.
    near = np.abs(residual) <= np.sum(np.abs(matrix), axis=1)
    slope = np.where(residual > 0, kink[1], kink[0])[~near] @ matrix[~near]
    count = int(np.sum(near))
    size = max(float(np.max(np.abs(slope), initial=0.0)), -kink[0], kink[1])
    cost = np.concatenate([slope, np.full(count, kink[1]), np.full(count, -kink[0])]) / size
    eye = scipy.sparse.identity(count, format="csr")
    rows = scipy.sparse.hstack([scipy.sparse.csr_matrix(matrix[near]), -eye, eye], format="csr")
    # Bounds that there are, on either side.
    sides = np.concatenate([frame.back, -frame.back]) * radius
    room = np.concatenate([box.high - point.x, point.x - box.low])
    finite = np.isfinite(room)
    units = np.maximum(np.max(np.abs(sides[finite]), axis=1, initial=0.0), 1e-300)
    limits = np.zeros((len(units), len(cost)))
    limits[:, :p] = sides[finite] / units[:, None]
    from scipy.optimize import linprog

    solved = linprog(
        cost,
        A_ub=scipy.sparse.csr_matrix(limits) if len(units) else None,
        b_ub=np.maximum(room[finite] / units, 0) if len(units) else None,
        A_eq=rows if count else None,
        b_eq=-residual[near] if count else None,
        bounds=np.concatenate([np.tile([-1.0, 1.0], (p, 1)), np.tile([0, np.inf], (2 * count, 1))]),
        method="highs-ds",
    )
    if solved.x is None:
        return np.zeros(p), np.zeros(len(residual), bool)
    change = np.clip(solved.x[:p], -1, 1)
    left = np.abs(matrix @ change + residual)
    active = near & (left <= constants.CONSTANT * (1 + np.abs(residual)))
    return change * radius, active


def multipliers(rows: np.ndarray, others: np.ndarray, kink: tuple[float, float]) -> np.ndarray:
    """Slopes of data at a kink, within its limits, that hold the slopes of the others in balance.

    Parameters
    ----------
    rows : array of shape (active, k)
        What the parameters can change of these data, in an orthonormal basis.
    others : array of shape (k,)
        The slopes of the other data in that basis.
    kink : pair of floats
    """
    needed = -np.linalg.pinv(rows.T, rcond=1e-12) @ others
    if np.all((needed >= kink[0]) & (needed <= kink[1])):
        return needed
    clipped = np.clip(needed, *kink)
    # With as many data as directions there is no choice; else other slopes may balance.
    if len(rows) <= np.linalg.matrix_rank(rows, tol=constants.UNSEEN):
        return clipped
    solver = "lsmr" if len(rows) > constants.MANY_ACTIVE else "exact"
    from scipy.optimize import lsq_linear

    return lsq_linear(rows.T, -others, bounds=kink, tol=1e-14, lsq_solver=solver).x
