"""Gauss-Newton steps on the core of a tensor beside those of its full Jacobian."""

import jax
import numpy as np
import pytest

from lemmax._terms.polish import _moved, polish
from lemmax.points import KruskalPoint


@pytest.mark.parametrize(("shape", "rank"), [((3, 4, 2), 2), ((2, 3, 2, 2), 3), ((2, 2, 2), 5)])
def test_steps_that_polish_a_core_are_those_of_its_jacobian(shape, rank):
    """By autodiff, and a dense solve; also where there are more parameters than entries."""
    rng = np.random.default_rng(0)
    factors = tuple(rng.standard_normal((d, rank)) for d in shape)
    core = rng.standard_normal(shape)
    blocks = jax.jacfwd(lambda x: KruskalPoint(x).dense())(factors)
    jacobian = np.concatenate([np.asarray(b).reshape(core.size, -1) for b in blocks], axis=1)
    residual = np.asarray(KruskalPoint(factors).dense() - core).ravel()
    damped = jacobian.T @ jacobian + 0.3 * np.eye(jacobian.shape[1])
    step = np.linalg.solve(damped, jacobian.T @ residual)
    moved = _moved(factors, core, 0.3, symmetric=False)
    change = np.concatenate([(f - m).ravel() for f, m in zip(factors, moved, strict=True)])
    np.testing.assert_allclose(change, step, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("side", "order", "rank"), [(4, 3, 3), (3, 4, 2), (2, 3, 4)])
def test_a_symmetric_core_is_polished_and_stays_symmetric(side, order, rank):
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((side, rank))
    core = np.asarray(KruskalPoint((factor,) * order).dense())
    near = (factor + 0.05 * rng.standard_normal(factor.shape),) * order
    polished, left = polish(near, core, symmetric=True)
    assert left < 1e-12 * np.linalg.norm(core)
    assert all(np.array_equal(polished[0], other) for other in polished)
    np.testing.assert_allclose(KruskalPoint(polished).dense(), core, atol=1e-11)
