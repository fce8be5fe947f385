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
    sigma: np.ndarray | None = None
    """Standard deviations of the data up to a factor, if they differ."""


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


def _damped(x, t):
    return x[0] * jnp.exp(-x[1] * t) * jnp.cos(x[2] * t + x[3])


def _gompertz(x, t):
    return x[0] * jnp.exp(-x[1] * jnp.exp(-x[2] * t))


def _arrhenius(x, t):
    """Of a temperature between 300 and 500; the energy in units of the gas constant."""
    return x[0] * jnp.exp(-x[1] * (1 / (300 + 50 * t) - 1 / 400))


def _lorentzians(x, t):
    return x[0] / (1 + ((t - x[1]) / x[2]) ** 2) + x[3] / (1 + ((t - x[4]) / x[5]) ** 2)


def _power(x, t):
    return x[0] * (t + 0.1) ** x[1] + x[2]


def _hill(x, t):
    return x[0] + (x[1] - x[0]) * t ** x[3] / (x[2] ** x[3] + t ** x[3])


_OTHER_MODELS = {
    "damped oscillation": (
        _damped,
        lambda r: [r.uniform(1, 5), r.uniform(0.1, 0.6), r.uniform(2, 5), r.uniform(0.1, 1.2)],
    ),
    "gompertz": (_gompertz, lambda r: [r.uniform(1, 5), r.uniform(2, 6), r.uniform(0.8, 2)]),
    "arrhenius": (_arrhenius, lambda r: [r.uniform(1, 5), r.uniform(1000, 6000)]),
    "two lorentzians": (
        _lorentzians,
        lambda r: [
            r.uniform(1, 4),
            r.uniform(0.8, 1.4),
            r.uniform(0.15, 0.35),
            r.uniform(1, 4),
            r.uniform(2.4, 3.2),
            r.uniform(0.15, 0.35),
        ],
    ),
    "power with offset": (
        _power,
        lambda r: [r.uniform(1, 5), r.uniform(0.4, 2.5), r.uniform(0.5, 3)],
    ),
    "hill": (
        _hill,
        lambda r: [r.uniform(0.2, 1), r.uniform(2, 6), r.uniform(0.8, 2.2), r.uniform(1.5, 4)],
    ),
}
OTHERS = tuple(_OTHER_MODELS)
"""Families on which no constant of the fit was chosen."""
WRONG = ("anywhere", "one side", "clusters", "end of the range", "none")
"""Where the wrong data of the others are."""


def instance(family: str, seed: int, reach: float = 3.0, share: float | None = None) -> Instance:
    """Parameters, units, noise, wrong data and start at random.

    The unit of the data is a power of ten, noise is between 0.1 and 5 per cent of the range of
    the curve, up to 40 per cent of the data are moved by 1 to 5 times their range, and the start is
    within a factor of ``reach`` of the truth. ``share`` is that of the wrong data, if given.
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
    drawn = rng.choice([0.0, rng.uniform(0, 0.4)])
    right = rng.random(n) >= (drawn if share is None else share)
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


def other_instance(family: str, seed: int, reach: float = 3.0, wrong: str = "") -> Instance:
    """Instances of the other families, of all sorts.

    Between 15 and 500 data, noise between 0.03 and 10 per cent of the range of the curve, in a
    third of the cases growing by up to a factor of ten along the curve with sigma given, units
    between 1e-8 and 1e8. Up to 40 per cent of the data are wrong: anywhere, all on one side, in
    clusters of neighbours that are moved alike, or all at one end.
    """
    rng = np.random.default_rng([20261118, seed])
    function, draw = _OTHER_MODELS[family]
    n = int(np.exp(rng.uniform(np.log(15), np.log(500))))
    t = np.sort(rng.uniform(0, 4, n))
    truth = np.array(draw(rng))
    clean = np.asarray(function(jnp.asarray(truth), jnp.asarray(t)), np.float64)
    unit, scale = 10.0 ** rng.integers(-8, 9), np.ptp(clean)
    noise = scale * 10 ** rng.uniform(-3.5, -1)
    sigma = rng.uniform(1, 10) ** (t / 4) if rng.random() < 1 / 3 else None
    kind = wrong or WRONG[rng.integers(len(WRONG))]
    share = 0.0 if kind == "none" else rng.uniform(0, 0.4)
    count = round(share * n)
    right = np.ones(n, bool)
    moved = rng.uniform(1, 5, n) * scale * rng.choice([-1.0, 1.0], n)
    if kind == "clusters":
        for first in rng.integers(0, n, 3):
            group = np.arange(first, min(first + max(count // 3, 1), n))
            right[group[: max(count - int(np.sum(~right)), 0)]] = False
            moved[group] = rng.choice([-1.0, 1.0]) * rng.uniform(1, 5) * scale
    elif kind == "end of the range":
        # Spread over the last part, so that the others still determine the curve.
        last = np.arange(max(n - 2 * count, 0), n)
        right[rng.choice(last, min(count, len(last)), replace=False)] = False
    else:
        right[rng.choice(n, count, replace=False)] = False
        moved = np.abs(moved) if kind == "one side" else moved
    errors = noise * rng.standard_normal(n) * (1.0 if sigma is None else sigma / np.mean(sigma))
    y = clean + errors + np.where(right, 0.0, moved)
    return Instance(
        family=f"{family}, {kind}",
        model=lambda x: unit * function(x, t),
        y=unit * y,
        start=truth * reach ** rng.uniform(-1, 1, truth.size),
        truth=truth,
        right=right,
        wrong=float(np.mean(~right)),
        reach=reach,
        sigma=sigma,
    )
