"""Levenberg-Marquardt steps in a trust region, for many fits at once, in NumPy.

A *lane* is one fit: its parameters, its data, its weights. All lanes take their steps together,
and those that have ended leave. Parameters are measured by the largest norm that their column of
the Jacobian has had (Moré, 1978), so that nothing depends on units.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._losses import LaneLoss

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From lanes and their parameters to residuals (lanes, data) and Jacobians (lanes, data, p)."""


class Ended(NamedTuple):
    """Where the lanes ended."""

    x: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    value: np.ndarray
    """Twice the loss."""
    offset: np.ndarray
    """Cosine between the weighted residual and what the free parameters can change of it (Bates and
    Watts, 1981): 0 at a minimum."""
    settled: np.ndarray
    """Whether the offset is as small as asked for, or as rounding errors allow."""
    steps: np.ndarray


class Box(NamedTuple):
    """Bounds on the parameters, of shape (p,); infinite where there are none."""

    low: np.ndarray
    high: np.ndarray

    @property
    def bounded(self) -> bool:
        """Whether there are any."""
        return bool(np.any(np.isfinite(self.low)) or np.any(np.isfinite(self.high)))


def descend(
    evaluate: Evaluate,
    x: np.ndarray,
    weight: np.ndarray,
    loss: LaneLoss,
    box: Box,
    *,
    rounding: np.ndarray,
    tol: float = 1e-9,
    max_steps: int = 500,
    reach: float = 1.0,
    known: tuple[np.ndarray, np.ndarray] | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Ended:
    """Minimise ``sum(weight * loss(residual))`` in every lane.

    Parameters
    ----------
    evaluate : callable
    x : array of shape (lanes, p)
        Starts, within the box.
    weight : array of shape (lanes, data)
        0 where a datum does not count.
    loss : LaneLoss
    box : Box
    rounding : array of shape (lanes,)
        Rounding errors of a residual.
    tol : float
        The offset to reach.
    max_steps : int
    reach : float
        The first trust region in units of the scaled norm of x.
    known : pair of arrays, optional
        Residuals and Jacobians at x, if they are known.
    watch : callable
        Called before every step; it may raise to stop.
    """
    lanes, p = x.shape
    x = x.copy()
    residual, jacobian = evaluate(np.arange(lanes), x) if known is None else known
    residual, jacobian = residual.copy(), jacobian.copy()
    value = loss.value(residual, weight)
    value[~np.isfinite(value)] = np.inf
    settled, offset = np.zeros(lanes, bool), np.full(lanes, np.inf)
    steps = np.zeros(lanes, int)
    norms, radius = np.zeros((lanes, p)), np.full(lanes, np.nan)
    stale, blur = np.zeros(lanes, int), np.zeros(lanes)
    system, last = _System(lanes, residual.shape[1], p, box), _Last(lanes, p)
    fresh = np.ones(lanes, bool)
    active = np.flatnonzero(np.isfinite(value) & np.all(np.isfinite(jacobian), axis=(1, 2)))
    for _ in range(max_steps + 1):
        watch()
        new = active[fresh[active]]
        if new.size:
            new = _places(new, lanes)
            system.update(new, x, residual, jacobian, weight, loss.of(new), norms)
            size = _norms(norms[new] * x[new])
            start = reach * np.where(size > 0, size, system.length[new])
            radius[new] = np.where(np.isnan(radius[new]), start, radius[new])
            before, offset[new] = offset[new].copy(), system.offset[new]
            # At the level of rounding errors the offset no longer falls.
            stale[new] = np.where(offset[new] > constants.SLOW * before, stale[new] + 1, 0)
            blur[new] = constants.EPS + rounding[new] / np.maximum(
                system.spread[new], rounding[new]
            )
            floor = np.maximum(tol, constants.BLUR * blur[new])
            done = (offset[new] <= floor) | (system.length[new] == 0)
            exhausted = (offset[new] <= 1e3 * floor) & (stale[new] >= constants.PATIENCE)
            settled[new] |= done | exhausted
            active = active[~settled[active]]
        active = active[steps[active] < max_steps]
        if not active.size:
            break
        here = _places(active, lanes)
        step, scaled, damped = system.step(here, radius[here], x, norms)
        predicted = system.decrease(here, step, jacobian)
        full = ~damped & (offset[here] <= constants.NEAR)
        straight, (step, further) = step, last.extrapolated(here, step, x, norms, full)
        late = (steps[here] >= constants.EASY) & ~further
        late &= offset[here] > constants.NEGLIGIBLE  # valleys are straight below
        if np.any(late):
            some, lanes_of = np.flatnonzero(late), active[late]
            bent = _bend(evaluate, system, lanes_of, straight[some], x, residual, jacobian, norms)
            step[some] = bent
        trial = x[here] + step
        trial = np.clip(trial, box.low, box.high) if system.bounded else trial
        at_trial, slopes = evaluate(active, trial)
        reached = loss.of(here).value(at_trial, weight[here])
        finite = np.isfinite(reached) & np.all(np.isfinite(slopes), axis=(1, 2))
        gained = np.where(finite, value[here] - np.where(finite, reached, 0), -np.inf)
        # Decreases below rounding errors cannot be measured: such steps are taken on trust.
        noise = 16 * blur[here] * value[here]
        tiny = finite & (predicted > 0) & (predicted <= noise) & (np.abs(gained) <= 4 * noise)
        ratio = np.where(tiny, 1.0, gained / np.where(predicted > 0, predicted, np.inf))
        taken = ratio > constants.ACCEPTED
        # What failed further on may be right here.
        last.known[active[further & ~taken]] = False
        poor, good = (ratio < constants.POOR) & ~further, (ratio > constants.GOOD) & damped
        shorter = np.where(finite, 0.25, 0.1) * scaled
        radius[here] = np.where(poor, shorter, np.where(good, 2 * scaled, radius[here]))
        steps[here] += 1
        moved = active[taken]
        x[moved], residual[moved], jacobian[moved] = trial[taken], at_trial[taken], slopes[taken]
        value[moved] = reached[taken]
        fresh[:] = False
        fresh[moved] = True
        # No step that changes x is short enough: this is as far as it goes.
        size = _norms(norms[here] * x[here])
        stuck = ~taken & (
            radius[here] <= constants.EPS * np.maximum(size, system.length[here] * constants.EPS)
        )
        active = active[~stuck]
    return Ended(x, residual, jacobian, value, offset, settled, steps)


def _places(lanes: np.ndarray, count: int) -> np.ndarray | slice:
    """An index of these lanes that copies nothing if they are all."""
    return slice(None) if len(lanes) == count else lanes


def _norms(vectors: np.ndarray) -> np.ndarray:
    """Of the rows; `np.linalg.norm` takes three times as long for small ones."""
    return np.sqrt(np.einsum("bp,bp->b", vectors, vectors))


class _Last:
    """The last full step of each lane, for what is left after the next: Anderson's acceleration."""

    def __init__(self, lanes: int, p: int):
        self.x, self.step = np.zeros((lanes, p)), np.zeros((lanes, p))
        self.known = np.zeros(lanes, bool)

    def extrapolated(self, lanes, step, x, norms, full):
        """Where two full steps in a row lead in the end, and which lanes have two."""
        both = self.known[lanes] & full
        self.known[lanes] = full
        there, made = x[lanes], step
        if np.any(both):
            change = step - self.step[lanes]
            units = norms[lanes] ** 2
            top = np.einsum("bp,bp,bp->b", change, step, units)
            bottom = np.einsum("bp,bp,bp->b", change, change, units)
            part = np.divide(top, bottom, out=np.zeros_like(top), where=both & (bottom > 0))
            made = step - part[:, None] * (there - self.x[lanes] + change)
            lengths = [np.einsum("bp,bp,bp->b", it, it, units) for it in (made, step)]
            both &= lengths[0] <= constants.EXTRAPOLATED**2 * lengths[1]
            made = np.where(both[:, None], made, step)
        self.x[lanes], self.step[lanes] = there, step
        return made, both


class _System:
    """The weighted linear problem of each lane, decomposed."""

    def __init__(self, lanes: int, n: int, p: int, box: Box):
        k = min(n, p)
        self.box, self.bounded = box, box.bounded
        self.left = np.zeros((lanes, n, k))
        self.s = np.zeros((lanes, k))
        self.right = np.zeros((lanes, k, p))
        self.along = np.zeros((lanes, k))
        """Coordinates of the weighted residual in the columns of `left`."""
        self.offset, self.length, self.spread = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        self.damping = np.zeros(lanes)
        self.free = np.ones((lanes, p), bool)
        self.vector, self.root = np.zeros((lanes, n)), np.zeros((lanes, n))

    def update(self, new, x, residual, jacobian, weight, loss, norms):
        """Decompose the problems of lanes that have moved."""
        root = np.sqrt(weight[new] * loss.weight(residual[new]))
        vector = root * residual[new]
        matrix = root[:, :, None] * jacobian[new]
        norms[new] = np.maximum(norms[new], np.sqrt(np.einsum("bnp,bnp->bp", matrix, matrix)))
        scale = np.where(norms[new] > 0, norms[new], 1)
        if self.bounded:
            low, high = self.box
            slope = np.einsum("bnp,bn->bp", matrix, vector)
            pressed = ((x[new] <= low) & (slope > 0)) | ((x[new] >= high) & (slope < 0))
            self.free[new] = ~pressed
            matrix = matrix * self.free[new][:, None, :]
        matrix = matrix / scale[:, None, :]
        left, s, right = np.linalg.svd(matrix, full_matrices=False)
        along = np.einsum("bnk,bn->bk", left, vector)
        along = np.where(s > constants.EPS * matrix.shape[1] * s[:, :1], along, 0)
        length = _norms(vector)
        self.left[new], self.s[new], self.right[new], self.along[new] = left, s, right, along
        self.vector[new], self.root[new], self.length[new] = vector, root, length
        part = _norms(along)
        self.offset[new] = np.divide(part, length, out=np.zeros_like(part), where=length > 0)
        count = np.maximum(np.sum(root > 0, axis=1), 1)
        self.spread[new] = length / np.sqrt(count)

    def step(self, lanes, radius, x, norms):
        """Steps that minimise the linearised loss in the trust region, and their scaled norms."""
        s, along = self.s[lanes], self.along[lanes]
        damping, damped = _damping(s, along, radius)
        self.damping[lanes] = damping
        inverse = np.divide(
            s, s**2 + damping[:, None], out=np.zeros_like(s), where=(s > 0) & (along != 0)
        )
        scaled = -np.einsum("bk,bkp->bp", inverse * along, self.right[lanes])
        scaled *= self.free[lanes]
        scale = np.where(norms[lanes] > 0, norms[lanes], 1)
        step = scaled / scale
        if self.bounded:
            step = np.clip(x[lanes] + step, *self.box) - x[lanes]
            scaled = step * scale
        return step, _norms(scaled), damped

    def corrected(self, lanes, vector, norms):
        """The damped step for other vectors of residuals, with the damping of the last steps."""
        root, scale = self.root[lanes], np.where(norms[lanes] > 0, norms[lanes], 1)
        along = np.einsum("bnk,bn->bk", self.left[lanes], root * vector)
        s = self.s[lanes]
        seen = s > constants.EPS * vector.shape[1] * s[:, :1]
        bottom = s**2 + self.damping[lanes][:, None]
        inverse = np.divide(s, bottom, out=np.zeros_like(s), where=seen)
        scaled = -np.einsum("bk,bkp->bp", inverse * along, self.right[lanes]) * self.free[lanes]
        return scaled / scale

    def decrease(self, lanes, step, jacobian):
        """By how much the linearised problem says the value falls."""
        change = self.root[lanes] * np.einsum("bnp,bp->bn", jacobian[lanes], step)
        return -np.sum(change * (2 * self.vector[lanes] + change), axis=1)


def _bend(evaluate, system, lanes, step, x, residual, jacobian, norms):
    """The steps, bent as the residuals are along them."""
    ahead, _ = evaluate(lanes, x[lanes] + constants.AHEAD * step)
    straight = np.einsum("bnp,bp->bn", jacobian[lanes], step)
    with np.errstate(invalid="ignore", over="ignore"):
        second = 2 / constants.AHEAD * ((ahead - residual[lanes]) / constants.AHEAD - straight)
        fine = np.all(np.isfinite(second), axis=1)
        correction = system.corrected(lanes, np.where(fine[:, None], second, 0), norms) / 2
    sizes = [_norms(part * norms[lanes]) for part in (correction, step)]
    fine &= sizes[0] <= constants.LONGEST * sizes[1]
    return step + np.where(fine[:, None], correction, 0)


def _damping(s, along, radius):
    """The damping at which a step is as long as the radius, 0 if a full step is shorter.

    Newton's method on the reciprocal of the length, which is nearly linear (Hebden).
    """
    seen = (s > 0) & (along != 0)
    damping = np.zeros(len(s))
    # A lower bound keeps the iteration on the convex side.
    for _ in range(constants.INNER):
        bottom = s**2 + damping[:, None]
        parts = np.divide(s * along, bottom, out=np.zeros_like(s), where=seen)
        length = _norms(parts)
        slope = np.sum(np.divide(parts**2, bottom, out=np.zeros_like(s), where=seen), axis=1)
        long = length > (1 + constants.DAMPING_ERROR) * radius
        if not np.any(long):
            break
        change = np.divide(
            length**2 * (length - radius), slope * radius, out=np.zeros_like(slope), where=long
        )
        damping = damping + change
    return damping, damping > 0
