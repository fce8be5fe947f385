"""`regress`: linear regression with one design matrix and many right-hand sides."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_kind, check_positive
from .._dtype import needs_local_x64, precision_context, require_finite, to_device, to_numpy
from .._typing import AnyArray
from ..losses import L1, AbstractLoss, SquaredL2
from ._absolute import least_absolute
from ._squares import least_squares


class Regression(NamedTuple):
    """Result of `regress`, with one row per right-hand side."""

    coefficients: AnyArray
    residual: AnyArray
    """``coefficients @ design.T - targets``; 0 where the target is missing."""
    settled: AnyArray
    """Which rows are proved minimisers, by optimality conditions (least squares) or by duality
    (absolute deviations); the others are approximations."""


def regress(
    design: Any,
    targets: Any,
    loss: AbstractLoss | None = None,
    *,
    nonnegative: bool = False,
    max_steps: int = 2000,
) -> Regression:
    """Linear regression of many right-hand sides on one design matrix.

    Minimises ``loss(design @ t - target)`` over t, optionally with t >= 0, for every row of the
    targets. The rows share all matrix products, so a thousand of them take little longer than
    reading the data. At the end each row is solved exactly on its nonzero coefficients and active
    observations.

    Parameters
    ----------
    design : array of shape (n, p)
        One column per coefficient.
    targets : array of shape (k, n), or (n,)
        One right-hand side per row. NaN marks missing values.
    loss : L1 or SquaredL2, optional
        Default: `SquaredL2`. Weights, if any, have the shape of the targets.
    nonnegative : bool
        Whether the coefficients are constrained to be nonnegative.
    max_steps : int
        Maximum number of iterations.

    Returns
    -------
    Regression
        The coefficients and residuals; NumPy arrays unless JAX arrays were given.

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> design = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    >>> target = np.array([1.0, 3.0, 5.0, 70.0, 9.0])  # 1 + 2 t, and something wrong
    >>> lm.regress(design, target, lm.losses.L1()).coefficients.round(6)
    array([1., 2.])
    >>> lm.regress(design, -target, nonnegative=True).coefficients
    array([0., 0.])
    """
    loss = SquaredL2() if loss is None else loss
    check_kind("loss", loss, (L1, SquaredL2), "L1 or SquaredL2")
    check_positive(max_steps=max_steps)
    on_jax = isinstance(design, jax.Array) or isinstance(targets, jax.Array)
    design, targets = to_device(design), to_device(targets)
    gives_numpy = not on_jax or needs_local_x64(design, targets)
    with precision_context(design, targets):
        single = targets.ndim == 1
        design, rows, weights = _checked(design, targets, loss)
        solve = least_absolute if loss.robust else least_squares
        # Scale to about 1, so that squares do not overflow; powers of 2 are exact.
        units = _unit(design), _unit(rows)
        t, settled = solve(design / units[0], rows / units[1], weights, nonnegative, max_steps)
        t = t * (units[1] / units[0])
        residual = jnp.where(weights > 0, t @ design.T - rows, 0)
        answer = Regression(t, residual, settled)
        if single:
            answer = Regression(t[0], residual[0], settled[0])
        return to_numpy(answer) if gives_numpy else answer


def _checked(design: Any, targets: Any, loss: AbstractLoss) -> tuple[Any, Any, Any]:
    if design.ndim != 2 or design.size == 0:
        raise ValueError(f"The design must be a nonempty matrix; got shape {design.shape}.")
    if targets.ndim not in (1, 2) or targets.shape[-1] != design.shape[0] or targets.size == 0:
        raise ValueError(
            f"A design of shape {design.shape} needs targets with {design.shape[0]} entries, one "
            f"row per right-hand side; got shape {targets.shape}."
        )
    require_finite(design, "The design")
    rows = jnp.atleast_2d(targets)
    missing = np.isnan(rows)
    weights = np.ones(()) if loss.weights is None else np.asarray(loss.weights)
    try:
        weights = np.broadcast_to(weights, targets.shape).reshape(rows.shape)
    except ValueError as error:
        raise ValueError(
            f"Weights of shape {weights.shape} do not match targets of shape {targets.shape}."
        ) from error
    dtype = jnp.promote_types(design.dtype, rows.dtype)
    weights = np.where(missing, 0, weights)
    rows = np.where(weights > 0, rows, 0)
    require_finite(rows, "The targets")
    return design.astype(dtype), jnp.asarray(rows, dtype), jnp.asarray(weights, dtype)


def _unit(array: Any) -> float:
    """A power of 2 near the median absolute value of the nonzero entries."""
    sizes = np.abs(np.asarray(array, np.float64))
    sizes = sizes[sizes > 0]
    return 2.0 ** round(float(np.log2(np.median(sizes)))) if len(sizes) else 1.0
