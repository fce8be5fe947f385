"""Generated sizes, ranks and scales: whatever comes, no NaN is called a success."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lemmax as lm

SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
# Few sizes, since each new one compiles; every value of scale, seed and start is free.
SIZES = st.sampled_from([(1, 1), (2, 3), (4, 2)])
SCALES = st.sampled_from([1e-150, 1e-30, 1e-8, 1.0, 1e8, 1e30, 1e150])
LOSSES = st.sampled_from([lm.losses.L1(), lm.losses.L2(), lm.losses.SquaredL2()])
METHODS = st.sampled_from(
    [lm.methods.lmm(), lm.methods.gauss_newton(), lm.methods.polyak_subgradient()]
)
STARTS = st.sampled_from(["random", "zero", "exact", "zero column"])
KINDS = st.sampled_from(["square", "psd", "low rank", "symmetric cp", "cp"])


def make(kind, dim, rank, scale, rng):
    """A map, the scale of its parameters, and exact parameters of data of the given scale."""
    if kind == "square":
        return lm.maps.Square(dim), rng.standard_normal(dim) * scale**0.5
    if kind == "psd":
        return lm.maps.PSD(dim, rank), rng.standard_normal((dim, rank)) * scale**0.5
    if kind == "low rank":
        factors = [rng.standard_normal((d, rank)) * scale**0.5 for d in (dim, dim + 1)]
        return lm.maps.LowRank((dim, dim + 1), rank), tuple(factors)
    if kind == "symmetric cp":
        return lm.maps.SymmetricCP(dim, rank), rng.standard_normal((dim, rank)) * scale ** (1 / 3)
    factors = [rng.standard_normal((d, rank)) * scale ** (1 / 3) for d in (dim, dim + 1, dim)]
    return lm.maps.CP((dim, dim + 1, dim), rank), tuple(factors)


def start(exact, how, rng):
    def change(u):
        noise = rng.standard_normal(u.shape) * (np.max(np.abs(u)) or 1.0)
        if how == "zero":
            return 0 * u
        if how == "exact":
            return u
        moved = u + 0.1 * noise
        if how == "zero column" and u.ndim == 2:
            moved[:, -1] = 0
        return moved

    return jax.tree.map(change, exact)


def check_no_nan(kind, sizes, scale, loss, method, how, seed, zero_data):
    rng = np.random.default_rng(seed)
    map_, exact = make(kind, *sizes, scale, rng)
    data = np.asarray(map_(exact).dense()) * (0.0 if zero_data else 1.0)
    if not np.all(np.isfinite(data)):
        return
    x0 = start(exact, how, rng)
    result = lm.solve(lm.Composite(loss, map_, data=data), method, x0, max_steps=64)
    finite = all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.x))
    assert finite
    assert result.status != lm.Status.RUNNING
    if result.status.succeeded:
        assert np.isfinite(result.value)
        assert np.all(np.isfinite(result.point.dense()))
        assert result.value <= result.trace.value[0]
    if how == "exact" and not zero_data:
        assert result.status == lm.Status.TARGET_REACHED
        assert result.steps == 0


@pytest.mark.parametrize("examples", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_no_nan_is_called_a_success(examples):
    chosen = (KINDS, SIZES, SCALES, LOSSES, METHODS, STARTS, st.integers(0, 2**31), st.booleans())
    settings(SETTINGS, max_examples=examples)(given(*chosen)(check_no_nan))()


@given(
    st.sampled_from([(3, 2), (4, 3)]),
    st.floats(-100, 100),
    st.floats(-15, 2),
    st.integers(0, 2**31),
)
@SETTINGS
def test_directions_are_finite_at_any_scale(sizes, log_scale, log_damping, seed):
    """Scaling the covector scales the direction; damping from none to much is harmless."""
    rng = np.random.default_rng(seed)
    dim, rank = sizes
    x = rng.standard_normal((dim, rank)) * 10 ** (log_scale / 4)
    x[:, -1] *= 10.0 ** rng.integers(-12, 1)
    covector = lm.operators.Identity().adjoint(jax.numpy.asarray(rng.standard_normal((dim, dim))))
    map_ = lm.maps.PSD(dim, rank)
    largest = np.linalg.norm(x, 2) ** 2
    for damping in (0.0, 10**log_damping * largest):
        found = map_.precondition(jax.numpy.asarray(x), damping, covector)
        assert np.all(np.isfinite(found.direction))
        projections = found.projections
        slack = 1 + 1e-10
        assert projections.projected <= projections.damped * slack
        assert projections.damped <= projections.range * slack
