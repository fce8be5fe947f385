"""`lm.fit` of many parameters: bytes, seconds and wrong data, beside scipy and optimistix.

``python -m benchmarks.fit_large field --size 100``, ``curves --size 5000``, ``net --size 100``.
Each program runs in a process of its own, so that its peak of memory is its own. The answer of
every program is compared with the truth: the root mean square error of what was fitted.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse


class Case(NamedTuple):
    """A model of many parameters, and data of which some are wrong."""

    model: Callable[..., Any]
    args: tuple
    y: np.ndarray
    start: np.ndarray
    truth: np.ndarray
    """What the model returns without noise, for the data that are no prior."""
    wrong: np.ndarray
    sigma: np.ndarray


def _field(u: Any, i: Any, j: Any, a: Any, b: Any) -> Any:
    """Values of exp(field) between the points of a grid, and its differences, which are a prior."""
    grid = round(u.size**0.5)
    field = u.reshape(grid, grid)
    height = jnp.exp(field)
    value = (
        height[i, j] * (1 - a) * (1 - b)
        + height[i + 1, j] * a * (1 - b)
        + height[i, j + 1] * (1 - a) * b
        + height[i + 1, j + 1] * a * b
    )
    rough = [jnp.diff(field, axis=0).ravel(), jnp.diff(field, axis=1).ravel()]
    return jnp.concatenate([value, *rough])


def field(size: int, seed: int, share: float) -> Case:
    """A smooth field on a grid of size x size, seen at ten random places per point of the grid."""
    rng = np.random.default_rng(seed)
    count = 10 * size * size
    places = rng.uniform(0, size - 1.001, (2, count))
    corner = places.astype(np.int32)
    args = (corner[0], corner[1], *(places - corner))
    axis = np.linspace(0, 1, size)
    true = np.sin(5 * axis)[:, None] * np.cos(4 * axis)[None, :] + axis[:, None]
    with jax.enable_x64(True):
        clean = np.asarray(_field(jnp.asarray(true.ravel()), *map(jnp.asarray, args)))
    y = clean.copy()
    y[:count] += 0.1 * rng.standard_normal(count)
    y[count:] = 0.0
    wrong = np.zeros(len(y), bool)
    wrong[rng.choice(count, round(share * count), replace=False)] = True
    y[wrong] += rng.choice([-5.0, 5.0], int(wrong.sum()))
    sigma = np.where(np.arange(len(y)) < count, 0.1, 6.0 / size)
    return Case(_field, args, y, np.zeros(size * size), clean[:count], wrong, sigma)


def _curves(u: Any, t: Any) -> Any:
    own = jnp.exp(u[:-2].reshape(2, -1))
    return (own[0][:, None] * jnp.exp(-own[1][:, None] * t) + u[-2] + u[-1] * t).ravel()


def curves(size: int, seed: int, share: float) -> Case:
    """Decays with heights and rates of their own (as logarithms), and a baseline that all share."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 3.0, 20)
    own = np.log(np.concatenate([rng.uniform(1, 2, size), rng.uniform(0.5, 2, size)]))
    true = np.concatenate([own, [0.3, 0.1]])
    with jax.enable_x64(True):
        clean = np.asarray(_curves(jnp.asarray(true), jnp.asarray(t)))
    y = clean + 0.02 * rng.standard_normal(clean.size)
    wrong = rng.random(clean.size) < share
    y[wrong] += rng.choice([-3.0, 3.0], int(wrong.sum()))
    return Case(_curves, (t,), y, np.zeros(2 * size + 2), clean, wrong, np.full(clean.size, 0.02))


def _net(u: Any, x: Any) -> Any:
    width = (u.size - 1) // 4
    first, bias, last = (
        u[: 2 * width].reshape(2, width),
        u[2 * width : 3 * width],
        u[3 * width : -1],
    )
    return jnp.tanh(x @ first + bias[None, :]) @ last + u[-1]


def net(size: int, seed: int, share: float) -> Case:
    """A neural net of one hidden layer on a surface, a thousand data per unit of the layer."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (1000 * size, 2))
    clean = np.sin(4 * x[:, 0]) * np.cos(3 * x[:, 1]) + x[:, 0] * x[:, 1]
    y = clean + 0.05 * rng.standard_normal(len(x))
    wrong = rng.random(len(x)) < share
    y[wrong] += rng.choice([-5.0, 5.0], int(wrong.sum()))
    start = np.concatenate(
        [2 * rng.standard_normal(3 * size), rng.standard_normal(size + 1) / size]
    )
    return Case(_net, (x,), y, start, clean, wrong, np.full(len(x), 0.05))


CASES = {"field": field, "curves": curves, "net": net}


def lemmax(case: Case, jacobian: str) -> tuple[np.ndarray, str]:
    import lemmax as lm

    fitted = lm.fit(
        case.model,
        case.y,
        case.start,
        args=case.args,
        sigma=case.sigma,
        jacobian=getattr(lm.jacobians, jacobian)(),
    )
    found = np.zeros(len(case.y), bool)
    found[fitted.outliers] = True
    missed, swamped = int(np.sum(case.wrong & ~found)), int(np.sum(found & ~case.wrong))
    words = f"{fitted.status.name}, {missed} wrong data missed, {swamped} right ones called wrong"
    return np.asarray(fitted.x), words


def scipy_least_squares(case: Case, sparse: bool) -> tuple[np.ndarray, str]:
    """soft_l1 told the noise, as a user would."""
    import lemmax as lm
    from lemmax.methods.jacobians.sparse import Colouring, entries

    with jax.enable_x64(True):
        args = tuple(map(jnp.asarray, case.args))
        sigma, y = jnp.asarray(case.sigma), jnp.asarray(case.y)
        residual = jax.jit(lambda u: (case.model(u, *args) - y) / sigma)
        if sparse:
            problem = lm.Composite(
                lm.losses.SquaredL2(), lm.maps.FromFunction(residual), np.zeros(len(case.y))
            )
            colouring = Colouring.of(problem, jnp.asarray(case.start))

            def jacobian(u: np.ndarray) -> Any:
                return colouring.matrix(entries(problem, jnp.asarray(u), colouring))

        else:
            push = jax.jit(lambda u, v: jax.jvp(residual, (u,), (v,))[1])
            pull = jax.jit(lambda u, w: jax.vjp(residual, u)[1](w)[0])

            def jacobian(u: np.ndarray) -> Any:
                return scipy.sparse.linalg.LinearOperator(
                    (len(case.y), u.size),
                    matvec=lambda v: np.asarray(push(u, np.ravel(v).astype(float))),
                    rmatvec=lambda w: np.asarray(pull(u, np.ravel(w).astype(float))),
                    dtype=float,
                )

        found = scipy.optimize.least_squares(
            lambda u: np.asarray(residual(u)),
            case.start,
            jac=jacobian,
            tr_solver="lsmr",
            loss="soft_l1",
            x_scale="jac" if sparse else 1.0,
            max_nfev=100,
        )
    return found.x, f"status {found.status}"


def optimistix(case: Case) -> tuple[np.ndarray, str]:
    """Least squares on all data (it has no other loss), with conjugate gradients."""
    import lineax
    import optimistix as optx

    with jax.enable_x64(True):
        args = tuple(map(jnp.asarray, case.args))
        sigma, y = jnp.asarray(case.sigma), jnp.asarray(case.y)
        solver = optx.LevenbergMarquardt(
            rtol=1e-6, atol=1e-6, linear_solver=lineax.NormalCG(rtol=1e-3, atol=1e-6)
        )
        found = optx.least_squares(
            lambda u, _: (case.model(u, *args) - y) / sigma,
            solver,
            jnp.asarray(case.start),
            max_steps=100,
            throw=False,
        )
    return np.asarray(found.value), "least squares on all data"


PROGRAMS: dict[str, Callable[[Case], tuple[np.ndarray, str]]] = {
    "lemmax Products": lambda case: lemmax(case, "Products"),
    "lemmax Sparse": lambda case: lemmax(case, "Sparse"),
    "lemmax Dense": lambda case: lemmax(case, "Dense"),
    "scipy sparse, soft_l1": lambda case: scipy_least_squares(case, True),
    "scipy lsmr, soft_l1": lambda case: scipy_least_squares(case, False),
    "optimistix": optimistix,
}


def run(case: Case, name: str) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    found, words = PROGRAMS[name](case)
    taken = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with jax.enable_x64(True):
        made = np.asarray(case.model(jnp.asarray(found), *map(jnp.asarray, case.args)))
    error = float(np.sqrt(np.mean((made[: len(case.truth)] - case.truth) ** 2)))
    return {"seconds": taken, "megabytes": (peak - before) / 1024, "error": error, "words": words}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=CASES)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wrong", type=float, default=0.05, help="share of wrong data")
    parser.add_argument("--programs", nargs="*", default=["lemmax Products"], choices=PROGRAMS)
    parser.add_argument("--one", help="run this one here, and print JSON")
    parser.add_argument("--most", type=float, default=600, help="seconds for each program")
    chosen = parser.parse_args()
    case = CASES[chosen.what](chosen.size, chosen.seed, chosen.wrong)
    if chosen.one:
        print(json.dumps(run(case, chosen.one)))
        return 0
    n, p = len(case.y), len(case.start)
    print(f"{chosen.what}: {n} data, {p} parameters, dense Jacobian {8e-6 * n * p:.0f} MB")
    for name in chosen.programs:
        command = [sys.executable, "-m", "benchmarks.fit_large", chosen.what]
        command += ["--size", str(chosen.size), "--seed", str(chosen.seed)]
        command += ["--wrong", str(chosen.wrong), "--one", name]
        try:
            out = subprocess.run(command, capture_output=True, text=True, timeout=chosen.most)
            row = json.loads(out.stdout.splitlines()[-1]) if out.returncode == 0 else None
        except subprocess.TimeoutExpired:
            print(f"  {name:22} not done after {chosen.most:.0f} s", flush=True)
            continue
        if row is None:
            print(f"  {name:22} failed: {out.stderr.splitlines()[-1][:120]}", flush=True)
            continue
        print(
            f"  {name:22} {row['seconds']:7.1f} s {row['megabytes']:6.0f} MB, error "
            f"{row['error']:.4f}, {row['words']}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
