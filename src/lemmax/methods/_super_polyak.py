"""SuperPolyak: Polyak's method with superlinear bundle steps."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int

from .._checks import check_positive
from .._memory import require_memory
from .._typing import Parameters, RealLike, RealScalar
from ..problem import Composite, Evaluation
from ._base import PASSES_OF_AN_EVALUATION, AbstractMethod, Move
from ._numbers import check_finite, check_sizes
from .scope import SCOPES, Scope


class Bundle(NamedTuple):
    """Linear equations ``f(y_j) + <v_j, y - y_j> = target``, with the solution nearest to x."""

    used: Int[Array, ""]
    basis: Array
    """Orthonormal rows that span the subgradients; zero beyond `used`."""
    weights: Array
    """The newest point is ``x - basis' weights``."""
    y: Array
    gap: RealScalar
    gradient: Array
    best_y: Array
    best_gap: RealScalar
    going: Bool[Array, ""]


class SuperPolyak(AbstractMethod):
    """SuperPolyak (Charisopoulos and Davis): bundle steps, with Polyak steps as fallback.

    A bundle step linearises the objective at x and goes to the nearest point where the
    linearisation equals the target. It linearises there, goes to the nearest point that satisfies
    both equations, and so on. Near a sharp minimum the last points are much closer to it than x.
    If none of them halves the gap, a Polyak step is taken instead, and the number of Polyak steps
    before the next bundle is doubled.

    Parameters
    ----------
    known_target : float
        The minimum of the objective.
    bundle_size : int
        Maximum number of subgradients in a bundle, at most the number of parameters. Superlinear
        steps need about as many. Each takes two passes over the measurements.
    enough : float
        A bundle ends when the gap has fallen by this factor.
    """

    known_target: RealLike = 0.0
    bundle_size: int = eqx.field(static=True, default=200)
    enough: RealLike = 1e-3

    def __check_init__(self):
        check_finite(target=self.known_target)
        check_positive(bundle_size=self.bundle_size)
        check_sizes(enough=self.enough)

    @property
    def target(self) -> RealLike:
        """The target."""
        return self.known_target

    @property
    def scope(self) -> Scope:
        """Sharp losses, any map."""
        return SCOPES["super_polyak"]

    def init(self, problem: Composite, x0: Parameters) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Polyak steps before the next bundle, and before the one after it."""
        parameters = ravel_pytree(x0)[0]
        require_memory(
            (min(self.bundle_size, parameters.size), parameters.size),
            parameters.dtype.itemsize,
            "super_polyak stores its bundle of subgradients: an array",
            "Use a bundle_size of at most {rows}, or lmm.",
        )
        return jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)

    def step(
        self,
        problem: Composite,
        evaluation: Evaluation,
        state: tuple[Int[Array, ""], Int[Array, ""]],
    ) -> tuple[Move, tuple[Int[Array, ""], Int[Array, ""]]]:
        """A bundle step if one is due and succeeds, otherwise a Polyak step."""
        waiting, patience = state
        x, unravel = ravel_pytree(evaluation.x)
        gradient = ravel_pytree(evaluation.gradient)[0]
        gap = jnp.maximum(evaluation.value - self.known_target, 0)
        bundle = self._bundle(problem, x, unravel, gap, gradient, waiting == 0)
        pays = bundle.best_gap <= 0.5 * gap
        square = jnp.sum(gradient**2)
        length = jnp.where(square > 0, gap / jnp.where(square > 0, square, 1), 0)
        tried = waiting == 0
        move = Move(
            x=unravel(jnp.where(pays, bundle.best_y, x - length * gradient)),
            length=jnp.where(pays, 0, length),
            damping=jnp.zeros_like(gap),
            iterations=bundle.used,
            failed=jnp.zeros((), jnp.bool_),
            extra_passes=PASSES_OF_AN_EVALUATION * bundle.used,
        )
        next_waiting = jnp.where(tried, jnp.where(pays, 0, patience), waiting - 1)
        next_patience = jnp.where(tried, jnp.where(pays, 1, 2 * patience), patience)
        return move, (next_waiting, jnp.minimum(next_patience, 1024))

    def _bundle(self, problem, x, unravel, gap, gradient, wanted) -> Bundle:
        size = min(self.bundle_size, x.size)
        rounding = jnp.sqrt(jnp.finfo(x.dtype).eps)

        def extend(bundle: Bundle) -> Bundle:
            v = bundle.gradient
            # Gram-Schmidt, twice. The new equation determines one more weight.
            shares = bundle.basis @ v
            rest = v - bundle.basis.T @ shares
            rest = rest - bundle.basis.T @ (bundle.basis @ rest)
            norm = jnp.linalg.norm(rest)
            independent = norm > rounding * jnp.linalg.norm(v)
            safe = jnp.where(independent, norm, 1)
            right = bundle.gap + jnp.dot(v, x - bundle.y)
            weight = jnp.where(independent, (right - jnp.dot(shares, bundle.weights)) / safe, 0)
            row = jnp.where(independent, rest / safe, 0)
            basis = bundle.basis.at[bundle.used].set(row)
            weights = bundle.weights.at[bundle.used].set(weight)
            y = x - basis.T @ weights
            there = problem.evaluate(unravel(y))
            new_gap = there.value - self.known_target
            better = new_gap < bundle.best_gap
            best_gap = jnp.where(better, new_gap, bundle.best_gap)
            return Bundle(
                used=bundle.used + 1,
                basis=basis,
                weights=weights,
                y=y,
                gap=new_gap,
                gradient=ravel_pytree(there.gradient)[0],
                best_y=jnp.where(better, y, bundle.best_y),
                best_gap=best_gap,
                going=independent & jnp.isfinite(new_gap) & (best_gap > self.enough * gap),
            )

        begin = Bundle(
            used=jnp.zeros((), jnp.int32),
            basis=jnp.zeros((size, x.size), x.dtype),
            weights=jnp.zeros(size, x.dtype),
            y=x,
            gap=gap,
            gradient=gradient,
            best_y=x,
            best_gap=gap,
            going=wanted & (gap > 0),
        )
        return jax.lax.while_loop(lambda b: b.going & (b.used < size), extend, begin)
