"""Fits of many parameters: stages as in `_refine`, from one start, without a dense Jacobian."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..methods.jacobians import AbstractJacobian, Sparse
from ..status import Stopped
from ._data import Task
from ._large_errors import ByProducts, BySparse, Information
from ._large_problem import Descent, LargeProblem
from ._losses import ABSOLUTE, REDESCENDING, SQUARES
from ._message import shortest
from ._refine import Candidates, Setting
from ._search import AGREE, correlation
from ._steps import Ended
from ._verdict import Verdict, gain_needed, null_length
from .status import FitStatus

# The redescending loss bends at these multiples of the scale, one after the other.
_BENDS = (6.0, 3.0, 3.0)
# The offset that is small enough on the way; at the end parameters are off by no more than this
# part of their standard errors.
_ROUGH, _FINAL = 1e-2, 1e-5
# The scale, and which data are right, are estimated at most so often; a scale that falls by less
# than this is found.
_ROUNDS, _STABLE = 6, 0.8
# Noise within so many rounding errors is none, and residuals within these are all alike.
_EXACT, _ALIKE = 32.0, 16.0
# Without a residual beyond so many scales there is nothing to look for.
_ORDINARY = 4.0
# As for other fits: a minimum, the correlation of neighbours that is worth a remark.
_OFFSET, _CORRELATED = 1e-3, 4.0
# Numbers that the choice of wrong data may hold at a time.
_TOGETHER = 1 << 24


class Fitted(NamedTuple):
    """A fit, the data that it takes for right, and the length of its message."""

    ended: Descent
    keep: np.ndarray
    length: float


def fit_large(
    task: Task, setting: Setting, jacobian: AbstractJacobian
) -> tuple[Candidates, Verdict]:
    """Fit from the start alone, and judge as far as can be known."""

    def late() -> bool:
        try:
            setting.watch()
        except Stopped:
            return True
        return False

    problem = LargeProblem(task, jacobian, late)
    began = problem.residual(task.start)
    if not np.all(np.isfinite(began)):
        raise ValueError("The model is not finite at the start. Start elsewhere.")
    best = _judged(setting, Descent(task.start, began, 0.0, False, 0), len(task.start))
    interrupted = False
    try:
        for stage in _stages(setting, problem, best):
            best = stage
    except Stopped:
        interrupted = True
    return _verdict(task, setting, problem, best, interrupted)


def _stages(setting: Setting, problem: LargeProblem, begun: Fitted) -> Iterator[Fitted]:
    """Better and better fits: least squares, then robust ones if there is something to look for."""
    p, counts = len(begun.ended.x), setting.counts
    rough = _ROUGH if setting.robust else _final(setting, p)
    plain = _judged(setting, problem.descend(begun.ended.x, counts, SQUARES, 1.0, rough), p)
    yield plain
    if not setting.robust:
        return
    if _nothing_to_look_for(setting, plain):
        plain = _settled(setting, problem, plain, p)
        yield plain
        if _nothing_to_look_for(setting, plain):
            return
    # Wrong data may have led least squares astray: what bears them begins where they began. Rough
    # fits may tell the data shorter than accurate ones, by a little: these alone are compared.
    best = None
    for begin in (begun, plain):
        found = _settled(setting, problem, _robust(setting, problem, begin.ended, p), p)
        best = _better(best, found)
        # Least squares that tell the data as shortly, though they are rough, may be right.
        if begin is begun and plain.ended.settled and plain.length <= found.length + AGREE:
            best = _better(best, _settled(setting, problem, plain, p))
        yield best
        if best.ended.settled:
            return


def _better(one: Fitted | None, other: Fitted) -> Fitted:
    """A minimum rather than none, then the shorter message."""
    return min(one or other, other, key=lambda fit: (not fit.ended.settled, fit.length))


def _robust(setting: Setting, problem: LargeProblem, ended: Descent, p: int) -> Fitted:
    """Absolute values at a scale that falls with the residuals, then redescending losses."""
    scale = _scale(setting, ended.residual, p)
    for _ in range(_ROUNDS):
        ended = problem.descend(ended.x, setting.counts, ABSOLUTE, scale, _ROUGH)
        before, scale = scale, min(_scale(setting, ended.residual, p), scale)
        if scale >= _STABLE * before:
            break
    for bend in _BENDS:
        scale = _scale(setting, ended.residual, p)
        ended = problem.descend(ended.x, setting.counts, REDESCENDING, bend * scale, _ROUGH)
    return _judged(setting, ended, p)


def _settled(setting: Setting, problem: LargeProblem, found: Fitted, p: int) -> Fitted:
    """Least squares on the data that are right, until these no longer change."""
    for _ in range(_ROUNDS):
        weight = found.keep.astype(float)
        ended = problem.descend(found.ended.x, weight, SQUARES, 1.0, _final(setting, p))
        before, found = found.keep, _judged(setting, ended, p)
        if np.array_equal(before, found.keep):
            break
    return found


def _final(setting: Setting, p: int) -> float:
    """The offset at which parameters are as close to the minimum as is asked for."""
    freedom = max(float(np.sum(setting.counts > 0)) - p, 1.0)
    return min(_FINAL * np.sqrt(p / freedom), _FINAL)


def _nothing_to_look_for(setting: Setting, plain: Fitted) -> bool:
    scale = _scale(setting, plain.ended.residual, len(plain.ended.x))
    ordinary = np.max(np.abs(plain.ended.residual)) <= _ORDINARY * scale
    return bool(plain.ended.settled and np.all(plain.keep) and ordinary)


def _scale(setting: Setting, residual: np.ndarray, p: int) -> float:
    return float(setting.scale(residual[None], setting.counts[None], p)[0])


def _judged(setting: Setting, ended: Descent, p: int) -> Fitted:
    residual = ended.residual
    sizes = np.maximum(np.abs(residual), _ALIKE * setting.rounding)[None]
    scale, width = np.array([_scale(setting, residual, p)]), np.array([setting.width])
    gaps = int(np.clip(_TOGETHER // len(residual), 4, 24))
    least = 0.5 if setting.robust else 1.0
    keep, length = shortest(sizes, setting.counts[None], p, scale, width, least, gaps)
    return Fitted(ended, keep[0], float(length[0]))


def _verdict(
    task: Task, setting: Setting, problem: LargeProblem, best: Fitted, interrupted: bool
) -> tuple[Candidates, Verdict]:
    x, keep = best.ended.x, best.keep
    residual = best.ended.residual
    n, p = int(np.sum(keep)), len(x)
    freedom = n - p
    right = residual[keep]
    noise = float(np.sqrt(right @ right / freedom)) if freedom > 0 else float("nan")
    at_bound = (x <= task.box.low) | (x >= task.box.high)
    kind = BySparse if isinstance(problem.jacobian, Sparse) else ByProducts
    information = kind(problem, x, keep, at_bound)
    inverse = information.covariance()
    factor = max(noise, setting.rounding) ** 2
    offset = information.offset(residual)
    exact = freedom > 0 and noise <= _EXACT * setting.rounding
    minimum = best.ended.settled or bool(offset * np.sqrt(max(freedom, 1) / p) <= _OFFSET)
    objections, status = _objections(
        task, setting, best, information, exact, minimum, freedom, offset
    )
    if interrupted:
        status = FitStatus.INTERRUPTED
    errors = np.full(p, np.nan)
    if inverse is None:
        errors[information.unseen] = np.inf
        covariance = np.zeros((0, 0))
    else:
        covariance = factor * inverse
        covariance[at_bound] = covariance[:, at_bound] = np.nan
        errors = np.sqrt(np.diag(covariance))
    ended = Ended(
        x[None],
        residual[None],
        np.zeros((1, 0, 0)),
        np.array([best.ended.value]),
        np.array([offset]),
        np.array([best.ended.settled]),
        np.array([best.ended.steps]),
    )
    verdict = Verdict(
        status,
        tuple(objections),
        tuple(_remarks(task, information, at_bound, exact, right, inverse is None)),
        covariance,
        noise,
        freedom,
        information.unseen,
        at_bound,
        errors,
        information if inverse is None else None,
    )
    found = Candidates(ended, keep[None], np.array([best.length]), np.ones(1, bool))
    return found, verdict


def _objections(
    task: Task,
    setting: Setting,
    best: Fitted,
    information: Information,
    exact: bool,
    minimum: bool,
    freedom: int,
    offset: float,
) -> tuple[list[str], FitStatus]:
    p = len(best.ended.x)
    if not np.isfinite(best.length):
        why = "the model is not finite where the fit ended, or no data are left over"
        return [why], FitStatus.NOT_CONVERGED
    if freedom <= 0:
        why = f"there are as many parameters as right data ({freedom + p}): nothing checks them"
        return [why], FitStatus.DOUBTFUL
    if not exact and not minimum:
        why = (
            "the steps ended before a minimum: the residual is not orthogonal to what the "
            f"parameters can change (offset {offset:.1e})"
        )
        return [why], FitStatus.NOT_CONVERGED
    if np.any(information.unseen):
        names = [task.free_names[k] for k in np.flatnonzero(information.unseen)[:6]]
        more = int(np.sum(information.unseen)) - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        return [f"the data do not determine {listed}"], FitStatus.NOT_IDENTIFIED
    if exact:
        return [], FitStatus.EXACT
    n = int(np.sum(setting.counts > 0))
    if null_length(task, setting, p) - best.length < gain_needed(n, p):
        why = (
            "the model does not explain the data better than a constant does, as far as they can "
            "tell: too many may be wrong, or the noise too large"
        )
        return [why], FitStatus.DOUBTFUL
    return [], FitStatus.FITTED


def _remarks(
    task: Task,
    information: Information,
    at_bound: np.ndarray,
    exact: bool,
    right: np.ndarray,
    many: bool,
) -> list[str]:
    remarks = []
    if np.any(at_bound):
        remarks.append(f"{int(np.sum(at_bound))} parameters at a bound")
    if many:
        remarks.append(
            "too many parameters for all standard errors: standard_error_of has those of interest"
        )
    if not information.checked:
        remarks.append("whether the data determine all parameters was not checked")
    if not exact and correlation(right) > _CORRELATED:
        remarks.append(
            "neighbouring residuals are correlated: the model may miss something, and the standard "
            "errors are too small"
        )
    return remarks
