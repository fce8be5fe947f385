"""Products with the Jacobian and its transpose; the matrix is not formed."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..._checks import check_positive, check_real
from ..._typing import Parameters, RealLike, RealScalar
from ...problem import Composite
from ._base import AbstractJacobian, Linearised, Step, usable


class Products(AbstractJacobian):
    """Conjugate gradients on Jacobian products, truncated at the trust region (Steihaug).

    It needs the memory of a few vectors of observations and parameters, and that for
    differentiating the model. An iteration takes one forward and one reverse derivative (CGLS,
    which does not square the condition number).

    The column norms that scale the parameters are estimated from products of the transposed
    Jacobian with random signs, whose mean squares are exact. They follow changes of units exactly.

    Parameters
    ----------
    tol : float
        Relative gradient of the linearised problem at which to stop.
    max_steps : int
        Maximum number of iterations per step.
    probes : int
        Number of random sign vectors for the column norms.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.trust_region(jacobian=lm.jacobians.Products())
    """

    tol: RealLike = 0.1
    max_steps: int = eqx.field(static=True, default=500)
    probes: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        check_real(0, 1, tol=self.tol, open_low=True)
        check_positive(max_steps=self.max_steps, probes=self.probes)

    @property
    def passes(self) -> int:
        """One per probe."""
        return self.probes

    def begin(self, problem: Composite, x0: Parameters, observations: int) -> tuple[()]:
        """Nothing is stored: a product only needs the point."""
        return ()

    def linearise(
        self, at: Linearised, norms: Array, kept: tuple[()], taken: Bool[Array, ""]
    ) -> tuple[tuple[()], Array]:
        """Estimate the column norms."""

        def fresh() -> Array:
            _, pull = jax.vjp(at.observe, at.x)

            def squares(key: Array) -> Array:
                signs = jax.random.rademacher(key, at.root.shape, at.root.dtype)
                return pull(at.root * signs)[0] ** 2

            keys = jax.random.split(jax.random.key(0), self.probes)
            return jnp.maximum(norms, jnp.sqrt(jnp.mean(jax.lax.map(squares, keys), axis=0)))

        return (), jax.lax.cond(taken, fresh, lambda: norms)

    def step(self, at: Linearised, norms: Array, kept: tuple[()], radius: RealScalar) -> Step:
        """Conjugate gradients until the tolerance or the boundary of the trust region."""
        forward, backward = _scaled(at, norms)
        ended = truncated(forward, backward, at.vector, radius, self.tol, self.max_steps)
        complete = ended.accurate & ~ended.limited
        return Step(
            change=ended.z * at.free / usable(norms),
            length=jnp.linalg.norm(ended.z),
            limited=ended.limited,
            decrease=ended.decrease,
            part=jnp.where(complete, jnp.sqrt(2 * jnp.maximum(ended.decrease, 0)), jnp.inf),
            damping=jnp.zeros_like(radius),
            iterations=ended.taken,
            passes=2 * ended.taken + 1,
        )

    def decrease(self, at: Linearised, norms: Array, kept: tuple[()], change: Array) -> RealScalar:
        """By one product."""
        image = at.root * jax.jvp(at.observe, (at.x,), (change * at.free,))[1]
        return -jnp.sum(image * (at.vector + image / 2))


def _scaled(
    at: Linearised, norms: Array
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Products with the scaled Jacobian and its transpose."""
    _, push = jax.linearize(at.observe, at.x)
    pull = jax.linear_transpose(push, at.x)
    scale = at.free / usable(norms)

    def forward(z: Array) -> Array:
        return at.root * push(scale * z)

    def backward(q: Array) -> Array:
        return scale * pull(at.root * q)[0]

    return forward, backward


class Truncated(NamedTuple):
    """State of the conjugate-gradient iteration."""

    taken: Int[Array, ""]
    z: Array
    left: Array
    """The residual ``vector + A z``."""
    direction: Array
    square: RealScalar
    """Squared norm of the gradient."""
    decrease: RealScalar
    limited: Bool[Array, ""]
    accurate: Bool[Array, ""]


def truncated(
    forward: Callable[[Array], Array],
    backward: Callable[[Array], Array],
    vector: Array,
    radius: RealLike,
    tol: RealLike,
    max_steps: int,
) -> Truncated:
    """Approximately minimise ``|vector + A z|^2 / 2`` over ``|z| <= radius``."""
    slope = -backward(vector)
    first = jnp.sum(slope**2)

    def improve(state: Truncated) -> Truncated:
        image = forward(state.direction)
        bottom = jnp.sum(image**2)
        flat = bottom <= 0
        full = state.square / jnp.where(flat, 1, bottom)
        length, mixed = jnp.sum(state.direction**2), jnp.sum(state.z * state.direction)
        room = jnp.maximum(radius**2 - jnp.sum(state.z**2), 0)
        # The positive root of |z + t direction| = radius, written without cancellation.
        root = jnp.sqrt(mixed**2 + length * room)
        to_edge = jnp.where(mixed > 0, room / (mixed + root), (root - mixed) / length)
        limited = flat | (full >= to_edge)
        t = jnp.where(limited, to_edge, full)
        left = state.left + t * image
        slope = -backward(left)
        square = jnp.sum(slope**2)
        return Truncated(
            taken=state.taken + 1,
            z=state.z + t * state.direction,
            left=left,
            direction=slope + square / state.square * state.direction,
            square=square,
            decrease=state.decrease + t * (state.square - t * bottom / 2),
            limited=limited,
            accurate=square <= tol**2 * first,
        )

    def goes_on(state: Truncated) -> Bool[Array, ""]:
        return ~state.limited & ~state.accurate & (state.taken < max_steps)

    begin = Truncated(
        taken=jnp.zeros((), jnp.int32),
        z=jnp.zeros_like(slope),
        left=vector,
        direction=slope,
        square=first,
        decrease=jnp.zeros_like(first),
        limited=jnp.zeros((), bool),
        accurate=first <= 0,
    )
    return jax.lax.while_loop(goes_on, improve, begin)
