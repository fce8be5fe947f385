"""Maps from a user's own function: `lemmax.fit` finds and judges the parameters."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from .._dtype import precision_context, to_device, x64_context
from .._typing import Parameters
from ..fit import Fit, FitStatus, fit
from ..fit import _constants as constants
from ..losses import SquaredL2
from ..maps import AbstractMap
from ..problem import Composite
from .found import Recovery, RecoveryStatus

_STATUSES = {
    FitStatus.EXACT: RecoveryStatus.EXACT,
    FitStatus.FITTED: RecoveryStatus.NOISE_LEVEL,
    FitStatus.NOT_IDENTIFIED: RecoveryStatus.NOT_IDENTIFIABLE,
    FitStatus.NOT_CONVERGED: RecoveryStatus.NOT_CONVERGED,
    FitStatus.DOUBTFUL: RecoveryStatus.NOT_CONVERGED,
    FitStatus.INTERRUPTED: RecoveryStatus.INTERRUPTED,
}


def recover_function(
    problem: Composite,
    x0: Parameters,
    restarts: int,
    max_seconds: float | None,
    callback: Callable[[str, int, float], Any] | None,
    progress: bool,
) -> Recovery:
    """Fit the parameters of a function to observations of its values."""
    map, operator, robust = problem.map, problem.operator, problem.loss.robust
    assert map.model is not None
    with precision_context(problem, x0):
        problem.check_start(jax.tree.map(to_device, x0))

    def observed(x: Parameters) -> Any:
        return operator.measure(map(x))

    precisions = problem.loss.precisions(problem.data.shape)
    known = precisions > 0
    y = np.where(known, np.asarray(problem.data, np.float64), np.nan)
    fitted = fit(
        # Programs of the function itself are shared between calls.
        map.model if operator.entrywise and operator.point_shape is None else observed,
        y,
        x0,
        loss=None if robust else SquaredL2(),
        sigma=None if np.all(precisions[known] == 1) else 1 / np.sqrt(precisions + ~known),
        callback=callback,
        max_seconds=max_seconds,
        progress=progress,
        starts=constants.STARTS if restarts else 0,
    )
    return _as_recovery(map, fitted)


def _as_recovery(map: AbstractMap, fitted: Fit) -> Recovery:
    status = _STATUSES[fitted.status]
    with x64_context():
        point = jax.tree.map(np.asarray, map(jax.tree.map(jax.numpy.asarray, fitted.x)))
        error = _point_error(map, fitted) / max(float(point.norm()), np.finfo(float).tiny)
    interrupted = status is RecoveryStatus.INTERRUPTED
    return Recovery(
        point=point,
        x=fitted.x,
        map=map,
        status=status,
        residual=np.asarray(fitted.residual),
        outliers=fitted.outliers,
        noise=float("nan") if interrupted else fitted.noise,
        expected_error=error,
        freedom=len(fitted.names),
        needed=len(fitted.names),
        observations=fitted.observations,
        objections=tuple(fitted.objections),
        passes=fitted.starts,
        steps=fitted.starts,
        seconds=fitted.seconds,
    )


def _point_error(map: AbstractMap, fitted: Fit) -> float:
    """The norm of the error of the point, from the covariance of the parameters."""
    if not np.all(np.isfinite(np.diag(fitted.covariance))):
        return float("inf")
    flat, unravel = ravel_pytree(fitted.x)
    jacobian = np.asarray(jax.jacfwd(lambda v: ravel_pytree(map(unravel(v)).dense())[0])(flat))
    return float(np.sqrt(np.sum((jacobian @ fitted.covariance) * jacobian)))
