"""Fits of many parameters: stages as in `_refine`, from one start, without a dense Jacobian."""

from collections.abc import Iterator

import numpy as np

from ..methods.jacobians import AbstractJacobian, Sparse
from ..status import Stopped
from . import _constants as constants
from ._conclusion import NO_BETTER, Facts, conclude
from ._data import Task
from ._large_errors import ByProducts, BySparse, Information
from ._large_problem import LargeProblem
from ._losses import squares
from ._refine import Candidates, Setting, absolute, at, candidates, refine, settle
from ._verdict import Verdict, gain_needed, null_length


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
    setting = setting._replace(evaluate=problem.evaluate, method=problem.descend)
    best = begun = candidates(setting, at(setting, task.start[None]))
    if not np.isfinite(begun.ended.value[0]):
        raise ValueError("The model is not finite at the start. Start elsewhere.")
    interrupted = False
    try:
        for stage in _stages(setting, begun):
            best = stage
    except Stopped:
        interrupted = True
    return _verdict(task, setting, problem, best, interrupted)


def _stages(setting: Setting, begun: Candidates) -> Iterator[Candidates]:
    """Better and better fits: least squares, then robust ones if there is something to look for."""
    x, final = begun.ended.x, _final(setting, begun.ended.x.shape[1])
    tol = constants.ROUGH if setting.robust else final
    plain = candidates(setting, setting.descend(x, setting.counts, squares(1), tol=tol))
    yield plain
    if not setting.robust:
        return
    if _nothing_to_look_for(setting, plain):
        plain = settle(setting, plain.ended, plain.heavy, tol=final)
        yield plain
        if _nothing_to_look_for(setting, plain):
            return
    # Outliers may have led least squares astray: robust losses begin where these began. Rough fits
    # may have shorter descriptions than accurate ones, by a little: only the latter are compared.
    best = None
    for begin in (begun, plain):
        known = begin.ended.residual, begin.ended.jacobian
        robust = refine(setting, absolute(setting, begin.ended.x, known=known))
        robust = robust.of(np.argmin(robust.length, keepdims=True))
        best = _better(best, settle(setting, robust.ended, robust.heavy, tol=final))
        # Least squares with as short a description, though they are rough, may be right.
        as_short = plain.length[0] <= best.length[0] + constants.AGREE
        if begin is begun and plain.ended.settled[0] and as_short:
            best = _better(best, settle(setting, plain.ended, plain.heavy, tol=final))
        yield best
        if best.ended.settled[0]:
            return


def _better(one: Candidates | None, other: Candidates) -> Candidates:
    """A minimum rather than none, then the shorter description."""
    return min(one or other, other, key=lambda fit: (not fit.ended.settled[0], fit.length[0]))


def _final(setting: Setting, p: int) -> float:
    """The offset at which parameters are as close to the minimum as is asked for."""
    freedom = max(float(np.sum(setting.counts > 0)) - p, 1.0)
    return min(constants.TOL_OF_LARGE * np.sqrt(p / freedom), constants.TOL_OF_LARGE)


def _nothing_to_look_for(setting: Setting, plain: Candidates) -> bool:
    residual, p = plain.ended.residual, plain.ended.x.shape[1]
    ordinary = np.max(np.abs(residual)) <= constants.ORDINARY_PLAIN * setting.scale(
        residual, setting.counts, p
    )
    return bool(plain.ended.settled[0] and np.all(plain.keep) and ordinary[0])


def _verdict(
    task: Task, setting: Setting, problem: LargeProblem, best: Candidates, interrupted: bool
) -> tuple[Candidates, Verdict]:
    x, keep, residual = best.ended.x[0], best.keep[0], best.ended.residual[0]
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
    facts = Facts(
        names=task.free_names,
        finite=bool(np.isfinite(best.length[0])),
        freedom=freedom,
        exact=freedom > 0 and noise <= constants.EXACT * setting.rounding,
        minimum=bool(best.ended.settled[0])
        or bool(offset * np.sqrt(max(freedom, 1) / p) <= constants.NEGLIGIBLE),
        offset=offset,
        unseen=information.unseen,
        at_bound=at_bound,
        residual=right,
    )

    def doubts() -> list[str]:
        gain = null_length(task, setting, p) - best.length[0]
        return [NO_BETTER] if gain < gain_needed(int(np.sum(setting.counts > 0)), p) else []

    concluded = conclude(facts, doubts, interrupted)
    remarks = [*concluded.remarks, *_unknown(information, inverse is None)]
    errors = np.full(p, np.nan)
    if inverse is None:
        errors[information.unseen] = np.inf
        covariance = np.zeros((0, 0))
    else:
        covariance = factor * inverse
        covariance[at_bound] = covariance[:, at_bound] = np.nan
        errors = np.sqrt(np.diag(covariance))
    verdict = Verdict(
        *concluded._replace(remarks=tuple(remarks)),
        covariance,
        noise,
        freedom,
        information.unseen,
        at_bound,
        errors,
        information if inverse is None else None,
    )
    best.ended.offset[0] = offset
    return best, verdict


def _unknown(information: Information, many: bool) -> list[str]:
    """What was not computed because there are many parameters."""
    remarks = []
    if many:
        remarks.append("too many parameters for all standard errors: use standard_error_of")
    if not information.checked:
        remarks.append("whether the data determine all parameters was not checked")
    return remarks
