"""Laws of smooth maps and of their damped solves."""

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from .._typing import Parameters
from ..covectors import AbstractCovector, DenseCovector
from ..maps import AbstractMap
from ._numbers import (
    Key,
    compiled_quickly,
    flat,
    generator,
    normal_like,
    require,
    require_close,
)
from ._reference import damped_solve, exact, many_digits


def check_map(
    map: AbstractMap,
    x: Parameters,
    key: Key,
    covector: AbstractCovector | None = None,
    formula: Callable[[Parameters], PyTree] | None = None,
    dampings: Sequence[float] = (1.0, 1e-3, 1e-6),
    rtol: float = 1e-8,
) -> None:
    """Check derivatives and damped solves of a map against automatic differentiation.

    - `jvp`, `vjp` and `gram` are products with the Jacobian J, and the error of the first-order
      expansion falls with the square of the step.
    - `direction` and `solve` agree with a dense solve in 60 digits.
    - The projection norms agree with the dense SVD of J, and are ordered.
    - Without damping the direction is ``pinv(J) v``.
    - A map of degree N equals ``J x / N``.
    - A zero covector gives a zero direction, not NaN.

    Parameters
    ----------
    map : AbstractMap
        The map to check.
    x : pytree of arrays
        The parameters at which to check. The cube of their number should be small, and the
        nonzero singular values of J not too far apart: the reference starts from J in float64.
    key : int or JAX key
        Seed of the random numbers.
    covector : AbstractCovector, optional
        The covector to precondition. Default: random and dense.
    formula : callable, optional
        The map written out, ``formula(x)`` dense. If given, `map` must agree with it, and J is its
        Jacobian; otherwise J is the Jacobian of ``map(x).dense()``.
    dampings : sequence of floats
        Positive dampings to check, in addition to 0.
    rtol : float
        Relative error allowed.

    Raises
    ------
    AssertionError
        If a law is violated; the message has the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> from lemmax.testing import check_map
    >>> x = np.random.default_rng(0).standard_normal((3, 2))
    >>> check_map(lm.maps.PSD(3, rank=2), x, key=1, formula=lambda x: x @ x.T)
    """
    rng = generator(key)
    with jax.enable_x64(True):
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), x)
        written = (lambda u: map(u).dense()) if formula is None else formula
        if covector is None:
            covector = DenseCovector(normal_like(rng, jax.eval_shape(written, x)))
        laws = _Laws(map, written, x, covector, rng, rtol)
        laws.derivatives()
        for damping in dampings:
            laws.solves(damping)
        laws.without_damping()
        laws.zero_covector(dampings[0])


class _Laws:
    """The checks of one map at one point, with their common reference."""

    def __init__(
        self,
        map: AbstractMap,
        written: Callable[[Parameters], PyTree],
        x: Parameters,
        covector: AbstractCovector,
        rng: np.random.Generator,
        rtol: float,
    ):
        self.map, self.name, self.x, self.rtol = map, type(map).__name__, x, rtol
        self.covector, self.v = covector, flat(covector.dense())
        self.written = written
        self.jacobian = np.asarray(_jacobian(written, x))
        self.dx, self.g = normal_like(rng, x), normal_like(rng, x)
        self.left, self.singular, _ = np.linalg.svd(self.jacobian, full_matrices=False)
        with decimal.localcontext(many_digits()):
            digits = exact(self.jacobian)
            self.gram = digits.T @ digits
            right = [digits.T @ exact(self.v), exact(flat(self.g))]
        self.right_hand_sides = np.stack(right, axis=1)

    def derivatives(self) -> None:
        """Check F, J dx, J'v and J'J dx, and the first-order expansion."""
        change = flat(self.dx)
        value = np.asarray(_evaluate(self.written, self.x))
        forward = self.jacobian @ change
        backward = self.jacobian.T @ self.v
        have = _linear_parts(self.map, self.x, self.dx, self.covector)
        scale, size_of_change = float(np.linalg.norm(self.jacobian)), float(np.linalg.norm(change))
        self._close(have[0], value, "the point")
        self._close(have[1], forward, "jvp", scale * size_of_change)
        self._close(have[2], backward, "vjp", scale * float(np.linalg.norm(self.v)))
        self._close(have[3], self.jacobian.T @ forward, "gram", scale**2 * size_of_change)
        if self.map.degree is not None:  # Euler's identity for homogeneous functions
            self._close(self.jacobian @ flat(self.x) / self.map.degree, value, "degree", scale)

        first_order = flat(have[1])
        size = float(np.linalg.norm(value)) + float(np.linalg.norm(first_order))

        def error(t):
            moved = jax.tree.map(lambda u, d: u + t * d, self.x, self.dx)
            after = np.asarray(_evaluate(self.written, moved))
            return float(np.linalg.norm(after - value - t * first_order))

        # A tenth of the step must leave a hundredth of the error, up to higher orders.
        t = 1e-3 / max(1.0, size_of_change)
        long, short = error(t), error(t / 10)
        require(
            short <= long / 50 + 1e-14 * size,
            f"{self.name}.jvp: a step of {t:.1e} leaves a first-order error of {long:.3e}, a tenth "
            f"of it {short:.3e}, where about {long / 100:.3e} is expected.",
        )

    def solves(self, damping: float) -> None:
        """Check `direction` and `solve` against many digits, projection norms against the SVD."""
        have, direction, solved = self._precondition(self.covector, damping, self.g)
        wanted = damped_solve(self.gram, damping, self.right_hand_sides)
        at = f"at damping {damping:g}"
        require(not bool(have.failed), f"{self.name}.precondition reports failure {at}.")
        self._close(have.direction, wanted[:, 0], f"precondition {at}")
        self._close(direction, wanted[:, 0], f"direction {at}")
        self._close(solved, wanted[:, 1], f"solve {at}")
        self._projections(have.projections, damping)

    def without_damping(self) -> None:
        """Check the pseudo-inverse."""
        pseudo_inverse = np.linalg.pinv(self.jacobian, rcond=1e-11)
        _, unravel = ravel_pytree(self.x)
        in_range = unravel(jnp.asarray(self.jacobian.T @ self.v))
        have, direction, solved = self._precondition(self.covector, 0.0, in_range)
        wanted = pseudo_inverse @ self.v
        # For a covector orthogonal to the range, only rounding errors are left.
        scale = 1e-6 * float(np.linalg.norm(pseudo_inverse) * np.linalg.norm(self.v))
        self._close(have.direction, wanted, "precondition without damping", scale)
        self._close(direction, wanted, "direction without damping", scale)
        self._close(solved, wanted, "solve without damping, in the range of J'", scale)
        self._projections(have.projections, 0.0)

    def zero_covector(self, damping: float) -> None:
        """Check that a zero covector gives a zero direction."""
        zero = jax.tree.map(jnp.zeros_like, self.covector)
        for level in (damping, 0.0):
            have, _, solved = self._precondition(zero, level, jax.tree.map(jnp.zeros_like, self.x))
            for what, tree in (
                ("precondition", (have.direction, have.projections)),
                ("solve", solved),
            ):
                entries = flat(tree)
                require(
                    np.all(entries == 0),
                    f"{self.name}.{what} at damping {level:g} turns zero into {entries}.",
                )

    def _projections(self, projections: Any, damping: float) -> None:
        cut = 1e-11 * self.singular[0]
        inside = self.singular > cut
        squares = (self.left.T @ self.v)[inside] ** 2
        kept = self.singular[inside] ** 2 / (self.singular[inside] ** 2 + damping)
        size = float(np.sum(self.v**2))
        for field, weight in (("range", 1.0), ("damped", kept), ("projected", kept**2)):
            self._close(
                getattr(projections, field),
                np.sum(weight * squares),
                f"projections.{field} at damping {damping:g}",
                1e-6 * size,
            )
        least, middle, most = (
            float(part) for part in (projections.projected, projections.damped, projections.range)
        )
        slack = self.rtol * size
        require(
            0 <= least <= middle + slack and middle <= most + slack and most <= size + slack,
            f"{self.name}: at damping {damping:g} the projection norms {least:.9g} (projected), "
            f"{middle:.9g} (damped), {most:.9g} (range), {size:.9g} (all of v) are out of order.",
        )

    def _precondition(self, covector: AbstractCovector, damping: float, g: Parameters) -> Any:
        return _damped_parts(self.map, self.x, covector, jnp.asarray(damping), g)

    def _close(self, actual: PyTree, expected: PyTree, what: str, scale: float = 0.0) -> None:
        require_close(actual, expected, self.rtol, f"{self.name}, {what}", scale)


# Compiled once for all points of a map with the same shapes.


@compiled_quickly
def _evaluate(written: Callable[[Parameters], PyTree], x: Parameters) -> Array:
    return ravel_pytree(written(x))[0]


@compiled_quickly
def _jacobian(written: Callable[[Parameters], PyTree], x: Parameters) -> Array:
    start, unravel = ravel_pytree(x)
    return jax.jacfwd(lambda u: ravel_pytree(written(unravel(u)))[0])(start)


@compiled_quickly
def _linear_parts(
    map: AbstractMap, x: Parameters, dx: Parameters, covector: AbstractCovector
) -> tuple[PyTree, ...]:
    return map(x).dense(), map.jvp(x, dx), map.vjp(x, covector), map.gram(x, dx)


@compiled_quickly
def _damped_parts(
    map: AbstractMap, x: Parameters, covector: AbstractCovector, damping: Array, g: Parameters
) -> tuple[PyTree, ...]:
    answer = map.precondition(x, damping, covector)
    # Computed again only if a map overrides it: compilation dominates the time of a check.
    inherited = type(map).direction is AbstractMap.direction
    direction = answer.direction if inherited else map.direction(x, damping, covector)
    return answer, direction, map.solve(x, damping, g)
