"""From data alone: seconds of the first call in a new process, and of the next ones."""

from collections.abc import Iterator

import numpy as np

from .measure import Ratio, Row, Timings, in_fresh_process, interleave

# PSD sensing from data alone takes at most so many times LMM's run from a given start.
BOUND, ERROR = 3.0, 1e-12
_ROUNDS = 5

_CALL = """
import json, time
began = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
{setup}
call()
cold = time.perf_counter() - began
warm = []
for _ in range(5):
    began = time.perf_counter()
    call()
    warm.append(time.perf_counter() - began)
print(json.dumps([cold, sorted(warm)[2]]))
"""
_CALLS = {
    "RobustPCA, 100 x 30, exact": """
from lemmax.estimators import RobustPCA
table = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 30))
table[rng.random(table.shape) < 0.1] = 9
call = lambda: RobustPCA().fit(table)
""",
    "recover, 30 x 30 from 960 measurements, 20 % wrong": """
import lemmax as lm
X = rng.standard_normal((30, 2)) * [1.0, 0.1]
A = rng.standard_normal((960, 30, 30))
b = np.einsum("mij,ij->m", A, X @ X.T)
b[:192] = 20 * rng.standard_normal(192)
operator = lm.operators.SymmetricDense(A)
call = lambda: lm.recover(b, lm.maps.PSD(30, rank=10), operator)
""",
    "recover, CP, 20 x 15 x 12, exact": """
import lemmax as lm
tensor = np.einsum("ia,ja,ka->ijk", *(rng.standard_normal((n, 3)) for n in (20, 15, 12)))
tensor[rng.random(tensor.shape) < 0.1] = 9
call = lambda: lm.recover(tensor, lm.maps.CP((20, 15, 12), rank=5))
""",
}


def rows() -> Iterator[Row]:
    for what, setup in _CALLS.items():
        cold, warm = in_fresh_process("-c", _CALL.format(setup=setup))
        yield Row(
            what=what,
            measured=f"{cold:.1f} s, {warm:.2f} s",
            bound="",
            passes=None,
            absolute="first call with import in a new process; the median of five more",
        )
    yield _beside_lmm()


def _beside_lmm() -> Row:
    import lemmax as lm
    from lemmax.experiments.instances import psd_sensing

    instance = psd_sensing(0, dim=100, rank=5, true_rank=5, measurements=1000)
    problem = instance.problem
    method, start = lm.methods.lmm(lm.steps.Polyak(0.0)), instance.x0
    watched = {"error": instance.error}
    run = lm.solve(problem, method, start, max_steps=800, tol=0.0, metrics=watched)
    steps = int(np.argmax(np.append(run.trace.metrics["error"], 0.0) < ERROR))

    def given() -> None:
        lm.solve(problem, method, start, max_steps=steps, tol=0.0)

    def alone() -> None:
        lm.recover(problem.data, problem.map, problem.operator)

    names = "from data alone", "from a start"
    jobs = dict(zip(names, (alone, given), strict=True))

    def ratio(timings: Timings) -> Ratio:
        return timings.ratio(*names)

    timings = interleave(jobs, _ROUNDS, lambda timings: ratio(timings).at_most(BOUND))
    return Row(
        what="recover / LMM from a given start, 100 x 100 of rank 5 from 1,000 measurements",
        measured=str(ratio(timings)),
        bound=f"<= {BOUND}x",
        passes=ratio(timings).at_most(BOUND),
        absolute=" and ".join(f"{timings.typical(name):.2f} s {name}" for name in names)
        + f" ({steps} steps to an error of {ERROR:.0e})",
    )
