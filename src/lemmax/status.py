"""Statuses of runs and recoveries."""

import enum
from typing import Any


class Status(enum.IntEnum):
    """How a run ended. ``status.message`` explains it and suggests a remedy.

    The members are integers, so that a batch of runs has an array of them, which can be compared
    with a member.

    Examples
    --------
    >>> from lemmax import Status
    >>> Status.STEP_LIMIT.name, Status.STEP_LIMIT.succeeded
    ('STEP_LIMIT', False)
    """

    RUNNING = 0
    TARGET_REACHED = 1
    CONVERGED = 2
    STEP_LIMIT = 3
    STAGNATED = 4
    PRECISION_FLOOR = 5
    DIVERGED = 6
    NON_FINITE = 7
    LINEAR_SOLVE_FAILED = 8
    INTERRUPTED = 9
    STATIONARY = 10

    @property
    def message(self) -> str:
        """An explanation of the status, with a remedy if there is one."""
        return _MESSAGES[self]

    @property
    def succeeded(self) -> bool:
        """Whether the run reached the requested accuracy."""
        return self in (Status.TARGET_REACHED, Status.CONVERGED, Status.STATIONARY)


_MESSAGES = {
    Status.RUNNING: "The run has not ended.",
    Status.TARGET_REACHED: (
        "The value reached the target value up to tol, relative to the initial gap (or was there, "
        "up to rounding, from the start)."
    ),
    Status.CONVERGED: (
        "The value stopped changing (by more than tol over the window). The step rule has no "
        "target value, so this does not certify a minimum: steps that shrink too fast also end "
        "here. If in doubt, repeat with larger initial steps or a slower decay."
    ),
    Status.STEP_LIMIT: (
        "max_steps was reached before tol. If the value still decreases in the trace, use more "
        "steps; if it is flat, change the step or damping rule."
    ),
    Status.STAGNATED: (
        "The value stopped improving before it reached the target up to tol (or, without a target, "
        "without ever decreasing below the start). The target may be lower "
        "than the true minimum (noise or outliers in the data: use steps.BulkPolyak, which "
        "estimates it), the damping may not suit the scale of the loss (try another factor), or "
        "the start is a stationary point or too far away (try another x0)."
    ),
    Status.PRECISION_FLOOR: (
        "The value stopped improving at the rounding errors of this dtype. More accuracy needs "
        "float64 arrays, if these are float32."
    ),
    Status.DIVERGED: (
        "The value grew far above its initial value. Use smaller steps (steps.Polyak(scale=0.5)), "
        "more damping, or a closer start. The best point seen is returned."
    ),
    Status.NON_FINITE: (
        "A NaN or infinity appeared. Use smaller steps, more damping, or data of moderate scale. "
        "The best point seen is returned."
    ),
    Status.LINEAR_SOLVE_FAILED: (
        "The damped linear system could not be solved. Use more damping, or more steps of the "
        "linear solver. The best point seen is returned."
    ),
    Status.STATIONARY: (
        "The residual is orthogonal to the range of the Jacobian, up to tol or rounding errors: a "
        "stationary point. Another start may lead to a lower one."
    ),
    Status.INTERRUPTED: "Stopped by the user or the callback; this is the latest state.",
}


class RecoveryStatus(enum.IntEnum):
    """The verdict on a recovery. ``status.message`` explains it and suggests a remedy.

    Examples
    --------
    >>> from lemmax import RecoveryStatus
    >>> RecoveryStatus.EXACT.succeeded, RecoveryStatus.NOT_IDENTIFIABLE.succeeded
    (True, False)
    """

    EXACT = 1
    NOISE_LEVEL = 2
    NOT_IDENTIFIABLE = 3
    NOT_CONVERGED = 4
    INTERRUPTED = 5

    @property
    def message(self) -> str:
        """An explanation of the verdict, with a remedy if there is one."""
        return _VERDICTS[self]

    @property
    def succeeded(self) -> bool:
        """Whether the data support the answer."""
        return self in (RecoveryStatus.EXACT, RecoveryStatus.NOISE_LEVEL)


_VERDICTS = {
    RecoveryStatus.EXACT: (
        "Recovered exactly: the point explains more than half of the observations up to rounding "
        "errors, and many more than it has degrees of freedom."
    ),
    RecoveryStatus.NOISE_LEVEL: (
        "Recovered to the noise level: the point explains more than half of the observations up "
        "to noise, and predicts a hold-out set equally well."
    ),
    RecoveryStatus.NOT_IDENTIFIABLE: (
        "Not identifiable: there are too few observations, or none that determine some direction, "
        "so other points would fit as well. Observe more, or lower the bound on the rank."
    ),
    RecoveryStatus.NOT_CONVERGED: (
        "No answer that the data support was found. There may be too many outliers, too few "
        "observations for the rank and the noise, or the bound on the rank may be too low; or the "
        "start was bad (try another seed)."
    ),
    RecoveryStatus.INTERRUPTED: (
        "Interrupted by the user, the callback or the time limit; this is the result so far."
    ),
}


class SolveError(RuntimeError):
    """Raised by ``solve(..., throw=True)`` if a run fails; ``result`` has its result."""

    def __init__(self, status: Status, result: Any):
        super().__init__(f"{status.name}: {status.message}")
        self.status = status
        self.result = result


class Stopped(Exception):
    """Raised inside a search when its time is up or its callback asks to stop."""
