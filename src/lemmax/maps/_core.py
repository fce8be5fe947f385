"""The damped solve of CP maps, reduced to a small core.

With thin SVDs ``A_n = U_n R_n`` of the factors, a direction splits into ``U_n C_n`` and a part
outside the range of U_n. The outside parts decouple by mode and have closed forms. The C_n solve
the same problem for the small factors R_n, whose sizes depend only on the rank. This core system
is solved by Cholesky if it is small, by preconditioned conjugate gradients if the rank is large,
and by an SVD of the core Jacobian if there is no damping.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int

from .._linalg import cholesky, cholesky_solve, divide_or_zero, thin_svd
from .._tree import tree_all_finite, tree_dot, tree_move, tree_norm
from .._typing import Parameters, RealLike, RealScalar
from ._base import Preconditioned, Projections


class CoreSystem(NamedTuple):
    """The damped normal equations of a small map, in the forms that the solvers need."""

    gram: Callable[[Parameters], Parameters]
    """J'J as a function."""
    matrix: Callable[[], Array]
    """J'J as a matrix, with the gauge directions filled in so that it is nonsingular."""
    jacobian: Callable[[], Array]
    """J as a matrix."""
    block_inverse: Callable[[], Callable[[Parameters], Parameters]]
    """The inverse of the damped block diagonal of J'J as a function, built once."""


class CoreSolution(NamedTuple):
    """Solution of the core system."""

    solution: Parameters
    iterations: Int[Array, ""]
    failed: Bool[Array, ""]


class DirectSolver(eqx.Module):
    """Cholesky of the core matrix, or an SVD of the core Jacobian where Cholesky is inaccurate.

    Cholesky is insensitive to badly scaled columns, and the gauge directions, along which J'J is
    singular, are filled in. J'J has further null directions if columns nearly coincide in every
    mode, or if there are more columns than the core has entries. Rounding errors along these
    directions are divided by the damping. A small pivot detects this case.
    """

    def __call__(
        self, system: CoreSystem, damping: RealLike, g: Parameters, v: Array
    ) -> CoreSolution:
        """Solve for ``g = J'v``."""
        flat, unravel = ravel_pytree(g)

        def from_jacobian():
            left, s, right = thin_svd(system.jacobian())
            return right.T @ (divide_or_zero(s, s**2 + damping) * (left.T @ jnp.ravel(v)))

        if v.size < flat.size:
            solution = from_jacobian()
        else:
            matrix = system.matrix()
            damped = matrix + damping * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
            factor = cholesky(damped)
            smallest = jnp.sqrt(jnp.finfo(matrix.dtype).eps) * jnp.diagonal(damped)
            usable = jnp.all(jnp.diagonal(factor) ** 2 > smallest) & (jnp.asarray(damping) > 0)
            solution = jax.lax.cond(
                usable,
                lambda: cholesky_solve(factor, flat),
                from_jacobian,
            )
        failed = ~jnp.all(jnp.isfinite(solution))
        return CoreSolution(unravel(solution), jnp.zeros((), jnp.int32), failed)

    def range_square(self, system: CoreSystem, g: Parameters, v: Array) -> RealScalar:
        """``|Pi v|^2``, Pi the projector onto the range of J."""
        left, s, _ = thin_svd(system.jacobian())
        return jnp.sum(jnp.where(s > 0, left.T @ jnp.ravel(v), 0) ** 2)


class ConjugateGradients(eqx.Module):
    """Conjugate gradients in core coordinates, preconditioned by the diagonal blocks of J'J.

    Parameters
    ----------
    tol : float, optional
        Relative residual at which to stop. Default: a small multiple of the dtype's precision.
    max_steps : int
        Maximum number of iterations per solve.
    """

    tol: float | None = None
    max_steps: int = eqx.field(static=True, default=1000)

    def __call__(
        self, system: CoreSystem, damping: RealLike, g: Parameters, v: Array | None
    ) -> CoreSolution:
        """Solve for ``g`` in the range of J'; ``v`` is not needed."""
        del v
        return conjugate_gradients(
            system.gram, damping, g, system.block_inverse(), self.tol, self.max_steps
        )

    def range_square(self, system: CoreSystem, g: Parameters, v: Array | None) -> RealScalar:
        """``|Pi v|^2 = <g, (J'J)^+ g>``, Pi the projector onto the range of J."""
        return tree_dot(g, self(system, 0.0, g, v).solution)


def conjugate_gradients(
    gram: Callable[[Parameters], Parameters],
    damping: RealLike,
    g: Parameters,
    preconditioner: Callable[[Parameters], Parameters] | None,
    tol: float | None,
    max_steps: int | Int[Array, ""],
) -> CoreSolution:
    """Solve ``(gram + damping) c = g``; zero for a zero right-hand side.

    lineax's CG is not used because J'J is singular: it tests the true residual and continues
    beyond the attainable accuracy. On over-parameterised CP it used all of its 1000 iterations,
    or broke down, where this code stops after 40 to 80.
    """
    dtype = jnp.result_type(*jax.tree.leaves(g))
    tol = 100 * float(jnp.finfo(dtype).eps) if tol is None else tol
    precondition = (lambda r: r) if preconditioner is None else preconditioner
    # A unit right-hand side prevents underflow and overflow in the inner products.
    size = tree_norm(g)
    safe = jnp.where(size > 0, size, 1)
    unit = jax.tree.map(lambda u: u / safe, g)

    def damped_gram(c):
        return jax.tree.map(lambda a, b: a + damping * b, gram(c), c)

    def step(state):
        count, c, residual, search, energy, _ = state
        image = damped_gram(search)
        curvature = tree_dot(search, image)
        curved = curvature > 0
        length = jnp.where(curved, energy / jnp.where(curved, curvature, 1), 0)
        c = tree_move(c, -length, search)
        # The recursive residual falls below the attainable accuracy, so the loop always ends. The
        # true residual is tested after the loop.
        residual = tree_move(residual, length, image)
        scaled = precondition(residual)
        new_energy = tree_dot(residual, scaled)
        search = tree_move(scaled, -new_energy / energy, search)
        # The residual may have parts that the preconditioner maps to 0: test its energy, too.
        go_on = curved & (new_energy > least) & (tree_norm(residual) > tol)
        return count + 1, c, residual, search, new_energy, go_on

    scaled = precondition(unit)
    energy = tree_dot(unit, scaled)
    least = float(jnp.finfo(dtype).eps) ** 2 * energy
    zero = jax.tree.map(jnp.zeros_like, unit)
    start = (jnp.zeros((), jnp.int32), zero, unit, scaled, energy, energy > 0)
    count, solution, *_ = jax.lax.while_loop(
        lambda state: state[-1] & (state[0] < max_steps), step, start
    )
    defect = tree_norm(jax.tree.map(jnp.subtract, damped_gram(solution), unit))
    # A direction that misses the tolerance is still usable; one with a residual this large is not.
    failed = (size > 0) & ~((defect < 0.1) & tree_all_finite(solution))
    solution = jax.tree.map(lambda c: jnp.where(size > 0, c * safe, 0), solution)
    return CoreSolution(solution, count, failed)


def iterated(
    gram: Callable[[Parameters], Parameters],
    damping: RealLike,
    gradient: Parameters,
    tol: float | None,
    max_steps: int,
) -> Preconditioned:
    """The damped direction of a gradient ``J'v`` by conjugate gradients, with its norms."""
    answer = conjugate_gradients(gram, damping, gradient, None, tol, max_steps)
    undamped = conjugate_gradients(gram, 0.0, gradient, None, tol, max_steps).solution
    projections = Projections(
        range=tree_dot(gradient, undamped),  # dropped by the compiler when not used
        damped=tree_dot(gradient, answer.solution),
        projected=tree_dot(answer.solution, gram(answer.solution)),
    )
    return Preconditioned(answer.solution, projections, answer.iterations, answer.failed)


def inverse_from_the_right(matrix: Array, damping: RealLike) -> Callable[[Array], Array]:
    """``c -> c (matrix + damping)^-1`` for a semidefinite matrix, as a preconditioner.

    The matrix is scaled to unit diagonal and decomposed once, so badly scaled columns do no harm.
    Without damping it is a pseudo-inverse, so that unused columns give no infinities.
    """
    damped = matrix + damping * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    diagonal = jnp.diagonal(damped)
    scale = divide_or_zero(jnp.ones_like(diagonal), jnp.sqrt(diagonal))
    both = scale[:, None] * scale[None, :]
    values, vectors = jnp.linalg.eigh(both * damped)
    kept = jnp.where(values > jnp.finfo(matrix.dtype).eps * matrix.shape[0], values, 0)
    inverse = both * ((vectors * divide_or_zero(jnp.ones_like(kept), kept)[None, :]) @ vectors.T)
    return lambda c: c @ inverse


CoreSolver = DirectSolver | ConjugateGradients


def choose_solver(system_order: int) -> CoreSolver:
    """Choose by cost: Cholesky grows with the cube of the order, an iteration of CG does not.

    The break-even is at orders of 200 to 300 (`benchmarks/core_solvers.py`): rank 9 for CP of
    order 3, rank 15 for symmetric CP.
    """
    return DirectSolver() if system_order <= 250 else ConjugateGradients()
