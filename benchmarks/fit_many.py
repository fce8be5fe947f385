"""`lm.fit_many` beside scipy, and on curves whose outliers are hard to tell from noise.

``python -m benchmarks.fit_many speed`` for seconds of 10,000 curves, ``small`` for how often
outliers of a few standard deviations of the noise are found; ``small --one`` by `lm.fit`.
"""

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

import lemmax as lm


def speed(count: int) -> int:
    """Curves of 100 points beside a loop of curve_fit, and the first call of a new process."""
    t = np.linspace(0.0, 3.0, 100)
    rng = np.random.default_rng(0)
    truth = [rng.uniform(*ends, (count, 1)) for ends in ((1, 3), (0.5, 2), (0, 1))]
    y = truth[0] * np.exp(-truth[1] * t) + truth[2] + 0.02 * rng.standard_normal((count, 100))
    start = np.array([1.0, 1.0, 0.0])
    wrong = rng.random(y.shape) < 0.1
    spoiled_y = np.where(wrong, y + 5, y)
    right = lm.fit_many(_three, np.where(wrong, np.nan, y), start, args=(t,))
    ratios = []
    for name, data, loss, theirs in (
        ("least squares", y, lm.losses.SquaredL2(), _curve_fit),
        ("robust", y, None, _curve_fit),
        ("robust, a tenth wrong", spoiled_y, None, _soft_l1),
    ):
        # Side by side, piece by piece, and the shortest of each: the machine may be busy.
        ours, loop = np.inf, np.inf
        for k in range(5):
            ours = min(
                ours,
                _seconds(lambda d=data, h=loss: lm.fit_many(_three, d, start, args=(t,), loss=h)),
            )
            piece = data[100 * k : 100 * k + 100]
            loop = min(
                loop, _seconds(lambda p=piece, f=theirs: [f(t, row) for row in p]) * count / 100
            )
        ratios.append(loop / ours)
        other = theirs.__name__.strip("_")
        print(f"{count} curves, {name}: {ours:.2f} s, {loop / ours:.1f} times faster than {other}")
    fits = lm.fit_many(_three, spoiled_y, start, args=(t,))
    off = np.max(np.abs(fits.x - right.x) / right.standard_errors, axis=1)
    sure = fits.succeeded
    print(
        f"a tenth wrong: {np.sum(off < 1)} within a standard error of least squares on the others, "
        f"{np.sum(sure & (off > 5))} wrong and sure, {np.sum(~sure & (off < 1))} right and refused"
    )
    ratio = ratios[0]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST], check=True)
    print(f"import and first fit in a new process: {time.perf_counter() - began:.2f} s")
    return int(ratio < 20)


_FIRST = """
import numpy as np, jax.numpy as jnp, lemmax as lm
t = np.linspace(0.0, 3.0, 50)
y = 2 * np.exp(-1.3 * t) + 0.01 * np.cos(40 * t)
assert lm.fit(lambda x: x[0] * jnp.exp(-x[1] * t), y, np.ones(2)).status.succeeded
"""


def _three(x: Any, t: Any) -> Any:
    return x[0] * jnp.exp(-x[1] * t) + x[2]


def _curve_fit(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    def model(t, a, b, c):
        return a * np.exp(-b * t) + c

    return scipy.optimize.curve_fit(model, t, y, (1.0, 1.0, 0.0))[0]


def _soft_l1(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    def residual(x):
        return x[0] * np.exp(-x[1] * t) + x[2] - y

    return scipy.optimize.least_squares(residual, (1.0, 1.0, 0.0), loss="soft_l1", f_scale=0.1).x


def _seconds(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


FAMILIES: dict[str, tuple[Callable, list[tuple[float, float]]]] = {
    "exponential": (_three, [(1, 3), (0.5, 2), (0, 1)]),
    "peak": (
        lambda x, t: x[0] * jnp.exp(-(((t - x[1]) / x[2]) ** 2) / 2) + x[3],
        [(1, 3), (1, 2), (0.2, 0.5), (0, 1)],
    ),
    "logistic": (lambda x, t: x[0] / (1 + jnp.exp(-x[1] * (t - x[2]))), [(1, 3), (2, 5), (1, 2)]),
    "michaelis": (lambda x, t: x[0] * t / (x[1] + t), [(1, 3), (0.3, 1)]),
}
"""Models, and the ranges of their parameters."""
_POINTS, _NOISE = 60, 0.01


def small(count: int, first: int, one: bool) -> int:
    """Outliers of 6 to 200 standard deviations of the noise, to one side or to both.

    An answer is right within a standard error of least squares on the inliers, and wrong beyond
    five.
    """
    t = np.linspace(0.0, 3.0, _POINTS)
    print("share, size, sides: right, wrong and sure, right and refused; of all families")
    for share, size, sides in itertools.product((0.05, 0.2, 0.35), (6, 12, 40, 200), (1, 2)):
        told = np.zeros(3, int)
        for family, (model, ends) in enumerate(FAMILIES.values()):
            rng = np.random.default_rng([first, family, round(100 * share), size, sides])
            truth = np.stack([rng.uniform(*end, count) for end in ends], axis=1)
            with jax.enable_x64(True):
                clean = np.stack([np.asarray(model(x, t)) for x in truth])
            y = clean + _NOISE * rng.standard_normal(clean.shape)
            wrong = rng.random(y.shape) < share
            moved = size * _NOISE * rng.uniform(0.8, 1.5, y.shape)
            moved *= 1.0 if sides == 1 else rng.choice([-1.0, 1.0], y.shape)
            start = truth * 1.3 ** rng.uniform(-1, 1, truth.shape)
            squares = lm.losses.SquaredL2()
            alone = np.where(wrong, np.nan, y)
            best = lm.fit_many(model, alone, truth, args=(t,), loss=squares)
            x, sure = _answers(model, np.where(wrong, y + moved, y), start, t, one)
            off = np.max(np.abs(x - best.x) / best.standard_errors, axis=1)
            told += np.array([np.sum(off < 1), np.sum(sure & (off > 5)), np.sum(~sure & (off < 1))])
        print(f"{share:.0%}, {size}, {sides}: {told[0]}, {told[1]}, {told[2]} of {4 * count}")
    return 0


def _answers(
    model: Callable, y: np.ndarray, start: np.ndarray, t: np.ndarray, one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of all curves, and whether they are sure."""
    if not one:
        fits = lm.fit_many(model, y, start, args=(t,))
        return fits.x, fits.succeeded
    each = [lm.fit(model, row, begin, args=(t,)) for row, begin in zip(y, start, strict=True)]
    return np.stack([fit.x for fit in each]), np.array([fit.status.succeeded for fit in each])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "small"])
    parser.add_argument("--count", type=int, default=250, help="curves of each family")
    parser.add_argument("--first", type=int, default=0, help="the seed")
    parser.add_argument("--one", action="store_true", help="each curve by lm.fit")
    chosen = parser.parse_args()
    if chosen.what == "speed":
        return speed(10_000)
    return small(chosen.count, chosen.first, chosen.one)


if __name__ == "__main__":
    sys.exit(main())
