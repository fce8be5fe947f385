"""What happened to a run, as data."""

import enum
from typing import Any


class Status(enum.IntEnum):
    """How a run ended. ``status.message`` says what it means and what to do about it.

    The members are integers, so that a batch of runs carries an array of them which can be
    compared with a member.

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
        """One sentence: what happened, and the cure if there is one."""
        return _MESSAGES[self]

    @property
    def succeeded(self) -> bool:
        """Whether the run ended because the requested accuracy was reached."""
        return self in (Status.TARGET_REACHED, Status.CONVERGED, Status.STATIONARY)


_MESSAGES = {
    Status.RUNNING: "The run has not ended.",
    Status.TARGET_REACHED: (
        "The value came within tol of the target value, relative to where it began (or was there, "
        "up to rounding, from the beginning)."
    ),
    Status.CONVERGED: (
        "The value stopped changing (by more than tol over the window). The step rule knows no "
        "target value, so this does not certify a minimum: steps that shrink too fast also end "
        "here. If in doubt, repeat with larger first steps or a slower decay."
    ),
    Status.STEP_LIMIT: (
        "max_steps ran out before tol was reached. Give more steps, or look at the trace: if the "
        "value still falls, more steps help; if it is flat, change the step or damping rule."
    ),
    Status.STAGNATED: (
        "The value stopped improving before the target was within tol (or, where no target is "
        "known, without ever falling below the start). The target may be lower "
        "than the true minimum (noise or outliers in the data: use steps.BulkPolyak, which "
        "estimates it), the damping may not suit the scale of the loss (try another factor), or "
        "the start is a stationary point or outside the basin (try another x0)."
    ),
    Status.PRECISION_FLOOR: (
        "The value stopped improving where rounding errors of this dtype begin. This is all the "
        "precision allows; use float64 arrays to go further."
    ),
    Status.DIVERGED: (
        "The value grew far above where it began. Use smaller steps (steps.Polyak(scale=0.5)) or "
        "more damping, or start closer. The best point seen is returned."
    ),
    Status.NON_FINITE: (
        "A NaN or infinity appeared. Use smaller steps, more damping, or data of moderate scale. "
        "The best point seen is returned."
    ),
    Status.LINEAR_SOLVE_FAILED: (
        "The damped linear system could not be solved. Use more damping, or allow the linear "
        "solver more steps. The best point seen is returned."
    ),
    Status.STATIONARY: (
        "The residual is orthogonal, up to tol or rounding errors, to all that the parameters can "
        "change: a stationary point. Another start may lead to a lower one."
    ),
    Status.INTERRUPTED: "Stopped by the user or the callback; this is the latest state.",
}


class RecoveryStatus(enum.IntEnum):
    """The verdict on a recovery. ``status.message`` says what it means and what to do about it.

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
        """One sentence: what happened, and the cure if there is one."""
        return _VERDICTS[self]

    @property
    def succeeded(self) -> bool:
        """Whether there is an answer that the data support."""
        return self in (RecoveryStatus.EXACT, RecoveryStatus.NOISE_LEVEL)


_VERDICTS = {
    RecoveryStatus.EXACT: (
        "Recovered exactly: the point explains more than half of the observations up to rounding "
        "errors, and many more than it has degrees of freedom."
    ),
    RecoveryStatus.NOISE_LEVEL: (
        "Recovered to the noise level: the point explains more than half of the observations up "
        "to noise, and predicts others that were kept aside as well."
    ),
    RecoveryStatus.NOT_IDENTIFIABLE: (
        "Not identifiable: there are too few observations, or none that see some direction, so "
        "that other points would fit as well. Observe more, or lower the bound on the rank."
    ),
    RecoveryStatus.NOT_CONVERGED: (
        "Did not converge to an answer that the data support. Too many may be wrong, too few "
        "observed for the rank and the noise, or the bound on the rank too low; or the start was "
        "bad (another seed makes others)."
    ),
    RecoveryStatus.INTERRUPTED: (
        "Interrupted by the user, the callback or the time limit; this is what it had."
    ),
}


class SolveError(RuntimeError):
    """Raised by ``solve(..., throw=True)`` when a run did not succeed; it carries the result."""

    def __init__(self, status: Status, result: Any):
        super().__init__(f"{status.name}: {status.message}")
        self.status = status
        self.result = result


class Stopped(Exception):
    """Raised inside a search when its time is up, or its callback wants no more."""
