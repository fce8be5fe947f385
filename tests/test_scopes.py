"""Fresh instances in each setting: who gets there, who stops short, and how fast.

Ranges of iterations to a relative error of 1e-10 are those measured by others for the same
settings, widened by a quarter. Ten instances of all settings are slow; of the settings with a
rank that is too large, where methods differ most, two are always run.
"""

import functools

import numpy as np
import pytest

import lemmax as lm
from lemmax.experiments.instances import matrix_sensing

METHODS = lm.methods
TWO, OTHERS = range(2), range(2, 10)


def always(*cases):
    """Two instances of each case, and eight more with the slow tests."""
    more = [pytest.param(*case, OTHERS, marks=pytest.mark.slow) for case in cases]
    return [*((*case, TWO) for case in cases), *more]


def slowly(*cases):
    return [pytest.param(*case, range(10), marks=pytest.mark.slow) for case in cases]


@functools.cache
def instances(symmetric, smooth, rank, condition, seeds):
    loss = lm.losses.SquaredL2() if smooth else lm.losses.L1()
    return [
        matrix_sensing(symmetric, seed, dim=40, rank=rank, condition=condition, loss=loss)
        for seed in seeds
    ]


def errors(setting, seeds, method, steps):
    """The errors of some runs, each as long as it took."""
    for instance in instances(*setting, seeds):
        metrics = {"error": instance.error}
        result = lm.solve(
            instance.problem, method, instance.x0, tol=0, max_steps=steps, metrics=metrics
        )
        yield np.asarray(result.trace.metrics["error"])


SMOOTH = {
    "lmm": (99, 148),
    "prec_gd": (255, 315),
    "prec_gd_asymmetric": (255, 315),
    "scaled_gd": (255, 315),
    "approximate_gauss_newton": (95, 120),
}
# (symmetric, smooth, rank, condition), method, range of iterations
EXACT_RANK = [
    *(((True, True, 2, 100.0), name) for name in ("lmm", "prec_gd", "scaled_gd")),
    *(
        ((False, True, 2, 100.0), name)
        for name in ("lmm", "prec_gd_asymmetric", "approximate_gauss_newton", "scaled_gd")
    ),
    *(((symmetric, False, 2, 100.0), "lmm") for symmetric in (True, False)),
]
TOO_LARGE_RANK = [
    *(((True, True, 5, 100.0), name) for name in ("lmm", "prec_gd")),
    *(
        ((False, True, 5, 100.0), name)
        for name in ("lmm", "prec_gd_asymmetric", "approximate_gauss_newton")
    ),
    *(((symmetric, False, 5, 100.0), "lmm") for symmetric in (True, False)),
    ((False, False, 2, 100.0), "opsa"),
]


@pytest.mark.parametrize(
    ("setting", "name", "seeds"), [*always(*TOO_LARGE_RANK), *slowly(*EXACT_RANK)], ids=str
)
def test_where_a_method_gets_to_the_solution(setting, name, seeds):
    smooth = setting[1]
    low, high = SMOOTH[name] if smooth else {"lmm": (195, 357), "opsa": (256, 302)}[name]
    method = METHODS.rebalanced(METHODS.opsa()) if name == "opsa" else getattr(METHODS, name)()
    for error in errors(setting, seeds, method, int(1.25 * high) + 1):
        hits = np.flatnonzero(error <= 1e-10)
        assert hits.size, np.min(error)
        assert 0.75 * low <= hits[0] <= 1.25 * high


@pytest.mark.parametrize(
    ("setting", "method", "seeds"),
    always(
        ((True, True, 5, 100.0), METHODS.scaled_gd_damped(1e-8)),
        ((False, False, 5, 100.0), METHODS.rebalanced(METHODS.opsa(1e-8))),
    ),
)
def test_where_a_fixed_damping_sets_a_floor(setting, method, seeds):
    """It ends near 1e-10 to 5e-10, and the last hundred steps bring less than the digit before."""
    for error in errors(setting, seeds, method, 500):
        assert 3e-11 < np.min(error) < 1e-9
        assert error[-1] > 0.2 * error[-100]


@pytest.mark.parametrize(("setting", "seeds"), slowly(((False, False, 5, 100.0),)))
def test_a_strong_fixed_damping_sets_a_high_floor(setting, seeds):
    for error in errors(setting, seeds, METHODS.opsa(1e-2), 600):
        assert 1e-6 < np.min(error) < 1e-4


@pytest.mark.parametrize(
    ("setting", "seeds"),
    [
        *always(((False, True, 5, 100.0),), ((True, False, 2, 100.0),)),
        *slowly(((True, True, 2, 100.0),), ((True, True, 5, 1.0),), ((False, False, 5, 1.0),)),
    ],
    ids=str,
)
def test_where_the_subgradient_method_stalls(setting, seeds):
    for error in errors(setting, seeds, METHODS.polyak_subgradient(), 400):
        assert np.min(error) > 1e-7


@pytest.mark.parametrize(
    ("setting", "seeds"),
    [*always(((False, False, 2, 1.0),)), *slowly(((True, True, 2, 1.0),))],
    ids=str,
)
def test_where_the_subgradient_method_gets_to_the_solution(setting, seeds):
    for error in errors(setting, seeds, METHODS.polyak_subgradient(), 450):
        assert np.min(error) < 1e-10
