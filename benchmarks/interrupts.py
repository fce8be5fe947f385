"""Ctrl-C at random moments and time limits: calls must end soon, and without a claim.

    python -m benchmarks.interrupts --count 15

Every entry (`recover` of sensing, tables and tensors, `solve`, `solve_many`, `fit`, estimators) is
called once, so that all is compiled, and then again with a Ctrl-C at a random moment: that must end
within half a second with INTERRUPTED or KeyboardInterrupt. Larger instances of `recover` get a time
limit, which must be kept to within 20 % or 2 seconds.
"""

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax.estimators import CPDecomposition, MatrixCompletion, NonnegativeRegression, RobustPCA
from lemmax.experiments.instances import psd_sensing
from lemmax.points import KruskalPoint

SOON = 0.5
SLACK_SHARE, SLACK_SECONDS = 0.2, 2.0
LIMITS = (0.5, 3.0)
Call = Callable[..., Any]


def sensing(dim: int, measurements: int, noise: float) -> Call:
    """Measurements of a matrix of rank 3, a fifth of them wrong."""
    problem = psd_sensing(
        0, dim=dim, rank=5, true_rank=3, measurements=measurements, outliers=0.2
    ).problem
    data = np.array(problem.data)
    data += noise * np.std(data) * np.random.default_rng(0).standard_normal(data.shape)
    return lambda **options: lm.recover(data, problem.map, problem.operator, **options)


def entries(shape: tuple[int, ...], noise: float) -> Call:
    """A table or tensor of rank 3, a tenth of it wrong."""
    rng = np.random.default_rng(0)
    truth = np.array(KruskalPoint([rng.standard_normal((n, 3)) for n in shape]).dense())
    data = truth + noise * np.std(truth) * rng.standard_normal(shape)
    data = np.where(rng.random(shape) < 0.1, 10 * rng.standard_normal(shape), data)
    map = lm.maps.LowRank(shape, 5) if len(shape) == 2 else lm.maps.CP(shape, 5)
    return lambda **options: lm.recover(data, map, **options)


def table(rows: int, columns: int) -> np.ndarray:
    """Of rank 3 with noise, holes and wrong cells."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, columns))
    table += 0.3 * rng.standard_normal(table.shape)
    table[rng.random(table.shape) < 0.1] = 9.0
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def fronts() -> dict[str, Call]:
    """The entries beside `recover`."""
    rng, cells = np.random.default_rng(0), table(400, 60)
    rows, columns = np.nonzero(rng.random((600, 300)) < 0.1)
    ratings = rows, columns, rng.standard_normal(len(rows)) + np.sin(rows) * np.cos(columns)
    tensor = np.einsum("ir,jr,kr->ijk", *(rng.standard_normal((d, 3)) for d in (30, 25, 20)))
    tensor += 0.1 * rng.standard_normal(tensor.shape)
    own = psd_sensing(0, dim=20, rank=5, true_rank=3, measurements=600, outliers=0.2)
    slow = lm.methods.lmm(lm.steps.Geometric(0.3, 0.9999), lm.damping.Geometric(1.0, 0.9999))
    runs = [lm.Run(own.problem, slow, own.x0) for _ in range(4)]
    t = np.linspace(0.0, 10.0, 200)
    y = np.sin(2.3 * t) + 0.5 * np.sin(5.1 * t) + 0.1 * rng.standard_normal(200)
    y[::7] += 4.0
    start = {"a": 1.0, "b": 1.0, "f": 1.0, "g": 3.0}

    def waves(x: Any, t: Any) -> Any:
        return x["a"] * jnp.sin(x["f"] * t) + x["b"] * jnp.sin(x["g"] * t)

    X = rng.standard_normal((3000, 150))
    z = X @ np.abs(rng.standard_normal(150)) + rng.standard_normal(3000)
    return {
        "solve": lambda: lm.solve(own.problem, slow, own.x0, max_steps=3000, tol=0.0),
        "solve_many": lambda: lm.solve_many(runs, max_steps=1000, tol=0.0, every=10),
        "fit": lambda: lm.fit(waves, y, start, args=(t,)),
        "RobustPCA": lambda: RobustPCA().fit(cells),
        "MatrixCompletion": lambda: MatrixCompletion().fit(ratings),
        "CPDecomposition": lambda: CPDecomposition(4).fit(tensor),
        "NonnegativeRegression": lambda: NonnegativeRegression("robust").fit(X, z),
    }


def name_of(found: Any) -> str:
    """How a call ended, by what it returned."""
    status = getattr(found, "status", getattr(found, "status_", None))
    return "an answer" if status is None else str(getattr(status, "name", status))


def interrupted(call: Call, moment: float) -> tuple[str, float] | None:
    """How a call ended, and after how much work since the Ctrl-C; None if it ended before.

    Work is the processor's time: others may keep the machine busy.
    """
    sent: list[float] = []
    over = threading.Event()

    def send() -> None:
        if not over.wait(moment):
            sent.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    ended = ""
    try:
        sender.start()
        found = call()
        ended = name_of(found)
        over.set()
        sender.join()
    except KeyboardInterrupt:
        # It may come when the answer is there: then nothing was swallowed.
        ended = "KeyboardInterrupt"
    finished = time.process_time()
    sender.join()
    return (ended, finished - sent[0]) if sent else None


def check_interrupts(name: str, call: Call, count: int, rng: np.random.Generator) -> int:
    call()
    began = time.perf_counter()
    call()
    whole = time.perf_counter() - began
    delays, ends, failures, missed = [], [], 0, 0
    while len(ends) < count and missed <= 10 * count:
        moment = float(rng.uniform(0, whole))
        outcome = interrupted(call, moment)
        if outcome is None:
            missed += 1
            continue
        if outcome[1] > SOON:
            # What an interruption leads to may have been compiled: it counts the second time.
            outcome = interrupted(call, moment) or outcome
        ended, delay = outcome
        ends.append(ended)
        delays.append(delay)
        claims = ended not in ("INTERRUPTED", "KeyboardInterrupt")
        if claims or delay > SOON:
            failures += 1
            told = "a claim" if claims else "late"
            print(
                f"  {name}: {told}: Ctrl-C after {moment:.3f} s of {whole:.3f}: {ended}, "
                f"{delay:.2f} s later"
            )
    if not ends:
        print(f"{name}: it always ended before the Ctrl-C")
        return 1
    counts = ", ".join(f"{ends.count(end)} {end}" for end in sorted(set(ends)))
    print(
        f"{name}: {counts}; ends after {np.median(delays):.2f} s, {max(delays):.2f} at most, "
        f"of {whole:.2f} s without; {failures} failures"
    )
    return failures


def check_limits(name: str, call: Call) -> int:
    failures = 0
    for limit in LIMITS:
        for state in ("new", "compiled"):
            began = time.perf_counter()
            found = call(max_seconds=limit)
            took = time.perf_counter() - began
            late = took > limit + max(SLACK_SHARE * limit, SLACK_SECONDS)
            early = took < limit and found.status is lm.RecoveryStatus.INTERRUPTED
            failures += late or early
            print(
                f"{name}, {state}, at most {limit} s: {found.status.name} after {took:.2f} s"
                f"{', too late' if late else ', before its time' if early else ''}"
            )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=50, help="interrupts of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("parts", nargs="*", help="interrupts, limits; both if none is named")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(arguments.seed)
    parts = arguments.parts or ["interrupts", "limits"]
    failures = 0
    if "interrupts" in parts:
        for name, call in {
            "sensing, exact": sensing(20, 600, 0.0),
            "sensing, noisy": sensing(20, 600, 1e-2),
            "table, exact": entries((60, 40), 0.0),
            "table, noisy": entries((200, 100), 1e-2),
            "tensor, exact": entries((20, 15, 12), 0.0),
            "tensor, noisy": entries((20, 15, 12), 1e-2),
            **fronts(),
        }.items():
            failures += check_interrupts(name, call, arguments.count, rng)
    if "limits" in parts:
        for name, call in {
            "sensing, noisy, 60": sensing(60, 3000, 1e-2),
            "table, noisy, 1500": entries((1500, 1500), 1e-2),
            "tensor, noisy, 80": entries((80, 80, 80), 1e-2),
        }.items():
            failures += check_limits(name, call)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
