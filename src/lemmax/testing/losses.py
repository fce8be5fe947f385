"""Laws of convex losses."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..losses import AbstractLoss
from ._numbers import Key, compiled_quickly, generator, require, require_close

_STEPS = (1e-2, 1.0, 30.0)


def check_loss(loss: AbstractLoss, size: int, key: Key, rtol: float = 1e-10) -> None:
    """Check value, subgradient, prox and constants of a loss against their definitions.

    - The value is 0 at 0 and nonnegative, and the subgradient is 0 at 0.
    - ``value(u) >= value(r) + <subgradient(r), u - r>``, also if entries of r are exactly 0; the
      subgradient is the derivative if no entry is.
    - The prox p of r satisfies the same inequality with the subgradient ``(r - p) / step`` at p,
      has a smaller objective than random points, and is firmly nonexpansive.
    - An observation with weight 0 has no influence.
    - If the loss has reweighting weights, they are nonnegative, ``weight(r) * r`` is the
      subgradient, and the parabola with these weights is an upper bound of the loss.
    - All constants of ``constants(size)`` hold.

    Parameters
    ----------
    loss : AbstractLoss
        The loss to check.
    size : int
        Number of entries of the test residuals.
    key : int or JAX key
        Seed of the random numbers.
    rtol : float
        Relative error allowed for rounding.

    Raises
    ------
    AssertionError
        If a law is violated; the message has the numbers.

    Examples
    --------
    >>> import lemmax as lm
    >>> from lemmax.testing import check_loss
    >>> check_loss(lm.losses.Huber(0.5), size=4, key=0)
    """
    name, rng = type(loss).__name__, generator(key)
    with jax.enable_x64(True):
        loss = _at_double_precision(loss)
        residuals = _residuals(rng, size)
        value, slope, derivative = _measure(loss, jnp.asarray(residuals))
        at_zero = np.flatnonzero(~residuals.any(axis=1))[0]
        require(
            value[at_zero] == 0, f"{name}.value is {value[at_zero]:.3e} at residual 0, but not 0."
        )
        require(
            np.all(value >= 0), f"{name}.value is {np.min(value):.3e} somewhere, less than at 0."
        )
        require(
            np.all(slope[at_zero] == 0),
            f"{name}.subgradient at 0 is {slope[at_zero]}, but 0 is required, so that an exact fit "
            "is a fixed point.",
        )
        slope_size = np.sqrt(np.sum(slope**2, axis=1))
        _require_supports(
            f"{name}.subgradient", residuals, value, slope, residuals, value, slope_size, rtol
        )
        smooth = np.all(residuals != 0, axis=1)
        require_close(
            slope[smooth], derivative[smooth], rtol, f"{name}.subgradient against jax.grad"
        )
        _check_weights(loss, name, rng, size)
        _check_constants(loss, name, residuals, value, slope, rtol)
        if loss.reweightable:
            _check_residual_weights(loss, name, residuals, value, slope, rtol)
        for step in _STEPS:
            _check_prox(loss, name, residuals, value, step, rng, rtol)


def _check_weights(loss: AbstractLoss, name: str, rng: np.random.Generator, size: int) -> None:
    weights = jnp.ones(size).at[0].set(0.0)
    weighted = eqx.tree_at(lambda u: u.weights, loss, weights, is_leaf=lambda u: u is None)
    residual = jnp.asarray(rng.standard_normal(size))
    values = [float(weighted.value(r)) for r in (residual, residual.at[0].add(1.0))]
    require(
        values[0] == values[1],
        f"{name}.value changes from {values[0]:.6g} to {values[1]:.6g} with an entry of weight 0: "
        "its weights are not applied.",
    )


def _check_residual_weights(
    loss: AbstractLoss,
    name: str,
    residuals: np.ndarray,
    value: np.ndarray,
    slope: np.ndarray,
    rtol: float,
) -> None:
    weight = np.asarray(jax.vmap(loss.weight)(jnp.asarray(residuals)))
    require(np.all(weight >= 0), f"{name}.weight is {np.min(weight):.3e} somewhere, below 0.")
    require_close(weight * residuals, slope, rtol, f"{name}.weight times r against subgradient")
    at = value > 0  # a norm has a kink where it is 0
    change = residuals[None, :, :] - residuals[at][:, None, :]
    squares = np.einsum("rk,ruk->ru", weight[at], change**2) / 2
    above = value[at][:, None] + np.einsum("rk,ruk->ru", slope[at], change) + squares
    scale = value[at][:, None] + value[None, :] + squares
    require(
        np.all(value[None, :] <= above + rtol * scale),
        f"{name}.weight: the parabola with these weights falls below the loss by "
        f"{np.max(value[None, :] - above):.3e}.",
    )


def _at_double_precision(loss: Any) -> Any:
    return jax.tree.map(lambda u: jnp.asarray(u, float) if eqx.is_array(u) else u, loss)


def _residuals(rng: np.random.Generator, size: int) -> np.ndarray:
    """Random residuals of several magnitudes, and special ones: zeros, axes, signs, the origin."""
    generic = rng.standard_normal((12, size)) * np.repeat([1e-3, 0.3, 3.0, 1e2], 3)[:, None]
    holes = generic * (rng.random(generic.shape) < 0.5)
    axes = np.concatenate([np.eye(size), -0.1 * np.eye(size)])
    signs = np.sign(rng.standard_normal((4, size)))
    constant = np.array([[1.0], [-1.0]]) * np.ones((2, size))
    return np.concatenate([generic, holes, axes, signs, constant, np.zeros((1, size))])


@compiled_quickly
def _batched(loss: AbstractLoss, residuals: Array) -> tuple[Array, Array, Array]:
    derivative = jax.vmap(jax.grad(loss.value))(residuals)
    return jax.vmap(loss.value)(residuals), jax.vmap(loss.subgradient)(residuals), derivative


def _measure(loss: AbstractLoss, residuals: Array) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(part) for part in _batched(loss, residuals))


@compiled_quickly
def _batched_prox(loss: AbstractLoss, residuals: Array, step: Array) -> Array:
    return jax.vmap(lambda r: loss.prox(r, step))(residuals)


def _require_supports(
    what: str,
    at: np.ndarray,
    value_at: np.ndarray,
    slope: np.ndarray,
    others: np.ndarray,
    value_others: np.ndarray,
    slope_size: np.ndarray,
    rtol: float,
) -> None:
    """``value(u) >= value(r) + <slope, u - r>`` for every r in ``at`` and u in ``others``.

    The rounding error of the slope is relative to ``slope_size``.
    """
    change = others[None, :, :] - at[:, None, :]
    bound = value_at[:, None] + np.einsum("rk,ruk->ru", slope, change)
    scale = value_at[:, None] + value_others[None, :]
    scale = scale + slope_size[:, None] * np.linalg.norm(change, axis=2)
    gap = value_others[None, :] - bound
    r, u = np.unravel_index(np.argmin(gap + rtol * scale), gap.shape)
    require(
        np.all(gap >= -rtol * scale),
        f"{what} is not a subgradient: at r = {at[r]} it is {slope[r]}, and at u = {others[u]} "
        f"the loss is {value_others[u]:.6g}, below the tangent's {bound[r, u]:.6g}.",
    )


def _check_constants(
    loss: AbstractLoss,
    name: str,
    residuals: np.ndarray,
    value: np.ndarray,
    slope: np.ndarray,
    rtol: float,
) -> None:
    constants = loss.constants(residuals.shape[1])
    norm = np.linalg.norm(residuals, axis=1)
    distance = np.linalg.norm(residuals[:, None] - residuals[None], axis=2)
    change = np.abs(value[:, None] - value[None])
    bend = np.linalg.norm(slope[:, None] - slope[None], axis=2)
    # For each constant: what it multiplies, what it bounds, and whether from below.
    claims = {
        "sharpness": (norm, value, True),
        "lipschitz": (distance, change, False),
        "growth": (norm**2 / 2, value, True),
        "smoothness": (distance, bend, False),
    }
    rounding = rtol * np.max(value) * np.finfo(float).eps
    for field, (multiplied, bounded, from_below) in claims.items():
        constant = getattr(constants, field)
        if constant is None:
            continue
        bound = float(constant) * multiplied
        low, high = (bound, bounded) if from_below else (bounded, bound)
        worst = np.unravel_index(np.argmax(low - high), low.shape)
        require(
            np.all(low <= high * (1 + rtol) + rounding),
            f"{name}.constants claims {field} {float(constant):.6g}, but {low[worst]:.6g} > "
            f"{high[worst]:.6g} for one of the residuals tried.",
        )


def _check_prox(
    loss: AbstractLoss,
    name: str,
    residuals: np.ndarray,
    value: np.ndarray,
    step: float,
    rng: np.random.Generator,
    rtol: float,
) -> None:
    what = f"{name}.prox with step {step:g}"
    prox = np.asarray(_batched_prox(loss, jnp.asarray(residuals), jnp.asarray(step)))
    nudges = 10.0 ** rng.uniform(-6, 0, (len(prox), 1)) * rng.standard_normal(prox.shape)
    nearby = prox + nudges
    value_prox, _, _ = _measure(loss, jnp.asarray(prox))
    value_nearby, _, _ = _measure(loss, jnp.asarray(nearby))

    rivals = np.concatenate([residuals, nearby])
    value_rivals = np.concatenate([value, value_nearby])
    largest = np.linalg.norm(residuals, axis=1) + np.linalg.norm(prox, axis=1)
    _require_supports(
        f"{what}: (r - prox) / step",
        prox,
        value_prox,
        (residuals - prox) / step,
        rivals,
        value_rivals,
        largest / step,
        rtol,
    )

    def objective(u, value_u):
        squares = np.sum((u[None] - residuals[:, None]) ** 2, axis=2)
        return value_u[None] + squares / (2 * step)

    reached = np.diagonal(objective(prox, value_prox))
    best = np.min(objective(rivals, value_rivals), axis=1)
    worst = np.argmax(reached - best)
    require(
        np.all(reached <= best + rtol * (reached + largest**2 / step)),
        f"{what} reaches {reached[worst]:.9g}, but another point {best[worst]:.9g}.",
    )

    moved = prox[:, None] - prox[None]
    product = np.sum(moved * (residuals[:, None] - residuals[None]), axis=2)
    squares = np.sum(moved**2, axis=2)
    scale = (largest[:, None] + largest[None]) ** 2
    worst = np.unravel_index(np.argmax(squares - product), squares.shape)
    require(
        np.all(squares <= product + rtol * scale),
        f"{what} is not firmly nonexpansive: |p - q|^2 = {squares[worst]:.6g} exceeds "
        f"<p - q, r - u> = {product[worst]:.6g}.",
    )
