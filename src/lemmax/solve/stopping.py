"""Stopping rules."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .._checks import check_positive, check_real
from .._typing import RealLike, RealScalar
from ..status import Status

# A window that reduces the gap by less than this factor counts as no progress.
_STALL = 1 - 1e-3


class Stopping(eqx.Module):
    """The stopping rules besides ``tol`` and ``max_steps``.

    Parameters
    ----------
    window : int
        Number of steps over which progress is measured.
    step_tol : float
        Stop when a step changes x by at most this, relative to its norm. The default 0 stops only
        if x does not change at all.
    divergence : float
        Stop when the gap to the target exceeds this multiple of the initial gap and of the loss of
        a residual as large as the data.

    Examples
    --------
    >>> import lemmax as lm
    >>> patient = lm.Stopping(window=500)
    """

    window: RealLike = 50
    step_tol: RealLike = 0.0
    divergence: RealLike = 1e10

    def __check_init__(self):
        if isinstance(self.window, (int, float, str)):
            check_positive(window=self.window)
        check_real(0, step_tol=self.step_tol)
        check_real(1, divergence=self.divergence)


class Progress(eqx.Module):
    """The memory of the stopping rules."""

    start: RealScalar
    """Gap (value - target) at the start."""
    best: RealScalar
    """Smallest gap so far."""
    mark: RealScalar
    """Smallest gap when the current window began."""
    low: RealScalar
    """Smallest value in the current window."""
    high: RealScalar
    """Largest value in the current window."""
    scale: RealScalar
    """The loss of a residual as large as the data."""
    rounding: RealScalar
    """Values up to this are rounding errors."""


def begin(scale: RealScalar, rounding: RealScalar) -> Progress:
    """The memory before the first iterate."""
    infinity = jnp.full_like(rounding, jnp.inf)
    return Progress(infinity, infinity, infinity, infinity, -infinity, scale, rounding)


def judge_value(
    stopping: Stopping,
    progress: Progress,
    gap: RealScalar,
    step: Int[Array, ""],
    tol: RealScalar,
    has_target: bool,
    tries: bool = False,
) -> tuple[Int[Array, ""], Progress]:
    """Test the value of the newest point: a status, and the updated memory.

    For a method that ``tries`` trial points the best point is tested; the method itself reports
    when it is stationary.
    """
    if tries:
        gap = jnp.fmin(gap, progress.best)
    finite = jnp.isfinite(gap)
    start = jnp.where(step == 0, gap, progress.start)
    best = jnp.where(finite, jnp.minimum(progress.best, gap), progress.best)
    low = jnp.where(finite, jnp.minimum(progress.low, gap), progress.low)
    high = jnp.maximum(progress.high, gap)

    window_ends = (step > 0) & (step % jnp.asarray(stopping.window) == 0)
    if has_target:
        there_already = (step == 0) & (gap <= progress.rounding)
        done, name_of_done = (gap <= tol * start) | there_already, Status.TARGET_REACHED
        stalled = window_ends & (best > _STALL * progress.mark)
        name_of_stall = jnp.where(
            best <= progress.rounding, Status.PRECISION_FLOOR, Status.STAGNATED
        )
    else:
        done, name_of_done = gap == 0, Status.CONVERGED
        stalled = window_ends & (high - low <= tol * start)
        name_of_stall = _settled(best, start)
    stalled = stalled & (not tries)
    # With tol = 0 all steps are taken, whatever the progress.
    wanted = tol > 0
    status = jnp.asarray(Status.RUNNING)
    status = jnp.where(wanted & stalled, name_of_stall, status)
    # A start at the solution has no gap to compare with; the scale of the data is used then.
    beyond = gap > stopping.divergence * jnp.maximum(start, progress.scale)
    status = jnp.where(wanted & beyond, Status.DIVERGED, status)
    status = jnp.where(wanted & done, name_of_done, status)
    status = jnp.where(finite, status, Status.NON_FINITE)

    fresh = window_ends | (step == 0)
    return status.astype(jnp.int32), Progress(
        start=start,
        best=best,
        mark=jnp.where(fresh, best, progress.mark),
        low=jnp.where(fresh, gap, low),
        high=jnp.where(fresh, gap, high),
        scale=progress.scale,
        rounding=progress.rounding,
    )


def _settled(best: RealScalar, start: RealScalar) -> Int[Array, ""]:
    """No more change: a success only if the value decreased before."""
    return jnp.where(best < start, Status.CONVERGED, Status.STAGNATED)


def judge_move(
    stopping: Stopping,
    progress: Progress,
    movement: RealScalar,
    failed: Bool[Array, ""],
    offset: RealLike,
    tol: RealScalar,
    has_target: bool,
) -> Int[Array, ""]:
    """Test the step just taken: a status."""
    still = (tol > 0) & (movement <= stopping.step_tol)
    floor = jnp.where(progress.best <= progress.rounding, Status.PRECISION_FLOOR, Status.STAGNATED)
    name_of_still = floor if has_target else _settled(progress.best, progress.start)
    status = jnp.where(still, name_of_still, jnp.asarray(Status.RUNNING))
    status = jnp.where(failed, Status.LINEAR_SOLVE_FAILED, status)
    return jnp.where((tol > 0) & (offset <= tol), Status.STATIONARY, status).astype(jnp.int32)
