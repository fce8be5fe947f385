"""Random instances of the models that people fit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Instance(NamedTuple):
    """One of them."""

    family: str
    model: Callable[[Any], Any]
    y: np.ndarray
    start: np.ndarray
    truth: np.ndarray
    right: np.ndarray
    """Which data are right."""
    wrong: float
    """The share of the others."""
    reach: float
    """The start is within this factor of the truth."""


def _exponential(x, t):
    return x[0] * jnp.exp(-x[1] * t) + x[2]


def _two_exponentials(x, t):
    return x[0] * jnp.exp(-x[1] * t) + x[2] * jnp.exp(-x[3] * t)


def _peak(x, t):
    return x[0] * jnp.exp(-(((t - x[1]) / x[2]) ** 2) / 2) + x[3] + x[4] * t


def _logistic(x, t):
    return x[0] / (1 + jnp.exp(-x[1] * (t - x[2])))


def _rational(x, t):
    return (x[0] + x[1] * t) / (1 + x[2] * t)


def _michaelis(x, t):
    return x[0] * t ** x[2] / (x[1] ** x[2] + t ** x[2])


def _predator(x, t):
    """Growth of a population with a limit and a constant harvest, by Runge and Kutta's steps."""
    rate, limit, harvest, begin = x

    def slope(u):
        return rate * u * (1 - u / limit) - harvest

    step = t[-1] / 60

    def advance(u, _):
        a = slope(u)
        b = slope(u + step / 2 * a)
        c = slope(u + step / 2 * b)
        d = slope(u + step * c)
        new = u + step / 6 * (a + 2 * b + 2 * c + d)
        return new, new

    _, path = jax.lax.scan(advance, begin, None, length=60)
    return jnp.interp(t, jnp.arange(61) * step, jnp.concatenate([jnp.reshape(begin, (1,)), path]))


_MODELS = {
    "exponential": (
        _exponential,
        lambda r: [r.uniform(1, 5), r.uniform(0.5, 2), r.uniform(0.2, 1)],
    ),
    "two exponentials": (
        _two_exponentials,
        lambda r: [r.uniform(1, 3), r.uniform(0.2, 0.5), r.uniform(1, 3), r.uniform(2, 5)],
    ),
    "peak": (
        _peak,
        lambda r: [
            r.uniform(1, 5),
            r.uniform(1, 3),
            r.uniform(0.2, 0.6),
            r.uniform(0.2, 1),
            r.uniform(0.1, 0.5),
        ],
    ),
    "logistic": (_logistic, lambda r: [r.uniform(1, 5), r.uniform(1.5, 5), r.uniform(1, 3)]),
    "rational": (_rational, lambda r: [r.uniform(1, 3), r.uniform(3, 9), r.uniform(0.5, 2)]),
    "michaelis": (_michaelis, lambda r: [r.uniform(1, 5), r.uniform(0.7, 2.5), r.uniform(1, 3)]),
    "ode": (
        _predator,
        lambda r: [r.uniform(1, 2), r.uniform(3, 6), r.uniform(0.05, 0.2), r.uniform(0.3, 0.8)],
    ),
}
FAMILIES = tuple(_MODELS)


def instance(family: str, seed: int, reach: float = 3.0) -> Instance:
    """Parameters, units, noise, wrong data and start at random.

    The unit of the data is a power of ten, noise is between 0.1 and 5 per cent of the range of
    the curve, up to 40 per cent of the data are moved by 1 to 5 times their range, and the start is
    within a factor of ``reach`` of the truth.
    """
    rng = np.random.default_rng([20261117, seed])
    function, draw = _MODELS[family]
    n = int(rng.integers(30, 200))
    t = np.sort(rng.uniform(0, 4, n))
    t[-1] = 4.0
    truth = np.array(draw(rng))
    clean = np.asarray(function(jnp.asarray(truth), jnp.asarray(t)), np.float64)
    unit = 10.0 ** rng.integers(-6, 7)
    scale = np.ptp(clean)
    noise = scale * 10 ** rng.uniform(-3, np.log10(0.05))
    share = rng.choice([0.0, rng.uniform(0, 0.4)])
    right = rng.random(n) >= share
    y = clean + noise * rng.standard_normal(n)
    moved = rng.uniform(1, 5, n) * scale * rng.choice([-1.0, 1.0], n)
    y = np.where(right, y, y + moved)
    start = truth * reach ** rng.uniform(-1, 1, truth.size)
    return Instance(
        family=family,
        model=lambda x: unit * function(x, t),
        y=unit * y,
        start=start,
        truth=truth,
        right=right,
        wrong=float(np.mean(~right)),
        reach=reach,
    )


def twins(case: Instance) -> list[np.ndarray]:
    """All parameters with the curve of the truth: terms exchanged, a width with another sign."""
    if case.family == "two exponentials":
        return [case.truth, case.truth[[2, 3, 0, 1]]]
    if case.family == "peak":
        return [case.truth, case.truth * np.array([1.0, 1.0, -1.0, 1.0, 1.0])]
    return [case.truth]
