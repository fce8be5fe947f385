"""A solve needs little memory beside the stored operator, compilation included."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm

from .measure import Row, in_fresh_process

FACTOR, ALLOWANCE = 1.3, 100e6
_DIM, _RANK, _MEASUREMENTS, _STEPS = 200, 5, 2000, 20
_CASES = {
    "dense": "Dense, asymmetric d=200, m=2000, float64",
    "symmetric": "SymmetricDense, d=200, m=2000, float64 NumPy in while x64 is off",
}
_PROCESS = Path("/proc/self")


def rows() -> Iterator[Row]:
    for case, name in _CASES.items():
        # Only Linux lets a process forget its peak so far.
        if not (_PROCESS / "clear_refs").exists():
            yield Row(f"peak memory, {name}", "needs Linux", "", True, "")
            continue
        found = in_fresh_process("-m", "benchmarks.memory", case)
        stored, bound = found["stored"], FACTOR * found["stored"] + ALLOWANCE
        yield Row(
            what=f"peak memory of a solve, compiling included, {name}",
            measured=_megabytes(found["solve"]),
            bound=f"<= {_megabytes(bound)}",
            passes=found["solve"] <= bound,
            absolute=(
                f"{_megabytes(stored)} stored (bound: {FACTOR} times that + "
                f"{_megabytes(ALLOWANCE)}); {_megabytes(found['built'])} once built"
            ),
        )
        yield Row(
            what=f"arrays as large as the operator during that solve, {name}",
            measured=str(found["large_arrays"]),
            bound="1",
            passes=found["large_arrays"] == 1,
            absolute="JAX arrays alive, seen from a callback",
        )
        yield Row(
            what=f"peak memory of building it beside the caller's array / stored, {name}",
            measured=f"{found['building'] / stored:.2f}x",
            bound="",
            passes=True,
            absolute=f"{_megabytes(found['building'])} of {_megabytes(stored)}",
        )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.0f} MB"


def measure(case: str) -> dict[str, float]:
    """Bytes above those in use before there was an operator. In a process of its own."""
    if case == "dense":
        jax.config.update("jax_enable_x64", True)
    jax.block_until_ready(jnp.ones(1) + 1)  # the backend is not the operator's fault
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((_DIM, _RANK)) / _DIM**0.5
    before = _resident("VmRSS")

    array = rng.standard_normal((_MEASUREMENTS, _DIM, _DIM))
    array /= _MEASUREMENTS**0.5
    data = array.reshape(_MEASUREMENTS, -1) @ np.ravel(truth @ truth.T)
    _forget_peak()
    if case == "dense":
        operator, map = lm.operators.Dense(array), lm.maps.LowRank((_DIM, _DIM), _RANK)
        stored, x0 = operator.matrix, (1.01 * truth, 0.98 * truth)
    else:
        operator, map = lm.operators.SymmetricDense(array), lm.maps.PSD(_DIM, _RANK)
        stored, x0 = operator.packed, 1.01 * truth
    jax.block_until_ready(stored)  # copies are made in the background
    building = _resident("VmHWM") - before - array.nbytes
    assert stored.dtype == np.float64
    stored_bytes = stored.nbytes
    del array, stored
    gc.collect()

    problem = lm.Composite(loss=lm.losses.L1(), map=map, operator=operator, data=data)
    built = _resident("VmRSS") - before
    large_arrays = []

    def count_large_arrays(_) -> None:
        # Several arrays may share one buffer.
        large = [array for array in jax.live_arrays() if array.nbytes >= stored_bytes]
        large_arrays.append(len({array.unsafe_buffer_pointer() for array in large}))

    _forget_peak()
    lm.solve(
        problem,
        lm.methods.lmm(),
        x0,
        tol=0,
        max_steps=_STEPS,
        callback=count_large_arrays,
        every=_STEPS // 2,
    )
    return {
        "stored": stored_bytes,
        "building": building,
        "built": built,
        "solve": _resident("VmHWM") - before,
        "large_arrays": max(large_arrays),
    }


def _resident(field: str) -> int:
    """Bytes in memory now (VmRSS), or at most since the peak was forgotten (VmHWM)."""
    lines = (_PROCESS / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def _forget_peak() -> None:
    (_PROCESS / "clear_refs").write_text("5")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
