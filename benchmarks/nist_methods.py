"""Least squares on NIST's problems from both starts: `trust_region` beside optimistix and scipy.

``python -m benchmarks.nist_methods`` counts how many of 54 runs end with six certified digits. All
have the Jacobian of JAX; scipy scales parameters by its columns, and has 1000 evaluations.
"""

import contextlib
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import scipy.optimize

import lemmax as lm

from .fit import digits
from .nist import Problem, problems


def ours(problem: Problem, start: np.ndarray) -> np.ndarray:
    map_ = lm.maps.FromFunction(problem.model)
    fitted = lm.Composite(lm.losses.SquaredL2(), map_, problem.y)
    return np.asarray(lm.solve(fitted, lm.methods.trust_region(), start).x)


def by_optimistix(problem: Problem, start: np.ndarray) -> np.ndarray:
    solver = optx.LevenbergMarquardt(rtol=1e-10, atol=1e-10)
    with jax.enable_x64(True):
        y = jnp.asarray(problem.y)
        found = optx.least_squares(
            lambda b, _: problem.model(b) - y,
            solver,
            jnp.asarray(start),
            max_steps=1000,
            throw=False,
        )
    return np.asarray(found.value)


def by_scipy(problem: Problem, start: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        value, slopes = jax.jit(problem.model), jax.jit(jax.jacfwd(problem.model))
        found = start
        # It does not bear what is not finite.
        with np.errstate(all="ignore"), contextlib.suppress(ValueError):
            found = scipy.optimize.least_squares(
                lambda b: np.asarray(value(b)) - problem.y,
                start,
                jac=lambda b: np.asarray(slopes(b)),
                x_scale="jac",
                max_nfev=1000,
                xtol=1e-12,
                ftol=1e-12,
                gtol=1e-12,
            ).x
    return found


PROGRAMS: dict[str, Callable[[Problem, np.ndarray], np.ndarray]] = {
    "trust_region": ours,
    "optimistix": by_optimistix,
    "scipy": by_scipy,
}


def main() -> int:
    right = dict.fromkeys(PROGRAMS, 0)
    for problem in problems().values():
        for number, start in enumerate(problem.starts, 1):
            words = []
            for name, program in PROGRAMS.items():
                began = time.perf_counter()
                found = digits(program(problem, start), problem.parameters)
                right[name] += found >= 6
                words.append(f"{name} {found:5.1f} ({time.perf_counter() - began:.1f} s)")
            print(f"{problem.name:9} {number}  {'  '.join(words)}", flush=True)
    print("of 54 to 6 digits:", ", ".join(f"{name} {count}" for name, count in right.items()))
    return 0 if right["trust_region"] == 54 else 1


if __name__ == "__main__":
    sys.exit(main())
