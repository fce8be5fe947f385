"""Random problems through every public entry, each with an oracle.

python -m benchmarks.fuzz --minutes 5 [--only recover,fit] [--seed 7 --once]

A problem may be refused in a sentence (ValueError, TypeError, MemoryError of lemmax's own). All
else is a failure: another exception, a law that is broken, a claim that is wrong, an input or a
state of the process that was changed. Each is printed with its seed, the smallest size at which it
still fails, and what went wrong.
"""

import argparse
import collections
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any

import jax
import numpy as np

from .fuzz_cases import CASES, SIZES, Problem

# Largest sizes that are tried; a failure is tried again at smaller ones.
_SIZES = tuple(range(1, SIZES + 1))
_REFUSALS = (ValueError, TypeError, MemoryError, ImportError)
_SOURCE = str(pathlib.Path(__file__).parents[1] / "src")


class Failure(Exception):
    """What is wrong, in a few words."""


def state() -> dict[str, Any]:
    """What belongs to the process, and must not change."""
    return {
        "jax.config": {k: str(v) for k, v in jax.config.values.items()},
        "numpy.errstate": np.geterr(),
        "numpy.random": np.random.get_state()[2],  # noqa: NPY002
        "folder": os.getcwd(),
        "signal": signal.getsignal(signal.SIGINT),
        "environment": dict(os.environ),
        "recursion": sys.getrecursionlimit(),
    }


def is_sentence(error: BaseException) -> bool:
    """Whether lemmax has said it itself, and in words."""
    frames = traceback.extract_tb(error.__traceback__)
    said = str(error)
    own = any(frame.filename.startswith(_SOURCE) for frame in frames[-3:])
    library = "sklearn" in frames[-1].filename or "sklearn" in frames[-2].filename
    return (own or library) and bool(re.match(r"[A-Z`'\d(/<]", said)) and len(said) < 2000


def run(name: str, seed: int, size: int) -> str:
    """One problem: ``answered`` or ``refused``; a `Failure` otherwise."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    before = state()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = Problem(rng, size, pathlib.Path(folder))
        outcome = "answered"
        try:
            CASES[name](problem)
        except AssertionError as error:
            raise Failure(f"oracle: {error}") from error
        except _REFUSALS as error:
            if not is_sentence(error):
                raise Failure(f"raw {type(error).__name__}: {str(error)[:300]}") from error
            outcome = "refused"
        except Exception as error:
            raise Failure(f"raw {type(error).__name__}: {str(error)[:300]}") from error
        for label, given, copied in problem.inputs:
            if not _same(given, copied):
                raise Failure(f"the input {label} was changed")
    after = state()
    changed = [part for part in before if before[part] != after[part]]
    if changed:
        raise Failure(f"the process was changed: {', '.join(changed)}")
    return outcome


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


def where(failure: Failure) -> str:
    """The last lines that ran, of a failure that may not come again."""
    frames = traceback.extract_tb(failure.__cause__.__traceback__ if failure.__cause__ else None)
    return "\n".join(f"    {each.filename}:{each.lineno} {each.line}" for each in frames[-5:])


def smallest(name: str, seed: int, failure: Failure) -> tuple[int, Failure]:
    """The smallest size at which the same seed still fails."""
    for size in _SIZES:
        try:
            run(name, seed, size)
        except Failure as smaller:
            return size, smaller
    return _SIZES[-1], failure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=2500, help="problems of an entry")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--once", action="store_true", help="this seed alone, with a traceback")
    options = parser.parse_args()
    names = options.only.split(",")
    if options.once:
        for name in names:
            print(name, run(name, options.seed, _SIZES[-1]))
        return
    counts: dict[str, collections.Counter] = {name: collections.Counter() for name in names}
    end, spent = time.monotonic() + 60 * options.minutes, dict.fromkeys(names, 0.0)
    # All entries have the same share of the time, not of the problems: some are a thousand times
    # as cheap as others.
    while time.monotonic() < end and spent:
        name = min(spent, key=lambda each: spent[each])
        seed = options.seed + counts[name].total()
        began = time.process_time()
        try:
            counts[name][run(name, seed, _SIZES[-1])] += 1
        except Failure as failure:
            counts[name]["failed"] += 1
            size, told = smallest(name, seed, failure)
            print(f"{name}: seed {seed}, size {size}: {told}\n{where(failure)}", flush=True)
        spent[name] += time.process_time() - began
        if counts[name].total() >= options.most:
            del spent[name]
    print(f"{'entry':16}{'answered':>10}{'refused':>10}{'failed':>10}")
    for name, count in counts.items():
        print(f"{name:16}" + "".join(f"{count[k]:10d}" for k in ("answered", "refused", "failed")))
    print(f"{sum(count.total() for count in counts.values())} problems")
    sys.exit(any(count["failed"] for count in counts.values()))


if __name__ == "__main__":
    main()
