"""Relative errors of the damped solves against 60 digits, from an exact Jacobian."""

import decimal
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.covectors import DenseCovector
from lemmax.maps import CP, PSD, AbstractMap, LowRank, SymmetricCP
from lemmax.points import DensePoint, KruskalPoint
from lemmax.testing._numbers import flat
from lemmax.testing._reference import damped_solve, exact, many_digits
from lemmax.testing.maps import _damped_parts

DAMPINGS = [1.0, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14]


def outer(vectors):
    return functools.reduce(np.multiply.outer, vectors)


def exact_jacobian(factors, symmetric):
    """Columns: the change of the tensor per entry of each factor, or of the one they share."""
    factors = [exact(np.asarray(factor)) for factor in factors]
    blocks = []
    for mode, factor in enumerate(factors):
        units = exact(np.eye(factor.shape[0]))
        columns = [
            outer([units[i] if k == mode else f[:, col] for k, f in enumerate(factors)]).ravel()
            for i in range(factor.shape[0])
            for col in range(factor.shape[1])
        ]
        blocks.append(np.stack(columns, axis=1))
    return sum(blocks) if symmetric else np.concatenate(blocks, axis=1)


def relative_error(actual, expected):
    return np.linalg.norm(flat(actual) - expected) / np.linalg.norm(expected)


class Setting:
    """Right-hand sides, and their solutions by the definition in many digits."""

    def __init__(self, map, x):
        rng = np.random.default_rng(0)
        self.map, self.x = map, x
        self.v = jnp.asarray(rng.standard_normal(map.shape))
        self.g = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), x)
        symmetric = not isinstance(x, tuple)
        factors = (x,) * len(map.shape) if symmetric else x
        with decimal.localcontext(many_digits()):
            jacobian = exact_jacobian(factors, symmetric)
            self.gram = jacobian.T @ jacobian
            right = [jacobian.T @ exact(np.ravel(self.v)), exact(flat(self.g))]
            self.right = np.stack(right, axis=1)
        self.jacobian = jacobian.astype(np.float64)

    def errors(self, damping):
        """Of `direction` and of `solve`."""
        # The law checks' own function: compiled once for both of them.
        covector = DenseCovector(self.v)
        _, *have = _damped_parts(self.map, self.x, covector, jnp.asarray(damping), self.g)
        if damping > 0:
            want = damped_solve(self.gram, damping, self.right).T
        else:
            pseudo_inverse = np.linalg.pinv(self.jacobian, rcond=1e-11)
            want = pseudo_inverse @ flat(self.v), pseudo_inverse @ (pseudo_inverse.T @ flat(self.g))
        return [relative_error(a, b) for a, b in zip(have, want, strict=True)]


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def with_singular_values(seed, dim, values):
    left = np.linalg.qr(normal(seed, dim, len(values)))[0]
    right = np.linalg.qr(normal(seed + 1, len(values), len(values)))[0]
    return jnp.asarray((left * np.array(values)) @ right)


def psd(smallest):
    return with_singular_values(1, 7, [1.0, 0.5, smallest])


def low_rank(smallest):
    # Different seeds: the right singular vectors of the two factors have nothing in common.
    return (
        with_singular_values(2, 6, [1.0, 0.5, smallest]),
        with_singular_values(4, 5, [1.0, 0.7, smallest]),
    )


def cp(last_column=1.0):
    scale = np.array([1.0, 1.0, last_column])
    return tuple(jnp.asarray(normal(seed, d, 3) * scale) for seed, d in ((6, 4), (7, 3), (8, 5)))


def symmetric_cp(last_column=1.0):
    return jnp.asarray(normal(9, 4, 3) * np.array([1.0, 1.0, last_column]))


def twice(x, column=1):
    return jax.tree.map(lambda f: f.at[:, 2].set(f[:, column]), x)


class Case(NamedTuple):
    name: str
    map: AbstractMap
    x: Any
    direction: float
    """Largest error allowed from a covector, at any positive damping."""
    solve: float
    """Largest error allowed for a general right-hand side, at any positive damping."""
    undamped: float | None = None
    """Largest error allowed without damping; None where the rank is not clear."""


PSD_MAP, LOW_RANK, CP_MAP, SYMMETRIC = (
    PSD(7, 3),
    LowRank((6, 5), 3),
    CP((4, 3, 5), 3),
    SymmetricCP(4, 3),
)
WIDE_LOW_RANK = tuple(jnp.asarray(normal(seed, d, 5)) for seed, d in ((11, 3), (12, 4)))
WIDE_CP = tuple(jnp.asarray(normal(seed, 2, 3)) for seed in (13, 14, 15))

CASES = [
    Case("PSD-1e-1", PSD_MAP, psd(1e-1), 1e-13, 1e-12, 1e-12),
    Case("PSD-1e-4", PSD_MAP, psd(1e-4), 1e-11, 1e-11),
    Case("PSD-1e-8", PSD_MAP, psd(1e-8), 1e-7, 1e-8),
    Case("PSD-zero-column", PSD_MAP, psd(1e-1).at[:, 1].set(0.0), 1e-13, 1e-12, 1e-12),
    Case("PSD-rank-above-dim", PSD(3, 5), jnp.asarray(normal(10, 3, 5)), 1e-14, 1e-13, 1e-12),
    Case("LowRank-1e-1", LOW_RANK, low_rank(1e-1), 1e-13, 1e-12, 1e-12),
    Case("LowRank-1e-4", LOW_RANK, low_rank(1e-4), 1e-11, 1e-11),
    Case("LowRank-1e-8", LOW_RANK, low_rank(1e-8), 1e-7, 1e-8),
    Case(
        "LowRank-zero-columns",
        LOW_RANK,
        jax.tree.map(lambda f: f.at[:, 1].set(0.0), low_rank(1e-1)),
        1e-13,
        1e-12,
        1e-12,
    ),
    Case("LowRank-rank-above-dim", LowRank((3, 4), 5), WIDE_LOW_RANK, 1e-14, 1e-13, 1e-12),
    Case("CP", CP_MAP, cp(), 1e-13, 1e-12, 1e-11),
    Case("CP-column-1e-2", CP_MAP, cp(1e-2), 5e-12, 1e-9),
    Case("CP-column-1e-4", CP_MAP, cp(1e-4), 1e-10, 1e-8),
    Case("CP-zero-column", CP_MAP, cp(0.0), 1e-13, 1e-12, 1e-11),
    Case("CP-equal-columns", CP_MAP, twice(cp()), 1e-7, 1e-12),
    Case("CP-rank-above-dim", CP((2, 2, 2), 3), WIDE_CP, 1e-13, 1e-12, 1e-11),
    Case("SymmetricCP", SYMMETRIC, symmetric_cp(), 1e-12, 1e-12, 1e-11),
    Case("SymmetricCP-column-1e-2", SYMMETRIC, symmetric_cp(1e-2), 5e-12, 1e-9),
    Case("SymmetricCP-column-1e-4", SYMMETRIC, symmetric_cp(1e-4), 1e-10, 1e-8),
    Case("SymmetricCP-equal-columns", SYMMETRIC, twice(symmetric_cp()), 1e-7, 1e-12),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_accurate_at_any_damping(case):
    setting = Setting(case.map, case.x)
    direction, solve = np.max([setting.errors(damping) for damping in DAMPINGS], axis=0)
    assert direction <= case.direction
    assert solve <= case.solve
    if case.undamped is not None:
        assert max(setting.errors(0.0)) <= case.undamped


def sizes(jaxpr):
    """Number of entries of every intermediate result, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield from (out.aval.size for out in equation.outvars)
        for inner in jax.tree.leaves(list(equation.params.values())):
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize(
    "map", [SymmetricCP(500, 3), CP((500, 400, 300), 3)], ids=["symmetric", "cp"]
)
def test_a_factored_tensor_is_never_formed(map):
    rank = 2
    truth = KruskalPoint(tuple(jnp.ones((d, rank)) for d in map.shape))
    problem = lm.Composite(loss=lm.losses.L2(), map=map, data=truth)
    shapes = map.parameter_shapes
    single = isinstance(map, SymmetricCP)
    x = jnp.ones(shapes) if single else tuple(jnp.ones(shape) for shape in shapes)

    def step(x):
        evaluation = problem.evaluate(x)
        return evaluation.residual, map.precondition(x, jnp.asarray(1e-3), evaluation.covector)

    residual, _ = jax.eval_shape(step, x)
    assert residual.size <= (map.rank + rank) ** 3
    # The largest thing in the whole program has one long mode.
    assert max(sizes(jax.make_jaxpr(step)(x).jaxpr)) <= 500 * (map.rank + rank) ** 2


@pytest.mark.parametrize(
    ("map", "x"),
    [
        (SymmetricCP(7, 3), jnp.asarray(normal(20, 7, 3))),
        (LowRank((6, 5), 2), tuple(jnp.asarray(normal(23, d, 2)) for d in (6, 5))),
    ],
    ids=["SymmetricCP", "LowRank"],
)
def test_factored_data_give_the_direction_of_dense_data(map, x):
    factor = {d: jnp.asarray(normal(24, d, 2)) for d in map.shape}
    truth = KruskalPoint(tuple(factor[d] for d in map.shape))

    @jax.jit
    def step(data):
        evaluation = lm.Composite(lm.losses.L2(), map, data).evaluate(x)
        direction = map.direction(x, 1e-6, evaluation.covector)
        return evaluation.value, evaluation.gradient, direction

    for factored, dense in zip(step(truth), step(truth.dense()), strict=True):
        assert relative_error(factored, flat(dense)) <= 1e-10


@pytest.mark.parametrize("distance", [1e-10, 1e-11, 1e-12, 1e-13])
@pytest.mark.parametrize("dims", [(7, 7), (4, 3, 5)], ids=["matrix", "tensor"])
def test_distance_of_factored_points_is_accurate_when_tiny(dims, distance):
    factors = [normal(30 + k, d, 2) for k, d in enumerate(dims)]
    moved = [f + distance * normal(40 + k, *f.shape) for k, f in enumerate(factors)]
    with decimal.localcontext(many_digits()):
        both = [[exact(f) for f in of] for of in (factors, moved)]
        tensors = [sum(outer([f[:, k] for f in of]) for k in range(2)) for of in both]
        true = float(np.sum((tensors[0] - tensors[1]) ** 2).sqrt())
    a, b = (KruskalPoint(tuple(jnp.asarray(f) for f in of)) for of in (factors, moved))
    size = float(a.norm())
    rounding = 20 * np.finfo(float).eps * size
    assert abs(float(a.distance(b)) - true) <= rounding
    assert abs(float(a.distance(DensePoint(b.dense()))) - true) <= rounding
    # What the textbook formula makes of it.
    scalars = float(a.inner(a) - 2 * a.inner(b) + b.inner(b))
    assert abs(np.sqrt(max(scalars, 0.0)) - true) > 100 * rounding or scalars <= 0
