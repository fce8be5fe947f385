"""The corollaries of Section 5: their printed caps, corrected, and runs with rigorous constants."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax import theory

from .cases.theory import (
    MAPS,
    QUADRATIC,
    SHARP,
    TENSORS,
    directions_of_the_24_cell,
    extreme_absolute_sums,
    over_trajectories,
    problem_for,
    truth_of,
)

ABSOLUTE = lm.losses.L1()


# --- caps, from the formulas of the corollaries ---


def sensing(map, seed=0):
    """Some operator; the caps below do not depend on which."""
    array = np.random.default_rng(seed).standard_normal((math.prod(map.shape) + 2, *map.shape))
    return lm.operators.Dense(array)


def predicted(map, loss, truth, constants, operator, **alignment):
    problem = problem_for(map, loss, jax.tree.map(jnp.asarray, truth), operator)
    if alignment:
        alignment = {"alignment": theory.strong_alignment(map, truth, **alignment)}
    return theory.predict(problem, truth, constants=constants, **alignment)


def assert_as_printed(found, name, *, cap, lipschitz, radius, contraction, slack=1e-9):
    """C_ub and gamma are the printed ones; the radius is at least the printed, by little."""
    lower, upper = found.damping_range
    assert found.theorem.endswith(name)
    assert upper == pytest.approx(cap)
    assert found.scale == pytest.approx(min(1.0, lower / lipschitz))
    assert found.contraction**2 == pytest.approx(contraction(found.scale), rel=1e-13)
    printed = radius(lower, upper)
    # The printed radii of local corollaries bound 1 - (1 - t)^(1/4) below by t / 4.
    assert printed * (1 - 1e-9) <= found.radius <= printed * (1 + slack)


@pytest.mark.parametrize("redundant", [0, 2])
def test_corollaries_5_3_and_5_4(redundant):
    """Nonnegative least squares, in terms of the condition number kappa of the array."""
    map, rng = MAPS["Square"], np.random.default_rng(1)
    truth = truth_of(rng, map, redundant)
    array = np.linalg.qr(rng.standard_normal((7, 5)))[0] * np.linspace(1.0, 0.6, 5)
    operator, kappa = lm.operators.Dense(array), 1 / 0.6
    z = truth**2
    zeros = max(math.sqrt(redundant), 1.0)
    gap = min(abs(a - b) for a, b in itertools.combinations(z, 2) if a != b)
    for loss, number, cap, rate in [
        (QUADRATIC, "5.3", kappa**-4 / (2**8 * zeros), lambda g: 1 - g * kappa**-2 / 32),
        (SHARP, "5.4", kappa**-2 / (64 * zeros), lambda g: 1 - g * kappa**-2 / 8),
    ]:
        assert_as_printed(
            predicted(map, loss, truth, None, operator),
            f"Corollary {number}",
            cap=cap,
            lipschitz=2.0,
            radius=lambda lower, upper: min(gap, np.min(z[z > 0])) / 2,
            contraction=rate,
        )


@pytest.mark.parametrize("redundant", [0, 2])
def test_corollaries_5_9_and_5_14(redundant):
    """Symmetric sensing, smooth with a RIP constant, robust with the ratio omega0 / omega2."""
    map, rng = MAPS["PSD"], np.random.default_rng(2)
    truth = truth_of(rng, map, redundant)
    smallest = np.linalg.svd(truth)[1][map.rank - redundant - 1] ** 2
    root = math.sqrt(2 * (redundant + 1))
    delta, w = 0.2, 0.7
    ratio = ((1 - delta) / (1 + delta)) ** 2
    assert_as_printed(
        predicted(
            map,
            QUADRATIC,
            truth,
            theory.OuterConstants(True, 1 - delta, (1 + delta) ** 2 / (1 - delta)),
            sensing(map),
        ),
        "Corollary 5.9",
        cap=ratio**2 / (64 * root),
        lipschitz=2.0,
        radius=lambda lower, upper: ratio * smallest / (16 * math.sqrt(2)),
        contraction=lambda g: 1 - g * ratio / 32,
    )
    assert_as_printed(
        predicted(map, ABSOLUTE, truth, theory.OuterConstants(False, w * 1.3, 1.3), sensing(map)),
        "Corollary 5.14",
        cap=w**2 / (16 * root),
        lipschitz=2.0,
        radius=lambda lower, upper: w * smallest / (8 * math.sqrt(2)),
        contraction=lambda g: 1 - g * w**2 / 8,
    )


@pytest.mark.parametrize("redundant", [0, 2])
def test_corollaries_5_10_and_5_15(redundant):
    """Asymmetric sensing: the radii with 2^-24 and 2^-20 and the larger sigma_1, as corrected.

    One factor is three times the other, so that the smaller and the larger one differ.
    """
    map, rng = MAPS["LowRank"], np.random.default_rng(3)
    left, right = truth_of(rng, map, redundant)
    truth = 3 * left, right
    kept = map.rank - redundant
    a, b = (np.linalg.svd(factor)[1][:kept] for factor in truth)
    low, high = min(a[-1], b[-1]), max(a[0], b[0])
    share = low**2 / (a[-1] ** 2 + b[-1] ** 2) / (5 * math.sqrt(2) * (redundant + 1) ** 2)
    delta, w = 0.2, 0.7
    ratio = ((1 - delta) / (1 + delta)) ** 2
    assert_as_printed(
        predicted(
            map,
            QUADRATIC,
            truth,
            theory.OuterConstants(True, 1 - delta, (1 + delta) ** 2 / (1 - delta)),
            sensing(map),
        ),
        "Corollary 5.10",
        cap=ratio**2 * share / 2**9,
        lipschitz=1.0,
        radius=lambda lower, upper: 2.0**-24 * ratio**2 * low**4 / high**2 * lower,
        contraction=lambda g: 1 - g * ratio / 32,
        slack=1e-4,
    )
    assert_as_printed(
        predicted(map, ABSOLUTE, truth, theory.OuterConstants(False, w * 1.3, 1.3), sensing(map)),
        "Corollary 5.15",
        cap=w**2 * share / 2**7,
        lipschitz=1.0,
        radius=lambda lower, upper: 2.0**-20 * w**4 * low**4 / high**2 * lower,
        contraction=lambda g: 1 - g * w**2 / 8,
        slack=1e-4,
    )


@pytest.mark.parametrize(
    ("name", "number", "lipschitz"),
    [("SymmetricCP", "5.18", 12.0), ("CP", "5.19", 4 / math.sqrt(3))],
)
def test_corollaries_5_18_and_5_19(name, number, lipschitz):
    """Tensors: ``e_0 <= min{1/(8C), sigma^2/(32 C_ub), 2^-11 C_lb eps^2}``, for any C.

    A large C makes the first term the smallest, a small one the last. The library takes C_ub such
    that the first two are equal. Its Lipschitz constant for `CP` is a third of the paper's, and
    epsilon is thrice as large.
    """
    map, rng = TENSORS[name], np.random.default_rng(4)
    truth = truth_of(rng, map, 0, 0.5)
    jacobian = np.asarray(theory.dense_jacobian(map, truth))
    values = np.linalg.svd(jacobian, compute_uv=False)
    dims = 3 * (map.dim,) if name == "SymmetricCP" else map.dims
    index = (dims[0] if name == "SymmetricCP" else sum(dims) - 2) * map.rank
    sigma = values[index - 1]
    size = math.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(truth)))
    epsilon = min(sigma / (2 * lipschitz * size), size)
    for curvature in (1.0, 1e8):
        found = predicted(
            map, SHARP, truth, None, lm.operators.Identity(), curvature=curvature, radius=1.0
        )
        assert found.parameter_radius == pytest.approx(epsilon / 2)
        assert_as_printed(
            found,
            f"Corollary {number}",
            cap=sigma**2 / 32 * 8 * curvature,
            lipschitz=lipschitz * size,
            radius=lambda lower, upper, c=curvature: min(
                1 / (8 * c), sigma**2 / (32 * upper), 2.0**-11 * lower * epsilon**2
            ),
            contraction=lambda g: 1 - g / 8,
            slack=0.1,
        )


# --- runs ---


@pytest.mark.parametrize(
    ("name", "loss", "expected"),
    [
        ("Square", QUADRATIC, "Theorem 4.5(1), Corollary 5.3"),
        ("Square", SHARP, "Theorem 4.1(1), Corollary 5.4"),
        ("PSD", QUADRATIC, "Theorem 4.5(1), Corollary 5.9"),
        ("PSD", ABSOLUTE, "Theorem 4.1(1), Corollary 5.14"),
    ],
)
def test_runs_of_the_corollaries(name, loss, expected):
    """With an operator, the constants below and above differ, and so do C_lb and C_ub."""
    map, rng = MAPS[name], np.random.default_rng(5)
    entries = math.prod(map.shape)
    basis = np.linalg.qr(rng.standard_normal((entries + 4, entries)))[0]
    array = basis * np.linspace(1.0, 0.8, entries)
    operator = lm.operators.Dense(array.reshape(-1, *map.shape))
    found = over_trajectories(map, loss, "polyak", 150, operator=operator)
    assert found.theorem == expected
    assert found.worst < 1


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (QUADRATIC, "Theorem B.13, Corollary 5.10"),
        (ABSOLUTE, "Theorem 4.7, Corollary 5.15"),
    ],
    ids=["quadratic", "absolute"],
)
def test_runs_of_the_asymmetric_corollaries(loss, expected):
    """Rate, damping, progress and distance in x, from the edge of balls of 1e-11 to 1e-10.

    Only an operator that is nearly even, and a truth of rank 1 without redundant columns, have
    balls above the level of rounding; errors there have four digits or more.
    """
    array = directions_of_the_24_cell() * np.linspace(1.0, 0.99, 4)
    constants = None
    if not loss.quadratic:
        constants = theory.OuterConstants(False, *extreme_absolute_sums(array))
    found = over_trajectories(
        lm.maps.LowRank((2, 2), 1),
        loss,
        "polyak",
        150,
        operator=lm.operators.Dense(array.reshape(-1, 2, 2)),
        constants=constants,
        redundant=0,
        lowest=0.7,
    )
    assert found.theorem == expected
    assert found.smallest_radius > 1e-12
    assert found.worst <= 1 + 1e-4
    assert found.final < 1
