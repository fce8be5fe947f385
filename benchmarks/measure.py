"""How to measure on a machine that does other things too."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

# Thread pools (OpenBLAS's above all) spin for some 30 ms after their last product, and take a
# core away from whoever is measured next: without the pause an iteration seems 1.4 times slower.
_POOLS_FALL_ASLEEP = 0.08


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    bound: str
    """Empty if nothing is promised: the number is there for comparison."""
    passes: bool | None
    """None if that is unclear."""
    absolute: str


class Ratio(NamedTuple):
    """The median over rounds of the ratio within a round, and twice its standard error.

    Within a round both jobs meet the same machine; the median forgets the rounds in which only
    one of them was disturbed.
    """

    median: float
    error: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ± {self.error:.2f}"

    def at_most(self, bound: float) -> bool | None:
        """Whether the bound holds; None if it is exceeded by no more than the noise explains."""
        if self.median <= bound:
            return True
        return None if self.median - self.error <= bound else False

    def at_least(self, bound: float) -> bool | None:
        """The same for a bound from below."""
        return Ratio(-self.median, self.error).at_most(-bound)


class Timings(NamedTuple):
    """Seconds of each job in each round."""

    seconds: dict[str, list[float]]

    def typical(self, name: str) -> float:
        """The median over rounds."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, reference: str) -> Ratio:
        """How many times as long one job takes as another."""
        pairs = zip(self.seconds[name], self.seconds[reference], strict=True)
        ratios = [a / b for a, b in pairs]
        low, median, high = statistics.quantiles(ratios, n=4)
        # Of a median, for a normal distribution with the quartiles seen.
        standard_error = 0.93 * (high - low) / len(ratios) ** 0.5
        return Ratio(median, 2 * standard_error)


def interleave(
    jobs: Mapping[str, Callable[[], float | None]],
    rounds: int,
    passes: Callable[[Timings], bool | None] = lambda timings: True,
) -> Timings:
    """Run the jobs in turn, forwards and backwards alternately, after one round to warm up.

    A job that knows better than the wall clock what it took returns its seconds. Where the
    bound does not seem to hold, as many rounds again are run before that is believed; the
    rounds that said so still count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(2 * rounds + 1):
        if turn == rounds + 1 and passes(Timings(seconds)):
            break
        for name in list(jobs)[:: 1 if turn % 2 else -1]:
            time.sleep(_POOLS_FALL_ASLEEP)
            began = time.perf_counter()
            reported = jobs[name]()
            elapsed = time.perf_counter() - began
            if turn > 0:
                seconds[name].append(elapsed if reported is None else reported)
    return Timings(seconds)


def seconds_each(job: Callable[[], Any], repeats: int) -> float:
    """Time of one call, out of several in a row."""
    began = time.perf_counter()
    for _ in range(repeats):
        job()
    return (time.perf_counter() - began) / repeats


def seconds_of_first_call(job: Callable[[], Any]) -> float:
    """Time of the call that compiles."""
    return seconds_each(job, 1)


def in_fresh_process(*arguments: str) -> Any:
    """Run Python with these arguments; the last line it prints is JSON."""
    finished = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent.parent,
    )
    if finished.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} failed:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])
