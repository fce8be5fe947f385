"""From what is known about a fit to its status, objections and remarks; the same for all fits."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from . import _constants as constants
from ._data import listed
from ._order import correlation
from .status import FitStatus

NO_BETTER = (
    "the model explains the data no better than a constant does: too many may be outliers, or the "
    "noise is too large"
)
FOLLOW_A_CURVE = (
    "the residuals follow a curve of their own: the model misses something, or this is a local "
    "minimum"
)
AT_A_LIMIT = (
    "{} data have the same value, the largest or the smallest of all: if a detector has cut them "
    "off, they are missing (NaN)"
)
CROWDED = (
    "{} outliers on one side of the curve are close together: the model misses something there, or "
    "this part of the data is wrong (then mark it as missing, NaN)"
)
SINGLE_DATUM = "a parameter depends on a single datum, so that nothing would reveal an error in it"


class Facts(NamedTuple):
    """What the tests found."""

    names: Sequence[str]
    """Of the free parameters."""
    finite: bool
    """Whether the model is finite where the fit ended."""
    freedom: int
    """Inliers less parameters."""
    exact: bool
    minimum: bool
    offset: float
    unseen: np.ndarray
    """Which parameters the data do not determine."""
    at_bound: np.ndarray
    residual: np.ndarray
    """Of the inliers, or slopes of the loss there."""


class Conclusion(NamedTuple):
    """The verdict in words."""

    status: FitStatus
    objections: tuple[str, ...]
    remarks: tuple[str, ...]


def conclude(facts: Facts, doubts: Callable[[], list[str]], interrupted: bool) -> Conclusion:
    """The verdict; each test assumes that those before were passed, ``doubts`` come last."""
    status, objections = FitStatus.EXACT if facts.exact else FitStatus.FITTED, []
    if not facts.finite:
        objections = ["the model is not finite where the fit ended"]
        status = FitStatus.NOT_CONVERGED
    elif facts.freedom <= 0:
        inliers = facts.freedom + len(facts.names)
        objections = [
            f"there are as many parameters as inliers ({inliers}): nothing is left to check them"
        ]
        status = FitStatus.DOUBTFUL
    elif not facts.exact and not facts.minimum:
        objections = [
            "the steps ended before a minimum: the residual is not orthogonal to the range of the "
            f"Jacobian (offset {facts.offset:.1e})"
        ]
        status = FitStatus.NOT_CONVERGED
    elif np.any(facts.unseen):
        objections = [f"the data do not determine {_chosen_names(facts, facts.unseen)}"]
        status = FitStatus.NOT_IDENTIFIED
    elif not facts.exact and not interrupted:
        objections = doubts()
        status = FitStatus.DOUBTFUL if objections else status
    remarks = []
    if np.any(facts.at_bound):
        remarks.append(f"at a bound: {_chosen_names(facts, facts.at_bound)}")
    if not facts.exact and correlation(facts.residual) > constants.CORRELATED:
        remarks.append(
            "neighbouring residuals are correlated: the model may miss something, and the standard "
            "errors are too small"
        )
    status = FitStatus.INTERRUPTED if interrupted else status
    return Conclusion(status, tuple(objections), tuple(remarks))


def _chosen_names(facts: Facts, chosen: np.ndarray) -> str:
    return listed([facts.names[int(k)] for k in np.flatnonzero(chosen)])


def follow_a_curve(residual: np.ndarray, size: float, width: float) -> bool:
    """Whether residuals of this size follow a curve that matters beside the range of the data."""
    structured = correlation(residual) > constants.STRUCTURED * np.sqrt(len(residual))
    enough = len(residual) >= constants.ENOUGH
    return bool(structured and enough and size > constants.COARSE * width)


def parameters_in_words(names: Sequence[str], x: np.ndarray) -> str:
    """Names and values."""
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, x, strict=True))
