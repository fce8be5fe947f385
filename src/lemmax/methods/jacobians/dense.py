"""The measured Jacobian as a dense matrix with its SVD."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..._linalg import divide_or_zero, thin_svd, upper_factor
from ..._memory import require_memory
from ..._typing import Parameters, RealScalar
from ...problem import Composite
from .._measured import measured_jacobian
from ._base import AbstractJacobian, Linearised, Step, usable

# Newton steps for the damping, and their relative accuracy; convergence is quadratic.
_DAMPING_STEPS, _DAMPING_ERROR = 12, 0.1


class Decomposed(NamedTuple):
    """The SVD of the scaled Jacobian, without the left singular vectors."""

    s: Array
    right: Array
    along: Array
    """Coordinates of the residual along the left singular vectors."""


class Dense(AbstractJacobian):
    """Form the Jacobian, observations x parameters, and decompose it at every accepted point.

    It is accurate for any condition number, also if the data do not determine the parameters. A
    rejected trial costs only its evaluation: the decomposition is kept.

    Examples
    --------
    >>> import lemmax as lm
    >>> method = lm.methods.trust_region(jacobian=lm.jacobians.Dense())
    """

    @property
    def passes(self) -> int:
        """One: all columns together."""
        return 1

    def begin(self, problem: Composite, x0: Parameters, observations: int) -> Decomposed:
        """Check that the matrix fits in memory."""
        leaves = jax.tree.leaves(x0)
        p, dtype = sum(math.prod(jnp.shape(leaf)) for leaf in leaves), leaves[0].dtype
        require_memory(
            (observations, p),
            2 * dtype.itemsize,
            "The measured Jacobian, observations x parameters, and its decomposition: an array",
            "Use jacobian=lm.jacobians.Products(), which never forms it.",
        )
        k = min(observations, p)
        return Decomposed(jnp.zeros(k, dtype), jnp.zeros((k, p), dtype), jnp.zeros(k, dtype))

    def linearise(
        self, at: Linearised, norms: Array, kept: Decomposed, taken: Bool[Array, ""]
    ) -> tuple[Decomposed, Array]:
        """Decompose; a tall matrix through its triangular factor."""

        def fresh() -> tuple[Decomposed, Array]:
            matrix = at.root[:, None] * measured_jacobian(at.problem, at.unravel(at.x))
            larger = jnp.maximum(norms, jnp.linalg.norm(matrix, axis=0))
            matrix = matrix / usable(larger)[None, :] * at.free[None, :]
            n, p = matrix.shape
            vector = at.vector
            if n > p:
                triangle = upper_factor(jnp.concatenate([matrix, vector[:, None]], axis=1))
                matrix, vector = triangle[:p, :p], triangle[:p, p]
            left, s, right = thin_svd(matrix)
            return Decomposed(s, right, jnp.where(s > 0, left.T @ vector, 0)), larger

        return jax.lax.cond(taken, fresh, lambda: (kept, norms))

    def step(self, at: Linearised, norms: Array, kept: Decomposed, radius: RealScalar) -> Step:
        """A damped step on the boundary of the trust region, or the full step if it is inside."""
        s, along = kept.s, kept.along
        damping = _damping(s, along, radius)
        coordinates = -divide_or_zero(s, s**2 + damping) * along
        scaled = (coordinates @ kept.right) * at.free
        none = jnp.zeros((), jnp.int32)
        return Step(
            change=scaled / usable(norms),
            length=jnp.linalg.norm(scaled),
            limited=damping > 0,
            decrease=_decrease(along, s * coordinates),
            part=jnp.linalg.norm(along),
            damping=damping,
            iterations=none,
            passes=none,
        )

    def decrease(self, at: Linearised, norms: Array, kept: Decomposed, change: Array) -> RealScalar:
        """From the coordinates of the step."""
        return _decrease(kept.along, kept.s * (kept.right @ (usable(norms) * change * at.free)))


def _decrease(along: Array, image: Array) -> RealScalar:
    return -jnp.sum(image * (along + image / 2))


def _damping(s: Array, along: Array, radius: RealScalar) -> RealScalar:
    """The damping at which the step has the length of the radius; 0 if the full step is shorter.

    Newton's method on the reciprocal of the length, which is nearly linear (Hebden).
    """

    def improve(_: Array, damping: RealScalar) -> RealScalar:
        bottom = s**2 + damping
        parts = divide_or_zero(s * along, bottom)
        length = jnp.linalg.norm(parts)
        slope = jnp.sum(divide_or_zero(parts**2, bottom))
        change = divide_or_zero(length**2 * (length - radius), slope * radius)
        return jnp.where(length > (1 + _DAMPING_ERROR) * radius, damping + change, damping)

    return jax.lax.fori_loop(0, _DAMPING_STEPS, improve, jnp.zeros_like(radius))
