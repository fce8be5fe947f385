"""An iteration costs little more than reading the measurement array twice."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax.experiments.instances import Instance, low_rank_sensing, psd_sensing

from .measure import Row, Timings, interleave, seconds_each

BOUND = 1.5
_ROUNDS = 9


def rows() -> Iterator[Row]:
    psd = psd_sensing(0, dim=100, rank=5, measurements=1000)
    yield _row("PSD, d=100, r=5, m=1000", psd, psd.problem.operator.packed, steps=150)
    asymmetric = low_rank_sensing(0, shape=(100, 100), rank=5, measurements=2000)
    stored = asymmetric.problem.operator.matrix
    yield _row("asymmetric, d=100, r=5, m=2000", asymmetric, stored, steps=40)


def _row(name: str, instance: Instance, stored: jax.Array, steps: int) -> Row:
    array = np.array(stored)  # a copy in NumPy's own memory
    rng = np.random.default_rng(0)
    point = rng.standard_normal(array.shape[1])
    signs = np.sign(rng.standard_normal(array.shape[0]))
    method = lm.methods.lmm()
    total = jax.jit(jnp.sum)
    compiling = []

    def iterations() -> float:
        result = lm.solve(instance.problem, method, instance.x0, tol=0, max_steps=steps)
        compiling.append(result.compile_seconds)
        return result.seconds / int(result.steps)

    def products() -> float:
        return seconds_each(lambda: (array @ point, signs @ array), steps)

    def reading_twice() -> float:
        return 2 * seconds_each(lambda: jax.block_until_ready(total(stored)), steps)

    def passes(timings: Timings) -> bool | None:
        return timings.ratio("iteration", "products").at_most(BOUND)

    jobs = {"iteration": iterations, "products": products, "reading": reading_twice}
    timings = interleave(jobs, _ROUNDS, passes)
    ratio = timings.ratio("iteration", "products")
    iteration = timings.typical("iteration")
    rate = 2 * array.nbytes / iteration / 1e9
    # The fastest this machine was seen to read the array twice, with next to no arithmetic.
    floor = min(timings.seconds["reading"] + timings.seconds["products"])
    return Row(
        what=f"LMM iteration / two NumPy products, {name}",
        measured=str(ratio),
        bound=f"<= {BOUND}x",
        passes=passes(timings),
        absolute=(
            f"{iteration * 1e3:.2f} ms: {array.nbytes / 1e6:.0f} MB read twice at {rate:.0f} GB/s; "
            f"NumPy {timings.typical('products') * 1e3:.2f} ms, memory floor {floor * 1e3:.2f} ms "
            f"(fastest sum or product seen); compile {compiling[0]:.1f} s apart"
        ),
    )
