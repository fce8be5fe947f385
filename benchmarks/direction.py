"""The closed form of the damped direction, against conjugate gradients on the same system."""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax.covectors import DenseCovector
from lemmax.experiments.instances import conditioned_factor

from .measure import Row, Timings, interleave, seconds_each, seconds_of_first_call

BOUND = 10.0
_DIM, _RANK, _DAMPING = 200, 5, 1e-3
_CG_ITERATIONS = 100
_ROUNDS, _REPEATS = 15, 100


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    left, right = (jnp.asarray(conditioned_factor(rng, _DIM, _RANK, 10.0)) for _ in range(2))
    general = jnp.asarray(rng.standard_normal((_DIM, _DIM)))
    symmetric = DenseCovector(general + general.T, symmetric=True)
    yield _row(lm.maps.PSD(_DIM, _RANK), left, symmetric)
    yield _row(lm.maps.LowRank((_DIM, _DIM), _RANK), (left, right), DenseCovector(general))


def _row(map: lm.maps.AbstractMap, x: Any, covector: DenseCovector) -> Row:
    gradient = map.vjp(x, covector)

    def closed_form(x, covector):
        return map.direction(x, _DAMPING, covector)

    def iterative(x, gradient):
        return conjugate_gradients(functools.partial(map.gram, x), gradient)

    # As in a run, both are called from a compiled loop: a call from Python takes longer to
    # arrive than the closed form takes to compute. One such call is stated as well.
    call, call_cg = jax.jit(closed_form), jax.jit(iterative)
    loop, loop_cg = repeated(closed_form), repeated(iterative)
    _check_same(call(x, covector), call_cg(x, gradient))
    compile_seconds = seconds_of_first_call(lambda: loop(x, covector))
    compile_cg_seconds = seconds_of_first_call(lambda: loop_cg(x, gradient))

    def passes(timings: Timings) -> bool | None:
        return timings.ratio("CG", "closed form").at_least(BOUND)

    jobs = {
        "closed form": lambda: seconds_each(lambda: loop(x, covector), 1) / _REPEATS,
        "CG": lambda: seconds_each(lambda: loop_cg(x, gradient), 1) / _REPEATS,
        "call": lambda: seconds_each(lambda: jax.block_until_ready(call(x, covector)), _REPEATS),
    }
    timings = interleave(jobs, _ROUNDS, passes)
    speed_up = timings.ratio("CG", "closed form")
    return Row(
        what=(
            f"{_CG_ITERATIONS} CG iterations / closed-form direction, "
            f"{type(map).__name__} d={_DIM}, r={_RANK}"
        ),
        measured=str(speed_up),
        bound=f">= {BOUND:.0f}x",
        passes=passes(timings),
        absolute=(
            f"closed form {timings.typical('closed form') * 1e6:.0f} us "
            f"({timings.typical('call') * 1e6:.0f} us if called from Python), "
            f"CG {timings.typical('CG') * 1e6:.0f} us; compile {compile_seconds:.1f} s and "
            f"{compile_cg_seconds:.1f} s apart"
        ),
    )


def conjugate_gradients(gram: Callable[[Any], Any], gradient: Any) -> Any:
    """Solve ``(J'J + damping) d = gradient``; making the gradient is not counted."""

    def iterate(_, state):
        solution, residual, search, square = state
        image = _add(gram(search), _DAMPING, search)
        length = square / _dot(search, image)
        solution, residual = _add(solution, length, search), _add(residual, -length, image)
        new_square = _dot(residual, residual)
        return solution, residual, _add(residual, new_square / square, search), new_square

    nowhere = jax.tree.map(jnp.zeros_like, gradient)
    start = (nowhere, gradient, gradient, _dot(gradient, gradient))
    return jax.lax.fori_loop(0, _CG_ITERATIONS, iterate, start)[0]


def repeated(solve: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Many solves in one compiled loop, each from where the one before led."""

    @jax.jit
    def run(x, right_hand_side):
        def move(_, x):
            # Next to no move, so that the systems stay alike, but one the compiler has to make.
            return _add(x, -1e-12, solve(x, right_hand_side))

        return jax.lax.fori_loop(0, _REPEATS, move, x)

    return lambda x, right_hand_side: jax.block_until_ready(run(x, right_hand_side))


def _add(a: Any, scale: Any, b: Any) -> Any:
    return jax.tree.map(lambda u, v: u + scale * v, a, b)


def _dot(a: Any, b: Any) -> jax.Array:
    return functools.reduce(operator.add, jax.tree.leaves(jax.tree.map(jnp.vdot, a, b)))


def _check_same(a: Any, b: Any) -> None:
    for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(u, v, atol=1e-8 * float(jnp.max(jnp.abs(u))))
