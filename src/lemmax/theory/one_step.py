"""Check of one Polyak step against the theory, without global constants."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._checks import check_real
from .._dtype import keeps_float64, to_device
from .._tree import is_traced, tree_move, tree_norm
from .._typing import AnyArray, Parameters, RealLike, RealScalar
from ..maps import Projections
from ..methods.steps import damped_norm, projected_norm, range_norm
from ..problem import Composite
from ._parameters import as_parameters
from ._truths import require_fit
from .constants import jacobian_lipschitz
from .measure import dense_jacobian, dense_point, flatten, left_singular

# Comparisons allow for this many rounding errors, relative to the norm of the truth.
ROUNDING_UNITS = 64


Truth: TypeAlias = AnyArray | np.bool_
"""A boolean, or an array of them for a batch of steps."""


class OneStep(NamedTuple):
    """The outcome of one step, and the bounds for it. Arrays under vmap."""

    error: RealScalar
    """``e = |z - z*|`` before the step."""
    error_after: RealScalar
    gap: RealScalar
    """``h(z) - h(z*)``."""
    aiming: RealScalar
    """``|<(I - P) v, z - z*>|``; Proposition 4.2 needs at most a quarter of the gap."""
    scale: RealScalar
    """The gamma of the step."""
    cap: RealScalar
    """The largest gamma that the proposition allows with this denominator."""
    progress_bound: RealScalar
    """Proposition 4.2: a bound on ``error_after``."""
    linearisation_error: RealScalar
    """``|F(x+) - (z - gamma_k P v)|``."""
    linearisation_bound: RealScalar
    """Lemma 3.1(3): ``L_F gamma_k^2 |Pi v|^2 / (8 damping)``."""
    movement: RealScalar
    """``|x+ - x|``."""
    movement_bound: RealScalar
    """Lemma B.10: ``(2 gamma / 3) sqrt(e / C_lb)``, or its analogue for the denominator."""
    rounding: RealScalar
    """Allowance for rounding in all comparisons."""

    @property
    def hypotheses_held(self) -> Truth:
        """Whether Proposition 4.2 applies to this step."""
        small = (self.scale > 0) & (self.scale <= self.cap * (1 + 1e-12))
        return small & (self.aiming <= self.gap / 4 + 1e-12 * self.gap)

    @property
    def progress_held(self) -> Truth:
        """Whether the bound of Proposition 4.2 holds."""
        return self.error_after <= self.progress_bound + self.rounding

    @property
    def linearisation_held(self) -> Truth:
        """Whether Lemma 3.1(3) holds, which only needs a positive damping."""
        return self.linearisation_error <= self.linearisation_bound + self.rounding

    @property
    def movement_held(self) -> Truth:
        """Whether Lemma B.10 holds."""
        return self.movement <= self.movement_bound * (1 + 1e-9) + self.rounding

    @property
    def violated(self) -> Truth:
        """Whether the step violates the theory: the method then is not LMM."""
        promised = self.progress_held & self.movement_held
        return ~self.linearisation_held | (self.hypotheses_held & ~promised)


@keeps_float64
def one_step(
    problem: Composite,
    x: Parameters,
    *,
    damping: RealLike,
    scale: RealLike,
    truth: Parameters,
    denominator: Callable[[Projections], RealScalar] = damped_norm,
    lipschitz: RealLike | None = None,
    arrived: Parameters | None = None,
) -> OneStep:
    """Check one Polyak step of LMM against Proposition 4.2 and Lemmas 3.1(3) and B.10.

    The projections are computed from the SVD of a Jacobian formed by automatic differentiation,
    independently of the closed forms that the step uses. It works under ``jit`` and ``vmap``, for
    small problems.

    Parameters
    ----------
    problem : Composite
        The problem.
    x : array or pytree of arrays
        The starting point of the step.
    damping, scale : float
        Damping and factor gamma of the Polyak step.
    truth : array, pytree of arrays or KruskalPoint
        Parameters of the truth, which must fit the data.
    denominator : callable
        `range_norm`, `damped_norm` or `projected_norm` of `lemmax.steps`. With
        ``C_lb = damping / e``, their caps on gamma are ``C_lb / L_F``, a quarter of that, and that
        times ``|P v|^2 / |Pi v|^2``. The default is that of `lemmax.steps.Polyak`; `predict` uses
        `range_norm`, as the paper does, with four times the cap.
    lipschitz : float, optional
        ``L_F``. Default: that of the map.
    arrived : array or pytree of arrays, optional
        The end point of a step under test. Default: lemmax's own step.

    Returns
    -------
    OneStep

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import lemmax as lm
    >>> problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), jnp.array([1.0, 0.0]))
    >>> step = lm.theory.one_step(problem, jnp.array([1.05, 0.1]), damping=2e-3, scale=2e-3,
    ...                           truth=jnp.array([1.0, 0.0]))
    >>> bool(step.hypotheses_held), bool(step.progress_held), bool(step.violated)
    (True, True, False)
    """
    check_real(0, open_low=True, scale=scale)
    check_real(0, damping=damping)
    truth = as_parameters(problem.map, truth, "the truth")
    x = as_parameters(problem.map, x, "x")
    if arrived is not None:
        arrived = as_parameters(problem.map, arrived, "arrived")
    if not is_traced((problem, truth)):
        with jax.ensure_compile_time_eval():  # keep numbers concrete even if x is traced
            require_fit(problem, truth)
    return held_against(
        problem, x, damping, scale, truth, denominator, lipschitz, arrived=arrived, length=None
    )


def held_against(
    problem: Composite,
    x: Parameters,
    damping: RealLike,
    scale: RealLike,
    truth: Parameters,
    denominator: Callable[[Projections], RealScalar],
    lipschitz: RealLike | None,
    *,
    arrived: Parameters | None,
    length: RealLike | None,
) -> OneStep:
    """`one_step` without its checks, optionally for a step of a given length.

    The length determines gamma: with a wrong target it differs from the rule's scale.
    """
    map = problem.map
    x, truth = jax.tree.map(to_device, (x, truth))
    lipschitz = jacobian_lipschitz(map, truth) if lipschitz is None else lipschitz
    evaluation, target = problem.evaluate(x), problem.evaluate(truth).value
    gap = jnp.maximum(evaluation.value - target, 0)
    v, z = flatten(evaluation.covector.dense()), dense_point(evaluation.point)
    z_star = dense_point(map(truth))
    difference, rounding = z - z_star, _rounding(z_star)
    error = jnp.linalg.norm(difference)

    left, values = left_singular(dense_jacobian(map, x))
    kept = values**2 / _positive(values**2 + damping)
    coordinates = left.T @ v
    projected = left @ (kept * coordinates)
    projections = Projections(
        range=jnp.sum(jnp.where(values > 0, coordinates**2, 0)),
        damped=jnp.sum(kept * coordinates**2),
        projected=jnp.sum(kept**2 * coordinates**2),
    )
    if length is None:
        length = jnp.asarray(scale * gap / _positive(denominator(projections)))
    else:
        taken = length * denominator(projections) / _positive(gap)
        # Near the truth the gap has few digits: differences within a thousandth are ignored.
        scale = jnp.where(jnp.abs(taken - scale) <= 1e-3 * scale, scale, taken)
    if arrived is None:
        found = map.precondition(x, damping, evaluation.covector)
        own = scale * gap / _positive(denominator(found.projections))
        arrived = tree_move(x, own, found.direction)
    arrived = jax.tree.map(to_device, arrived)
    after = dense_point(map(arrived))
    cap, moved = _caps(denominator, projections, damping / _positive(error) / lipschitz)
    return OneStep(
        error=error,
        error_after=jnp.linalg.norm(after - z_star),
        gap=gap,
        aiming=jnp.abs(jnp.dot(v, difference) - jnp.dot(projected, difference)),
        scale=jnp.asarray(scale, error.dtype),
        cap=cap,
        # gamma/8 (h - h*)^2 / denominator = length (h - h*) / 8
        progress_bound=jnp.sqrt(jnp.maximum(error**2 - length * gap / 8, 0)),
        linearisation_error=jnp.linalg.norm(after - (z - length * projected)),
        linearisation_bound=_over(lipschitz * length**2 * projections.range / 8, damping),
        movement=tree_norm(jax.tree.map(jnp.subtract, arrived, x)),
        movement_bound=2 / 3 * moved * scale * jnp.sqrt(_over(error**2, damping)),
        rounding=rounding,
    )


def _caps(
    denominator: Callable[[Projections], RealScalar], projections: Projections, ratio: Any
) -> tuple[Array, Any]:
    """The cap on gamma, and the largest ratio of a step's length to that of the paper."""
    ratio = jnp.asarray(ratio)
    if denominator is range_norm:
        return jnp.minimum(ratio, 1), 1.0
    if denominator is damped_norm:
        # The same proof with |direction|^2 <= v'Pv / damping.
        return jnp.minimum(ratio / 4, 1), 2.0
    if denominator is projected_norm:
        kept = projections.projected / _positive(projections.range)
        return jnp.minimum(ratio * kept, 1), 1 / jnp.sqrt(_positive(kept))
    raise ValueError(
        "The proposition is proved for the denominators range_norm, damped_norm and "
        "projected_norm of lemmax.steps."
    )


def _rounding(z_star: Array) -> Array:
    return ROUNDING_UNITS * jnp.finfo(z_star.dtype).eps * jnp.linalg.norm(z_star)


def _positive(number: Any) -> Any:
    return jnp.where(number > 0, number, 1)


def _over(number: Any, damping: Any) -> Any:
    """``number / damping``; infinite at damping 0, where there is no bound."""
    return jnp.where(jnp.asarray(damping) > 0, number / _positive(damping), jnp.inf)
