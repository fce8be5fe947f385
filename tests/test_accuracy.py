"""Relative errors of the damped solves against 60 digits, from an exact Jacobian."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np

from lemmax.covectors import DenseCovector
from lemmax.testing._numbers import flat
from lemmax.testing._reference import DIGITS, damped_solve, exact

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


class Reference:
    """Directions and solutions by the definition, in many digits."""

    def __init__(self, map, x, v, g):
        symmetric = not isinstance(x, tuple)
        with mpmath.workdps(DIGITS):
            factors = (x,) * len(map.shape) if symmetric else x
            jacobian = exact_jacobian(factors, symmetric)
            self.gram = jacobian.T @ jacobian
            self.right = np.stack([jacobian.T @ exact(np.ravel(v)), exact(flat(g))], axis=1)
            self.jacobian = jacobian.astype(float)

    def __call__(self, damping):
        return damped_solve(self.gram, damping, self.right).T


@eqx.filter_jit
def answers(map, x, damping, v, g):
    return map.direction(x, damping, DenseCovector(v)), map.solve(x, damping, g)


def relative_error(actual, expected):
    return np.linalg.norm(flat(actual) - expected) / np.linalg.norm(expected)


def worst_errors(map, x, seed=0):
    """Largest relative errors of `direction` and of `solve` over all dampings."""
    rng = np.random.default_rng(seed)
    v = jnp.asarray(rng.standard_normal(map.shape))
    g = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), x)
    reference = Reference(map, x, v, g)
    errors = []
    for damping in DAMPINGS:
        have, want = answers(map, x, jnp.asarray(damping), v, g), reference(damping)
        errors.append([relative_error(a, b) for a, b in zip(have, want, strict=True)])
    return np.max(errors, axis=0)
