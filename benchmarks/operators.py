"""Rank-one measurements and observed entries, against the naive formulas and the floor."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax.points import KruskalPoint

from .measure import Row, Timings, interleave, seconds_each

# Not promises about a number, but that the better formula is the one in use.
BOUND = 1.0
_ROUNDS, _REPEATS = 7, 3

Factors = tuple[jax.Array, ...]
Pass = Callable[[Any, jax.Array, Factors], tuple[jax.Array, ...]]


def rows() -> Iterator[Row]:
    for name, count, dim, rank in (
        ("quadratic, d=500, m=10000, r=1", 10_000, 500, 1),
        ("quadratic, d=500, m=10000, r=5", 10_000, 500, 5),
    ):
        vectors = np.random.default_rng(0).standard_normal((count, dim))
        operator = lm.operators.RankOne(vectors)
        yield _row(f"RankOne, {name}", operator, operator.left, rank, _rank_one_naively)
    for name, dim, share, rank in (
        ("d=500, 30 %, r=5", 500, 0.3, 5),
        ("d=2000, 5 %, r=5", 2000, 0.05, 5),
        ("d=2000, 30 %, r=5", 2000, 0.3, 5),
        ("d=1000, 100 %, r=10", 1000, 1.0, 10),
        ("d=10000, 1 %, r=5", 10_000, 0.01, 5),
    ):
        indices = _some_of(dim, share)
        operator = lm.operators.Entries(indices, (dim, dim))
        yield _row(f"Entries, {name}", operator, operator.indices, rank, _entries_naively)


def _row(name: str, operator: Any, stored: Any, rank: int, naive: Pass) -> Row:
    rng = np.random.default_rng(1)
    factors = tuple(jnp.asarray(rng.standard_normal((d, rank))) for d in operator.point_shape)
    signs = jnp.asarray(rng.standard_normal(operator.observation_shape))
    ours, theirs = _Repeated(_both_ways, operator), _Repeated(naive, stored)
    for a, b in zip(ours.once(signs, factors), theirs.once(signs, factors), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10 * float(jnp.max(jnp.abs(b))))
    # What has to come from memory at least once: the operator, and numbers in and out.
    leaves = jax.tree.leaves((stored, signs, signs))
    total = jax.jit(lambda arrays: [jnp.sum(array) for array in arrays])

    def passes(timings: Timings) -> bool | None:
        return timings.ratio("ours", "naive").at_most(BOUND)

    jobs = {
        "ours": lambda: seconds_each(lambda: ours.loop(signs, factors), 1) / _REPEATS,
        "naive": lambda: seconds_each(lambda: theirs.loop(signs, factors), 1) / _REPEATS,
        "reading": lambda: seconds_each(lambda: jax.block_until_ready(total(leaves)), _REPEATS),
    }
    timings = interleave(jobs, _ROUNDS, passes)
    size = sum(leaf.nbytes for leaf in leaves)
    return Row(
        what=f"observing and both products of the adjoint / naively, {name}",
        measured=str(timings.ratio("ours", "naive")),
        bound=f"<= {BOUND}x",
        passes=passes(timings),
        absolute=(
            f"{timings.typical('ours') * 1e3:.2f} ms, naively "
            f"{timings.typical('naive') * 1e3:.2f} ms, reading {size / 1e6:.0f} MB once "
            f"{timings.typical('reading') * 1e3:.2f} ms"
        ),
    )


def _some_of(dim: int, share: float) -> tuple[np.ndarray, ...]:
    chosen = np.random.default_rng(0).choice(dim**2, int(share * dim**2), replace=False)
    return np.divmod(np.sort(chosen), dim)


def _both_ways(operator: Any, signs: jax.Array, factors: Factors) -> tuple[jax.Array, ...]:
    covector = operator.adjoint(signs)
    seen = operator.measure(KruskalPoint(factors))
    return seen, covector.contract(factors, 0), covector.contract(factors, 1).T


def _rank_one_naively(
    vectors: jax.Array, signs: jax.Array, factors: Factors
) -> tuple[jax.Array, ...]:
    """Form the point and the covector."""
    x, y = factors
    covector = vectors.T @ (signs[:, None] * vectors)
    return jnp.sum((vectors @ (x @ y.T)) * vectors, axis=1), covector @ y, covector.T @ x


def _entries_naively(
    indices: tuple[jax.Array, ...], signs: jax.Array, factors: Factors
) -> tuple[jax.Array, ...]:
    """Gather rows, and let the compiler derive the adjoint: a scatter of rows."""
    (row, column), (x, y) = indices, factors
    seen, pull_back = jax.vjp(lambda x, y: jnp.sum(x[row] * y[column], axis=1), x, y)
    return seen, *pull_back(signs)


class _Repeated:
    """A pass as often as a run would make it in one compiled loop, and once to look at it."""

    def __init__(self, passing: Pass, stored: Any):
        # Arguments of the program: constants in it would be computed with while it compiles.
        self.once = functools.partial(jax.jit(passing), stored)
        self.run = functools.partial(jax.jit(functools.partial(_loop, passing)), stored)

    def loop(self, signs: jax.Array, factors: Factors) -> Any:
        return jax.block_until_ready(self.run(signs, factors))


def _loop(passing: Pass, stored: Any, signs: jax.Array, factors: Factors) -> Any:
    def again(_, state):
        signs, (x, y) = state
        seen, left, right = passing(stored, signs, (x, y))
        # Next to no change, but one that the compiler has to make.
        return signs + 1e-30 * seen, (x + 1e-30 * left, y + 1e-30 * right)

    return jax.lax.fori_loop(0, _REPEATS, again, (signs, factors))
