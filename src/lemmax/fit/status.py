"""How a fit ended, as data."""

import enum


class FitStatus(enum.IntEnum):
    """The verdict on a fit. ``status.message`` says what it means and what to do about it.

    Examples
    --------
    >>> import lemmax as lm
    >>> lm.FitStatus.FITTED.succeeded, lm.FitStatus.NOT_IDENTIFIED.succeeded
    (True, False)
    """

    EXACT = 1
    FITTED = 2
    NOT_IDENTIFIED = 3
    NOT_CONVERGED = 4
    DOUBTFUL = 5
    INTERRUPTED = 6

    @property
    def message(self) -> str:
        """One sentence: what happened, and the cure if there is one."""
        return _MESSAGES[self]

    @property
    def succeeded(self) -> bool:
        """Whether the data support the parameters and their errors."""
        return self in (FitStatus.EXACT, FitStatus.FITTED)


_MESSAGES = {
    FitStatus.EXACT: "The inliers are explained up to rounding errors.",
    FitStatus.FITTED: ("The parameters are at a minimum that the data determine."),
    FitStatus.NOT_IDENTIFIED: (
        "Some parameters are not determined by the data: other values fit as well. Fix them "
        "(fixed=...), write the model with fewer, or observe what they change."
    ),
    FitStatus.NOT_CONVERGED: (
        "No minimum was found: parameters diverge, or the start is too far away. Give a better "
        "start or bounds."
    ),
    FitStatus.DOUBTFUL: (
        "There is a minimum, but the data do not support it. Give a better start, or more data."
    ),
    FitStatus.INTERRUPTED: "Interrupted by the user or the time limit; this is the latest state.",
}
