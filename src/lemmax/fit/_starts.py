"""More starts: variations of the one given, with the linear parameters solved for."""

import numpy as np

from . import _constants as constants
from ._losses import robust_scale
from ._refine import Setting
from ._steps import Box


def linear_parameters(setting: Setting, x: np.ndarray) -> np.ndarray:
    """Which parameters the model is an affine function of, all of them together.

    They are joined one by one: as long as moving all of them leaves their columns of the Jacobian
    as they were.
    """
    p = len(x)
    _, jacobian = setting.evaluate(np.zeros(1, int), x[None])
    norms = np.linalg.norm(jacobian[0], axis=0)
    step = np.where(x != 0, 0.37 * np.abs(x), 1.0)
    linear = np.zeros(p, bool)
    if not np.all(np.isfinite(jacobian)):
        return linear
    for k in range(p):
        trial = linear.copy()
        trial[k] = True
        moved = np.where(trial, x + step, x)[None]
        _, there = setting.evaluate(np.zeros(1, int), moved)
        change = np.linalg.norm(there[0] - jacobian[0], axis=0)
        if np.all(np.isfinite(there)) and np.all(
            change[trial] <= constants.CONSTANT * norms[trial]
        ):
            linear = trial
    return linear


def solve_linear(
    setting: Setting, x: np.ndarray, linear: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Starts with the linear parameters by least absolute deviations, and residuals there."""
    lanes, p = x.shape
    residual, jacobian = setting.evaluate(np.arange(lanes), x)
    counts = np.broadcast_to(setting.counts, residual.shape)
    fine = np.all(np.isfinite(residual), axis=1) & np.all(np.isfinite(jacobian), axis=(1, 2))
    residual = np.where(fine[:, None], residual, 0)
    matrix = np.where(fine[:, None, None], jacobian, 0)[:, :, linear]
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix = matrix / np.where(norms > 0, norms, 1)
    change = np.zeros((lanes, matrix.shape[2]))
    there = residual
    if np.any(linear):
        weight = counts
        for _ in range(constants.INNER):
            rows = weight[:, :, None] * matrix
            gram = np.einsum("bnp,bnq->bpq", rows, matrix)
            ridge = 1e-12 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
            gram = gram + ridge * np.eye(gram.shape[1])
            change = -np.linalg.solve(gram, np.einsum("bnp,bn->bp", rows, residual)[..., None])
            change = change[..., 0]
            there = residual + np.einsum("bnp,bp->bn", matrix, change)
            scale = np.maximum(robust_scale(there, counts, p), 1e-300)[:, None]
            weight = counts / np.sqrt(1 + (there / scale) ** 2)
        change = change / np.where(norms > 0, norms, 1)[:, 0]
    found = x.copy()
    found[:, linear] += change
    found = np.clip(found, setting.box.low, setting.box.high)
    return found, np.where(fine[:, None], there, np.nan)


def variations(start: np.ndarray, box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """Starts around the one given: parameters times random factors, some of which change signs."""
    p = len(start)
    reach = np.array(constants.FACTORS)[np.arange(count) % len(constants.FACTORS), None]
    factors = np.exp(np.log(reach) * rng.uniform(-1, 1, (count, p)))
    sizes = typical(start)
    signs = np.where((start == 0) & (rng.random((count, p)) < 0.5), -1.0, 1.0)
    return np.clip(sizes * factors * signs, box.low, box.high)


def typical(start: np.ndarray) -> np.ndarray:
    """The start; what is 0 there has no size of its own, and that of the others has to do."""
    there = np.abs(start[start != 0])
    return np.where(start != 0, start, np.exp(np.mean(np.log(there))) if there.size else 1.0)
