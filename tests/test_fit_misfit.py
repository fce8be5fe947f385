"""Models that lack a term: what they miss is not passed off as outliers."""

import jax.numpy as jnp
import numpy as np
import pytest

import lemmax as lm
from lemmax.fit._order import crowded

T = np.linspace(0.0, 10.0, 80)
SEEDS = range(300, 305)
MODELS = {
    "no offset": (
        lambda x: x[0] * jnp.exp(-x[1] * T),
        [1.0, 1.0],
        2 * np.exp(-T) + 0.5,
    ),
    "one exponential of two": (
        lambda x: x[0] * jnp.exp(-x[1] * T) + x[2],
        [1.0, 1.0, 0.0],
        2 * np.exp(-3 * T) + np.exp(-0.3 * T),
    ),
    "one peak of two": (
        lambda x: x[0] * jnp.exp(-(((T - x[1]) / x[2]) ** 2)) + x[3],
        [1.0, 4.0, 1.0, 0.0],
        3 * np.exp(-(((T - 4) / 0.7) ** 2)) + 1.2 * np.exp(-(((T - 6.5) / 0.5) ** 2)) + 1,
    ),
}


def noisy(curve: np.ndarray, seed: int) -> np.ndarray:
    return curve + 0.03 * np.random.default_rng(seed).standard_normal(80)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_lacks_a_term_is_doubted(name):
    model, start, curve = MODELS[name]
    for seed in SEEDS:
        fitted = lm.fit(model, noisy(curve, seed), np.array(start))
        assert not fitted.status.succeeded, (seed, fitted.summary())
    y = np.stack([noisy(curve, seed) for seed in SEEDS])
    assert not np.any(lm.fit_many(model, y, np.array(start)).succeeded)


@pytest.mark.parametrize(
    ("n", "count", "stretch"), [(20, 7, 7), (80, 12, 7), (80, 24, 12), (600, 120, 12)]
)
def test_outliers_are_crowded_by_the_model_not_by_chance(n, count, stretch):
    rng = np.random.default_rng(n + count)
    found = 0
    for _ in range(1000):
        wrong = np.zeros(n, bool)
        wrong[rng.choice(n, count, replace=False)] = True
        found += crowded(np.ones(n), wrong) > 0
    # A thousandth of them at most is the level: five is beyond what it makes likely.
    assert found <= 5
    # A stretch of them, the others anywhere, is found.
    wrong[:] = False
    wrong[rng.choice(np.arange(stretch, n), count - stretch, replace=False)] = True
    wrong[:stretch] = True
    assert crowded(np.ones(n), wrong) >= stretch
    # On both sides of the curve they are no curve.
    signs = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    assert crowded(signs, wrong) == 0
