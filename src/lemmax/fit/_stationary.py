"""The minimum of a loss that the user chose: by Newton's steps, and at kinks exactly.

A loss with a kink at 0 is minimal where the curve goes through some of the data. Which ones, linear
programs find: the linearised loss, minimised in a trust region. Newton's method for the conditions
of a minimum among curves through these data does the rest (Fletcher and Sainz de la Maza, 1989).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._chosen_loss import Chosen
from ._linear_program import linearised, multipliers
from ._steps import Box, Evaluate


class Point(NamedTuple):
    """Parameters, and what the model makes of them."""

    x: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray
    value: float
    """Twice the loss; infinite where the model is not finite."""


class Frame(NamedTuple):
    """Coordinates of the free parameters in which the columns of the Jacobian are orthonormal.

    In them a valley is as wide as it is long, and what no datum sees is left out.
    """

    basis: np.ndarray
    """The Jacobian in these coordinates."""
    back: np.ndarray
    """From them to the parameters."""

    @classmethod
    def of(cls, jacobian: np.ndarray, held: np.ndarray) -> "Frame":
        """Parameters that are held do not move."""
        norms = np.where(held, 0, np.linalg.norm(jacobian, axis=0))
        scale = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 0)
        left, s, right = np.linalg.svd(jacobian * scale, full_matrices=False)
        seen = s > constants.UNSEEN * np.max(s, initial=0.0)
        return cls(left[:, seen], scale[:, None] * right[seen].T / s[seen])


class Stationary(NamedTuple):
    """Where a descent ended."""

    point: Point
    slopes: np.ndarray
    """Of the loss at each datum; at a kink, that which a minimum needs."""
    interpolated: np.ndarray
    """Which data are at a kink: the curve goes through them."""
    offset: float
    """Cosine between the slopes and what the free parameters can change: 0 at a minimum."""
    settled: bool
    steps: int


class Minimiser:
    """Minimises a chosen loss of one lane, within bounds."""

    def __init__(
        self,
        evaluate: Evaluate,
        loss: Chosen,
        box: Box,
        rounding: float,
        watch: Callable[[], None],
    ):
        self.loss, self.box, self.rounding, self.watch = loss, box, rounding, watch
        self._evaluate = evaluate

    def at(self, x: np.ndarray) -> Point:
        """The model at parameters, moved into the bounds."""
        x = np.clip(x, self.box.low, self.box.high)
        residual, jacobian = self._evaluate(np.zeros(1, int), x[None])
        fine = np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian))
        value = float(self.loss.value(residual, np.ones_like(residual))[0]) if fine else np.inf
        return Point(x, residual[0], jacobian[0], value if np.isfinite(value) else np.inf)

    def run(self, x: np.ndarray, scale: float, max_steps: int = 60) -> Stationary:
        """Minimise from x, where the noise is about the scale."""
        point = self.at(x)
        none = np.zeros(len(point.residual), bool)
        if not np.isfinite(point.value):
            return Stationary(point, np.zeros(len(none)), none, np.inf, False, 0)
        if self.loss.kink is None:
            point, steps = self._newton(point, none, max_steps)
            return self.judged(point, none, steps)
        return self._through_kinks(point, scale, max_steps)

    def _through_kinks(self, point: Point, scale: float, max_steps: int) -> Stationary:
        assert self.loss.kink is not None
        none = np.zeros(len(point.residual), bool)
        best = self.judged(point, none, 0)
        radius = constants.EXTRAPOLATED * max(scale, constants.EXACT * self.rounding)
        for step in range(1, max_steps + 1):
            if best.settled:
                break
            self.watch()
            frame = Frame.of(point.jacobian, np.zeros(len(point.x), bool))
            move, active = linearised(point, frame, self.loss.kink, radius, self.box)
            change, linear = frame.back @ move, point.residual + frame.basis @ move
            predicted = point.value - float(self.loss.value(linear[None], np.ones((1, 1)))[0])
            tried = self.at(point.x + change)
            after, _ = self._newton(point, active, constants.ROUGH_STEPS)
            gained = point.value - min(tried.value, after.value)
            long = np.max(np.abs(move), initial=0.0) >= (1 - 1e-6) * radius
            ratio = gained / predicted if predicted > 0 else 0.0
            radius *= (
                0.25 if ratio < constants.POOR else 2.0 if ratio > constants.GOOD and long else 1.0
            )
            # Between points that differ by rounding errors the conditions of a minimum decide.
            ended = self.judged(after, active, step)
            same = abs(after.value - point.value) <= 16 * constants.EPS * len(none) * point.value
            if after.value <= min(tried.value, point.value) or (same and ended.settled):
                point, best = after, ended
            elif tried.value < point.value:
                point, best = tried, self.judged(tried, none, step)
            if radius <= self.rounding:
                break
        return best

    def _newton(self, point: Point, active: np.ndarray, most: int) -> tuple[Point, int]:
        """Newton's method for a minimum among curves through the active data."""
        here = Conditions(self, point, active)
        for step in range(most):
            self.watch()
            if here.distance <= constants.EPS:
                return point, step
            change = here.step()
            for part in 0.25 ** np.arange(constants.INNER):
                trial = self.at(point.x + part * change)
                if np.isfinite(trial.value):
                    there = Conditions(self, trial, active)
                    falls = not np.any(active) and trial.value < point.value
                    if there.distance <= (1 - constants.GAIN * part) * here.distance or falls:
                        break
            else:
                return point, step
            point, here = trial, there
        return point, most

    def judged(self, point: Point, active: np.ndarray, steps: int) -> Stationary:
        """Whether a point is a minimum."""
        if self.loss.kink is not None:
            # Rounding errors of residuals: of the data, and of parameters as numbers.
            blur = self.rounding + constants.EPS * np.abs(point.jacobian) @ np.abs(point.x)
            size = np.abs(point.residual)
            active = (size <= constants.EXACT * blur) | (
                active & (size <= constants.EXACT**2 * blur)
            )
        found = Conditions(self, point, active)
        offset, slopes = found.offset()
        spread = np.sqrt(np.mean(point.residual**2))
        blur = constants.EPS + self.rounding / max(float(spread), self.rounding)
        settled = offset <= max(constants.TOL, constants.BLUR * blur) and found.convex(slopes)
        return Stationary(point, slopes, active, offset, bool(settled), steps)

    def curvature(self, point: Point, slopes: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Second derivatives of the model times fixed slopes, by differences of the Jacobian.

        In the coordinates of a frame, along each of which the data change by a small part of all of
        them, and the parameters by a small part of themselves.
        """
        step = constants.EPS ** (1 / 3) * self.size(point)
        columns = np.zeros((back.shape[1], back.shape[1]))
        for k, direction in enumerate(back.T):
            moved = np.abs(direction) > 0
            parts = np.abs(direction[moved & (point.x != 0)] / point.x[moved & (point.x != 0)])
            h = min(step, constants.EPS ** (1 / 4) / max(float(np.max(parts, initial=0.0)), 1e-300))
            two = np.stack([point.x - h * direction, point.x + h * direction])
            _, jacobian = self._evaluate(np.arange(2), two)
            if np.all(np.isfinite(jacobian)):
                columns[:, k] = slopes @ ((jacobian[1] - jacobian[0]) @ back) / (2 * h)
        return (columns + columns.T) / 2

    def size(self, point: Point) -> float:
        """The norm of all data."""
        return self.rounding / constants.EPS * float(np.sqrt(len(point.residual)))


class Conditions:
    """What holds at a minimum among curves through the active data, and how far a point is from it.

    In coordinates of the parameters that no bound holds.
    """

    def __init__(self, minimiser: Minimiser, point: Point, active: np.ndarray):
        self.minimiser, self.point, self.active = minimiser, point, active
        self.slopes = np.where(active, 0.0, minimiser.loss.slopes(point.residual))
        lowest, highest = point.x <= minimiser.box.low, point.x >= minimiser.box.high
        norms = np.linalg.norm(point.jacobian, axis=0)
        held = lowest | highest
        while True:
            self._decompose(held)
            # A bound holds a parameter against the slope of the loss, and no other way.
            slope = point.jacobian.T @ self.balanced
            slope = np.where(norms > 0, slope / np.where(norms > 0, norms, 1), 0)
            pull = np.where(held, np.where(lowest, -slope, slope), 0)
            if not np.any(pull > 0):
                break
            held[np.argmax(pull)] = False

    def _decompose(self, held: np.ndarray) -> None:
        active, residual = self.active, self.point.residual
        self.frame = frame = Frame.of(self.point.jacobian, held)
        # Directions along which the active data do not change.
        left, s, right = np.linalg.svd(frame.basis[active], full_matrices=True)
        rank = int(np.sum(s > constants.UNSEEN * np.max(s, initial=0.0)))
        self.along = right[rank:]
        inverse = (right[:rank].T / s[:rank]) @ left[:, :rank].T
        self.onto = -inverse @ residual[active]
        self.slope = frame.basis.T @ self.slopes
        # Slopes of the active data hold the others in balance, whatever their limits.
        self.balanced = self.slopes.copy()
        self.balanced[active] = -inverse.T @ self.slope

    @property
    def distance(self) -> float:
        """From the active data, beside all of them, and of the slopes from balance."""
        off = np.linalg.norm(self.point.residual[self.active]) / self.minimiser.size(self.point)
        size = float(np.linalg.norm(self.slopes)) or 1.0
        return float(off + np.linalg.norm(self.along @ self.slope) / size)

    def step(self) -> np.ndarray:
        """Newton's; where the curvature is negative, as long but down."""
        step = self.onto
        if len(self.along):
            matrix = self._curvature(self.balanced)
            values, vectors = np.linalg.eigh(self.along @ matrix @ self.along.T)
            size = np.abs(values)
            clear = size > constants.DEGENERATE * np.max(size, initial=0.0)
            slope = vectors.T @ (self.along @ (self.slope + matrix @ step))
            inside = np.where(clear, slope / np.where(clear, size, 1), 0)
            step = step - self.along.T @ (vectors @ inside)
        return self.frame.back @ step

    def _curvature(self, slopes: np.ndarray) -> np.ndarray:
        basis, minimiser = self.frame.basis, self.minimiser
        bends = np.where(self.active, 0.0, minimiser.loss.bends(self.point.residual))
        curved = minimiser.curvature(self.point, slopes, self.frame.back)
        return curved + (basis.T * bends) @ basis

    def convex(self, slopes: np.ndarray) -> bool:
        """Whether the loss does not fall along curves through the active data."""
        if not len(self.along) or self.minimiser.loss.kink is None:
            return True
        matrix = self._curvature(slopes)
        values = np.linalg.eigvalsh(self.along @ matrix @ self.along.T)
        return bool(values[0] >= -1e-6 * np.max(np.abs(values), initial=0.0))

    def offset(self) -> tuple[float, np.ndarray]:
        """Cosine between slopes and what the parameters can change, and the slopes."""
        basis, slopes, kink = self.frame.basis, self.slopes, self.minimiser.loss.kink
        if kink is not None and np.any(self.active):
            slopes = slopes.copy()
            slopes[self.active] = multipliers(basis[self.active], basis.T @ slopes, kink)
        size = float(np.linalg.norm(slopes))
        return (float(np.linalg.norm(basis.T @ slopes)) / size if size > 0 else 0.0), slopes
