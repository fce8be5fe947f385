"""Ctrl-C at random moments and time limits: `lm.recover` must end soon, and without a claim.

    python -m benchmarks.interrupts --count 50

Instances of sensing, tables and tensors are recovered once, so that all is compiled, and then again
with a Ctrl-C at a random moment: that must end within half a second with INTERRUPTED or
KeyboardInterrupt. Larger ones get a time limit, which must be kept to within 20 % or 2 seconds.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import jax
import numpy as np

import lemmax as lm
from lemmax.experiments.instances import psd_sensing
from lemmax.points import KruskalPoint

SOON = 0.5
SLACK_SHARE, SLACK_SECONDS = 0.2, 2.0
LIMITS = (0.5, 3.0)
Call = Callable[..., lm.Recovery]


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


def interrupted(call: Call, moment: float) -> tuple[str, float] | None:
    """How a call ended and how long after the Ctrl-C; None if it ended before."""
    sent: list[float] = []
    over = threading.Event()

    def send() -> None:
        if not over.wait(moment):
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    ended = ""
    try:
        sender.start()
        found = call()
        ended = found.status.name
        over.set()
        sender.join()
    except KeyboardInterrupt:
        # It may come when the answer is there: then nothing was swallowed.
        ended = "KeyboardInterrupt"
    finished = time.perf_counter()
    sender.join()
    return (ended, finished - sent[0]) if sent else None


def check_interrupts(name: str, call: Call, count: int, rng: np.random.Generator) -> int:
    call()
    began = time.perf_counter()
    call()
    whole = time.perf_counter() - began
    delays, ends, failures, missed = [], [], 0, 0
    while len(ends) < count and missed <= count:
        moment = float(rng.uniform(0, whole))
        outcome = interrupted(call, moment)
        if outcome is None:
            missed += 1
            continue
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
