"""The least-squares problems of Moré, Garbow and Hillstrom, from their standard starts.

J. J. Moré, B. S. Garbow, K. E. Hillstrom, Testing unconstrained optimization software, ACM
Transactions on Mathematical Software 7 (1981), 17-41. Numbers, dimensions, starts and minima are
those of the paper. (Problem 11 is as corrected in later collections: the paper misprints a minus.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class Case(NamedTuple):
    """One problem: data that a model explains, or functions that should vanish."""

    name: str
    model: Callable[[Any], Any]
    y: np.ndarray
    start: np.ndarray
    minima: tuple[float, ...]
    """Sums of squares at known minima, local ones too."""
    singular: bool = False
    """Whether the Jacobian has not full rank at the minimum."""


def _range(*ends: float) -> np.ndarray:
    return np.arange(*ends, dtype=float)


def _functions(name, function, start, minima, count, singular=False) -> Case:
    start = np.asarray(start, float)
    return Case(name, function, np.zeros(count), start, tuple(np.atleast_1d(minima)), singular)


def _rosenbrock(x):
    return jnp.stack([10 * (x[1::2] - x[::2] ** 2), 1 - x[::2]], axis=1).ravel()


def _freudenstein(x):
    return jnp.stack(
        [
            -13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
            -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1],
        ]
    )


def _powell_scaled(x):
    return jnp.stack([1e4 * x[0] * x[1] - 1, jnp.exp(-x[0]) + jnp.exp(-x[1]) - 1.0001])


def _brown_scaled(x):
    return jnp.stack([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])


def _beale(x):
    return x[0] * (1 - x[1] ** _range(1, 4))


def _jennrich(x):
    i = _range(1, 11)
    return jnp.exp(i * x[0]) + jnp.exp(i * x[1])


def _helical(x):
    angle = jnp.arctan(x[1] / x[0]) / (2 * np.pi) + jnp.where(x[0] < 0, 0.5, 0.0)
    return jnp.stack([10 * (x[2] - 10 * angle), 10 * (jnp.hypot(x[0], x[1]) - 1), x[2]])


def _bard(x):
    u = _range(1.0, 16)
    v = 16 - u
    return x[0] + u / (v * x[1] + jnp.minimum(u, v) * x[2])


def _gaussian(x):
    t = (8 - _range(1, 16)) / 2
    return x[0] * jnp.exp(-x[1] * (t - x[2]) ** 2 / 2)


def _meyer(x):
    return x[0] * jnp.exp(x[1] / (45 + 5 * _range(1, 17) + x[2]))


_GULF = _range(1, 100) / 100


def _gulf(x):
    y = 25 + (-50 * np.log(_GULF)) ** (2 / 3)
    return jnp.exp(-(jnp.abs(y - x[1]) ** x[2]) / x[0])


def _box(x):
    t = 0.1 * _range(1, 11)
    return jnp.exp(-t * x[0]) - jnp.exp(-t * x[1]) - x[2] * (jnp.exp(-t) - jnp.exp(-10 * t))


def _powell_singular(x):
    a, b, c, d = x[::4], x[1::4], x[2::4], x[3::4]
    parts = [a + 10 * b, np.sqrt(5) * (c - d), (b - 2 * c) ** 2, np.sqrt(10) * (a - d) ** 2]
    return jnp.stack(parts, axis=1).ravel()


def _wood(x):
    return jnp.stack(
        [
            10 * (x[1] - x[0] ** 2),
            1 - x[0],
            np.sqrt(90) * (x[3] - x[2] ** 2),
            1 - x[2],
            np.sqrt(10) * (x[1] + x[3] - 2),
            (x[1] - x[3]) / np.sqrt(10),
        ]
    )


_KOWALIK = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def _kowalik(x):
    u = _KOWALIK
    return x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def _brown_dennis(x):
    t = _range(1, 21) / 5
    return (x[0] + t * x[1] - jnp.exp(t)) ** 2 + (x[2] + x[3] * jnp.sin(t) - jnp.cos(t)) ** 2


def _osborne_1(x):
    t = 10 * _range(33)
    return x[0] + x[1] * jnp.exp(-t * x[3]) + x[2] * jnp.exp(-t * x[4])


def _biggs(x):
    t = 0.1 * _range(1, 14)
    return x[2] * jnp.exp(-t * x[0]) - x[3] * jnp.exp(-t * x[1]) + x[5] * jnp.exp(-t * x[4])


def _osborne_2(x):
    t = _range(65) / 10
    peaks = [x[k] * jnp.exp(-((t - x[k + 7]) ** 2) * x[k + 4]) for k in (1, 2, 3)]
    return x[0] * jnp.exp(-t * x[4]) + peaks[0] + peaks[1] + peaks[2]


def _watson(x):
    t, j = _range(1, 30)[:, None] / 29, _range(x.size)
    slopes = t ** np.maximum(j - 1, 0) * j
    most = slopes @ x - (t**j @ x) ** 2 - 1
    return jnp.concatenate([most, jnp.stack([x[0], x[1] - x[0] ** 2 - 1])])


def _penalty_1(x):
    return jnp.concatenate([np.sqrt(1e-5) * (x - 1), jnp.sum(x**2)[None] - 0.25])


def _penalty_2(x):
    n = x.size
    i = _range(2, n + 1)
    y = np.exp(i / 10) + np.exp((i - 1) / 10)
    return jnp.concatenate(
        [
            x[:1] - 0.2,
            np.sqrt(1e-5) * (jnp.exp(x[1:] / 10) + jnp.exp(x[:-1] / 10) - y),
            np.sqrt(1e-5) * (jnp.exp(x[1:] / 10) - np.exp(-0.1)),
            jnp.sum(_range(n, 0, -1) * x**2)[None] - 1,
        ]
    )


def _variably_dimensioned(x):
    total = jnp.sum(_range(1, x.size + 1) * (x - 1))
    return jnp.concatenate([x - 1, jnp.stack([total, total**2])])


def _trigonometric(x):
    i = _range(1, x.size + 1)
    return x.size - jnp.sum(jnp.cos(x)) + i * (1 - jnp.cos(x)) - jnp.sin(x)


def _brown_almost_linear(x):
    return jnp.concatenate([x[:-1] + jnp.sum(x) - (x.size + 1), jnp.prod(x)[None] - 1])


def _times(n):
    return _range(1, n + 1) / (n + 1)


def _boundary_value(x):
    t, padded = _times(x.size), jnp.pad(x, 1)
    h = 1 / (x.size + 1)
    return 2 * x - padded[:-2] - padded[2:] + h**2 * (x + t + 1) ** 3 / 2


def _integral_equation(x):
    t, h = _times(x.size), 1 / (x.size + 1)
    cube = (x + t + 1) ** 3
    below = jnp.cumsum(t * cube)
    above = jnp.sum((1 - t) * cube) - jnp.cumsum((1 - t) * cube)
    return x + h / 2 * ((1 - t) * below + t * above)


def _broyden_tridiagonal(x):
    padded = jnp.pad(x, 1)
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def _broyden_banded(x):
    i, j = np.indices((x.size, x.size))
    band = (j != i) & (j >= i - 5) & (j <= i + 1)
    return x * (2 + 5 * x**2) + 1 - band.astype(float) @ (x * (1 + x))


def _linear(x):
    full = jnp.pad(x, (0, 20 - x.size))
    return full - 2 / 20 * jnp.sum(x) - 1


def _linear_rank_1(x):
    return _range(1, 21) * jnp.sum(_range(1, x.size + 1) * x) - 1


def _linear_zero_columns(x):
    factors = np.concatenate([[0], _range(1, 19), [0]])
    return factors * jnp.sum((_range(1, x.size + 1) * x)[1:-1]) - 1


def _chebyquad(x):
    below, there = jnp.ones_like(x), 2 * x - 1
    rows = []
    for i in range(1, x.size + 1):
        rows.append(jnp.mean(there) + (1 / (i**2 - 1) if i % 2 == 0 else 0.0))
        below, there = there, 2 * (2 * x - 1) * there - below
    return jnp.stack(rows)


def _data(text: str) -> np.ndarray:
    return np.array([float(number) for number in text.split()])


def cases() -> list[Case]:
    """All of them, in the order of the paper."""
    m, n = 20, 10
    half = _data(".0009 .0044 .0175 .0540 .1295 .2420 .3521 .3989")
    t = 0.1 * _range(1, 14)
    return [
        _functions("Rosenbrock", _rosenbrock, [-1.2, 1], 0, 2),
        _functions("Freudenstein and Roth", _freudenstein, [0.5, -2], [0, 48.9842536792], 2),
        _functions("Powell badly scaled", _powell_scaled, [0, 1], 0, 2),
        _functions("Brown badly scaled", _brown_scaled, [1, 1], 0, 3),
        Case("Beale", _beale, np.array([1.5, 2.25, 2.625]), np.ones(2), (0,)),
        Case(
            "Jennrich and Sampson",
            _jennrich,
            2 + 2 * _range(1.0, 11),
            np.array([0.3, 0.4]),
            (124.362182356,),
            singular=True,
        ),
        _functions("Helical valley", _helical, [-1, 0, 0], 0, 3),
        Case(
            "Bard",
            _bard,
            _data(".14 .18 .22 .25 .29 .32 .35 .39 .37 .58 .73 .96 1.34 2.10 4.39"),
            np.ones(3),
            (8.21487730658e-3, 17.4286933),
        ),
        Case(
            "Gaussian",
            _gaussian,
            np.concatenate([half, half[-2::-1]]),
            np.array([0.4, 1, 0]),
            (1.12793276962e-8,),
        ),
        Case(
            "Meyer",
            _meyer,
            _data(
                "34780 28610 23650 19630 16370 13720 11540 9744 8261 7030 6005 5147 4427 3820 "
                "3307 2872"
            ),
            np.array([0.02, 4000, 250]),
            (87.9458551709,),
        ),
        Case("Gulf research", _gulf, _GULF, np.array([5, 2.5, 0.15]), (0,)),
        _functions("Box three-dimensional", _box, [0, 10, 20], 0, 10),
        _functions("Powell singular", _powell_singular, [3, -1, 0, 1], 0, 4, singular=True),
        _functions("Wood", _wood, [-3, -1, -3, -1], 0, 6),
        Case(
            "Kowalik and Osborne",
            _kowalik,
            _data(".1957 .1947 .1735 .1600 .0844 .0627 .0456 .0342 .0323 .0235 .0246"),
            np.array([0.25, 0.39, 0.415, 0.39]),
            (3.07505603849e-4, 1.02734e-3),
        ),
        _functions("Brown and Dennis", _brown_dennis, [25, 5, -5, -1], 85822.2016264, 20),
        Case(
            "Osborne 1",
            _osborne_1,
            _data(
                ".844 .908 .932 .936 .925 .908 .881 .850 .818 .784 .751 .718 .685 .658 .628 .603 "
                ".580 .558 .538 .522 .506 .490 .478 .467 .457 .448 .438 .431 .424 .420 .414 .411 "
                ".406"
            ),
            np.array([0.5, 1.5, -1, 0.01, 0.02]),
            (5.46489469748e-5,),
        ),
        Case(
            "Biggs EXP6",
            _biggs,
            np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t),
            np.array([1.0, 2, 1, 1, 1, 1]),
            (0, 5.65564992e-3),
        ),
        Case(
            "Osborne 2",
            _osborne_2,
            _data(
                "1.366 1.191 1.112 1.013 .991 .885 .831 .847 .786 .725 .746 .679 .608 .655 .616 "
                ".606 .602 .626 .651 .724 .649 .649 .694 .644 .624 .661 .612 .558 .533 .495 .500 "
                ".423 .395 .375 .372 .391 .396 .405 .428 .429 .523 .562 .607 .653 .672 .708 .633 "
                ".668 .645 .632 .591 .559 .597 .625 .739 .710 .729 .720 .636 .581 .428 .292 .162 "
                ".098 .054"
            ),
            np.array([1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5]),
            (4.01377362935e-2,),
        ),
        _functions("Watson 6", _watson, np.zeros(6), 2.28767005355e-3, 31),
        _functions("Watson 9", _watson, np.zeros(9), 1.39976013820e-6, 31),
        _functions("Watson 12", _watson, np.zeros(12), 4.72238e-10, 31),
        _functions("Extended Rosenbrock", _rosenbrock, [-1.2, 1] * 5, 0, 10),
        _functions(
            "Extended Powell singular", _powell_singular, [3, -1, 0, 1] * 3, 0, 12, singular=True
        ),
        _functions("Penalty I 4", _penalty_1, _range(1, 5), 2.24997750057e-5, 5),
        _functions("Penalty I 10", _penalty_1, _range(1, 11), 7.08765149604e-5, 11),
        _functions("Penalty II 4", _penalty_2, np.full(4, 0.5), 9.37629e-6, 8),
        _functions("Penalty II 10", _penalty_2, np.full(10, 0.5), 2.93660e-4, 20),
        _functions(
            "Variably dimensioned", _variably_dimensioned, 1 - _range(1, n + 1) / n, 0, n + 2
        ),
        _functions("Trigonometric", _trigonometric, np.full(n, 1 / n), [0, 2.79506122e-5], n),
        _functions("Brown almost linear", _brown_almost_linear, np.full(n, 0.5), [0, 1], n),
        _functions("Boundary value", _boundary_value, _times(n) * (_times(n) - 1), 0, n),
        _functions("Integral equation", _integral_equation, _times(n) * (_times(n) - 1), 0, n),
        _functions("Broyden tridiagonal", _broyden_tridiagonal, -np.ones(n), 0, n),
        _functions("Broyden banded", _broyden_banded, -np.ones(n), 0, n),
        _functions("Linear, full rank", _linear, np.ones(n), m - n, m),
        _functions(
            "Linear, rank 1", _linear_rank_1, np.ones(n), m * (m - 1) / (2 * (2 * m + 1)), m, True
        ),
        _functions(
            "Linear, rank 1, zero columns",
            _linear_zero_columns,
            np.ones(n),
            (m**2 + 3 * m - 6) / (2 * (2 * m - 3)),
            m,
            True,
        ),
        _functions("Chebyquad 8", _chebyquad, _times(8), 3.51687372568e-3, 8),
        _functions("Chebyquad 9", _chebyquad, _times(9), 0, 9),
        _functions("Chebyquad 10", _chebyquad, _times(10), [4.77271370e-3, 6.50395480e-3], 10),
    ]
